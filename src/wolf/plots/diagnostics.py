"""How far measurements were believed, and how far one bad measurement can move a filter."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from wolf import validation
from wolf.plots import style
from wolf.results import Filtered

THRESHOLD = 0.5**0.5  # a weight below this is an outlier: w² < 1/2


def weights(out: Filtered, ax: Any = None, *, times: Any = None, color: str = style.ROBUST) -> Any:
    """Draw the weight of every measurement, crosses for outliers; a weighted method has its limit as a dashed line.

    Args:
        out: one series, from `wolf.filter`.
        ax: axes to draw on; a new figure without.
        times: (T,), for the horizontal axis; 0, 1, ... without.
        color: of the dots; further coordinates get their own.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    if not isinstance(out, Filtered) or out.num_series is not None:
        raise ValueError("out must be one series from wolf.filter; pick one of many, as out[0]")
    values, outliers = (np.asarray(a).reshape(len(out), -1) for a in (out.weights, out.outliers))
    times = style.times_of(times, len(values))
    fresh = ax is None
    figure = style.new_figure(9.0, 2.4, dpi=120) if fresh else style.figure_of(ax)
    ax = figure.add_subplot() if fresh else ax
    colors = (color, *(c for c in style.CYCLE if c != color))
    for j, column in enumerate(values.T):
        shown = {"s": 8, "color": colors[j % len(colors)], "lw": 0, "zorder": 3}
        ax.scatter(times, column, **shown, label=f"coordinate {j}" if values.shape[1] > 1 else None)
        bad = outliers[:, j]
        ax.scatter(times[bad], column[bad], s=24, marker="x", color=style.INK, lw=1.1, zorder=4)
    if not hasattr(out, "outlier_probabilities"):  # what learns its noise goes by these
        ax.axhline(THRESHOLD, color=style.QUIET, lw=1, ls="--", zorder=2)
    ax.set_ylim(-0.05, 1.05)
    if fresh:
        style.dress(ax)
        ax.margins(x=0.01)
        ax.set_xlabel(style.title_of(times))
        ax.set_ylabel("weight")
        if values.shape[1] > 1:
            figure.legend(loc="outside upper left", ncols=6, frameon=False, fontsize=9, labelcolor=style.INK)
    return figure


def influence(contaminations: Any, curves: Any, ax: Any = None) -> Any:
    """Draw how far an error in one measurement moves the posterior, as `wolf.influence.pif` computes it.

    Args:
        contaminations: errors, (N,), or (N, 1) as given to `pif`.
        curves: influence at each, (N,); or several by name, `{"KF": ..., "WoLF": ...}`.
        ax: axes to draw on; a new figure without.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    errors = validation.number_array("contaminations", contaminations)
    errors = errors[:, 0] if errors.ndim == 2 and errors.shape[1] == 1 else errors
    if errors.ndim != 1 or not errors.size:
        raise ValueError(f"contaminations must be a line of errors, (N,) or (N, 1); got shape {errors.shape}")
    named = dict(curves) if isinstance(curves, Mapping) else {"influence": curves}
    fresh = ax is None
    figure = style.new_figure(6.5, 3.8, dpi=120) if fresh else style.figure_of(ax)
    ax = figure.add_subplot() if fresh else ax
    colors = style.CYCLE[1:] if len(named) == 1 else style.CYCLE
    for i, (name, curve) in enumerate(named.items()):
        values = validation.number_array(f"{name!r} of curves", curve)
        if values.shape != errors.shape:
            wanted = f"{len(errors)} values, one for each error"
            raise ValueError(f"{name!r} of curves must have {wanted}; got shape {values.shape}")
        ax.plot(errors, values, color=colors[i % len(colors)], lw=1.8, label=name)
    ax.set_yscale("symlog", linthresh=1.0)
    ax.set_ylim(bottom=0)
    if fresh:
        style.dress(ax, grid="both")
        ax.margins(x=0)
        ax.set_xlabel("error of one measurement")
        ax.set_ylabel("influence (KL)")
        figure.legend(loc="outside upper left", ncols=6, frameon=False, fontsize=9, labelcolor=style.INK)
    return figure
