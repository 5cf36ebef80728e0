"""Rules that doubt the prediction as well as the measurement: a jump of the state then costs less.

Huber and correntropy see an update as a regression. With P = A Aᵀ and R = L Lᵀ, state and measurement are

    0 = ξ + noise,   z = L⁻¹H A ξ + noise      where x = m + A ξ, z = L⁻¹(y - H m), and all noise is standard normal,

solved again and again with weights on every row, from the row's own residual (iteratively reweighted least squares).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from wolf import validation
from wolf.beliefs import Belief, Gaussian, SqrtGaussian
from wolf.beliefs.updates import NominalCovUpdate, RevisedPriorUpdate, WeightedUpdate, condition_by_root
from wolf.inference.noise.whitened import iterate
from wolf.interfaces import NoiseModel, UpdateContext, UpdateDecision
from wolf.numerics import linalg
from wolf.numerics.linalg import Cholesky, matmul, matvec, sum_leading, transpose
from wolf.numerics.pytree import pytree, static

SMALLEST = 1e-8  # weight of a row of the prior; below, its inverse would swamp the others


class _DoubtsBoth(NoiseModel):
    @property
    def revises_prior(self) -> bool:
        """True: a jump of the state costs these rules less."""
        return True


@pytree
class HuberRegression(_DoubtsBoth):
    """Weigh rows by `min(1, γ/|ε|)`: the Huber-based filter of Karlgaard & Schaub (2007).

    Args:
        threshold: γ; 1.345 keeps 95 % of the efficiency of least squares on Gaussian data.
        iterations: I.
    """

    threshold: Any = 1.345
    iterations: int = static(default=5)

    def __post_init__(self) -> None:
        """Check the threshold."""
        validation.positive("threshold", self.threshold)
        validation.count("iterations", self.iterations)

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Solve the regression, which is convex; from the prediction few steps reach its only solution."""

        def power(error: Array) -> Array:
            size = jnp.maximum(jnp.abs(error), self.threshold)
            return self.threshold / size

        return UpdateDecision(
            RevisedPriorUpdate(*_reweigh(_regression(context), context.belief, power, self.iterations))
        )


@pytree
class Correntropy(_DoubtsBoth):
    """Weigh rows by `exp(-ε²/2σ²)`: the maximum correntropy Kalman filter of Chen et al. (2017).

    Its covariance is that of the estimate under the nominal model, as in the paper, so it does not widen when a
    measurement is rejected.

    Args:
        bandwidth: σ, the kernel's; the larger, the closer to the Kalman filter.
        iterations: I, of the fixed point, which starts from the prediction.
    """

    bandwidth: Any = 2.0
    iterations: int = static(default=5)

    def __post_init__(self) -> None:
        """Check the bandwidth."""
        validation.positive("bandwidth", self.bandwidth)
        validation.count("iterations", self.iterations)

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Find the fixed point."""

        def power(error: Array) -> Array:
            return jnp.exp(-0.5 * (error / self.bandwidth) ** 2)

        return UpdateDecision(NominalCovUpdate(*_reweigh(_regression(context), context.belief, power, self.iterations)))


@pytree
class TwoSidedStudent(_DoubtsBoth):
    """Take prediction and measurement for Student-t: the RSTKF of Huang et al. (2017).

    Model: x ~ N(m, Σ/ξ), y ~ N(Hx, R/λ), ξ ~ Gamma(ω/2, ω/2), λ ~ Gamma(ν/2, ν/2), Σ ~ inverse Wishart around P.

    Args:
        dof: ν, of the measurement.
        prior_dof: ω, of the prediction.
        tuning: τ, how firmly Σ is held at P.
        iterations: I.
    """

    dof: Any = 5.0
    prior_dof: Any = 5.0
    tuning: Any = 5.0
    iterations: int = static(default=10)

    def __post_init__(self) -> None:
        """Check the degrees of freedom."""
        for name in ("dof", "prior_dof", "tuning"):
            validation.positive(name, getattr(self, name))
        validation.count("iterations", self.iterations)

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Infer Σ, ξ and λ."""
        belief, view, residual = context.belief, context.view, context.residual
        size, count, noise = belief.mean.shape[0], sum_leading(context.observed), linalg.cholesky(context.obs_cov)
        nominal = belief.cov

        def update(values: tuple) -> tuple:
            scale, prior_power, power = values
            update = WeightedUpdate(linalg.safe_sqrt(power) * context.observed)
            prior = Gaussian(belief.mean, scale)
            posterior, _ = condition_by_root(prior, view, residual, context.obs_cov, update)
            moved = posterior.mean - belief.mean
            square = posterior.cov + linalg.outer(moved, moved)
            left = residual - matvec(view.jac, moved)
            error = sum_leading(noise.half(left) ** 2) + _trace_solve(noise, posterior.signal(view))
            # Û = τP + ξA with one more degree of freedom; E Σ⁻¹ = (τ + 1) Û⁻¹
            wishart = self.tuning * nominal + prior_power * square
            distance = (self.tuning + 1.0) * sum_leading(linalg.diagonal(linalg.psd_solve(wishart, square)))
            prior_power = (size + self.prior_dof) / (self.prior_dof + distance)
            power = (count + self.dof) / (self.dof + error)
            return wishart / ((self.tuning + 1.0) * prior_power), prior_power, power

        start = (nominal, jnp.ones_like(count), jnp.ones_like(count))
        scale, _, power = iterate(update, start, self.iterations)
        return UpdateDecision(RevisedPriorUpdate(Gaussian(belief.mean, scale), linalg.safe_sqrt(power)))


