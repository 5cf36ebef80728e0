"""Pictures of the online curve, from rows."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wolf.plots.style import DOTS, INK, dress, new_figure
from wolf_paper.figures import color, heading, plain_log
from wolf_paper.learning import METHODS
from wolf_paper.protocol import Rows

COLUMNS = 4
WIDE = 3  # panels of sample runs beside each other
SHOWN = 35.0  # targets beyond this are off the sample pictures


def title_of(label: str) -> str:
    """Say a configuration in words.

    Example:
        >>> title_of("as-run-curve-unsorted")
        'true curve, unsorted (as run)'
    """
    front, model, order = label.rsplit("-", 2)
    return f"{'network' if model == 'network' else 'true curve'}, {order} ({front.replace('-', ' ')})"


def draw_trials(rows: Mapping[str, Rows], labels: Sequence[str]) -> Any:
    """Draw the distribution of RMedSE over trials: every trial a dot, a bar for the median."""
    columns = min(COLUMNS, len(labels))
    lines = -(-len(labels) // columns)
    figure = new_figure(3.3 * columns + 1.2, 2.9 * lines + 0.2)
    axes = figure.subplots(lines, columns, squeeze=False, sharey=True).ravel()
    rng = np.random.default_rng(0)
    for ax, label in zip(axes, labels, strict=False):
        table = rows.get(f"{label}-trials", [])
        for place, method in enumerate(METHODS):
            values = np.array([row.get("rmedse", np.nan) for row in table if row["method"] == method])
            if not values.size:
                continue
            ax.plot(values, place + rng.uniform(-0.28, 0.28, len(values)), ".", color=color(method), ms=4, alpha=0.5,
                    mew=0)  # fmt: skip
            ax.plot([np.nanmedian(values)] * 2, [place - 0.38, place + 0.38], color=color(method), lw=2.4)
        ax.set_xscale("log")
        plain_log(ax)
        heading(ax, title_of(label))
        ax.set_xlabel("RMedSE (log scale)")
        dress(ax, grid="x")
    axes[0].set_yticks(range(len(METHODS)), METHODS)
    axes[0].set_ylim(len(METHODS) - 0.5, -0.5)
    for ax in axes[len(labels) :]:
        ax.set_visible(False)
    return figure


def draw_samples(rows: Rows, truth: tuple[np.ndarray, np.ndarray], label: str) -> Any:
    """Draw what each method predicted before it saw each target, over the true curve."""
    shown = [method for method in METHODS if any(row["method"] == method for row in rows)]
    lines = -(-len(shown) // WIDE)
    figure = new_figure(8.4, 2.3 * lines)
    axes = figure.subplots(lines, WIDE, sharex=True, sharey=True).ravel()
    for ax in axes[len(shown) :]:
        ax.set_visible(False)
    for ax, method in zip(axes, shown, strict=False):
        mine = [row for row in rows if row["method"] == method]
        ax.plot(*truth, color=INK, lw=1.0, zorder=1)
        ax.plot([r["x"] for r in mine], [r["y"] for r in mine], ".", color=DOTS, ms=3, mew=0, alpha=0.35)
        ax.plot([r["x"] for r in mine], [r.get("prediction", np.nan) for r in mine], ".", color=color(method), ms=3,
                alpha=0.7, mew=0)  # fmt: skip
        ax.set_ylim(-SHOWN, SHOWN)
        heading(ax, method)
        dress(ax, grid=None)
    for ax in axes[len(shown) - WIDE : len(shown)]:
        ax.set_xlabel("x")
        ax.xaxis.set_tick_params(labelbottom=True)
    for ax in axes[::WIDE]:
        ax.set_ylabel("y")
    figure.suptitle(f"{title_of(label)}: predictions before each target; line = truth, grey = targets", x=0.01,
                    ha="left", size=10.5, color=INK)  # fmt: skip
    return figure
