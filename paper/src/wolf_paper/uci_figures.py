"""Pictures of the regression experiments, from rows."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wolf.plots.style import INK, QUIET, TRUTH, dress, method_style, new_figure
from wolf_paper.figures import color, heading, plain_log
from wolf_paper.learning import CLEAN, METHODS
from wolf_paper.protocol import Rows

TITLES = {"printed": "As the paper prints it: outliers U[−50, 50]", "as-run": "As it was run: outliers ±50"}
HIGHEST = 10.0  # relative errors above this are off the picture, as in the paper's, and are counted


def mean_by_method(rows: Rows, column: str) -> dict[str, float]:
    """Average a column by method, in the order of the methods; the trial that was tuned on does not count."""
    later = [row for row in rows if row.get("trial", 1) > 0] or rows
    found = {}
    for method in METHODS:
        values = [row.get(column, np.nan) for row in later if row["method"] == method]
        if values:
            found[method] = float(np.mean(values))
    return found


def draw_relative(rows: Mapping[str, Rows], variants: Sequence[str], sets: Sequence[str]) -> Any:
    """Draw error against time, both over those of OGD, a point for each set and method with the set's first letters.

    The paper draws the ratios minus 1 on linear axes, where all robust methods fall on one line at -0.9.
    """
    figure = new_figure(6.4 * len(variants) + 1.8, 5.6)
    axes = figure.subplots(1, len(variants), squeeze=False, sharey=True)[0]
    for ax, variant in zip(axes, variants, strict=True):
        beyond = sum(_draw_set(ax, rows, variant, name) for name in sets)
        ax.axhline(1.0, color=QUIET, lw=0.9)
        ax.axvline(1.0, color=QUIET, lw=0.9)
        heading(ax, TITLES[variant])
        ax.set_xscale("log")
        ax.set_yscale("log")
        plain_log(ax)
        plain_log(ax, "y")
        ax.set_xlabel("time for a step / that of OGD (log scale)")
        if beyond:
            ax.annotate(f"{beyond} beyond the axes", (0.98, 0.98), xycoords="axes fraction", ha="right", va="top",
                        size=9, color=QUIET)  # fmt: skip
        dress(ax, grid="both")
    axes[0].set_ylabel("RMedSE / that of OGD (log scale)")
    _legend(axes[-1], [method for method in METHODS if method not in ("OGD", CLEAN)])
    letters = ", ".join(f"{_letters(name)} {name}" for name in sets)
    figure.supxlabel(letters, x=0.01, ha="left", size=8.5, color=QUIET)
    return figure


def _draw_set(ax: Any, rows: Mapping[str, Rows], variant: str, name: str) -> int:
    """Draw the points of one set; return how many are beyond the axes."""
    errors = mean_by_method(rows.get(f"{variant}-{name}-trials", []), "rmedse")
    times = mean_by_method(rows.get(f"{variant}-{name}-times", []), "seconds_per_step")
    beyond = 0
    for method in (each for each in times if each not in ("OGD", CLEAN)):
        x, y = times[method] / times["OGD"], errors[method] / errors["OGD"]
        if not y < HIGHEST:  # a filter that diverged would flatten all others
            beyond += 1
            continue
        drawn = method_style(method)
        ax.plot(x, y, drawn.marker, color=drawn.color, ms=11, mec="white", mew=0.6, ls="none", alpha=0.9)
        ax.annotate(_letters(name), (x, y), ha="center", va="center", size=5.5, color="white")
    return beyond


def _letters(name: str) -> str:
    return name[:2].capitalize() if name.startswith("p") else name[0].upper()


def draw_errors(rows: Mapping[str, Rows], variant: str, sets: Sequence[str]) -> Any:
    """Draw the distribution over trials of each method on each set: median, quartiles, and the middle 90 %."""
    seen = {row["method"] for name in sets for row in rows.get(f"{variant}-{name}-trials", [])}
    shown = [method for method in METHODS if method in seen]
    figure = new_figure(8.6, 0.8 * len(sets) + 1.6)
    ax = figure.subplots()
    step = 0.8 / max(len(shown), 1)
    for place, name in enumerate(sets):
        table = rows.get(f"{variant}-{name}-trials", [])
        for number, method in enumerate(shown):
            values = np.array(
                [row.get("rmedse", np.nan) for row in table if row["method"] == method and row["trial"] > 0]
            )
            values = values[np.isfinite(values)]
            if not values.size:
                continue
            y = place + (number - (len(shown) - 1) / 2) * step
            low, q1, middle, q3, high = np.quantile(values, (0.05, 0.25, 0.5, 0.75, 0.95))
            drawn = method_style(method)
            ax.plot([low, high], [y, y], color=drawn.color, lw=1.0)
            ax.plot([q1, q3], [y, y], color=drawn.color, lw=3.4, solid_capstyle="butt")
            ax.plot(middle, y, drawn.marker, color="white", mec=drawn.color, ms=5, mew=1.2)
        if place:
            ax.axhline(place - 0.5, color=TRUTH, lw=0.6)
    ax.set_yticks(range(len(sets)), sets)
    ax.set_ylim(len(sets) - 0.5, -0.5)
    ax.set_xscale("log")
    plain_log(ax)
    ax.set_xlabel("RMedSE (target scaled to a range of 1; log scale)")
    heading(ax, f"{TITLES[variant]}; median, quartiles, middle 90 % of trials")
    dress(ax, grid="x")
    ax.tick_params(axis="y", length=0)
    _legend(ax, shown)
    return figure


def draw_speed(rows: Mapping[str, Rows], variants: Sequence[str]) -> Any:
    """Draw error against time, a point for each trial; the ring is the median.

    The time is relative to WoLF-IMQ's in the same trial, so that a slow moment of the machine does not count.
    """
    figure = new_figure(4.8 * len(variants) + 1.9, 4.3)
    axes = figure.subplots(1, len(variants), squeeze=False, sharey=True, sharex=True)[0]
    shown: list[str] = []
    for ax, variant in zip(axes, variants, strict=True):
        every = rows.get(f"{variant}-trials", [])
        unit = {row["trial"]: row["seconds_per_step"] for row in every if row["method"] == "WoLF-IMQ"}
        for method in METHODS:
            table = [row for row in every if row["method"] == method]
            if not table:
                continue
            shown += [] if method in shown else [method]
            times = np.array([row["seconds_per_step"] / unit[row["trial"]] for row in table])
            errors, drawn = np.array([row.get("rmedse", np.nan) for row in table]), method_style(method)
            ax.plot(times, errors, ".", color=drawn.color, ms=4, alpha=0.45, mew=0)
            ax.plot(np.median(times), np.median(errors), drawn.marker, color="white", mec=drawn.color, ms=9, mew=2)
        ax.set_xscale("log")
        ax.set_yscale("log")
        heading(ax, TITLES[variant])
        ax.set_xlabel("time for a step / WoLF-IMQ in the same trial (log scale)")
        plain_log(ax)
        plain_log(ax, "y")
        dress(ax, grid="both")
    axes[0].set_ylabel("RMedSE (log scale)")
    _legend(axes[-1], shown)
    return figure


def draw_draws(rows: Rows) -> Any:
    """Draw the error on fresh trials that each tuning draw led to."""
    figure = new_figure(6.2, 3.2)
    ax = figure.subplots()
    names = [name for name in METHODS if any(row["method"] == name for row in rows)]
    for place, name in enumerate(names):
        values = [row["fresh_rmedse"] for row in rows if row["method"] == name and row.get("fresh_rmedse") is not None]
        ax.plot(values, [place] * len(values), "o", color=color(name), ms=7, alpha=0.8, mec="white", mew=0.6)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xscale("log")
    plain_log(ax)
    ax.set_xlabel("mean RMedSE on fresh trials (log scale); a dot for each tuning draw")
    dress(ax, grid="x")
    return figure


def draw_rates(rows: Mapping[str, Rows], variants: Sequence[str], rates: Sequence[int]) -> Any:
    """Draw the mean error over trials against the outlier rate, with a bootstrap band."""
    figure = new_figure(4.8 * len(variants) + 1.9, 4.3)
    axes = figure.subplots(1, len(variants), squeeze=False, sharey=True)[0]
    shown: list[str] = []
    for ax, variant in zip(axes, variants, strict=True):
        for method in METHODS:
            bands = []
            for rate in rates:
                table = [row for row in rows.get(f"{variant}-{rate:02d}", []) if row["method"] == method]
                bands.append(bootstrap([row.get("rmedse", np.nan) for row in table]) if table else (np.nan,) * 3)
            mean, low, high = np.array(bands).T
            if np.isnan(mean).all():
                continue
            shown += [] if method in shown else [method]
            drawn = method_style(method)
            ax.fill_between(rates, low, high, color=drawn.color, alpha=0.2, lw=0)
            ax.plot(rates, mean, color=drawn.color, ls=drawn.dash, marker=drawn.marker, ms=4, lw=1.6)
        ax.set_yscale("log")
        plain_log(ax, "y")
        heading(ax, TITLES[variant])
        ax.set_xlabel("outliers (% of targets)")
        dress(ax, grid="both")
    axes[0].set_ylabel("mean RMedSE, 95 % band (log scale)")
    _legend(axes[-1], shown)
    return figure


def bootstrap(values: Sequence[float], samples: int = 500, level: float = 0.95) -> tuple[float, float, float]:
    """Give the mean and the ends of its bootstrap interval.

    Args:
        values: one for each trial.
        samples: number of bootstrap samples.
        level: of the interval.

    Example:
        >>> bootstrap([2.0, 2.0])
        (2.0, 2.0, 2.0)
    """
    array = np.asarray(values, np.float64)
    drawn = np.random.default_rng(0).choice(array, (samples, len(array))).mean(1)
    low, high = np.quantile(drawn, (0.5 - 0.5 * level, 0.5 + 0.5 * level))
    return float(array.mean()), float(low), float(high)


def draw_sets(rows: Rows) -> Any:
    """Draw the table of sets, with the paper's counts beside the right ones."""
    figure = new_figure(8.8, 0.32 * len(rows) + 0.9)
    ax = figure.subplots()
    ax.axis("off")
    names = ("set", "examples", "features", "parameters", "features (paper)", "parameters (paper)")
    columns = ("set", "rows", "features", "parameters", "paper_features", "paper_parameters")
    cells = [[f"{row[c]:,}" if isinstance(row[c], int) else row[c] for c in columns] for row in rows]
    table = ax.table(cells, colLabels=names, loc="center", cellLoc="right", edges="horizontal")
    table.auto_set_font_size(False)
    table.set_fontsize(9)
    table.scale(1.0, 1.35)
    for (line, column), cell in table.get_celld().items():
        cell.set_edgecolor(TRUTH)
        cell.get_text().set_color(QUIET if line == 0 or column > 3 else INK)
    return figure


def _legend(ax: Any, names: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    handles = []
    for name in names:
        shade, dash, marker = method_style(name)
        handles.append(Line2D([], [], color=shade, ls=dash, marker=marker, ms=5, lw=1.6, label=name))
    ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9, handlelength=3)
