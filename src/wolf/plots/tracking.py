"""Figures of tracks in the plane, and of two filters compared on them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.plots import style
from wolf.plots.series_plot import band
from wolf.results import Filtered

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

DETAIL_STEPS = 150  # steps of a run that a comparison shows in detail
MAX_ERROR_STDS = 5.0  # range of the axis of errors, in noise standard deviations to either side
MAP_MARGIN = 0.15  # share of the range of a path that is added on both sides
MAX_DISTANCE_WIDTHS = 100.0  # widths of a path beyond which a measurement is not drawn
MIN_VISIBLE_SHARE = 0.01  # share of the width of a map that makes an error visible


class Track(NamedTuple):
    """One simulated run, and the estimates of two filters.

    Attributes:
        title: what is wrong with the data.
        truth: states, (T, D), positions first.
        ys: measured positions, (T, 2).
        outliers: (T,) bool, as simulated.
        kalman: result of the Kalman filter.
        robust: result of the robust one.
    """

    title: str
    truth: np.ndarray
    ys: np.ndarray
    outliers: np.ndarray
    kalman: Filtered
    robust: Filtered


def paths(
    outs: Filtered | Mapping[str, Filtered],
    ys: ArrayLike | None = None,
    truth: ArrayLike | None = None,
    coordinates: tuple[int, int] = (0, 1),
    ax: "Axes | None" = None,
    *,
    outliers: ArrayLike | None = None,
    colors: Sequence[str] | None = None,
) -> "Figure":
    """Draw estimated tracks in the plane of two states.

    The range is that of the truth (or of the last estimate); the number of measurements outside is written above.

    Args:
        outs: a result of `wolf.filter`, or several by name, `{"KF": ..., "WoLF": ...}`.
        ys: measurements of these two states, (T, 2).
        truth: true states, (T, D).
        coordinates: indices of the two states.
        ax: axes to draw on; a new figure by default.
        outliers: measurements drawn as crosses, (T,) of bool; by default those rejected by the last result.
        colors: one colour per result; by default the baseline first.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    by_name = outs if isinstance(outs, Mapping) and outs else {"estimate": outs}
    named = {name: out for name, out in by_name.items() if isinstance(out, Filtered) and out.num_series is None}
    if len(named) < len(by_name):
        raise ValueError("outs must be one series from wolf.filter, or a dict of series by name")
    last = list(named.values())[-1]
    pick = _two_states(coordinates, last.means.shape[1])
    known = last.means if truth is None else validation.number_array("truth", truth)
    if known.ndim != 2 or known.shape[1] <= max(pick):
        raise ValueError(f"truth must have shape (T, D), with states {pick} in it; got {known.shape}")
    frame = known[:, pick]
    fresh = ax is None
    figure, ax = style.figure_and_axes(ax, 6.5, 5.5)

    if truth is not None:
        ax.plot(*frame.T, color=style.TRUTH, lw=5, solid_capstyle="round", label="truth", zorder=1)
    colors = (style.CYCLE[1:] if len(named) == 1 else style.CYCLE) if colors is None else colors
    for (name, out), color in zip(named.items(), colors, strict=False):
        ax.plot(*out.means[:, pick].T, color=color, lw=1.3, label=name, zorder=4, solid_joinstyle="round")
    if ys is not None:
        points = validation.number_array("ys", ys)
        if points.shape != (len(frame), 2):
            raise ValueError(f"ys must have shape ({len(frame)}, 2), like the result; got {points.shape}")
        flags = np.asarray(last.outliers if outliers is None else outliers)
        flags = flags if flags.ndim == 1 else np.asarray(flags.any(axis=1))
        drawn = _drawable(points, frame)
        x, y = points[drawn & ~flags].T
        ax.scatter(x, y, s=6, color=style.DOTS, lw=0, label="measurement", zorder=2)
        x, y = points[drawn & flags].T
        ax.scatter(x, y, s=14, marker="x", color=style.INK, lw=0.9, label="outlier", zorder=5)
    if fresh:
        style.dress(ax, grid="both")
        ax.set_xlabel(f"state {pick[0]}")
        ax.set_ylabel(f"state {pick[1]}")
        figure.legend(loc="outside upper left", ncols=5, frameon=False, fontsize=9, labelcolor=style.INK)
        settle_maps([(ax, frame)])
        ax.set_aspect("equal")
        style.remark_outside(ax, 0 if ys is None else count_outside(ax, points))
    else:
        ax.set_xlim(*style.limits(frame[:, 0], margin=MAP_MARGIN))
        ax.set_ylim(*style.limits(frame[:, 1], margin=MAP_MARGIN))
        ax.set_aspect("equal")
    return figure


def _two_states(coordinates: tuple[int, int], size: int) -> list[int]:
    """Validate the indices of the two states."""
    if not isinstance(coordinates, tuple | list) or len(coordinates) != 2:
        raise ValueError(
            f"coordinates must be indices of two states, such as (0, 1); got {validation.short_repr(coordinates)}"
        )
    return [validation.integer("each of coordinates", each, most=size - 1) for each in coordinates]


