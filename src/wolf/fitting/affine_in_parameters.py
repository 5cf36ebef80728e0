"""Models whose arrays are affine in the parameters, as those with unknown variances are."""

from collections.abc import Callable

import jax
import numpy as np

from wolf.numerics.pytree import PyTree

ZERO_TOLERANCE = 1e-12  # relative size of an entry that is a rounding error
CHECK_FACTORS = (0.4, 1.7)  # range of factors on the start at which the affine form is compared with the original
RELATIVE_TOLERANCE = 1e-9  # relative tolerance of that comparison


class AffineArrays:
    """Pytree of arrays that are affine in the parameters; the coefficients are found by doubling each parameter.

    Args:
        make: function from parameters (K,) to a pytree of arrays.
        start: parameters (K,) at which the coefficients are determined.

    Raises:
        ValueError: if the arrays are not affine.

    Example:
        >>> affine = AffineArrays(lambda x: {"Q": x[0] * np.eye(2) + 1.0}, np.array([3.0]))
        >>> affine.at(np.array([0.5]))["Q"].tolist(), affine.directional(np.array([10.0]))["Q"].tolist()
        ([[1.5, 1.0], [1.0, 1.5]], [[[10.0, 0.0], [0.0, 10.0]]])
    """

    def __init__(self, make: Callable[[np.ndarray], PyTree], start: np.ndarray):
        self.make = make
        base_leaves, self.structure = jax.tree.flatten(make(start))
        steps = np.where(start == 0.0, 1.0, start)
        shifted = np.array([_flat(jax.tree.leaves(make(start + step))) for step in np.diag(steps)])
        base = _flat(base_leaves)
        coefficients = (shifted - base) / steps[:, None]
        fixed = base - start @ coefficients
        fixed = np.where(np.abs(fixed) <= ZERO_TOLERANCE * np.abs(base), 0.0, fixed)
        ends = np.cumsum([np.size(leaf) for leaf in base_leaves])[:-1]
        pairs = zip(base_leaves, np.split(fixed, ends), np.split(coefficients, ends, axis=1), strict=True)
        self.fixed, self.coefficients = [], []
        for leaf, constant, coefficient in pairs:
            self.fixed.append(constant.reshape(np.shape(leaf)))
            self.coefficients.append(coefficient.reshape(len(start), *np.shape(leaf)))
        self.varies = [bool(each.any()) for each in self.coefficients]
        check_point = start * np.linspace(*CHECK_FACTORS, len(start))
        if not self.holds(check_point):
            raise ValueError(
                "affine=True needs a model whose arrays are affine in the parameters; this one is not: omit it"
            )

    def holds(self, numbers: np.ndarray) -> bool:
        """Return whether the affine form equals the original arrays at the given parameters, (K,)."""
        pairs = zip(jax.tree.leaves(self.make(numbers)), self.leaves(numbers), strict=True)
        return all(
            bool(np.all(np.abs(leaf - affine_leaf) <= RELATIVE_TOLERANCE * np.abs(affine_leaf)))
            for leaf, affine_leaf in pairs
        )

    def at(self, numbers: np.ndarray) -> PyTree:
        """Evaluate the pytree at parameters (K,); for many, (B, K), varying arrays have a leading axis."""
        return jax.tree.unflatten(self.structure, self.leaves(numbers))

    def leaves(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Evaluate the arrays of `at` without the tree structure."""
        terms = zip(self.varies, self.fixed, self.coefficients, strict=True)
        return [fixed + np.tensordot(numbers, each, 1) if varies else fixed for varies, fixed, each in terms]

    def directional(self, rates: np.ndarray) -> PyTree:
        """Compute the derivatives of the arrays by each parameter, times its rate; a leading axis counts parameters."""
        leaves = []
        for varies, coefficients in zip(self.varies, self.coefficients, strict=True):
            scale = rates.reshape(-1, *(1,) * (coefficients.ndim - 1))
            leaves.append(scale * coefficients if varies else coefficients)
        return jax.tree.unflatten(self.structure, leaves)


def _flat(leaves: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in leaves])
