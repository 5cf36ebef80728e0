"""Pictures of the Lorenz96 experiments, from rows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from wolf.plots.style import KALMAN, ROBUST, TRUTH, dress, new_figure
from wolf_paper.figures import heading, plain_log
from wolf_paper.protocol import Row, Rows
from wolf_paper.uci_figures import bootstrap

COLOURS = {
    "EnKF": KALMAN,
    "AP-EnKF": ROBUST,
    "PP-EnKF": "#009e73",
    "Hub-EnKF": "#e69f00",
    "WoLF-EnKF (default)": "#56b4e9",
}
TITLES = {"printed": "As the paper prints it", "as-run": "As it was run"}
WINDOW = (50, 450)  # steps of a sample run that are shown


def draw_waves(rows: Rows, dt: float) -> Any:
    """Draw the ring through time, time upward, with a dot for each outlier."""
    steps, dim = max(row["step"] for row in rows), max(row["component"] for row in rows) + 1
    field = np.zeros((steps, dim))
    for row in rows:
        field[row["step"] - 1, row["component"]] = row["state"]
    figure = new_figure(6.4, 4.2)
    ax = figure.subplots()
    shown = ax.imshow(
        field, origin="lower", aspect="auto", cmap="cividis", extent=(-0.5, dim - 0.5, 0.5 * dt, (steps + 0.5) * dt)
    )
    wild = [row for row in rows if row["outlier"]]
    places = [row["component"] for row in wild], [row["step"] * dt for row in wild]
    ax.plot(*places, "o", color=KALMAN, ms=4, mec="white", mew=0.6, label="outlier")
    ax.set_xlabel("component of the state")
    ax.set_ylabel("time")
    figure.colorbar(shown, label="state")
    dress(ax, grid=None)
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, fontsize=9)
    return figure


def draw_runs(rows: Mapping[str, Rows], variants: Sequence[str], size: int, dt: float) -> Any:
    """Draw the error of one run of each method; steps with an outlier are grey lines."""
    figure = new_figure(9.0, 2.7 * len(variants) + 0.3)
    axes = figure.subplots(len(variants), 1, squeeze=False, sharex=True)[:, 0]
    for ax, variant in zip(axes, variants, strict=True):
        table = [row for row in rows.get(f"{variant}-{size}-sample", []) if WINDOW[0] <= row["step"] < WINDOW[1]]
        for row in table:
            if row["outlier"] and row["method"] == "EnKF":
                ax.axvline(row["step"] * dt, color=TRUTH, lw=0.8, zorder=0)
        for name, shade in COLOURS.items():
            mine = [row for row in table if row["method"] == name]
            ax.plot([r["step"] * dt for r in mine], [r["error"] for r in mine], color=shade, lw=1.2, label=name)
        heading(ax, f"{TITLES[variant]}, {size} members")
        ax.set_ylabel("RMSE of the state, $L_t$")
        ax.set_ylim(0.0, None)
        dress(ax)
    axes[-1].set_xlabel("time")
    axes[0].legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=5, frameon=False, fontsize=8.5, handlelength=1.4)
    return figure


def draw_thresholds(rows: Mapping[str, Rows], variants: Sequence[str], size: int) -> Any:
    """Draw the mean error over runs against the threshold, with a bootstrap band; lines for what has none."""
    figure = new_figure(4.5 * len(variants) + 1.9, 3.9)
    axes = figure.subplots(1, len(variants), squeeze=False)[0]
    for ax, variant in zip(axes, variants, strict=True):
        for name, shade in COLOURS.items():
            table = rows.get(f"{variant}-{size}-{name}", [])
            thresholds = sorted({row["c"] for row in table if row.get("c") is not None})
            if table and not thresholds:
                mean, low, high = bootstrap(_kept(table))
                ax.axhspan(low, high, color=shade, alpha=0.2, lw=0)
                ax.axhline(mean, color=shade, lw=1.6, ls="--", label=name)
            elif thresholds:
                bands = [bootstrap(_kept(row for row in table if row["c"] == c)) for c in thresholds]
                means, low, high = np.array(bands).T
                ax.fill_between(thresholds, low, high, color=shade, alpha=0.2, lw=0)
                ax.plot(thresholds, means, "o-", color=shade, ms=3.5, lw=1.6, label=name)
        ax.set_yscale("log")
        plain_log(ax, "y")
        heading(ax, f"{TITLES[variant]}, {size} members")
        ax.set_xlabel("threshold c (measurement noise = 1)")
        dress(ax, grid="both")
    axes[0].set_ylabel("RMSE of the state, 95 % band (log scale)")
    axes[-1].legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9)
    return figure


def _kept(rows: Iterable[Row]) -> list[float]:
    """Take the errors of runs that did not come to NaN; of none, one that is drawn nowhere."""
    errors = [row["error"] for row in rows]
    return [error for error in errors if np.isfinite(error)] or [np.nan]
