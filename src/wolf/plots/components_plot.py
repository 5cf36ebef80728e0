"""Figure of the components of a series: the signal with the measurements, and a panel for each component."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from wolf.beliefs.density import deviations
from wolf.plots import style
from wolf.plots.series_plot import draw_measurements
from wolf.results.components import Components

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL_INCHES = 1.6  # height of a panel
MAX_PANELS = 12


def components(result: Components, *, times: ArrayLike | None = None) -> "Figure":
    """Draw the first measured coordinate with the signal, and below it each of its components with its interval.

    Args:
        result: from `out.components()` or `wolf.smooth(out).components()`.
        times: values of the horizontal axis, (T,); default: the index of the measurements, or 0, 1, ...

    Returns:
        The `matplotlib.figure.Figure`.
    """
    out = result.filtered
    shown = [(part.name, *_first(part.mean, part.sd)) for part in result.parts][:MAX_PANELS]
    if not shown:
        raise ValueError("the model has no components: no state is part of a measurement")
    figure = style.new_figure(9.0, PANEL_INCHES * (len(shown) + 1.5))
    axes = figure.subplots(len(shown) + 1, 1, sharex=True, height_ratios=[1.6] + [1.0] * len(shown))
    steps = style.times_of(style.index_times(out.index) if times is None else times, len(shown[0][1]))
    signal = np.sum([mean for _, mean, _ in shown], axis=0)
    _draw_signal(axes[0], result, steps, signal)
    factor = deviations(result.parts[0].level)
    for ax, (name, mean, sd) in zip(axes[1:], shown, strict=True):
        half = factor * sd
        cap = 2 * np.median(half)  # a diffuse start does not set the scale
        low, high = style.limits(mean - np.minimum(half, cap), mean + np.minimum(half, cap))
        ax.fill_between(steps, mean - half, mean + half, color=style.ROBUST, alpha=0.18, lw=0)
        ax.plot(steps, mean, color=style.ROBUST, lw=1.2)
        ax.set_ylim(low, high)
        ax.set_ylabel(name)
    for ax in axes:
        style.dress(ax)
        ax.margins(x=0.01)
    axes[-1].set_xlabel(style.title_of(steps))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper left", ncols=6, frameon=False, fontsize=9,
                  labelcolor=style.INK)  # fmt: skip
    return figure


def _first(mean: np.ndarray, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return (mean, sd) if mean.ndim == 1 else (mean[:, 0], sd[:, 0])


def _draw_signal(ax: "Axes", result: Components, steps: np.ndarray, signal: np.ndarray) -> None:
    out = result.filtered
    values = out.ys[:, 0]
    saved = out.saved if isinstance(out.saved, dict) else {}
    rejected = np.asarray(saved.get("outliers", np.zeros(len(values), bool)))
    rejected = rejected if rejected.ndim == 1 else rejected[:, 0]
    low, high = style.limits(signal, values[~rejected])
    ax.plot(steps, signal, color=style.ROBUST, lw=1.5, label="sum of the components", zorder=4)
    draw_measurements(ax, steps, values, rejected, low, high)
    ax.set_ylim(low, high)
    ax.set_ylabel(out.obs_names[0] if out.obs_names else "measurement")
