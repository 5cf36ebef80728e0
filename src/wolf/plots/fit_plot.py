"""A fit in one picture: every parameter with its error, and where the starts of the search came to."""

from typing import Any

import numpy as np

from wolf.fitting.initial_values import VARIANCES
from wolf.fitting.result import Fit
from wolf.plots import style

ROOM = 2.0  # of the axis, in widths of the interval; starts that ended farther away are marked at its edge


def fit(found: Fit) -> Any:
    """Draw what `wolf.fit` found: each parameter with two standard errors, and a ring where each start ended.

    Args:
        found: from `wolf.fit`.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    if not isinstance(found, Fit):
        raise ValueError(f"found must be what wolf.fit returned; got {type(found).__name__}")
    size = len(found.parameters)
    figure = style.new_figure(9.0, 0.6 + 0.8 * size, dpi=120)
    for ax, name in zip(np.ravel(figure.subplots(size, 1)), found.parameters, strict=True):
        _draw(ax, found, name)
        style.dress(ax, grid="x")
        ax.spines["left"].set_visible(False)
        ax.set_yticks([0.0], [name])
        ax.tick_params(axis="y", length=0, labelsize=9.5)
        ax.set_ylim(-1.0, 1.0)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=3, frameon=False, fontsize=9, labelcolor=style.INK)
    return figure


def _draw(ax: Any, found: Fit, name: str) -> None:
    value, error = found.parameters[name], found.errors[name]
    half = 2.0 * error if np.isfinite(error) and error > 0 else 0.25 * abs(value) or 1.0
    low, high = value - ROOM * half, value + ROOM * half
    low = max(low, 0.0) if name.endswith(VARIANCES) else low
    ends = np.array([start.parameters.get(name, np.nan) for start in found.starts])
    inside = (ends >= low) & (ends <= high)
    ax.scatter(ends[inside], np.zeros(inside.sum()), s=90, facecolor="none", edgecolor=style.DOTS, zorder=3,
               label="a start of the search ended here")  # fmt: skip
    for beyond, marker, place in ((ends < low, "<", low), (ends > high, ">", high)):
        if beyond.any():
            ax.scatter([place], [0.0], s=20, marker=marker, color=style.INK, lw=0, zorder=6, clip_on=False)
    if np.isfinite(error):
        ax.plot([max(value - half, low), value + half], [0.0, 0.0], color=style.ROBUST, lw=4, alpha=0.35, zorder=4,
                solid_capstyle="butt", label="± 2 standard errors")  # fmt: skip
    ax.scatter([value], [0.0], s=28, color=style.ROBUST, lw=0, zorder=5, label="fitted")
    ax.set_xlim(low, high)
