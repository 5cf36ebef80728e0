"""Imports without looking for rubbish: a quarter of the time of importing JAX goes into that, and it finds none."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Leave Python's collector of cycles out while modules are imported.

    Afterwards what they made counts as old, since it stays until the end, and the collector goes on as before. Whoever
    has switched it off, or has frozen something, keeps that.

    Example:
        >>> with gc_paused():
        ...     print(gc.isenabled())
        False
        >>> gc.isenabled()
        True
    """
    if not gc.isenabled() or gc.get_freeze_count():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.unfreeze()  # to the oldest generation, without going through it
        gc.enable()
