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
        find_models: returns kind and number of the model of each key, (n, 2); raises for a key without a model.
        start: returns the numbers and counts of states at the prior, one row for each, given their models.
        extra: number of further entries of each state, beside those of the filter; 0 for new keys.

    Attributes:
        numbers: floating-point entries of the states, (rows, P + extra): P is that of the largest kind.
        counts: integer entries of the states, (rows, C).
        times: of the last row of each key, (rows,); NaN if its rows had no times.
        models: kind and number of the model of each key, (rows, 2).
        index: row of each key.
    """

    def __init__(
        self,
        find_models: Callable[[Sequence[Hashable]], np.ndarray],
        start: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
        extra: int = 0,
    ):
        self._find_models, self._start = find_models, start
        numbers, counts = start(np.empty((0, 2), np.int64))
        self._size = numbers.shape[1]
        self.numbers = np.empty((0, self._size + extra), numbers.dtype)
        self.counts = np.empty((0, counts.shape[1]), counts.dtype)
        self.times, self.models = np.empty(0), np.zeros((0, 2), np.int64)
        self.index = KeyIndex()
        self._free_rows: list[int] = []

    def of_sizes(self, numbers: int, counts: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the entries that filters of one kind use, as views: (rows, numbers) and (rows, counts)."""
        return self.numbers[:, :numbers], self.counts[:, :counts]

    @property
    def extra(self) -> np.ndarray:
        """The further entries, a view (rows, extra)."""
        return self.numbers[:, self._size :]

    def bytes_per_state(self, sizes: tuple[int, int]) -> int:
        """Return the size of one state with its time.

        Args:
            sizes: numbers of floating-point and integer entries of its kind.
        """
        numbers, counts = sizes[0] + self.extra.shape[1], sizes[1]
        return self.times.itemsize + self.numbers.itemsize * numbers + self.counts.itemsize * counts

    def find_or_add(self, names: Sequence[Hashable]) -> np.ndarray:
        """Find the row of each key, after adding new keys at the prior."""
        try:
            return self.index.find(names)
        except KeyError:
            new = [name for name in dict.fromkeys(names) if name not in self.index]
        models = self._find_models(new)
        self.add(new, *self._start(models), np.full(len(new), np.nan), models)
        return self.find_or_add(names)

    def widen(self, numbers: int, counts: int) -> None:
        """Make room for kinds with more entries than those so far."""
        if numbers > self._size:
            fresh = np.zeros((len(self.numbers), numbers - self._size), self.numbers.dtype)
            self.numbers = np.hstack([self.numbers[:, : self._size], fresh, self.extra])
            self._size = numbers
        if counts > self.counts.shape[1]:
            fresh = np.zeros((len(self.counts), counts - self.counts.shape[1]), self.counts.dtype)
            self.counts = np.hstack([self.counts, fresh])

    def padded(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Bring numbers and counts of a table with other kinds to the widths of this one, or make room for them."""
        extra, numbers, counts = self.extra.shape[1], arrays["numbers"], arrays["counts"]
        size = numbers.shape[1] - extra
        self.widen(size, counts.shape[1])
        whole = np.zeros((len(numbers), self.numbers.shape[1]), self.numbers.dtype)
        whole[:, :size], whole[:, self._size :] = numbers[:, :size], numbers[:, size:]
        wide = np.zeros((len(counts), self.counts.shape[1]), self.counts.dtype)
        wide[:, : counts.shape[1]] = counts
        return {"numbers": whole, "counts": wide}

    def add(
        self,
        names: Sequence[Hashable],
        numbers: np.ndarray,
        counts: np.ndarray,
        times: np.ndarray,
        models: np.ndarray | None = None,
    ) -> None:
        """Add new keys with their states, in free rows; `models` are looked up if they are not known."""
        models = self._find_models(names) if models is None else models
        self.widen(*(each.shape[1] for each in self._start(models[:0])))
        missing = len(names) - len(self._free_rows)
        if missing > 0:
            old = len(self.numbers)
            new = max(missing, old, MIN_NEW_ROWS)
            self.numbers, self.counts = (
                np.concatenate([each, np.zeros((new, each.shape[1]), each.dtype)])
                for each in (self.numbers, self.counts)
            )
            self.times = np.concatenate([self.times, np.full(new, np.nan)])
            self.models = np.concatenate([self.models, np.zeros((new, 2), np.int64)])
            self._free_rows += range(old + new - 1, old - 1, -1)
        rows = [self._free_rows.pop() for _ in names]
        self.numbers[rows, : numbers.shape[1]], self.numbers[rows, numbers.shape[1] :] = numbers, 0.0
        self.counts[rows], self.times[rows], self.models[rows] = 0, times, models
        self.counts[rows, : counts.shape[1]] = counts
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

    def to_bytes(self, key: Hashable, sizes: tuple[int, int]) -> bytes:
        """Encode the state of one key: time, numbers, counts; `sizes` are those of its kind."""
        row = self.row(key)
        numbers, counts = self.of_sizes(*sizes)
        return b"".join(each[row].tobytes() for each in (self.times, numbers, self.extra, counts))

    def from_bytes(self, key: Hashable, state: bytes, sizes: tuple[int, int]) -> None:
        """Replace the state of one key by one that `to_bytes` encoded."""
        time = np.frombuffer(state, self.times.dtype, 1)
        numbers = np.frombuffer(state, self.numbers.dtype, sizes[0] + self.extra.shape[1], time.nbytes)
        counts = np.frombuffer(state, self.counts.dtype, sizes[1], time.nbytes + numbers.nbytes)
        self.remove([key])
        row = self.find_or_add([key])
        self.times[row], self.numbers[row, : sizes[0]], self.extra[row] = time, numbers[: sizes[0]], numbers[sizes[0] :]
        self.counts[row, : sizes[1]] = counts
