"""Pictures of the Lorenz96 experiments, from rows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from wolf.plots.style import KALMAN, TRUTH, dress, method_style, new_figure
from wolf_paper.figures import heading, plain_log
from wolf_paper.protocol import Row, Rows
from wolf_paper.uci_figures import bootstrap

METHODS = ("EnKF", "AP-EnKF", "PP-EnKF", "Hub-EnKF", "WoLF-EnKF (default)")
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
        for name in METHODS:
            mine, drawn = [row for row in table if row["method"] == name], method_style(name)
            ax.plot([r["step"] * dt for r in mine], [r["error"] for r in mine], color=drawn.color, ls=drawn.dash,
                    lw=1.2, label=name)  # fmt: skip
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
        for name in METHODS:
            shade, dash, marker = method_style(name)
            table = rows.get(f"{variant}-{size}-{name}", [])
            thresholds = sorted({row["c"] for row in table if row.get("c") is not None})
            if table and not thresholds:
                mean, low, high = bootstrap(_kept(table))
                ax.axhspan(low, high, color=shade, alpha=0.2, lw=0)
                ax.axhline(mean, color=shade, lw=1.6, ls=dash, label=name)
            elif thresholds:
                bands = [bootstrap(_kept(row for row in table if row["c"] == c)) for c in thresholds]
                means, low, high = np.array(bands).T
                ax.fill_between(thresholds, low, high, color=shade, alpha=0.2, lw=0)
                ax.plot(thresholds, means, color=shade, ls=dash, marker=marker, ms=4, lw=1.6, label=name)
        ax.set_yscale("log")
        plain_log(ax, "y")
        heading(ax, f"{TITLES[variant]}, {size} members")
        ax.set_xlabel("threshold c (measurement noise = 1)")
        dress(ax, grid="both")
    axes[0].set_ylabel("RMSE of the state, 95 % band (log scale)")
    axes[-1].legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9)
    return figure


def draw_inflations(means: Mapping[tuple[str, float], float], noise: float) -> Any:
    """Draw the mean error of small ensembles against the inflation of their members."""
    figure = new_figure(6.8, 3.9)
    ax = figure.subplots()
    for name in dict.fromkeys(name for name, _ in means):
        mine = [(inflation, error) for (other, inflation), error in means.items() if other == name]
        shade, dash, marker = method_style(name)
        ax.plot(*zip(*mine, strict=True), color=shade, ls=dash, marker=marker, ms=5, lw=1.4, label=name)
    ax.axhline(noise, color=TRUTH, lw=1.2, label="error of one measurement")
    ax.set_xscale("log")
    plain_log(ax)
    ax.set_ylim(0.0, None)
    ax.set_xlabel("factor on the members (log scale)")
    ax.set_ylabel("RMSE of the state")
    heading(ax, "20 members, 100 states, no localisation")
    dress(ax)
    ax.legend(frameon=False, fontsize=9, loc="lower right", bbox_to_anchor=(1.0, 0.15))
    return figure


def _kept(rows: Iterable[Row]) -> list[float]:
    """Take the errors of runs that did not come to NaN; of none, one that is drawn nowhere."""
    errors = [row["error"] for row in rows]
    return [error for error in errors if np.isfinite(error)] or [np.nan]
