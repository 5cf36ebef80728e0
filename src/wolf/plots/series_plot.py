"""Figure of one state over time: estimate, uncertainty, and measurements with outliers."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.plots import style
from wolf.plots.noise_scales import levels, paths_of
from wolf.results import Filtered, Smoothed
from wolf.statespace import LinearModel, Model
from wolf.statespace.names import find_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def series(
    out: Filtered | Smoothed,
    ys: ArrayLike | None = None,
    truth: ArrayLike | None = None,
    coordinate: int | str = 0,
    ax: "Axes | None" = None,
    *,
    times: ArrayLike | None = None,
    label: str | None = None,
    color: str = style.ROBUST,
) -> "Figure":
    """Draw one state with a band of two standard deviations.

    Measurements are dots, rejected ones (w² < 1/2) crosses, missing ones ticks at the bottom. The vertical range is
    that of the estimate: values outside are marked at the edge and counted, so that extreme values do not flatten the
    rest.

    Args:
        out: one series, from `wolf.filter` or `wolf.smooth`.
        ys: measurements, (T, M), or (T,) for those of this state.
        truth: true states, (T, D), or (T,) for this one.
        coordinate: number or name of the state.
        ax: axes to draw on; a new figure by default.
        times: values of the horizontal axis, (T,); 0, 1, ... by default.
        label: label of the estimate in the legend.
        color: colour of the estimate.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    filtered = out.filtered if isinstance(out, Smoothed) else out
    _check(filtered)
    coordinate = find_name("coordinate", coordinate, filtered.state_names, filtered.means.shape[-1])
    means, deviations = out.means[:, coordinate], np.sqrt(out.covs[:, coordinate, coordinate])
    times = style.times_of(times, len(means))
    is_new = ax is None
    figure, ax = style.figure_and_axes(ax, 9.0, 3.6)

    shown = [means]
    if truth is not None:
        path = validation.number_array("truth", truth)
        if path.ndim == 2 and path.shape[1] == out.means.shape[1]:
            path = path[:, coordinate]
        _check_length("truth", path, times)
        ax.plot(times, path, color=style.TRUTH, lw=4, solid_capstyle="round", label="truth", zorder=2)
        shown.append(path)
    if ys is not None:
        values, outliers = _measured(filtered, ys, coordinate)
        _check_length("ys", values, times)
        shown.append(values[~outliers])
    max_band = 2 * style.BAND * np.median(deviations)  # a band that is wide for a few steps does not set the scale
    shown += [
        means - np.minimum(style.BAND * deviations, max_band),
        means + np.minimum(style.BAND * deviations, max_band),
    ]
    low, high = style.limits(*shown)

    band(ax, times, means, deviations, color, label or "estimate, ± 2 standard deviations")
    if ys is not None:
        draw_measurements(ax, times, values, outliers, low, high)
    ax.set_ylim(low, high)
    if is_new:
        style.dress(ax)
        ax.margins(x=0.01)
        ax.set_xlabel(style.title_of(times))
        ax.set_ylabel(_title(filtered, coordinate))
        figure.legend(loc="outside upper left", ncols=6, frameon=False, fontsize=9, labelcolor=style.INK)
    return figure


def with_measurements(
    out: Filtered | Smoothed, coordinate: int | str = 0, with_levels: bool | None = None, **options: Any
) -> "Figure":
    """Draw one state as `series` does, with its measurements if one reads it directly, and dates if they are known.

    Args:
        out: one series.
        coordinate: number or name of the state.
        with_levels: whether to draw the estimated scale factors of R and Q below; by default if that of Q was estimated
            and no axes are given.
        **options: options of `series`.
    """
    filtered = out.filtered if isinstance(out, Smoothed) else out
    _check(filtered)
    coordinate = find_name("coordinate", coordinate, filtered.state_names, filtered.means.shape[-1])
    times = style.index_times(filtered.index)
    if times is not None:
        options.setdefault("times", times)
    if "ys" not in options:
        try:
            _column(filtered.model, coordinate, filtered.model.obs_dim)
            options["ys"] = filtered.ys
        except ValueError:  # e.g. a velocity, which is measured indirectly
            options["ys"] = None
    if with_levels is None:
        with_levels = "ax" not in options and "dynamics, times Q" in paths_of(filtered)
    return _with_levels(out, coordinate, options) if with_levels else series(out, coordinate=coordinate, **options)