def settle_maps(maps: Sequence[tuple["Axes", np.ndarray]]) -> None:
    """Set limits that fill maps at equal scales, after the rest of the figure has been laid out.

    Args:
        maps: axes, and the path that they must hold, (T, 2).
    """
    for ax, _ in maps:
        ax.set_aspect("auto")
    for _ in range(2):  # new limits change the tick labels, which move the axes slightly
        maps[0][0].figure.figure.draw_without_rendering()
        for ax, frame in maps:
            low, high = _equal_limits(ax, frame)
            ax.set_xlim(low[0], high[0])
            ax.set_ylim(low[1], high[1])


def count_outside(ax: "Axes", ys: np.ndarray) -> int:
    """Count the measurements beyond the axes."""
    low, high = np.transpose([ax.get_xlim(), ax.get_ylim()])
    return int(np.sum(((ys < low) | (ys > high)).any(axis=1)))


def _drawable(ys: np.ndarray, frame: np.ndarray) -> np.ndarray:
    """Return which values are near enough to a map not to overflow its transforms."""
    ranges = np.array([style.limits(values) for values in frame.T])
    return (np.abs(ys - ranges.mean(axis=1)) < MAX_DISTANCE_WIDTHS * np.ptp(ranges, axis=1).max()).all(axis=1)


