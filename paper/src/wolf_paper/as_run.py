"""Rules as the paper's box prints them and as its code ran them, where either differs from what the library does.

They live here because they are part of the paper's record, not of the toolbox: the library has the rules that their
own derivations give (`wolf.noise.BetaBernoulli`, `wolf.noise.InverseWishart`) and the printed ensembles
(`wolf.ensembles.SampledGain`).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import digamma

from wolf import validation
from wolf.beliefs.updates import WeightedUpdate
from wolf.inference.ensembles.as_published import perturbed
from wolf.inference.ensembles.interfaces import Analysis, AnalysisRequirements, AnalysisResult
from wolf.inference.ensembles.observation_ensemble import ObservationEnsemble
from wolf.inference.noise.whitened import Whitened, expected_distance, iterate, whiten, whitening_root
from wolf.interfaces import NoiseModel, Requirements, UpdateContext, UpdateDecision
from wolf.numerics import linalg
from wolf.numerics.pytree import pytree, static
from wolf.statespace import Model


@pytree
class PrintedBernoulli(NoiseModel):
    """KF-B as the algorithm box of Duran-Martin et al. (2024, appendix A) prints it.

    log odds of ρ = Ψ(α') - Ψ(β' + 1) - ½ E (y - Hx)ᵀR⁻¹(y - Hx), with α' = α + ρ and β' = β + 1 - ρ after the first
    pass and α, β before it. (Variational Bayes gives Ψ(α') - Ψ(β') with the updated counts, as the library has it:
    the box counts the outlier twice.)

    Args:
        alpha: α.
        beta: β.
        iterations: I; the first is the Kalman update.
        tolerance: ρ below this is 0.
    """

    alpha: Any
    beta: Any
    iterations: int = static(default=4)
    tolerance: Any = 1e-7

    @property
    def requirements(self) -> Requirements:
        """Take many series together."""
        return Requirements(one_series=False)

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Infer ρ."""
        white = whiten(context)

        def infer(power: Array, alpha: Any, beta: Any) -> Array:
            return _responsibility(alpha, beta, expected_distance(white, power), self.tolerance)

        one = jnp.ones_like(white.num_observed)
        if self.iterations == 1:
            return UpdateDecision(WeightedUpdate(one))
        first = infer(one, self.alpha * one, self.beta * one)
        power = iterate(
            lambda power: infer(power, self.alpha + power, self.beta + 1.0 - power), first, self.iterations - 2
        )
        return UpdateDecision(WeightedUpdate(linalg.safe_sqrt(power)))


class LoopState(NamedTuple):
    """Counts that the code of KF-B carries from step to step."""

    alpha: Array
    beta: Array


