"""What was learned about the noise, over time: the levels of R and of Q."""

from typing import Any

import numpy as np

from wolf.inference.noise import NoiseEstimate
from wolf.inference.noise.noise_estimate import FAR_OFF_FACTOR
from wolf.plots import style
from wolf.results import Filtered, Smoothed


def levels(out: Filtered | Smoothed, ax: Any = None, *, times: Any = None) -> Any:
    """Draw the levels that a method has learned: the size of ordinary noise over R, and the factor on Q.

    Where R and Q are right both lie at 1. Beyond a factor of ten, in the grey, the model should be mended. What is not
    learned is left out: the factor on Q where Q is 0 or `q_uncertainty` is, and for parameters.

    Args:
        out: one series, by a method that learns levels: "Adaptive".
        ax: axes to draw on; a new figure without.
        times: (T,), for the horizontal axis; 0, 1, ... without.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    filtered = out.filtered if isinstance(out, Smoothed) else out
    if not isinstance(filtered, Filtered) or filtered.num_series is not None:
        raise ValueError("out must be one series, from wolf.filter or wolf.smooth; pick one of many, as out[0]")
    paths = paths_of(filtered)
    if not paths:
        kept = isinstance(filtered.saved, dict) and "noise_scales" in filtered.saved
        why = "learned: no measurement could be used" if kept else "kept; filter with method='Adaptive' and save='all'"
        raise ValueError(f"no levels were {why}")
    times = style.times_of(times, len(filtered))
    fresh = ax is None
    figure = style.new_figure(9.0, 2.6, dpi=120) if fresh else style.figure_of(ax)
    ax = figure.add_subplot() if fresh else ax
    for (name, path), color in zip(paths.items(), (style.ROBUST, style.KALMAN, *style.CYCLE[2:] * 9), strict=False):
        ax.plot(times, path, color=color, lw=1.5, label=name)
    everything = np.concatenate([*paths.values(), [1.0 / 3.0, 3.0]])
    low, high = 0.8 * float(everything.min()), 1.25 * float(everything.max())
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
    if fresh:
        ax.set_xlabel(style.title_of(times))
        figure.legend(loc="outside upper left", ncols=6, frameon=False, fontsize=9, labelcolor=style.INK)
    else:
        ax.legend(loc="upper right", ncols=2, frameon=False, fontsize=8, labelcolor=style.INK)
    return figure


def paths_of(out: Filtered) -> dict[str, np.ndarray]:
    """List the levels that were learned and kept, (T,) each, by name; nothing of methods that learn none."""
    saved = out.saved if isinstance(out.saved, dict) else {}
    law = _law_of(out) if "noise_scales" in saved else None
    if "noise_scales" not in saved or (law is not None and law.measured == 0):
        return {}
    found = _noise_paths(np.asarray(saved["noise_scales"]), out.method.noise)
    if "dynamics_scales" in saved and (law is None or law.tells_dynamics):
        found["dynamics, times Q"] = np.asarray(saved["dynamics_scales"])
    return found


def _noise_paths(scales: np.ndarray, rule: Any) -> dict[str, np.ndarray]:
    """Give the level of each sensor: one for all, or by the first of its coordinates, which have the same.

    Args:
        scales: (T,) or (T, M).
        rule: of the method.
    """
    columns = scales if scales.ndim == 2 else scales[:, None]
    rows = rule.sensor_slices(columns.shape[1])
    firsts = [int(some[0]) for some in rows] if len(rows) > 1 else list(range(columns.shape[1]))
    if len(firsts) == 1:
        return {"noise, times R": columns[:, 0]}
    numbers = rule.sensor_numbers(len(firsts))
    return {f"noise of sensor {n}, times R": columns[:, j] for n, j in zip(numbers, firsts, strict=True)}


def _law_of(out: Filtered) -> NoiseEstimate | None:
    """Give what was learned, by the first of several sensors, which share q; None of a rule that tells no law."""
    try:
        learned = out.learned_noise
    except ValueError:
        return None
    first = learned[0] if isinstance(learned, list) else learned
    return first if isinstance(first, NoiseEstimate) else None
