"""How keys are doing: which do not fit their filters, say one value again and again, say nothing, or have gone silent.

All is in arrays with a place for each key, so that a batch is one pass, and the worst of many keys are found at once.
"""

from typing import Any

import numpy as np

from wolf.diagnostics.faults.stuck_values import HABIT, RARE, SHORTEST_STUCK
from wolf.online.bank import key_index, keyed_rows
from wolf_fleet.service.recent_rows import Shown

RECENT = 20  # rows that are judged; a bit for each is kept
FEW = 2  # flagged rows of those that are trouble: one may be chance
SILENT = 5.0  # usual gaps without a row that are told
LEAST = 10.0  # seconds that are told at least: networks hold things up
GAPS = 3  # gaps that must have been seen to know what is usual
SURE = 0.5  # what being stuck or silent counts for, beside the share of flagged rows
FIELDS: dict[str, tuple[str, float]] = {  # of each key: kind of number, and what a new one has
    "rows": ("i8", 0),
    "flags": ("u4", 0),  # bit i: the last row but i was flagged
    "blanks": ("u4", 0),  # the same of rows without a value
    "value": ("f8", np.nan),  # the last one, of each coordinate
    "repeats": ("i8", 0),  # rows that had the value of the row before, the present run included
    "runs": ("i8", 0),  # times that repeats began
    "run": ("i8", 0),  # repeats in a row, now
    "longest": ("i8", 0),  # the longest run before the present one
    "arrivals": ("i8", 0),  # requests with rows of the key
    "first": ("f8", np.nan),  # when the first came, in seconds since 1970
    "last": ("f8", np.nan),
}
BITS = np.uint32((1 << RECENT) - 1)


