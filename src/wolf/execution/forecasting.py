"""Forecasts from a state, for one series or many, padded so that one program serves several lengths."""

from collections.abc import Callable
from functools import partial

import jax
import numpy as np

from wolf.beliefs import Gaussian
from wolf.engine.forecast import run_forecast
from wolf.execution.padding import pad, pad_steps
from wolf.execution.xla_batching import bound_programs, call, run_forecasts
from wolf.interfaces import Filter
from wolf.numerics.precision import precision, to_dtype, to_numpy
from wolf.numerics.pytree import PyTree, cast
from wolf.statespace import Model


def forecast_state(
    model: Model,
    method: Filter,
    state: PyTree,
    steps: int,
    *,
    dtype: str = "float64",
    update_first: bool = False,
    inputs: np.ndarray | None = None,
    u_before: np.ndarray | None = None,
    many: bool = False,
    per_series: bool = False,
) -> tuple[Gaussian, Gaussian]:
    """Forecast states and measurements.

    Args:
        model: with matrices; with a leading series axis on every leaf if `per_series`.
        method: a Gaussian filter.
        state: after the last measurement; with a leading series axis if `many`.
        steps: how many.
        dtype: precision.
        update_first: order of a step.
        inputs: of the future, (steps, U) or (B, steps, U).
        u_before: the last input that was filtered, (U,) or (B, U).
        many: whether there is a series axis.
        per_series: whether each series has a model of its own.

    Returns:
        Beliefs about the states and about the measurements, stacked over the steps.
    """
    padded = pad_steps(steps)
    inputs = None if inputs is None else pad(inputs, inputs.ndim - 2, after=padded - steps)
    forecaster: Callable = run_forecast
    if many:
        own = [0 if array is not None and array.ndim == size else None for array, size in ((inputs, 3), (u_before, 2))]
        forecaster = partial(call, run_forecasts, axes=(0 if per_series else None, None, 0, *own))
    bound_programs()
    with precision(dtype):
        arguments = cast(model, dtype), cast(method, dtype), state, to_dtype(inputs, dtype), to_dtype(u_before, dtype)
        states, measured = to_numpy(forecaster(*arguments, steps=padded, update_first=update_first))
    kept = (slice(None), slice(steps)) if many else (slice(steps),)
    return jax.tree.map(lambda array: array[kept], (states, measured))  # type: ignore[no-any-return]
