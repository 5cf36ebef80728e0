"""Rows that passed as parts of the output: held until the next commit, and read back into the history at a start."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wolf_fleet.service.recent_rows import Shown
from wolf_fleet.streaming.row_parser import Columns

PIECES = 500  # small tables that are put together: each has a cost of its own
ARRIVED = "arrived"  # column of the output: when a row came


class Parts:
    """What a service knows of the parts of its output.

    Args:
        columns: of the rows.
        keep: rows that the history holds.
        retain: keep parts that the history does not need any more.

    Attributes:
        rows: that passed since the last commit.
    """

    def __init__(self, columns: Columns, keep: int, retain: bool):
        self._columns, self._keep, self._retain = columns, keep, retain
        self._fresh: list[Any] = []
        self._lengths: list[int] = []  # rows of the parts that are kept
        self.rows = 0

    def add(self, table: Any, at: float) -> None:
        """Take in rows that passed, and when they came."""
        import pyarrow

        title = ARRIVED
        while title in table.column_names:
            title = f"wolf_{title}"
        stamp = pyarrow.scalar(round(at * 1e6), pyarrow.timestamp("us", "UTC"))
        self._fresh.append(table.append_column(title, pyarrow.repeat(stamp, table.num_rows)))
        if len(self._fresh) > PIECES:
            self._fresh = [pyarrow.concat_tables(self._fresh).combine_chunks()]
        self.rows += table.num_rows

    def next_part(self) -> tuple[Any, int]:
        """Give the part to come, or None, and how many of the oldest parts can go with it."""
        import pyarrow

        lengths = [*self._lengths, *([self.rows] if self._fresh else [])]
        drop = 0
        while not self._retain and sum(lengths[drop + 1 :]) >= self._keep:
            drop += 1
        return pyarrow.concat_tables(self._fresh) if self._fresh else None, drop

    def committed(self, drop: int) -> None:
        """Begin anew, after a commit of `next_part`."""
        self._lengths = [*self._lengths, *([self.rows] if self._fresh else [])][drop:]
        self._fresh, self.rows = [], 0

    def recall(self, paths: Sequence[Path]) -> Iterator[tuple[list[str], Shown]]:
        """Read rows back from the parts of the output, as far as the history reaches."""
        from pyarrow import parquet

        first, wanted = len(paths), self._keep
        while first and (wanted > 0 or not self._retain):
            first -= 1
            self._lengths.insert(0, parquet.read_metadata(paths[first]).num_rows)
            wanted -= self._lengths[0]
        for path in paths[first:]:
            yield self._unfold(parquet.read_table(path))

    def _unfold(self, table: Any) -> tuple[list[str], Shown]:
        """Take a part of the output apart."""
        width, columns = len(self._columns.values), self._columns
        arrays = [table.column(i) for i in range(table.num_columns)]
        stamps = arrays.pop()
        keys = arrays.pop(0).to_pylist()
        times = _seconds(stamps if columns.time is None else arrays.pop(0))
        numbers = [np.asarray(array) for array in arrays]
        values, results = np.column_stack(numbers[:width]), numbers[width:]
        means, uppers = np.column_stack(results[0 : 3 * width : 3]), np.column_stack(results[2 : 3 * width : 3])
        rest = results[3 * width :]
        weights, outliers = (np.column_stack(some) for some in (rest[: len(rest) // 2], rest[len(rest) // 2 :]))
        outliers = np.broadcast_to(outliers, values.shape)
        return keys, Shown(times, values, means, uppers - means, weights.min(axis=1), outliers)


def _seconds(column: Any) -> np.ndarray:
    """Read times of a part: numbers, or dates as seconds since 1970."""
    import pyarrow

    if pyarrow.types.is_timestamp(column.type):
        return np.asarray(column.cast(pyarrow.int64())) / 1e6
    return np.asarray(column)
