"""Forecasting: predict on without measurements, for the state and for what would be measured."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from wolf import gaussian
from wolf.filters.gaussian import GaussianFilter, GaussianState, with_jac
from wolf.model import Model
from wolf.types import Gaussian


@partial(jax.jit, static_argnames=("steps", "update_first"))
def run_forecast(
    model: Model,
    method: GaussianFilter,
    state: GaussianState,
    inputs: Array | None = None,
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
        steps: how many.
        update_first: as in the filter.

    Returns:
        Beliefs about the states and about the measurements, stacked over the steps.
    """

    def body(state: GaussianState, u: Array | None) -> tuple[GaussianState, tuple[Gaussian, Gaussian]]:
        state = method.predict(model.at(state.t - 1 if update_first else state.t), state, u)
        now = model.at(state.t)
        view = with_jac(method.moments(now.projection(u), state.belief))
        factor = gaussian.innovation(state.belief, view, now.obs_cov, jnp.ones_like(view.mean))
        measured = Gaussian(view.mean, factor.product())
        return state._replace(t=state.t + 1), (Gaussian(state.mean, state.cov), measured)

    _, beliefs = jax.lax.scan(body, state, inputs, length=steps)
    return beliefs


def run_forecast_many(model: Any, method: Any, states: Any, inputs: Any, **options: Any) -> tuple[Gaussian, Gaussian]:
    """Forecast many series from their final states (series axis first)."""
    axes = (None, None, 0, 0 if inputs is not None and inputs.ndim == 3 else None)
    return jax.vmap(partial(run_forecast, **options), in_axes=axes)(model, method, states, inputs)
