"""Prediction of the next measurement of an online filter, before it is made."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from wolf.interfaces import Dtype
from wolf.numerics.precision import precision
from wolf.online.motion import Motion
from wolf.online.stepper import Matrices, Stepper
from wolf.statespace import Model


class Prediction(NamedTuple):
    """Predicted state and measurement of `Online.predict`.

    Attributes:
        mean: of the state, (D,).
        cov: of the state, (D, D); None for a filter without covariances.
        measurement: predicted measurement, (M,).
        innovation_cov: covariance S of its error under the model, (M, M); None for a filter that does not form it.
    """

    mean: np.ndarray
    cov: np.ndarray | None
    measurement: np.ndarray
    innovation_cov: np.ndarray | None


class Pending(NamedTuple):
    """A prediction whose measurement is awaited.

    Attributes:
        motion: before the measurement.
        u: input, as given.
        prediction: as returned.
    """

    motion: Motion
    u: np.ndarray | None
    prediction: Prediction


def make_prediction(
    stepper: Stepper, changed: Model, us: list[np.ndarray], matrices: Matrices, dtype: Dtype
) -> Prediction:
    """Predict by two steps from the present state, which is restored afterwards.

    A step without a measurement ends in the predicted belief. A step with a measurement reports S and the residual,
    from which the predicted measurement follows.

    Args:
        stepper: with the present state.
        changed: the model of the step, with the observation of the sensor that measures.
        us: inputs of this step and of the previous one, if the model has inputs.
        matrices: of the step.
        dtype: precision.
    """
    snapshot = stepper.snapshot()
    try:
        stepper.step(np.full(changed.obs_dim, np.nan, dtype), us, matrices)
        with precision(dtype):
            state = stepper.state
            mean, cov = np.asarray(state.mean), state.cov
            cov = None if cov is None else np.asarray(cov)
        stepper.restore(snapshot)
        trial = _near_prediction(changed, mean, us).astype(dtype)
        report = stepper.step(trial, us, matrices)
    finally:
        stepper.restore(snapshot)
    innovation_cov = report.innovation_cov
    return Prediction(mean, cov, trial - report.residual, None if innovation_cov is None else innovation_cov.copy())


def _near_prediction(changed: Model, mean: np.ndarray, us: list[np.ndarray]) -> np.ndarray:
    """Return a measurement whose residual is a plain difference: zero, or h(mean) where angles are subtracted."""
    if changed.residual is None:
        return np.zeros(changed.obs_dim)
    with precision("float64"):
        u = jnp.asarray(us[0]) if us else None
        return np.asarray(changed.projection(u)(jnp.asarray(mean))).reshape(changed.obs_dim)
