"""Pictures of twin experiments: fields in space and time, errors with outliers marked, rank histograms."""

from typing import Any

import numpy as np

from wolf import validation
from wolf.plots import style
from wolf.simulate.twin_experiment import Twin

MOST_MARKS = 400  # outlier steps that are still drawn one by one


def hovmoller(twin: Any, *, start: int = 0, stop: int | None = None, dt: float = 1.0) -> Any:
    """Draw truth, analysis and error of a ring of states in space and time; outlier steps are ticks below.

    Args:
        twin: from `wolf.twin.run`.
        start: first step shown.
        stop: step before which to stop; the end without.
        dt: time of a step, for the axis.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    _check("twin", twin)
    here = style.steps_of(start, stop)
    truth, means = twin.truth[here].T, twin.means[here].T
    struck = np.flatnonzero(twin.outliers[here])
    times = dt * (np.arange(truth.shape[1] + 1) + start)
    figure = style.new_figure(9.0, 6.6, dpi=120)
    axes = figure.subplots(3, 1, sharex=True)
    reach = np.percentile(np.abs(truth - truth.mean()), 99.5)
    low, high = truth.mean() - reach, truth.mean() + reach
    wrong = max(float(np.percentile(np.abs(means - truth), 99.5)), 1e-12)
    panels = (
        ("truth", truth, "viridis", low, high),
        ("analysis", means, "viridis", low, high),
        ("analysis − truth", means - truth, "RdBu_r", -wrong, wrong),
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
    if struck.size:
        level = np.full(struck.size, -0.07)
        transform = axes[-1].get_xaxis_transform()
        axes[-1].scatter(
            dt * (struck + start + 0.5), level, s=18, marker="^", color=style.KALMAN, transform=transform, clip_on=False
        )
        axes[-1].set_title("▲ a measurement was an outlier", loc="right", size=9, color=style.KALMAN)
        axes[-1].tick_params(axis="x", pad=8)
    axes[-1].set_xlabel("step" if dt == 1.0 else "time")
    return figure


def errors(twins: dict[str, Any] | Any, *, start: int = 0, stop: int | None = None, dt: float = 1.0) -> Any:
    """Draw the error of one or several runs in time, with steps that had outliers marked.

    Args:
        twins: from `wolf.twin.run`; several by name, on the same data.
        start: first step shown.
        stop: step before which to stop; the end without.
        dt: time of a step, for the axis.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    runs = twins if isinstance(twins, dict) and twins else {"RMSE": twins}
    for run in runs.values():
        _check("twins", run)
    here = style.steps_of(start, stop)
    first = next(iter(runs.values()))
    times = dt * (np.arange(len(first.rmse[here])) + start)
    struck = np.flatnonzero(first.outliers[here])
    figure = style.new_figure(9.0, 3.6, dpi=120)
    ax = figure.add_subplot()
    if 0 < struck.size <= MOST_MARKS:
        ax.vlines(times[struck], 0, 1, transform=ax.get_xaxis_transform(), color=style.TRUTH, lw=0.8, zorder=1)
        ax.plot([], [], color=style.TRUTH, lw=2, label="a measurement was an outlier")
    colours = style.CYCLE if len(runs) > 1 else (style.ROBUST,)
    for i, (name, run) in enumerate(runs.items()):
        colour = colours[i % len(colours)]
        average = run.scores["rmse"]
        ax.plot(times, run.rmse[here], color=colour, lw=1.3, label=f"{name}, mean {average:.3g}", zorder=3)
        if len(runs) == 1:
            ax.plot(times, run.spread[here], color=style.QUIET, lw=1.1, ls="--", label="spread", zorder=2)
    style.dress(ax)
    ax.set_yscale("log")
    ax.margins(x=0.01)
    ax.set_xlabel("step" if dt == 1.0 else "time")
    ax.set_ylabel("RMSE over the states")
    figure.legend(loc="outside upper left", ncols=4, frameon=False, fontsize=9, labelcolor=style.INK)
    return figure


def rank_histogram(twin: Any) -> Any:
    """Draw where the truth falls among the members: flat if the ensemble is honest, a valley if it is too sure.

    Args:
        twin: from `wolf.twin.run`, by a filter with members.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    _check("twin", twin)
    if twin.ranks is None:
        raise ValueError("this filter has no members, so the truth has no rank among them; use an ensemble method")
    shares = twin.ranks / twin.ranks.sum() * len(twin.ranks)
    figure = style.new_figure(6.0, 3.2, dpi=120)
    ax = figure.add_subplot()
    ax.bar(np.arange(len(shares)), shares, width=0.9, color=style.ROBUST, lw=0)
    ax.axhline(1.0, color=style.INK, lw=1, ls="--")
    style.dress(ax)
    ax.set_ylim(0, max(1.5, 1.1 * shares.max()))
    ax.set_xlabel("members below the truth")
    ax.set_ylabel("frequency, flat = 1")
    return figure


def _check(name: str, twin: Any) -> None:
    if not isinstance(twin, Twin):
        raise ValueError(f"{name} must be what wolf.twin.run returned; got {validation.short_repr(twin)}")
