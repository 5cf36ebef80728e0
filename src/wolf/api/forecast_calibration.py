"""Half-widths of forecast intervals, calibrated on forecasts from the past steps of the same series.

Each horizon has a radius of its own: errors of the forecasts k steps ahead from every past step, over the deviations
that the model gives them, update it k steps later (`wolf.results.conformal`).
"""

from typing import Any

import jax
import numpy as np

from wolf.beliefs import Gaussian
from wolf.execution.forecasting import forecast_state
from wolf.inference.filters.gaussian import GaussianFilter, GaussianState
from wolf.numerics.precision import precision
from wolf.results import Filtered
from wolf.results.conformal import ConformalIntervals, innovation_variances
from wolf.statespace import Model

MAX_ORIGINS = 1_000  # last steps from which forecasts are repeated


def calibrated_half_widths(model: Model, out: Filtered, steps: int, intervals: ConformalIntervals) -> np.ndarray:
    """Compute the half-widths of the intervals of the next measurements, (steps, M).

    Args:
        model: with matrices, also at the steps ahead.
        out: one series, with means and covariances.
        steps: number of steps ahead.
        intervals: level and rate.
    """
    first = max(0, len(out) - MAX_ORIGINS)
    origins = np.arange(first, len(out))
    ahead = np.minimum(origins[:, None] + np.arange(1, steps + 1), len(out) - 1)  # rows beyond the end are not used
    assert out.method.linearization is not None  # as `check_result` checked
    method = GaussianFilter(linearization=out.method.linearization)
    times: Any = (origins + int(out.final.t) - len(out) + 1).astype(np.int32)
    state = GaussianState(Gaussian(out.means[origins], out.covs[origins]), times)
    inputs = None if out.inputs is None else out.inputs[ahead]
    before = None if out.inputs is None else out.inputs[origins]
    _, measured = forecast_state(
        *(model, method, state, steps),
        dtype=out.settings["dtype"],
        update_first=out.update_first,
        inputs=inputs,
        u_before=before,
        many=True,
    )
    with precision(out.settings["dtype"]):
        errors = np.asarray(jax.vmap(jax.vmap(model.subtract))(out.ys[ahead], measured.mean))
    variances = innovation_variances(measured.cov)
    outliers = out.outliers[ahead] if "outliers" in out.saved else None
    radii = []
    for k in range(steps):
        known = slice(0, max(len(origins) - 1 - k, 0))
        rejected = None if outliers is None else outliers[known, k]
        radii.append(intervals.track(errors[known, k], variances[known, k], rejected, delay=k + 1)[-1])
    return np.stack(radii) * np.sqrt(variances[-1])