class KeyWatch:
    """How each key is doing.

    Args:
        width: values in a row.
    """

    def __init__(self, width: int):
        self._places: dict[str, int] = {}
        self.keys: list[str] = []
        self.width = width
        self._arrays = self._empty(16)

    def _empty(self, size: int) -> dict[str, np.ndarray]:
        made = {name: np.full(size, empty, kind) for name, (kind, empty) in FIELDS.items()}
        return made | {"value": np.full((size, self.width), np.nan)}

    def __getattr__(self, name: str) -> np.ndarray:
        """Give a field of all keys."""
        if name not in FIELDS:
            raise AttributeError(name)
        return self._arrays[name][: len(self.keys)]

    def add(self, keys: list[str], rows: Shown, at: float) -> None:
        """Take in rows that passed, in order.

        Args:
            keys: whose they are, (n,).
            rows: of as many.
            at: when they came.
        """
        self._grow(dict.fromkeys(key for key in keys if key not in self._places))
        places = np.fromiter(map(self._places.__getitem__, keys), np.int64, len(keys))
        flagged, blank = np.asarray(rows.outliers.any(axis=1)), np.isfinite(rows.values).sum(axis=1) == 0
        for some in keyed_rows.groups(places, None, np.ones(len(keys), bool)):
            self._advance(places[some[:, 0]], flagged[some], blank[some], rows.values[some])
        present = np.unique(places)
        self.arrivals[present] += 1
        self.first[present] = np.fmin(self.first[present], at)
        self.last[present] = at

    def _grow(self, fresh: Any) -> None:
        self._places |= {key: len(self.keys) + i for i, key in enumerate(fresh)}
        self.keys += fresh
        have = len(self._arrays["rows"])
        if len(self.keys) > have:
            more = self._empty(max(len(self.keys) - have, have, 16))
            self._arrays = {name: np.concatenate([array, more[name]]) for name, array in self._arrays.items()}

    def _advance(self, where: np.ndarray, flagged: np.ndarray, blank: np.ndarray, values: np.ndarray) -> None:
        """Take as many rows of each of some keys, (keys, n); values are (keys, n, M)."""
        size = values.shape[1]
        self.rows[where] += size
        self.flags[where] = _shift(self.flags[where], flagged)
        self.blanks[where] = _shift(self.blanks[where], blank)
        same = (values == np.concatenate([self.value[where][:, None], values[:, :-1]], axis=1)).all(axis=2)
        # Length of the run that each row is in: rows since the last that differed, or since before the batch.
        place = np.arange(size)
        broken = np.maximum.accumulate(np.where(same, -1, place), axis=1)
        runs = np.where(broken < 0, self.run[where][:, None] + place + 1, place - broken)
        began = same & (runs == 1)
        ended = np.column_stack([self.run[where], runs[:, :-1]]) * ~same
        self.longest[where] = np.maximum(self.longest[where], ended.max(axis=1))
        self.repeats[where] += same.sum(axis=1)
        self.runs[where] += began.sum(axis=1)
        self.run[where], self.value[where] = runs[:, -1], values[:, -1]

    def stuck(self) -> np.ndarray:
        """Find keys whose present run of one value is longer than chance and their habits explain, (K,) of bool."""
        # The chance of a repeat, from how many runs began: a long run does not move it.
        chance = np.minimum(self.runs / np.maximum(self.rows - self.repeats, 1), 1.0)
        rare = self.rows * chance**self.run <= RARE
        return (self.run >= SHORTEST_STUCK) & rare & (self.run >= HABIT * self.longest)

    def silent(self, now: float, since: float) -> np.ndarray:
        """Find keys that have not been heard of for several usual gaps, (K,) of bool.

        Args:
            now: in seconds since 1970.
            since: when the service began to listen: before, nobody could be heard.
        """
        quiet = now - np.fmax(self.last, since)
        return (self.arrivals > GAPS) & (quiet > np.maximum(SILENT * self.usual_gap(), LEAST))

    def usual_gap(self) -> np.ndarray:
        """Give the mean time between requests with rows of each key, in seconds, (K,)."""
        return (self.last - self.first) / np.maximum(self.arrivals - 1, 1)

    def flagged(self) -> np.ndarray:
        """Count flagged rows of the last ones, (K,)."""
        return np.bitwise_count(self.flags)

    def judge(self, now: float, since: float) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Say how much each key needs to be looked at.

        Args:
            now: in seconds since 1970.
            since: as in `silent`.

        Returns:
            A score for each key, 0 for those that are well; and which are in trouble, stuck, silent or blank.
        """
        recent = np.clip(self.rows, 1, RECENT)
        flagged, blanks = self.flagged(), np.bitwise_count(self.blanks)
        stuck, silent = self.stuck(), self.silent(now, since)
        blank = blanks >= np.maximum(recent / 2, FEW)
        score = flagged / recent + SURE * stuck + SURE * silent + blanks / recent * blank
        trouble = (flagged >= FEW) | stuck | silent | blank
        return score, {"trouble": trouble, "stuck": stuck, "silent": silent, "blank": blank}

    def place(self, key: str) -> int:
        """Give the place of a key in the arrays; -1 if nobody has heard of it."""
        return self._places.get(key, -1)

    def forget(self, keys: list[str]) -> None:
        """Drop keys."""
        gone = set(keys)
        kept = [place for place, key in enumerate(self.keys) if key not in gone]
        self._arrays = {name: array[kept] for name, array in self._arrays.items()}
        self.keys = [self.keys[place] for place in kept]
        self._places = {key: place for place, key in enumerate(self.keys)}

    def pack(self) -> dict[str, np.ndarray]:
        """Lay everything out as arrays."""
        names = {f"watch_{name}": array for name, array in key_index.pack(self.keys).items()}
        return names | {f"watch_{name}": self._arrays[name][: len(self.keys)] for name in FIELDS}

    def unpack(self, arrays: dict[str, np.ndarray]) -> None:
        """Take over what `pack` laid out."""
        named = {name: arrays[f"watch_{name}"] for name in ("key_text", "key_ends", "key_integers")}
        self._grow(dict.fromkeys(str(key) for key in key_index.unpack(named)))
        for name in FIELDS:
            self._arrays[name][: len(self.keys)] = arrays[f"watch_{name}"]


def _shift(bits: np.ndarray, fresh: np.ndarray) -> np.ndarray:
    """Shift bits (K,) to the left by as many as come in, (K, n), of which the last is bit 0."""
    last = fresh[:, -RECENT:]
    size = last.shape[1]
    powers = np.uint32(1) << np.arange(size - 1, -1, -1, dtype=np.uint32)
    came = (last * powers).sum(axis=1, dtype=np.uint32)
    return ((bits << np.uint32(size)) | came) & BITS
