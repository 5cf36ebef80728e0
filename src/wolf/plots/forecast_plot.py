"""Figure of a forecast, after the last measurements."""

from typing import TYPE_CHECKING

import numpy as np

from wolf import validation
from wolf.plots import style
from wolf.plots.series_plot import band, draw_measurements
from wolf.results import Filtered, Forecast
from wolf.statespace import LinearModel
from wolf.statespace.names import find_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAST_STEPS = (3, 30)  # steps of the past per step of the forecast, and at least


def forecast(
    result: Forecast, coordinate: int | str = 0, ax: "Axes | None" = None, *, past: int | None = None
) -> "Figure":
    """Draw the forecast of one measured coordinate with its interval, after the last measurements.

    The past has the symbols of `series` and, if the model is linear, the estimate of the measured quantity with a band
    of two standard deviations.

    Args:
        result: forecast of one series, from `wolf.forecast`.
        coordinate: number or name of the measured coordinate.
        ax: axes to draw on; a new figure by default.
        past: steps of the past; default: three per step of the forecast, and at least 30.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    _check(result)
    out, steps = result.filtered, len(result.obs_means)
    names, size = None if out is None else out.obs_names, result.obs_means.shape[1]
    coordinate = find_name("measurement", coordinate, names, size)
    length = 0 if out is None else len(out.ys)
    past = max(PAST_STEPS[0] * steps, PAST_STEPS[1]) if past is None else validation.integer("past", past)
    before = slice(length - min(past, length), length)
    times = _times(result, length)
    is_new = ax is None
    figure, ax = style.figure_and_axes(ax, 9.0, 3.6)

    means, lower, upper = (each[:, coordinate] for each in (result.obs_means, result.lower, result.upper))
    shown = [lower, upper]
    if out is not None and past:
        shown += _draw_past(ax, out, coordinate, times, before, (lower, upper))
    low, high = style.limits(*shown)
    ax.fill_between(times[length:], lower, upper, color=style.KALMAN, alpha=0.18, lw=0, zorder=3)
    ax.plot(
        times[length:],
        means,
        color=style.KALMAN,
        lw=1.5,
        zorder=4,
        label=f"forecast, {100 * result.level:.3g} % interval",
    )
    ax.set_ylim(low, high)
    if is_new:
        style.dress(ax)
        ax.margins(x=0.01)
        ax.set_xlabel(style.title_of(times))
        ax.set_ylabel(names[coordinate] if names else "measurement" if size == 1 else f"measurement {coordinate}")
        figure.legend(loc="outside upper left", ncols=6, frameon=False, fontsize=9, labelcolor=style.INK)
    return figure


def _draw_past(
    ax: "Axes", out: Filtered, coordinate: int, times: np.ndarray, before: slice, ends: tuple[np.ndarray, np.ndarray]
) -> list[np.ndarray]:
    """Draw the last measurements and their estimate; return the values that must be visible."""
    saved = out.saved if isinstance(out.saved, dict) else {}
    values, scale = out.ys[before, coordinate], out.transform
    values = values if scale is None else scale.undo(values)
    rejected = np.asarray(saved.get("outliers", np.zeros(len(out.ys), bool)))
    rejected = (rejected if rejected.ndim == 1 else rejected[:, coordinate])[before]
    shown = [values[~rejected], *ends]
    if isinstance(out.model, LinearModel) and {"means", "covs"} <= saved.keys():
        row = out.model.H[..., coordinate, :]
        row = np.broadcast_to(row[: len(out.ys)] if row.ndim == 2 else row, out.means.shape)[before]
        estimate = np.sum(row * out.means[before], axis=1)
        deviations = np.sqrt(np.maximum(np.einsum("ti,tij,tj->t", row, out.covs[before], row), 0.0))
        if scale is not None:
            estimate, deviations = scale.undo(estimate), scale.undo_deviation(estimate, deviations)
        band(ax, times[before], estimate, deviations, style.ROBUST, "estimate, ± 2 standard deviations")
        shown.append(estimate)
    draw_measurements(ax, times[before], values, rejected, *style.limits(*shown))
    return shown


def _times(result: Forecast, length: int) -> np.ndarray:
    """Return the horizontal axis of past and future: dates or numbers if both have them, steps otherwise."""
    past = None if result.filtered is None else style.index_times(result.filtered.index)
    ahead = style.index_times(result.index)
    if past is None or ahead is None:
        return np.arange(length + len(result.obs_means))
    return np.concatenate([past, ahead])


def _check(result: Forecast) -> None:
    if not isinstance(result, Forecast):
        raise ValueError(f"result must be a result of wolf.forecast; got {type(result).__name__}")
    if result.obs_means.ndim == 3:
        raise ValueError("result must be of one series, such as result[0] of many; pick one")
