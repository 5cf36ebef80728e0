"""Target-tracking models: motion and sensors (Bar-Shalom, Li & Kirubarajan 2001, ch. 6, 10, 11)."""

from collections.abc import Callable
from functools import partial

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.interfaces import Number
from wolf.models.components import straight_motion
from wolf.models.continuous import discretise
from wolf.models.discretization import along_axes, axis_names, diagonal
from wolf.numerics.pytree import pytree
from wolf.statespace import LinearModel, StateSpaceModel

PLANE = ("px", "py", "vx", "vy")  # states of a moving point in the plane
SMALL_TURN_ANGLE = 1e-6  # rad per step; below, a turn is computed by its series, since sin(x)/x is 0/0 at 0


def constant_velocity(
    dims: int, dt: float, dynamics_var: float, obs_var: float, prior: Gaussian | None = None
) -> LinearModel:
    """Build a constant-velocity model with white noise on every state, with the position measured.

    State (positions, velocities), `Q = dynamics_var I`, `R = obs_var I`: for two dimensions, dt 0.1, 0.1 and 10 the
    tracking problem of Duran-Martin et al. (2024, section 4.1).

    Args:
        dims: number of space dimensions.
        dt: time between measurements.
        dynamics_var: variance of the noise on every state.
        obs_var: variance of the noise on every measured position.
        prior: belief about the state at time 0; default: N(0, I).

    Example:
        >>> constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
        LinearModel(4 states, 2 measured)
    """
    validation.positive_number("dt", dt)
    axis = straight_motion(dynamics_var, dt)
    motion = partial(_constant_velocity_motion, dynamics_var, dt)
    return _along_all_axes(dims, dt, (axis.F, axis.Q), motion, obs_var, prior)


def constant_acceleration(
    dims: int, dt: float, jerk_rate: float, obs_var: float, prior: Gaussian | None = None
) -> LinearModel:
    """Build a model whose acceleration follows Brownian motion, with the position measured.

    Args:
        dims: number of space dimensions; state (positions, velocities, accelerations).
        dt: time between measurements.
        jerk_rate: increase of the variance of each acceleration per unit of time.
        obs_var: variance of the noise on every measured position.
        prior: belief about the state at time 0; default: N(0, I).
    """
    validation.variances(jerk_rate=jerk_rate)
    validation.positive_number("dt", dt)
    motion = partial(discretise, np.eye(3, k=1), diagonal([0.0, 0.0, jerk_rate]))
    return _along_all_axes(dims, dt, motion(dt), motion, obs_var, prior)


def singer(
    dims: int, dt: float, maneuver_time: float, accel_var: float, obs_var: float, prior: Gaussian | None = None
) -> LinearModel:
    """Build the Singer model, whose acceleration is autocorrelated (Singer 1970), with the position measured.

    Args:
        dims: number of space dimensions; state (positions, velocities, accelerations).
        dt: time between measurements.
        maneuver_time: time constant of the acceleration.
        accel_var: stationary variance of the acceleration.
        obs_var: variance of the noise on every measured position.
        prior: belief about the state at time 0; default: N(0, I).
    """
    validation.variances(accel_var=accel_var)
    validation.positive_number("dt", dt)
    validation.positive_number("maneuver_time", maneuver_time)
    drift = np.eye(3, k=1) + diagonal([0.0, 0.0, -1.0 / maneuver_time])
    motion = partial(discretise, drift, diagonal([0.0, 0.0, 2.0 * accel_var / maneuver_time]))
    return _along_all_axes(dims, dt, motion(dt), motion, obs_var, prior)


def coordinated_turn(dt: float, speed_var: float, turn_var: float, obs_var: float, prior: Gaussian) -> StateSpaceModel:
    """Build a coordinated turn at an unknown rate; state (px, py, vx, vy, turn rate), position measured.

    Args:
        dt: time between measurements.
        speed_var: variance of the noise on each position and velocity at each step.
        turn_var: variance of the noise on the turn rate at each step.
        obs_var: variance of the noise on each measured position.
        prior: belief about the state at time 0.
    """
    validation.positive_number("dt", dt)
    validation.variances(speed_var=speed_var, turn_var=turn_var, obs_var=obs_var)
    prior = Gaussian(*validation.prior(prior, 5))
    noise = diagonal([speed_var] * 4 + [turn_var])
    return StateSpaceModel(
        Turn(dt),
        position,
        noise,
        obs_var * np.eye(2),
        prior,
        state_names=(*PLANE, "turn_rate"),
        obs_names=("x", "y"),
    )


def range_bearing(
    dt: float,
    dynamics_var: float,
    range_var: float,
    bearing_var: float,
    prior: Gaussian,
    sensor: ArrayLike = (0.0, 0.0),
) -> StateSpaceModel:
    """Build a radar model: constant velocity, measured distance and direction, which wraps around.

    Args:
        dt: time between measurements.
        dynamics_var: variance of the noise on every state (px, py, vx, vy) at each step.
        range_var: variance of the measured distance.
        bearing_var: variance of the measured direction, in rad².
        prior: belief about the state at time 0.
        sensor: position of the radar, (2,).

    Example:
        >>> range_bearing(0.1, 0.1, 1.0, 0.01, Gaussian(np.ones(4), np.eye(4))).obs_dim
        2
    """
    validation.positive_number("dt", dt)
    validation.variances(dynamics_var=dynamics_var)
    for name, value in (("range_var", range_var), ("bearing_var", bearing_var)):
        validation.positive_number(name, value)
    place = validation.finite("sensor", sensor)
    if place.shape != (2,):
        raise ValueError(f"sensor must be a position, of shape (2,); got {place.shape}")
    prior = Gaussian(*validation.prior(prior, 4))
    noise = diagonal([range_var, bearing_var])
    observe = RangeBearing(place)
    return StateSpaceModel(
        ConstantVelocity(dt),
        observe,
        dynamics_var * np.eye(4),
        noise,
        prior,
        residual=wrap_second,
        state_names=PLANE,
        obs_names=("range", "bearing"),
    )


