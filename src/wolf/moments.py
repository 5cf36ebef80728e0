"""How a function is seen by a belief: as the affine view `mean + jac (x - m)` with a leftover covariance.

Every filter updates with such a view, so a new way to form it (sigma points, members) is a new filter.
"""

from collections.abc import Callable

import jax
from jax import Array

from wolf.linalg import matvec
from wolf.model import Bound, LinearMap
from wolf.pytree import pytree
from wolf.types import Affine, Gaussian, RootGaussian


@pytree
class Linear:
    """Read the matrix of a linear model: the Kalman filter."""

    def __call__(self, fn: LinearMap, belief: Gaussian | RootGaussian, at: Array | None = None) -> Affine:
        """See fn as what it is."""
        return Affine(fn(belief.mean), fn.matrix)


@pytree
class Linearised:
    """Take a tangent by automatic differentiation: the extended Kalman filter (exact on linear models)."""

    def __call__(self, fn: LinearMap | Bound, belief: Gaussian | RootGaussian, at: Array | None = None) -> Affine:
        """See fn as its tangent at the belief's mean, or at another point.

        Args:
            fn: of the state.
            belief: over the state.
            at: where to take the tangent; the view is then re-centred on the belief's mean.
        """
        if isinstance(fn, LinearMap):
            return Affine(fn(belief.mean), fn.matrix)
        point = belief.mean if at is None else at
        value, jac = fn.each(_value_and_jacobian, point)
        mean = value if at is None else value + matvec(jac, belief.mean - at)
        return Affine(mean, jac)


def _value_and_jacobian(fn: Callable) -> Callable:
    """Differentiate forward or backward, whichever takes fewer passes for the shape at hand."""

    def both(x: Array) -> tuple[Array, Array]:
        value = fn(x)
        if value.shape[0] < x.shape[0]:
            return value, jax.jacrev(fn)(x)
        return value, jax.jacfwd(fn)(x)

    return both
