"""Output parts of a service: filtered rows held until the next commit, and read back into memory at a start."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wolf_fleet.streaming.incidents.row_view import RowView
from wolf_fleet.streaming.row_parser import Columns

if TYPE_CHECKING:
    import pyarrow as pa

MAX_TABLES = 500  # small tables are merged beyond this number: each has a fixed cost
ARRIVED = "arrived"  # column of the output: time of arrival


class OutputParts:
    """Parts of the output of a service.

    Args:
        columns: of the rows.
        history_rows: number of recent rows that must be available after a restart.
        retain: keep parts that are no longer needed for these.

    Attributes:
        rows: rows filtered since the last commit.
    """

    def __init__(self, columns: Columns, history_rows: int, retain: bool):
        self._columns, self._history_rows, self._retain = columns, history_rows, retain
        self._fresh: list[pa.Table] = []
        self._lengths: list[int] = []  # rows of the parts on disk
        self.rows = 0

    def add(self, table: "pa.Table", at: float) -> None:
        """Add a table of filtered rows with their time of arrival."""
        import pyarrow

        title = ARRIVED
        while title in table.column_names:
            title = f"wolf_{title}"
        stamp = pyarrow.scalar(round(at * 1e6), pyarrow.timestamp("us", "UTC"))
        self._fresh.append(table.append_column(title, pyarrow.repeat(stamp, table.num_rows)))
        if len(self._fresh) > MAX_TABLES:
            self._fresh = [pyarrow.concat_tables(self._fresh).combine_chunks()]
        self.rows += table.num_rows

    def next_part(self, max_drop: float) -> tuple["pa.Table", int]:
        """Return the table of the next part, or None, and the number of old parts to delete with it.

        Args:
            max_drop: parts that may be deleted, because all sinks have them.
        """
        import pyarrow

        lengths = [*self._lengths, *([self.rows] if self._fresh else [])]
        drop = 0
        while not self._retain and drop < max_drop and sum(lengths[drop + 1 :]) >= self._history_rows:
            drop += 1
        return pyarrow.concat_tables(self._fresh) if self._fresh else None, drop

    def committed(self, drop: int) -> None:
        """Record that the result of `next_part` was committed."""
        self._lengths = [*self._lengths, *([self.rows] if self._fresh else [])][drop:]
        self._fresh, self.rows = [], 0

    def recall(self, paths: Sequence[Path]) -> Iterator[tuple[list[str], RowView]]:
        """Read recent rows back from the parts of the output."""
        from pyarrow import parquet

        first, wanted = len(paths), self._history_rows
        while first and (wanted > 0 or not self._retain):
            first -= 1
            self._lengths.insert(0, parquet.read_metadata(paths[first]).num_rows)
            wanted -= self._lengths[0]
        for path in paths[first:]:
            yield self._parse(parquet.read_table(path))

    def _parse(self, table: "pa.Table") -> tuple[list[str], RowView]:
        """Convert a part of the output back to keys and rows."""
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
        return keys, RowView(times, values, means, uppers - means, weights.min(axis=1), outliers)


def _seconds(column: "pa.ChunkedArray") -> np.ndarray:
    """Convert the times of a part: numbers, or dates to seconds since 1970."""
    import pyarrow

    if pyarrow.types.is_timestamp(column.type):
        return np.asarray(column.cast(pyarrow.int64())) / 1e6
    return np.asarray(column)
