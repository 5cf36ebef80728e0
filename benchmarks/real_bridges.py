"""Imputation of gaps at known places: the smallest error at faults that a method of `real.py` can reach.

    python benchmarks/real_bridges.py                     # development series, one seed
    python benchmarks/real_bridges.py --judge --seeds 2   # the series kept for judging

Faults are put in as in `real.py` and given as missing to every method: WoLF's chosen model, a straight line, a cubic
through the neighbours, the season by STL, statsmodels' best structural model, and a Gaussian process. One table for
each fault, errors in deviations of the series around its running median; `best` takes for every series whichever did
best on it, with the truth in hand.
"""

import argparse
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from real import FAULTS, Real, by_wolf, load, put_in, spread
from scipy.interpolate import CubicSpline

LONG_FAULTS = ("bursts of 12", "random runs of 8", "stuck for 24", "drifts of 24")
AROUND = 100  # readings on each side of a gap that a Gaussian process sees
STL_ROUNDS = 3  # of filling the gaps by the season that was found with the last filling
WAVES = 3  # of a season in statsmodels

Bridge = Callable[[Real, np.ndarray], np.ndarray]  # readings with NaN -> readings without


def by_line(real: Real, values: np.ndarray) -> np.ndarray:
    """Draw a straight line."""
    return pd.Series(values).interpolate(limit_direction="both").to_numpy(copy=True)


def by_cubic(real: Real, values: np.ndarray) -> np.ndarray:
    """Draw a cubic whose ends go on as four readings on each side do."""
    filled = by_line(real, values)
    rows, known = np.arange(len(values)), np.isfinite(values)
    for first, stop in _gaps(known):
        sides = np.r_[max(first - 4, 0) : first, stop : min(stop + 4, len(values))]
        filled[first:stop] = CubicSpline(sides, filled[sides], bc_type="natural")(rows[first:stop])
    return filled


def by_season(real: Real, values: np.ndarray) -> np.ndarray:
    """Add the season of STL (Cleveland et al. 1990) to a straight line through what is left of the readings."""
    from statsmodels.tsa.seasonal import STL

    period = real.period if 2 * real.period < len(values) else 12
    filled = by_line(real, values)
    for _ in range(STL_ROUNDS):
        season = STL(filled, period=period, robust=True).fit().seasonal
        filled = by_line(real, values - season) + season
    return filled


def by_structure(real: Real, values: np.ndarray) -> np.ndarray:
    """Smooth by the one of statsmodels' structural models that its criterion (AIC) prefers."""
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    seasonal: dict[str, Any] = {"freq_seasonal": [{"period": real.period, "harmonics": min(WAVES, real.period // 2)}]}
    fits = []
    for level in ("llevel", "lltrend"):
        for further in ({}, {"autoregressive": 1}, seasonal):
            fits.append(UnobservedComponents(values, level, **further).fit(disp=False, maxiter=100))
    best = min(fits, key=lambda fit: fit.aic)
    design = best.model.ssm["design"]
    return np.asarray((design @ best.smoothed_state)[0])


def by_process(real: Real, values: np.ndarray) -> np.ndarray:
    """Impute each gap by a Gaussian process with a Matérn kernel, fitted to the readings around it."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    filled, known = values.copy(), np.isfinite(values)
    kernel = ConstantKernel() * Matern(10.0, (0.5, 1e4), nu=1.5) + WhiteKernel(0.1, (1e-8, 1e1))
    for first, stop in _gaps(known):
        rows = np.arange(max(first - AROUND, 0), min(stop + AROUND, len(values)))
        rows = rows[known[rows]]
        process = GaussianProcessRegressor(kernel, normalize_y=True).fit(rows[:, None], values[rows])
        filled[first:stop] = process.predict(np.arange(first, stop)[:, None])
    return filled


def _gaps(known: np.ndarray) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], (~known).astype(int), [0]])))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


BRIDGES: dict[str, Bridge] = {
    "WoLF": lambda real, values: by_wolf(real, values)[1],
    "straight line": by_line,
    "cubic": by_cubic,
    "STL": by_season,
    "statsmodels, best": by_structure,
    "Gaussian process": by_process,
}


def run(real: Real, seed: int, kinds: list[str], bridges: list[str]) -> list[dict[str, Any]]:
    """Bridge the faults of one series in every way."""
    values, rows = real.values.to_numpy(float), []
    sd = spread(values)
    for kind in kinds:
        _, places = put_in(values, FAULTS[kind], np.random.default_rng([seed, 2 + list(FAULTS).index(kind)]))
        for name in bridges:
            away = np.abs(BRIDGES[name](real, np.where(places, np.nan, values)) - values)[places] / sd
            rows.append({"series": real.name, "fault": kind, "seed": seed, "by": name, "error": float(away.mean())})
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    """Print a table for each fault: series below each other, bridges side by side."""
    for kind, some in pd.DataFrame(rows).groupby("fault", sort=False):
        table = some.pivot_table("error", "series", "by", sort=False)
        table["best"] = table.min(axis=1)
        table.loc["mean"] = table.mean()
        print(f"\n{kind}, places known\n{table.round(2).to_string()}")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judge", action="store_true", help="the series kept for judging")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--folder", help="CSV files, columns timestamp and value")
    parser.add_argument("--faults", nargs="*", default=list(LONG_FAULTS), choices=list(FAULTS))
    parser.add_argument("--bridges", nargs="*", default=list(BRIDGES), choices=list(BRIDGES))
    parser.add_argument("--json", help="file to write all rows to")
    chosen = parser.parse_args()
    rows: list[dict[str, Any]] = []
    warnings.simplefilter("ignore")  # of fits that have not quite come to an end
    for real in load(chosen.judge, chosen.folder):
        for seed in range(chosen.first_seed, chosen.first_seed + chosen.seeds):
            rows += run(real, seed, chosen.faults, chosen.bridges)
        print(real.name, file=sys.stderr)
        if chosen.json:
            Path(chosen.json).write_text(json.dumps(rows, indent=1))
    show(rows)


if __name__ == "__main__":
    main()
