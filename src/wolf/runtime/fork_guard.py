"""Guard against use after `fork`: a child has JAX's memory but none of its threads, so its runs would deadlock."""

import os
import sys

_had_threads = False  # whether JAX's threads existed in the parent when it forked
_lost = False  # whether this process was forked while they existed


def check() -> None:
    """Raise in a child forked after JAX was used; children forked earlier or started by "spawn" are unaffected.

    Raises:
        RuntimeError: the process was forked after JAX was used.
    """
    if _lost:
        raise RuntimeError(
            "this process was forked after JAX was used, so wolf would deadlock in it; use the start method "
            '"spawn", as multiprocessing.get_context("spawn")'
        )


def _before() -> None:
    global _had_threads  # set in the parent: in the child a lock of JAX may be held by a thread that does not exist
    bridge = sys.modules.get("jax._src.xla_bridge")
    # a private function of JAX, which other versions may lack
    _had_threads = bool(getattr(bridge, "backends_are_initialized", bool)())


def _in_child() -> None:
    global _lost
    _lost = _lost or _had_threads


if sys.platform != "win32":
    os.register_at_fork(before=_before, after_in_child=_in_child)
