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

from wolf.beliefs import Gaussian
from wolf.engine import scan
from wolf.engine.smoother import run_smoother
from wolf.inference.filters.gaussian import GaussianFilter, GaussianState
from wolf.interfaces import StepInfo
from wolf.numerics import linalg
from wolf.statespace import Model

WIDE = 1e6  # factor on a covariance that makes the past say nothing
BATCH = 32  # windows that run together
SHORTEST = 32  # steps of a window; longer ones have twice as many, and so on


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

    def one(self, i: int) -> "Window":
        """Take one of several."""
        state = Gaussian(self.state.mean[i], self.state.cov[i])
        return Window(state, self.expected[i], self.spread[i], self.noise[i], self.nis[i])


def smooth_windows(
    model: Model,
    linearization: Any,
    inputs: np.ndarray | None,
    update_first: bool,
    starts: np.ndarray,
    beliefs: Gaussian,
    ys: np.ndarray,
) -> Window:
    """Smooth many windows of one length.

    Args:
        model: cast to the dtype of the run.
        linearization: of the filter.
        inputs: (T, U).
        update_first: as in the run.
        starts: their first steps, (n,).
        beliefs: about the states at these steps, before the measurements, n of them.
        ys: what to use, (n, W, M); NaN where nothing.
    """
    found = []
    for first in range(0, len(starts), BATCH):
        rows = np.resize(np.arange(first, min(first + BATCH, len(starts))), BATCH)  # repeats fill up to one shape
        some = Gaussian(beliefs.mean[rows], beliefs.cov[rows])
        found.append(
            _smooth_each(model, linearization, inputs, starts[rows], some, ys[rows], update_first=update_first)
        )
    whole = jax.tree.map(lambda *leaves: np.concatenate([np.asarray(leaf) for leaf in leaves]), *found)
    return jax.tree.map(lambda leaf: leaf[: len(starts)], whole)


@partial(jax.jit, static_argnames=("update_first",))
def _smooth_each(
    model: Model, linearization: Any, inputs: Any, starts: Array, beliefs: Gaussian, ys: Array, *, update_first: bool
) -> Window:
    one = partial(_smooth_one, model, linearization, inputs, update_first)
    return jax.vmap(one)(starts, beliefs, ys)


def _smooth_one(
    model: Model, linearization: Any, inputs: Any, update_first: bool, start: Array, belief: Gaussian, ys: Array
) -> Window:
    plain = GaussianFilter(linearization=linearization)
    times = start + jnp.arange(len(ys))
    us = None if inputs is None else jnp.asarray(inputs)[jnp.minimum(times, len(inputs) - 1)]
    u, later = (None, None) if us is None else (us[0], us[1:])
    # The belief that a window starts with is the prediction of its first step.
    state, info = scan.update(model, plain, GaussianState(belief, start), ys[0], u)
    first = _save_window(state, info)
    _, rest = scan.run_filter(
        model, plain, ys[1:], later, state=state, u_before=u, save=_save_window, update_first=update_first
    )
    predicted, filtered, nis = jax.tree.map(lambda one, more: jnp.concatenate([one[None], more]), first, rest)
    smoothed = run_smoother(model, linearization, filtered, predicted, us, None, start, update_first=update_first)

    def view(t: Array, mean: Array, cov: Array, u: Any) -> tuple[Array, Array, Array]:
        now = model.at(t)
        seen = linearization(now.projection(u), Gaussian(mean, cov)).with_jac()
        spread = linalg.sandwich(seen.jac, cov)
        spread = spread if seen.root is None else spread + linalg.gram(seen.root)
        return seen.mean, spread, jnp.asarray(now.obs_cov_at(mean, u))

    expected, spread, noise = jax.vmap(view)(times, smoothed.mean, smoothed.cov, us)
    return Window(Gaussian(smoothed.mean[0], smoothed.cov[0]), expected, spread, noise, nis)


def _save_window(state: GaussianState, info: StepInfo) -> tuple:
    return info.predicted, state.belief, info.nis
