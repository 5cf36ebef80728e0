"""LAPACK on one thread while XLA calls it from the steps of a filter.

XLA takes LAPACK from SciPy, whose library shares even a system of 30 equations out over all cores. What that takes is
longer than the work, and between two calls the other threads wait by turning in circles: a filter of 64 states took
1.6 times as long, and kept two cores busy with it.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

LARGEST = 512  # rows up to which one thread is quicker, on two cores by far


_held = threading.Lock()  # by the run that has set the number of threads


@contextmanager
def one_thread(size: int) -> Iterator[None]:
    """Keep the factorisations of matrices that are not large on the thread that asks for them.

    The setting is one for the whole process. Who comes first sets it, and puts it back as it was; runs beside that take
    it as it is, so that it never is put back by somebody who found it changed.

    Args:
        size: rows of the largest of them.
    """
    if size > LARGEST or not _held.acquire(blocking=False):
        yield
        return
    try:
        with _libraries().limit(limits=1):
            yield
    finally:
        _held.release()


@cache
def _libraries() -> Any:
    """Find the libraries; XLA would load SciPy's at the first call, and it has to be there to be found."""
    import scipy.linalg.cython_lapack  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
