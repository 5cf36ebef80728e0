"""Draw the pictures of docs/real-data.md. Run in the repository's root.

python docs/make_real_images.py             # carbon dioxide by week with faults, cleaned
python docs/make_real_images.py rows.json   # and what `benchmarks/real.py --json rows.json` found
"""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.api as sm
from make_images import save

import wolf
from wolf.plots import style

SHOWN = slice(900, 1180)
BURST, STUCK, GAP = slice(960, 972), slice(1010, 1034), slice(1080, 1110)
SPIKES = [925, 990, 1060, 1130]
SIZE = 6.0  # ppm
MARKS = {"spike": "x", "burst": "+", "stuck": "_"}
LEGEND = {"loc": "outside upper left", "frameon": False, "fontsize": 9.5, "labelcolor": style.INK}
METHODS = {
    "WoLF": (style.ROBUST, "o"),
    "running median 25": (style.KALMAN, "s"),
    "Hampel 49": (style.CYCLE[2], "D"),
    "statsmodels level": (style.CYCLE[4], "^"),
    "STL": (style.CYCLE[3], "v"),
}


def draw_series() -> None:
    """Damage a real series, clean it, draw both."""
    frame = sm.datasets.co2.load_pandas().data.interpolate()
    truth = frame["co2"].iloc[SHOWN].copy()
    values = frame["co2"].to_numpy().copy()
    values[BURST] += SIZE
    values[STUCK] = values[STUCK.start - 1]
    values[GAP] = np.nan
    values[SPIKES] += SIZE
    frame["co2"] = values
    some = wolf.filter_frame(frame).iloc[SHOWN]
    figure = style.new_figure(10, 4.2)
    ax = figure.add_subplot()
    gap = some.index[some["kind"] == "gap"]
    ax.axvspan(gap[0], gap[-1], color=style.GRID, lw=0, label=f"gap ({len(gap)})")
    ends = (some["prediction_lower"], some["prediction_upper"])
    ax.fill_between(some.index, *ends, color=style.ROBUST, alpha=0.18, lw=0, label="95 % of readings")
    ax.plot(truth.index, truth, color=style.DOTS, lw=1, label="before the damage")
    ax.plot(some.index, some["mean"], color=style.ROBUST, lw=1.4, label="cleaned")
    for kind, marker in MARKS.items():
        rows = some[some["kind"] == kind]
        ax.plot(rows.index, rows["co2"], marker, color=style.KALMAN, label=f"{kind} ({len(rows)})")
    ax.set_ylabel("carbon dioxide, ppm")
    style.dress(ax)
    figure.legend(ncols=7, **LEGEND)
    save(figure, "real-data.png")


def draw_flags(rows: Path) -> None:
    """Show how well each fault is found: a mark at the mean over series and seeds, a line down to the worst series."""
    table = pd.DataFrame(json.loads(rows.read_text()))
    table = table[table["method"].isin(METHODS) & table["f1"].notna()]
    kinds = list(dict.fromkeys(table["fault"]))
    figure = style.new_figure(10, 4.2)
    ax = figure.add_subplot()
    for i, (name, (color, marker)) in enumerate(METHODS.items()):
        by_series = table[table["method"] == name].groupby(["fault", "series"])["f1"].mean().unstack().loc[kinds]
        places = np.arange(len(kinds)) + 0.14 * (i - (len(METHODS) - 1) / 2)
        mean, worst = by_series.mean(axis=1), by_series.min(axis=1)
        ax.vlines(places, worst, mean, color=color, lw=1.6, alpha=0.5)
        ax.plot(places, mean, marker, color=color, ms=6, label=name)
    ax.set_xticks(range(len(kinds)), kinds)
    ax.set_ylim(-0.02, 1.02)
    ax.set_ylabel("F1 of the flags")
    style.dress(ax)
    figure.legend(ncols=len(METHODS), **LEGEND)
    save(figure, "real-flags.png")


if __name__ == "__main__":
    draw_series()
    for path in sys.argv[1:]:
        draw_flags(Path(path))
