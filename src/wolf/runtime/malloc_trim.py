"""Memory of a long run: return what the C library keeps for later allocations, which counts towards the peak."""

import ctypes
import sys

ARENA_MAX = -8  # M_ARENA_MAX of glibc's malloc.h


def share_arena() -> None:
    """Use one malloc arena for all new threads; otherwise each keeps what it freed in an arena of its own."""
    _call_glibc("mallopt", ARENA_MAX, 1)


def trim_heap() -> None:
    """Return freed heap memory to the operating system, as after compiling or after parsing text."""
    _call_glibc("malloc_trim", 0)


def _call_glibc(name: str, *arguments: int) -> None:
    """Call a function of glibc, if the C library has it; others need no such call."""
    # other C libraries lack the function
    function = getattr(ctypes.CDLL(None), name, None) if sys.platform != "win32" else None
    if function is not None:
        function(*arguments)
