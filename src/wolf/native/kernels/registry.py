"""The native kernels, by the key that `wolf.numerics.native_kernel` marks a function with."""

from collections.abc import Callable, Sequence

import numpy as np

from wolf.native.ir.graph import Graph

Translation = Callable[[Graph, Sequence[np.ndarray]], list[np.ndarray] | None]
_translations: dict[str, Translation] = {}


class UnregisteredKernelError(LookupError):
    """A function is marked for a native kernel that does not exist."""


def implements(key: str) -> Callable[[Translation], Translation]:
    """Register the implementation of a kernel.

    Args:
        key: as in `wolf.numerics.native_kernel.native_kernel`.

    Returns:
        A decorator for a function that adds the kernel to a graph, given the node numbers of its arguments, and returns
        those of its results; or None where the operations themselves are cheaper.
    """

    def register(translation: Translation) -> Translation:
        if key in _translations:
            raise ValueError(f"a native kernel is registered for {key!r} already")
        _translations[key] = translation
        return translation

    return register


def translation_of(key: str) -> Translation:
    """Return the implementation of a kernel.

    Raises:
        UnregisteredKernelError: no kernel has this key.
    """
    if key not in _translations:
        known = ", ".join(map(repr, sorted(_translations)))
        raise UnregisteredKernelError(f"no native kernel is registered for {key!r}; known keys: {known}")
    return _translations[key]
