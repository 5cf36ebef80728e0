"""The ways in which sensors lie.

An outlier process is a small value with `corrupt(key, clean, measured) -> (measurements, outliers)`, where `clean` is
what a perfect sensor would say, (T, M), `measured` has the model's noise on it, and `outliers` is (T,). Randomness
comes only from `key`. Processes follow each other in a `Sequence`.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import validation
from wolf.numerics import linalg
from wolf.numerics.pytree import pytree, static

WIDE = 3.0  # a Student-t draw is marked as an outlier when its noise is this many times as wide as the model says


@pytree
class Clean:
    """Leave the model's own noise as it is: no outliers."""

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Change nothing."""
        return measured, jnp.zeros(len(measured), bool)


@pytree
class StudentT:
    """Divide the noise of each step by one random scale: Student-t noise with the model's R as its scale.

    A step is marked as an outlier when its noise is more than three times as wide as the model says.

    Args:
        dof: degrees of freedom; 2.01 in Duran-Martin et al. (2024).
    """

    dof: Any

    def __post_init__(self) -> None:
        """Check dof."""
        validation.positive("dof", self.dof, needed=True)

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Widen the noise."""
        scales = self.scales(key, clean)
        return clean + (measured - clean) * jnp.sqrt(scales)[:, None], scales > WIDE**2

    def scales(self, key: Array, clean: Array) -> Array:
        """Draw how many times R the noise of each step is: inverse gamma."""
        return 0.5 * self.dof / jax.random.gamma(key, 0.5 * self.dof, (len(clean),), clean.dtype)


@pytree
class Mixture:
    """Multiply the mean of a measurement now and then: y ~ N(factor Hx, R) with probability `prob`.

    Args:
        prob: of an outlier at each step; 0.05 in Duran-Martin et al. (2024).
        factor: on the mean; 2 in the paper.
    """

    prob: Any
    factor: Any = 2.0

    def __post_init__(self) -> None:
        """Check prob and factor."""
        validation.probability("prob", self.prob)
        validation.finite("factor", self.factor)

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Scale some means."""
        outlier = _events(key, self.prob, measured)
        return measured + jnp.where(outlier, self.factor - 1.0, 0.0)[:, None] * clean, outlier


@pytree
class Additive:
    """Add a uniform error to all coordinates now and then.

    Args:
        prob: of an outlier at each step.
        low: smallest error.
        high: largest error. `Additive(0.05, -50.0, 50.0)` is two-sided, `Additive(0.05, 0.0, 50.0)` one-sided.
    """

    prob: Any
    low: Any
    high: Any

    def __post_init__(self) -> None:
        """Check prob, and that low and high are in order."""
        validation.probability("prob", self.prob)
        low, high = validation.finite("low", self.low), validation.finite("high", self.high)
        if not isinstance(low + high, jax.core.Tracer) and np.any(low > high):
            raise ValueError(f"high must not be below low; got {self.low!r} and {self.high!r}")

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Add errors."""
        event_key, size_key = jax.random.split(key)
        outlier = _events(event_key, self.prob, measured)
        error = self.low + (self.high - self.low) * jax.random.uniform(size_key, measured.shape, measured.dtype)
        return measured + jnp.where(outlier[:, None], error, 0.0), outlier


@pytree
class Spikes:
    """Add a normal error to all coordinates now and then.

    Args:
        prob: of an outlier at each step.
        size: standard deviation of the error.
    """

    prob: Any
    size: Any

    def __post_init__(self) -> None:
        """Check prob and size."""
        validation.probability("prob", self.prob)
        validation.positive("size", self.size, needed=True)

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Add errors."""
        event_key, size_key = jax.random.split(key)
        outlier = _events(event_key, self.prob, measured)
        error = self.size * jax.random.normal(size_key, measured.shape, measured.dtype)
        return measured + jnp.where(outlier[:, None], error, 0.0), outlier


@pytree
class ReplacedMeasurements:
    """Let the sensor say one fixed value now and then, as a full scale or an error code.

    Args:
        prob: of an outlier at each step.
        value: that it says.
    """

    prob: Any
    value: Any

    def __post_init__(self) -> None:
        """Check prob and value."""
        validation.probability("prob", self.prob)
        validation.nonempty("value", self.value)

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Put the value in."""
        outlier = _events(key, self.prob, measured)
        return jnp.where(outlier[:, None], self.value, measured), outlier


