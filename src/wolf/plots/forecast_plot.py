"""What will be measured, after the last measurements that were."""

from typing import Any

import numpy as np

from wolf import validation
from wolf.plots import style
from wolf.plots.series_plot import band, draw_measurements
from wolf.results import Filtered, Forecast

PAST = (3, 30)  # steps of the past for each step ahead, and at least


def forecast(ahead: Forecast, coordinate: int = 0, ax: Any = None, *, past: int | None = None) -> Any:
    """Draw what a forecast says of one measured coordinate, with its interval, after the last measurements.

    The past has the dots, crosses and ticks of `series`, and where the model is linear the estimate of what they
    measure, with a band of two standard deviations.

    Args:
        ahead: of one series, from `wolf.forecast`.
        coordinate: which coordinate of the measurements.
        ax: axes to draw on; a new figure without.
        past: steps of the past to show; default: three for each step ahead, and at least 30.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    _check(ahead, coordinate)
    out, steps = ahead.filtered, len(ahead.obs_means)
    length = 0 if out is None else len(out.ys)
    past = max(PAST[0] * steps, PAST[1]) if past is None else validation.integer("past", past)
    before = slice(length - min(past, length), length)
    times = _times(ahead, length)
    fresh = ax is None
    figure = style.new_figure(9.0, 3.6, dpi=120) if fresh else style.figure_of(ax)
    ax = figure.add_subplot() if fresh else ax

    means, lower, upper = (each[:, coordinate] for each in (ahead.obs_means, ahead.lower, ahead.upper))
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
        label=f"forecast, {100 * ahead.level:.3g} % interval",
    )
    ax.set_ylim(low, high)
    if fresh:
        style.dress(ax)
        ax.margins(x=0.01)
        ax.set_xlabel(style.title_of(times))
        ax.set_ylabel("measurement" if ahead.obs_means.shape[1] == 1 else f"measurement {coordinate}")
        figure.legend(loc="outside upper left", ncols=6, frameon=False, fontsize=9, labelcolor=style.INK)
    return figure


def _draw_past(
    ax: Any, out: Filtered, coordinate: int, times: np.ndarray, before: slice, ends: tuple[np.ndarray, np.ndarray]
) -> list[np.ndarray]:
    """Draw the last measurements and what was estimated of them; give what must be seen."""
    saved = out.saved if isinstance(out.saved, dict) else {}
    values = out.ys[before, coordinate]
    refused = np.asarray(saved.get("outliers", np.zeros(len(out.ys), bool)))
    refused = (refused if refused.ndim == 1 else refused[:, coordinate])[before]
    shown = [values[~refused], *ends]
    if out.model.linear and {"means", "covs"} <= saved.keys():
        row = out.model.H[..., coordinate, :]
        row = np.broadcast_to(row[: len(out.ys)] if row.ndim == 2 else row, out.means.shape)[before]
        estimate = np.sum(row * out.means[before], axis=1)
        deviations = np.sqrt(np.maximum(np.einsum("ti,tij,tj->t", row, out.covs[before], row), 0.0))
        band(ax, times[before], estimate, deviations, style.ROBUST, "estimate, ± 2 standard deviations")
        shown.append(estimate)
    draw_measurements(ax, times[before], values, refused, *style.limits(*shown))
    return shown


def _times(ahead: Forecast, length: int) -> np.ndarray:
    """Give the horizontal axis of past and future: dates or numbers where both have them, steps otherwise."""
    index = None if ahead.filtered is None else ahead.filtered.index
    if index is None or ahead.index is None or index.dtype.kind not in "iufM":
        return np.arange(length + len(ahead.obs_means))
    return np.concatenate([np.asarray(index), np.asarray(ahead.index)])


def _check(ahead: Any, coordinate: int) -> None:
    if not isinstance(ahead, Forecast):
        raise ValueError(f"ahead must be what wolf.forecast returned; got {type(ahead).__name__}")
    if ahead.obs_means.ndim == 3:
        raise ValueError("ahead must be of one series, and these are many; pick one, as ahead[0]")
    size = ahead.obs_means.shape[1]
    if validation.integer("coordinate", coordinate) >= size:
        raise ValueError(f"coordinate must be between 0 and {size - 1}; got {coordinate}")
