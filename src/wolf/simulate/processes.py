"""Outlier processes: gross errors, faults and missing values of sensors.

An outlier process is a value with `corrupt(key, clean, measured) -> (measurements, outliers)`, where `clean` is the
noise-free signal, (T, M), `measured` has the model's noise added, and `outliers` is (T,). Randomness comes only from
`key`. Processes are composed by a `Sequence`.
"""

from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import validation
from wolf.interfaces import Number
from wolf.numerics import linalg
from wolf.numerics.pytree import pytree, static

OUTLIER_STD_RATIO = (
    3.0  # a Student-t draw counts as an outlier when its noise is this many times wider than in the model
)


@runtime_checkable
class OutlierProcess(Protocol):
    """Corruption of simulated measurements; a user's process needs no base class."""

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Return the corrupted measurements (T, M), and which steps are outliers, (T,)."""
        ...


@runtime_checkable
class ScaleProcess(OutlierProcess, Protocol):
    """Outlier process that multiplies R by a random scale factor per step."""

    def scales(self, key: Array, clean: Array) -> Array:
        """Draw the scale factor of R of each step, (T,), with the same draws as `corrupt`."""
        ...


@pytree
class Clean:
    """The noise of the model, without outliers."""

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Return the measurements unchanged."""
        return measured, jnp.zeros(len(measured), bool)


@pytree
class StudentT:
    """Student-t noise with the model's R as its scale matrix: one random scale factor per step.

    A step counts as an outlier when its noise is more than three times wider than in the model.

    Args:
        dof: degrees of freedom; 2.01 in Duran-Martin et al. (2024).
    """

    dof: float | Array

    def __post_init__(self) -> None:
        """Validate dof."""
        validation.positive("dof", self.dof, needed=True)

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Multiply the noise by random scale factors."""
        scales = self.scales(key, clean)
        return clean + (measured - clean) * jnp.sqrt(scales)[:, None], scales > OUTLIER_STD_RATIO**2

    def scales(self, key: Array, clean: Array) -> Array:
        """Draw the scale factor of R of each step: inverse gamma."""
        return 0.5 * self.dof / jax.random.gamma(key, 0.5 * self.dof, (len(clean),), clean.dtype)


@pytree
class Mixture:
    """Outliers with a scaled mean: y ~ N(factor Hx, R) with probability `prob`.

    Args:
        prob: of an outlier at each step; 0.05 in Duran-Martin et al. (2024).
        factor: on the mean; 2 in the paper.
    """

    prob: Number
    factor: Number = 2.0

    def __post_init__(self) -> None:
        """Validate prob and factor."""
        validation.probability("prob", self.prob)
        validation.finite("factor", self.factor)

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Scale the means at random steps."""
        outlier = _events(key, self.prob, measured)
        return measured + jnp.where(outlier, self.factor - 1.0, 0.0)[:, None] * clean, outlier


@pytree
class Additive:
    """Uniform additive errors of all coordinates at random steps.

    Args:
        prob: of an outlier at each step.
        low: smallest error.
        high: largest error. `Additive(0.05, -50.0, 50.0)` is two-sided, `Additive(0.05, 0.0, 50.0)` one-sided.
    """

    prob: Number
    low: Number
    high: Number

    def __post_init__(self) -> None:
        """Validate prob, low and high."""
        validation.probability("prob", self.prob)
        low, high = validation.finite("low", self.low), validation.finite("high", self.high)
        if not isinstance(low + high, jax.core.Tracer) and np.any(low > high):
            raise ValueError(f"high must not be below low; got {self.low!r} and {self.high!r}")

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Add errors at random steps."""
        event_key, size_key = jax.random.split(key)
        outlier = _events(event_key, self.prob, measured)
        error = self.low + (self.high - self.low) * jax.random.uniform(size_key, measured.shape, measured.dtype)
        return measured + jnp.where(outlier[:, None], error, 0.0), outlier


@pytree
class Spikes:
    """Normal additive errors of all coordinates at random steps.

    Args:
        prob: of an outlier at each step.
        size: standard deviation of the error.
    """

    prob: Number
    size: Number

    def __post_init__(self) -> None:
        """Validate prob and size."""
        validation.probability("prob", self.prob)
        validation.positive("size", self.size, needed=True)

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Add errors at random steps."""
        event_key, size_key = jax.random.split(key)
        outlier = _events(event_key, self.prob, measured)
        error = self.size * jax.random.normal(size_key, measured.shape, measured.dtype)
        return measured + jnp.where(outlier[:, None], error, 0.0), outlier


@pytree
class ReplacedMeasurements:
    """A fixed value instead of the measurement at random steps, such as full scale or an error code.

    Args:
        prob: of an outlier at each step.
        value: the replacement.
    """

    prob: Number
    value: Number

    def __post_init__(self) -> None:
        """Validate prob and value."""
        validation.probability("prob", self.prob)
        validation.nonempty("value", self.value)

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Replace measurements at random steps."""
        outlier = _events(key, self.prob, measured)
        return jnp.where(outlier[:, None], self.value, measured), outlier


@pytree
class EachSensor:
    """A process applied to every coordinate independently instead of jointly.

    `EachSensor(ReplacedMeasurements(prob=0.001, value=100.0))` is the contamination of Duran-Martin et al. (2024,
    section 4.3).

    Args:
        process: any outlier process.
        sensors: indices of the coordinates that it affects; default: all.
    """

    process: OutlierProcess
    sensors: tuple[int, ...] | None = static(default=None)

    def __post_init__(self) -> None:
        """Validate the process and convert the sensors to a hashable tuple."""
        check_process("process", self.process)
        if self.sensors is not None:
            object.__setattr__(self, "sensors", validation.groups("sensors", self.sensors))

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Corrupt each coordinate; a step is an outlier if any of its coordinates is."""
        count = measured.shape[1]
        keys = jax.random.split(key, count)
        corrupt_each = jax.vmap(self.process.corrupt, in_axes=(0, 1, 1), out_axes=(1, 1))
        corrupted, outliers = corrupt_each(keys, clean[..., None], measured[..., None])
        corrupted = corrupted[..., 0]
        if self.sensors is None:
            return corrupted, outliers.any(1)
        affected = jnp.zeros(count, bool).at[jnp.asarray(self.sensors)].set(True)
        return jnp.where(affected[None], corrupted, measured), (outliers & affected[None]).any(1)


