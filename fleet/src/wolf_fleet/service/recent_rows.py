"""The last rows of all keys, in one ring: each knows where the row before it of the same key is.

Memory is bounded whatever the keys do: keys that report often have more of it, and what is oldest is overwritten.
"""

from typing import NamedTuple

import numpy as np

from wolf_fleet.streaming.pipeline import Passed


class Shown(NamedTuple):
    """Rows of keys, or of one key, in order, as they are shown.

    Attributes:
        times: (n,); when rows came, in seconds since 1970, where they have no time of their own.
        values: (n, M) as they came.
        means: (n, M) of the signal.
        halves: (n, M), half of its interval.
        weights: (n,), the smallest of the coordinates.
        outliers: (n, M).
    """

    times: np.ndarray
    values: np.ndarray
    means: np.ndarray
    halves: np.ndarray
    weights: np.ndarray
    outliers: np.ndarray


def lay_out(passed: Passed, reach: float, at: float, timed: bool) -> Shown:
    """Lay out rows that passed.

    Args:
        passed: from a `Flow` whose model is linear.
        reach: half of an interval, in deviations.
        at: when they came.
        timed: whether they have times.
    """
    rows, stepped = passed
    assert stepped.signal is not None  # of linear models
    assert stepped.signal_variances is not None
    weights = stepped.weight if stepped.weight.ndim == 1 else stepped.weight.min(axis=1)
    outliers = stepped.outlier if stepped.outlier.ndim == 2 else stepped.outlier[:, None]
    outliers = np.broadcast_to(outliers, rows.values.shape)
    times = rows.times if timed else np.full(len(rows.keys), at)
    return Shown(times, rows.values, stepped.signal, reach * np.sqrt(stepped.signal_variances), weights, outliers)


class History:
    """A ring of rows.

    Args:
        keep: how many rows, of all keys together.
        width: values in a row.
    """

    def __init__(self, keep: int, width: int):
        self.keep, self.next = keep, 0
        shapes = {"times": (keep,), "weights": (keep,)}
        kinds = {"outliers": bool}
        # Memory that was not written to yet takes no room.
        made = (np.empty(shapes.get(name, (keep, width)), kinds.get(name, float)) for name in Shown._fields)
        self._rows = Shown._make(made)
        self._before = np.empty(keep, np.int64)  # number of the row before it of the same key; -1 for none
        self._last: dict[str, int] = {}

    def add(self, keys: list[str], rows: Shown) -> None:
        """Put rows in, in order.

        Args:
            keys: whose they are, (n,).
            rows: of as many.
        """
        if len(keys) > self.keep:
            keys, rows = keys[-self.keep :], Shown(*(each[-self.keep :] for each in rows))
        before = np.empty(len(keys), np.int64)
        last, number = self._last, self.next
        for i, key in enumerate(keys):
            before[i] = last.get(key, -1)
            last[key] = number + i
        where = np.arange(number, number + len(keys)) % self.keep
        for ring, each in zip(self._rows, rows, strict=True):
            ring[where] = each
        self._before[where] = before
        self.next += len(keys)

    def of(self, key: str, most: int, after: int = -1) -> tuple[Shown, int]:
        """Give the last rows of a key.

        Args:
            key: that may have none.
            most: how many.
            after: number of the row after which they are wanted.

        Returns:
            The rows, and the number of the last one; `after` if there are none.
        """
        oldest = max(self.next - self.keep, after + 1)
        found: list[int] = []
        number = last = self._last.get(key, -1)
        while number >= oldest and len(found) < most:
            found.append(number % self.keep)
            number = int(self._before[number % self.keep])
        index = np.array(found[::-1], np.int64)
        return Shown(*(ring[index] for ring in self._rows)), last if found else after

    def forget(self, keys: list[str]) -> None:
        """Drop keys."""
        for key in keys:
            self._last.pop(key, None)
