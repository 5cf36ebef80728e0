"""Models in continuous time, for measurements at any times: `dx = A x dt + dW`, `y = H x + noise`.

Each step is discretised exactly over its time step (Van Loan 1978), so uneven time stamps are exact too. The prior is
that at the time `start`, by default the first time stamp.
"""

from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.models.discretization import axis_names
from wolf.numerics.dates import date_stamps
from wolf.numerics.pytree import array_module
from wolf.statespace import LinearModel
from wolf.statespace.array_fields import replace


def discretise(drift: ArrayLike, diffusion: ArrayLike, dt: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Integrate a linear stochastic differential equation over a time step.

    Args:
        drift: A, (D, D).
        diffusion: spectral density of the noise, (D, D).
        dt: a time step, or (T,).

    Returns:
        F = exp(A dt) and Q = ∫ exp(A s) diffusion exp(A s)ᵀ ds, with a leading axis for many steps.

    Example:
        >>> F, Q = discretise(np.zeros((1, 1)), np.eye(1), 0.5)
        >>> F.item(), Q.item()
        (1.0, 0.5)
    """
    a, noise = validation.number_array("drift", drift), validation.number_array("diffusion", diffusion)
    steps = validation.finite("dt", dt)
    xp = array_module(a, noise, steps)
    if xp is np:
        from scipy.linalg import expm
    else:
        from jax.scipy.linalg import expm
    size = len(a) if a.ndim else 0
    for name, matrix in (("drift", a), ("diffusion", noise)):
        known = validation.is_traced(matrix) or np.all(np.isfinite(matrix))
        if matrix.shape != (size, size) or not size or not known:
            raise ValueError(
                f"{name} must be finite, and (D, D) like the other one; got {validation.short_repr(matrix)}"
            )
    validation.covariance("diffusion", noise, size)
    if not validation.is_traced(steps) and np.any(steps < 0):
        raise ValueError(f"dt must not be negative; got {validation.short_repr(dt)}")
    steps = steps[..., None, None]
    block = xp.concatenate(
        [xp.concatenate([-a, noise], axis=1), xp.concatenate([np.zeros(a.shape), a.T], axis=1)], axis=0
    )
    exponential = expm(block * steps)
    dynamics = xp.swapaxes(exponential[..., size:, size:], -1, -2)
    cov = dynamics @ exponential[..., :size, size:]
    return dynamics, 0.5 * (cov + xp.swapaxes(cov, -1, -2))


def linear_sde(
    times: object,
    drift: ArrayLike,
    diffusion: ArrayLike,
    H: ArrayLike,
    R: ArrayLike,
    prior: Gaussian,
    start: float | None = None,
) -> LinearModel:
    """Build the model of a linear stochastic differential equation, measured at the given times.

    Args:
        times: of the measurements, (T,), not decreasing.
        drift: A, (D, D).
        diffusion: spectral density of the noise, (D, D), positive semi-definite.
        H: (M, D).
        R: (M, M).
        prior: belief about the state at `start`.
        start: time of the prior; default: the first time stamp.
    """
    mean, cov = validation.prior(prior, np.shape(drift)[-1] if np.ndim(drift) == 2 else 0)
    gaps = time_steps(times, start)
    steps, which = np.unique(gaps, return_inverse=True)  # equal gaps are discretised once
    dynamics, noise = discretise(drift, diffusion, steps)
    model = LinearModel(F=dynamics[which], H=H, Q=noise[which], R=R, mean=mean, cov=cov)
    return model.with_motion(partial(discretise, drift, diffusion))


def wiener_level(
    times: object, var_rate: float, obs_var: float, prior: Gaussian, start: float | None = None
) -> LinearModel:
    """Build a level that follows Brownian motion: `local_level` for uneven times.

    Args:
        times: (T,).
        var_rate: increase of the variance of the level per unit of time.
        obs_var: variance of the noise.
        prior: belief about the level at `start`.
        start: as in `linear_sde`.
    """
    validation.variances(var_rate=var_rate, obs_var=obs_var)
    parts = np.zeros((1, 1)), var_rate * np.eye(1), np.eye(1), obs_var * np.eye(1)
    return replace(linear_sde(times, *parts, prior, start), state_names=("level",))


def wiener_velocity(
    times: object, dims: int, accel_rate: float, obs_var: float, prior: Gaussian, start: float | None = None
) -> LinearModel:
    """Build positions whose velocities follow Brownian motion, in continuous time.

    Args:
        times: (T,).
        dims: number of space dimensions; state (positions, velocities).
        accel_rate: increase of the variance of each velocity per unit of time.
        obs_var: variance of the noise on every measured position.
        prior: belief about the state at `start`.
        start: as in `linear_sde`.
    """
    validation.variances(accel_rate=accel_rate, obs_var=obs_var)
    validation.count("dims", dims)
    drift = np.kron([[0.0, 1.0], [0.0, 0.0]], np.eye(dims))
    diffusion = accel_rate * np.kron([[0.0, 0.0], [0.0, 1.0]], np.eye(dims))
    model = linear_sde(times, drift, diffusion, np.eye(dims, 2 * dims), obs_var * np.eye(dims), prior, start)
    axes = axis_names(dims)
    return replace(model, state_names=tuple(kind + axis for kind in "pv" for axis in axes), obs_names=axes)


def ornstein_uhlenbeck(
    times: object,
    rate: float,
    stationary_var: float,
    obs_var: float,
    prior: Gaussian | None = None,
    start: float | None = None,
) -> LinearModel:
    """Build an Ornstein-Uhlenbeck process: mean reversion to zero, correlation `exp(-rate |t - s|)`.

    Args:
        times: (T,).
        rate: of the mean reversion, per unit of time.
        stationary_var: stationary variance of the process.
        obs_var: variance of the noise.
        prior: belief at `start`; default: the stationary distribution.
        start: as in `linear_sde`.
    """
    validation.variances(stationary_var=stationary_var, obs_var=obs_var)
    validation.positive_number("rate", rate)
    prior = Gaussian(np.zeros(1), stationary_var * np.eye(1)) if prior is None else prior
    diffusion = 2.0 * rate * stationary_var * np.eye(1)
    return linear_sde(times, -rate * np.eye(1), diffusion, np.eye(1), obs_var * np.eye(1), prior, start)


def time_steps(times: object, start: float | None = None) -> np.ndarray:
    """Compute the time step before each measurement from time stamps.

    Args:
        times: numbers or NumPy datetimes (in seconds), not decreasing.
        start: time of the prior; default: the first time stamp.

    Example:
        >>> time_steps([0.0, 1.0, 3.5]).tolist()
        [0.0, 1.0, 2.5]
    """
    stamps = read_times(times)
    if stamps.ndim != 1 or not len(stamps) or not np.all(np.isfinite(stamps)):
        raise ValueError(f"times must be a finite array of shape (T,); got shape {stamps.shape}")
    validation.check_times("times", stamps)
    gaps = np.diff(stamps, prepend=stamps[0] if start is None else validation.number("start", start))
    if np.any(gaps < 0):
        first = int(np.flatnonzero(gaps < 0)[0])
        raise ValueError(f"times must not decrease, and start not after them; they do at row {first}: sort them first")
    return gaps


def read_times(times: object) -> np.ndarray:
    """Convert time stamps to numbers, dates to seconds since the first of them; NaT is NaN."""
    stamps = date_stamps(times)
    if stamps is None or not stamps.ndim or not len(stamps):
        return validation.data_array("times", times)  # type: ignore[no-any-return]
    return (stamps - stamps[0]) / np.timedelta64(1, "s")


def merge_sensors(*readings: tuple[object, ArrayLike]) -> tuple[np.ndarray, np.ndarray]:
    """Merge sensors with different rates on one time axis.

    Args:
        *readings: pairs of time stamps (T_i,) and values (T_i,) or (T_i, M_i), one per sensor.

    Returns:
        All time stamps, sorted, and measurements (T, ΣM_i), NaN where a sensor has no value.

    Example:
        >>> times, ys = merge_sensors(([0.0, 1.0], [5.0, 6.0]), ([0.5, 1.0], [7.0, 8.0]))
        >>> times.tolist(), ys.tolist()
        ([0.0, 0.5, 1.0], [[5.0, nan], [nan, 7.0], [6.0, 8.0]])
    """
    for pair in readings:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ValueError(
                f"readings must be pairs of times and values, one per sensor; got {validation.short_repr(pair)}"
            )
    if not readings:
        raise ValueError("readings must hold at least one pair of times and values; got none")
    stamps = [np.asarray(times) if len(read_times(times).shape) == 1 else np.zeros(0) for times, _ in readings]
    values = [validation.number_array("values", value) for _, value in readings]
    values = [value[:, None] if value.ndim == 1 else value for value in values]
    for i, (stamp, value) in enumerate(zip(stamps, values, strict=True)):
        if not stamp.size or value.ndim != 2 or not value.shape[1]:
            shapes = f"got {stamp.shape} and {value.shape}"
            raise ValueError(f"sensor {i} needs times of shape (T,) and values of shape (T,) or (T, M); {shapes}")
        if len(stamp) != len(value):
            raise ValueError(f"sensor {i} has {len(stamp)} time stamps and {len(value)} values")
        if len(np.unique(stamp)) != len(stamp):
            raise ValueError(f"sensor {i} has two values at one time; pass them as two sensors")
    times = np.unique(np.concatenate(stamps))
    columns = []
    for stamp, value in zip(stamps, values, strict=True):
        column = np.full((len(times), value.shape[1]), np.nan)
        column[np.searchsorted(times, stamp)] = value
        columns.append(column)
    return times, np.concatenate(columns, axis=1)
