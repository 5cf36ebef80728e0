"""Maps of influence, weight and distance, from their rows."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from wolf.plots import style
from wolf_paper import figures
from wolf_paper.protocol import Rows

METHODS = ("WoLF-IMQ", "WoLF-TMD", "KF")
LEVELS = 12
FAR = 2.0  # times the highest robust value, where colours end


def draw(done: Mapping[str, Rows], config: Any) -> dict[str, Any]:
    """Draw the maps of both domains, of both definitions, the weights and the diagonal."""
    near, wide = done["near"], done["wide"]
    printed, plotted = "PIF: KL(contaminated ‖ clean)", "KL(clean KF ‖ contaminated)"
    return {
        "pif": maps(near, config, "pif", printed),
        "pif-wide": maps(wide, config, "pif", printed),
        "pif-as-run": maps(near, config, "as run", plotted),
        "pif-wide-as-run": maps(wide, config, "as run", plotted),
        "weights": weights(near, config),
        "diagonal": diagonal(done["diagonal"]),
    }


def grid(rows: Rows, config: Any, method: str, value: str) -> tuple[np.ndarray, np.ndarray]:
    """Take one map as its axis and a square array, error x along the first."""
    mine = [row for row in rows if row["method"] == method]
    axis = np.array([row["error y"] for row in mine[: config.grid]])
    return axis, np.array([row[value] for row in mine]).reshape(config.grid, config.grid)


def maps(rows: Rows, config: Any, value: str, label: str) -> Any:
    """Draw one map a method, on one colour scale; where the Kalman filter leaves it far behind, it is cut."""
    panels = {method: grid(rows, config, method, value) for method in METHODS}
    highest = [values.max() for _, values in panels.values()]
    cut = max(highest) > FAR * max(highest[:-1])
    top = FAR * max(highest[:-1]) if cut else max(highest)
    figure = figures.new_figure(11.6, 4.1)
    axes = figure.subplots(1, len(METHODS), sharey=True)
    shown: Any = None
    for ax, (method, (axis, values)) in zip(axes, panels.items(), strict=True):
        shown = ax.pcolormesh(axis, axis, values.T, cmap="cividis", vmin=0.0, vmax=top, rasterized=True)
        ax.contour(axis, axis, values.T, levels=np.linspace(0, top, LEVELS), colors="white", linewidths=0.5, alpha=0.5)
        _dress_map(ax, f"{method}: at most {values.max():.3g}")
    axes[0].set_ylabel("error in y")
    bar = figure.colorbar(shown, ax=list(axes), label=label, extend="max" if cut else "neither")
    bar.outline.set_visible(False)
    return figure


def weights(rows: Rows, config: Any) -> Any:
    """Draw both weights and the Mahalanobis distance, which has its own scale."""
    figure = figures.new_figure(12.6, 4.1)
    axes = figure.subplots(1, 3, sharey=True)
    shown: Any = None
    for ax, method in zip(axes, ("WoLF-IMQ", "WoLF-TMD"), strict=False):
        axis, values = grid(rows, config, method, "weight")
        shown = ax.pcolormesh(axis, axis, values.T, cmap="cividis", vmin=0.0, vmax=1.0, rasterized=True)
        _dress_map(ax, method)
    figure.colorbar(shown, ax=list(axes[:2]), label="weight w").outline.set_visible(False)
    axis, values = grid(rows, config, "KF", "distance")
    shown = axes[2].pcolormesh(axis, axis, values.T, cmap="cividis_r", vmin=0.0, rasterized=True)
    lines = axes[2].contour(axis, axis, values.T, colors="white", linewidths=0.6, levels=range(1, 12, 2))
    axes[2].clabel(lines, fontsize=7)
    _dress_map(axes[2], "Mahalanobis distance to the prediction")
    figure.colorbar(shown, ax=axes[2], label="distance").outline.set_visible(False)
    axes[0].set_ylabel("error in y")
    return figure


def diagonal(rows: Rows) -> Any:
    """Draw the influence of ever larger errors."""
    figure = figures.new_figure(6.0, 3.8)
    ax = figure.add_subplot()
    errors = figures.group(rows, "method", "error")
    for method, values in figures.group(rows, "method", "pif").items():
        marker = style.method_style(method).marker
        ax.plot(errors[method], values, marker=marker, ms=5, label=method, **figures.line_style(method))
    ax.set_xscale("log")
    ax.set_yscale("log")
    figures.dress(ax)
    ax.set_xlabel("error s in both coordinates (sd of the noise = 1)")
    ax.set_ylabel("PIF")
    ax.legend(frameon=False, fontsize=9, labelcolor=style.INK)
    return figure


def _dress_map(ax: Any, title: str) -> None:
    figures.dress(ax, grid=None)
    figures.heading(ax, title)
    ax.plot([0], [0], "+", color="white", ms=9, mew=1.6)
    ax.set_xlabel("error in x")
    ax.set_aspect("equal")
