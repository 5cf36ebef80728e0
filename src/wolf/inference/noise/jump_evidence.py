"""Evidence for a jump of the state in rejected measurements: their offsets, and whether these are consistent.

The test itself is in `wolf.inference.noise.divergence_recovery`.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.inference.noise.whitened import Whitened, far_distance
from wolf.interfaces import Number, UpdateContext
from wolf.numerics import linalg
from wolf.numerics.linalg import sum_leading
from wolf.numerics.pytree import PyTree

CLUSTER_RATIO = 0.1  # of the squared residual, up to which two rejected measurements form a cluster
MAX_ISOLATED_INCONSISTENT = 2.0  # consecutive inconsistent rejections; more are hardly isolated or consistent outliers
INCONSISTENT_DECAY = 0.97  # of that number, from one accepted measurement to the next
SLOW_CLUSTER_DECREMENT = 0.1  # of the cluster count at an acceptance, while that number is larger
PAST_DECAY = 0.97  # of the counts of past runs, from one run to the next
PRIOR_INCONSISTENT = 5.0  # measurements in the denominator of the share of consistent rejections


class JumpEvidence(NamedTuple):
    """Memory of the jump test: counts and offsets of the current run of rejections.

    Attributes:
        base: memory of the wrapped noise model.
        consistent: length of the run of consistent rejections, (1,), or (S,) for S sensors.
        rejected: number of rejections since the run began, consistent or not; as consistent.
        inconsistent: largest number of inconsistent rejections in a run, decaying at acceptances; as consistent.
        offset: c, the residual that the rejections agree on, (M,).
        drift: b, its change per step, (M,).
        clustered: number of rejections close to one another and far from the prediction, minus those that are not; as
            consistent.
        last: the last rejected measurement, (M,).
        snapshot: of the wrapped noise model when the run began, to restore if the jump is accepted.
        patience: k for each count, if it depends on the outlier rate.
        past_consistent: decayed number of consistent rejections in past runs that ended without a jump; as patience.
        past_rejected: decayed number of all rejections in those runs; as patience.
        repeats: of the test for stuck sensors, where it is used.
    """

    base: PyTree
    consistent: Array
    rejected: Array
    inconsistent: Array
    offset: Array
    drift: Array
    clustered: Array
    last: Array
    snapshot: PyTree = ()
    patience: Any = ()
    past_consistent: Any = ()
    past_rejected: Any = ()
    repeats: Any = ()

    @property
    def counters(self) -> tuple[str, ...]:
        """Names of the fields with one number for each sensor tested."""
        past = () if isinstance(self.past_consistent, tuple) else ("past_consistent", "past_rejected")
        return ("consistent", "rejected", "inconsistent", "clustered", *past)

    def of_sensor(self, i: int, rows: slice | np.ndarray) -> "JumpEvidence":
        """Return the evidence of one sensor, without the memory of the noise model."""
        fields = self._asdict()
        counts = {name: fields[name][i] for name in self.counters}
        offsets = {name: fields[name][rows] for name in ("offset", "drift", "last")}
        return JumpEvidence(None, **counts, **offsets)

    @property
    def consistent_share(self) -> Array:
        """Share of outliers that are consistent with the one before, plus one standard deviation.

        All rejections of a run that ended without a jump are outliers: each but the first could have been consistent,
        and so could the measurement that ended it.
        """
        past = self.past_consistent
        return (past + jnp.sqrt(past + 0.25) - 0.5) / (self.past_rejected + PRIOR_INCONSISTENT)


def add_rejection(
    evidence: JumpEvidence, context: UpdateContext, white: Whitened, ordinary: Array
) -> tuple[JumpEvidence, Array]:
    """Add a rejected measurement to the evidence of its sensor.

    Returns:
        The evidence, and whether the measurement is consistent with the run so far.
    """
    size = white.signal.shape[0]
    metric = linalg.cholesky(white.signal + 2.0 * ordinary * linalg.eye(size, white.signal))
    limit = far_distance(white.num_observed)
    count, offset, drift = evidence.consistent, evidence.offset, evidence.drift

    def near(where: Array) -> Array:
        difference = white.noise.half(context.observed * (context.residual - where))
        return sum_leading(metric.half(difference) ** 2) < limit

    agrees = (count >= 1) & (near(offset) | near(offset + drift))
    first, second = count == 0, (count == 1) & ~agrees
    moved = context.residual - offset
    # For a missing coordinate the extrapolated offset is all there is.
    here = jnp.where(context.observed > 0, context.residual, offset + drift)
    new_count = jnp.where(first, 1.0, jnp.where(agrees, count + 1.0, jnp.maximum(count - 1.0, 1.0)))
    new_offset = jnp.where(first | second | agrees, here, offset + drift)
    new_drift = jnp.where(first, 0.0, jnp.where(second, moved, jnp.where(agrees, 0.5 * (drift + moved), drift)))
    new_drift = jnp.where(context.observed > 0, new_drift, drift)
    y = context.residual + context.view.mean
    close = sum_leading(white.noise.half(context.observed * (y - evidence.last)) ** 2) < CLUSTER_RATIO * sum_leading(
        white.residual**2
    )
    last = jnp.where(context.observed > 0, y, evidence.last)
    rejected = jnp.where(first, 1.0, evidence.rejected + 1.0)
    clustered = jnp.where(close, evidence.clustered + 1.0, _decrease(evidence.clustered))
    inconsistent = jnp.maximum(evidence.inconsistent, rejected - new_count)
    counts = {"consistent": new_count, "rejected": rejected, "inconsistent": inconsistent, "clustered": clustered}
    return evidence._replace(offset=new_offset, drift=new_drift, last=last, **counts), agrees


def end_run(evidence: JumpEvidence) -> JumpEvidence:
    """End the run of rejections at an accepted measurement, and decrease the cluster count.

    A seasonal state that is wrong at some hours is rejected there for hours each day, and accepted at all others; the
    count then decreases slowly. Isolated outliers are rejected for a few steps only, and repeated ones are consistent.
    """
    persistent = evidence.inconsistent > MAX_ISOLATED_INCONSISTENT
    clustered = _decrease(evidence.clustered, jnp.where(persistent, SLOW_CLUSTER_DECREMENT, 1.0))
    had_run, zero = evidence.consistent > 0, jnp.zeros_like(evidence.consistent)
    ended = evidence._replace(
        consistent=zero, inconsistent=INCONSISTENT_DECAY * evidence.inconsistent, clustered=clustered
    )
    if "past_consistent" not in evidence.counters:
        return ended
    consistent, rejected = evidence.past_consistent, evidence.past_rejected
    return ended._replace(
        past_consistent=jnp.where(had_run, PAST_DECAY * consistent + evidence.consistent - 1.0, consistent),
        past_rejected=jnp.where(had_run, PAST_DECAY * rejected + evidence.rejected, rejected),
    )


def _decrease(count: Array, by: Number = 1.0) -> Array:
    return jnp.maximum(count - by, 0.0)
