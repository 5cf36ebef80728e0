"""Attitude from gyroscope, accelerometer and magnetometer, with the gyroscope's bias: an error-state quaternion filter.

The state is (rotation, bias). The rotation maps body axes to world axes and is represented by its rotation vector, axis
times angle, of at most π; compositions use unit quaternions, so there is no singularity. The error state is a small
rotation δ in body axes, q ⊗ exp(δ), and the bias: six numbers, whose covariance the filter carries (Lefferts, Markley &
Shuster 1982; Solà 2017). `wolf.filters.ErrorState` is the filter.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.interfaces import Number
from wolf.models.discretization import diagonal
from wolf.numerics.pytree import pytree
from wolf.statespace import StateSpaceModel

SMALL_ANGLE = 1e-4  # rad; below, sin(x/2)/x and its inverse are computed by series whose next term is below 1e-17
GRAVITY = (0.0, 0.0, 9.81)  # measurement of an accelerometer at rest in world axes with z up, m/s²


def attitude(
    dt: float,
    gyro_var: float,
    bias_var: float,
    accel_var: float,
    mag_var: float,
    field: ArrayLike,
    prior: Gaussian,
    gravity: ArrayLike = GRAVITY,
) -> StateSpaceModel:
    """Build an attitude model; state (rotation vector, gyroscope bias), inputs the gyroscope's turn rates.

    A measurement is (accelerometer, magnetometer), both in body axes, 6 numbers. Accelerations of the body and magnetic
    disturbances are outliers: `wolf.Learned(sensors=(0, 0, 0, 1, 1, 1))` treats the two sensors separately.

    Args:
        dt: time between measurements, s.
        gyro_var: variance of each measured turn rate, (rad/s)².
        bias_var: increase of the variance of each bias per step, (rad/s)².
        accel_var: variance of each coordinate of the accelerometer, in the unit of `gravity`, squared.
        mag_var: variance of each coordinate of the magnetometer, in the unit of `field`, squared.
        field: magnetic field in world axes, (3,), not parallel to gravity.
        prior: mean: rotation vector and bias at time 0, (6,); covariance: of the error in body axes and of the bias.
        gravity: measurement of the accelerometer at rest, in world axes, (3,).

    Example:
        >>> prior = Gaussian(np.zeros(6), np.diag([1.0] * 3 + [1e-4] * 3))
        >>> attitude(0.01, 1e-4, 1e-10, 0.01, 1e-3, field=(0.4, 0.0, -0.9), prior=prior).obs_dim
        6
    """
    validation.positive_number("dt", dt)
    validation.variances(gyro_var=gyro_var, bias_var=bias_var)
    for name, value in (("accel_var", accel_var), ("mag_var", mag_var)):
        validation.positive_number(name, value)
    references = {"gravity": validation.finite("gravity", gravity), "field": validation.finite("field", field)}
    for name, value in references.items():
        if value.shape != (3,) or not (validation.is_traced(value) or np.any(value)):
            raise ValueError(f"{name} must be a vector in world axes, of shape (3,) and not zero; got {value!r}")
    if not validation.is_traced(*references.values()) and not np.any(np.cross(*references.values())):
        raise ValueError("field must not be parallel to gravity: a rotation around both would not be observable")
    prior = Gaussian(*validation.prior(prior, 6))
    noise, obs_cov = diagonal([gyro_var * dt**2] * 3 + [bias_var] * 3), diagonal([accel_var] * 3 + [mag_var] * 3)
    return StateSpaceModel(GyroDynamics(dt), ReferenceVectors(**references), noise, obs_cov, prior, inputs=3)


@pytree
class GyroDynamics:
    """Integration of the turn rates u of a gyroscope over a time dt; state (rotation vector, bias)."""

    dt: Number

    def __call__(self, x: Array, u: Array) -> Array:
        """Compute q ⊗ exp((u - bias) dt) and the unchanged bias."""
        return jnp.concatenate([compose(x[:3], (u - x[3:]) * self.dt), x[3:]])

    def retract(self, x: Array, step: Array) -> Array:
        """Apply an error in body axes to the state x."""
        return jnp.concatenate([compose(x[:3], step[:3]), x[3:] + step[3:]])

    def between(self, x: Array, other: Array) -> Array:
        """Compute the error, in body axes, from x to another state."""
        return jnp.concatenate([compose(-x[:3], other[:3]), other[3:] - x[3:]])


@pytree
class ReferenceVectors:
    """Gravity and the magnetic field in body axes."""

    gravity: ArrayLike
    field: ArrayLike

    def __call__(self, x: Array) -> Array:
        """Rotate both from world axes to body axes."""
        inverse = quaternion(-x[:3])
        return jnp.concatenate([rotate(inverse, jnp.asarray(each, x.dtype)) for each in (self.gravity, self.field)])


def quaternion(vector: Array) -> Array:
    """Convert a rotation vector φ (3,) to a unit quaternion (cos |φ|/2, sin(|φ|/2) φ/|φ|), scalar first."""
    square = jnp.sum(vector**2)
    small = square < SMALL_ANGLE**2
    angle = jnp.sqrt(jnp.where(small, 1.0, square))
    cosine = jnp.where(small, 1.0 - square / 8.0, jnp.cos(0.5 * angle))
    ratio = jnp.where(small, 0.5 - square / 48.0, jnp.sin(0.5 * angle) / angle)
    return jnp.concatenate([cosine[None], ratio * vector])


def rotation_vector(q: Array) -> Array:
    """Convert a quaternion (4,) of any norm, scalar first, to a rotation vector of at most π."""
    q = jnp.where(q[0] < 0, -q, q)  # both are the same rotation; this one has the smaller angle
    square = jnp.sum(q[1:] ** 2)
    small = square < (0.5 * SMALL_ANGLE) ** 2
    sine = jnp.sqrt(jnp.where(small, 1.0, square))
    # φ = 2 atan2(|v|, w) v / |v|, by its series in |v| / w near zero
    cosine = jnp.where(small, q[0], 1.0)
    ratio = jnp.where(small, 2.0 / cosine * (1.0 - square / (3.0 * cosine**2)), 2.0 * jnp.arctan2(sine, q[0]) / sine)
    return ratio * q[1:]


def multiply(p: Array, q: Array) -> Array:
    """Multiply two quaternions, scalar first."""
    scalar = p[0] * q[0] - jnp.sum(p[1:] * q[1:])
    return jnp.concatenate([scalar[None], p[0] * q[1:] + q[0] * p[1:] + jnp.cross(p[1:], q[1:])])


def rotate(q: Array, vector: Array) -> Array:
    """Rotate a vector by a unit quaternion: v + 2 w (u × v) + 2 u × (u × v)."""
    across = 2.0 * jnp.cross(q[1:], vector)
    return vector + q[0] * across + jnp.cross(q[1:], across)


def compose(first: Array, second: Array) -> Array:
    """Compute the rotation vector of exp(first) ⊗ exp(second)."""
    return rotation_vector(multiply(quaternion(first), quaternion(second)))


def quaternions(means: ArrayLike) -> np.ndarray:
    """Convert the means of an attitude filter to unit quaternions, scalar last, as for SciPy's `Rotation.from_quat`.

    Args:
        means: (..., 6), or rotation vectors (..., 3).

    Returns:
        (..., 4).

    Example:
        >>> quaternions([0.0, 0.0, np.pi, 0.0, 0.0, 0.0]).round(6).tolist()
        [0.0, 0.0, 1.0, 0.0]
    """
    vectors = validation.number_array("means", means)
    if not vectors.ndim or vectors.shape[-1] not in (3, 6):
        raise ValueError(f"means must have shape (..., 6), of wolf.models.attitude, or (..., 3); got {vectors.shape}")
    half = 0.5 * vectors[..., :3]
    angle = np.linalg.norm(half, axis=-1, keepdims=True)
    return np.concatenate([half * np.sinc(angle / np.pi), np.cos(angle)], axis=-1)
