"""Recent rows of all keys in one ring buffer; each row refers to the previous one of its key.

Memory is bounded for any mix of keys: keys that report often take more of it, and the oldest rows are overwritten.
"""

from typing import NamedTuple

import numpy as np

from wolf_fleet.streaming.pipeline import FilteredRows


class RowView(NamedTuple):
    """Filtered rows as displayed, in order.

    Attributes:
        times: (n,); times of arrival in seconds since 1970 if rows have no time of their own.
        values: (n, M) as received.
        means: (n, M) of the signal.
        half_widths: (n, M), half the width of its interval.
        weights: (n,), the smallest over coordinates.
        outliers: (n, M).
    """

    times: np.ndarray
    values: np.ndarray
    means: np.ndarray
    half_widths: np.ndarray
    weights: np.ndarray
    outliers: np.ndarray


def make_view(filtered: FilteredRows, num_deviations: float, at: float, timed: bool) -> RowView:
    """Convert filtered rows to a view.

    Args:
        filtered: from a `Pipeline` with a linear model.
        num_deviations: half width of an interval in standard deviations.
        at: time of arrival.
        timed: whether rows have times of their own.
    """
    rows, stepped = filtered
    assert stepped.signal is not None  # linear models have it
    assert stepped.signal_variances is not None
    weights = stepped.weight if stepped.weight.ndim == 1 else stepped.weight.min(axis=1)
    outliers = stepped.outlier if stepped.outlier.ndim == 2 else stepped.outlier[:, None]
    outliers = np.broadcast_to(outliers, rows.values.shape)
    times = rows.times if timed else np.full(len(rows.keys), at)
    half_widths = num_deviations * np.sqrt(stepped.signal_variances)
    return RowView(times, rows.values, stepped.signal, half_widths, weights, outliers)


class RecentRows:
    """Ring buffer of rows.

    Args:
        capacity: number of rows, of all keys together.
        num_values: values per row.
    """

    def __init__(self, capacity: int, num_values: int):
        self.capacity, self.next = capacity, 0
        shapes = {"times": (capacity,), "weights": (capacity,)}
        dtypes = {"outliers": bool}
        # Pages that were never written take no memory.
        made = (np.empty(shapes.get(n, (capacity, num_values)), dtypes.get(n, float)) for n in RowView._fields)
        self._rows = RowView._make(made)
        self._before = np.empty(capacity, np.int64)  # number of the previous row of the same key; -1 for none
        self._last: dict[str, int] = {}

    def add(self, keys: list[str], rows: RowView) -> None:
        """Append rows, in order.

        Args:
            keys: of the rows, (n,).
            rows: n rows.
        """
        if len(keys) > self.capacity:
            keys, rows = keys[-self.capacity :], RowView(*(each[-self.capacity :] for each in rows))
        before = np.empty(len(keys), np.int64)
        last, number = self._last, self.next
        for i, key in enumerate(keys):
            before[i] = last.get(key, -1)
            last[key] = number + i
        where = np.arange(number, number + len(keys)) % self.capacity
        for ring, each in zip(self._rows, rows, strict=True):
            ring[where] = each
        self._before[where] = before
        self.next += len(keys)

    def of(self, key: str, max_rows: int, after: int = -1) -> tuple[RowView, int]:
        """Return the last rows of a key.

        Args:
            key: may be unknown.
            max_rows: largest number of rows.
            after: only rows after the one with this number.

        Returns:
            The rows, and the number of the last one; `after` if there are none.
        """
        oldest = max(self.next - self.capacity, after + 1)
        found: list[int] = []
        number = last = self._last.get(key, -1)
        while number >= oldest and len(found) < max_rows:
            found.append(number % self.capacity)
            number = int(self._before[number % self.capacity])
        index = np.array(found[::-1], np.int64)
        return RowView(*(ring[index] for ring in self._rows)), last if found else after

    def forget(self, keys: list[str]) -> None:
        """Remove keys."""
        for key in keys:
            self._last.pop(key, None)
