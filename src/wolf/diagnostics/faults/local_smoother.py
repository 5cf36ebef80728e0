"""Local smoother: smooth a window of a series without the measurements in question.

Each window starts at the first step of an interval of rejected measurements. A filter without weights runs through it
from wolf.interfaces import Linearization
from wolf.numerics.pytree import PyTree
from a given belief, with the questionable measurements left out, followed by a smoother. Started at the filter's own
prediction, the result combines past and future; started at that prediction with a covariance inflated by 1e6, it
depends on the later measurements only.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.beliefs import Gaussian
from wolf.engine import scan
from wolf.engine.smoother import run_smoother
from wolf.inference.filters.gaussian import GaussianFilter, GaussianState
from wolf.interfaces import Linearization, StepInfo
from wolf.numerics import linalg
from wolf.numerics.pytree import PyTree
from wolf.statespace import Model

COVARIANCE_INFLATION = 1e6  # factor on a covariance that removes the information of the past
WINDOWS_PER_BATCH = 32  # windows smoothed in one batch
MIN_WINDOW_STEPS = 32  # steps of the shortest window; longer ones have twice as many, and so on


class SmoothedWindow(NamedTuple):
    """Smoothed moments of a window, stacked over its steps; several windows have a leading axis.

    Attributes:
        state: smoothed mean and covariance at the first step.
        expected: predicted measurements, (W, M).
        prediction_cov: covariance of that prediction, without the noise, (W, M, M).
        noise: measurement noise covariance R, (W, M, M).
        nis: normalised innovations squared of the measurements used, (W,).
    """

    state: Gaussian
    expected: Array
    prediction_cov: Array
    noise: Array
    nis: Array

    def select(self, i: int) -> "SmoothedWindow":
        """Return one of several windows."""
        state = Gaussian(self.state.mean[i], self.state.cov[i])
        return SmoothedWindow(state, self.expected[i], self.prediction_cov[i], self.noise[i], self.nis[i])


def smooth_windows(
    model: Model,
    linearization: Linearization,
    inputs: np.ndarray | None,
    update_first: bool,
    starts: np.ndarray,
    beliefs: Gaussian,
    ys: np.ndarray,
) -> SmoothedWindow:
    """Smooth many windows of one length.

    Args:
        model: model, cast to the dtype of the run.
        linearization: linearization of the filter.
        inputs: inputs, (T, U).
        update_first: order of update and prediction in the run.
        starts: first steps of the windows, (n,).
        beliefs: n beliefs about the states at these steps, before the measurements.
        ys: measurements to use, (n, W, M); NaN for those left out.
    """
    results = []
    for first in range(0, len(starts), WINDOWS_PER_BATCH):
        rows = np.resize(
            np.arange(first, min(first + WINDOWS_PER_BATCH, len(starts))), WINDOWS_PER_BATCH
        )  # padded by repetition to a fixed shape
        batch = Gaussian(beliefs.mean[rows], beliefs.cov[rows])
        results.append(
            _smooth_each(model, linearization, inputs, starts[rows], batch, ys[rows], update_first=update_first)
        )
    stacked = jax.tree.map(lambda *leaves: np.concatenate([np.asarray(leaf) for leaf in leaves]), *results)
    return jax.tree.map(lambda leaf: leaf[: len(starts)], stacked)


@partial(jax.jit, static_argnames=("update_first",))
def _smooth_each(
    model: Model,
    linearization: Linearization,
    inputs: PyTree,
    starts: Array,
    beliefs: Gaussian,
    ys: Array,
    *,
    update_first: bool,
) -> SmoothedWindow:
    one = partial(_smooth_one, model, linearization, inputs, update_first)
    return jax.vmap(one)(starts, beliefs, ys)


def _smooth_one(
    model: Model,
    linearization: Linearization,
    inputs: PyTree,
    update_first: bool,
    start: Array,
    belief: Gaussian,
    ys: Array,
) -> SmoothedWindow:
    unweighted = GaussianFilter(linearization=linearization)
    times = start + jnp.arange(len(ys))
    us = None if inputs is None else jnp.asarray(inputs)[jnp.minimum(times, len(inputs) - 1)]
    u, later = (None, None) if us is None else (us[0], us[1:])
    # The initial belief of a window is the prediction of its first step.
    state, info = scan.update(model, unweighted, GaussianState(belief, start), ys[0], u)
    first = _save_window(state, info)
    _, rest = scan.run_filter(
        model, ys[1:], unweighted, later, state=state, u_before=u, save=_save_window, update_first=update_first
    )
    predicted, filtered, nis = jax.tree.map(lambda one, more: jnp.concatenate([one[None], more]), first, rest)
    smoothed = run_smoother(model, linearization, filtered, predicted, us, None, start, update_first=update_first)

    def predict_measurement(t: Array, mean: Array, cov: Array, u: PyTree) -> tuple[Array, Array, Array]:
        step_model = model.at(t)
        approximation = linearization(step_model.projection(u), Gaussian(mean, cov)).with_jac()
        prediction_cov = linalg.sandwich(approximation.jac, cov)
        prediction_cov = (
            prediction_cov if approximation.root is None else prediction_cov + linalg.gram(approximation.root)
        )
        return approximation.mean, prediction_cov, jnp.asarray(step_model.obs_cov_at(mean, u))

    expected, prediction_cov, noise = jax.vmap(predict_measurement)(times, smoothed.mean, smoothed.cov, us)
    return SmoothedWindow(Gaussian(smoothed.mean[0], smoothed.cov[0]), expected, prediction_cov, noise, nis)


def _save_window(state: GaussianState, info: StepInfo) -> tuple:
    return info.predicted, state.belief, info.nis
