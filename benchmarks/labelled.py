"""Cleaning judged by other people's labels: water quality labelled by technicians, with rivals beside.

    python benchmarks/labelled.py --folder DATA                      # development part
    python benchmarks/labelled.py --folder DATA --judge              # the part that no constant was chosen on
    python benchmarks/labelled.py --folder DATA --only changepoints  # or nab

`labelled_data.py` says where the files come from. An event is a run of flagged or labelled rows. A labelled event is
found if a row of it or beside it is flagged; a flagged event is right if a row of it or beside it is labelled. Labels
are incomplete: an unlabelled flag may be a fault that nobody marked. "by chance": labelled events that the same flags
find when they are rolled by a random number of rows.
"""

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import labelled_changepoints
import labelled_nab
import numpy as np
import pandas as pd
from labelled_data import ACCURACIES, DEVELOPMENT, JUDGING, Site, sites

MAX_LABELLED_ROWS = 96  # of an event whose cleaned values are compared with the corrected ones
ROLLS = 20  # random shifts of the flags
MAD = 1.4826

Answer = tuple[pd.DataFrame, pd.DataFrame | None]  # flags, and cleaned values


def by_wolf(raw: pd.DataFrame, **options: float) -> Answer:
    """Clean as `wolf filter` does without any option."""
    import wolf

    out = wolf.filter_frame(raw, values=list(raw.columns), **options)
    flags = pd.DataFrame({name: out[f"{name}_outlier"].to_numpy(bool) for name in raw}, raw.index)
    return flags, pd.DataFrame({name: out[f"{name}_cleaned"].to_numpy(float) for name in raw}, raw.index)


def each_column(flag: Callable[[pd.Series], np.ndarray]) -> Callable[[pd.DataFrame], Answer]:
    """Apply a detector to each column."""

    def answer(raw: pd.DataFrame) -> Answer:
        return pd.DataFrame({name: np.asarray(flag(raw[name]), bool) for name in raw}, raw.index), None

    return answer


def median_flags(values: pd.Series) -> np.ndarray:
    """Flag what is 5 deviations from a running median of 25, by the deviation of the whole series."""
    apart = (values - values.rolling(25, center=True, min_periods=1).median()).abs()
    return (apart > 5 * MAD * apart.median()).to_numpy()


def hampel_flags(values: pd.Series) -> np.ndarray:
    """Flag what is 3 deviations from a running median of 49, by the deviation in the window (Hampel 1974)."""
    middle = values.rolling(49, center=True, min_periods=1).median()
    apart = (values - middle).abs()
    scale = MAD * apart.rolling(49, center=True, min_periods=1).median()
    return (apart > 3 * scale.clip(lower=1e-12)).to_numpy()


def stl_flags(values: pd.Series) -> np.ndarray:
    """Flag residuals of a robust STL by day beyond 5 deviations."""
    from statsmodels.tsa.seasonal import STL

    step = values.index.to_series().diff().median()
    period = max(2, round(pd.Timedelta("1D") / step))
    rest = STL(values.interpolate().bfill().to_numpy(), period=period, robust=True).fit().resid
    return np.abs(rest) > 5 * MAD * np.median(np.abs(rest))


def ioos_flags(values: pd.Series) -> np.ndarray:
    """Flag what fails the spike test of ioos_qc, with 8 times the 90 % quantile of its statistic as the threshold.

    The package has no default threshold; this one is ours.
    """
    from ioos_qc import qartod

    array = values.to_numpy()
    statistic = np.abs(array[1:-1] - 0.5 * (array[:-2] + array[2:]))
    threshold = max(8 * float(np.nanquantile(statistic, 0.9)), 1e-9)
    return np.ma.filled(qartod.spike_test(array, suspect_threshold=threshold, fail_threshold=threshold), 1) >= 3


def saqc_flags(values: pd.Series) -> np.ndarray:
    """Flag by the univariate local outlier factor of SaQC, with its defaults."""
    import saqc

    unique = values[~values.index.duplicated()]
    flags = saqc.SaQC(unique.to_frame("value")).flagUniLOF("value").flags["value"] > 0
    return flags.reindex(values.index, method="ffill").to_numpy()


def pyod_flags(values: pd.Series) -> np.ndarray:
    """Flag by an isolation forest of PyOD on value and differences to both neighbours, at its default share."""
    from pyod.models.iforest import IForest

    filled = values.interpolate().bfill()
    features = np.stack([filled, filled.diff().fillna(0.0), filled.diff(-1).fillna(0.0)], axis=1)
    return np.asarray(IForest(random_state=0).fit(features).labels_) > 0


METHODS: dict[str, Callable[[pd.DataFrame], Answer]] = {
    "WoLF": by_wolf,
    "WoLF, false_alarms=0": partial(by_wolf, false_alarms=0.0),
    "running median of 25": each_column(median_flags),
    "Hampel's filter of 49": each_column(hampel_flags),
    "robust STL": each_column(stl_flags),
    "ioos_qc spike test": each_column(ioos_flags),
    "SaQC flagUniLOF": each_column(saqc_flags),
    "PyOD isolation forest": each_column(pyod_flags),
}


def runs(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """List first rows of runs, and the rows after their last."""
    edges = np.diff(np.concatenate([[0], mask.astype(np.int8), [0]]))
    return np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)


def touched(runs_of: tuple[np.ndarray, np.ndarray], mask: np.ndarray) -> int:
    """Count the runs with a marked row in or beside them."""
    first, stop = runs_of
    total = np.concatenate([[0], np.cumsum(mask)])
    return int((total[np.minimum(stop + 1, len(mask))] > total[np.maximum(first - 1, 0)]).sum())


