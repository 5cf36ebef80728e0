"""Simulated trials of a filter on the user's model, in one compiled function for all simulations.

Clean data, a state that jumped before the first step, and any share of gross outliers differ only in array values, so
the function is compiled once. States and measurements are drawn while the filter runs, with the same keys in every
simulation (common random numbers).
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.engine import scan
from wolf.interfaces import Filter, Number
from wolf.numerics import linalg
from wolf.numerics.pytree import PyTree
from wolf.statespace import Model, own_noise

GROSS_ERROR_SIZES = (
    10.0,
    1000.0,
)  # range of sizes of gross outliers, in standard deviations of the predicted measurement


class ErrorUnits(NamedTuple):
    """Units of errors.

    Attributes:
        innovation_root: lower root of S, (M, M); the unit of gross outliers.
        posterior_root: lower root of the steady-state posterior covariance of the unweighted filter, (D, D).
    """

    innovation_root: PyTree
    posterior_root: PyTree


class Trials(NamedTuple):
    """Results of simulated trials.

    Attributes:
        states: states of the filter after the last step, with a leading trial axis.
        truths: true states, (B, D).
        distances: squared error of the mean at each step in the metric of `ErrorUnits`, (B, T).
        alarms: share of the coordinates that were flagged as outliers at each step, (B, T).
        covs: covariances after the last step, (B, D, D).
    """

    states: PyTree
    truths: PyTree
    distances: np.ndarray
    alarms: np.ndarray
    covs: np.ndarray


def start_trials(model: Model, method: Filter, count: int) -> tuple[PyTree, Array]:
    """Initialise trials at the prior and the truth at its mean; only the steady state matters, not the transient."""
    state = method.init(model, None)
    states = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *jnp.shape(leaf))), state)
    return states, jnp.broadcast_to(jnp.asarray(model.prior.mean), (count, model.state_dim))


def run_trials(
    model: Model,
    method: Filter,
    scale: ErrorUnits,
    states: PyTree,
    truths: PyTree,
    keys: Array,
    share: Number,
    steps: int,
) -> Trials:
    """Continue trials for a number of steps.

    Args:
        model: model without inputs and time axes.
        method: a Gaussian filter.
        scale: units of errors.
        states: states of the filter, with a leading trial axis.
        truths: true states, (B, D).
        keys: one random key per trial.
        share: shares of gross outliers, (B,).
        steps: number of steps T.
    """
    return Trials(
        *jax.tree.map(np.asarray, _run_trials(model, method, scale, states, truths, keys, share, steps=steps))
    )


@partial(jax.jit, static_argnames=("steps",))
def _run_trials(
    model: Model,
    method: Filter,
    scale: ErrorUnits,
    states: PyTree,
    truths: Array,
    keys: Array,
    share: Array,
    *,
    steps: int,
) -> tuple:
    roots = [linalg.psd_root(jnp.asarray(cov)) for cov in (model.dynamics_cov, model.obs_cov)]

    def run_one(state: PyTree, truth: Array, key: Array, share: Array) -> tuple:
        def body(carry: tuple, step_key: Array) -> tuple:
            state, x = carry
            x, y = _draw(model, (*roots, scale.innovation_root), x, step_key, share)
            state, info = scan.step(model, method, state, y)
            error = linalg.from_lower(scale.posterior_root).half(state.mean - x)
            return (state, x), (linalg.sum_leading(error**2), jnp.mean(info.outlier))

        saved: tuple
        (state, x), saved = jax.lax.scan(body, (state, truth), jax.random.split(key, steps))
        return state, x, *saved, state.cov

    return jax.vmap(run_one)(states, truths, keys, share)


def _draw(model: Model, roots: tuple[Array, ...], x: Array, key: Array, share: Array) -> tuple[Array, Array]:
    """Advance the true state by one step and draw its measurement, with probability `share` with a gross error."""
    white_key, event_key, own_key = jax.random.split(key, 3)
    size, measured = len(x), model.obs_dim
    white = jax.random.normal(white_key, (size + 2 * measured,), x.dtype)
    event, length = jax.random.uniform(event_key, (2,), x.dtype)
    draw = own_noise(model)
    x = model.transition(None)(x) + linalg.matvec(roots[0], white[:size]) if draw is None else draw(x, own_key)
    y = model.projection(None)(x) + linalg.matvec(roots[1], white[size : size + measured])
    direction = white[size + measured :] / jnp.sqrt(linalg.sum_leading(white[size + measured :] ** 2))
    low, high = np.log(GROSS_ERROR_SIZES)
    gross = jnp.where(event < share, jnp.exp(low + (high - low) * length), 0.0)
    return x, y + gross * linalg.matvec(roots[2], direction)
