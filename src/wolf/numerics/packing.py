"""Pack several small arrays into one: each argument of a compiled program takes a microsecond."""

import math
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    import jax
    import numpy as np

ArrayT = TypeVar("ArrayT", "np.ndarray", "jax.Array")

MAX_PACKED_ENTRIES = 1024  # entries in all; larger arrays are passed faster than they are copied


class Packing(NamedTuple):
    """Which arrays are packed together, and how they are unpacked.

    Attributes:
        shapes: of all arrays.
        together: which arrays are concatenated into one vector, the first argument that is passed.
    """

    shapes: tuple[tuple[int, ...], ...]
    together: tuple[bool, ...]

    @classmethod
    def of(cls, arrays: "Sequence[np.ndarray | jax.Array]", dtype: str) -> "Packing":
        """Choose the arrays of one dtype to pack together, if they are small.

        Example:
            >>> import numpy as np
            >>> parts = [np.ones(2), np.eye(2), np.array(3)]
            >>> packing = Packing.of(parts, "float64")
            >>> [part.shape for part in packing.pack(parts, np)]
            [(6,), ()]
            >>> [part.shape for part in packing.unpack(packing.pack(parts, np))]
            [(2,), (2, 2), ()]
        """
        small = sum(array.size for array in arrays) <= MAX_PACKED_ENTRIES
        together = tuple(small and array.dtype == dtype for array in arrays)
        if sum(together) < 2:
            together = (False,) * len(together)
        return cls(tuple(array.shape for array in arrays), together)

    @property
    def handed(self) -> int:
        """Number of arrays that are passed after packing."""
        return self.together.count(False) + (True in self.together)

    def pack(self, arrays: Sequence[ArrayT], xp: ModuleType) -> list[ArrayT]:
        """Pack arrays; `xp` is NumPy or jax.numpy."""
        joined: list[ArrayT] = [array for array, joins in zip(arrays, self.together, strict=True) if joins]
        alone: list[ArrayT] = [array for array, joins in zip(arrays, self.together, strict=True) if not joins]
        whole: list[ArrayT] = [xp.concatenate([xp.ravel(array) for array in joined])] if joined else []
        return whole + alone

    def unpack(self, packed: Sequence[ArrayT]) -> list[ArrayT]:
        """Restore the arrays from their packed form."""
        alone = iter(packed[1:] if any(self.together) else packed)
        arrays: list[ArrayT] = []
        start = 0
        for shape, joins in zip(self.shapes, self.together, strict=True):
            if joins:
                size = math.prod(shape)
                arrays.append(packed[0][start : start + size].reshape(shape))
                start += size
            else:
                arrays.append(next(alone))
        return arrays