def _equal_limits(ax: "Axes", frame: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    box = ax.get_window_extent()
    ranges = np.array([style.limits(values, margin=MAP_MARGIN) for values in frame.T])
    sizes = np.array([box.width, box.height])
    half = 0.5 * sizes * np.max(np.ptp(ranges, axis=1) / sizes)  # times units per pixel
    return ranges.mean(axis=1) - half, ranges.mean(axis=1) + half


def comparison(tracks: Sequence[Track], heading: str, remark: str, noise_sd: float) -> "Figure":
    """Draw two filters on the same runs: the map, the error of an interval with 2σ bands, and the weights.

    Args:
        tracks: runs, one column each.
        heading: title of the figure.
        remark: subtitle of the figure.
        noise_sd: standard deviation of a measurement; sets the scale of the errors.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    figure = style.new_figure(5.2 * len(tracks), 9.2, dpi=150)
    parts: Any = figure.subfigures(2, 1, height_ratios=[1.08, 8])
    head, body = parts
    _draw_heading(head, heading, remark)
    axes = body.subplots(3, len(tracks), squeeze=False, height_ratios=[4.0, 2.6, 1.1])
    layout: Any = figure.get_layout_engine()
    layout.set(w_pad=0.08, h_pad=0.04, hspace=0.02, wspace=0.04)
    maps = [_draw_column(axes[:, column], track, noise_sd) for column, track in enumerate(tracks)]
    settle_maps([(ax, track.truth[mapped, :2]) for ax, track, mapped in maps])
    for ax, track, mapped in maps:
        _describe_map(ax, track, mapped)
    return figure


def _draw_heading(head: "SubFigure", heading: str, remark: str) -> None:
    from matplotlib.lines import Line2D

    head.text(0.012, 0.93, heading, size=16, weight="bold", color=style.INK, va="top")
    head.text(0.012, 0.60, remark, size=10, color=style.QUIET, va="top")
    keys = [
        Line2D([], [], color=style.TRUTH, lw=5, label="true path"),
        Line2D([], [], color=style.KALMAN, lw=2, label="Kalman filter"),
        Line2D([], [], color=style.ROBUST, lw=2, label="WoLF, default settings"),
        Line2D([], [], color=style.DOTS, lw=0, marker="o", ms=3.5, mew=0, label="measurement"),
        Line2D([], [], color=style.INK, lw=0, marker="x", ms=5, mew=1.1, label="outlier"),
        Line2D([], [], color=style.INK, lw=0, marker="^", ms=5, mew=0, label="beyond the axis"),
    ]
    head.legend(
        handles=keys,
        loc="lower left",
        bbox_to_anchor=(0.007, 0.04),
        borderpad=0,
        ncols=len(keys),
        frameon=False,
        fontsize=10,
        labelcolor=style.INK,
        handlelength=1.5,
        columnspacing=1.5,
    )


def _draw_column(axes: np.ndarray, track: Track, noise_sd: float) -> tuple["Axes", Track, slice]:
    """Draw one run; return its map, and the part of the run that is shown."""
    plane, errors, weights = axes
    gross = np.linalg.norm(track.ys - track.truth[:, :2], axis=1) > MAX_ERROR_STDS * noise_sd
    stretch = busiest(gross, DETAIL_STEPS)
    mapped = _mapped(track, stretch)
    _draw_map(plane, track, mapped)
    times = np.arange(stretch.start, stretch.stop)
    _draw_errors(errors, times, stretch, track, noise_sd)
    _draw_weights(weights, times, stretch, track)
    weights.set_xlabel("step")
    errors.sharex(weights)
    errors.tick_params(labelbottom=False)
    weights.set_xlim(times[0] - 1, times[-1] + 1)
    return plane, track, mapped


def _mapped(track: Track, stretch: slice) -> slice:
    """Draw the map of the whole run if the Kalman filter's error is visible at that scale, else of the interval."""
    error = np.sqrt(np.mean((track.kalman.means - track.truth)[:, :2] ** 2))
    return (
        slice(0, len(track.truth)) if error > MIN_VISIBLE_SHARE * np.ptp(track.truth[:, :2], axis=0).max() else stretch
    )


def _draw_map(ax: "Axes", track: Track, mapped: slice) -> None:
    named = {"KF": track.kalman[mapped], "WoLF": track.robust[mapped]}
    truth, ys, flags = track.truth[mapped], track.ys[mapped], track.outliers[mapped]
    paths(named, ys, truth, ax=ax, outliers=flags, colors=(style.KALMAN, style.ROBUST))
    style.dress(ax, grid="both")
    ax.set_title(track.title, loc="left", size=12, weight="bold", color=style.INK, pad=36)
    kalman, robust = (f"{_error(out.means, track.truth):.1f}" for out in (track.kalman, track.robust))
    pieces = [("Position error of this run:  ", style.QUIET), (f"Kalman {kalman}", style.KALMAN)]
    _write(ax, 1.085, [*pieces, (",  ", style.QUIET), (f"WoLF {robust}", style.ROBUST)])


def _describe_map(ax: "Axes", track: Track, mapped: slice) -> None:
    whole = mapped.stop - mapped.start == len(track.truth)
    steps = f"all {len(track.truth)} steps" if whole else f"steps {mapped.start} to {mapped.stop - 1}"
    outside = count_outside(ax, track.ys[mapped])
    are = "measurement is" if outside == 1 else "measurements are"
    rest = f"; {outside} {are} outside it" if outside else ""
    _write(ax, 1.015, [(f"Map of {steps}{rest}", style.QUIET)])


def _draw_errors(ax: "Axes", times: np.ndarray, span: slice, track: Track, noise_sd: float) -> None:
    reach = MAX_ERROR_STDS * noise_sd
    truth = track.truth[span, 0]
    ax.axhline(0, color=style.TRUTH, lw=4, zorder=1)
    for out, color in ((track.kalman, style.KALMAN), (track.robust, style.ROBUST)):
        band(ax, times, out.means[span, 0] - truth, np.sqrt(out.covs[span, 0, 0]), color, "")
    values, flags = track.ys[span, 0] - truth, track.outliers[span]
    ax.scatter(times[~flags], values[~flags], s=7, color=style.DOTS, lw=0, zorder=2)
    inside = flags & (np.abs(values) <= reach)
    ax.scatter(times[inside], values[inside], s=18, marker="x", color=style.INK, lw=1.0, zorder=6)
    style.edge_marks(ax, times, values, -reach, reach, style.INK)
    ax.set_ylim(-reach, reach)
    style.dress(ax)
    _write(ax, 1.02, [("Error of the first coordinate, with ± 2 standard deviations", style.QUIET)])


def _draw_weights(ax: "Axes", times: np.ndarray, span: slice, track: Track) -> None:
    values, flags = track.robust.weights[span], track.outliers[span]
    values = values if values.ndim == 1 else values.min(axis=1)
    ax.vlines(times, values, 1.0, color=style.ROBUST, lw=1.1, alpha=0.45, zorder=2)
    ax.scatter(times[~flags], values[~flags], s=6, color=style.ROBUST, lw=0, zorder=3)
    ax.scatter(times[flags], values[flags], s=18, marker="x", color=style.INK, lw=1.0, zorder=4)
    ax.set_ylim(-0.1, 1.08)
    ax.set_yticks([0, 0.5, 1])
    style.dress(ax)
    _write(ax, 1.04, [("Weight w that WoLF gives: 1 believes a measurement, 0 ignores it", style.QUIET)])


def _write(ax: "Axes", height: float, pieces: Sequence[tuple[str, str]]) -> None:
    """Write a line of text in several colours above the axes."""
    from matplotlib.offsetbox import AnnotationBbox, HPacker, TextArea

    texts: list[Artist] = [TextArea(words, textprops={"color": color, "size": 9.5}) for words, color in pieces]
    line = AnnotationBbox(
        HPacker(children=texts, pad=0, sep=0),
        (0, height),
        xycoords="axes fraction",
        box_alignment=(0, 0),
        frameon=False,
        pad=0,
    )
    ax.add_artist(line)


def _error(means: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.sum((means - truth)[:, :2] ** 2, axis=1))))


def busiest(flags: np.ndarray, length: int) -> slice:
    """Find the interval of a run with the most flags; the earliest if there are several.

    Example:
        >>> busiest(np.array([0, 0, 1, 0, 1, 1, 0], bool), 3)
        slice(2, 5, None)
    """
    if len(flags) <= length:
        return slice(0, len(flags))
    counts = np.convolve(flags, np.ones(length), "valid").round()
    start = int(np.argmax(counts))
    return slice(start, start + length)
