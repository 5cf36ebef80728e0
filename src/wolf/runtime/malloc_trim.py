"""The memory of a long run: what the C library keeps for later counts towards its peak, used or not."""

import ctypes
import os
from typing import Any

ARENA_MAX = -8  # M_ARENA_MAX of glibc's malloc.h


def share_arena() -> None:
    """Let all threads that come allocate in one place: each keeps what it freed in its own otherwise."""
    _call("mallopt", ARENA_MAX, 1)


def trim_heap() -> None:
    """Give the system what was used and freed, by a compiler or by text that has become numbers."""
    _call("malloc_trim", 0)


def _call(name: str, *arguments: int) -> None:
    """Call a function of glibc; other C libraries do not have it, and do without."""
    function: Any = getattr(ctypes.CDLL(None), name, None) if os.name == "posix" else None
    if function is not None:
        function(*arguments)
