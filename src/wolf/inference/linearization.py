"""How a function is seen by a belief: as the affine view `mean + jac (x - m)` with a leftover covariance.

Every filter updates with such a view, so a new way to form it is a new filter. The sigma-point rules here fit the line
by statistical regression over a few points `m + L ξ_i` with weights W_i (Lefebvre et al. 2002); what the line leaves
unexplained is kept as a root of the residuals at the points, so it stays positive definite.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import validation
from wolf.beliefs import Affine, Belief, SqrtGaussian
from wolf.interfaces import Linearization, Requirements
from wolf.numerics import linalg
from wolf.numerics.linalg import matmul, matvec, transpose
from wolf.numerics.pytree import pytree, static
from wolf.statespace import Bound, LinearMap

GRID_LIMIT = 100_000  # points of a Gauss-Hermite grid
MOST_STATES = 16  # for which `Automatic` takes points: there are twice as many of them


@pytree
class Linear(Linearization):
    """Read the matrix of a linear model: the Kalman filter."""

    @property
    def requirements(self) -> Requirements:
        """A model of matrices."""
        return Requirements(linear=True, one_series=False)

    def __call__(self, fn: Any, belief: Belief, at: Array | None = None) -> Affine:
        """See fn as what it is."""
        return Affine(fn(belief.mean), fn.matrix)


@pytree
class Taylor(Linearization):
    """Take a tangent by automatic differentiation: the extended Kalman filter (exact on linear models)."""

    def __call__(self, fn: LinearMap | Bound, belief: Belief, at: Array | None = None) -> Affine:
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


@pytree
class Unscented(Linearization):
    """Regress over 2 D + 1 points: the unscented Kalman filter (Julier & Uhlmann 1997; Wan & van der Merwe 2000).

    Args:
        alpha: spread of the points.
        beta: extra weight of the centre in the covariance.
        kappa: second spread; None is 3 - D where that is positive, else 0. Choices that give a negative weight are
            refused: they can turn a covariance indefinite.
    """

    alpha: float = static(default=1.0)
    beta: float = static(default=0.0)
    kappa: float | None = static(default=None)

    def __post_init__(self) -> None:
        """Check the numbers."""
        validation.positive_number("alpha", self.alpha)
        validation.number("beta", self.beta)
        if self.kappa is not None:
            validation.number("kappa", self.kappa)

    def __call__(self, fn: LinearMap | Bound, belief: Belief, at: Array | None = None) -> Affine:
        """See fn through its values at the points."""
        size = belief.mean.shape[0]
        kappa = max(3.0 - size, 0.0) if self.kappa is None else self.kappa
        scale = self.alpha**2 * (size + kappa)
        centre = 1.0 - size / scale
        if centre < -1e-12 or centre + 1.0 - self.alpha**2 + self.beta < -1e-12:
            raise ValueError(
                f"alpha={self.alpha}, beta={self.beta}, kappa={kappa} give a negative weight for {size} states; "
                f"use alpha=1 and kappa of at least 0"
            )
        points = np.sqrt(scale) * np.concatenate([np.zeros((size, 1)), np.eye(size), -np.eye(size)], axis=1)
        weights = np.concatenate([[max(centre, 0.0)], np.full(2 * size, 0.5 / scale)])
        spread_weights = weights.copy()
        spread_weights[0] += 1.0 - self.alpha**2 + self.beta
        return _regress(fn, belief, at, points, weights, spread_weights)


@pytree
class Automatic(Linearization):
    """Regress over the points of `Unscented`, and take a tangent where fn has no value at one of them.

    A logarithm or a root has none where a point lies beyond zero, and a tangent needs the mean alone. Of more than 16
    states always a tangent.
    """

    def __call__(self, fn: LinearMap | Bound, belief: Belief, at: Array | None = None) -> Affine:
        """See fn through its values at the points, or as its tangent."""
        if isinstance(fn, LinearMap) or belief.mean.shape[0] > MOST_STATES:
            return Taylor()(fn, belief, at)
        seen: Any = Unscented()(fn, belief, at)

        def tangent() -> Affine:
            return Taylor()(fn, belief, at)._replace(root=jnp.zeros_like(seen.root))

        has_value = jnp.isfinite(seen.mean).all(0) & jnp.isfinite(seen.jac).all((0, 1))
        if has_value.ndim == 0:  # one series: tangents are taken where they are needed
            return jax.lax.cond(has_value, lambda: seen, tangent)
        return jax.tree.map(lambda points, line: jnp.where(has_value, points, line), seen, tangent())


@pytree
class Cubature(Linearization):
    """Regress over 2 D points of equal weight: the cubature Kalman filter (Arasaratnam & Haykin 2009)."""

    def __call__(self, fn: LinearMap | Bound, belief: Belief, at: Array | None = None) -> Affine:
        """See fn through its values at the points."""
        size = belief.mean.shape[0]
        points = np.sqrt(size) * np.concatenate([np.eye(size), -np.eye(size)], axis=1)
        weights = np.full(2 * size, 0.5 / size)
        return _regress(fn, belief, at, points, weights, weights)


@pytree
class GaussHermite(Linearization):
    """Regress over a grid of orderᴰ points: exact for polynomials up to degree 2 order - 1 (Ito & Xiong 2000).

    Args:
        order: points along each axis.
    """

    order: int = static(default=3)

    def __post_init__(self) -> None:
        """Check the order."""
        validation.count("order", self.order)

    def __call__(self, fn: LinearMap | Bound, belief: Belief, at: Array | None = None) -> Affine:
        """See fn through its values at the points."""
        size = belief.mean.shape[0]
        if self.order**size > GRID_LIMIT:
            raise ValueError(f"{self.order} points along each of {size} axes are too many; use Unscented or Cubature")
        nodes, weights = np.polynomial.hermite_e.hermegauss(self.order)
        grids = np.meshgrid(*[nodes] * size, indexing="ij")
        products = np.meshgrid(*[weights / weights.sum()] * size, indexing="ij")
        points = np.stack([grid.ravel() for grid in grids])
        product = np.prod(np.stack(products), axis=0).ravel()
        return _regress(fn, belief, at, points, product, product)


def _regress(
    fn: LinearMap | Bound,
    belief: Belief,
    at: Array | None,
    points: np.ndarray,
    weights: np.ndarray,
    spread_weights: np.ndarray,
) -> Affine:
    """Fit a line to fn over the points `m + L ξ`.

    With Σ W ξ = 0 and Σ W ξ ξᵀ = I the slope times L is `Σ W (y - ȳ) ξᵀ`, straight from the values. Values are taken
    relative to the one at the centre by the model's own subtraction, so that angles average rightly.

    Args:
        fn: of the state.
        belief: over the state.
        at: another centre for the points; the view is then re-centred on the belief's mean.
        points: ξ, (D, N).
        weights: W, (N,), not negative, for the mean and the slope.
        spread_weights: (N,), not negative, for what is left.
    """
    if isinstance(fn, LinearMap):
        return Affine(fn(belief.mean), fn.matrix)
    centre = belief.mean if at is None else at
    root = belief.root if isinstance(belief, SqrtGaussian) else linalg.psd_root(belief.cov)
    trailing = (1,) * (centre.ndim - 1)
    offsets = jnp.asarray(points, centre.dtype).reshape(points.shape + trailing)
    share = jnp.asarray(weights, centre.dtype).reshape((1, *weights.shape, *trailing))
    here = fn(centre)
    values = fn.each(lambda f: jax.vmap(f, in_axes=-1, out_axes=-1), centre[:, None] + matmul(root, offsets), axes=2)
    moved = _relative(fn, values, here)
    mean = (moved * share).sum(1)
    spread = moved - mean[:, None]
    slope = matmul(spread * share, transpose(offsets))
    left = spread - matmul(slope, offsets)
    jac = transpose(linalg.back_solve_psd(root, transpose(slope)))
    leftover = left * jnp.sqrt(jnp.asarray(spread_weights, centre.dtype)).reshape(share.shape)
    shift = 0.0 if at is None else matvec(jac, belief.mean - at)
    return Affine(here + mean + shift, jac, leftover)


def _relative(fn: Bound, values: Array, here: Array) -> Array:
    """Subtract the value at the centre from those at the points, (M, N)."""
    if fn.residual is None:
        return values - here[:, None]
    subtract = jax.vmap(fn.residual, in_axes=(-1, None), out_axes=-1)
    if here.ndim == 2:
        subtract = jax.vmap(subtract, in_axes=(-1, -1), out_axes=-1)
    return subtract(values, here)


def _value_and_jacobian(fn: Callable) -> Callable:
    """Differentiate forward or backward, whichever takes fewer passes for the shape at hand."""

    def both(x: Array) -> tuple[Array, Array]:
        value = fn(x)
        if value.shape[0] < x.shape[0]:
            return value, jax.jacrev(fn)(x)
        return value, jax.jacfwd(fn)(x)

    return both
