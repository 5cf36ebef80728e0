"""Arrays that are sums of numbers times fixed arrays, as those of a model with unknown variances are."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

TINY = 1e-12  # of an entry; less than that beside it is rounding
ELSEWHERE = (0.4, 1.7)  # times the start, where the sum is compared with what it stands for
CLOSE = 1e-9  # relative, for that comparison


class AffineArrays:
    """A pytree of arrays, each a fixed part and a sum of numbers times slopes; found once, by doubling each number.

    Args:
        make: numbers (K,) -> pytree of arrays.
        start: numbers (K,) to begin with.

    Example:
        >>> affine = AffineArrays(lambda x: {"Q": x[0] * np.eye(2) + 1.0}, np.array([3.0]))
        >>> affine.at(np.array([0.5]))["Q"].tolist(), affine.along(np.array([10.0]))["Q"].tolist()
        ([[1.5, 1.0], [1.0, 1.5]], [[[10.0, 0.0], [0.0, 10.0]]])
    """

    def __init__(self, make: Callable[[np.ndarray], Any], start: np.ndarray):
        self.make = make
        here, self.structure = jax.tree.flatten(make(start))
        moves = np.where(start == 0.0, 1.0, start)
        moved = np.array([_flat(jax.tree.leaves(make(start + step))) for step in np.diag(moves)])
        whole = _flat(here)
        slopes = (moved - whole) / moves[:, None]
        fixed = whole - start @ slopes
        fixed = np.where(np.abs(fixed) <= TINY * np.abs(whole), 0.0, fixed)
        ends = np.cumsum([np.size(leaf) for leaf in here])[:-1]
        pairs = zip(here, np.split(fixed, ends), np.split(slopes, ends, axis=1), strict=True)
        self.fixed, self.slopes = [], []
        for leaf, still, moving in pairs:
            self.fixed.append(still.reshape(np.shape(leaf)))
            self.slopes.append(moving.reshape(len(start), *np.shape(leaf)))
        self.moving = [bool(slopes.any()) for slopes in self.slopes]
        elsewhere = start * np.linspace(*ELSEWHERE, len(start))
        if not self.holds(elsewhere):
            raise ValueError(
                "affine=True is for models whose arrays are sums of parameters times fixed arrays; not here"
            )

    def holds(self, numbers: np.ndarray) -> bool:
        """Say whether the sums are what they stand for, at some numbers (K,)."""
        pairs = zip(jax.tree.leaves(self.make(numbers)), self.leaves(numbers), strict=True)
        return all(bool(np.all(np.abs(leaf - ours) <= CLOSE * np.abs(ours))) for leaf, ours in pairs)

    def at(self, numbers: np.ndarray) -> Any:
        """Put numbers (K,) in; of many, (B, K), what moves has a leading axis."""
        return jax.tree.unflatten(self.structure, self.leaves(numbers))

    def leaves(self, numbers: np.ndarray) -> list[Any]:
        """Give the arrays of `at` alone."""
        parts = zip(self.moving, self.fixed, self.slopes, strict=True)
        return [fixed + np.tensordot(numbers, slopes, 1) if moves else fixed for moves, fixed, slopes in parts]

    def along(self, speeds: np.ndarray) -> Any:
        """Say how the arrays move when each number does so alone, at its speed; a leading axis counts the numbers."""
        leaves = []
        for moves, slopes in zip(self.moving, self.slopes, strict=True):
            scale = speeds.reshape(-1, *(1,) * (slopes.ndim - 1))
            leaves.append(scale * slopes if moves else slopes)
        return jax.tree.unflatten(self.structure, leaves)


def _flat(leaves: list[Any]) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in leaves])