@pytree
class CarriedBernoulli(NoiseModel):
    """KF-B as the authors' library of February 2024 ran it.

    The counts α', β' are those that the previous *time step* left, starting at 1, and stay fixed in the inner loop;
    the residual is that of the posterior mean alone, without H Σ Hᵀ.

    Args:
        alpha: α.
        beta: β.
        iterations: I; the first is the Kalman update.
        tolerance: ρ below this is 0.
    """

    alpha: Any
    beta: Any
    iterations: int = static(default=4)
    tolerance: Any = 1e-7

    def start(self, model: Model) -> LoopState:
        """Start at one count each."""
        one = jnp.ones((), jnp.asarray(model.prior.mean).dtype)
        return LoopState(one, one)

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Infer ρ; the counts of the next step come from one more pass, which the state does not see."""
        white = whiten(context)
        before = context.memory

        def infer(power: Array) -> Array:
            return _responsibility(before.alpha, before.beta, _residual_distance(white, power), self.tolerance)

        power = iterate(infer, jnp.ones_like(white.num_observed), self.iterations - 1)
        last = infer(power)
        return UpdateDecision(
            WeightedUpdate(linalg.safe_sqrt(power)), memory=LoopState(self.alpha + last, self.beta + 1.0 - last)
        )


@pytree
class BroadcastWishart(NoiseModel):
    """KF-IW as the authors' library of February 2024 ran it: ‖y - Hμ‖² is added to *every* entry of the matrix.

    The outer product was taken between two one-dimensional arrays, which gives their inner product. For one
    measured coordinate the two are the same. (The library's `InverseWishart` has the outer product.)

    Args:
        scaling: ℓ.
        iterations: I.
    """

    scaling: Any
    iterations: int = static(default=4)

    @property
    def requirements(self) -> Requirements:
        """Take many series together."""
        return Requirements(one_series=False)

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Infer Λ."""
        white = whiten(context)
        root = white.noise.matrix()
        ones = white.noise.half(jnp.ones_like(white.residual))
        every = linalg.outer(ones, ones)  # L⁻¹ 11ᵀ L⁻ᵀ
        identity = linalg.eye(white.signal.shape[0], white.signal)

        def blend(residual: Array, spread: Array) -> Array:
            square = linalg.sum_leading(linalg.matvec(root, residual) ** 2)  # of y - Hμ, in the units of y
            return (self.scaling * identity + square[None, None] * every + spread) / (self.scaling + 1.0)

        def again(cov: Array) -> Array:
            factor = linalg.cholesky(white.signal + cov)
            residual = linalg.matvec(cov, factor.solve(white.residual))
            return blend(residual, linalg.symmetrise(linalg.matmul(cov, factor.solve(white.signal))))

        start = blend(white.residual, white.signal)
        return UpdateDecision(WeightedUpdate(whitening_root(white, iterate(again, start, self.iterations - 1))))


@pytree
class ReferenceGain(Analysis):
    """The update of the published code, to repeat its figures: `K = var(ŷ)⁻¹ cov(x, ŷ)`, the factors the other way.

    For models that measure every state (M = D). With `inflation` the diagonal of cov(x, ŷ) is multiplied by it and
    `K = (cov + R)⁻¹ cov`; the members themselves are not inflated.

    Args:
        inflation: None, or the factor; 3 in the published runs with 20 members.
    """

    inflation: Any = None

    @property
    def requirements(self) -> AnalysisRequirements:
        """Draw the noise of each member, and take the printed weights."""
        return AnalysisRequirements(perturbed=True, per_member=True, error_weights=True)

    def __post_init__(self) -> None:
        """Check the inflation."""
        validation.positive("inflation", self.inflation)

    def __call__(
        self,
        mean: Array,
        anomalies: Array,
        sight: ObservationEnsemble,
        weight: Array,
        draws: Array,
        key: Array,
        taper: Any,
    ) -> AnalysisResult:
        """Move every member; arguments as in `Stochastic`."""
        errors = perturbed(sight, draws)
        if errors.shape[1] != anomalies.shape[1]:
            raise ValueError(
                f"ReferenceGain needs as many observations as states; got {errors.shape[1]} and {anomalies.shape[1]}"
            )
        weighed = errors * (weight if weight.ndim == 2 else weight[None])
        seen = errors.mean(0)[None] - errors
        cross = anomalies.T @ seen / sight.degrees
        if self.inflation is None:
            inner = seen.T @ seen / sight.degrees
        else:
            cross = cross + (self.inflation - 1.0) * jnp.diag(jnp.diagonal(cross))
            inner = cross + sight.noise.matrix()
        return AnalysisResult(mean, anomalies + jnp.linalg.solve(inner, cross @ weighed.T).T)


def _responsibility(alpha: Any, beta: Any, distance: Array, tolerance: Any) -> Array:
    """Weigh a good measurement against an outlier, as the box and the code do; Ψ(α' + β' + 1) cancels."""
    power = jax.nn.sigmoid(digamma(alpha) - digamma(beta + 1.0) - 0.5 * distance)
    return jnp.where(power < tolerance, 0.0, power)


def _residual_distance(white: Whitened, power: Array) -> Array:
    """Compute `(y - Hμ)ᵀ R⁻¹ (y - Hμ)` at the posterior mean of a measurement believed to a power."""
    identity = linalg.eye(white.signal.shape[0], white.signal)
    return linalg.sum_leading(linalg.cholesky(identity + power[None, None] * white.signal).solve(white.residual) ** 2)
