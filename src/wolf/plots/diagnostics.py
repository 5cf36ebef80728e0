"""Figures of the weights of measurements, and of the influence of one contaminated measurement."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.plots import style
from wolf.results import Filtered

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OUTLIER_WEIGHT = 0.5**0.5  # weight below which a measurement counts as an outlier: w² < 1/2


def weights(
    out: Filtered, ax: "Axes | None" = None, *, times: ArrayLike | None = None, color: str = style.ROBUST
) -> "Figure":
    """Draw the weight of every measurement, outliers as crosses; a dashed line marks the outlier threshold of weights.

    Args:
        out: one series, from `wolf.filter`.
        ax: axes to draw on; a new figure by default.
        times: values of the horizontal axis, (T,); 0, 1, ... by default.
        color: colour of the dots; further coordinates have their own.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    if not isinstance(out, Filtered) or out.num_series is not None:
        raise ValueError("out must be one series from wolf.filter, such as out[0] of many")
    values, outliers = (np.asarray(a).reshape(len(out), -1) for a in (out.weights, out.outliers))
    times = style.times_of(times, len(values))
    is_new = ax is None
    figure, ax = style.figure_and_axes(ax, 9.0, 2.4)
    colors = (color, *(c for c in style.CYCLE if c != color))
    for j, column in enumerate(values.T):
        label, tint = f"coordinate {j}" if values.shape[1] > 1 else None, colors[j % len(colors)]
        ax.scatter(times, column, s=8, color=tint, lw=0, zorder=3, label=label)
        is_outlier = outliers[:, j]
        ax.scatter(times[is_outlier], column[is_outlier], s=24, marker="x", color=style.INK, lw=1.1, zorder=4)
    if "outlier_probabilities" not in out.saved:  # adaptive noise models classify outliers by their probability
        ax.axhline(OUTLIER_WEIGHT, color=style.QUIET, lw=1, ls="--", zorder=2)
    ax.set_ylim(-0.05, 1.05)
    if is_new:
        style.dress(ax)
        ax.margins(x=0.01)
        ax.set_xlabel(style.title_of(times))
        ax.set_ylabel("weight")
        if values.shape[1] > 1:
            figure.legend(loc="outside upper left", ncols=6, frameon=False, fontsize=9, labelcolor=style.INK)
    return figure


def influence(
    contaminations: ArrayLike, curves: ArrayLike | Mapping[str, ArrayLike], ax: "Axes | None" = None
) -> "Figure":
    """Draw the influence of an error in one measurement on the posterior, as computed by `wolf.influence.pif`.

    Args:
        contaminations: errors, (N,), or (N, 1) as for `pif`.
        curves: influence of each, (N,); or several by name, `{"KF": ..., "WoLF": ...}`.
        ax: axes to draw on; a new figure by default.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    errors = validation.number_array("contaminations", contaminations)
    errors = errors[:, 0] if errors.ndim == 2 and errors.shape[1] == 1 else errors
    if errors.ndim != 1 or not errors.size:
        raise ValueError(f"contaminations must be a line of errors, (N,) or (N, 1); got shape {errors.shape}")
    curves_by_name = dict(curves) if isinstance(curves, Mapping) else {"influence": curves}
    is_new = ax is None
    figure, ax = style.figure_and_axes(ax, 6.5, 3.8)
    colors = style.CYCLE[1:] if len(curves_by_name) == 1 else style.colors_of(curves_by_name)
    for color, (name, curve) in zip(colors, curves_by_name.items(), strict=False):
        values = validation.number_array(f"{name!r} of curves", curve)
        if values.shape != errors.shape:
            wanted = f"{len(errors)} values, one for each error"
            raise ValueError(f"{name!r} of curves must have {wanted}; got shape {values.shape}")
        ax.plot(errors, values, color=color, lw=1.8, label=name)
    ax.set_yscale("symlog", linthresh=1.0)
    ax.set_ylim(bottom=0)
    if is_new:
        style.dress(ax, grid="both")
        ax.margins(x=0)
        ax.set_xlabel("error of one measurement")
        ax.set_ylabel("influence (KL)")
        figure.legend(loc="outside upper left", ncols=6, frameon=False, fontsize=9, labelcolor=style.INK)
    return figure
