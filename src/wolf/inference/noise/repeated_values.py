"""Stuck sensors: values that are repeated exactly, more often than the sensor does so by itself.

A continuous quantity measured with noise is almost never twice the same. A sensor that is stuck, or that reports a
fixed number when it fails (-999), repeats a value exactly, and for a filter each repetition is a further consistent
measurement: after a few of them a jump test accepts the value. For each coordinate let

    β = (repetitions + 0.2) / (measurements + 10)

be the share of repetitions seen so far. Each measurement that equals the one before it multiplies the odds that the
sensor is stuck by 0.95 / β, from 0.01; another value resets them. While the odds are above 1 the coordinate is treated
as missing. Rounded measurements have a β of 0.1 and more, so that several repetitions are needed; to learn that, the
first two repetitions of every run are counted, and all those that were used. A series is not called stuck before its
value has changed once.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from wolf.interfaces import Measurement

REPEAT_PROBABILITY = 0.95  # that a stuck sensor repeats its value
PRIOR_ODDS = 0.01  # that a sensor is stuck, before a repetition
MAX_ODDS = 1e6
PRIOR_REPEATS, PRIOR_MEASUREMENTS = 0.2, 10.0  # of the share of repetitions
MIN_DIFFERENT = 1.5  # counted measurements that were no repetitions; a series that never changed may be constant
COUNTED_REPEATS = 2.0  # of a run, that inform about the share of repetitions even if the sensor seems stuck


class RepeatedValues(NamedTuple):
    """Memory of the test for stuck sensors, an entry for each coordinate.

    Attributes:
        last: last measured value, (M,).
        odds: that the sensor is stuck, (M,).
        run: number of repetitions since the value changed, (M,).
        repeats: counted repetitions, (M,).
        measured: counted measurements, (M,).
    """

    last: Array
    odds: Array
    run: Array
    repeats: Array
    measured: Array

    @classmethod
    def start(cls, like: Array) -> "RepeatedValues":
        """Return the initial memory, without measurements.

        Args:
            like: array of the shape and dtype of a measurement.
        """
        zero = jnp.zeros_like(like)
        return cls(zero, jnp.full_like(like, PRIOR_ODDS), zero, zero, zero)

    def screen(self, y: Measurement) -> tuple[Measurement, "RepeatedValues"]:
        """Remove the coordinates that are stuck from a measurement, which then counts them as not observed.

        Example:
            >>> from wolf.engine.measurements import preprocess
            >>> memory, observed = RepeatedValues.start(jnp.zeros(1)), []
            >>> for value in (0.3, -999.0, -999.0, -999.0, 0.4):
            ...     y, memory = memory.screen(preprocess(jnp.array([value])))
            ...     observed.append(float(y.observed[0]))
            >>> observed
            [1.0, 1.0, 1.0, 0.0, 1.0]
        """
        observed = y.observed > 0
        same = observed & (y.value == self.last) & (self.measured > 0)
        likelier = REPEAT_PROBABILITY * (self.measured + PRIOR_MEASUREMENTS) / (self.repeats + PRIOR_REPEATS)
        raised = jnp.minimum(self.odds * likelier, MAX_ODDS)
        odds = jnp.where(same, raised, jnp.where(observed, PRIOR_ODDS, self.odds))
        run = jnp.where(same, self.run + 1.0, jnp.where(observed, 0.0, self.run))
        stuck = same & (odds > 1.0) & (self.measured - self.repeats > MIN_DIFFERENT)
        one = jnp.where(observed & ~(stuck & (run > COUNTED_REPEATS)), 1.0, 0.0).astype(y.value.dtype)
        memory = RepeatedValues(
            jnp.where(observed, y.value, self.last),
            odds,
            run,
            self.repeats + jnp.where(same, one, 0.0),
            self.measured + one,
        )
        kept = jnp.where(stuck, 0.0, y.observed)
        return y._replace(value=jnp.where(stuck, 0.0, y.value), observed=kept, num_observed=kept.sum(0)), memory
