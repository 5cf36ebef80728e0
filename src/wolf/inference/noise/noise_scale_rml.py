"""Follow the slope of the log density: the levels a = ln r of R and b = ln q of Q, one measurement at a time.

Recursive maximum likelihood (Ljung & Söderström 1983), with σ and j as in `wolf.inference.noise.sensitivities`:

    (a, b) <- (a, b) + C I⁻¹ σ,    I <- I⁰ + Λ (I - I⁰) Λ + j

Eight things keep that from being slow, or rash:

- **Q may be right.** Beside `q = e^b` stands the hypothesis q = 1, and the odds between both are carried: a measurement
  says `b σ_b + b² j_bb / 2` for b against 0, to second order, with a going along as the information about both has it.
  What is used is the expected level, `(1 - p) + p e^(b + v/2)` with v the variance of b: too small a Q costs more than
  one that is too large. To a, too, some of its variance is added.
- Slopes are exact for matrices. Those of functions leave out that tangents turn as the mean moves, so that more has to
  speak for a model being off: its first odds are lower, and R, too, may be right.
- Slopes are found at the level in use, u, and carried back to the estimate, `σ(b) = σ(u) + j (u - b)`: the whole way
  for the odds, a part of it for the variance. All of it would keep the margin for good, and be slow where Q is large.
- What is known about b was found at other levels. It depends on q/r alone, and is carried over to the new levels by
  the power 1 - x of it, with x the share of the residual's variance that Q explains. In a state that has settled the
  power is smaller (1/2 for a slow level); this one was the better of both on the way there.
- a moves first. Where R is far too small or large, the slope in b is not what it will be once a is there: pulls fall as
  e^-δ with a step δ in a, and the slope in b is taken after that fall. While a is uncertain, steps up in b are short.
- C: steps in b are longer than Newton's. The density is steep where Q is too small and flat where it is too large, and
  a gain of c/t instead of 1/t forgets a poor start as t^-c for `c²/(2c - 1)` times the variance.
- Old information is forgotten slowly, and fast on surprise: when the slopes before this one agree with each other. But
  not after a won vote: a state of many parts that had to follow lies is wrong for a while, and that is not noise.
- The prior of b fades: a Q that shows only after hundreds of steps should be found then.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.inference.noise.sensitivities import RQ, Information, ScoreVector, Sensitivities
from wolf.numerics import linalg

LARGEST_LEVEL = float(np.log(1e4))  # of |a| and |b|
LARGEST_STEP = 1.4  # of a or b in one measurement
STRETCH = 1.82  # C, of steps in b
FORGETS = RQ(0.0034, 0.0008)  # of the information about a and b, in a step
WORTH_FORGETTING = RQ(83.0, 12.0)  # information from which all of that is forgotten
FORGETS_SURPRISED = 0.13  # of both, at the height of surprise
LATELY = 0.69  # what slopes of late keep from one measurement to the next
EXPECTED, ALARMING = 4.0, 5.2  # squares of their sum, in variances: below no surprise, above all of it
FEW = 0.1  # variance of that sum from which it says something
FADING, FADED = 0.985, 0.4  # the prior information about b keeps so much of itself in a step, down to this share
RESTLESS = 100.0  # measurements after a jump until surprise counts in full
MARGIN = RQ(0.23, 0.8)  # of the variance of a and b, added to what is used
CAUTION = 0.6  # steps up in b are shorter where a is uncertain, by 1 + this times its variance squared
CARRIED_BACK = 0.6  # share of the margin
FIRST_ODDS = 1.2  # in logarithms, that Q is off; R is taken to be
FIRST_ODDS_CURVED = RQ(0.0, -1.5)  # that R and that Q is off, in a model of functions
HEARD = 1e-4  # share of the prior information about b from which a measurement said something of it
ODDS = (-5.0, 20.0)  # the least and the largest that they may be


class ScaleEstimates(NamedTuple):
    """What is known about r and q; sensors share it.

    Attributes:
        log_noise: a, ().
        log_dynamics: b, ().
        information: I about both.
        sensitivities: of the belief; None if they are not carried.
        unit: 1 / M, what a coordinate is of a whole measurement.
        late: sums of the slopes of late.
        late_square: what to expect of their squares.
        fade: of the prior of b, from 1 down.
        calm: how much surprise counts, from 0 after a jump up to 1.
        log_odds: that R and that Q is off; None for an R that is taken to be.
    """

    log_noise: Array
    log_dynamics: Array
    information: Information
    sensitivities: Sensitivities | None
    unit: Array
    late: RQ
    late_square: RQ
    fade: Array
    calm: Array
    log_odds: RQ


def start(sure: RQ, slopes: Sensitivities | None, unit: Array, curved: bool = False) -> ScaleEstimates:
    """Believe R and Q as they are.

    Args:
        sure: the information that this belief is worth.
        slopes: of the belief, if they are carried.
        unit: 1 / M.
        curved: whether the model is one of functions.
    """
    nothing = 0.0 * unit
    none, known = RQ(nothing, nothing), Information(sure.noise, nothing, sure.dynamics)
    first = FIRST_ODDS_CURVED if curved else RQ(None, FIRST_ODDS)
    odds = RQ(*(None if each is None else nothing + each for each in first))
    return ScaleEstimates(nothing, nothing, known, slopes, unit, none, none, nothing + 1.0, nothing + 1.0, odds)


def spreads(levels: ScaleEstimates) -> RQ:
    """Give the variances of a and b."""
    known = levels.information
    each = 1.0 / (known.noise * known.dynamics - known.both**2)
    return RQ(each * known.dynamics, each * known.noise)


def told(levels: ScaleEstimates, sure: RQ) -> RQ:
    """Give the variances of a and b, for b without end where no measurement said anything of it, as with Q = 0.

    Args:
        levels: so far.
        sure: the information that the belief in R and Q was worth.
    """
    spread = spreads(levels)
    said = levels.information.dynamics > (1.0 + HEARD) * sure.dynamics * levels.fade
    return spread._replace(dynamics=linalg.array_namespace(spread.dynamics).where(said, spread.dynamics, np.inf))


def used(levels: ScaleEstimates, learns: RQ) -> RQ:
    """Give the r and q to go by, above the estimates by a margin, and in b as likely as Q is off.

    Args:
        levels: what is known.
        learns: which of both are learned.
    """
    xp, spread = linalg.array_namespace(levels.log_noise), spreads(levels)
    one = xp.ones_like(levels.log_noise)
    above = (levels.log_noise, levels.log_dynamics), MARGIN, spread
    levels_used = [level + margin * variance for level, margin, variance in zip(*above, strict=True)]
    right = [-each for each in levels.log_odds if each is not None]
    # Of one array: native code takes its exponentials at once.
    noise, dynamics, *right = xp.exp(xp.stack([*levels_used, *right]))
    if levels.log_odds.noise is not None:
        noise = (right[0] + noise) / (right[0] + 1.0)
    expected = (right[-1] + dynamics) / (right[-1] + 1.0)  # right : 1 are the odds that Q is right
    return RQ(noise if learns.noise else one, expected if learns.dynamics else one)


def follow(
    levels: ScaleEstimates, sure: RQ, found: ScoreVector, more: Information, part: Array, shown: Array, learns: RQ
) -> ScaleEstimates:
    """Take a step in (a, b).

    Args:
        levels: before.
        sure: the information that the belief in R and Q was worth.
        found: σ, at the levels in use.
        more: j, of this measurement.
        part: share of a whole measurement that it is; as much is forgotten.
        shown: x, the share of the residual's variance that Q explains.
        learns: which of both are learned.
    """
    slope = RQ(found.noise, found.dynamics)
    late, square, kept = _forgetting(levels, slope, more, part)
    fade = FADED + (1.0 - (1.0 - FADING) * part) * (levels.fade - FADED)
    calm = jnp.minimum(levels.calm + part * (1.0 / RESTLESS), 1.0)
    old, first, prior = levels.information, sure.dynamics * levels.fade, sure.dynamics * fade
    slope = _carry_back(levels, slope, more, learns)
    log_odds = _weigh(levels, slope, more, learns)
    aa = sure.noise + kept.noise * (old.noise - sure.noise) + more.noise
    bb = prior + kept.dynamics * (old.dynamics - first) + more.dynamics
    ab = jnp.sqrt(kept.noise * kept.dynamics) * old.both + more.both
    if not learns.dynamics:
        ab, bb, slope = 0.0 * ab, prior, slope._replace(dynamics=0.0 * slope.dynamics)
        found, more = ScoreVector(found.noise, *(0.0 * each for each in found[1:])), more._replace(both=0.0 * more.both)
    if not learns.noise:
        ab, aa, slope = 0.0 * ab, sure.noise, slope._replace(noise=0.0 * slope.noise)
    known = Information(aa, ab, bb)
    moved = levels._replace(information=known, late=late, late_square=square, fade=fade, calm=calm, log_odds=log_odds)
    return _carried_over(levels, _moved(moved, slope, found, more, learns), prior, shown)


def _forgetting(levels: ScaleEstimates, slope: RQ, more: Information, part: Array) -> tuple[RQ, RQ, RQ]:
    """Sum the slopes of late up, and say how much of the information is kept, by those before this one."""
    stays = 1.0 - (1.0 - LATELY) * part
    late = RQ(*(stays * old + new for old, new in zip(levels.late, slope, strict=True)))
    expected = (more.noise, more.dynamics)
    square = RQ(*(stays**2 * old + new for old, new in zip(levels.late_square, expected, strict=True)))
    kept = []
    # By this slope, too, all that follows would wait for it: a quarter of the time that learning takes.
    before = levels.late, levels.late_square
    for slowly, worth, spread, total, variance in zip(FORGETS, WORTH_FORGETTING, spreads(levels), *before, strict=True):
        longer, usual = jnp.maximum(1.0, worth * spread), (ALARMING - EXPECTED) * (variance + FEW)
        each = 1.0 / (longer * usual)  # one division for both
        surprise = jnp.clip(each * longer * total**2 - EXPECTED / (ALARMING - EXPECTED), 0.0, 1.0)
        kept.append(1.0 - part * (slowly * each * usual + FORGETS_SURPRISED * levels.calm * surprise))
    return late, square, RQ(*kept)


def _carry_back(levels: ScaleEstimates, slope: RQ, more: Information, learns: RQ) -> RQ:
    """Carry the slopes from the levels in use to the estimates."""
    noise, dynamics = jnp.zeros_like(levels.log_noise), jnp.zeros_like(levels.log_noise)
    spread, at = spreads(levels), used(levels, learns)
    if learns.noise and levels.log_odds.noise is None:
        noise = CARRIED_BACK * MARGIN.noise * spread.noise
    elif learns.noise:
        noise = jnp.log(at.noise) - levels.log_noise - (1.0 - CARRIED_BACK) * MARGIN.noise * spread.noise
    if learns.dynamics:
        whole = jnp.log(at.dynamics) - levels.log_dynamics
        dynamics = whole - (1.0 - CARRIED_BACK) * MARGIN.dynamics * spread.dynamics
    return RQ(
        slope.noise + more.both * dynamics + more.noise * noise,
        slope.dynamics + more.dynamics * dynamics + more.both * noise,
    )


def _weigh(levels: ScaleEstimates, slope: RQ, more: Information, learns: RQ) -> RQ:
    """Weigh each level against 0, to second order, by a slope at it: the log density gains `b σ + b² j / 2`."""
    known, (noise, dynamics) = levels.information, levels.log_odds
    # Where b is 0, a is where the information about both has it: that is the line from one to the other.
    if learns.dynamics:
        tilt, b = known.both / known.noise, levels.log_dynamics
        along = slope.dynamics - tilt * slope.noise
        bend = more.dynamics - 2.0 * tilt * more.both + tilt**2 * more.noise
        dynamics = jnp.clip(dynamics + b * (along + 0.5 * b * bend), *ODDS)
    if learns.noise and noise is not None:
        tilt, a = known.both / known.dynamics, levels.log_noise
        along = slope.noise - tilt * slope.dynamics
        bend = more.noise - 2.0 * tilt * more.both + tilt**2 * more.dynamics
        noise = jnp.clip(noise + a * (along + 0.5 * a * bend), *ODDS)
    return RQ(noise, dynamics)


def _moved(levels: ScaleEstimates, slope: RQ, found: ScoreVector, more: Information, learns: RQ) -> ScaleEstimates:
    """Go along C I⁻¹ σ, not too far at once, in a first: the slope in b is another one there."""
    aa, ab, bb = levels.information
    each = 1.0 / (aa * bb - ab**2)
    noise = jnp.clip(each * (bb * slope.noise - ab * slope.dynamics), -LARGEST_STEP, LARGEST_STEP)
    # With δ more of a every pull is e^-δ of what it was, here `1 + less`: what a explains is not left to b.
    less = noise * (noise * (noise * ((1.0 / 24.0) * noise - 1.0 / 6.0) + 0.5) - 1.0)
    there = found.dynamics * less + found.square * (less + less**2) + more.both * noise
    upwards = slope.dynamics + there - ab * noise
    # Both lengths are known before the slopes are.
    shorter = 1.0 + CAUTION * (each * bb) ** 2 if learns.noise else 1.0
    up = STRETCH / (bb * shorter)
    dynamics = jnp.clip(jnp.where(upwards > 0, up, up * shorter) * upwards, -LARGEST_STEP, LARGEST_STEP)
    return levels._replace(
        log_noise=jnp.clip(levels.log_noise + noise, -LARGEST_LEVEL, LARGEST_LEVEL),
        log_dynamics=jnp.clip(levels.log_dynamics + dynamics, -LARGEST_LEVEL, LARGEST_LEVEL),
    )


def _carried_over(before: ScaleEstimates, after: ScaleEstimates, prior: Array, shown: Array) -> ScaleEstimates:
    """Carry what is known about b beside the prior over to new levels, by the power of q/r that it depends on."""
    ratio = (after.log_dynamics - before.log_dynamics) - (after.log_noise - before.log_noise)
    # Half of that power by the first Padé quotient: for steps this short as good as exp, and soon there.
    quarter = 0.25 * (1.0 - shown) * jnp.clip(ratio, -LARGEST_STEP, LARGEST_STEP)
    root = (1.0 + quarter) / (1.0 - quarter)
    known = after.information
    both, dynamics = root * known.both, prior + root**2 * (known.dynamics - prior)
    return after._replace(information=Information(known.noise, both, dynamics))
