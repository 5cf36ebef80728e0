"""Figure of a fit: every parameter with its standard error, and the end of each start."""

from typing import TYPE_CHECKING

import numpy as np

from wolf.fitting.initial_values import VARIANCE_SUFFIXES
from wolf.fitting.result import Fit
from wolf.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AXIS_WIDTHS = 2.0  # half-width of the axis, in widths of the interval; starts that ended outside are marked at its edge


def fit(result: Fit) -> "Figure":
    """Draw a fit: each parameter with two standard errors, and a ring at the end of each start.

    Args:
        result: result of `wolf.fit`.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    if not isinstance(result, Fit):
        raise ValueError(f"result must be a result of wolf.fit; got {type(result).__name__}")
    size = len(result.parameters)
    figure = style.new_figure(9.0, 0.6 + 0.8 * size)
    for ax, name in zip(np.ravel(figure.subplots(size, 1)), result.parameters, strict=True):
        _draw(ax, result, name)
        style.dress(ax, grid="x")
        ax.spines["left"].set_visible(False)
        ax.set_yticks([0.0], [name])
        ax.tick_params(axis="y", length=0, labelsize=9.5)
        ax.set_ylim(-1.0, 1.0)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=3, frameon=False, fontsize=9, labelcolor=style.INK)
    return figure


def _draw(ax: "Axes", result: Fit, name: str) -> None:
    value, error = result.parameters[name], result.errors[name]
    half = 2.0 * error if np.isfinite(error) and error > 0 else 0.25 * abs(value) or 1.0
    low, high = value - AXIS_WIDTHS * half, value + AXIS_WIDTHS * half
    low = max(low, 0.0) if name.endswith(VARIANCE_SUFFIXES) else low
    ends = np.array([start.parameters.get(name, np.nan) for start in result.starts])
    inside = (ends >= low) & (ends <= high)
    ax.scatter(ends[inside], np.zeros(inside.sum()), s=90, facecolor="none", edgecolor=style.DOTS, zorder=3,
               label="end of a start of the search")  # fmt: skip
    for outside, marker, edge in ((ends < low, "<", low), (ends > high, ">", high)):
        if outside.any():
            ax.scatter([edge], [0.0], s=20, marker=marker, color=style.INK, lw=0, zorder=6, clip_on=False)
    if np.isfinite(error):
        ax.plot([max(value - half, low), value + half], [0.0, 0.0], color=style.ROBUST, lw=4, alpha=0.35, zorder=4,
                solid_capstyle="butt", label="± 2 standard errors")  # fmt: skip
    ax.scatter([value], [0.0], s=28, color=style.ROBUST, lw=0, zorder=5, label="fitted")
    ax.set_xlim(low, high)
