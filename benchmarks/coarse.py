"""Rounded, counted and interpolated series with faults put in: does what `real.py` measures hold there?

    python benchmarks/coarse.py                              # one seed
    python benchmarks/coarse.py --first-seed 20 --seeds 3 --by-series

The development series of `real.py`, rounded to steps of an eighth to four of their deviations around the running
median, or with only every second or third reading kept and straight lines between them; and made ones: air pressure in
whole hectopascals, a room with a thermostat in half degrees, an outdoor thermometer in whole degrees, counts with means
of 3 and 30. Faults are of 8 to 16 deviations or steps, whichever is larger, and rounded as the readings are. Stuck ones
last 24 readings, and 60, since a coarse series stays at one value for long by itself. Prints a table like `real.py`'s.
"""

import argparse
import json
import sys
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import real

STEPS = (0.125, 0.5, 1.0, 2.0, 4.0)  # of rounding, in deviations of a series around its running median
EVERY = (2, 3)  # reading that interpolated series keep
KINDS = ("spikes", "bursts of 12", "random runs of 8", "stuck for 24", "stuck for 60")
FAULTS = real.FAULTS | {"stuck for 60": real.FAULTS["stuck for 24"]._replace(length=60, runs=2)}
ROWS = 2_000


class Coarse(NamedTuple):
    """A coarse series: which, its group, its readings, their step (0 for none), and the size that faults go by."""

    real: real.Real
    group: str
    step: float
    size: float


def rounded(values: np.ndarray, step: float) -> np.ndarray:
    """Round to whole multiples of a step; 0 leaves values alone."""
    return step * np.round(values / step) if step else values


def interpolated(values: np.ndarray, every: int) -> np.ndarray:
    """Keep every so manyth reading, with straight lines between them."""
    rows = np.arange(len(values))
    return np.interp(rows, rows[::every], values[::every])


def made(seed: int) -> dict[str, tuple[np.ndarray, float]]:
    """Make coarse series with a step each, one an hour."""
    rng = np.random.default_rng([seed, 99])
    hours = np.arange(ROWS)
    slow, slope = np.zeros(ROWS), 0.0
    for t in range(1, ROWS):  # weather passes: a pressure whose change lasts
        slope = 0.9 * slope + 0.15 * rng.normal()
        slow[t] = 0.997 * slow[t - 1] + slope
    room, heats, outdoors = np.zeros(ROWS), False, 4.0 * np.sin(2 * np.pi * hours / 24) + slow
    inside = 20.0
    for t in range(ROWS):
        heats = inside < 20.5 if not heats else inside < 22.0
        inside += 0.03 * (outdoors[t] - inside) + (1.0 if heats else 0.0) + 0.05 * rng.normal()
        room[t] = inside
    day = np.exp(0.4 * np.sin(2 * np.pi * hours / 24))
    return {
        "pressure in hPa": (rounded(1013 + slow, 1.0), 1.0),
        "thermostat in half degrees": (rounded(room, 0.5), 0.5),
        "thermometer in degrees": (rounded(12 + outdoors + 0.3 * rng.normal(size=ROWS), 1.0), 1.0),
        "counts of 3": (rng.poisson(3.0, ROWS).astype(float), 1.0),
        "counts of 30": (rng.poisson(30.0, ROWS).astype(float), 1.0),
        "counts of 3 by day": (rng.poisson(3.0 * day).astype(float), 1.0),
        "counts of 30 by day": (rng.poisson(30.0 * day).astype(float), 1.0),
    }


def load(seed: int, folder: str | None) -> list[Coarse]:
    """Make all coarse series of a seed."""
    found = []
    for each in real.load(False, folder):
        values = each.values.to_numpy(float)
        size = real.spread(values)
        for step in STEPS:
            coarse = pd.Series(rounded(values, step * size), each.values.index)
            found.append(Coarse(each._replace(values=coarse), f"step {step:g}", step * size, max(size, step * size)))
        for every in EVERY:
            straight = pd.Series(interpolated(values, every), each.values.index)
            found.append(Coarse(each._replace(values=straight), f"every {every}", 0.0, size))
    index = pd.date_range("2024-01-01", periods=ROWS, freq="h")
    for name, (values, step) in made(seed).items():
        one = real.Real(name, "made", 24, pd.Series(values, index))
        found.append(Coarse(one, name, step, max(real.spread(values), step)))
    return found


def run(coarse: Coarse, method: str, seed: int, kinds: list[str]) -> list[dict[str, Any]]:
    """Run one method on one series, untouched, with readings held out, and with each fault."""
    answer, values = real.METHODS[method], coarse.real.values.to_numpy(float)
    base = {"series": coarse.real.name, "group": coarse.group, "method": method, "seed": seed}
    began = process_time()
    flags, *_ = answer(coarse.real, values)
    rows = [base | {"fault": "none", "flags": float(flags.mean()), "seconds": process_time() - began}]
    rows += [base | each for each in real._held_out(lambda some: answer(coarse.real, some), values, coarse.size, seed)]
    for kind in kinds:
        rng = np.random.default_rng([seed, 2 + list(FAULTS).index(kind)])
        damaged, places = real.put_in(values, FAULTS[kind], rng, coarse.size)
        damaged[places] = rounded(damaged[places], coarse.step)
        began = process_time()
        flags, estimate, *_ = answer(coarse.real, damaged)
        seconds = process_time() - began
        precision, recall, both = real.f1(flags, places)
        away = np.abs(estimate - values) / coarse.size
        scores = {"fault": kind, "precision": precision, "recall": recall, "f1": both, "seconds": seconds}
        rows.append(base | scores | {"at faults": float(away[places].mean())})
    return rows


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--folder", help="CSV files, columns timestamp and value")
    parser.add_argument("--method", default="WoLF", choices=list(real.METHODS))
    parser.add_argument("--faults", nargs="*", default=list(KINDS), choices=list(FAULTS))
    parser.add_argument("--groups", nargs="*", help="only these, as 'step 1'")
    parser.add_argument("--draws", type=int, default=real.DRAWS, help="of readings that are held out")
    parser.add_argument("--by-series", action="store_true")
    parser.add_argument("--json", help="file to write all rows to")
    chosen = parser.parse_args()
    real.DRAWS = chosen.draws
    rows: list[dict[str, Any]] = []
    for seed in range(chosen.first_seed, chosen.first_seed + chosen.seeds):
        for coarse in load(seed, chosen.folder):
            if not chosen.groups or coarse.group in chosen.groups:
                rows += run(coarse, chosen.method, seed, chosen.faults)
                print(f"{seed}: {coarse.real.name}, {coarse.group}", file=sys.stderr)
        if chosen.json:
            Path(chosen.json).write_text(json.dumps(rows, indent=1))
    show(rows, ["group", "series"] if chosen.by_series else ["group"])


def show(rows: list[dict[str, Any]], by: list[str]) -> None:
    """Print F1 of each fault, false flags, held-out readings inside, and seconds."""
    frame = pd.DataFrame(rows)
    both = frame.dropna(subset=["f1"]) if "f1" in frame else frame.iloc[:0]
    table = both.pivot_table("f1", by, "fault", sort=False) if len(both) else pd.DataFrame()
    apart = frame.groupby(by, sort=False)
    table = table.reindex(apart.size().index) if len(both) else pd.DataFrame(index=apart.size().index)
    table["flags %"] = 100 * apart["flags"].mean()
    table["worst flags %"] = 100 * apart["flags"].max()
    table["inside %"] = 100 * apart["inside"].mean()
    table["seconds"] = apart["seconds"].median()
    print(table.round(2).to_string())


if __name__ == "__main__":
    main()
