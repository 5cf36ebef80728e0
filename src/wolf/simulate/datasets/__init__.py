"""Small series that come with the package, with truth: for the documentation, for tests, and to try things on.

All are simulated by us, by the script `wolf/simulate/datasets/generate.py`; `python -m
wolf.simulate.datasets.generate` writes them again.
"""

from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np

from wolf import validation

WORDS = {
    "thermometer": "three days of temperature every five minutes, with false values and gaps",
    "well": "a water level read by hand at uneven times, with slips of the pen",
    "track": "a walk in the plane seen by GPS, with jumps of position (multipath)",
}


class Dataset(NamedTuple):
    """A series with its truth.

    Attributes:
        times: (T,), in the unit of the file.
        values: as measured, (T, M); NaN where missing.
        truth: what a perfect sensor would have said, (T, M).
        outliers: (T,) bool, which values are false.
    """

    times: np.ndarray
    values: np.ndarray
    truth: np.ndarray
    outliers: np.ndarray


def names() -> list[str]:
    """List the series.

    Example:
        >>> names()
        ['thermometer', 'well', 'track']
    """
    return list(WORDS)


def path(name: str) -> Path:
    """Find the CSV file of a series."""
    validation.choice("name", name, WORDS)
    return Path(str(resources.files("wolf.simulate.datasets").joinpath(f"{name}.csv")))


def load(name: str) -> Dataset:
    """Read a series.

    Example:
        >>> walk = load("track")
        >>> walk.values.shape, int(walk.outliers.sum())
        ((400, 2), 29)
    """
    table = np.genfromtxt(path(name), delimiter=",", names=True, dtype=float, encoding="utf-8")
    fields = table.dtype.names or ()
    pick = {start: [field for field in fields if field.startswith(start)] for start in ("value", "truth")}
    values, truth = (np.stack([table[field] for field in pick[start]], axis=1) for start in ("value", "truth"))
    return Dataset(table["time"], values, truth, table["is_outlier"] == 1)
