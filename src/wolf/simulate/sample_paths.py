"""Simulation of trajectories and measurements from any model, corrupted by any outlier process."""

import dataclasses
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from wolf import validation
from wolf.execution.function_checks import check_functions
from wolf.interfaces import Key
from wolf.numerics import linalg
from wolf.numerics.precision import as_key, precision
from wolf.numerics.pytree import cast
from wolf.simulate.processes import Clean, OutlierProcess, ScaleProcess, check_process, coloured
from wolf.statespace import LinearModel, Model, is_curved, is_model, own_noise


class Simulation(NamedTuple):
    """Simulated states and measurements.

    Attributes:
        states: (T, D).
        measurements: (T, M).
        outliers: (T,) bool, True where the process generated an outlier.
        scales: (T,), scale factor of R of each step; infinite where the measurement has no information.
    """

    states: np.ndarray
    measurements: np.ndarray
    outliers: np.ndarray
    scales: np.ndarray


def trajectory(
    model: Model,
    steps: int,
    key: Key,
    outliers: OutlierProcess | None = None,
    *,
    initial: ArrayLike | None = None,
    inputs: ArrayLike | None = None,
) -> Simulation:
    """Simulate a path of the state and its measurements.

    Args:
        model: any model.
        steps: T.
        key: seed or JAX key.
        outliers: outlier process; default: none.
        initial: state at time 0, (D,); default: drawn from the prior.
        inputs: (T, U), for models that take them.

    Example:
        >>> import wolf
        >>> model = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
        >>> data = trajectory(model, 100, key=0, outliers=wolf.simulate.Mixture(prob=0.05))
        >>> data.states.shape, data.measurements.shape, data.outliers.shape
        ((100, 4), (100, 2), (100,))
    """
    if not is_model(model):
        raise ValueError(
            f"model must be a wolf.LinearModel or wolf.StateSpaceModel; got {validation.short_repr(model)}"
        )
    validation.count("steps", steps)
    validation.key(key, needed=True)
    process = Clean() if outliers is None else outliers
    check_process("outliers", process)
    us = validation.inputs(inputs, steps, model)
    check_functions(model, us)
    start = None if initial is None else validation.number_array("initial", initial)
    if start is not None and (start.shape != (model.state_dim,) or not np.all(np.isfinite(start))):
        raise ValueError(
            f"initial must be finite and have shape ({model.state_dim},); got {validation.short_repr(initial)}"
        )
    with precision("float64"):
        seed = as_key(key)
        drawn = _draw(cast(model, np.float64), cast(process, np.float64), seed, start, us, steps=int(steps))
        return Simulation(*jax.tree.map(np.asarray, drawn))


@partial(jax.jit, static_argnames=("steps",))
def _draw(
    model: Model, process: OutlierProcess, key: Array, start: Array | None, inputs: Array | None, *, steps: int
) -> tuple[Array, ...]:
    first_key, walk_key, corrupt_key = jax.random.split(key, 3)
    if start is None:
        start = _moved(model, model.prior.mean, coloured(first_key, model.prior.cov))

    def body(x: Array, row: tuple) -> tuple[Array, tuple]:
        t, u, step_key = row
        move_key, measure_key = jax.random.split(step_key)
        now = model.at(t)
        draw = own_noise(now)
        if draw is None:
            x = _moved(now, now.transition(u)(x), coloured(move_key, now.dynamics_cov))
        else:
            x = draw(x, move_key)
        clean = now.projection(u)(x)
        root = now.obs_cov if now.obs_cov.ndim == 1 else linalg.cholesky(now.obs_cov).matrix()
        white = jax.random.normal(measure_key, clean.shape, clean.dtype)
        return x, (x, clean, clean + (jnp.sqrt(root) * white if root.ndim == 1 else linalg.matvec(root, white)))

    rows = (jnp.arange(steps), inputs, jax.random.split(walk_key, steps))
    _, (states, clean, measured) = jax.lax.scan(body, jnp.asarray(start), rows)
    measurements, outliers = process.corrupt(corrupt_key, clean, measured)
    if isinstance(process, ScaleProcess):
        scales = process.scales(corrupt_key, clean)
    else:
        scales = jnp.where(outliers, jnp.inf, 1.0)
    return states, measurements, outliers, scales


def _moved(model: Model, x: Array, noise: Array) -> Array:
    """Apply noise to a state: by addition, or by retraction on a manifold."""
    return model.dynamics.retract(x, noise) if is_curved(model) else x + noise  # type: ignore[union-attr]


def with_true_noise(model: LinearModel, data: Simulation) -> tuple[LinearModel, np.ndarray]:
    """Return the model with the true noise covariance of each step; its Kalman filter is an oracle for benchmarks.

    Args:
        model: model of the data, with a constant R.
        data: from `trajectory`.

    Returns:
        A model with time-varying R, and the measurements with NaN where the noise scale is infinite: filter with "KF".

    Example:
        >>> import wolf
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> data = trajectory(model, 100, key=0, outliers=wolf.simulate.StudentT(dof=2.01))
        >>> oracle, ys = with_true_noise(model, data)
        >>> oracle.R.shape, ys.shape
        ((100, 1, 1), (100, 1))
    """
    if not isinstance(model, LinearModel) or model.R.ndim == 3:
        raise ValueError(
            f"model must be a wolf.LinearModel with one R for all steps; got {validation.short_repr(model)}"
        )
    if not isinstance(data, Simulation):
        raise ValueError(f"data must be what wolf.simulate.trajectory returned; got {validation.short_repr(data)}")
    useful = np.isfinite(data.scales)
    scales = np.where(useful, data.scales, 1.0)
    oracle = dataclasses.replace(model, R=scales[:, None, None] * model.R)
    return oracle, np.where(useful[:, None], data.measurements, np.nan)
