"""Follow the slope of the log density: the levels a = ln r of R and b = ln q of Q, one measurement at a time.

Recursive maximum likelihood (Ljung & Söderström 1983), with σ and j as in `wolf.noise.slopes`:

    (a, b) <- (a, b) + C I⁻¹ σ,    I <- I⁰ + Λ (I - I⁰) Λ + j

Seven things keep that from being slow, or rash:

- **Q may be right.** Beside `q = e^b` stands the hypothesis q = 1, and the odds between both are carried: a measurement
  says `b σ_b + b² j_bb / 2` for b against 0, to second order, with a going along as the information about both has it.
  What is used is the expected level, `(1 - p) + p e^(b + v/2)` with v the variance of b: too small a Q costs more than
  one that is too large. To a, too, some of its variance is added.
- Slopes are found at the level in use, u, and carried back to the estimate, `σ(b) = σ(u) + j (u - b)`: the whole way
  for the odds, a part of it for the variance. All of it would keep the margin for good, and be slow where Q is large.
- What is known about b was found at other levels. It depends on q/r alone, about as (q/r)^(1 - x) with x the share of
  the residual's variance that Q explains, and is carried over to the new levels by that power.
- a moves first. Where R is far too small or large, the slope in b is not what it will be once a is there: pulls fall as
  e^-δ with a step δ in a, and the slope in b is taken after that fall. While a is uncertain, steps up in b are short.
- C: steps in b are longer than Newton's. The density is steep where Q is too small and flat where it is too large, and
  a gain of c/t instead of 1/t forgets a poor start as t^-c for `c²/(2c - 1)` times the variance.
- Old information is forgotten slowly, and fast on surprise: when the slopes of late agree with each other.
- The prior of b fades: a Q that shows only after hundreds of steps should be found then.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.noise.slopes import Information, Pair, Rise, Slopes
from wolf.numerics import linalg

LARGEST_LEVEL = float(np.log(1e4))  # of |a| and |b|
LARGEST_STEP = 1.4  # of a or b in one measurement
STRETCH = 1.63  # C, of steps in b
FORGETS = Pair(0.0037, 0.0006)  # of the information about a and b, in a step
WORTH_FORGETTING = Pair(83.0, 12.0)  # information from which all of that is forgotten
FORGETS_SURPRISED = 0.13  # of both, at the height of surprise
LATELY = 0.69  # what slopes of late keep from one measurement to the next
EXPECTED, ALARMING = 4.0, 5.2  # squares of their sum, in variances: below no surprise, above all of it
FEW = 0.1  # variance of that sum from which it says something
FADING, FADED = 0.985, 0.4  # the prior information about b keeps so much of itself in a step, down to this share
MARGIN = Pair(0.22, 0.65)  # of the variance of a and b, added to what is used
CAUTION = 0.4  # steps up in b are shorter where a is uncertain, by 1 + this times its variance squared
CARRIED_BACK = 0.58  # share of the margin
FIRST_ODDS = 1.0  # in logarithms, that Q is off
ODDS = (-5.0, 20.0)  # the least and the largest that they may be


class Levels(NamedTuple):
    """What is known about r and q; sensors share it.

    Attributes:
        log_noise: a, ().
        log_dynamics: b, ().
        information: I about both.
        prior: the part of it that is prior.
        slopes: of the belief; None if they are not carried.
        width: M, coordinates of a whole measurement.
        late: sums of the slopes of late.
        late_square: what to expect of their squares.
        fade: of the prior of b, from 1 down.
        log_odds: that Q is off.
    """

    log_noise: Array
    log_dynamics: Array
    information: Information
    prior: Pair
    slopes: Slopes | None
    width: Array
    late: Pair
    late_square: Pair
    fade: Array
    log_odds: Array


def start(sure: Pair, slopes: Slopes | None, width: Array) -> Levels:
    """Believe R and Q as they are, given the information that this belief is worth."""
    nothing = 0.0 * width
    none, known = Pair(nothing, nothing), Information(sure.noise, nothing, sure.dynamics)
    return Levels(nothing, nothing, known, sure, slopes, width, none, none, nothing + 1.0, nothing + FIRST_ODDS)


def spreads(levels: Levels) -> Pair:
    """Give the variances of a and b."""
    known = levels.information
    each = 1.0 / (known.noise * known.dynamics - known.both**2)
    return Pair(each * known.dynamics, each * known.noise)


def used(levels: Levels, learns: Pair) -> Pair:
    """Give the r and q to go by, above the estimates by a margin, and in b as likely as Q is off.

    Args:
        levels: what is known.
        learns: which of both are learned.
    """
    xp, spread = linalg.like(levels.log_noise), spreads(levels)
    one = xp.ones_like(levels.log_noise)
    above = (levels.log_noise, levels.log_dynamics), MARGIN, spread
    levels_used = [level + margin * variance for level, margin, variance in zip(*above, strict=True)]
    # Of one array: native code takes its exponentials at once.
    noise, dynamics, right = xp.exp(xp.stack([*levels_used, -levels.log_odds]))
    expected = (right + dynamics) / (right + 1.0)  # right : 1 are the odds that Q is right
    return Pair(noise if learns.noise else one, expected if learns.dynamics else one)


def follow(levels: Levels, found: Rise, more: Information, part: Array, shown: Array, learns: Pair) -> Levels:
    """Take a step in (a, b).

    Args:
        levels: before.
        found: σ, at the levels in use.
        more: j, of this measurement.
        part: share of a whole measurement that it is; as much is forgotten.
        shown: x, the share of the residual's variance that Q explains.
        learns: which of both are learned.
    """
    slope = Pair(found.noise, found.dynamics)
    late, square, kept = _forgetting(levels, slope, more, part)
    fade = FADED + (1.0 - (1.0 - FADING) * part) * (levels.fade - FADED)
    old, first = levels.information, levels.prior
    prior = Pair(first.noise, first.dynamics / levels.fade * fade)
    slope = _carry_back(levels, slope, more, learns)
    log_odds = _weigh(levels, slope, more, learns)
    aa = prior.noise + kept.noise * (old.noise - first.noise) + more.noise
    bb = prior.dynamics + kept.dynamics * (old.dynamics - first.dynamics) + more.dynamics
    ab = jnp.sqrt(kept.noise * kept.dynamics) * old.both + more.both
    if not learns.dynamics:
        ab, bb, slope = 0.0 * ab, prior.dynamics, slope._replace(dynamics=0.0 * slope.dynamics)
        found, more = Rise(found.noise, *(0.0 * each for each in found[1:])), more._replace(both=0.0 * more.both)
    if not learns.noise:
        ab, aa, slope = 0.0 * ab, prior.noise, slope._replace(noise=0.0 * slope.noise)
    known = Information(aa, ab, bb)
    moved = levels._replace(information=known, prior=prior, late=late, late_square=square, fade=fade, log_odds=log_odds)
    return _carried_over(levels, _moved(moved, slope, found, more, learns), shown)


def _forgetting(levels: Levels, slope: Pair, more: Information, part: Array) -> tuple[Pair, Pair, Pair]:
    """Sum the slopes of late up, and say how much of the information is kept."""
    stays = 1.0 - (1.0 - LATELY) * part
    late = Pair(*(stays * old + new for old, new in zip(levels.late, slope, strict=True)))
    expected = (more.noise, more.dynamics)
    square = Pair(*(stays**2 * old + new for old, new in zip(levels.late_square, expected, strict=True)))
    kept = []
    for slowly, worth, spread, total, variance in zip(
        FORGETS, WORTH_FORGETTING, spreads(levels), late, square, strict=True
    ):
        # Divisions are by what is known before the slopes are: nothing waits for them.
        each = 1.0 / ((ALARMING - EXPECTED) * (variance + FEW))
        surprise = jnp.clip(each * total**2 - EXPECTED / (ALARMING - EXPECTED), 0.0, 1.0)
        kept.append(1.0 - part * (slowly / jnp.maximum(1.0, worth * spread) + FORGETS_SURPRISED * surprise))
    return late, square, Pair(*kept)


def _carry_back(levels: Levels, slope: Pair, more: Information, learns: Pair) -> Pair:
    """Carry the slopes from the levels in use to the estimates."""
    spread, nothing = spreads(levels), jnp.zeros_like(levels.log_noise)
    noise = CARRIED_BACK * MARGIN.noise * spread.noise if learns.noise else nothing
    dynamics = nothing
    if learns.dynamics:
        whole = jnp.log(used(levels, learns).dynamics) - levels.log_dynamics
        dynamics = whole - (1.0 - CARRIED_BACK) * MARGIN.dynamics * spread.dynamics
    return Pair(
        slope.noise + more.both * dynamics + more.noise * noise,
        slope.dynamics + more.dynamics * dynamics + more.both * noise,
    )


def _weigh(levels: Levels, slope: Pair, more: Information, learns: Pair) -> Array:
    """Weigh b against 0, to second order, by a slope at b: the log density gains b σ + b² j / 2."""
    if not learns.dynamics:
        return levels.log_odds
    # Where b is 0, a is where the information about both has it: that is the line from one to the other.
    tilt, b = levels.information.both / levels.information.noise, levels.log_dynamics
    along = slope.dynamics - tilt * slope.noise
    bend = more.dynamics - 2.0 * tilt * more.both + tilt**2 * more.noise
    return jnp.clip(levels.log_odds + b * (along + 0.5 * b * bend), *ODDS)


def _moved(levels: Levels, slope: Pair, found: Rise, more: Information, learns: Pair) -> Levels:
    """Go along C I⁻¹ σ, not too far at once, in a first: the slope in b is another one there."""
    aa, ab, bb = levels.information
    each = 1.0 / (aa * bb - ab**2)
    noise = jnp.clip(each * (bb * slope.noise - ab * slope.dynamics), -LARGEST_STEP, LARGEST_STEP)
    # With δ more of a every pull is e^-δ of what it was, by a Padé quotient: what a explains is not left to b.
    less = ((1.0 - 0.25 * noise) / (1.0 + 0.25 * noise)) ** 2
    there = (found.dynamics - found.square) * (less - 1.0) + found.square * (less**2 - 1.0) + more.both * noise
    upwards = slope.dynamics + there - ab * noise
    caution = CAUTION * jnp.where(upwards > 0, each * bb, 0.0) ** 2 if learns.noise else 0.0
    dynamics = jnp.clip(STRETCH * upwards / (bb * (1.0 + caution)), -LARGEST_STEP, LARGEST_STEP)
    return levels._replace(
        log_noise=jnp.clip(levels.log_noise + noise, -LARGEST_LEVEL, LARGEST_LEVEL),
        log_dynamics=jnp.clip(levels.log_dynamics + dynamics, -LARGEST_LEVEL, LARGEST_LEVEL),
    )


def _carried_over(before: Levels, after: Levels, shown: Array) -> Levels:
    """Carry what is known about b over to new levels, by the power of q/r that it depends on."""
    ratio = (after.log_dynamics - before.log_dynamics) - (after.log_noise - before.log_noise)
    # Half of that power by the first Padé quotient: for steps this short as good as exp, and soon there.
    quarter = 0.25 * (1.0 - shown) * jnp.clip(ratio, -LARGEST_STEP, LARGEST_STEP)
    root = (1.0 + quarter) / (1.0 - quarter)
    known, prior = after.information, after.prior.dynamics
    both, dynamics = root * known.both, prior + root**2 * (known.dynamics - prior)
    return after._replace(information=Information(known.noise, both, dynamics))
