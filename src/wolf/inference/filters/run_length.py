"""Online changepoints: a filter for each of the likeliest starts of the current segment.

RL[K]-PR of Duran-Martin, Sánchez-Betancourt, Shestopaloff & Murphy (2025, "A unifying framework for generalised
Bayesian online learning in non-stationary environments", TMLR, arXiv 2411.10153), the Bayesian online changepoint
detection of Adams & MacKay (2007) around any filter. At each step the state is redrawn from the prior with
probability π, the hazard. A hypothesis is a run length (the number of steps since), a belief, and a log weight ν:

    growth   ν_k <- ν_k + log(1 - π) + s_k        s_k the log predictive density of y under its prediction
    reset    ν_0 <- log Σ_k exp ν_k + log π + s_0        with the prior as the belief

and the K largest are kept. Where the filter down-weights y, its density is that of a residual with R / w², so that an
outlier costs every hypothesis about the same and does not favour the reset. That score is no density of y, and a weight
of 0 counts as `MIN_WEIGHT`: hard gates reset at outliers.

Choices where the paper and its code differ: the reset is updated with y as in the paper (the code keeps the bare
prior), densities are those after the prediction, so that Q counts, and a new segment begins as `wolf.filter` does, by
a prediction from the prior.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import logsumexp

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.beliefs.affine import hide_noise
from wolf.beliefs.density import log_density
from wolf.inference.filters.gaussian import OUTLIER_POWER, GaussianFilter, GaussianState
from wolf.interfaces import Filter, Measurement, Number, Requirements, StepInfo
from wolf.numerics import linalg
from wolf.numerics.pytree import pytree, static
from wolf.statespace import Model

DEFAULT_HAZARD = 0.01
DEFAULT_HYPOTHESES = 15  # of the largest that the authors compare; more changed little there
MIN_WEIGHT = 1e-8  # least weight in a score


class RunLengthState(NamedTuple):
    """Hypotheses about the start of the current segment; they are on the last axis, one of them without weight.

    Attributes:
        hypotheses: state of each filter.
        log_weights: log ν, (K + 1,), normalised.
        run_lengths: steps of each segment before the current one, (K + 1,).
        prior: state at the start of a segment.
        t: number of measurements so far.
    """

    hypotheses: GaussianState
    log_weights: Array
    run_lengths: Array
    prior: GaussianState
    t: Array

    @property
    def probabilities(self) -> Array:
        """Probability of each hypothesis, (K + 1,)."""
        return linalg.array_namespace(self.log_weights).exp(self.log_weights)

    @property
    def run_length(self) -> Array:
        """Most probable run length: 0 at the first step of a segment."""
        xp = linalg.array_namespace(self.log_weights)
        return xp.take(self.run_lengths, xp.argmax(self.log_weights))

    @property
    def start(self) -> Array:
        """First step of the current segment, by the most probable run length."""
        return self.t - 1 - self.run_length

    @property
    def mean(self) -> Array:
        """Mean of the mixture, (D,)."""
        return _blend(self.hypotheses.mean, self.hypotheses.cov, self.probabilities).mean

    @property
    def cov(self) -> Array:
        """Covariance of the mixture, within and between the hypotheses, (D, D)."""
        return _blend(self.hypotheses.mean, self.hypotheses.cov, self.probabilities).cov

    @property
    def variances(self) -> Array:
        """Variances of the mixture, (D,)."""
        return linalg.diagonal(self.cov)


@pytree
class RunLength(Filter):
    """Filter with changepoints at which the state is redrawn from the prior, found online.

    Args:
        filter: of each segment.
        hazard: probability of a change per step.
        hypotheses: K, number of starts that are kept.

    Example:
        >>> RunLength(hazard=0.02).hazard
        0.02
    """

    filter: GaussianFilter = GaussianFilter()
    hazard: Number = DEFAULT_HAZARD
    hypotheses: int = static(default=DEFAULT_HYPOTHESES)

    def __post_init__(self) -> None:
        """Validate the options."""
        if not isinstance(self.filter, GaussianFilter):
            raise ValueError(f"RunLength takes a filter with a Gaussian belief, as wolf.WoLF(); got {self.filter!r}")
        validation.probability("hazard", self.hazard)
        validation.count("hypotheses", self.hypotheses)

    @property
    def requirements(self) -> Requirements:
        """Requirements of the filter of each segment, one series at a time."""
        return self.filter.requirements | Requirements()

    def check(self, model: Model) -> None:
        """Validate the model for the filter of each segment."""
        self.filter.check(model)

    def suited(self, model: Model) -> "RunLength":
        """Return a copy whose filter has the numerical form for the model."""
        return dataclasses.replace(self, filter=self.filter.suited(model))

    def init(self, model: Model, key: Array | None = None) -> RunLengthState:
        """Return the initial state: one hypothesis, the prior."""
        prior = self.filter.init(model, key)
        size = self.hypotheses + 1
        hypotheses = jax.tree.map(lambda leaf: jnp.stack([leaf] * size, axis=-1), prior)
        log_weights = jnp.where(jnp.arange(size) == 0, 0.0, -jnp.inf).astype(prior.mean.dtype)
        return RunLengthState(hypotheses, log_weights, jnp.full(size, -1, jnp.int32), prior, jnp.zeros((), jnp.int32))

    def predict(self, now: Model, state: RunLengthState, u: Array | None, key: Array | None = None) -> RunLengthState:
        """Add the hypothesis of a change in place of the one without weight, then predict each."""
        fresh = jnp.arange(len(state.log_weights)) == jnp.argmin(state.log_weights)
        hypotheses = jax.tree.map(lambda old, new: jnp.where(fresh, new[..., None], old), state.hypotheses, state.prior)
        log_weights = jnp.where(
            fresh, logsumexp(state.log_weights) + jnp.log(self.hazard), state.log_weights + jnp.log1p(-self.hazard)
        )
        run_lengths = jnp.where(fresh, 0, state.run_lengths + 1)
        predicted = jax.vmap(lambda each: self.filter.predict(now, each, u, key), in_axes=-1, out_axes=-1)(hypotheses)
        return RunLengthState(predicted, log_weights, run_lengths, state.prior, state.t)

    def update(
        self, now: Model, state: RunLengthState, y: Measurement, u: Array | None, key: Array | None = None
    ) -> tuple[RunLengthState, StepInfo]:
        """Update each hypothesis and its weight, and take the weight of the least probable one."""

        def update_one(each: GaussianState) -> tuple[GaussianState, StepInfo, Array]:
            new, info = self.filter.update(now, each, y, u, key)
            obs_cov = hide_noise(now.obs_cov_at(each.mean, u), y.observed)
            return new, info, _score(info, obs_cov, y)

        hypotheses, infos, scores = jax.vmap(update_one, in_axes=-1, out_axes=-1)(state.hypotheses)
        log_weights = state.log_weights + jnp.where(y.num_observed > 0, scores, 0.0)
        log_weights = log_weights - logsumexp(log_weights)
        least = jnp.arange(len(log_weights)) == jnp.argmin(log_weights)
        kept = jnp.where(least, -jnp.inf, log_weights)
        new = state._replace(hypotheses=hypotheses, log_weights=kept - logsumexp(kept), t=state.t + 1)
        return new, _describe(state, jnp.exp(log_weights), infos, y)


def _score(info: StepInfo, obs_cov: Array, y: Measurement) -> Array:
    """Compute log N(e; 0, H P Hᵀ + R / w²) of a hypothesis, without dividing by w."""
    weight = jnp.maximum(jnp.broadcast_to(info.weight, y.value.shape), MIN_WEIGHT)
    cov = linalg.outer(weight, weight) * (info.innovation_cov - obs_cov) + obs_cov
    scaled = log_density(weight * info.residual, linalg.cholesky(cov), y.num_observed)
    return scaled + linalg.sum_leading(y.observed * jnp.log(weight))


def _describe(state: RunLengthState, after: Array, infos: StepInfo, y: Measurement) -> StepInfo:
    """Describe a step by the mixture of the predictions.

    Args:
        state: predicted.
        after: probabilities of the hypotheses after the measurement, (K + 1,).
        infos: of each hypothesis, on the last axis.
        y: the measurement.
    """
    log_before = state.log_weights - logsumexp(state.log_weights)
    mixed = _blend(infos.residual, infos.innovation_cov, jnp.exp(log_before))
    predicted = _blend(infos.predicted.mean, infos.predicted.cov, jnp.exp(log_before))
    power = (after * infos.weight**2).sum(-1)
    came = y.any_present if power.ndim == 0 else y.present
    return StepInfo(
        predicted=predicted,
        residual=mixed.mean,
        innovation_cov=mixed.cov,
        weight=jnp.minimum(linalg.safe_sqrt(power), 1.0),
        outlier=came & (power < OUTLIER_POWER),
        nis=linalg.sum_leading(linalg.cholesky(mixed.cov).half(mixed.mean) ** 2),
        log_likelihood=jnp.where(y.num_observed > 0, logsumexp(log_before + infos.log_likelihood), 0.0),
    )


def _blend(means: Array, covs: Array, probabilities: Array) -> Gaussian:
    """Compute the mean and covariance of a mixture whose components are on the last axis."""
    mean = (probabilities * means).sum(-1)
    around = means - mean[..., None]
    return Gaussian(mean, (probabilities * (covs + around[:, None] * around[None])).sum(-1))
