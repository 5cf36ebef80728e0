"""`wolf.forecast`: beliefs about future states and measurements, with intervals."""

import dataclasses
from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.api.forecast_calibration import calibrated_half_widths
from wolf.api.result_arguments import Models, check_result, model_optional, stack_with_matrices
from wolf.beliefs.density import deviations
from wolf.execution import validate
from wolf.execution.forecasting import forecast_state
from wolf.models.exogenous import with_future
from wolf.results import Filtered, Forecast
from wolf.results.conformal import Calibration, ConformalIntervals, read_calibration
from wolf.results.views.data_frame import index_ahead
from wolf.statespace import LinearModel, Model, with_matrices


@overload
def forecast(
    out: Filtered,
    /,
    steps: int,
    *,
    level: float = 0.95,
    inputs: ArrayLike | None = None,
    exog: object = None,
    calibrate: Calibration = None,
) -> Forecast: ...
@overload
def forecast(
    model: Models,
    out: Filtered,
    steps: int,
    *,
    level: float = 0.95,
    inputs: ArrayLike | None = None,
    exog: object = None,
    calibrate: Calibration = None,
) -> Forecast: ...
@model_optional
def forecast(
    model: Models,
    out: Filtered,
    steps: int,
    *,
    level: float = 0.95,
    inputs: ArrayLike | None = None,
    exog: object = None,
    calibrate: Calibration = None,
) -> Forecast:
    """Forecast from the end of a filtered series.

    Args:
        model: may be left out: the one that was filtered, or the list of them. Arrays with a time axis must reach
            `steps` further.
        out: from `wolf.filter` or `wolf.filter_many`.
        steps: how many.
        level: probability of the intervals.
        inputs: (steps, U), those of the future, for models that take them.
        exog: (steps, K), the exogenous variables of the future, for models with some (`wolf.models.with_exogenous`).
        calibrate: as in `wolf.filter`, at `level`: widens or narrows the limits of each horizon by the errors of the
            forecasts from past steps. `obs_covs` stay those of the model. Default: as the series was filtered.

    Example:
        >>> import wolf
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> wolf.forecast(wolf.filter(model, [1.0, 2.0, 3.0]), steps=20)
        Forecast: 20 steps, 95% intervals in .lower and .upper
    """
    validation.count("steps", steps)
    validation.confidence_level(level)
    intervals = read_calibration(calibrate)
    check_result("forecast", model, out)
    if "slice" in out.settings:
        raise ValueError("a slice does not end where its final state does; forecast from the whole result")
    intervals = out.settings.get("calibrate") if intervals is None else intervals
    model = model if exog is None else _continued(model, out, steps, exog)
    each, whole = stack_with_matrices(model)
    models = model if isinstance(model, Sequence) else [model]
    dtype, (d, m) = out.settings["dtype"], (models[0].state_dim, models[0].obs_dim)
    validate.refuse_if_large("steps", steps, (out.num_series or 1) * (d * (d + 1) + m * (m + 3)), dtype)
    us = validation.inputs(inputs, steps, models[0], series=out.num_series)
    for one in models:
        validate.check_time_axes(one, int(np.max(out.final.t)) + steps, out.update_first, "forecast")
    how: Any = {"dtype": dtype, "update_first": out.update_first, "many": out.num_series is not None}
    how |= {"inputs": us, "u_before": _last_inputs(out), "per_series": each}
    states, measured = forecast_state(whole, out.method, out.final, int(steps), **how)
    half = deviations(level) * np.sqrt(np.diagonal(measured.cov, axis1=-2, axis2=-1))
    if intervals is not None:
        half = _calibrated(models, out, int(steps), dataclasses.replace(intervals, level=level))
    mean, lower, upper = measured.mean, measured.mean - half, measured.mean + half
    if out.transform is not None:
        mean, lower, upper = (out.transform.undo(each) for each in (mean, lower, upper))
    index = index_ahead(out.index, int(steps))
    return Forecast(states.mean, states.cov, mean, measured.cov, lower, upper, level, index, out)


def _continued(model: Models, out: Filtered, steps: int, exog: object) -> LinearModel:
    """Return the model with the exogenous variables of the future."""
    if not isinstance(model, LinearModel) or out.num_series is not None:
        raise ValueError("exog= of the future needs one series with a linear model; forecast the series one by one")
    return with_future(model, exog, int(steps), int(out.final.t))


def _calibrated(models: Sequence[Model], out: Filtered, steps: int, intervals: ConformalIntervals) -> np.ndarray:
    """Compute calibrated half-widths, (steps, M) or (B, steps, M)."""
    if "covs" not in (out.saved if isinstance(out.saved, dict) else {}):
        raise ValueError(f'calibrate needs means and covariances: filter with save="all", not {out.settings["save"]!r}')
    if out.num_series is None:
        return calibrated_half_widths(with_matrices(models[0]), out, steps, intervals)
    every = models if len(models) == out.num_series else [models[0]] * out.num_series
    return np.stack(
        [
            calibrated_half_widths(with_matrices(model), each, steps, intervals)
            for model, each in zip(every, out, strict=True)
        ]
    )


def _last_inputs(out: Filtered) -> np.ndarray | None:
    """Return the inputs of the last step; of each series, (B, U), where the lengths differ."""
    if out.inputs is None or out.lengths is None:
        return None if out.inputs is None else out.inputs[..., -1, :]
    ends = np.maximum(np.asarray(out.lengths) - 1, 0)
    return out.inputs[ends] if out.inputs.ndim == 2 else out.inputs[np.arange(len(ends)), ends]
