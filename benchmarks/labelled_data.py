"""Series that other people labelled: readers, the split into development and judging parts, checksums.

Files are read from a folder, as text or compressed by gzip (`.csv.gz`):

- `logan-river/`: Logan River Observatory, Utah; files of LRO_data in github.com/AmberSJones/pyhydroqc (BSD-3). `X` is
  raw, `X_cor` corrected by technicians, `X_qual` a label code. Jones, Jones & Horsburgh (2022), Environmental Modelling
  & Software.
- `oddwater/pioneer.csv`: Pioneer River, Queensland; data_pioneer_anom of github.com/pridiltal/oddwater (GPL-3) as CSV.
  Talagala et al. (2019), Water Resources Research.
- `nab/`: github.com/numenta/NAB (MIT), files of `data/` and `labels/combined_windows.json` as `windows.json`.
- `changepoints/`: github.com/alan-turing-institute/TCPD (MIT), a JSON file for each series and `annotations.json`.
"""

import gzip
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

DEVELOPMENT = (
    "logan-river/MainStreet2019",
    "logan-river/FranklinBasin2014",
    "logan-river/MainStreet2020",
    "oddwater/pioneer",
)
JUDGING = ("logan-river/TonyGrove2019", "logan-river/TonyGrove2020", "logan-river/FranklinBasin2020")
# Nominal accuracies of the sensors, for errors of cleaned values and good readings that were changed.
ACCURACIES = {"temp": 0.1, "cond": 2.0, "ph": 0.1, "do": 0.2, "Level": 0.05, "Cond": 2.0, "Tur": 2.0}
NAB_JUDGING = (
    "realTraffic/TravelTime_387.csv",
    "realTraffic/occupancy_6005.csv",
    "realTraffic/speed_6005.csv",
    "realKnownCause/machine_temperature_system_failure.csv",
    "realKnownCause/nyc_taxi.csv",
    "realKnownCause/rogue_agent_key_updown.csv",
    "artificialWithAnomaly/art_daily_jumpsdown.csv",
    "artificialWithAnomaly/art_daily_nojump.csv",
    "artificialWithAnomaly/art_increase_spike_density.csv",
    "artificialNoAnomaly/art_daily_small_noise.csv",
    "artificialNoAnomaly/art_noisy.csv",
)
CHANGEPOINTS_JUDGING = (
    "bank",
    "businv",
    "co2_canada",
    "gdp_argentina",
    "jfk_passengers",
    "ozone",
    "rail_lines",
    "usd_isk",
)
CHECKSUMS = {  # first 16 digits of the SHA-256 of the text that the tables of docs/labelled.md were made from
    "logan-river/FranklinBasin2014": "79c2e3604a038e97",
    "logan-river/FranklinBasin2020": "61d4bf19474b4ef2",
    "logan-river/MainStreet2019": "752f04c363ac6e26",
    "logan-river/MainStreet2020": "44c09eef79275080",
    "logan-river/TonyGrove2019": "5334d4fc0ec6b7e3",
    "logan-river/TonyGrove2020": "4cbfc610b7b44488",
    "oddwater/pioneer": "a222d6ad63dbbea3",
}


class Site(NamedTuple):
    """Sensors of one site: raw values by time, labels, and values corrected by technicians (NaN if none)."""

    name: str
    raw: pd.DataFrame
    labels: pd.DataFrame
    corrected: pd.DataFrame


def read_text(folder: Path, name: str) -> bytes:
    """Read a file, or its compressed form, and compare its checksum if one is known."""
    path = folder / f"{name}.csv"
    text = path.read_bytes() if path.exists() else gzip.decompress(path.with_suffix(".csv.gz").read_bytes())
    found = hashlib.sha256(text).hexdigest()[:16]
    if found != CHECKSUMS.get(name, found):
        print(f"{name}: another version than that of the published tables ({found})", file=sys.stderr)
    return text


def sites(folder: Path, names: tuple[str, ...]) -> Iterator[Site]:
    """Read sites one after the other."""
    import io

    for name in names:
        text = io.BytesIO(read_text(folder, name))
        if name.startswith("logan-river"):
            table = pd.read_csv(text, na_values=["NULL"], parse_dates=["datetime"], index_col="datetime")
            columns = ["temp", "cond", "ph", "do"]
            labels = pd.DataFrame({column: table[f"{column}_qual"].notna() for column in columns})
            corrected = table[[f"{column}_cor" for column in columns]].set_axis(columns, axis=1)
            corrected = corrected.where(corrected > -999.0)  # code of a missing value
        else:
            table = pd.read_csv(text)
            table.index = pd.DatetimeIndex(pd.to_datetime(table["Timestamp"], dayfirst=True), name="datetime")
            table = table.sort_index(kind="stable")
            columns = ["Level", "Cond", "Tur"]
            labels = pd.DataFrame({column: table[f"label_{column}"] == 1 for column in columns})
            corrected = table[columns] * np.nan
        yield Site(name, table[columns].astype(float), labels, corrected.astype(float))


def nab(folder: Path, judge: bool) -> Iterator[tuple[str, pd.Series, list[tuple[int, int]]]]:
    """Read files of the Numenta benchmark, with their labelled windows as first and last rows."""
    for name, windows in json.loads((folder / "nab/windows.json").read_text()).items():
        path = folder / f"nab/{name}.gz"
        path = path if path.exists() else folder / f"nab/{name}"
        if (name in NAB_JUDGING) != judge or not path.exists():
            continue
        values = pd.read_csv(path, parse_dates=["timestamp"], index_col="timestamp")["value"].astype(float)
        index = values.index
        rows = [
            (int(index.searchsorted(pd.Timestamp(first))), int(index.searchsorted(pd.Timestamp(last))))
            for first, last in windows
        ]
        yield name, values, rows


def changepoint_series(folder: Path, judge: bool) -> Iterator[tuple[str, np.ndarray, dict[str, list[int]]]]:
    """Read series of the Turing change point data set, with the changes that each annotator marked."""
    annotations: dict[str, Any] = json.loads((folder / "changepoints/annotations.json").read_text())
    for path in sorted((folder / "changepoints").glob("*.json")):
        if path.stem in annotations and (path.stem in CHANGEPOINTS_JUDGING) == judge:
            columns = json.loads(path.read_text())["series"]
            values = np.array([column["raw"] for column in columns], float).T
            yield path.stem, values, annotations[path.stem]
