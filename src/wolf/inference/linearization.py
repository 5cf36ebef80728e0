"""Linearization: affine approximation `mean + jac (x - m)` of a function under a belief, with an error covariance.

Every filter updates with such an approximation, so a new linearization is a new filter. The sigma-point rules here use
statistical linear regression over a few points `m + L ξ_i` with weights W_i (Lefebvre et al. 2002); the covariance of
the approximation error is kept as a root, formed by the residuals at the points, so it is positive semi-definite.
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

MAX_GRID_POINTS = 100_000  # of a Gauss-Hermite grid
MAX_SIGMA_POINT_STATES = 16  # for which `Automatic` uses sigma points: there are twice as many of them


@pytree
class Linear(Linearization):
    """Matrix of a linear model: the Kalman filter."""

    @property
    def requirements(self) -> Requirements:
        """A linear model."""
        return Requirements(linear=True, one_series=False)

    def __call__(self, fn: Any, belief: Belief, at: Array | None = None) -> Affine:
        """Return the linear map itself."""
        return Affine(fn(belief.mean), fn.matrix)


@pytree
class Taylor(Linearization):
    """First-order Taylor expansion by automatic differentiation: the extended Kalman filter (exact if linear)."""

    def __call__(self, fn: LinearMap | Bound, belief: Belief, at: Array | None = None) -> Affine:
        """Linearize at the belief's mean, or at another point.

        Args:
            fn: function of the state.
            belief: over the state.
            at: point of the expansion; the approximation is then re-centred on the belief's mean.
        """
        if isinstance(fn, LinearMap):
            return Affine(fn(belief.mean), fn.matrix)
        point = belief.mean if at is None else at
        value, jac = fn.each(_value_and_jacobian, point)
        mean = value if at is None else value + matvec(jac, belief.mean - at)
        return Affine(mean, jac)


@pytree
class Unscented(Linearization):
    """Regression over 2 D + 1 points: the unscented Kalman filter (Julier & Uhlmann 1997; Wan & van der Merwe 2000).

    Args:
        alpha: spread of the points.
        beta: extra weight of the centre in the covariance.
        kappa: secondary scaling; None is 3 - D where that is positive, else 0. Values that give a negative weight raise
            an error, since a covariance could become indefinite.
    """

    alpha: float = static(default=1.0)
    beta: float = static(default=0.0)
    kappa: float | None = static(default=None)

    def __post_init__(self) -> None:
        """Validate the parameters."""
        validation.positive_number("alpha", self.alpha)
        validation.number("beta", self.beta)
        if self.kappa is not None:
            validation.number("kappa", self.kappa)

    def __call__(self, fn: LinearMap | Bound, belief: Belief, at: Array | None = None) -> Affine:
        """Fit an affine function to the values at the points."""
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
    """Regression over the points of `Unscented`, or a Taylor expansion where fn is not finite at one of them.

    A logarithm or a root is not finite at a point beyond zero, and the expansion needs the mean only. With more than 16
    states it is always the expansion.
    """

    def __call__(self, fn: LinearMap | Bound, belief: Belief, at: Array | None = None) -> Affine:
        """Fit an affine function to the values at the points, or return the Taylor expansion."""
        if isinstance(fn, LinearMap) or belief.mean.shape[0] > MAX_SIGMA_POINT_STATES:
            return Taylor()(fn, belief, at)
        regression: Any = Unscented()(fn, belief, at)

        def expansion() -> Affine:
            return Taylor()(fn, belief, at)._replace(root=jnp.zeros_like(regression.root))

        is_finite = jnp.isfinite(regression.mean).all(0) & jnp.isfinite(regression.jac).all((0, 1))
        if is_finite.ndim == 0:  # one series: the expansion is computed only where it is needed
            return jax.lax.cond(is_finite, lambda: regression, expansion)
        return jax.tree.map(lambda points, line: jnp.where(is_finite, points, line), regression, expansion())


@pytree
class Cubature(Linearization):
    """Regression over 2 D points of equal weight: the cubature Kalman filter (Arasaratnam & Haykin 2009)."""

    def __call__(self, fn: LinearMap | Bound, belief: Belief, at: Array | None = None) -> Affine:
        """Fit an affine function to the values at the points."""
        size = belief.mean.shape[0]
        points = np.sqrt(size) * np.concatenate([np.eye(size), -np.eye(size)], axis=1)
        weights = np.full(2 * size, 0.5 / size)
        return _regress(fn, belief, at, points, weights, weights)


@pytree
class GaussHermite(Linearization):
    """Regression over a grid of orderᴰ points: exact for polynomials up to degree 2 order - 1 (Ito & Xiong 2000).

    Args:
        order: points along each axis.
    """

    order: int = static(default=3)

    def __post_init__(self) -> None:
        """Validate the order."""
        validation.count("order", self.order)

    def __call__(self, fn: LinearMap | Bound, belief: Belief, at: Array | None = None) -> Affine:
        """Fit an affine function to the values at the points."""
        size = belief.mean.shape[0]
        if self.order**size > MAX_GRID_POINTS:
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
    """Fit an affine function to fn over the points `m + L ξ` by statistical linear regression.

    With Σ W ξ = 0 and Σ W ξ ξᵀ = I the Jacobian times L is `Σ W (y - ȳ) ξᵀ`. Values are relative to the one at the
    centre, by the model's subtraction, so that angles average correctly.

    Args:
        fn: function of the state.
        belief: over the state.
        at: another centre for the points; the approximation is then re-centred on the belief's mean.
        points: ξ, (D, N).
        weights: W, (N,), not negative, for the mean and the Jacobian.
        spread_weights: (N,), not negative, for the covariance of the approximation error.
    """
    if isinstance(fn, LinearMap):
        return Affine(fn(belief.mean), fn.matrix)
    centre = belief.mean if at is None else at
    root = belief.root if isinstance(belief, SqrtGaussian) else linalg.psd_root(belief.cov)
    trailing = (1,) * (centre.ndim - 1)
    offsets = jnp.asarray(points, centre.dtype).reshape(points.shape + trailing)
    share = jnp.asarray(weights, centre.dtype).reshape((1, *weights.shape, *trailing))
    centre_value = fn(centre)
    values = fn.each(lambda f: jax.vmap(f, in_axes=-1, out_axes=-1), centre[:, None] + matmul(root, offsets), axes=2)
    differences = _relative(fn, values, centre_value)
    mean = (differences * share).sum(1)
    spread = differences - mean[:, None]
    slope = matmul(spread * share, transpose(offsets))
    error = spread - matmul(slope, offsets)
    jac = transpose(linalg.back_solve_psd(root, transpose(slope)))
    error_root = error * jnp.sqrt(jnp.asarray(spread_weights, centre.dtype)).reshape(share.shape)
    shift = 0.0 if at is None else matvec(jac, belief.mean - at)
    return Affine(centre_value + mean + shift, jac, error_root)


def _relative(fn: Bound, values: Array, centre_value: Array) -> Array:
    """Subtract the value at the centre from those at the points, (M, N)."""
    if fn.residual is None:
        return values - centre_value[:, None]
    subtract = jax.vmap(fn.residual, in_axes=(-1, None), out_axes=-1)
    if centre_value.ndim == 2:
        subtract = jax.vmap(subtract, in_axes=(-1, -1), out_axes=-1)
    return subtract(values, centre_value)


def _value_and_jacobian(fn: Callable) -> Callable:
    """Return a function of value and Jacobian, by forward or reverse mode, whichever needs fewer passes."""

    def both(x: Array) -> tuple[Array, Array]:
        value = fn(x)
        if value.shape[0] < x.shape[0]:
            return value, jax.jacrev(fn)(x)
        return value, jax.jacfwd(fn)(x)

    return both
