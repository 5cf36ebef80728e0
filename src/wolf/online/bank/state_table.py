"""States of many keys, one in each row of a matrix that grows."""

from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np

from wolf import validation
from wolf.online.bank.key_index import KeyIndex
from wolf.results import count

MIN_NEW_ROWS = 16


class StateTable:
    """Numbers, counts and last times of states, with an index from keys to rows.

    Args:
        start: returns the numbers and counts of n states at the prior, one row for each.
        extra: number of further entries of each state, beside those of the filter; 0 for new keys.

    Attributes:
        numbers: floating-point entries of the states, (rows, P + extra).
        counts: integer entries of the states, (rows, C).
        times: of the last row of each key, (rows,); NaN if its rows had no times.
        index: row of each key.
    """

    def __init__(self, start: Callable[[int], tuple[np.ndarray, np.ndarray]], extra: int = 0):
        self._start = start
        numbers, counts = start(1)
        self._size = numbers.shape[1]
        self.numbers = np.empty((0, self._size + extra), numbers.dtype)
        self.counts = np.empty((0, counts.shape[1]), counts.dtype)
        self.times = np.empty(0)
        self.index = KeyIndex()
        self._free_rows: list[int] = []

    @property
    def filters(self) -> np.ndarray:
        """Numbers of the filters alone, a view (rows, P)."""
        return self.numbers[:, : self._size]

    @property
    def extra(self) -> np.ndarray:
        """The further entries, a view (rows, extra)."""
        return self.numbers[:, self._size :]

    @property
    def bytes_per_state(self) -> int:
        """Size of one state with its time."""
        return self.times.itemsize + sum(each.itemsize * each.shape[1] for each in (self.numbers, self.counts))

    def find_or_add(self, names: Sequence[Hashable]) -> np.ndarray:
        """Find the row of each key, after adding new keys at the prior."""
        try:
            return self.index.find(names)
        except KeyError:
            new = [name for name in dict.fromkeys(names) if name not in self.index]
        self.add(new, *self._start(len(new)), np.full(len(new), np.nan))
        return self.find_or_add(names)

    def add(self, names: Sequence[Hashable], numbers: np.ndarray, counts: np.ndarray, times: np.ndarray) -> None:
        """Add new keys with their states, in free rows."""
        missing = len(names) - len(self._free_rows)
        if missing > 0:
            old = len(self.numbers)
            new = max(missing, old, MIN_NEW_ROWS)
            self.numbers, self.counts = (
                np.concatenate([each, np.zeros((new, each.shape[1]), each.dtype)])
                for each in (self.numbers, self.counts)
            )
            self.times = np.concatenate([self.times, np.full(new, np.nan)])
            self._free_rows += range(old + new - 1, old - 1, -1)
        rows = [self._free_rows.pop() for _ in names]
        self.numbers[rows, : numbers.shape[1]], self.numbers[rows, numbers.shape[1] :] = numbers, 0.0
        self.counts[rows], self.times[rows] = counts, times
        self.index.add(names, rows)

    def row(self, key: Hashable) -> int:
        """Return the row of a known key; raise a KeyError for an unknown one."""
        if key not in self.index:
            keys = count(len(self.index), "key")
            raise KeyError(f"{validation.short_repr(key)} is not in the bank, which has {keys}")
        return self.index[key]

    def remove(self, keys: Iterable[Hashable]) -> None:
        """Remove keys, and free their rows; unknown keys are ignored."""
        known = [key for key in keys if key in self.index]
        self._free_rows += [self.index.remove(key) for key in known]

    def copy(self) -> tuple[list[Hashable], dict[str, np.ndarray]]:
        """Copy all keys and their states, in the same order."""
        rows = list(self.index.values())
        arrays = {"numbers": self.numbers[rows], "counts": self.counts[rows], "times": self.times[rows]}
        return list(self.index), arrays

    def to_bytes(self, key: Hashable) -> bytes:
        """Encode the state of one key: time, numbers, counts."""
        row = self.row(key)
        return b"".join(each[row].tobytes() for each in (self.times, self.numbers, self.counts))

    def from_bytes(self, key: Hashable, state: bytes) -> None:
        """Replace the state of one key by one that `to_bytes` encoded."""
        start = self.times.itemsize
        numbers = np.frombuffer(state, self.numbers.dtype, self.numbers.shape[1], start)
        counts = np.frombuffer(state, self.counts.dtype, self.counts.shape[1], start + numbers.nbytes)
        self.remove([key])
        self.add([key], numbers[None], counts[None], np.frombuffer(state, self.times.dtype, 1))
