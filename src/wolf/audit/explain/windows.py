"""Smooth a stretch of a series again, without the measurements in question: what do those before and after it say?

Each window starts where a stretch of doubtful measurements does. A filter without weights goes through it from a given
belief, what is doubtful left out, and a smoother comes back. From the filter's own prediction the result holds what
both sides say; from that prediction widened a millionfold, what only the later measurements say.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.belief import Gaussian
from wolf.engine import run
from wolf.engine.smoothing import run_smoother
from wolf.filters.gaussian import GaussianFilter, GaussianState
from wolf.numerics import linalg
from wolf.protocols import Info
from wolf.statespace import Model

WIDE = 1e6  # factor on a covariance that makes the past say nothing
BATCH = 32  # windows that run together
SHORTEST = 32  # steps of a window


class Window(NamedTuple):
    """What a window says, stacked over its steps; several have a leading axis.

    Attributes:
        state: smoothed mean and covariance at the first step.
        expected: measurements that it predicts, (W, M).
        spread: covariance of that prediction, without the noise, (W, M, M).
        noise: R, (W, M, M).
        nis: normalised squared innovations of what was used, (W,).
    """

    state: Gaussian
    expected: Array
    spread: Array
    noise: Array
    nis: Array


class Task(NamedTuple):
    """A window to smooth.

    Attributes:
        start: its first step.
        belief: about the state at that step, before the measurement.
        ys: what to use, (W, M); NaN where nothing.
    """

    start: int
    belief: Gaussian
    ys: np.ndarray


def smooth_windows(
    model: Model, moments: Any, inputs: np.ndarray | None, update_first: bool, tasks: list[Task]
) -> list[Window]:
    """Smooth many windows, those of similar lengths together.

    Args:
        model: cast to the dtype of the run.
        moments: of the filter.
        inputs: (T, U).
        update_first: as in the run.
        tasks: windows.
    """
    found: list[Any] = [None] * len(tasks)
    sizes = [max(SHORTEST, 1 << (len(task.ys) - 1).bit_length()) for task in tasks]
    for size in sorted(set(sizes)):
        members = [i for i, one in enumerate(sizes) if one == size]
        for first in range(0, len(members), BATCH):
            chosen = members[first : first + BATCH]
            rows = [tasks[i] for i in np.resize(chosen, BATCH)]  # repeats fill up to one shape
            starts = np.array([row.start for row in rows])
            beliefs = Gaussian(*(np.stack([row.belief[k] for row in rows]) for k in range(2)))
            ys = np.stack([np.pad(row.ys, ((0, size - len(row.ys)), (0, 0)), constant_values=np.nan) for row in rows])
            windows = _smooth_each(model, moments, inputs, starts, beliefs, ys, update_first=update_first)
            host = jax.tree.map(np.asarray, windows)
            for k, i in enumerate(chosen):
                found[i] = jax.tree.map(lambda leaf, k=k: leaf[k], host)
    return found


@partial(jax.jit, static_argnames=("update_first",))
def _smooth_each(
    model: Model, moments: Any, inputs: Any, starts: Array, beliefs: Gaussian, ys: Array, *, update_first: bool
) -> Window:
    one = partial(_smooth_one, model, moments, inputs, update_first)
    return jax.vmap(one)(starts, beliefs, ys)


def _smooth_one(
    model: Model, moments: Any, inputs: Any, update_first: bool, start: Array, belief: Gaussian, ys: Array
) -> Window:
    plain = GaussianFilter(moments=moments)
    times = start + jnp.arange(len(ys))
    us = None if inputs is None else jnp.asarray(inputs)[jnp.minimum(times, len(inputs) - 1)]
    u, later = (None, None) if us is None else (us[0], us[1:])
    # The belief that a window starts with is the prediction of its first step.
    state, info = run.update(model, plain, GaussianState(belief, start), ys[0], u)
    first = _save_window(state, info)
    _, rest = run.run_filter(
        model, plain, ys[1:], later, state=state, u_before=u, save=_save_window, update_first=update_first
    )
    predicted, filtered, nis = jax.tree.map(lambda one, more: jnp.concatenate([one[None], more]), first, rest)
    smoothed = run_smoother(model, moments, filtered, predicted, us, None, start, update_first=update_first)

    def view(t: Array, mean: Array, cov: Array, u: Any) -> tuple[Array, Array, Array]:
        now = model.at(t)
        seen = moments(now.projection(u), Gaussian(mean, cov)).with_jac()
        spread = linalg.sandwich(seen.jac, cov)
        spread = spread if seen.root is None else spread + linalg.gram(seen.root)
        return seen.mean, spread, jnp.asarray(now.obs_cov_at(mean, u))

    expected, spread, noise = jax.vmap(view)(times, smoothed.mean, smoothed.cov, us)
    return Window(Gaussian(smoothed.mean[0], smoothed.cov[0]), expected, spread, noise, nis)


def _save_window(state: GaussianState, info: Info) -> tuple:
    return info.predicted, state.belief, info.nis
