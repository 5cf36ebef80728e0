"""Data with a known truth: trajectories from any model, and ways in which sensors lie.

An outlier process is a small value with `corrupt(key, projection, noise_root) -> (measurement, is_outlier)`, called
once for each step. Randomness comes only from `key`.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import checks, linalg
from wolf.model import Model
from wolf.pytree import cast, pytree


class Simulated(NamedTuple):
    """Truth and data.

    Attributes:
        states: (T, D).
        measurements: (T, M).
        outliers: (T,) bool, True where the process meant an outlier.
    """

    states: np.ndarray
    measurements: np.ndarray
    outliers: np.ndarray


@pytree
class Gaussian:
    """Add the model's own noise: no outliers."""

    def corrupt(self, key: Array, projection: Array, noise_root: Array) -> tuple[Array, Array]:
        """Add N(0, R)."""
        return projection + _noise(key, noise_root), jnp.zeros((), bool)


@pytree
class StudentT:
    """Divide the noise by one random scale: y ~ Student-t with location Hx, scale R and `dof` degrees of freedom.

    A step is marked as an outlier when its noise is more than three times as wide as the model says.

    Args:
        dof: degrees of freedom; 2.01 in Duran-Martin et al. (2024).
    """

    dof: Any

    def __post_init__(self) -> None:
        """Check dof."""
        checks.positive("dof", self.dof)

    def corrupt(self, key: Array, projection: Array, noise_root: Array) -> tuple[Array, Array]:
        """Add heavy-tailed noise."""
        scale_key, noise_key = jax.random.split(key)
        precision = jax.random.gamma(scale_key, 0.5 * self.dof, dtype=projection.dtype) / (0.5 * self.dof)
        return projection + _noise(noise_key, noise_root) / jnp.sqrt(precision), precision < 1 / 9


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
        """Check prob."""
        if not isinstance(self.prob, jax.core.Tracer) and not 0 <= self.prob <= 1:
            raise ValueError(f"prob must be between 0 and 1; got {self.prob!r}")

    def corrupt(self, key: Array, projection: Array, noise_root: Array) -> tuple[Array, Array]:
        """Add noise to a mean that may be wrong."""
        event_key, noise_key = jax.random.split(key)
        outlier = jax.random.uniform(event_key, dtype=projection.dtype) < self.prob
        return jnp.where(outlier, self.factor, 1.0) * projection + _noise(noise_key, noise_root), outlier


def trajectory(
    model: Model, steps: int, key: Any, outliers: Any = None, *, initial: Any = None, inputs: Any = None
) -> Simulated:
    """Draw a path of the state and its measurements.

    Args:
        model: any.
        steps: T.
        key: seed or JAX key.
        outliers: an outlier process; the model's Gaussian noise without one.
        initial: state at time 0, (D,); drawn from the prior without one.
        inputs: (T, U), for models that take them.

    Example:
        >>> import wolf
        >>> model = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
        >>> data = trajectory(model, 100, key=0, outliers=Mixture(prob=0.05))
        >>> data.states.shape, data.measurements.shape, data.outliers.shape
        ((100, 4), (100, 2), (100,))
    """
    if not isinstance(steps, int | np.integer) or steps < 1:
        raise ValueError(f"steps must be a whole number of at least 1; got {steps!r}")
    process = Gaussian() if outliers is None else outliers
    if not hasattr(process, "corrupt"):
        raise ValueError(f"outliers must be a process such as wolf.simulate.StudentT(dof=2.01); got {outliers!r}")
    with jax.enable_x64(True):
        seed = jax.random.key(key) if isinstance(key, int | np.integer) else key
        start = None if initial is None else np.asarray(initial, np.float64)
        us = None if inputs is None else np.asarray(inputs, np.float64)
        drawn = _draw(cast(model, np.float64), cast(process, np.float64), seed, start, us, steps=int(steps))
        return Simulated(*jax.tree.map(np.asarray, drawn))


@partial(jax.jit, static_argnames=("steps",))
def _draw(model: Model, process: Any, key: Array, start: Any, inputs: Any, *, steps: int) -> tuple[Array, Array, Array]:
    first_key, walk_key = jax.random.split(key)
    if start is None:
        start = model.prior.mean + _noise(first_key, linalg.psd_root(model.prior.cov))

    def body(x: Array, row: tuple) -> tuple[Array, tuple]:
        t, u, step_key = row
        move_key, measure_key = jax.random.split(step_key)
        now = model.at(t)
        x = now.transition(u)(x) + _noise(move_key, linalg.psd_root(now.dynamics_cov))
        y, outlier = process.corrupt(measure_key, now.projection(u)(x), linalg.cholesky(now.obs_cov).matrix())
        return x, (x, y, outlier)

    rows = (jnp.arange(steps), inputs, jax.random.split(walk_key, steps))
    return jax.lax.scan(body, jnp.asarray(start), rows)[1]


def _noise(key: Array, root: Array) -> Array:
    return linalg.matvec(root, jax.random.normal(key, (root.shape[1],), root.dtype))
