"""Learned levels: one factor r for R and one factor q for Q, beside the shape of the noise.

`wolf.noise.learned` learns which sizes the noise has; each measurement draws its own, so that a level that is wrong
for all of them is learned slowly, and a wrong Q not at all. Here a = ln r and b = ln q follow the slope of the log
predictive density of the robust filter itself (recursive maximum likelihood; Ljung & Söderström 1983):

    (a, b) <- (a, b) + I⁻¹ σ,    I <- I⁰ + Λ (I - I⁰) Λ + j

σ and j as in `wolf.noise.slopes`. Four things keep that from being slow, or rash:

- old information is forgotten once there is enough to be worth it;
- what is known about b was found at other levels. It depends on q/r alone, about as (q/r)^(1 - x) with x the share of
  the residual's variance that Q explains, and is carried over to the new levels by that power;
- the prior of b fades: a Q that shows only after hundreds of steps should be found then;
- a Q that is too small costs more than one that is too large, so the prediction uses the expected q, `e^(b + v/2)` with
  v the variance of b, and not its median.

The sizes are s_k = r t_k, with counts from two priors, one narrow and one wide, which are mixed by how well each
foresaw what came.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import checks
from wolf.belief import Affine
from wolf.noise.learned import FLOOR, SCALES, NoiseLaw, check_has_noise
from wolf.noise.mixture import Matched, match
from wolf.noise.slopes import Information, Pair, Slopes, information, score
from wolf.noise.whitened import whiten
from wolf.numerics import linalg
from wolf.numerics.linalg import matmul, matvec
from wolf.numerics.pytree import pytree, static
from wolf.protocols import Believed, Evidence, NoiseRule
from wolf.statespace import Model, ParameterModel

LARGEST_LEVEL = float(np.log(1e4))  # of |a| and |b|
LARGEST_STEP = 1.0  # of a or b in one measurement
FORGETS = Pair(0.02, 0.008)  # of the information about a and b, in a step
WORTH_FORGETTING = Pair(40.0, 10.0)  # information from which all of that is forgotten
FADING, FADED = 0.98, 0.2  # the prior information about b keeps so much of itself in a step, down to this share


class Bell(NamedTuple):
    """A prior of the counts.

    Attributes:
        width: in ln s.
        strength: measurements that it is worth.
        weight: how likely it is, beside the others.
    """

    width: float
    strength: float
    weight: float


BELLS = (Bell(0.4, 10.0, 0.7), Bell(1.0, 20.0, 0.3))


class Levels(NamedTuple):
    """What is known about r and q; sensors share it.

    Attributes:
        log_noise: a, ().
        log_dynamics: b, ().
        information: I about both.
        prior: the part of it that is prior.
        slopes: of the belief; None if they are not carried.
        width: M, coordinates of a whole measurement.
    """

    log_noise: Array
    log_dynamics: Array
    information: Information
    prior: Pair
    slopes: Slopes | None
    width: Array


class Learning(NamedTuple):
    """What was learned so far.

    Attributes:
        counts: of the sizes, one row for each prior, (I, K).
        prior: of the counts, (I, K), where forgetting leads back to.
        log_odds: of each prior over the first, (I - 1,).
        levels: None for a sensor that finds them with another one.
    """

    counts: Array
    prior: Array
    log_odds: Array
    levels: Levels | None


@pytree
class LearnedLevels(NoiseRule):
    """Learn how large the noise and the dynamics are, and how often the noise is far larger.

    Args:
        r_uncertainty: standard deviation of ln r before any measurement; 1 says that R is known to a factor of e, 0 or
            None that it is right.
        q_uncertainty: the same for Q, in the beginning.
        forgetting: ρ, what the counts keep from one measurement to the next.
        bells: priors of the counts.

    Example:
        >>> LearnedLevels(q_uncertainty=0.0).q_uncertainty is None
        True
    """

    r_uncertainty: Any = 1.5
    q_uncertainty: Any = 1.0
    forgetting: Any = 0.998
    bells: tuple[Bell, ...] = static(default=BELLS, repr=False)

    def __post_init__(self) -> None:
        """Check; what is known for sure is None, so that nothing is carried for it."""
        for name in ("r_uncertainty", "q_uncertainty"):
            value = getattr(self, name)
            if value is not None:
                checks.not_negative(name, value)
                if np.ndim(value) == 0 and float(value) == 0.0:
                    object.__setattr__(self, name, None)
        checks.probability("forgetting", self.forgetting)
        object.__setattr__(self, "bells", tuple(Bell(*map(float, bell)) for bell in self.bells))

    @property
    def mixes(self) -> bool:
        """True: over all sizes."""
        return True

    def check(self, model: Model) -> None:
        """Refuse counts, classes and the like: their spread follows from their mean."""
        check_has_noise(model)

    def start(self, model: Model) -> Learning:
        """Lay counts over the sizes, and believe R and Q as they are."""
        dtype = jnp.asarray(model.prior.mean).dtype
        logs = jnp.asarray(np.log(SCALES), dtype)
        rows = []
        for bell in self.bells:
            heights = jnp.exp(-0.5 * (logs / bell.width) ** 2) + FLOOR
            rows.append(bell.strength * heights / heights.sum())
        prior, nothing = jnp.stack(rows), jnp.zeros((), dtype)
        if not self._learns:
            return Learning(prior, prior, self._odds(dtype), None)
        sure = self._sure(dtype)
        known = Information(sure.noise, nothing, sure.dynamics)
        levels = Levels(nothing, nothing, known, sure, self._slopes(model), jnp.asarray(model.obs_dim, dtype))
        return Learning(prior, prior, self._odds(dtype), levels)

    def _sure(self, dtype: Any) -> Pair:
        """Turn standard deviations into information; 1 for what is not learned, where it is not used."""
        both = (self.r_uncertainty, self.q_uncertainty)
        return Pair(*(jnp.ones((), dtype) if u is None else 1.0 / jnp.asarray(u, dtype) ** 2 for u in both))

    def _odds(self, dtype: Any) -> Array:
        weights = np.array([bell.weight for bell in self.bells])
        return jnp.asarray(np.log(weights[1:] / weights[0]), dtype)

    def _slopes(self, model: Model) -> Slopes | None:
        """Carry slopes, but not for parameters: they have no dynamics, and a covariance that is large already."""
        if isinstance(model, ParameterModel):
            return None
        size, dtype = model.state_dim, jnp.asarray(model.prior.mean).dtype
        return Slopes(jnp.zeros(size, dtype), jnp.zeros((size, size), dtype))

    def predict(self, memory: Learning, view: Affine, noise_cov: Any, t: Any) -> tuple[Any, Learning]:
        """Scale Q, and push the slopes."""
        levels = memory.levels
        if levels is None or levels.slopes is None:
            return noise_cov, memory
        used = noise_cov if noise_cov is None else self._expected(levels) * noise_cov
        return used, memory._replace(levels=levels._replace(slopes=levels.slopes.push(view.jac, used)))

    def law(self, memory: Learning) -> NoiseLaw:
        """Say what was learned."""
        xp, levels = linalg.like(memory.counts), memory.levels
        scales = SCALES.astype(memory.counts.dtype)
        if levels is None:
            return NoiseLaw(scales, self._mixed(memory))
        if self.r_uncertainty is not None:
            scales = scales * xp.exp(levels.log_noise)
        if levels.slopes is None or self.q_uncertainty is None:
            return NoiseLaw(scales, self._mixed(memory), self._expected(levels))
        return NoiseLaw(scales, self._mixed(memory), self._expected(levels), self._spreads(levels))

    @property
    def _learns(self) -> bool:
        return self.r_uncertainty is not None or self.q_uncertainty is not None

    def _expected(self, levels: Levels) -> Array:
        """Expect q, given what is known about b."""
        xp = linalg.like(levels.information.noise)
        if self.q_uncertainty is None or levels.slopes is None:
            return xp.ones_like(levels.log_dynamics)
        return xp.exp(levels.log_dynamics + 0.5 * self._spreads(levels).dynamics)

    def _spreads(self, levels: Levels) -> Pair:
        """Give the variances of a and b."""
        known = levels.information
        whole = known.noise * known.dynamics - known.both**2
        return Pair(known.dynamics / whole, known.noise / whole)

    def _mixed(self, memory: Learning) -> Array:
        """Mix the priors' probabilities by their odds; of one prior, the counts are as good."""
        if len(self.bells) == 1:
            return memory.counts[0]
        return (self._weights(memory)[:, None] * _normalised(memory.counts)).sum(0)

    def _weights(self, memory: Learning) -> Array:
        xp = linalg.like(memory.counts)
        odds = xp.concatenate([xp.zeros_like(memory.log_odds[:1]), memory.log_odds])
        heights = xp.exp(odds - odds.max())
        return heights / heights.sum()

    def shared(self, memory: Learning) -> Levels | None:
        """Share the levels between sensors: there is one Q."""
        return memory.levels

    def with_shared(self, memory: Learning, shared: Levels | None) -> Learning:
        """Take over levels."""
        return memory._replace(levels=shared)

    def settled(self, memory: Learning) -> Learning:
        """Give the memory to judge measurements by themselves with: what the noise is, without slopes of a state."""
        levels = memory.levels
        return memory if levels is None else memory._replace(levels=levels._replace(slopes=None))

    def marked(self, memory: Learning) -> tuple:
        """Keep the counts as they are before refused measurements vote."""
        return (memory.counts, memory.log_odds) if self._learns else ()

    def jumped(self, memory: Learning, marked: tuple) -> Learning:
        """Forget what refused measurements taught about the shape; where the state is now has no slopes yet."""
        levels = memory.levels
        if levels is not None and levels.slopes is not None:
            blank = Slopes(*(jnp.zeros_like(each) for each in levels.slopes))
            levels = levels._replace(slopes=blank)
        counts, log_odds = marked or (memory.counts, memory.log_odds)
        return memory._replace(counts=counts, log_odds=log_odds, levels=levels)

    def __call__(self, seen: Evidence) -> Believed:
        """Match the moments, count, and follow the slope."""
        memory, law = seen.memory, self.law(seen.memory)
        matched = match(seen, law.scales, law.counts, far=True)
        outlier = 1.0 - jnp.where(law.is_outlier, 0.0, matched.share).sum()
        counts, log_odds = self._count(memory, law.counts, matched)
        levels = self._follow(seen, matched, law.ordinary, 1.0 - outlier)
        scales = (law.ordinary, law.dynamics) if self._learns else None
        return Believed(matched.pull, Learning(counts, memory.prior, log_odds, levels), outlier, scales=scales)

    def _count(self, memory: Learning, mixed: Array, matched: Matched) -> tuple[Array, Array]:
        """Count by each prior, and weigh the priors by how well they foresaw the measurement."""
        kept = memory.prior + self.forgetting * (memory.counts - memory.prior)
        if len(self.bells) == 1:
            return kept + matched.share[None], memory.log_odds
        # γ_k over π_k is the density of each size, and what is beyond all of them goes with the widest.
        ratio = _normalised(memory.counts) / mixed[None]
        lost = matched.pull.sizes.lost if matched.pull.sizes is not None else 1.0 - matched.share.sum()
        shares = ratio * matched.share[None]
        foreseen = shares.sum(1) + ratio[:, -1] * lost
        start = self._odds(mixed.dtype)
        gain = jnp.log(foreseen[1:]) - jnp.log(foreseen[:1])
        log_odds = start + self.forgetting * (memory.log_odds - start) + gain
        return kept + shares / foreseen[:, None], log_odds

    def _follow(self, seen: Evidence, matched: Matched, ordinary: Array, sure: Array) -> Levels | None:
        """Move the levels along the score, and learn the slopes."""
        levels, pull = seen.memory.levels, matched.pull
        if levels is None:
            return None
        white = whiten(seen)
        pulled = matvec(pull.gain, white.residual)
        slopes, ahead = None, None
        if levels.slopes is not None:
            ahead = levels.slopes.see(matmul(pull.whitening, seen.view.jac))
            jac_cov = matmul(pull.whitening, seen.belief.cross(seen.view.jac))
            slopes = levels.slopes.condition(ahead, jac_cov, pull.gain, pulled)
        identity = linalg.eye(len(white.residual), white.signal)
        factor = linalg.cholesky(white.signal + ordinary * identity)
        slope = score(ahead, pull, white.residual, pulled, matched.share.sum(), white.num_observed)
        more = information(ahead, factor, white.num_observed)
        part = jnp.minimum(white.num_observed / levels.width, 1.0)
        moved = self._step(levels, slope, Information(*(sure * each for each in more)), part)
        shown = jnp.clip(2.0 * (more.both + more.dynamics) / jnp.maximum(white.num_observed, 1.0), 0.0, 1.0)
        return _carried_over(levels, moved, shown)._replace(slopes=slopes)

    def _step(self, levels: Levels, slope: Pair, more: Information, part: Array) -> Levels:
        """Take a step of recursive maximum likelihood in (a, b).

        Args:
            levels: before.
            slope: σ.
            more: j, of this measurement.
            part: share of a whole measurement that it is; as much is forgotten.
        """
        old, sure = levels.information, self._sure(levels.log_noise.dtype)
        faded = sure.dynamics * FADED
        prior = Pair(sure.noise, faded + (1.0 - (1.0 - FADING) * part) * (levels.prior.dynamics - faded))
        joint = old.both**2
        alone = Pair(old.noise - joint / old.dynamics, old.dynamics - joint / old.noise)
        kept = Pair(
            *(
                1.0 - rate * part * jnp.minimum(1.0, known / worth)
                for rate, known, worth in zip(FORGETS, alone, WORTH_FORGETTING, strict=True)
            )
        )
        aa = prior.noise + kept.noise * (old.noise - levels.prior.noise) + more.noise
        bb = prior.dynamics + kept.dynamics * (old.dynamics - levels.prior.dynamics) + more.dynamics
        ab = jnp.sqrt(kept.noise * kept.dynamics) * old.both + more.both
        if self.q_uncertainty is None or levels.slopes is None:
            ab, bb, slope = 0.0 * ab, prior.dynamics, slope._replace(dynamics=0.0 * slope.dynamics)
        if self.r_uncertainty is None:
            ab, aa, slope = 0.0 * ab, prior.noise, slope._replace(noise=0.0 * slope.noise)
        whole = aa * bb - ab**2
        step = Pair((bb * slope.noise - ab * slope.dynamics) / whole, (aa * slope.dynamics - ab * slope.noise) / whole)
        short = LARGEST_STEP / jnp.maximum(LARGEST_STEP, jnp.maximum(jnp.abs(step.noise), jnp.abs(step.dynamics)))
        log_noise, log_dynamics = (
            jnp.clip(level + short * each, -LARGEST_LEVEL, LARGEST_LEVEL)
            for level, each in zip(levels[:2], step, strict=True)
        )
        return Levels(log_noise, log_dynamics, Information(aa, ab, bb), prior, levels.slopes, levels.width)


def _carried_over(before: Levels, after: Levels, shown: Array) -> Levels:
    """Carry what is known about b over to new levels, by the power of q/r that it depends on.

    Args:
        before: levels at which it was found.
        after: new levels.
        shown: x, the share of the residual's variance that Q explains.
    """
    ratio = (after.log_dynamics - before.log_dynamics) - (after.log_noise - before.log_noise)
    factor = jnp.exp((1.0 - shown) * jnp.clip(ratio, -LARGEST_STEP, LARGEST_STEP))
    known, prior = after.information, after.prior.dynamics
    both, dynamics = jnp.sqrt(factor) * known.both, prior + factor * (known.dynamics - prior)
    return after._replace(information=Information(known.noise, both, dynamics))


def _normalised(counts: Array) -> Array:
    return counts / counts.sum(1)[:, None]
