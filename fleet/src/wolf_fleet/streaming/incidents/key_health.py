"""Health of keys: outliers, stuck values, missing values, level shifts and silence.

All data are arrays with one entry per key, so that a batch takes one pass and the worst of many keys are found at once.
"""

from collections.abc import Iterable

import numpy as np

from wolf.diagnostics.faults.stuck_values import MAX_CHANCE_RUNS, MIN_LENGTH_RATIO, MIN_STUCK_REPEATS
from wolf.online.bank import key_index, keyed_rows
from wolf_fleet.streaming.incidents.row_view import RowView

RECENT_ROWS = 20  # rows per key that count; a bit of each is kept
MIN_FLAGGED_ROWS = 2  # outliers among these for a problem key: one may be chance
SILENCE_FACTOR = 5.0  # usual intervals without a row that count as silence
MIN_SILENCE_SECONDS = 10.0  # shorter gaps may be network delays
MIN_INTERVALS = 3  # that must have been observed to know the usual interval
MIN_REJECTED_ROWS = 3  # in a row, before a change of the estimate counts as a shift
SHIFT_HALF_WIDTHS = 4.0  # change of the estimate, in half widths of its interval, that counts as a shift
SCORE_WEIGHT = 0.5  # of being stuck or silent in the score, relative to the share of outliers
FIELDS: dict[str, tuple[str, float]] = {  # per key: dtype, and the value of a new key
    "rows": ("i8", 0),
    "flags": ("u4", 0),  # bit i: row number i before the last one was an outlier
    "blanks": ("u4", 0),  # the same for rows without a value
    "value": ("f8", np.nan),  # last value of each coordinate
    "repeats": ("i8", 0),  # rows with the value of the row before, the present run included
    "runs": ("i8", 0),  # number of runs of repeats
    "run": ("i8", 0),  # length of the present run of repeats
    "longest": ("i8", 0),  # length of the longest run before the present one
    "rejected": ("i8", 0),  # outliers since the last row that was none
    "level": ("f8", np.nan),  # estimate of each coordinate at the last row that was no outlier
    "shift": ("f8", np.nan),  # change of the estimate in the last level shift; NaN for none
    "stamps": ("i8", 0),  # rows with times of their own, or requests with rows of the key
    "last": ("f8", np.nan),  # arrival of the last one, in seconds since 1970
    "begun": ("f8", np.nan),  # time of the first row: its own, or of its arrival
    "ended": ("f8", np.nan),  # time of the last row
}
VECTORS = ("value", "level")  # with one number for each coordinate
BITS = np.uint32((1 << RECENT_ROWS) - 1)
Where = np.ndarray | slice  # indices of keys
EVERY_KEY = slice(None)


