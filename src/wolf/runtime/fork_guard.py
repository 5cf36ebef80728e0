"""Children made by `fork`: they have JAX's memory and none of its threads, so a run in one would wait for good."""

import os
import sys

_started = False  # JAX's threads, in the parent, when it forked
_lost = False  # they are, in this process


def check() -> None:
    """Refuse to run in a child made by `fork` after JAX was used; one made before, or by "spawn", is sound.

    Raises:
        RuntimeError: what happened, and what to do.
    """
    if _lost:
        raise RuntimeError(
            "this process was made by fork after JAX was used, and wolf would hang in it: use the start method "
            '"spawn", as multiprocessing.get_context("spawn")'
        )


def _before() -> None:
    global _started  # asked in the parent: in the child a lock of JAX may be held by nobody
    bridge = sys.modules.get("jax._src.xla_bridge")
    _started = bool(getattr(bridge, "backends_are_initialized", bool)())


def _in_child() -> None:
    global _lost
    _lost = _lost or _started


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(before=_before, after_in_child=_in_child)
