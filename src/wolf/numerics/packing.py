"""Several small arrays as one: handing each to a compiled program takes a microsecond, as long as its arithmetic."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

SMALL = 1024  # numbers in all; larger arrays are quicker handed over as they are than copied


class Packing(NamedTuple):
    """Which arrays go together, and how to take them apart.

    Attributes:
        shapes: of all arrays.
        together: which of them are laid one after the other into one vector, the first that is handed over.
    """

    shapes: tuple[tuple[int, ...], ...]
    together: tuple[bool, ...]

    @classmethod
    def of(cls, arrays: Sequence[Any], dtype: str) -> "Packing":
        """Put arrays of one dtype together, if they are small.

        Example:
            >>> import numpy as np
            >>> parts = [np.ones(2), np.eye(2), np.array(3)]
            >>> packing = Packing.of(parts, "float64")
            >>> [part.shape for part in packing.pack(parts, np)]
            [(6,), ()]
            >>> [part.shape for part in packing.unpack(packing.pack(parts, np))]
            [(2,), (2, 2), ()]
        """
        small = sum(array.size for array in arrays) <= SMALL
        together = tuple(small and array.dtype == dtype for array in arrays)
        if sum(together) < 2:
            together = (False,) * len(together)
        return cls(tuple(array.shape for array in arrays), together)

    @property
    def handed(self) -> int:
        """Number of arrays that are handed over."""
        return self.together.count(False) + (True in self.together)

    def pack(self, arrays: Sequence[Any], xp: Any) -> list[Any]:
        """Lay out; `xp` is NumPy or jax.numpy."""
        joined = [array for array, joins in zip(arrays, self.together, strict=True) if joins]
        alone = [array for array, joins in zip(arrays, self.together, strict=True) if not joins]
        return [xp.concatenate([xp.ravel(array) for array in joined]), *alone] if joined else alone

    def unpack(self, packed: Sequence[Any]) -> list[Any]:
        """Take apart again."""
        whole: Any = packed[0] if any(self.together) else None
        alone = iter(packed[1:] if any(self.together) else packed)
        arrays: list[Any] = []
        start = 0
        for shape, joins in zip(self.shapes, self.together, strict=True):
            if joins:
                size = math.prod(shape)
                arrays.append(whole[start : start + size].reshape(shape))
                start += size
            else:
                arrays.append(next(alone))
        return arrays
