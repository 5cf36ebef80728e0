"""Figure of the estimated scale factors of R and Q over time."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from wolf.inference.noise import NoiseEstimate
from wolf.inference.noise.noise_estimate import FAR_OFF_FACTOR
from wolf.interfaces import NoiseModel
from wolf.plots import style
from wolf.results import Filtered, Smoothed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def levels(out: Filtered | Smoothed, ax: "Axes | None" = None, *, times: ArrayLike | None = None) -> "Figure":
    """Draw the estimated scale factors over time: of R for regular noise, and of Q.

    Both are 1 if R and Q are correct. Beyond a factor of ten, the grey area, the model should be corrected. Factors
    that are not estimated are omitted: that of Q if Q is 0 or `q_uncertainty` is, and for parameter models.

    Args:
        out: one series, by a method that estimates scale factors: "Adaptive".
        ax: axes to draw on; a new figure by default.
        times: values of the horizontal axis, (T,); 0, 1, ... by default.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    filtered = out.filtered if isinstance(out, Smoothed) else out
    if not isinstance(filtered, Filtered) or filtered.num_series is not None:
        raise ValueError("out must be one series from wolf.filter or wolf.smooth, such as out[0] of many")
    paths = paths_of(filtered)
    if not paths:
        kept = isinstance(filtered.saved, dict) and "noise_scales" in filtered.saved
        why = "learned: no measurement could be used" if kept else "kept; filter with method='Adaptive' and save='all'"
        raise ValueError(f"no levels were {why}")
    times = style.times_of(times, len(filtered))
    is_new = ax is None
    figure, ax = style.figure_and_axes(ax, 9.0, 2.6)
    for (name, path), color in zip(paths.items(), (style.ROBUST, style.KALMAN, *style.CYCLE[2:] * 9), strict=False):
        ax.plot(times, path, color=color, lw=1.5, label=name)
    all_values = np.concatenate([*paths.values(), [1.0 / 3.0, 3.0]])
    low, high = 0.8 * float(all_values.min()), 1.25 * float(all_values.max())
    ax.set_yscale("log")
    for edge, end in (
        (FAR_OFF_FACTOR, max(high, FAR_OFF_FACTOR)),
        (1.0 / FAR_OFF_FACTOR, min(low, 1.0 / FAR_OFF_FACTOR)),
    ):
        ax.axhspan(min(edge, end), max(edge, end), color=style.GRID, lw=0, zorder=0)
    ax.axhline(1.0, color=style.TRUTH, lw=1.2, zorder=1)
    ax.set_ylim(low, high)
    style.dress(ax)
    ax.margins(x=0.01)
    ax.set_ylabel("times R, times Q" if "dynamics, times Q" in paths else "times R")
    if is_new:
        ax.set_xlabel(style.title_of(times))
        figure.legend(loc="outside upper left", ncols=6, frameon=False, fontsize=9, labelcolor=style.INK)
    else:
        ax.legend(loc="upper right", ncols=2, frameon=False, fontsize=8, labelcolor=style.INK)
    return figure


def paths_of(out: Filtered) -> dict[str, np.ndarray]:
    """Return the estimated scale factors that were saved, (T,) each, by name; empty for other methods."""
    saved = out.saved if isinstance(out.saved, dict) else {}
    estimate = _noise_estimate(out) if "noise_scales" in saved else None
    if "noise_scales" not in saved or (estimate is not None and estimate.measured == 0):
        return {}
    paths = _noise_paths(np.asarray(saved["noise_scales"]), out.method.noise)
    if "dynamics_scales" in saved and (estimate is None or estimate.estimates_dynamics):
        paths["dynamics, times Q"] = np.asarray(saved["dynamics_scales"])
    return paths


def _noise_paths(scales: np.ndarray, rule: NoiseModel | None) -> dict[str, np.ndarray]:
    """Return the scale factor of R of each sensor, or the common one; coordinates of one sensor share it.

    Args:
        scales: scale factors, (T,) or (T, M).
        rule: noise model of the method.
    """
    columns = scales if scales.ndim == 2 else scales[:, None]
    assert rule is not None
    rows = rule.sensor_slices(columns.shape[1])
    firsts = [int(group[0]) for group in rows] if len(rows) > 1 else list(range(columns.shape[1]))
    if len(firsts) == 1:
        return {"noise, times R": columns[:, 0]}
    numbers = rule.sensor_numbers(len(firsts))
    return {f"noise of sensor {n}, times R": columns[:, j] for n, j in zip(numbers, firsts, strict=True)}


def _noise_estimate(out: Filtered) -> NoiseEstimate | None:
    """Return the noise estimate, of the first of several sensors, which share that of Q; None without one."""
    try:
        learned = out.learned_noise
    except ValueError:
        return None
    first = learned[0] if isinstance(learned, list) else learned
    return first if isinstance(first, NoiseEstimate) else None
