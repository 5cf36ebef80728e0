"""Scale mixture noise with online estimates of two scale factors, r of R and q of Q, and of autocorrelation.

`wolf.inference.noise.adaptive_scale_mixture` estimates the distribution of the scale of each measurement, so that an R
that is wrong for all of them is corrected slowly, and a wrong Q not at all. Here a = ln r and b = ln q follow the score
of the log predictive density of the robust filter itself (`wolf.inference.noise.noise_scale_rml`).

The scales are s_k = r t_k, with counts from two priors, one narrow and one wide, which are averaged with weights by how
well each predicted the measurements.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import validation
from wolf.beliefs import Affine, Belief
from wolf.inference.noise import ar1_noise_state, mixture_counts, noise_scale_rml
from wolf.inference.noise.adaptive_scale_mixture import check_has_noise
from wolf.inference.noise.ar1_noise_state import Ar1State, JointScore
from wolf.inference.noise.delegating import select
from wolf.inference.noise.mixture_counts import PRIORS, ScalePrior
from wolf.inference.noise.noise_estimate import NoiseEstimate
from wolf.inference.noise.noise_scale_rml import ScaleEstimates
from wolf.inference.noise.scale_mixture import Matched, match
from wolf.inference.noise.sensitivities import RQ, Information, Sensitivities, information, score
from wolf.inference.noise.whitened import Whitened, whiten
from wolf.interfaces import NoiseModel, Number, UpdateContext, UpdateDecision
from wolf.numerics import linalg
from wolf.numerics.linalg import matmul, matvec, pairwise_sum, sum_leading
from wolf.numerics.pytree import PyTree, pytree, static
from wolf.statespace import Bound, LinearMap, Model, ParameterModel

SIZES = tuple(np.logspace(-0.6, 3.6, 8).tolist())  # t_k; a common factor of all of them is r
MAX_STATES_AR1 = 16  # of a model with AR(1) noise: H F⁻¹ is computed in every step, unless native code does it once
VAGUE_RATIO = 300.0  # predicted over noise variance above which a residual does not inform about the noise
UNOBSERVED_RATIO = 30.0  # the same, where the variance is of the prior and not of Q: then nothing is learned
MAX_SHARE_OF_Q = 0.5  # of the predicted variance that is due to Q, up to which it is of the prior
RESET_RATIO = {8: 1e10, 4: 1e4}  # above which sensitivities consist of rounding errors, by the bytes of a number
MIN_UNCERTAINTY = 1e-6  # below which a scale is exact: 1/u² would overflow where it is squared
MAX_UNCERTAINTY = 4.0  # of both: with less knowledge of R or Q the model must be fitted before filtering


class NoiseScalesMemory(NamedTuple):
    """Memory of the noise model.

    Attributes:
        counts: of the components, one row for each prior, (I, K).
        weights: of the priors, (I,).
        scale_estimates: of r and q; None for a sensor that shares them with the first one.
        ar1: of autocorrelated noise; None where it is not estimated.
    """

    counts: Array
    weights: Array
    scale_estimates: ScaleEstimates | None
    ar1: Ar1State | None = None


@pytree
class AdaptiveNoiseScales(NoiseModel[NoiseScalesMemory]):
    """Estimate the scale factors of R and Q, the outlier rate and the autocorrelation of the noise online.

    Args:
        r_uncertainty: prior standard deviation of ln r; 1 says that R is known to a factor of e, 0 or None that it is
            exact.
        q_uncertainty: the same for ln q if Q is off; the prior odds for that are 3 : 1, and 1 : 4 in nonlinear models.
        forgetting: ρ, the share of the counts kept from one measurement to the next.
        priors: log-normal priors of the counts, as (width, strength, weight).
        sizes: t_k, increasing; 1 among them is R as the model has it.
        estimate_autocorrelation: whether to estimate the AR(1) coefficient of the noise
            (`wolf.inference.noise.ar1_noise_state`); not for several sensors in sequence, nor above 16 states.
        r_is_lower_bound: whether the noise is never taken for less than R: r is at least 1, as are the sizes in use.

    Example:
        >>> AdaptiveNoiseScales(q_uncertainty=0.0).q_uncertainty is None
        True
    """

    r_uncertainty: Number | str | None = 1.6
    q_uncertainty: Number | str | None = 1.3
    forgetting: float | Array = 0.998
    priors: tuple[ScalePrior, ...] = static(default=PRIORS, repr=False)
    sizes: tuple[float, ...] = static(default=SIZES, repr=False)
    estimate_autocorrelation: bool = static(default=True)
    r_is_lower_bound: bool = static(default=False)

    def __post_init__(self) -> None:
        """Validate the options; an exact scale becomes None, so that nothing is carried for it."""
        for name, value in (("r_uncertainty", self.r_uncertainty), ("q_uncertainty", self.q_uncertainty)):
            if value is not None and not isinstance(value, jax.core.Tracer):
                object.__setattr__(self, name, _uncertainty(name, value) or None)
        validation.boolean("estimate_autocorrelation", self.estimate_autocorrelation)
        validation.boolean("r_is_lower_bound", self.r_is_lower_bound)
        validation.probability("forgetting", self.forgetting)
        validation.positive("sizes", np.asarray(self.sizes))
        if np.any(np.diff(self.sizes) <= 0):
            raise ValueError(f"sizes must increase; got {self.sizes}")
        priors = tuple(ScalePrior(*map(float, prior)) for prior in self.priors)
        if not priors or not all(0.0 < part < np.inf for prior in priors for part in prior):
            raise ValueError(
                f"priors must be at least one of (width, strength, weight), all positive; got {self.priors}"
            )
        object.__setattr__(self, "priors", priors)

    @property
    def components(self) -> tuple[float, ...]:
        """Sizes t_k in use."""
        return tuple(size for size in self.sizes if size >= 1.0) if self.r_is_lower_bound else self.sizes

    @property
    def is_mixture(self) -> bool:
        """True: over all scales."""
        return True

    def check(self, model: Model) -> None:
        """Raise for counts, classes and other families whose variance follows from their mean."""
        check_has_noise(model)

    def start(self, model: Model) -> NoiseScalesMemory:
        """Return the prior counts, and r = q = 1."""
        dtype = jnp.asarray(model.prior.mean).dtype
        counts, weights = mixture_counts.prior_counts(self.components, self.priors, dtype)
        if not self._estimates_scales:
            return NoiseScalesMemory(counts, weights, None)
        sensitivities, unit = self._initial_sensitivities(model), jnp.asarray(1.0 / model.obs_dim, dtype)
        estimates = noise_scale_rml.initial_estimates(
            self._prior_information(unit),
            sensitivities,
            unit,
            nonlinear=sensitivities is not None and not model.linear,
        )
        has_ar1 = self.estimate_autocorrelation and sensitivities is not None and model.state_dim <= MAX_STATES_AR1
        ar1 = ar1_noise_state.initial_state(model) if has_ar1 else None
        return NoiseScalesMemory(counts, weights, estimates, ar1)

    def _prior_information(self, like: Array) -> RQ:
        """Compute the prior information about a and b, in the dtype of an array; 1, not used, for an exact scale."""
        xp, both = linalg.array_namespace(like), (self.r_uncertainty, self.q_uncertainty)
        return RQ(*(xp.ones((), like.dtype) if u is None else 1.0 / xp.asarray(u, like.dtype) ** 2 for u in both))

    def _initial_sensitivities(self, model: Model) -> Sensitivities | None:
        """Return zero sensitivities; None for parameters, which have no dynamics and a large covariance already."""
        if isinstance(model, ParameterModel):
            return None
        size, dtype = model.state_dim, jnp.asarray(model.prior.mean).dtype
        return Sensitivities(jnp.zeros(size, dtype), jnp.zeros((size, size), dtype))

    def predict(
        self, memory: NoiseScalesMemory, view: Affine, noise_cov: Array | None, t: Array
    ) -> tuple[Array | None, NoiseScalesMemory]:
        """Scale Q by q, and predict the sensitivities."""
        estimates = memory.scale_estimates
        if estimates is None or estimates.sensitivities is None:
            return noise_cov, memory
        scaled = noise_cov if noise_cov is None else self._scales(estimates).dynamics * noise_cov
        ar1 = None if memory.ar1 is None else ar1_noise_state.predict(memory.ar1, view.jac)
        estimates = estimates._replace(sensitivities=estimates.sensitivities.predict(view.jac, scaled))
        return scaled, memory._replace(scale_estimates=estimates, ar1=ar1)

    def predict_measurement(
        self,
        memory: NoiseScalesMemory,
        view: Affine,
        belief: Belief,
        dynamics: LinearMap | Bound,
        noise_cov: Array | None,
    ) -> tuple[Affine, PyTree]:
        """Add the autocorrelated part of the noise, and return H beside it."""
        ar1 = memory.ar1
        if ar1 is None or memory.scale_estimates is None or len(ar1.noise) != len(view.mean):  # of another sensor
            return view, None
        q = self._scales(memory.scale_estimates).dynamics
        return ar1_noise_state.predict_measurement(ar1, view, belief, dynamics, noise_cov, q), view.jac

    def noise_estimate(self, memory: NoiseScalesMemory) -> NoiseEstimate:
        """Return the mixture of the current counts, and the scale factors in use."""
        estimates = memory.scale_estimates
        sizes = np.asarray(self.components, memory.counts.dtype)
        counts = mixture_counts.mixed_counts(memory.counts, memory.weights)
        if estimates is None:
            return NoiseEstimate(sizes, counts)
        scales = self._scales(estimates)
        rho = 0.0 if memory.ar1 is None else ar1_noise_state.coefficient_in_use(memory.ar1)
        log_odds = None if memory.ar1 is None else memory.ar1.log_odds
        spreads = None
        if self._estimated(estimates).dynamics:
            prior = self._prior_information(estimates.prior_share)
            spreads = noise_scale_rml.reported_variances(estimates, prior)
        return NoiseEstimate(sizes, counts, scales.dynamics, spreads, scales.noise, rho, log_odds=log_odds)

    @property
    def _estimates_scales(self) -> bool:
        return self.r_uncertainty is not None or self.q_uncertainty is not None

    def _estimated(self, estimates: ScaleEstimates) -> RQ:
        """Return which of r and q are estimated: no q without sensitivities."""
        has_sensitivities = estimates.sensitivities is not None
        return RQ(self.r_uncertainty is not None, self.q_uncertainty is not None and has_sensitivities)

    def _scales(self, estimates: ScaleEstimates) -> RQ:
        """Compute r and q as they are used."""
        return noise_scale_rml.scales_in_use(estimates, self._estimated(estimates))

    def shared_memory(self, memory: NoiseScalesMemory) -> ScaleEstimates | None:
        """Return r and q, which sensors share: there is one Q."""
        return memory.scale_estimates

    def with_shared_memory(self, memory: NoiseScalesMemory, shared: ScaleEstimates | None) -> NoiseScalesMemory:
        """Return a memory with other r and q, and without AR(1) noise, which sequential sensors do not estimate."""
        return memory._replace(scale_estimates=shared, ar1=None)

    def loo_information_root(self, context: UpdateContext[NoiseScalesMemory]) -> Array:
        """Return W without sensitivities, since a cavity has no dynamics."""
        return super().loo_information_root(context._replace(memory=self._without_dynamics(context.memory)))

    def _without_dynamics(self, memory: NoiseScalesMemory) -> NoiseScalesMemory:
        """Return the memory for single measurements: the stationary scale of the noise, without sensitivities."""
        estimates = memory.scale_estimates
        if estimates is None:
            return memory
        log_noise = estimates.log_noise
        if memory.ar1 is not None:  # of the noise as a whole, and not only of its innovation
            log_noise = log_noise - jnp.log(1.0 - ar1_noise_state.coefficient_in_use(memory.ar1) ** 2)
        return memory._replace(scale_estimates=estimates._replace(sensitivities=None, log_noise=log_noise), ar1=None)

    def snapshot(self, memory: NoiseScalesMemory) -> PyTree:
        """Return the weights of the priors."""
        return memory.weights if self._estimates_scales else ()

    def after_jump(self, memory: NoiseScalesMemory, snapshot: PyTree, rejected: Array) -> NoiseScalesMemory:
        """Remove the counts of the rejected measurements, and reset the sensitivities: the new state has none yet."""
        if not self._estimates_scales:
            return memory
        estimates = memory.scale_estimates
        if estimates is not None and estimates.sensitivities is not None:
            zeros = Sensitivities(*(jnp.zeros_like(each) for each in estimates.sensitivities))
            estimates = estimates._replace(sensitivities=zeros, calm=jnp.zeros_like(estimates.calm))
        ar1 = None if memory.ar1 is None else ar1_noise_state.after_jump(memory.ar1)
        prior, _ = mixture_counts.prior_counts(self.components, self.priors, memory.counts.dtype)
        is_outlier = self.noise_estimate(memory).is_outlier
        counts = mixture_counts.without_outliers(memory.counts, prior, is_outlier, rejected.sum())
        return NoiseScalesMemory(counts, snapshot, estimates, ar1)

    def after_unusable(self, memory: NoiseScalesMemory, unusable: Array) -> NoiseScalesMemory:
        """Count an infinite number as one of the widest component, under each prior."""
        return memory._replace(counts=memory.counts + np.eye(memory.counts.shape[-1])[-1].astype(memory.counts.dtype))

    def __call__(self, context: UpdateContext[NoiseScalesMemory]) -> UpdateDecision[NoiseScalesMemory]:
        """Match the moments of the mixture posterior, and update the counts and the scale factors."""
        memory, estimate = context.memory, self.noise_estimate(context.memory)
        innovation: float | Array = 1.0
        if context.predicted_measurement is not None and memory.ar1 is not None:
            innovation = ar1_noise_state.innovation_scale(memory.ar1, context.observed)
        matched = match(context, innovation * estimate.scales, estimate.counts, far=True)
        outlier = 1.0 - pairwise_sum(jnp.where(estimate.is_outlier, 0.0, matched.share))
        prior = mixture_counts.prior_counts(self.components, self.priors, memory.counts.dtype)
        counts, weights = mixture_counts.update_counts(memory.counts, memory.weights, matched, prior, self.forgetting)
        estimates, ar1 = self._update_scales(context, matched, innovation * estimate.ordinary, 1.0 - outlier)
        scales = (estimate.whole, estimate.dynamics) if self._estimates_scales else None
        updated = NoiseScalesMemory(counts, weights, estimates, ar1)
        if estimates is not None and estimates.sensitivities is not None:
            updated = self._unless_unobserved(context, innovation * estimate.ordinary, updated)
        return UpdateDecision(matched.pull, updated, outlier, scales=scales)

    def _unless_unobserved(
        self, context: UpdateContext[NoiseScalesMemory], ordinary: Array, updated: NoiseScalesMemory
    ) -> NoiseScalesMemory:
        """Keep all estimates while the predicted variance is that of a diffuse prior; sensitivities are updated.

        The residual then measures the state: it says nothing about the noise, and whether the measurement is an outlier
        is unknown. Where the variance is due to a large Q the estimates are updated.
        """
        old, new = context.memory.scale_estimates, updated.scale_estimates
        assert old is not None
        assert new is not None
        assert old.sensitivities is not None
        white = whiten(context)
        projected = old.sensitivities.project(matmul(white.whitening(), context.view.jac))
        signal, of_q = sum_leading(linalg.diagonal(white.signal)), sum_leading(linalg.diagonal(projected.cov))
        wide = signal > UNOBSERVED_RATIO * ordinary * white.num_observed
        unobserved = wide & (of_q < MAX_SHARE_OF_Q * signal)
        kept = context.memory._replace(scale_estimates=old._replace(sensitivities=new.sensitivities))
        return select(unobserved, kept._replace(ar1=updated.ar1), updated)

    def _update_scales(
        self, context: UpdateContext[NoiseScalesMemory], matched: Matched, ordinary: Array, inlier: Array
    ) -> tuple[ScaleEstimates | None, Ar1State | None]:
        """Update the scale factors by the score, the sensitivities, and the autocorrelated noise."""
        estimates, mixture = context.memory.scale_estimates, matched.pull
        if estimates is None:
            return None, None
        white = whiten(context)
        pull = matvec(mixture.gain, white.residual)
        sensitivities, projected = None, None
        if estimates.sensitivities is not None:
            projected = estimates.sensitivities.project(matmul(mixture.whitening, context.view.jac))
            jac_cov = matmul(mixture.whitening, context.belief.cross_covariance(context.view.jac))
            sensitivities = estimates.sensitivities.condition(projected, jac_cov, mixture.gain, pull)
            limit = RESET_RATIO[white.signal.dtype.itemsize]
            sensitivities = sensitivities.reset_where(sum_leading(linalg.diagonal(white.signal)) > limit)
        gradient = score(projected, mixture, white.residual, pull, pairwise_sum(matched.share), white.num_observed)
        fisher = information(projected, white.signal, ordinary, white.num_observed)
        part = jnp.minimum(white.num_observed * estimates.unit, 1.0)
        explained = jnp.clip(
            2.0 * (fisher.cross + fisher.dynamics) * (1.0 / jnp.maximum(white.num_observed, 1.0)), 0.0, 1.0
        )
        informs = _informs_about_noise(white, ordinary)
        gradient = gradient._replace(noise=informs * gradient.noise)
        fisher = Information(informs * inlier * fisher.noise, informs * inlier * fisher.cross, inlier * fisher.dynamics)
        prior = self._prior_information(estimates.prior_share)
        moved = noise_scale_rml.update_scales(
            estimates, prior, gradient, fisher, part, explained, self._estimated(estimates)
        )
        if self.r_is_lower_bound:
            moved = moved._replace(log_noise=jnp.maximum(moved.log_noise, 0.0))
        ar1 = context.memory.ar1
        if ar1 is not None and projected is not None and context.predicted_measurement is not None:
            joint = JointScore(projected.mean, RQ(gradient.noise, gradient.dynamics), fisher, estimates.information)
            ar1 = ar1_noise_state.update(ar1, context, white, mixture, jac_cov, ordinary, inlier, joint)
        return moved._replace(sensitivities=sensitivities), ar1


def _informs_about_noise(white: Whitened, ordinary: Array) -> Array:
    """Return 1, or 0 for a vague prediction: σ_a assumes a prior proportional to R, and would call R too large."""
    vague = sum_leading(linalg.diagonal(white.signal)) > VAGUE_RATIO * ordinary * white.num_observed
    return jnp.where(vague, 0.0, 1.0)


def _uncertainty(name: str, value: Number | str) -> float:
    """Read a standard deviation of a logarithm; one that is almost 0 is 0, which leaves digits for the information."""
    letter = name[0].upper()
    found = validation.one_number(value)
    if found is not None and 0.0 <= found <= MAX_UNCERTAINTY:
        return found if found >= MIN_UNCERTAINTY else 0.0
    raise ValueError(
        f"{name} must be one number from 0 ({letter} is right) to {MAX_UNCERTAINTY:g} ({letter} may be off by a factor "
        f"of {np.exp(MAX_UNCERTAINTY):.0f}), the standard deviation of its logarithm; got "
        f"{validation.short_repr(value)}"
    )
