"""Forecasting: predict on without measurements, for the state and for what would be measured.

Of a method that has learned the noise, measurements are forecast with what it learned: the mean size of noise that is
no outlier, and its factor on Q. Outliers are not forecast.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from wolf.beliefs import Gaussian
from wolf.engine.scan import predict
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
    """Go on from a state without measurements.

    Args:
        model: arrays with a time axis must reach `steps` beyond the state's clock.
        method: the filter, for how it sees functions.
        state: after the last measurement.
        inputs: (steps, U), those of the future.
        u_before: the last input that was filtered, (U,); what leads to the first step if `update_first`.
        steps: how many.
        update_first: as in the filter.

    Returns:
        Beliefs about the states and about the measurements, stacked over the steps.
    """
    lead = inputs
    if inputs is not None and update_first:
        lead = jnp.concatenate([inputs[:1] if u_before is None else u_before[None], inputs[:-1]])

    spread = _learned_spread(method, state, model.obs_dim)

    def body(state: GaussianState, now_inputs: tuple) -> tuple[GaussianState, tuple[Gaussian, Gaussian]]:
        u_lead, u = now_inputs
        state = predict(model, method, state, u_lead, update_first=update_first, u_before=u_lead)
        now = model.at(state.t)
        view = method.linearization(now.projection(u), state.belief).with_jac()
        obs_cov = now.obs_cov_at(state.mean, u)
        obs_cov = obs_cov if spread is None else obs_cov * linalg.outer(spread, spread)
        factor = state.belief.innovation(view, obs_cov, jnp.ones_like(view.mean))
        measured = Gaussian(view.mean, factor.product())
        return state._replace(t=state.t + 1), (Gaussian(state.mean, state.cov), measured)

    _, beliefs = jax.lax.scan(body, state, (lead, inputs), length=steps)
    return beliefs


def _learned_spread(method: GaussianFilter, state: GaussianState, size: int) -> Array | None:
    """Find the standard deviation of noise that is no outlier, over that of R, (M,); None if nothing was learned."""
    laws = method.noise.noise_estimate(state.memory)
    if laws is None:
        return None
    spread = jnp.ones(size, state.mean.dtype)
    for rows, law in zip(method.noise.sensor_slices(size), laws if isinstance(laws, list) else [laws], strict=True):
        spread = spread.at[rows].set(jnp.sqrt(law.usual))
    return spread