def gps_odometry(
    dt: float, position_var: float, heading_var: float, gps_var: float, prior: Gaussian
) -> StateSpaceModel:
    """Build a vehicle with odometry and GPS; state (x, y, heading), inputs (speed, turn rate), position measured.

    Args:
        dt: time between measurements.
        position_var: variance of the odometry noise on each position per step.
        heading_var: variance of the odometry noise on the heading per step.
        gps_var: variance of each measured position.
        prior: belief about the state at time 0.
    """
    validation.positive_number("dt", dt)
    validation.variances(position_var=position_var, heading_var=heading_var)
    validation.positive_number("gps_var", gps_var)
    prior = Gaussian(*validation.prior(prior, 3))
    noise = diagonal([position_var, position_var, heading_var])
    return StateSpaceModel(
        Unicycle(dt),
        position,
        noise,
        gps_var * np.eye(2),
        prior,
        inputs=2,
        state_names=("px", "py", "heading"),
        obs_names=("x", "y"),
    )


@pytree
class ConstantVelocity:
    """Motion of (px, py, vx, vy) at constant velocity over a time dt."""

    dt: Number

    def __call__(self, x: Array) -> Array:
        """Compute the next state."""
        return jnp.stack([x[0] + self.dt * x[2], x[1] + self.dt * x[3], x[2], x[3]])


@pytree
class Turn:
    """Motion of (px, py, vx, vy, turn rate) along an arc over a time dt."""

    dt: Number

    def __call__(self, x: Array) -> Array:
        """Compute the next state."""
        angle = x[4] * self.dt
        small = jnp.abs(angle) < SMALL_TURN_ANGLE
        safe = jnp.where(small, 1.0, angle)
        along = jnp.where(small, 1.0 - angle**2 / 6.0, jnp.sin(safe) / safe) * self.dt
        across = jnp.where(small, 0.5 * angle, (1.0 - jnp.cos(safe)) / safe) * self.dt
        cosine, sine = jnp.cos(angle), jnp.sin(angle)
        return jnp.stack(
            [
                x[0] + along * x[2] - across * x[3],
                x[1] + across * x[2] + along * x[3],
                cosine * x[2] - sine * x[3],
                sine * x[2] + cosine * x[3],
                x[4],
            ]
        )


@pytree
class Unicycle:
    """Motion of (x, y, heading) by odometry u = (speed, turn rate) over a time dt."""

    dt: Number

    def __call__(self, x: Array, u: Array) -> Array:
        """Compute the next state, with the heading at the middle of the step."""
        heading = x[2] + 0.5 * self.dt * u[1]
        step = self.dt * u[0]
        return jnp.stack([x[0] + step * jnp.cos(heading), x[1] + step * jnp.sin(heading), x[2] + self.dt * u[1]])


@pytree
class RangeBearing:
    """Distance and direction of (px, py, ...) from a sensor."""

    sensor: np.ndarray

    def __call__(self, x: Array) -> Array:
        """Compute distance and direction."""
        east, north = x[0] - self.sensor[0], x[1] - self.sensor[1]
        return jnp.stack([jnp.sqrt(east**2 + north**2), jnp.arctan2(north, east)])


def position(x: Array) -> Array:
    """Return the first two states."""
    return x[:2]


def wrap_second(y: Array, prediction: Array) -> Array:
    """Compute the residual of (distance, direction), with the direction in [-π, π)."""
    difference = y - prediction
    return jnp.stack([difference[0], jnp.mod(difference[1] + jnp.pi, 2 * jnp.pi) - jnp.pi])


def _constant_velocity_motion(dynamics_var: float, dt: float, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute F and Q along one axis over time steps, with noise per step of `dt`."""
    axis = straight_motion(dynamics_var, dt)
    return axis.dynamics(times / dt), dynamics_var * axis.noise["dynamics_var"](times / dt)


def _along_all_axes(
    dims: int,
    dt: float,
    step: tuple[np.ndarray, np.ndarray],
    motion: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    obs_var: float,
    prior: Gaussian | None,
) -> LinearModel:
    """Extend the motion along one axis, over a step and over any time, to every axis, positions first."""
    validation.count("dims", dims)
    validation.positive_number("dt", dt)
    validation.variances(obs_var=obs_var)
    axes = np.eye(dims)
    size = len(step[0]) * dims
    prior = Gaussian(np.zeros(size), np.eye(size)) if prior is None else Gaussian(*validation.prior(prior, size))
    dynamics, noise = (along_axes(each, dims) for each in step)
    measured = axis_names(dims)
    named = [kind + axis for kind in "pva"[: len(step[0])] for axis in measured]  # px, py, vx, vy
    model = LinearModel(
        dynamics, np.eye(dims, size), noise, obs_var * axes, *prior, state_names=named, obs_names=measured
    )
    return model.with_motion(partial(_motion_along_all_axes, motion, dims), dt)


def _motion_along_all_axes(motion: Callable, dims: int, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    one, two = (along_axes(each, dims) for each in motion(times))
    return one, two
