"""Figures of twin experiments: fields in space and time, errors with outliers marked, rank histograms."""

from typing import TYPE_CHECKING

import numpy as np

from wolf import validation
from wolf.plots import style
from wolf.simulate.twin_experiment import Twin

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_OUTLIER_MARKS = 400  # outlier steps that are drawn individually


def hovmoller(twin: Twin, *, start: int = 0, stop: int | None = None, dt: float = 1.0) -> "Figure":
    """Draw truth, analysis and error of a ring of states in space and time, with marks at outlier steps.

    Args:
        twin: result of `wolf.twin.run`.
        start: first step.
        stop: step after the last; the end by default.
        dt: duration of a step, for the axis.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    _check("twin", twin)
    shown_steps = style.steps_of(start, stop)
    truth, means = twin.truth[shown_steps].T, twin.means[shown_steps].T
    outlier_steps = np.flatnonzero(twin.outliers[shown_steps])
    times = dt * (np.arange(truth.shape[1] + 1) + start)
    figure = style.new_figure(9.0, 6.6)
    axes = figure.subplots(3, 1, sharex=True)
    half_range = np.percentile(np.abs(truth - truth.mean()), 99.5)
    low, high = truth.mean() - half_range, truth.mean() + half_range
    max_error = max(float(np.percentile(np.abs(means - truth), 99.5)), 1e-12)
    panels = (
        ("truth", truth, "viridis", low, high),
        ("analysis", means, "viridis", low, high),
        ("analysis − truth", means - truth, "RdBu_r", -max_error, max_error),
    )
    for ax, (name, field, colours, bottom, top) in zip(axes, panels, strict=True):
        edges = np.arange(field.shape[0] + 1) - 0.5
        mesh = ax.pcolormesh(times, edges, field, cmap=colours, vmin=bottom, vmax=top, rasterized=True)
        style.dress(ax, grid=None)
        ax.set_ylabel("state")
        ax.set_title(name, loc="left", size=9.5, color=style.INK)
        bar = figure.colorbar(mesh, ax=ax, pad=0.01, extend="both")
        bar.outline.set_visible(False)
        bar.ax.tick_params(colors=style.QUIET, labelsize=8)
    if outlier_steps.size:
        level = np.full(outlier_steps.size, -0.07)
        transform = axes[-1].get_xaxis_transform()
        axes[-1].scatter(
            dt * (outlier_steps + start + 0.5),
            level,
            s=18,
            marker="^",
            color=style.KALMAN,
            transform=transform,
            clip_on=False,
        )
        axes[-1].set_title("▲ a measurement was an outlier", loc="right", size=9, color=style.KALMAN)
        axes[-1].tick_params(axis="x", pad=8)
    axes[-1].set_xlabel("step" if dt == 1.0 else "time")
    return figure


def errors(twins: dict[str, Twin] | Twin, *, start: int = 0, stop: int | None = None, dt: float = 1.0) -> "Figure":
    """Draw the error of one or several runs over time, with marks at outlier steps.

    Args:
        twins: result of `wolf.twin.run`; several by name, on the same data.
        start: first step.
        stop: step after the last; the end by default.
        dt: duration of a step, for the axis.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    by_name = twins if isinstance(twins, dict) and twins else {"RMSE": twins}
    runs = {name: _check("twins", run) for name, run in by_name.items()}
    shown_steps = style.steps_of(start, stop)
    first = next(iter(runs.values()))
    times = dt * (np.arange(len(first.rmse[shown_steps])) + start)
    outlier_steps = np.flatnonzero(first.outliers[shown_steps])
    figure = style.new_figure(9.0, 3.6)
    ax = figure.add_subplot()
    if 0 < outlier_steps.size <= MAX_OUTLIER_MARKS:
        ax.vlines(times[outlier_steps], 0, 1, transform=ax.get_xaxis_transform(), color=style.TRUTH, lw=0.8, zorder=1)
        ax.plot([], [], color=style.TRUTH, lw=2, label="a measurement was an outlier")
    colours = style.colors_of(runs) if len(runs) > 1 else [style.ROBUST]
    for colour, (name, run) in zip(colours, runs.items(), strict=True):
        average = run.scores["rmse"]
        ax.plot(times, run.rmse[shown_steps], color=colour, lw=1.3, label=f"{name}, mean {average:.3g}", zorder=3)
        if len(runs) == 1:
            ax.plot(times, run.spread[shown_steps], color=style.QUIET, lw=1.1, ls="--", label="spread", zorder=2)
    style.dress(ax)
    ax.set_yscale("log")
    ax.margins(x=0.01)
    ax.set_xlabel("step" if dt == 1.0 else "time")
    ax.set_ylabel("RMSE over the states")
    figure.legend(loc="outside upper left", ncols=4, frameon=False, fontsize=9, labelcolor=style.INK)
    return figure


def rank_histogram(twin: Twin) -> "Figure":
    """Draw the ranks of the truth among the members: flat if calibrated, U-shaped if the ensemble is overconfident.

    Args:
        twin: result of `wolf.twin.run` with an ensemble method.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    _check("twin", twin)
    if twin.ranks is None:
        raise ValueError("twin has no ranks, because the filter has no members; use an ensemble method")
    shares = twin.ranks / twin.ranks.sum() * len(twin.ranks)
    figure = style.new_figure(6.0, 3.2)
    ax = figure.add_subplot()
    ax.bar(np.arange(len(shares)), shares, width=0.9, color=style.ROBUST, lw=0)
    ax.axhline(1.0, color=style.INK, lw=1, ls="--")
    style.dress(ax)
    ax.set_ylim(0, max(1.5, 1.1 * shares.max()))
    ax.set_xlabel("members below the truth")
    ax.set_ylabel("frequency, flat = 1")
    return figure


def _check(name: str, twin: object) -> Twin:
    if not isinstance(twin, Twin):
        raise ValueError(f"{name} must be a result of wolf.twin.run; got {validation.short_repr(twin)}")
    return twin
