"""Evidence for a jump in rejected measurements: what they imply, and whether they agree (see `divergence_recovery`)."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from wolf.inference.noise.whitened import Whitened, far_distance
from wolf.interfaces import UpdateContext
from wolf.numerics import linalg
from wolf.numerics.linalg import sum_leading

BESIDE = 0.1  # of the squared distance to the prediction, up to which two measurements lie beside each other
APART = 2.0  # refused in a row that did not agree: more of them are hardly outliers that come singly, or lie alike
REMEMBERED = 0.97  # of how many they were, from one accepted measurement to the next
SLOWLY = 0.1  # of a measurement, that each one accepted takes off the count as long as they are remembered
FADING = 0.97  # of what lost votes say, from one to the next
UNLIKE = 5.0  # measurements that did not agree, before there were any


class JumpEvidence(NamedTuple):
    """What the rejected measurements say.

    Attributes:
        base: memory of the noise rule.
        votes: how many agree, (1,), or one count for each of several sensors.
        refused: how many were rejected since the vote began, whether they agree or not; as votes.
        apart: how many in a row did not agree at most, which fades as others are accepted; as votes.
        place: c, the residual they agree on, (M,).
        slope: b, what it changes by in a step, (M,).
        astray: how many lay beside each other and far from what was predicted, less those that did not; as votes.
        last: the last measurement that was rejected, (M,).
        snapshot: what the rule wants back if the vote is won, as it was when the vote began.
        patience: k, one for each count of votes, for a patience that grows.
        alike: how many agreed with those before them in votes that were lost, which fades; as patience.
        tried: how many might have, which fades; as patience.
    """

    base: Any
    votes: Array
    refused: Array
    apart: Array
    place: Array
    slope: Array
    astray: Array
    last: Array
    snapshot: Any = ()
    patience: Any = ()
    alike: Any = ()
    tried: Any = ()

    @property
    def counted(self) -> tuple[str, ...]:
        """Names of what is counted, once for each that votes."""
        return ("votes", "refused", "apart", "astray", *(() if isinstance(self.alike, tuple) else ("alike", "tried")))

    def of(self, i: int, rows: Any) -> "JumpEvidence":
        """Take the part of one that votes, without what the rule remembers."""
        counts = {name: getattr(self, name)[i] for name in self.counted}
        places = {name: getattr(self, name)[rows] for name in ("place", "slope", "last")}
        return JumpEvidence(None, **counts, **places)

    @property
    def share_alike(self) -> Array:
        """Share of measurements that lie as the one before it did, and a standard deviation of it.

        In a lost vote all are outliers: each but the first might have agreed, and so might the one that ended it.
        """
        return (self.alike + jnp.sqrt(self.alike + 0.25) - 0.5) / (self.tried + UNLIKE)


def cast(ballot: JumpEvidence, context: UpdateContext, white: Whitened, ordinary: Array) -> tuple[JumpEvidence, Array]:
    """Cast a vote, and say whether it agrees with those before it."""
    size = white.signal.shape[0]
    metric = linalg.cholesky(white.signal + 2.0 * ordinary * linalg.eye(size, white.signal))
    limit = far_distance(white.num_observed)
    votes, place, slope = ballot.votes, ballot.place, ballot.slope

    def near(where: Array) -> Array:
        apart = white.noise.half(context.observed * (context.residual - where))
        return sum_leading(metric.half(apart) ** 2) < limit

    agrees = (votes >= 1) & (near(place) | near(place + slope))
    first, second = votes == 0, (votes == 1) & ~agrees
    moved = context.residual - place
    # Of what was not measured, the vote's own forecast is all there is.
    here = jnp.where(context.observed > 0, context.residual, place + slope)
    new_votes = jnp.where(first, 1.0, jnp.where(agrees, votes + 1.0, jnp.maximum(votes - 1.0, 1.0)))
    new_place = jnp.where(first | second | agrees, here, place + slope)
    new_slope = jnp.where(first, 0.0, jnp.where(second, moved, jnp.where(agrees, 0.5 * (slope + moved), slope)))
    new_slope = jnp.where(context.observed > 0, new_slope, slope)
    y = context.residual + context.view.mean
    beside = sum_leading(white.noise.half(context.observed * (y - ballot.last)) ** 2) < BESIDE * sum_leading(
        white.residual**2
    )
    last = jnp.where(context.observed > 0, y, ballot.last)
    refused = jnp.where(first, 1.0, ballot.refused + 1.0)
    astray = jnp.where(beside, ballot.astray + 1.0, _less(ballot.astray))
    apart = jnp.maximum(ballot.apart, refused - new_votes)
    counts = {"votes": new_votes, "refused": refused, "apart": apart, "astray": astray}
    return ballot._replace(place=new_place, slope=new_slope, last=last, **counts), agrees


def end(ballot: JumpEvidence) -> JumpEvidence:
    """End the vote, as a measurement was accepted, and count fewer of those that lay beside each other.

    A season that is ruined at some hours is refused there for hours each day, and accepted at all others. Lies that
    come singly are refused for a few steps, and those that lie alike agree.
    """
    astray = _less(ballot.astray, jnp.where(ballot.apart > APART, SLOWLY, 1.0))
    lost, nothing = ballot.votes > 0, jnp.zeros_like(ballot.votes)
    ended = ballot._replace(votes=nothing, apart=REMEMBERED * ballot.apart, astray=astray)
    if "alike" not in ballot.counted:
        return ended
    alike = jnp.where(lost, FADING * ballot.alike + ballot.votes - 1.0, ballot.alike)
    tried = jnp.where(lost, FADING * ballot.tried + ballot.refused, ballot.tried)
    return ended._replace(alike=alike, tried=tried)


def _less(astray: Array, by: Any = 1.0) -> Array:
    return jnp.maximum(astray - by, 0.0)
