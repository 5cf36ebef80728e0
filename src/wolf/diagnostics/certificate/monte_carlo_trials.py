"""Many simulated trials of a filter on the user's own model, in one compiled call that serves every question.

Clean data, a state that jumped before the first step, and any share of gross outliers differ only in numbers, so the
program is compiled once. States and measurements are drawn while the filter runs, from the same keys for every
question: what is compared saw the same noise.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.engine import scan
from wolf.numerics import linalg
from wolf.statespace import Model, own_noise

GROSS = (10.0, 1000.0)  # sizes of gross outliers, in standard deviations of the predicted measurement


class Scale(NamedTuple):
    """What errors are measured in.

    Attributes:
        innovation_root: lower root of S, (M, M); sets the size of gross outliers.
        posterior_root: lower root of the steady posterior covariance of the unweighted filter, (D, D).
    """

    innovation_root: Any
    posterior_root: Any


class Trials(NamedTuple):
    """What many trials came to.

    Attributes:
        states: of the filter, after the last step, with a leading trial axis.
        truths: (B, D).
        distances: squared error of the mean at each step in the metric of `Scale`, (B, T).
        alarms: share of the coordinates that were called outliers at each step, (B, T).
        covs: after the last step, (B, D, D).
    """

    states: Any
    truths: Any
    distances: np.ndarray
    alarms: np.ndarray
    covs: np.ndarray


def start_trials(model: Model, method: Any, count: int) -> tuple[Any, Array]:
    """Start trials at the prior, and the truth at its mean: a steady state is sought, not how a filter gets there."""
    state = method.init(model, None)
    states = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *jnp.shape(leaf))), state)
    return states, jnp.broadcast_to(jnp.asarray(model.prior.mean), (count, model.state_dim))


def run_trials(
    model: Model, method: Any, scale: Scale, states: Any, truths: Any, keys: Array, share: Any, steps: int
) -> Trials:
    """Go on with trials.

    Args:
        model: without inputs and time axes.
        method: a Gaussian filter.
        scale: what errors are measured in.
        states: of the filter, with a leading trial axis.
        truths: true states, (B, D).
        keys: one for each trial.
        share: of gross outliers, (B,).
        steps: T.
    """
    return Trials(
        *jax.tree.map(np.asarray, _run_trials(model, method, scale, states, truths, keys, share, steps=steps))
    )


@partial(jax.jit, static_argnames=("steps",))
def _run_trials(
    model: Model, method: Any, scale: Scale, states: Any, truths: Array, keys: Array, share: Array, *, steps: int
) -> tuple:
    roots = [linalg.psd_root(jnp.asarray(cov)) for cov in (model.dynamics_cov, model.obs_cov)]

    def one(state: Any, truth: Array, key: Array, share: Array) -> tuple:
        def body(carry: tuple, step_key: Array) -> tuple:
            state, x = carry
            x, y = _draw(model, (*roots, scale.innovation_root), x, step_key, share)
            state, info = scan.step(model, method, state, y)
            error = linalg.from_lower(scale.posterior_root).half(state.mean - x)
            return (state, x), (linalg.sum_leading(error**2), jnp.mean(info.outlier))

        saved: tuple
        (state, x), saved = jax.lax.scan(body, (state, truth), jax.random.split(key, steps))
        return state, x, *saved, state.cov

    return jax.vmap(one)(states, truths, keys, share)


def _draw(model: Model, roots: tuple[Array, ...], x: Array, key: Array, share: Array) -> tuple[Array, Array]:
    """Move the truth one step, and measure it; now and then with a gross error in a random direction."""
    white_key, event_key, own_key = jax.random.split(key, 3)
    size, measured = len(x), model.obs_dim
    white = jax.random.normal(white_key, (size + 2 * measured,), x.dtype)
    event, length = jax.random.uniform(event_key, (2,), x.dtype)
    draw = own_noise(model)
    x = model.transition(None)(x) + linalg.matvec(roots[0], white[:size]) if draw is None else draw(x, own_key)
    y = model.projection(None)(x) + linalg.matvec(roots[1], white[size : size + measured])
    way = white[size + measured :] / jnp.sqrt(linalg.sum_leading(white[size + measured :] ** 2))
    low, high = np.log(GROSS)
    gross = jnp.where(event < share, jnp.exp(low + (high - low) * length), 0.0)
    return x, y + gross * linalg.matvec(roots[2], way)
