"""States of many keys, one in each row of a matrix that grows."""

from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np

from wolf import validation
from wolf.online.bank.key_index import KeyIndex
from wolf.results import count

FEWEST = 16  # rows that it grows by


class StateTable:
    """Numbers, counts and last times of states, and which row each key has.

    Args:
        start: makes as many states at the prior: their numbers and their counts, one row for each.

    Attributes:
        numbers: (rows, P).
        counts: (rows, C), whole numbers.
        times: (rows,), of each key's last row; NaN where no times were told.
        rows: which row each key has.
    """

    def __init__(self, start: Callable[[int], tuple[np.ndarray, np.ndarray]]):
        self._start = start
        self.numbers, self.counts = (np.empty((0, first.shape[1]), first.dtype) for first in start(1))
        self.times = np.empty(0)
        self.rows = KeyIndex()
        self._free: list[int] = []

    def find(self, names: Sequence[Hashable]) -> np.ndarray:
        """Find the row of each key, and make rows for new ones, at the prior."""
        try:
            return self.rows.look_up(names)
        except KeyError:
            fresh = [name for name in dict.fromkeys(names) if name not in self.rows]
        self.add(fresh, *self._start(len(fresh)), np.full(len(fresh), np.nan))
        return self.find(names)

    def add(self, names: Sequence[Hashable], numbers: np.ndarray, counts: np.ndarray, times: np.ndarray) -> None:
        """Put states of new keys into free rows."""
        missing = len(names) - len(self._free)
        if missing > 0:
            old = len(self.numbers)
            new = max(missing, old, FEWEST)
            self.numbers, self.counts = (
                np.concatenate([each, np.zeros((new, each.shape[1]), each.dtype)])
                for each in (self.numbers, self.counts)
            )
            self.times = np.concatenate([self.times, np.full(new, np.nan)])
            self._free += range(old + new - 1, old - 1, -1)
        where = [self._free.pop() for _ in names]
        self.numbers[where], self.counts[where], self.times[where] = numbers, counts, times
        self.rows.put(names, where)

    def row(self, key: Hashable) -> int:
        """Give the row of a key that is there."""
        if key not in self.rows:
            raise KeyError(f"{validation.short_repr(key)} is not in the bank, which has {count(len(self.rows), 'key')}")
        return self.rows[key]

    def drop(self, keys: Iterable[Hashable]) -> None:
        """Let go of keys; unknown ones are passed over."""
        gone = [key for key in keys if key in self.rows]
        self._free += [self.rows.drop(key) for key in gone]

    def states(self) -> tuple[list[Hashable], dict[str, np.ndarray]]:
        """Copy all states, in the order of their keys."""
        where = list(self.rows.values())
        arrays = {"numbers": self.numbers[where], "counts": self.counts[where], "times": self.times[where]}
        return list(self.rows), arrays

    @property
    def size(self) -> int:
        """Bytes of one state, with its time."""
        return self.times.itemsize + sum(each.itemsize * each.shape[1] for each in (self.numbers, self.counts))

    def to_bytes(self, key: Hashable) -> bytes:
        """Lay one state out: its time, its numbers, its counts."""
        row = self.row(key)
        return b"".join(each[row].tobytes() for each in (self.times, self.numbers, self.counts))

    def from_bytes(self, key: Hashable, state: bytes) -> None:
        """Put back what `to_bytes` gave."""
        after = self.times.itemsize
        numbers = np.frombuffer(state, self.numbers.dtype, self.numbers.shape[1], after)
        counts = np.frombuffer(state, self.counts.dtype, self.counts.shape[1], after + numbers.nbytes)
        self.drop([key])
        self.add([key], numbers[None], counts[None], np.frombuffer(state, self.times.dtype, 1))