def score(site: Site, column: str, flags: np.ndarray, cleaned: np.ndarray | None) -> dict[str, Any]:
    """Compare the flags of one sensor with its labels, and the cleaned values with the corrected ones."""
    labels, raw = site.labels[column].to_numpy(), site.raw[column].to_numpy()
    flagged, labelled = runs(flags), runs(labels)
    rng = np.random.default_rng(len(flags))
    chance = [touched(labelled, np.roll(flags, int(rng.integers(len(flags))))) for _ in range(ROLLS)]
    row = {
        "site": site.name,
        "sensor": column,
        "rows": len(flags),
        "flagged rows": int(flags.sum()),
        "flagged": len(flagged[0]),
        "right": touched(flagged, labels),
        "labelled": len(labelled[0]),
        "found": touched(labelled, flags),
        "chance": float(np.mean(chance)),
    }
    if cleaned is None:
        return row
    accuracy, corrected = ACCURACIES[column], site.corrected[column].to_numpy()
    short = np.zeros(len(flags), bool)
    for first, stop in zip(*labelled, strict=True):
        short[first:stop] = stop - first <= MAX_LABELLED_ROWS
    known = short & np.isfinite(corrected)
    good = ~labels & np.isfinite(raw)
    row["errors"] = (np.abs(cleaned - corrected)[known] / accuracy).tolist()
    row["raw errors"] = (np.abs(raw - corrected)[known] / accuracy).tolist()
    row["good"] = int(good.sum())
    row["changed"] = int((np.abs(cleaned - raw)[good] > accuracy).sum())
    return row


def f_measure(precision: float, recall: float, beta: float) -> float:
    """Compute F, in which recall counts beta times as much as precision."""
    return (1 + beta**2) * precision * recall / max(beta**2 * precision + recall, 1e-12)


def summary(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Sum over sensors, and compute the figures of one line of the table."""
    total = {name: sum(row[name] for row in rows) for name in ("rows", "flagged rows", "flagged", "right", "labelled")}
    found, chance = sum(row["found"] for row in rows), sum(row["chance"] for row in rows)
    precision, recall = total["right"] / max(total["flagged"], 1), found / max(total["labelled"], 1)
    line = {
        "flagged": f"{total['flagged']}",
        "unlabelled": f"{total['flagged'] - total['right']}",
        "per 10,000 rows": f"{1e4 * (total['flagged'] - total['right']) / total['rows']:.1f}",
        "found": f"{found} of {total['labelled']}",
        "by chance": f"{chance:.0f}",
        "precision": f"{precision:.2f}",
        "recall": f"{recall:.2f}",
        "F1": f"{f_measure(precision, recall, 1.0):.2f}",
        "F2": f"{f_measure(precision, recall, 2.0):.2f}",
        "rows flagged (%)": f"{100 * total['flagged rows'] / total['rows']:.2f}",
    }
    errors = np.array([error for row in rows for error in row.get("errors", [])])
    if errors.size:
        raw = np.array([error for row in rows for error in row["raw errors"]])
        changed = sum(row["changed"] for row in rows) / sum(row["good"] for row in rows)
        middle, tenth = np.nanquantile(errors, [0.5, 0.9])
        line |= {
            "error at labels, median (90 %)": f"{middle:.2f} ({tenth:.2f})",
            "of raw": f"{np.nanmedian(raw):.2f}",
            "good rows changed (%)": f"{100 * changed:.2f}",
        }
    return line


def judge_sites(folder: Path, names: tuple[str, ...], methods: list[str], by_sensor: bool) -> list[dict[str, Any]]:
    """Run methods on all sites; print a line for each."""
    rows: list[dict[str, Any]] = []
    for site in sites(folder, names):
        for method in methods:
            began = process_time()
            try:
                flags, cleaned = METHODS[method](site.raw)
            except ImportError as error:
                print(f"{method}: {error}", file=sys.stderr)
                continue
            seconds = process_time() - began
            rows += [
                score(site, name, flags[name].to_numpy(), None if cleaned is None else cleaned[name].to_numpy())
                | {"method": method, "seconds": seconds / site.raw.shape[1]}
                for name in site.raw
            ]
            print(f"{site.name}: {method}, {seconds:.0f} CPU s", file=sys.stderr)
    lines = {}
    for method in methods:
        own = [row for row in rows if row["method"] == method]
        if own:
            lines[method] = summary(own)
        if own and by_sensor:
            lines |= {f"{method}, {row['site']} {row['sensor']}": summary([row]) for row in own}
    print(pd.DataFrame(lines).T.fillna("").to_string())
    return rows


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="the folder with logan-river, oddwater, ...")
    parser.add_argument("--judge", action="store_true", help="the part that is kept for judging")
    parser.add_argument("--only", choices=["sites", "nab", "changepoints"], default="sites")
    parser.add_argument("--methods", nargs="*", default=["WoLF"], choices=list(METHODS))
    parser.add_argument("--by-sensor", action="store_true", help="a line for each sensor")
    parser.add_argument("--json", type=Path, help="file to write all rows to")
    chosen = parser.parse_args()
    if chosen.only == "nab":
        labelled_nab.judge(chosen.folder, chosen.judge)
    elif chosen.only == "changepoints":
        labelled_changepoints.judge(chosen.folder, chosen.judge)
    else:
        names = JUDGING if chosen.judge else DEVELOPMENT
        rows = judge_sites(chosen.folder, names, chosen.methods, chosen.by_sensor)
        if chosen.json:
            chosen.json.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