def _title(out: Filtered, coordinate: int) -> str:
    return out.state_names[coordinate] if out.state_names else f"state {coordinate}"


def _with_levels(out: Filtered | Smoothed, coordinate: int, options: dict[str, Any]) -> Any:
    """Draw the state, and below it the estimated scale factors."""
    if "ax" in options:
        raise ValueError("with_levels needs a new figure: omit ax, or use wolf.plots.levels(out, ax)")
    figure = style.new_figure(9.0, 5.4)
    top, below = figure.subplots(2, 1, sharex=True, height_ratios=[2.2, 1.0])
    series(out, coordinate=coordinate, ax=top, **options)
    style.dress(top)
    top.set_ylabel(_title(out.filtered if isinstance(out, Smoothed) else out, coordinate))
    levels(out, below, times=options.get("times"))
    below.set_xlabel(style.title_of(style.times_of(options.get("times"), len(out.means))))
    figure.legend(*top.get_legend_handles_labels(), loc="outside upper left", ncols=6, frameon=False, fontsize=9,
                  labelcolor=style.INK)  # fmt: skip
    return figure


def band(ax: "Axes", times: np.ndarray, means: np.ndarray, deviations: np.ndarray, color: str, label: str) -> None:
    """Draw an estimate with its uncertainty."""
    half = style.BAND * deviations
    ax.fill_between(times, means - half, means + half, color=color, alpha=0.18, lw=0, zorder=3)
    ax.plot(times, means, color=color, lw=1.5, label=label, zorder=4)


def draw_measurements(
    ax: "Axes", times: np.ndarray, values: np.ndarray, outliers: np.ndarray, low: float, high: float
) -> None:
    """Draw the measurements between `low` and `high`, with outliers, and mark those outside."""
    missing = np.isnan(values)
    inside = (values >= low) & (values <= high)
    accepted, rejected = inside & ~outliers, inside & outliers
    ax.scatter(times[accepted], values[accepted], s=9, color=style.DOTS, lw=0, label="measurement", zorder=3)
    if outliers.any():
        ax.scatter(
            times[rejected], values[rejected], s=26, marker="x", color=style.INK, lw=1.2, label="outlier", zorder=6
        )
    if missing.any():
        bottom_values = np.full(missing.sum(), low)
        ax.scatter(times[missing], bottom_values, s=40, marker="|", color=style.QUIET, lw=1, label="missing", zorder=6)
    outside = style.edge_marks(ax, times, np.where(missing, 0.5 * (low + high), values), low, high, style.INK)
    style.remark_outside(ax, outside)


def _measured(out: Filtered, ys: ArrayLike, coordinate: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the measurements of one state, and which of them were rejected."""
    values = validation.number_array("ys", ys)
    if values.ndim not in (1, 2) or (values.ndim == 2 and values.shape[1] != out.model.obs_dim):
        raise ValueError(f"ys must have shape (T, {out.model.obs_dim}), or (T,); got {values.shape}")
    outliers = np.asarray(out.outliers)
    if values.ndim == 1:
        return values, outliers if outliers.ndim == 1 else np.asarray(outliers.any(axis=1))
    column = _column(out.model, coordinate, values.shape[1])
    return values[:, column], outliers if outliers.ndim == 1 else outliers[:, column]


def _column(model: Model, coordinate: int, size: int) -> int:
    """Find the measurement that equals a state plus noise."""
    if size == 1 and not isinstance(model, LinearModel):
        return 0
    if isinstance(model, LinearModel):
        matrices = model.H if model.H.ndim == 3 else model.H[None]
        direct = np.flatnonzero((matrices[:, :, coordinate] == 1.0).all(axis=0))
        if direct.size:
            return int(direct[0])
    raise ValueError(f"no measurement reads state {coordinate} directly; pass its values as ys (T,), or omit ys")


def _check(out: Filtered) -> None:
    if not isinstance(out, Filtered):
        raise ValueError(f"out must be a result of wolf.filter or wolf.smooth; got {type(out).__name__}")
    if out.num_series is not None:
        raise ValueError("out must be one series; pick one of many, e.g. out[0]")


def _check_length(name: str, values: np.ndarray, times: np.ndarray) -> None:
    if values.shape != times.shape:
        raise ValueError(f"{name} must have {len(times)} rows, like the result; got shape {values.shape}")
