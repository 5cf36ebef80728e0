"""Learned levels: one factor r for R and one factor q for Q, beside the shape of the noise.

`wolf.inference.noise.adaptive_scale_mixture` learns which sizes the noise has; each measurement draws its own, so that
a level that is wrong
for all of them is learned slowly, and a wrong Q not at all. Here a = ln r and b = ln q follow the slope of the log
predictive density of the robust filter itself, as `wolf.inference.noise.noise_scale_rml` says.

The sizes are s_k = r t_k, with counts from two priors, one narrow and one wide, which are mixed by how well each
foresaw what came.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import validation
from wolf.beliefs import Affine
from wolf.inference.noise import ar1_noise_state as lasting
from wolf.inference.noise import noise_scale_rml
from wolf.inference.noise.adaptive_scale_mixture import FLOOR, NoiseEstimate, check_has_noise
from wolf.inference.noise.ar1_noise_state import Ar1State, JointScore
from wolf.inference.noise.noise_scale_rml import ScaleEstimates
from wolf.inference.noise.scale_mixture import Matched, match
from wolf.inference.noise.sensitivities import RQ, Information, Sensitivities, information, score
from wolf.inference.noise.whitened import whiten
from wolf.interfaces import NoiseModel, UpdateContext, UpdateDecision
from wolf.numerics import linalg
from wolf.numerics.linalg import matmul, matvec, pairwise_sum, sum_leading
from wolf.numerics.pytree import pytree, static
from wolf.statespace import Model, ParameterModel


class ScalePrior(NamedTuple):
    """A prior of the counts.

    Attributes:
        width: in ln s.
        strength: measurements that it is worth.
        weight: how likely it is, beside the others.
    """

    width: float
    strength: float
    weight: float


SIZES = tuple(np.logspace(-0.6, 3.6, 8).tolist())  # t_k; what all of them are too large or small by is r
SHARED = 0.0003  # of the weights of both, given back in a step: noise rarely changes its kind
BELLS = (ScalePrior(0.37, 11.0, 0.82), ScalePrior(1.0, 28.0, 0.18))
MOST_STATES = 16  # of a model whose noise may last: H F⁻¹ is found in every step, unless native code finds it once
VAGUE = 300.0  # variance of what is predicted over that of noise from which a residual tells nothing of the noise
BLANK = {8: 1e10, 4: 1e4}  # and from which rounding is all that is left of slopes, by the bytes of a number
SURE = 1e-6  # uncertainty below which a level is known for sure: 1/u² would overflow where it is squared
LEAST_SURE = 4.0  # of both uncertainties: who knows that little of R or Q must find out before filtering


class Learning(NamedTuple):
    """What was learned so far.

    Attributes:
        counts: of the sizes, one row for each prior, (I, K).
        weights: how likely each prior is, (I,).
        levels: None for a sensor that finds them with another one.
        lasting: of noise that lasts; None where it is not looked for.
    """

    counts: Array
    weights: Array
    levels: ScaleEstimates | None
    lasting: Ar1State | None = None


@pytree
class AdaptiveNoiseScales(NoiseModel):
    """Learn how large the noise and the dynamics are, and how often the noise is far larger.

    Args:
        r_uncertainty: standard deviation of ln r before any measurement; 1 says that R is known to a factor of e, 0 or
            None that it is right.
        q_uncertainty: the same for ln q if Q is off; at first the odds for that are 3 : 1, and 1 : 4 of functions.
        forgetting: ρ, what the counts keep from one measurement to the next.
        bells: priors of the counts.
        sizes: t_k, increasing; 1 among them is R as the model has it.
        estimate_autocorrelation: whether to find out that the error of a measurement is like the one before, as
            `wolf.inference.noise.ar1_noise_state` says; not for several sensors one by one, nor above 16 states.

    Example:
        >>> AdaptiveNoiseScales(q_uncertainty=0.0).q_uncertainty is None
        True
    """

    r_uncertainty: Any = 1.6
    q_uncertainty: Any = 1.3
    forgetting: Any = 0.998
    bells: tuple[ScalePrior, ...] = static(default=BELLS, repr=False)
    sizes: tuple[float, ...] = static(default=SIZES, repr=False)
    estimate_autocorrelation: bool = static(default=True)

    def __post_init__(self) -> None:
        """Check; what is known for sure is None, so that nothing is carried for it."""
        for name in ("r_uncertainty", "q_uncertainty"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, jax.core.Tracer):
                object.__setattr__(self, name, _uncertainty(name, value) or None)
        validation.boolean("estimate_autocorrelation", self.estimate_autocorrelation)
        validation.probability("forgetting", self.forgetting)
        validation.positive("sizes", np.asarray(self.sizes))
        if np.any(np.diff(self.sizes) <= 0):
            raise ValueError(f"sizes must increase; got {self.sizes}")
        bells = tuple(ScalePrior(*map(float, bell)) for bell in self.bells)
        if not bells or not all(0.0 < part < np.inf for bell in bells for part in bell):
            raise ValueError(f"bells must be at least one of (width, strength, weight), all positive; got {self.bells}")
        object.__setattr__(self, "bells", bells)

    @property
    def is_mixture(self) -> bool:
        """True: over all sizes."""
        return True

    def check(self, model: Model) -> None:
        """Refuse counts, classes and the like: their spread follows from their mean."""
        check_has_noise(model)

    def start(self, model: Model) -> Learning:
        """Lay counts over the sizes, and believe R and Q as they are."""
        dtype = jnp.asarray(model.prior.mean).dtype
        prior = self._prior(dtype)
        if not self._learns:
            return Learning(prior, self._first(dtype), None)
        slopes, unit = self._slopes(model), jnp.asarray(1.0 / model.obs_dim, dtype)
        levels = noise_scale_rml.start(self._sure(unit), slopes, unit, curved=slopes is not None and not model.linear)
        lasts = self.estimate_autocorrelation and slopes is not None and model.state_dim <= MOST_STATES
        return Learning(prior, self._first(dtype), levels, lasting.start(model) if lasts else None)

    def _prior(self, dtype: Any) -> Array:
        """Give the counts to begin with, (I, K), where forgetting leads back to."""
        logs, rows = jnp.asarray(np.log(self.sizes), dtype), []
        for bell in self.bells:
            heights = jnp.exp(-0.5 * (logs / bell.width) ** 2) + FLOOR
            rows.append(bell.strength * heights / heights.sum())
        return jnp.stack(rows)

    def _sure(self, like: Any) -> RQ:
        """Turn standard deviations into information, of the kind of an array; 1 for what is not learned nor used."""
        xp, both = linalg.array_namespace(like), (self.r_uncertainty, self.q_uncertainty)
        return RQ(*(xp.ones((), like.dtype) if u is None else 1.0 / xp.asarray(u, like.dtype) ** 2 for u in both))

    def _first(self, dtype: Any) -> Array:
        weights = np.array([bell.weight for bell in self.bells])
        return jnp.asarray(weights / weights.sum(), dtype)

    def _slopes(self, model: Model) -> Sensitivities | None:
        """Carry slopes, but not for parameters: they have no dynamics, and a covariance that is large already."""
        if isinstance(model, ParameterModel):
            return None
        size, dtype = model.state_dim, jnp.asarray(model.prior.mean).dtype
        return Sensitivities(jnp.zeros(size, dtype), jnp.zeros((size, size), dtype))

    def predict(self, memory: Learning, view: Affine, noise_cov: Any, t: Any) -> tuple[Any, Learning]:
        """Scale Q, and push the slopes."""
        levels = memory.levels
        if levels is None or levels.slopes is None:
            return noise_cov, memory
        used = noise_cov if noise_cov is None else self._factors(levels).dynamics * noise_cov
        lasts = None if memory.lasting is None else lasting.push(memory.lasting, view.jac)
        levels = levels._replace(slopes=levels.slopes.push(view.jac, used))
        return used, memory._replace(levels=levels, lasting=lasts)

    def predict_measurement(
        self, memory: Learning, view: Affine, belief: Any, dynamics: Any, noise_cov: Any
    ) -> tuple[Affine, Any]:
        """Add the noise that is kept, and remember H."""
        lasts = memory.lasting
        if lasts is None or memory.levels is None or len(lasts.noise) != len(view.mean):  # of another sensor
            return view, None
        scale = self._factors(memory.levels).dynamics
        return lasting.predict_measurement(lasts, view, belief, dynamics, noise_cov, scale), view.jac

    def law(self, memory: Learning) -> NoiseEstimate:
        """Say what was learned."""
        levels = memory.levels
        sizes = np.asarray(self.sizes, memory.counts.dtype)
        if levels is None:
            return NoiseEstimate(sizes, self._mixed(memory))
        factors, keeps = self._factors(levels), 0.0 if memory.lasting is None else lasting.used(memory.lasting)
        known = noise_scale_rml.told(levels, self._sure(levels.fade)) if self._follows(levels).dynamics else None
        return NoiseEstimate(sizes, self._mixed(memory), factors.dynamics, known, factors.noise, keeps)

    @property
    def _learns(self) -> bool:
        return self.r_uncertainty is not None or self.q_uncertainty is not None

    def _follows(self, levels: ScaleEstimates) -> RQ:
        """Say which of r and q are learned: no q without slopes."""
        return RQ(self.r_uncertainty is not None, self.q_uncertainty is not None and levels.slopes is not None)

    def _factors(self, levels: ScaleEstimates) -> RQ:
        """Give r and q as they are used."""
        return noise_scale_rml.used(levels, self._follows(levels))

    def _mixed(self, memory: Learning) -> Array:
        """Mix the priors' probabilities by their odds, as counts of as many measurements as the priors' are."""
        if len(self.bells) == 1:
            return memory.counts[0]
        weights, worth = memory.weights, pairwise_sum(memory.counts)
        shares = (weights * worth).sum() * (weights * (1.0 / worth))
        return (shares[:, None] * memory.counts).sum(0)

    def shared(self, memory: Learning) -> ScaleEstimates | None:
        """Share the levels between sensors: there is one Q."""
        return memory.levels

    def with_shared(self, memory: Learning, shared: ScaleEstimates | None) -> Learning:
        """Take over levels. Sensors are heard one after the other, so that noise that lasts is not looked for."""
        return memory._replace(levels=shared, lasting=None)

    def settled(self, memory: Learning) -> Learning:
        """Give the memory to judge measurements by themselves with: what the noise is, without slopes of a state."""
        levels = memory.levels
        if levels is None:
            return memory
        whole = levels.log_noise
        if memory.lasting is not None:  # all of the noise, and not only what is new in it
            whole = whole - jnp.log(1.0 - lasting.used(memory.lasting) ** 2)
        return memory._replace(levels=levels._replace(slopes=None, log_noise=whole), lasting=None)

    def snapshot(self, memory: Learning) -> Any:
        """Keep the weights of the priors as they are before refused measurements vote."""
        return memory.weights if self._learns else ()

    def after_jump(self, memory: Learning, snapshot: Any, refused: Array) -> Learning:
        """Forget what refused measurements taught about the shape; where the state is now has no slopes yet."""
        if not self._learns:
            return memory
        levels = memory.levels
        if levels is not None and levels.slopes is not None:
            blank = Sensitivities(*(jnp.zeros_like(each) for each in levels.slopes))
            levels = levels._replace(slopes=blank, calm=jnp.zeros_like(levels.calm))
        lasts = None if memory.lasting is None else lasting.forget(memory.lasting)
        return Learning(self._uncounted(memory, refused.sum()), snapshot, levels, lasts)

    def _uncounted(self, memory: Learning, refused: Array) -> Array:
        """Take as many counts away from the sizes of outliers as measurements were refused: each is counted there."""
        beyond = jnp.maximum(memory.counts - self._prior(memory.counts.dtype), 0.0)
        beyond = jnp.where(self.law(memory).is_outlier, beyond, 0.0)
        share = refused / jnp.maximum(pairwise_sum(beyond), jnp.maximum(refused, 1.0))
        return memory.counts - share[:, None] * beyond

    def __call__(self, seen: UpdateContext) -> UpdateDecision:
        """Match the moments, count, and follow the slope."""
        memory, law = seen.memory, self.law(seen.memory)
        free = 1.0 if seen.predicted_measurement is None else lasting.freedom(memory.lasting, seen.observed)
        matched = match(seen, free * law.scales, law.counts, far=True)
        outlier = 1.0 - pairwise_sum(jnp.where(law.is_outlier, 0.0, matched.share))
        counts, weights = self._count(memory, matched)
        levels, lasts = self._follow(seen, matched, free * law.ordinary, 1.0 - outlier)
        scales = (law.whole, law.dynamics) if self._learns else None
        return UpdateDecision(matched.pull, Learning(counts, weights, levels, lasts), outlier, scales=scales)

    def _count(self, memory: Learning, matched: Matched) -> tuple[Array, Array]:
        """Count by each prior, and weigh the priors by how well they foresaw the measurement."""
        kept = (1.0 - self.forgetting) * self._prior(memory.counts.dtype) + self.forgetting * memory.counts
        if len(self.bells) == 1:
            return kept + matched.share[None], memory.weights
        # What is beyond all sizes counts as the widest: it is an outlier, and patience grows with their share.
        shares = memory.counts * matched.density[None]
        foreseen = pairwise_sum(shares)
        # Of what each prior is worth now, a little goes to what it was worth at first (Herbster & Warmuth 1998).
        likely = memory.weights * (1.0 / pairwise_sum(memory.counts)) * foreseen
        weights = SHARED * self._first(shares.dtype) + (1.0 - SHARED) / likely.sum() * likely
        return kept + (1.0 / foreseen)[:, None] * shares, weights

    def _follow(
        self, seen: UpdateContext, matched: Matched, ordinary: Array, sure: Array
    ) -> tuple[ScaleEstimates | None, Ar1State | None]:
        """Move the levels along the score, learn the slopes, and how noise lasts."""
        levels, pull = seen.memory.levels, matched.pull
        if levels is None:
            return None, None
        white = whiten(seen)
        pulled = matvec(pull.gain, white.residual)
        slopes, ahead = None, None
        if levels.slopes is not None:
            ahead = levels.slopes.see(matmul(pull.whitening, seen.view.jac))
            jac_cov = matmul(pull.whitening, seen.belief.cross_covariance(seen.view.jac))
            slopes = levels.slopes.condition(ahead, jac_cov, pull.gain, pulled)
            slopes = slopes.unless(sum_leading(linalg.diagonal(white.signal)) > BLANK[white.signal.dtype.itemsize])
        slope = score(ahead, pull, white.residual, pulled, pairwise_sum(matched.share), white.num_observed)
        more = information(ahead, white.signal, ordinary, white.num_observed)
        part = jnp.minimum(white.num_observed * levels.unit, 1.0)
        shown = jnp.clip(2.0 * (more.both + more.dynamics) * (1.0 / jnp.maximum(white.num_observed, 1.0)), 0.0, 1.0)
        # σ_a takes the prior for one that goes with R: small residuals of a vague one would say that R is too large.
        told = jnp.where(sum_leading(linalg.diagonal(white.signal)) > VAGUE * ordinary * white.num_observed, 0.0, 1.0)
        slope = slope._replace(noise=told * slope.noise)
        more = Information(told * sure * more.noise, told * sure * more.both, sure * more.dynamics)
        moved = noise_scale_rml.follow(levels, self._sure(levels.fade), slope, more, part, shown, self._follows(levels))
        lasts = seen.memory.lasting
        if lasts is not None and ahead is not None and seen.predicted_measurement is not None:
            along = JointScore(ahead.mean, RQ(slope.noise, slope.dynamics), more, levels.information)
            lasts = lasting.learn(lasts, seen, white, pull, jac_cov, ordinary, sure, along)
        return moved._replace(slopes=slopes), lasts


def _uncertainty(name: str, value: Any) -> float:
    """Read a standard deviation of a logarithm; what is all but 0 is 0, which leaves digits for the information."""
    letter = name[0].upper()
    found = validation.one_number(value)
    if found is not None and 0.0 <= found <= LEAST_SURE:
        return found if found >= SURE else 0.0
    raise ValueError(
        f"{name} must be one number from 0 ({letter} is right) to {LEAST_SURE:g} ({letter} may be off by a factor of "
        f"{np.exp(LEAST_SURE):.0f}), the standard deviation of its logarithm; got {validation.short_repr(value)}"
    )