@pytree
class Stuck:
    """A stuck sensor, which repeats its last value for several steps.

    Args:
        prob: probability that it becomes stuck at a step.
        length: number of stuck steps.
    """

    prob: Number
    length: int = static()

    def __post_init__(self) -> None:
        """Validate prob and length."""
        validation.probability("prob", self.prob)
        validation.count("length", self.length)

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Repeat the last regular value."""
        stuck = _runs(_events(key, self.prob, measured), self.length).at[0].set(False)
        last = jax.lax.cummax(jnp.where(stuck, 0, jnp.arange(len(stuck))))
        return measured[last], stuck


@pytree
class Drift:
    """A sensor drift from some step on.

    Args:
        start: first step of the drift.
        rate: increase of the error per step, in all coordinates.
    """

    start: Number
    rate: Number

    def __post_init__(self) -> None:
        """Validate the parameters."""
        validation.finite("start", self.start)
        validation.finite("rate", self.rate)

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Add a ramp."""
        elapsed = jnp.maximum(jnp.arange(len(measured)) - self.start + 1.0, 0.0).astype(measured.dtype)
        return measured + self.rate * elapsed[:, None], elapsed > 0


@pytree
class Burst:
    """Bursts: one constant error over several consecutive steps.

    Args:
        prob: probability that a burst starts at a step.
        length: number of steps of a burst.
        size: standard deviation of its error.
    """

    prob: Number
    length: int = static()
    size: Number = 10.0

    def __post_init__(self) -> None:
        """Validate prob, length and size."""
        validation.probability("prob", self.prob)
        validation.count("length", self.length)
        validation.positive("size", self.size, needed=True)

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Add a constant error to each burst."""
        event_key, size_key = jax.random.split(key)
        starts = _events(event_key, self.prob, measured)
        active = _runs(starts, self.length)
        errors = self.size * jax.random.normal(size_key, measured.shape, measured.dtype)
        since = jax.lax.cummax(jnp.where(starts, jnp.arange(len(starts)), 0))
        return measured + jnp.where(active[:, None], errors[since], 0.0), active


@pytree
class Missing:
    """Missing values at random: NaN.

    Args:
        prob: probability that a value is missing.
    """

    prob: Number

    def __post_init__(self) -> None:
        """Validate prob."""
        validation.probability("prob", self.prob)

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Replace random values by NaN."""
        missing = jax.random.uniform(key, measured.shape, measured.dtype) < self.prob
        return jnp.where(missing, jnp.nan, measured), jnp.zeros(len(measured), bool)


@pytree
class Gap:
    """A gap without any values: NaN.

    Args:
        start: first step of the gap.
        length: number of steps.
    """

    start: Number
    length: Number

    def __post_init__(self) -> None:
        """Validate the parameters."""
        validation.finite("start", self.start)
        validation.finite("length", self.length)

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Replace the values of the gap by NaN."""
        steps = jnp.arange(len(measured))
        missing = (steps >= self.start) & (steps < self.start + self.length)
        return jnp.where(missing[:, None], jnp.nan, measured), jnp.zeros(len(measured), bool)


@pytree
class Sequence:
    """Several processes, one after the other.

    Args:
        processes: in order; a step is an outlier if any process made it one.
    """

    processes: tuple[OutlierProcess, ...]

    def __post_init__(self) -> None:
        """Validate each process."""
        if not isinstance(self.processes, tuple | list) or not self.processes:
            raise ValueError(
                f"processes must be a tuple of outlier processes; got {validation.short_repr(self.processes)}"
            )
        for process in self.processes:
            check_process("each of processes", process)

    def corrupt(self, key: Array, clean: Array, measured: Array) -> tuple[Array, Array]:
        """Apply the processes in order."""
        outliers = jnp.zeros(len(measured), bool)
        for each, process in zip(jax.random.split(key, len(self.processes)), self.processes, strict=True):
            measured, new = process.corrupt(each, clean, measured)
            outliers = outliers | new
        return measured, outliers


def check_process(name: str, process: object) -> None:
    """Validate an outlier process."""
    if isinstance(process, type) or not isinstance(process, OutlierProcess):
        got = validation.short_repr(process)
        raise ValueError(f"{name} must be a process such as wolf.simulate.StudentT(dof=2.01); got {got}")


def coloured(key: Array, cov: Array) -> Array:
    """Draw normal noise with a given covariance."""
    return linalg.apply_cov_root(cov, jax.random.normal(key, cov.shape[-1:], cov.dtype))


def _events(key: Array, prob: Number, like: Array) -> Array:
    return jax.random.uniform(key, (len(like),), like.dtype) < prob


def _runs(starts: Array, length: int) -> Array:
    """Return a mask of the `length` steps from every start on."""
    total = jnp.cumsum(starts)
    before = jnp.concatenate([jnp.zeros(min(length, len(total)), total.dtype), total[:-length]])[: len(total)]
    return total > before
