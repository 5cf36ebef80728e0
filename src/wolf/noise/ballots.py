"""Votes of rejected measurements: what they say, and whether they agree. `wolf.noise.recovery` says what follows."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from wolf.noise.whitened import Whitened, far_distance
from wolf.numerics import linalg
from wolf.numerics.linalg import total
from wolf.protocols import Evidence

BESIDE = 0.1  # of the squared distance to the prediction, up to which two measurements lie beside each other
LONG = 5.0  # refused in a row: more of them are hardly outliers that come singly
REMEMBERED = 0.97  # of such a run's length, from one accepted measurement to the next
SLOWLY = 0.1  # of a measurement, that each one accepted takes off the count as long as such a run is remembered


class Ballot(NamedTuple):
    """What the rejected measurements say.

    Attributes:
        rule: memory of the noise rule.
        votes: how many agree, (1,), or one count for each of several sensors.
        refused: how many were rejected since the vote began, whether they agree or not; as votes.
        longest: how many were rejected in a row at most, which fades as others are accepted; as votes.
        place: c, the residual they agree on, (M,).
        slope: b, what it changes by in a step, (M,).
        astray: how many lay beside each other and far from what was predicted, less those that did not; as votes.
        last: the last measurement that was rejected, (M,).
        marked: what the rule wants back if the vote is won, as it was when the vote began.
        patience: k, one for each count of votes, for a patience that grows.
    """

    rule: Any
    votes: Array
    refused: Array
    longest: Array
    place: Array
    slope: Array
    astray: Array
    last: Array
    marked: Any = ()
    patience: Any = ()


def cast(ballot: Ballot, seen: Evidence, white: Whitened, ordinary: Array) -> tuple[Ballot, Array]:
    """Cast a vote, and say whether it agrees with those before it."""
    size = white.signal.shape[0]
    metric = linalg.cholesky(white.signal + 2.0 * ordinary * linalg.eye(size, white.signal))
    limit = far_distance(white.num_observed)
    votes, place, slope = ballot.votes, ballot.place, ballot.slope

    def near(where: Array) -> Array:
        apart = white.noise.half(seen.observed * (seen.residual - where))
        return total(metric.half(apart) ** 2) < limit

    agrees = (votes >= 1) & (near(place) | near(place + slope))
    first, second = votes == 0, (votes == 1) & ~agrees
    moved = seen.residual - place
    # Of what was not measured, the vote's own forecast is all there is.
    here = jnp.where(seen.observed > 0, seen.residual, place + slope)
    new_votes = jnp.where(first, 1.0, jnp.where(agrees, votes + 1.0, jnp.maximum(votes - 1.0, 1.0)))
    new_place = jnp.where(first | second | agrees, here, place + slope)
    new_slope = jnp.where(first, 0.0, jnp.where(second, moved, jnp.where(agrees, 0.5 * (slope + moved), slope)))
    new_slope = jnp.where(seen.observed > 0, new_slope, slope)
    y = seen.residual + seen.view.mean
    beside = total(white.noise.half(seen.observed * (y - ballot.last)) ** 2) < BESIDE * total(white.residual**2)
    last = jnp.where(seen.observed > 0, y, ballot.last)
    refused = jnp.where(first, 1.0, ballot.refused + 1.0)
    astray = jnp.where(beside, ballot.astray + 1.0, _less(ballot.astray))
    longest = jnp.maximum(ballot.longest, refused)
    return Ballot(None, new_votes, refused, longest, new_place, new_slope, astray, last), agrees


def end(ballot: Ballot) -> Ballot:
    """End the vote, as a measurement was accepted, and count fewer of those that lay beside each other.

    A season that is ruined at some hours is refused there for hours each day, and accepted at all others. Lies that
    come singly are refused for a few steps.
    """
    astray = _less(ballot.astray, jnp.where(ballot.longest > LONG, SLOWLY, 1.0))
    return ballot._replace(votes=jnp.zeros_like(ballot.votes), longest=REMEMBERED * ballot.longest, astray=astray)


def _less(astray: Array, by: Any = 1.0) -> Array:
    return jnp.maximum(astray - by, 0.0)