class _Rows(NamedTuple):
    """The regression: `design` (M, K) on the unknowns ξ, white residual (M,), factor of R, root A of the prior."""

    design: Array
    residual: Array
    noise: Cholesky
    root: Array


def _regression(context: UpdateContext) -> _Rows:
    noise, view, belief = linalg.cholesky(context.obs_cov), context.view, context.belief
    root = belief.root if isinstance(belief, SqrtGaussian) else linalg.psd_root(belief.cov)
    design = matmul(view.jac, root)
    if view.root is not None:  # what a straight line leaves of h is one more unknown, never doubted
        design = jnp.concatenate([design, view.root], axis=1)
    return _Rows(noise.half(design), noise.half(context.residual), noise, root)


def _solve(rows: _Rows, prior_power: Array, power: Array) -> Array:
    """Solve the weighted regression for ξ."""
    weight = linalg.safe_sqrt(power)
    design = weight[:, None] * rows.design
    spread = transpose(design) / prior_power[:, None]
    factor = linalg.cholesky(matmul(design, spread) + linalg.eye(len(weight), design))
    return matvec(spread, factor.solve(weight * rows.residual))


def _reweigh(rows: _Rows, belief: Belief, power: Callable[[Array], Array], times: int) -> tuple[Gaussian, Array]:
    """Alternate between the solution and its weights, starting from the prediction ξ = 0.

    Returns:
        The prior to learn from, and the weight of the measurement.
    """
    size = rows.root.shape[0]
    state = jnp.arange(rows.design.shape[1]) < size

    def powers(unknowns: Array) -> tuple[Array, Array]:
        doubted = jnp.where(state, jnp.maximum(power(unknowns), SMALLEST), 1.0)
        return doubted, power(rows.residual - matvec(rows.design, unknowns))

    unknowns = iterate(lambda values: _solve(rows, *powers(values)), jnp.zeros_like(rows.design[0]), times - 1)
    prior_power, measured_power = powers(unknowns)
    prior = linalg.gram(rows.root / jnp.sqrt(prior_power[:size])[None, :])
    identity = linalg.eye(len(measured_power), rows.design)
    weight = linalg.safe_sqrt(measured_power)[:, None] * rows.noise.half(identity)
    return Gaussian(belief.mean, prior), weight


def _trace_solve(factor: Cholesky, a: Array) -> Array:
    return sum_leading(linalg.diagonal(factor.solve(a)))
