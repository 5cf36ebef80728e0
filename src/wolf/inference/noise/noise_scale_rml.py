"""Recursive maximum likelihood for the scale factors of R and Q: a = ln r and b = ln q, one measurement at a time.

With the score σ and the Fisher information j of `wolf.inference.noise.sensitivities` (Ljung & Söderström 1983),

    (a, b) <- (a, b) + C I⁻¹ σ,    I <- I⁰ + Λ (I - I⁰) Λ + j

Eight modifications stabilise and speed up the convergence:

- **Q may be right.** Beside `q = e^b` stands the hypothesis q = 1, and the log-odds between both are carried: to second
  order a measurement adds `b σ_b + b² j_bb / 2` for b against 0, where a moves along as the joint information implies.
  The factor in use is the average `(1 - p) + p e^(b + 0.8 v)`, with v the variance of b: too small a Q costs more than
  one that is too large. A part of the variance of a is added, too.
- The score is exact for linear models. For nonlinear ones the sensitivities neglect the dependence of the Jacobian on
  the mean, so stronger evidence is required: the first odds are lower, and R, too, may be right.
- The score is computed at the factors in use, u, and moved to the estimate, `σ(b) = σ(u) + j (u - b)`: all the way for
  the odds, a part of it for the margin. All of it would keep the margin for ever, and be slow where Q is large.
- Information about b was collected at other factors. It depends on q/r only, and is rescaled to new factors by the
  power 1 - x of it, with x the share of the innovation variance that Q explains. In steady state the power is smaller
  (1/2 for a slow level); this one was the better of both during convergence.
- a moves first. Where R is far too small or large, σ_b changes once a has moved: S⁻¹ z falls as e^-δ with a step δ in
  a, and σ_b is taken after that. While a is uncertain, steps up in b are short.
- C: steps in b are longer than Newton's. The density is steep where Q is too small and flat where it is too large, and
  a gain of c/t instead of 1/t forgets a poor start as t^-c for `c²/(2c - 1)` times the variance.
- Past information is discounted slowly, and quickly when recent scores have the same sign. But not after an accepted
  jump: a state of several components may be wrong for a while after a false one, and that is not noise.
- The prior of b fades: a Q whose effect shows only after hundreds of steps should be found then.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.inference.noise.sensitivities import RQ, Information, ScoreVector, Sensitivities
from wolf.numerics import linalg

MAX_LOG_SCALE = float(np.log(1e4))  # of |a| and |b|
MAX_STEP = 1.4  # of a or b in one measurement
STEP_FACTOR = 1.82  # C, of steps in b
FORGETTING = RQ(0.0034, 0.0008)  # of the information about a and b, per measurement
FULL_FORGETTING_INFORMATION = RQ(83.0, 12.0)  # from which all of that is forgotten
SURPRISE_FORGETTING = 0.13  # of both, at full surprise
RECENT_DECAY = 0.69  # of the sum of recent scores, per measurement
NO_SURPRISE, FULL_SURPRISE = 4.0, 5.2  # squares of that sum, in variances
MIN_RECENT_VARIANCE = 0.1  # added to the variance of that sum: a smaller one is not significant
PRIOR_DECAY, MIN_PRIOR_SHARE = (
    0.985,
    0.4,
)  # of the prior information about b: factor per measurement, down to this share
CALM_STEPS = 100.0  # measurements after a jump until surprise counts in full
MARGIN = RQ(0.23, 0.8)  # share of the variance of a and b that is added to the factors in use
CAUTION = 0.6  # steps up in b are divided by 1 + this times the squared variance of a
MARGIN_SHARE = 0.6  # of the margin, by which the score is moved back to the estimate
FIRST_LOG_ODDS = 1.2  # that Q is off; R is assumed to be
FIRST_LOG_ODDS_NONLINEAR = RQ(0.0, -1.5)  # that R and that Q is off, in a nonlinear model
MIN_INFORMED_SHARE = 1e-4  # of the prior information about b, from which measurements have informed about it
LOG_ODDS_RANGE = (-5.0, 20.0)


class ScaleEstimates(NamedTuple):
    """Estimates of r and q; several sensors share them.

    Attributes:
        log_noise: a, ().
        log_dynamics: b, ().
        information: I about both.
        sensitivities: of the belief; None if they are not carried.
        unit: 1 / M, the share of a coordinate in a whole measurement.
        recent: decayed sums of the scores.
        recent_square: expected squares of these.
        prior_share: of the prior information about b that is left, from 1 down.
        calm: how much surprise counts, from 0 after a jump up to 1.
        log_odds: that R and that Q is off; None for an R that is assumed to be.
    """

    log_noise: Array
    log_dynamics: Array
    information: Information
    sensitivities: Sensitivities | None
    unit: Array
    recent: RQ
    recent_square: RQ
    prior_share: Array
    calm: Array
    log_odds: RQ


def initial_estimates(
    prior: RQ, sensitivities: Sensitivities | None, unit: Array, nonlinear: bool = False
) -> ScaleEstimates:
    """Return r = q = 1.

    Args:
        prior: information of the prior of a and b.
        sensitivities: of the belief, if they are carried.
        unit: 1 / M.
        nonlinear: whether the model is one of functions.
    """
    zero = 0.0 * unit
    zeros, known = RQ(zero, zero), Information(prior.noise, zero, prior.dynamics)
    first = FIRST_LOG_ODDS_NONLINEAR if nonlinear else RQ(None, FIRST_LOG_ODDS)
    odds = RQ(*(None if each is None else zero + each for each in first))
    return ScaleEstimates(zero, zero, known, sensitivities, unit, zeros, zeros, zero + 1.0, zero + 1.0, odds)


def variances(estimates: ScaleEstimates) -> RQ:
    """Compute the variances of a and b."""
    known = estimates.information
    each = 1.0 / (known.noise * known.dynamics - known.cross**2)
    return RQ(each * known.dynamics, each * known.noise)


def reported_variances(estimates: ScaleEstimates, prior: RQ) -> RQ:
    """Compute the variances of a and b; infinite for b where no measurement informed about it, as with Q = 0.

    Args:
        estimates: current.
        prior: information of the prior of a and b.
    """
    spread = variances(estimates)
    informed = estimates.information.dynamics > (1.0 + MIN_INFORMED_SHARE) * prior.dynamics * estimates.prior_share
    return spread._replace(dynamics=linalg.array_namespace(spread.dynamics).where(informed, spread.dynamics, np.inf))


def scales_in_use(estimates: ScaleEstimates, estimated: RQ) -> RQ:
    """Compute the r and q that the filter uses: above the estimates by a margin, averaged over the hypotheses.

    Args:
        estimates: current.
        estimated: which of both are estimated.
    """
    xp, spread = linalg.array_namespace(estimates.log_noise), variances(estimates)
    one = xp.ones_like(estimates.log_noise)
    above = (estimates.log_noise, estimates.log_dynamics), MARGIN, spread
    logs = [log_scale + margin * variance for log_scale, margin, variance in zip(*above, strict=True)]
    right = [-each for each in estimates.log_odds if each is not None]
    # Of one array: native code takes its exponentials at once.
    noise, dynamics, *right = xp.exp(xp.stack([*logs, *right]))
    if estimates.log_odds.noise is not None:
        noise = (right[0] + noise) / (right[0] + 1.0)
    expected = (right[-1] + dynamics) / (right[-1] + 1.0)  # right : 1 are the odds that Q is right
    return RQ(noise if estimated.noise else one, expected if estimated.dynamics else one)


def update_scales(
    estimates: ScaleEstimates,
    prior: RQ,
    found: ScoreVector,
    more: Information,
    part: Array,
    explained: Array,
    estimated: RQ,
) -> ScaleEstimates:
    """Update (a, b) with the score of one measurement.

    Args:
        estimates: before.
        prior: information of the prior of a and b.
        found: σ, at the factors in use.
        more: j, of this measurement.
        part: share of a whole measurement that it is; forgetting is in proportion to it.
        explained: x, the share of the innovation variance that Q explains.
        estimated: which of both are estimated.
    """
    gradient = RQ(found.noise, found.dynamics)
    recent, square, kept = _forgetting(estimates, gradient, more, part)
    prior_share = MIN_PRIOR_SHARE + (1.0 - (1.0 - PRIOR_DECAY) * part) * (estimates.prior_share - MIN_PRIOR_SHARE)
    calm = jnp.minimum(estimates.calm + part * (1.0 / CALM_STEPS), 1.0)
    old, first, prior_b = estimates.information, prior.dynamics * estimates.prior_share, prior.dynamics * prior_share
    gradient = _score_at_estimate(estimates, gradient, more, estimated)
    log_odds = _update_log_odds(estimates, gradient, more, estimated)
    aa = prior.noise + kept.noise * (old.noise - prior.noise) + more.noise
    bb = prior_b + kept.dynamics * (old.dynamics - first) + more.dynamics
    ab = jnp.sqrt(kept.noise * kept.dynamics) * old.cross + more.cross
    if not estimated.dynamics:
        ab, bb, gradient = 0.0 * ab, prior_b, gradient._replace(dynamics=0.0 * gradient.dynamics)
        found = ScoreVector(found.noise, *(0.0 * each for each in found[1:]))
        more = more._replace(cross=0.0 * more.cross)
    if not estimated.noise:
        ab, aa, gradient = 0.0 * ab, prior.noise, gradient._replace(noise=0.0 * gradient.noise)
    after = estimates._replace(
        information=Information(aa, ab, bb),
        recent=recent,
        recent_square=square,
        prior_share=prior_share,
        calm=calm,
        log_odds=log_odds,
    )
    return _rescale_information(estimates, _step(after, gradient, found, more, estimated), prior_b, explained)


def _forgetting(estimates: ScaleEstimates, gradient: RQ, more: Information, part: Array) -> tuple[RQ, RQ, RQ]:
    """Add the score to the recent ones, and compute the share of the information that is kept from those before it."""
    decay = 1.0 - (1.0 - RECENT_DECAY) * part
    recent = RQ(*(decay * old + new for old, new in zip(estimates.recent, gradient, strict=True)))
    expected = (more.noise, more.dynamics)
    square = RQ(*(decay**2 * old + new for old, new in zip(estimates.recent_square, expected, strict=True)))
    kept = []
    # Including this score would make all that follows wait for it: a quarter of the time of an update.
    before = estimates.recent, estimates.recent_square
    rates = zip(FORGETTING, FULL_FORGETTING_INFORMATION, variances(estimates), *before, strict=True)
    for rate, enough, variance, total, total_variance in rates:
        longer = jnp.maximum(1.0, enough * variance)
        usual = (FULL_SURPRISE - NO_SURPRISE) * (total_variance + MIN_RECENT_VARIANCE)
        each = 1.0 / (longer * usual)  # one division for both
        surprise = jnp.clip(each * longer * total**2 - NO_SURPRISE / (FULL_SURPRISE - NO_SURPRISE), 0.0, 1.0)
        kept.append(1.0 - part * (rate * each * usual + SURPRISE_FORGETTING * estimates.calm * surprise))
    return recent, square, RQ(*kept)


def _score_at_estimate(estimates: ScaleEstimates, gradient: RQ, more: Information, estimated: RQ) -> RQ:
    """Move the score from the factors in use to the estimates."""
    noise, dynamics = jnp.zeros_like(estimates.log_noise), jnp.zeros_like(estimates.log_noise)
    spread, at = variances(estimates), scales_in_use(estimates, estimated)
    if estimated.noise and estimates.log_odds.noise is None:
        noise = MARGIN_SHARE * MARGIN.noise * spread.noise
    elif estimated.noise:
        noise = jnp.log(at.noise) - estimates.log_noise - (1.0 - MARGIN_SHARE) * MARGIN.noise * spread.noise
    if estimated.dynamics:
        whole = jnp.log(at.dynamics) - estimates.log_dynamics
        dynamics = whole - (1.0 - MARGIN_SHARE) * MARGIN.dynamics * spread.dynamics
    return RQ(
        gradient.noise + more.cross * dynamics + more.noise * noise,
        gradient.dynamics + more.dynamics * dynamics + more.cross * noise,
    )


def _update_log_odds(estimates: ScaleEstimates, gradient: RQ, more: Information, estimated: RQ) -> RQ:
    """Update the odds of each estimate against 0, to second order: the log density gains `b σ + b² j / 2`."""
    known, (noise, dynamics) = estimates.information, estimates.log_odds
    # Where b is 0, a is where the information about both has it: that is the line from one to the other.
    if estimated.dynamics:
        tilt, b = known.cross / known.noise, estimates.log_dynamics
        along = gradient.dynamics - tilt * gradient.noise
        curvature = more.dynamics - 2.0 * tilt * more.cross + tilt**2 * more.noise
        dynamics = jnp.clip(dynamics + b * (along + 0.5 * b * curvature), *LOG_ODDS_RANGE)
    if estimated.noise and noise is not None:
        tilt, a = known.cross / known.dynamics, estimates.log_noise
        along = gradient.noise - tilt * gradient.dynamics
        curvature = more.noise - 2.0 * tilt * more.cross + tilt**2 * more.dynamics
        noise = jnp.clip(noise + a * (along + 0.5 * a * curvature), *LOG_ODDS_RANGE)
    return RQ(noise, dynamics)


def _step(
    estimates: ScaleEstimates, gradient: RQ, found: ScoreVector, more: Information, estimated: RQ
) -> ScaleEstimates:
    """Step along C I⁻¹ σ, of limited length, first in a: the score in b is another one after that."""
    aa, ab, bb = estimates.information
    each = 1.0 / (aa * bb - ab**2)
    noise = jnp.clip(each * (bb * gradient.noise - ab * gradient.dynamics), -MAX_STEP, MAX_STEP)
    # After a step δ in a, S⁻¹ z is e^-δ of what it was, here `1 + less`: what a explains is not left to b.
    less = noise * (noise * (noise * ((1.0 / 24.0) * noise - 1.0 / 6.0) + 0.5) - 1.0)
    there = found.dynamics * less + found.square * (less + less**2) + more.cross * noise
    upwards = gradient.dynamics + there - ab * noise
    # Both lengths are known before the scores are.
    shorter = 1.0 + CAUTION * (each * bb) ** 2 if estimated.noise else 1.0
    up = STEP_FACTOR / (bb * shorter)
    dynamics = jnp.clip(jnp.where(upwards > 0, up, up * shorter) * upwards, -MAX_STEP, MAX_STEP)
    return estimates._replace(
        log_noise=jnp.clip(estimates.log_noise + noise, -MAX_LOG_SCALE, MAX_LOG_SCALE),
        log_dynamics=jnp.clip(estimates.log_dynamics + dynamics, -MAX_LOG_SCALE, MAX_LOG_SCALE),
    )


def _rescale_information(
    before: ScaleEstimates, after: ScaleEstimates, prior_b: Array, explained: Array
) -> ScaleEstimates:
    """Rescale the information about b beyond the prior to the new factors, by the power of q/r that it depends on."""
    ratio = (after.log_dynamics - before.log_dynamics) - (after.log_noise - before.log_noise)
    # Half of that power by the first Padé approximant: for steps this short as good as exp, and cheaper.
    quarter = 0.25 * (1.0 - explained) * jnp.clip(ratio, -MAX_STEP, MAX_STEP)
    root = (1.0 + quarter) / (1.0 - quarter)
    known = after.information
    cross, dynamics = root * known.cross, prior_b + root**2 * (known.dynamics - prior_b)
    return after._replace(information=Information(known.noise, cross, dynamics))
