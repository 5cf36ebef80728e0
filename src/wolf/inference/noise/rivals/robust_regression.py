"""Noise models that down-weight the prediction as well as the measurement: a jump of the state then costs less.

Huber and correntropy filters write an update as a regression. With P = A Aᵀ and R = L Lᵀ, state and measurement are

    0 = ξ + noise,   z = L⁻¹H A ξ + noise      where x = m + A ξ, z = L⁻¹(y - H m), and all noise is standard normal,

solved by iteratively reweighted least squares: every row has a weight computed from its residual.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from wolf import validation
from wolf.beliefs import Belief, Gaussian, SqrtGaussian
from wolf.beliefs.updates import NominalCovUpdate, RevisedPriorUpdate, WeightedUpdate, condition_by_root
from wolf.inference.noise.whitened import iterate
from wolf.interfaces import MemoryT, NoiseModel, Number, UpdateContext, UpdateDecision
from wolf.numerics import linalg
from wolf.numerics.linalg import Cholesky, matmul, matvec, sum_leading, transpose
from wolf.numerics.pytree import pytree, static

MIN_PRIOR_WEIGHT = 1e-8  # of a row; the inverse of a smaller one would dominate the others


class PriorRevisingNoise(NoiseModel[MemoryT]):
    """Base of noise models that down-weight the prediction too."""

    @property
    def revises_prior(self) -> bool:
        """True: the prediction is down-weighted too."""
        return True


@pytree
class HuberRegression(PriorRevisingNoise[tuple]):
    """Weight rows by `min(1, γ/|ε|)`: the Huber-based filter of Karlgaard & Schaub (2007).

    Args:
        threshold: γ; 1.345 keeps 95 % of the efficiency of least squares on Gaussian data.
        iterations: I.
    """

    threshold: float | Array = 1.345
    iterations: int = static(default=5)

    def __post_init__(self) -> None:
        """Validate the options."""
        validation.positive("threshold", self.threshold)
        validation.count("iterations", self.iterations)

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Solve the convex regression, starting from the prediction."""

        def power(error: Array) -> Array:
            size = jnp.maximum(jnp.abs(error), self.threshold)
            return self.threshold / size

        return UpdateDecision(RevisedPriorUpdate(*_reweighted(context, power, self.iterations)))


@pytree
class Correntropy(PriorRevisingNoise[tuple]):
    """Weight rows by `exp(-ε²/2σ²)`: the maximum correntropy Kalman filter of Chen et al. (2017).

    Its covariance is that of the estimate under the nominal model, as in the paper, so it does not grow when a
    measurement is rejected.

    Args:
        bandwidth: σ of the kernel; the larger, the closer to the Kalman filter.
        iterations: I of the fixed point, which starts from the prediction.
    """

    bandwidth: Number = 2.0
    iterations: int = static(default=5)

    def __post_init__(self) -> None:
        """Validate the options."""
        validation.positive("bandwidth", self.bandwidth)
        validation.count("iterations", self.iterations)

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Iterate to the fixed point."""

        def power(error: Array) -> Array:
            return jnp.exp(-0.5 * (error / self.bandwidth) ** 2)

        return UpdateDecision(NominalCovUpdate(*_reweighted(context, power, self.iterations)))


@pytree
class TwoSidedStudent(PriorRevisingNoise[tuple]):
    """Model prediction and measurement as Student-t: the RSTKF of Huang et al. (2017).

    Model: x ~ N(m, Σ/ξ), y ~ N(Hx, R/λ), ξ ~ Gamma(ω/2, ω/2), λ ~ Gamma(ν/2, ν/2), Σ ~ inverse Wishart around P.

    Args:
        dof: ν, of the measurement.
        prior_dof: ω, of the prediction.
        tuning: τ, the strength of the prior Σ = P.
        iterations: I.
    """

    dof: Number = 5.0
    prior_dof: Number = 5.0
    tuning: Number = 5.0
    iterations: int = static(default=10)

    def __post_init__(self) -> None:
        """Validate the options."""
        for name, value in (("dof", self.dof), ("prior_dof", self.prior_dof), ("tuning", self.tuning)):
            validation.positive(name, value)
        validation.count("iterations", self.iterations)

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Infer Σ, ξ and λ by variational Bayes."""
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


class Regression(NamedTuple):
    """Regression with `design` (M, K) on the unknowns ξ, white residual (M,), factor of R and root A of the prior."""

    design: Array
    residual: Array
    noise: Cholesky
    root: Array


def regression_of(context: UpdateContext) -> Regression:
    """Write the update of a measurement as a regression."""
    noise, view, belief = linalg.cholesky(context.obs_cov), context.view, context.belief
    root = belief.root if isinstance(belief, SqrtGaussian) else linalg.psd_root(belief.cov)
    design = matmul(view.jac, root)
    if view.root is not None:  # the leftover of the affine approximation is one more unknown, with weight 1
        design = jnp.concatenate([design, view.root], axis=1)
    return Regression(noise.half(design), noise.half(context.residual), noise, root)


def solve(regression: Regression, prior_power: Array, power: Array) -> Array:
    """Solve the weighted regression for ξ."""
    weight = linalg.safe_sqrt(power)
    design = weight[:, None] * regression.design
    spread = transpose(design) / prior_power[:, None]
    factor = linalg.cholesky(matmul(design, spread) + linalg.eye(len(weight), design))
    return matvec(spread, factor.solve(weight * regression.residual))


def iterate_weights(
    regression: Regression, prior_power: Callable[[Array], Array], power: Callable[[Array], Array], times: int
) -> tuple[Array, Array]:
    """Alternate between the solution and its weights, starting from the prediction ξ = 0.

    Args:
        regression: of the measurement.
        prior_power: w² of the rows of the prediction, from their residuals.
        power: w² of the rows of the measurement.
        times: number of solutions, including that with the weights returned.

    Returns:
        w² of the rows of the prediction, and of the measurement.
    """
    size = regression.root.shape[0]

    def powers(unknowns: Array) -> tuple[Array, Array]:
        own = jnp.maximum(prior_power(unknowns[:size]), MIN_PRIOR_WEIGHT)
        own = jnp.concatenate([own, jnp.ones_like(unknowns[size:])])  # then the leftover of the approximation
        return own, power(regression.residual - matvec(regression.design, unknowns))

    start = jnp.zeros_like(regression.design[0])
    return powers(iterate(lambda unknowns: solve(regression, *powers(unknowns)), start, times - 1))


def revise(regression: Regression, belief: Belief, prior_power: Array, power: Array) -> tuple[Gaussian, Array]:
    """Convert w² of every row to a revised prior and the weight of the measurement."""
    size = regression.root.shape[0]
    prior = linalg.gram(regression.root / jnp.sqrt(prior_power[:size])[None, :])
    identity = linalg.eye(len(power), regression.design)
    return Gaussian(belief.mean, prior), linalg.safe_sqrt(power)[:, None] * regression.noise.half(identity)


def _reweighted(context: UpdateContext, power: Callable[[Array], Array], times: int) -> tuple[Gaussian, Array]:
    """Revise the prior and weight the measurement by one rule for all rows."""
    regression = regression_of(context)
    return revise(regression, context.belief, *iterate_weights(regression, power, power, times))


def _trace_solve(factor: Cholesky, a: Array) -> Array:
    return sum_leading(linalg.diagonal(factor.solve(a)))
