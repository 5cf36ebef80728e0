"""Variational noise models: the scale of the noise is inferred together with the state by coordinate ascent.

Each model alternates between the state given the noise and the noise given the state. The result is a weight, so the
update is that of every other method.
"""

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import digamma

from wolf import validation
from wolf.beliefs.updates import WeightedUpdate
from wolf.inference.noise.whitened import Whitened, expected_distance, expected_square, iterate, whiten, whitening_root
from wolf.interfaces import NoiseModel, Number, Requirements, UpdateContext, UpdateDecision
from wolf.numerics import linalg
from wolf.numerics.pytree import pytree, static


@pytree
class BetaBernoulli(NoiseModel[tuple]):
    """Infer the probability that a measurement is an inlier: KF-B of Wang et al. (2018).

    Model: y ~ N(Hx, R) if the indicator is 1, and as likely as the peak of that density wherever it falls if the
    indicator is 0; the indicator is Bernoulli(π) and π ~ Beta(α, β). With ρ the probability of 1, coordinate ascent
    gives α' = α + ρ, β' = β + 1 - ρ and `logit ρ = Ψ(α') - Ψ(β') - ½ E (y - Hx)ᵀR⁻¹(y - Hx)`; the likelihood is
    raised to the power ρ = w². (The algorithm box of Duran-Martin et al. 2024 has other digamma terms, with which ρ
    stays at 0.)

    Args:
        alpha: prior count of inliers.
        beta: prior count of outliers.
        iterations: I; as in the paper's algorithm the first one is the Kalman update, so 1 is the Kalman filter.
        tolerance: ρ below this is 0.
    """

    alpha: Number = 0.9
    beta: Number = 0.1
    iterations: int = static(default=4)
    tolerance: Number = 1e-7

    def __post_init__(self) -> None:
        """Validate the options."""
        validation.positive("alpha", self.alpha)
        validation.positive("beta", self.beta)
        validation.count("iterations", self.iterations)

    @property
    def requirements(self) -> Requirements:
        """None: many series run together."""
        return Requirements(one_series=False)

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Infer ρ."""
        white = whiten(context)

        def update(power: Array) -> Array:
            log_odds = digamma(self.alpha + power) - digamma(self.beta + 1.0 - power)
            new = jax.nn.sigmoid(log_odds - 0.5 * expected_distance(white, power))
            return jnp.where(new < self.tolerance, 0.0, new)

        power = iterate(update, jnp.ones_like(white.num_observed), self.iterations - 1)
        return UpdateDecision(WeightedUpdate(linalg.safe_sqrt(power)))


@pytree
class StudentNoise(NoiseModel[tuple]):
    """Divide R by an inferred gamma variable: the variational Student-t filter of Piché et al. (2012).

    Model: y ~ N(Hx, R/λ), λ ~ Gamma(ν/2, ν/2), so y is Student-t. Coordinate ascent gives
    `E λ = (ν + d) / (ν + E (y - Hx)ᵀR⁻¹(y - Hx))`, and the likelihood is raised to that power. It may exceed 1,
    up to (ν + d)/ν: a small residual implies small noise.

    Args:
        dof: degrees of freedom ν.
        iterations: number of updates I of λ; the state is updated once more.
    """

    dof: float | Array = 4.0
    iterations: int = static(default=5)

    def __post_init__(self) -> None:
        """Validate the options."""
        validation.positive("dof", self.dof)
        validation.count("iterations", self.iterations)

    @property
    def requirements(self) -> Requirements:
        """None: many series run together."""
        return Requirements(one_series=False)

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Infer λ."""
        white = whiten(context)
        return UpdateDecision(WeightedUpdate(_gamma_weight(white, 0.5 * self.dof, 0.5 * self.dof, self.iterations)))


@pytree
class GammaWeight(NoiseModel[tuple]):
    """Divide R by an inferred gamma variable with a given prior: the weights of Ting et al. (2007).

    Model: y ~ N(Hx, R/λ), λ ~ Gamma(a, b); coordinate ascent gives `E λ = (a + d/2) / (b + ½ E (y-Hx)ᵀR⁻¹(y-Hx))`.
    (The paper prints a + ½ and leaves out the ½ in the denominator, which is not the optimum of its bound.)

    Args:
        shape: a.
        rate: b.
        iterations: number of updates I of λ.
    """

    shape: float | Array = 1.0
    rate: float | Array = 1.0
    iterations: int = static(default=5)

    def __post_init__(self) -> None:
        """Validate the options."""
        validation.positive("shape", self.shape)
        validation.positive("rate", self.rate)
        validation.count("iterations", self.iterations)

    @property
    def requirements(self) -> Requirements:
        """None: many series run together."""
        return Requirements(one_series=False)

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Infer λ."""
        white = whiten(context)
        return UpdateDecision(WeightedUpdate(_gamma_weight(white, self.shape, self.rate, self.iterations)))


@pytree
class InverseWishart(NoiseModel[tuple]):
    """Infer the noise covariance of each measurement: KF-IW of Agamennoni et al. (2012).

    Model: y ~ N(Hx, Λ), Λ ~ inverse Wishart around R with ℓ degrees of freedom. Coordinate ascent gives
    `Λ = (ℓ R + E (y - Hx)(y - Hx)ᵀ) / (ℓ + 1)`, starting from the prediction: noise grows along the residual only.

    Args:
        scaling: ℓ; the larger, the closer to the Kalman filter, at rate 1/ℓ.
        iterations: I.
    """

    scaling: float | Array = 10.0
    iterations: int = static(default=4)

    def __post_init__(self) -> None:
        """Validate the options."""
        validation.positive("scaling", self.scaling)
        validation.count("iterations", self.iterations)

    @property
    def requirements(self) -> Requirements:
        """None: many series run together."""
        return Requirements(one_series=False)

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Infer Λ."""
        white = whiten(context)
        identity = linalg.eye(white.signal.shape[0], white.signal)

        def blend(square: Array) -> Array:
            return (self.scaling * identity + square) / (self.scaling + 1.0)

        start = blend(linalg.outer(white.residual, white.residual) + white.signal)
        noise_cov = iterate(lambda cov: blend(expected_square(white, cov)), start, self.iterations - 1)
        return UpdateDecision(WeightedUpdate(whitening_root(white, noise_cov)))


def _gamma_weight(white: Whitened, shape: float | Array, rate: float | Array, iterations: int) -> Array:
    def update(power: Array) -> Array:
        return (shape + 0.5 * white.num_observed) / (rate + 0.5 * expected_distance(white, power))

    return jnp.sqrt(iterate(update, jnp.ones_like(white.num_observed), iterations))