@pytree
class EachSensor:
    """Let a process strike every coordinate by itself instead of all at once.

    `EachSensor(ReplacedMeasurements(prob=0.001, value=100.0))` is the contamination of Duran-Martin et al. (2024,
    section 5.4).

    Args:
        process: any outlier process.
        sensors: numbers of the coordinates that it may strike; all without.
    """

    process: Any
    sensors: tuple[int, ...] | None = static(default=None)

    def __post_init__(self) -> None:
        """Check the process, and keep the sensors hashable."""
        check_process("process", self.process)
        if self.sensors is not None:
            object.__setattr__(self, "sensors", validation.groups("sensors", self.sensors))

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Go through the coordinates; a step is marked if any of them was struck."""
        count = measured.shape[1]
        keys = jax.random.split(key, count)
        strike = jax.vmap(self.process.corrupt, in_axes=(0, 1, 1), out_axes=(1, 1))
        struck, outliers = strike(keys, clean[..., None], measured[..., None])
        struck = struck[..., 0]
        if self.sensors is None:
            return struck, outliers.any(1)
        may = jnp.zeros(count, bool).at[jnp.asarray(self.sensors)].set(True)
        return jnp.where(may[None], struck, measured), (outliers & may[None]).any(1)


@pytree
class Stuck:
    """Let the sensor repeat its last value for a while.

    Args:
        prob: of getting stuck at each step.
        length: steps that it stays stuck.
    """

    prob: Any
    length: int = static()

    def __post_init__(self) -> None:
        """Check prob and length."""
        validation.probability("prob", self.prob)
        validation.count("length", self.length)

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Hold the last good value."""
        stuck = _spells(_events(key, self.prob, measured), self.length).at[0].set(False)
        last = jax.lax.cummax(jnp.where(stuck, 0, jnp.arange(len(stuck))))
        return measured[last], stuck


@pytree
class Drift:
    """Let the sensor drift away from some step on.

    Args:
        start: first step of the drift.
        rate: error that it gains at each step, in all coordinates.
    """

    start: Any
    rate: Any

    def __post_init__(self) -> None:
        """Check both."""
        validation.finite("start", self.start)
        validation.finite("rate", self.rate)

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Add a ramp."""
        late = jnp.maximum(jnp.arange(len(measured)) - self.start + 1.0, 0.0).astype(measured.dtype)
        return measured + self.rate * late[:, None], late > 0


@pytree
class Burst:
    """Add one constant error for several steps in a row, now and then.

    Args:
        prob: of the start of a burst at each step.
        length: steps of a burst.
        size: standard deviation of its error.
    """

    prob: Any
    length: int = static()
    size: Any = 10.0

    def __post_init__(self) -> None:
        """Check prob, length and size."""
        validation.probability("prob", self.prob)
        validation.count("length", self.length)
        validation.positive("size", self.size, needed=True)

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Shift whole spells."""
        event_key, size_key = jax.random.split(key)
        starts = _events(event_key, self.prob, measured)
        active = _spells(starts, self.length)
        errors = self.size * jax.random.normal(size_key, measured.shape, measured.dtype)
        since = jax.lax.cummax(jnp.where(starts, jnp.arange(len(starts)), 0))
        return measured + jnp.where(active[:, None], errors[since], 0.0), active


@pytree
class Missing:
    """Lose each number with some probability: NaN.

    Args:
        prob: of losing a number.
    """

    prob: Any

    def __post_init__(self) -> None:
        """Check prob."""
        validation.probability("prob", self.prob)

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Lose numbers."""
        lost = jax.random.uniform(key, measured.shape, measured.dtype) < self.prob
        return jnp.where(lost, jnp.nan, measured), jnp.zeros(len(measured), bool)


@pytree
class Gap:
    """Lose everything for a while: NaN.

    Args:
        start: first step of the gap.
        length: steps that it lasts.
    """

    start: Any
    length: Any

    def __post_init__(self) -> None:
        """Check both."""
        validation.finite("start", self.start)
        validation.finite("length", self.length)

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Lose a stretch."""
        steps = jnp.arange(len(measured))
        lost = (steps >= self.start) & (steps < self.start + self.length)
        return jnp.where(lost[:, None], jnp.nan, measured), jnp.zeros(len(measured), bool)


@pytree
class Sequence:
    """Apply one process after the other.

    Args:
        processes: in their order; what is an outlier to one is an outlier.
    """

    processes: tuple[Any, ...]

    def __post_init__(self) -> None:
        """Check each."""
        if not isinstance(self.processes, tuple | list) or not self.processes:
            raise ValueError(
                f"processes must be a tuple of outlier processes; got {validation.short_repr(self.processes)}"
            )
        for process in self.processes:
            check_process("each of processes", process)

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Go through the processes."""
        outliers = jnp.zeros(len(measured), bool)
        for each, process in zip(jax.random.split(key, len(self.processes)), self.processes, strict=True):
            measured, new = process.corrupt(each, clean, measured)
            outliers = outliers | new
        return measured, outliers


def check_process(name: str, process: Any) -> None:
    """Refuse what is no outlier process."""
    if isinstance(process, type) or not hasattr(process, "corrupt"):
        got = validation.short_repr(process)
        raise ValueError(f"{name} must be a process such as wolf.simulate.StudentT(dof=2.01); got {got}")


def coloured(key: Array, cov: Array) -> Array:
    """Draw noise with a given covariance."""
    return linalg.apply_cov_root(cov, jax.random.normal(key, cov.shape[-1:], cov.dtype))


def _events(key: Array, prob: Any, like: Array) -> Array:
    return jax.random.uniform(key, (len(like),), like.dtype) < prob


def _spells(starts: Array, length: int) -> Array:
    """Mark `length` steps from every start on."""
    total = jnp.cumsum(starts)
    before = jnp.concatenate([jnp.zeros(min(length, len(total)), total.dtype), total[:-length]])[: len(total)]
    return total > before
