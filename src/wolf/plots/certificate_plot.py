"""Figure of a certificate: worst single error, recovery after a jump, error under outliers."""

from typing import TYPE_CHECKING, Any

import numpy as np

from wolf.diagnostics.certificate.certificate import Certificate
from wolf.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_ERROR_RATIO = 30.0  # error ratio at which the axis ends; larger errors count as divergence


def certificate(result: Certificate) -> "Figure":
    """Draw a certificate.

    Left, the influence of one error in the worst direction as a function of its size, and that of a Kalman filter;
    then, if they were simulated, the recovery times after a jump of the state, and the error under gross outliers.

    Args:
        result: result of `wolf.certify`.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    if not isinstance(result, Certificate):
        raise ValueError(f"certificate needs a result of wolf.certify; got {type(result).__name__}")
    curves = result.curves
    draws = [_influence] + ([_jumps] if curves.get("jumps") else []) + ([_breakdown] if "breakdown" in curves else [])
    figure = style.new_figure(0.5 + 4.0 * len(draws), 3.9)
    for ax, draw in zip(np.ravel(figure.subplots(1, len(draws))), draws, strict=True):
        style.dress(ax, grid="both")
        draw(ax, curves)
        place = "upper right" if draw is _influence else "upper left"
        ax.legend(frameon=False, fontsize=9, labelcolor=style.INK, loc=place)
    return figure


def _influence(ax: "Axes", curves: dict[str, Any]) -> None:
    radii, values, kalman = curves["radii"], curves["influence"], curves["kalman"]
    shown = (radii >= 0.1) & (radii <= 1e4)
    ax.plot(radii[shown], kalman[shown], color=style.KALMAN, lw=1.6, label="Kalman filter")
    ax.plot(radii[shown], values[shown], color=style.ROBUST, lw=2, label="this method")
    radius, peak = curves["peak"]
    bounded = np.isfinite(peak)
    if bounded and np.isfinite(radius):
        ax.scatter([radius], [peak], s=30, color=style.ROBUST, zorder=5)
    if bounded:
        place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "xytext": (0, 4)}
        ax.annotate(f"at most {peak:.3g}", (0.97, peak), **place, ha="right", color=style.ROBUST, size=9.5)
    ax.set(xscale="log", xlim=(0.1, 1e4), ylim=(0, 4.0 * peak if bounded else 1e3))
    ax.set_xlabel("error of one measurement, in standard deviations")
    ax.set_ylabel("influence, in nats")
    ax.set_title("One error", loc="left", size=11, color=style.INK)


def _jumps(ax: "Axes", curves: dict[str, Any]) -> None:
    colors = (style.ROBUST, *style.CYCLE[2:])
    any_lost = False
    for color, (name, (sizes, steps, largest)) in zip(colors, curves["jumps"].items(), strict=False):
        back = sizes <= largest
        ax.plot(sizes[back], steps[back], color=color, lw=2, marker="o", ms=3, label=name)
        if largest < sizes[-1]:
            ax.axvline(largest, color=color, lw=1.2, ls="--", zorder=2)
            any_lost = True
    if any_lost:
        ax.plot([], [], color=style.QUIET, lw=1.2, ls="--", label="no recovery beyond")
    ax.set(xscale="log", ylim=(0, None))
    ax.margins(y=0.15)
    ax.set_xlabel("jump of the state, in sd of the prediction")
    ax.set_ylabel("steps until 95 % of trials recover")
    ax.set_title("After a jump", loc="left", size=11, color=style.INK)


def _breakdown(ax: "Axes", curves: dict[str, Any]) -> None:
    shares, ratios, largest = curves["breakdown"]
    ax.plot(
        100 * shares,
        np.minimum(ratios, 2 * MAX_ERROR_RATIO),
        color=style.ROBUST,
        lw=2,
        label="error, relative to clean data",
    )
    if largest < shares[-1]:
        ax.axvline(
            100 * largest, color=style.ROBUST, lw=1.2, ls="--", zorder=2, label=f"breaks down at {100 * largest:.2g} %"
        )
    ax.set(yscale="log", ylim=(0.8, MAX_ERROR_RATIO))
    ax.set_yticks([1, 3, 10, 30], ["1", "3", "10", "30"])
    ax.minorticks_off()
    ax.set_xlabel("gross outliers, in %")
    ax.set_ylabel("95 % quantile of trials")
    ax.set_title("Under gross outliers", loc="left", size=11, color=style.INK)
