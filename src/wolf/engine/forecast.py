"""Forecasts of the state and of the measurements, by repeated prediction.

For a method that estimates the noise, the measurement noise is the estimated variance of non-outliers and Q has its
estimated factor. Outliers are not forecast.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from wolf.beliefs import Affine, Belief, Gaussian
from wolf.engine.scan import predict
from wolf.inference.filters import ErrorState, TruncatedFilter
from wolf.inference.filters.gaussian import GaussianFilter, GaussianState
from wolf.numerics import linalg
from wolf.statespace import Model


@partial(jax.jit, static_argnames=("steps", "update_first"))
def run_forecast(
    model: Model,
    method: GaussianFilter,
    state: GaussianState,
    inputs: Array | None = None,
    u_before: Array | None = None,
    *,
    steps: int,
    update_first: bool = False,
) -> tuple[Gaussian, Gaussian]:
    """Forecast states and measurements from a state.

    Args:
        model: arrays with a time axis must extend `steps` beyond the state's clock.
        method: the filter; its linearization is used.
        state: after the last measurement.
        inputs: future inputs, (steps, U).
        u_before: the last input of the filter run, (U,); with `update_first` it drives the first transition.
        steps: number of steps.
        update_first: as in the filter.

    Returns:
        Beliefs about the states and about the measurements, stacked over the steps.
    """
    lead = inputs
    if inputs is not None and update_first:
        lead = jnp.concatenate([inputs[:1] if u_before is None else u_before[None], inputs[:-1]])

    std_ratio = _noise_std_ratio(method, state, model.obs_dim)

    def body(state: GaussianState, now_inputs: tuple) -> tuple[GaussianState, tuple[Gaussian, Gaussian]]:
        u_lead, u = now_inputs
        state = predict(model, method, state, u_lead, update_first=update_first, u_before=u_lead)
        now = model.at(state.t)
        shown, view = _shown_belief(method, state), _linearized_measurement(method, now, state, u)
        obs_cov = now.obs_cov_at(state.mean, u)
        obs_cov = obs_cov if std_ratio is None else obs_cov * linalg.outer(std_ratio, std_ratio)
        factor = shown.innovation(view, obs_cov, jnp.ones_like(view.mean))
        measurement = Gaussian(view.mean, factor.product())
        return state._replace(t=state.t + 1), (Gaussian(shown.mean, shown.cov), measurement)

    _, beliefs = jax.lax.scan(body, state, (lead, inputs), length=steps)
    return beliefs


def _shown_belief(method: Any, state: GaussianState) -> Belief:
    """Return the belief about the state, within its bounds; the next prediction starts from the one without them."""
    if not isinstance(method, TruncatedFilter):
        return state.belief
    truncated, changed = method.truncated(Gaussian(state.mean, state.cov))
    return state.belief.replaced(truncated).where(changed, state.belief)


def _linearized_measurement(method: Any, now: Any, state: GaussianState, u: Array | None) -> Affine:
    """Linearize the measurement; on a manifold as a function of the error of the state."""
    if isinstance(method, ErrorState):
        return method.measurement_of_error(now, state, u).with_jac()
    view: Affine = method.linearization(now.projection(u), _shown_belief(method, state))
    return view.with_jac()


def _noise_std_ratio(method: GaussianFilter, state: GaussianState, size: int) -> Array | None:
    """Compute the estimated standard deviation of non-outlier noise relative to R, (M,); None if unknown."""
    laws = method.noise.noise_estimate(state.memory)
    if laws is None:
        return None
    std_ratio = jnp.ones(size, state.mean.dtype)
    for rows, law in zip(method.noise.sensor_slices(size), laws if isinstance(laws, list) else [laws], strict=True):
        std_ratio = std_ratio.at[rows].set(jnp.sqrt(law.usual))
    return std_ratio