class KeyHealth:
    """Health statistics of all keys.

    Args:
        num_values: values per row.
    """

    def __init__(self, num_values: int):
        self._indices: dict[str, int] = {}
        self.keys: list[str] = []
        self.num_values = num_values
        self._arrays = self._empty(16)

    def _empty(self, size: int) -> dict[str, np.ndarray]:
        made = {name: np.full(size, empty, dtype) for name, (dtype, empty) in FIELDS.items()}
        return made | {name: np.full((size, self.num_values), np.nan) for name in VECTORS}

    def __getattr__(self, name: str) -> np.ndarray:
        """Return a field of all keys."""
        if name not in FIELDS:
            raise AttributeError(name)
        return self._arrays[name][: len(self.keys)]

    def add(self, keys: list[str], rows: RowView, at: float, arrived: float, timed: bool) -> np.ndarray:
        """Add filtered rows, in order.

        Args:
            keys: of the rows, (n,).
            rows: n rows.
            at: time of arrival, by the clock.
            arrived: the same by a clock that is never set, for silence.
            timed: whether the times of the rows are dates or seconds since 1970. The usual interval of a key is then
                the time between its rows, so that a backfill, whose rows arrive at once, does not change it.

        Returns:
            Indices of the keys, each once.
        """
        self._grow(dict.fromkeys(key for key in keys if key not in self._indices))
        indices = np.fromiter(map(self._indices.__getitem__, keys), np.int64, len(keys))
        flagged, blank = np.asarray(rows.outliers.any(axis=1)), np.isfinite(rows.values).sum(axis=1) == 0
        for some in keyed_rows.groups(indices, None, np.ones(len(keys), bool)):
            where = indices[some[:, 0]]
            self._advance(where, flagged[some], blank[some], rows.values[some])
            self._find_shifts(where, flagged[some], rows.means[some], rows.half_widths[some])
        present, counts = np.unique(indices, return_counts=True)
        self.stamps[present] += counts if timed else 1
        self.last[present] = arrived
        times = rows.times if timed else np.full(len(keys), at)
        np.fmin.at(self._arrays["begun"], indices, times)
        np.fmax.at(self._arrays["ended"], indices, times)
        return present

    def _grow(self, fresh: Iterable[str]) -> None:
        self._indices |= {key: len(self.keys) + i for i, key in enumerate(fresh)}
        self.keys += fresh
        have = len(self._arrays["rows"])
        if len(self.keys) > have:
            more = self._empty(max(len(self.keys) - have, have, 16))
            self._arrays = {name: np.concatenate([array, more[name]]) for name, array in self._arrays.items()}

    def _advance(self, where: np.ndarray, flagged: np.ndarray, blank: np.ndarray, values: np.ndarray) -> None:
        """Add equally many rows of each of some keys, (keys, n); values are (keys, n, M)."""
        size = values.shape[1]
        self.rows[where] += size
        self.flags[where] = _shift(self.flags[where], flagged)
        self.blanks[where] = _shift(self.blanks[where], blank)
        same = (values == np.concatenate([self.value[where][:, None], values[:, :-1]], axis=1)).all(axis=2)
        # Length of the run of each row: rows since the last one that differed, or since before the batch.
        position = np.arange(size)
        broken = np.maximum.accumulate(np.where(same, -1, position), axis=1)
        runs = np.where(broken < 0, self.run[where][:, None] + position + 1, position - broken)
        began = same & (runs == 1)
        ended = np.column_stack([self.run[where], runs[:, :-1]]) * ~same
        self.longest[where] = np.maximum(self.longest[where], ended.max(axis=1))
        self.repeats[where] += same.sum(axis=1)
        self.runs[where] += began.sum(axis=1)
        self.run[where], self.value[where] = runs[:, -1], values[:, -1]

    def _find_shifts(self, where: np.ndarray, flagged: np.ndarray, means: np.ndarray, halves: np.ndarray) -> None:
        """Find level shifts: rows in a row were rejected, and then the estimate is at another level.

        Args:
            where: indices of some keys, (keys,).
            flagged: equally many rows of each, (keys, n).
            means: estimates, (keys, n, M).
            halves: half widths of their intervals, likewise.
        """
        size = flagged.shape[1]
        position = np.arange(size)
        calm = np.maximum.accumulate(np.where(flagged, -1, position), axis=1)  # last row that is no outlier; -1: before
        before = np.column_stack([np.full(len(where), -1), calm[:, :-1]])
        runs = position - 1 - before + np.where(before < 0, self.rejected[where][:, None], 0)
        ends = ~flagged & (runs >= MIN_REJECTED_ROWS)
        for i, j in zip(*np.nonzero(ends), strict=True):  # few
            level = self.level[where[i]] if before[i, j] < 0 else means[i, before[i, j]]
            change = means[i, j] - level
            if np.any(np.abs(change) > SHIFT_HALF_WIDTHS * halves[i, j]):
                self.shift[where[i]] = change[np.nanargmax(np.abs(change))]
        last = calm[:, -1]
        seen = last >= 0
        self.level[where[seen]] = means[seen, last[seen]]
        self.rejected[where] = np.where(seen, size - 1 - last, self.rejected[where] + size)

    def stuck(self, where: Where = EVERY_KEY) -> np.ndarray:
        """Find keys whose present run of one value is longer than chance and their history explain, (K,) of bool."""
        # Probability of a repeat, from the number of runs: robust to a single long run.
        run, rows = self.run[where], self.rows[where]
        chance = np.minimum(self.runs[where] / np.maximum(rows - self.repeats[where], 1), 1.0)
        rare = rows * chance**run <= MAX_CHANCE_RUNS
        return (run >= MIN_STUCK_REPEATS) & rare & (run >= MIN_LENGTH_RATIO * self.longest[where])

    def silent(self, now: float, since: float, where: Where = EVERY_KEY) -> np.ndarray:
        """Find keys without a row for several usual intervals, (K,) of bool.

        Args:
            now: in seconds since 1970.
            since: start of the service, before which no rows could arrive.
            where: indices of the keys.
        """
        quiet = now - np.fmax(self.last[where], since)
        return (self.stamps[where] > MIN_INTERVALS) & (
            quiet > np.maximum(SILENCE_FACTOR * self.usual_interval(where), MIN_SILENCE_SECONDS)
        )

    def usual_interval(self, where: Where = EVERY_KEY) -> np.ndarray:
        """Compute the mean time between rows, or requests with rows, of each key, in seconds, (K,)."""
        return (self.ended[where] - self.begun[where]) / np.maximum(self.stamps[where] - 1, 1)

    def flagged(self, where: Where = EVERY_KEY) -> np.ndarray:
        """Count the outliers among the recent rows, (K,)."""
        return np.bitwise_count(self.flags[where])

    def assess(self, now: float, since: float, where: Where = EVERY_KEY) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Score keys.

        Args:
            now: in seconds since 1970.
            since: as in `silent`.
            where: indices of the keys; default: all.

        Returns:
            A score per key, 0 for healthy ones; and masks of the keys with any problem, outliers, stuck, silent or
            blank.
        """
        recent = np.clip(self.rows[where], 1, RECENT_ROWS)
        flagged, blanks = self.flagged(where), np.bitwise_count(self.blanks[where])
        stuck, silent = self.stuck(where), self.silent(now, since, where)
        blank = blanks >= np.maximum(recent / 2, MIN_FLAGGED_ROWS)
        score = flagged / recent + SCORE_WEIGHT * stuck + SCORE_WEIGHT * silent + blanks / recent * blank
        outliers = flagged >= MIN_FLAGGED_ROWS
        problem = outliers | stuck | silent | blank
        return score, {"any": problem, "outliers": outliers, "stuck": stuck, "silent": silent, "blank": blank}

    def index(self, key: str) -> int:
        """Return the index of a key in the arrays; -1 if it is unknown."""
        return self._indices.get(key, -1)

    def forget(self, keys: list[str]) -> None:
        """Remove keys."""
        gone = set(keys)
        kept = [index for index, key in enumerate(self.keys) if key not in gone]
        self._arrays = {name: array[kept] for name, array in self._arrays.items()}
        self.keys = [self.keys[index] for index in kept]
        self._indices = {key: index for index, key in enumerate(self.keys)}

    def pack(self) -> dict[str, np.ndarray]:
        """Serialise the statistics as arrays."""
        names = {f"health_{name}": array for name, array in key_index.pack(self.keys).items()}
        return names | {f"health_{name}": self._arrays[name][: len(self.keys)] for name in FIELDS}

    def unpack(self, arrays: dict[str, np.ndarray], now: float) -> None:
        """Load the result of `pack`; no row has arrived after now, even if the clock was set back since."""
        named = {name: arrays[f"health_{name}"] for name in ("key_text", "key_ends", "key_integers")}
        self._grow(dict.fromkeys(str(key) for key in key_index.unpack(named)))
        for name in FIELDS:
            self._arrays[name][: len(self.keys)] = arrays[f"health_{name}"]
        self._arrays["last"][: len(self.keys)] = np.fmin(self.last, now)


def _shift(bits: np.ndarray, fresh: np.ndarray) -> np.ndarray:
    """Shift bits (K,) to the left and insert new ones, (K, n), of which the last becomes bit 0."""
    last = fresh[:, -RECENT_ROWS:]
    size = last.shape[1]
    powers = np.uint32(1) << np.arange(size - 1, -1, -1, dtype=np.uint32)
    inserted = (last * powers).sum(axis=1, dtype=np.uint32)
    return ((bits << np.uint32(size)) | inserted) & BITS
