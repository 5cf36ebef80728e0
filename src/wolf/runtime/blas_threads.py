"""LAPACK on one thread while XLA calls it from the steps of a filter.

XLA calls the LAPACK of SciPy, which distributes even a system of 30 equations over all cores. The overhead exceeds the
work, and between two calls the other threads busy-wait: a filter of 64 states took 1.6 times as long, and kept two
cores busy.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

MAX_SIZE = 512  # rows up to which one thread is faster, by far on two cores


_limiting_run = threading.Lock()  # held by the run that has limited the number of threads


@contextmanager
def one_thread(size: int) -> Iterator[None]:
    """Limit LAPACK to one thread, unless its matrices are large.

    The setting is process-wide. The first run sets and restores it; concurrent runs leave it alone, so that a limited
    value is never taken for the original one.

    Args:
        size: rows of the largest matrix that is factorised.
    """
    if size > MAX_SIZE or not _limiting_run.acquire(blocking=False):
        yield
        return
    try:
        with _libraries().limit(limits=1):
            yield
    finally:
        _limiting_run.release()


@cache
def _libraries() -> "ThreadpoolController":
    """Find the loaded BLAS libraries. XLA loads SciPy's at its first call; it is loaded here to be found."""
    import scipy.linalg.cython_lapack  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
