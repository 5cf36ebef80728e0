"""Recent rows of all keys in one ring buffer; each row refers to the previous one of its key.

Memory is bounded for any mix of keys: keys that report often take more of it, and the oldest rows are overwritten.
"""

import numpy as np

from wolf_fleet.streaming.incidents.row_view import RowView


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
