"""Figures of the 2-D tracking experiments, from their rows."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from wolf.plots import style
from wolf_paper import figures
from wolf_paper.protocol import Rows
from wolf_paper.tracking import BOUNDS, COMPONENTS, OURS, PRINTED, RUN, TITLES

STEPS_SHOWN = (200, 400)  # of the weight traces, as in the paper
MARGIN = 0.12  # of the true path's range, around a cropped panel
PAPER_SLOWDOWN = {  # table 2 of the paper
    "student": {"KF-B": 2.0, "KF-IW": 1.2, "WoLF-IMQ": 1.0, "WoLF-TMD": 1.0},
    "mixture": {"KF-B": 3.7, "KF-IW": 5.3, "WoLF-IMQ": 1.0, "WoLF-TMD": 1.0},
}


def draw_trials(done: Mapping[str, Rows], config: Any) -> dict[str, Any]:
    """Draw all figures of one kind of data."""
    return {
        "paths": paths(done["sample"], config),
        "uncropped": uncropped(done["sample"], config),
        "errors": errors(done, config),
        "components": components(done, config),
        "components-uncropped": components(done, config, cropped=False),
        "rounding": rounding(done, config),
        "weights": weight_traces(done["sample"], config),
        "slowdown": slowdown(done["timing"], config),
    }


def column(rows: Rows, name: str) -> np.ndarray:
    """Take one column as an array."""
    return np.array([row[name] for row in rows])


def _plane(rows: Rows, name: str) -> tuple[np.ndarray, np.ndarray]:
    return column(rows, f"{name} 0"), column(rows, f"{name} 1")


def paths(rows: Rows, config: Any) -> Any:
    """Draw the sample run: measurements, then each filter against the truth."""
    figure = figures.new_figure(12.5, 6.2)
    axes = figure.subplots(2, 4, sharex=True, sharey=True)
    truth = _plane(rows, "truth")
    (left, right), (low, high) = (style.limits(values, margin=MARGIN) for values in truth)
    seen = _plane(rows, "y")
    beyond = int(((seen[0] < left) | (seen[0] > right) | (seen[1] < low) | (seen[1] > high)).sum())
    for ax, name in zip(axes.flat, ("measurements", *PRINTED, "KF-IW (as run)", "Learned"), strict=True):
        figures.dress(ax, grid=None)
        ax.plot(*truth, color=style.DOTS, lw=3.2, solid_capstyle="round", zorder=1)
        if name == "measurements":
            ax.scatter(*seen, s=5, color=style.INK, lw=0, zorder=2)
            figures.heading(ax, f"measurements ({beyond} outside)")
        else:
            ax.plot(*_plane(rows, name), color=figures.color(name), lw=1.0, zorder=2)
            figures.heading(ax, name)
        ax.scatter([0], [0], s=22, color=style.INK, zorder=4)
        ax.set_xlim(left, right)
        ax.set_ylim(low, high)
    for ax in axes[-1]:
        ax.set_xlabel("position x")
    for ax in axes[:, 0]:
        ax.set_ylabel("position y")
    words = (
        f"{TITLES[config.kind]}, trial {config.sample}. Wide grey: true path from the dot on; on it: filtered means."
    )
    figures.caption(figure, words)
    return figure


def uncropped(rows: Rows, config: Any) -> Any:
    """Draw the measurements of the sample run with nothing cut off."""
    figure = figures.new_figure(6.0, 4.6)
    ax = figure.add_subplot()
    figures.dress(ax, grid=None)
    outlier = column(rows, "outlier").astype(bool)
    x, y = _plane(rows, "y")
    ax.scatter(x[~outlier], y[~outlier], s=6, color=style.DOTS, lw=0, label="measurements")
    ax.scatter(x[outlier], y[outlier], s=18, marker="x", color=style.KALMAN, lw=1.0, label="outliers")
    ax.plot(*_plane(rows, "truth"), color=style.INK, lw=1.4, label="true path")
    ax.scatter([0], [0], s=22, color=style.INK, zorder=4)
    ax.set_xlabel("position x")
    ax.set_ylabel("position y")
    ax.legend(frameon=False, fontsize=9, labelcolor=style.INK)
    figures.caption(figure, f"{TITLES[config.kind]}, trial {config.sample}, all measurements.")
    return figure


def errors(done: Mapping[str, Rows], config: Any) -> Any:
    """Draw the distribution of J of the first component: as printed, as run, and what the paper lacks."""
    figure = figures.new_figure(9.0, 5.6)
    ax = figure.add_subplot()
    samples = figures.group([*done["trials"], *done["ceiling"]], "method", "J0")
    order = (*PRINTED, *RUN, *OURS, *BOUNDS)
    figures.boxes(ax, {name: samples[name] for name in order}, hollow=RUN)
    for after in (len(PRINTED), len(PRINTED) + len(RUN)):
        ax.axhline(len(order) - after - 0.5, color=style.TRUTH, lw=1)
    ax.set_xlabel("J of position x: root of the summed squared error over the run (log scale)")
    groups = {"as printed": 0, "as run; TMD: the saved c without its square": len(PRINTED)}
    for group, after in (groups | {"not in the paper": len(PRINTED) + len(RUN)}).items():
        where = (0.995, len(order) - after - 0.62)
        ax.text(*where, group, transform=ax.get_yaxis_transform(), ha="right", va="top", size=8.5, color=style.QUIET)
    figures.heading(ax, f"{TITLES[config.kind]}, {config.trials} trials of {config.world.steps} steps")
    figures.caption(figure, "Boxes: quartiles and median; whiskers 5 and 95 %; dots beyond.")
    return figure


def components(done: Mapping[str, Rows], config: Any, cropped: bool = True) -> Any:
    """Draw the distribution of J of all four components, cropped to where the boxes are or whole."""
    figure = figures.new_figure(10.5, 6.2)
    axes = figure.subplots(2, 2, sharey=True)
    names = (*PRINTED, "WoLF (calibrated)", "Learned", *BOUNDS)
    for i, ax in enumerate(axes.flat):
        samples = figures.group([*done["trials"], *done["ceiling"]], "method", f"J{i}")
        figures.boxes(ax, {name: samples[name] for name in names})
        if cropped:
            tails = [np.quantile(samples[name], (0.02, 0.98)) for name in names]
            ax.set_xlim(0.95 * min(low for low, _ in tails), 1.05 * max(high for _, high in tails))
            figures.plain_log(ax)
        figures.heading(ax, f"{COMPONENTS[i]}")
        ax.set_xlabel(f"$J_{{T,{i}}}$ (log scale)")
    shown = "from the 2nd to the 98th percentile" if cropped else "all of them"
    figures.caption(figure, f"{TITLES[config.kind]}, {config.trials} trials, {shown}.")
    return figure


def rounding(done: Mapping[str, Rows], config: Any) -> Any:
    """Draw what shorter numbers do to the errors."""
    figure = figures.new_figure(8.5, 4.2)
    ax = figure.add_subplot()
    exact = figures.group(done["trials"], "method", "J0")
    short = {
        kind: figures.group((row for row in done["rounded"] if row["arithmetic"] == kind), "method", "J0")
        for kind in ("float32", "bfloat16")
    }
    samples = {
        f"{name} ({kind})": values[name]
        for name in short["bfloat16"]
        for kind, values in ({"float64": exact} | short).items()
    }
    figures.boxes(ax, samples, hollow=[name for name in samples if "bfloat16" in name])
    ax.set_xlabel("J of position x (log scale)")
    figures.heading(ax, f"{TITLES[config.kind]}: the same filters in three arithmetics")
    words = "bfloat16: operands of matrix products only, and its own trials. Whiskers 5 and 95 %; dots beyond."
    figures.caption(figure, words)
    return figure


def weight_traces(rows: Rows, config: Any) -> Any:
    """Draw the weights of a stretch of the sample run, with the outliers shaded."""
    wanted = ("WoLF-IMQ", "WoLF-TMD", "WoLF (calibrated)", "Learned")
    names = [name for name in wanted if f"{name} weight" in rows[0]]
    figure = figures.new_figure(9.5, 1.8 * len(names))
    axes = figure.subplots(len(names), 1, sharex=True, sharey=True)
    shown = rows[STEPS_SHOWN[0] : STEPS_SHOWN[1]]
    steps, outlier = column(shown, "step"), column(shown, "outlier").astype(bool)
    for ax, name in zip(axes, names, strict=True):
        figures.dress(ax)
        for step in steps[outlier]:
            ax.axvspan(step - 0.5, step + 0.5, color="#f2c9b5", lw=0, zorder=0)
        ax.plot(steps, column(shown, f"{name} weight"), color=figures.color(name), lw=1.1)
        ax.set_ylim(-0.04, 1.06)
        ax.set_ylabel("weight w")
        figures.heading(ax, name)
    axes[-1].set_xlabel("step")
    axes[-1].margins(x=0.01)
    what = "noise more than 3 times as wide as nominal" if config.kind == "student" else "steps with an outlier"
    figures.caption(figure, f"{TITLES[config.kind]}, trial {config.sample}. Shaded: {what}.")
    return figure


def slowdown(rows: Rows, config: Any) -> Any:
    """Draw running times over the Kalman filter's, here and in the paper, and the price of inner iterations."""
    ratios: dict[str, dict[str, np.ndarray]] = {}
    for backend in ("xla", "native"):
        timed = figures.group((row for row in rows if row["backend"] == backend), "method", "seconds")
        ratios[backend] = {name: np.asarray(values) / np.asarray(timed["KF"]) for name, values in timed.items()}
    figure = figures.new_figure(9.5, 3.8)
    left, right = figure.subplots(1, 2)
    names = ["KF-B", "KF-IW", "WoLF-IMQ", "WoLF-TMD", "WoLF (calibrated)", "Learned"]
    for place, name in enumerate(reversed(names)):
        shade = figures.color(name)
        for shift, backend, face in ((0.14, "native", shade), (-0.14, "xla", "white")):
            if name not in ratios[backend]:
                continue
            low, middle, high = np.quantile(ratios[backend][name], (0.25, 0.5, 0.75))
            left.plot([low, high], [place + shift] * 2, color=shade, lw=2)
            left.plot([middle], [place + shift], "o", mfc=face, mec=shade, ms=7)
        if name in PAPER_SLOWDOWN[config.kind]:
            left.plot([PAPER_SLOWDOWN[config.kind][name]], [place], "D", mfc="white", mec=style.INK, ms=7)
    left.set_yticks(range(len(names)), list(reversed(names)))
    left.axvline(1.0, color=style.TRUTH, lw=1)
    figures.dress(left, grid="x")
    left.set_xlabel("time of a run over that of the Kalman filter")
    marks = {"native code": ("o", style.QUIET), "XLA": ("o", "white"), "paper, table 2": ("D", "white")}
    for label, (marker, face) in marks.items():
        left.plot([], [], marker, mfc=face, mec=style.INK, ms=7, label=label)
    left.legend(frameon=False, fontsize=9, labelcolor=style.INK)
    figures.heading(left, "With the paper's hyper-parameters")
    for name in ("KF-B", "KF-IW"):
        found = {key: np.median(v) for key, v in ratios["xla"].items() if key.startswith(f"{name}, ")}
        swept = {int(key.rpartition(" ")[2]): value for key, value in found.items()}
        right.plot(list(swept), list(swept.values()), marker="o", label=name, **figures.line_style(name))
    right.axhline(1.0, color=style.TRUTH, lw=1)
    right.set_ylim(bottom=0)
    figures.dress(right)
    right.set_xlabel("inner iterations I")
    right.set_ylabel("time over the Kalman filter's (XLA)")
    right.legend(frameon=False, fontsize=9, labelcolor=style.INK)
    figures.heading(right, "The price of inner iterations")
    figures.caption(figure, f"Median and quartiles of {config.repeats} interleaved runs of {config.world.steps} steps.")
    return figure
