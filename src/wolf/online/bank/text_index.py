"""Rows of text keys for whole arrays of text: a hash table over the numbers of their letters, all keys at once.

A dictionary needs a Python string for each key, and a call: three times as long as the step of the filter. An array of
text has its letters side by side, so that one product hashes all of it and one comparison makes sure.
"""

from typing import Any

import numpy as np

LONGEST = 64  # letters of a key
WEIGHTS = np.random.default_rng(0).integers(1, 2**26, LONGEST).astype(np.float64)  # 2**26 x 2**21 x 2**6 is exact
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: spreads what is near (Knuth 1973, 6.4)
SPARSE = 8  # places of the table for each key, at least: hardly any is taken twice


class TextTable:
    """Says which row each key has, as things stand.

    Args:
        names: all different.
        rows: of each.
    """

    def __init__(self, names: list[str], rows: np.ndarray):
        self._letters = letters(np.array(names))
        self._rows, self._lengths = rows, np.fromiter(map(len, names), np.int64, len(names))
        bits = int(SPARSE * len(names)).bit_length()
        self._shift, self._mask = np.uint64(64 - bits), 2**bits - 1
        self._table, self._sums = np.full(2**bits, -1, np.int32), _sums(self._letters)
        slot, waiting = self._slots(self._sums), np.arange(len(names), dtype=np.int32)
        while len(waiting):
            free = self._table[slot] < 0
            self._table[slot[free]] = waiting[free]
            placed = self._table[slot] == waiting
            slot, waiting = (slot[~placed] + 1) & self._mask, waiting[~placed]

    def find(self, keys: np.ndarray) -> np.ndarray | None:
        """Find the rows of keys, (n,); None if one of them is not there.

        Args:
            keys: of text, (n,).
        """
        given = letters(keys)
        sums = _sums(given)
        slot = self._slots(sums)
        found = self._table.take(slot)
        wrong = np.flatnonzero(self._sums.take(found) != sums)
        while len(wrong):
            if found[wrong].min() < 0:
                return None
            slot[wrong] = (slot[wrong] + 1) & self._mask
            found[wrong] = self._table[slot[wrong]]
            wrong = wrong[self._sums[found[wrong]] != sums[wrong]]
        if found.min() < 0 or not self._same(found, given):
            return None
        return self._rows.take(found)  # type: ignore[no-any-return]

    def _slots(self, sums: np.ndarray) -> np.ndarray:
        return ((sums.astype(np.uint64) * GOLDEN) >> self._shift).astype(np.int64)

    def _same(self, found: np.ndarray, given: np.ndarray) -> bool:
        """Make sure that keys are those that were found, and not of the same sum by chance."""
        wide, known = given.shape[1], self._letters.shape[1]
        both = min(wide, known)
        if wide > known and given[:, known:].any():
            return False
        if wide < known and self._lengths[found].max() > wide:
            return False
        return bool(np.array_equal(self._letters.take(found, 0)[:, :both], given[:, :both]))


def letters(keys: np.ndarray) -> np.ndarray:
    """See an array of text as numbers of letters, (n, longest); what is shorter ends in zeros."""
    whole = np.ascontiguousarray(keys, keys.dtype.newbyteorder("="))
    return whole.view(np.uint32).reshape(len(whole), -1)


def suits(keys: np.ndarray) -> bool:
    """Say whether keys are text that is short enough."""
    return keys.dtype.kind == "U" and 0 < keys.dtype.itemsize <= 4 * LONGEST


def fit(names: list[Any]) -> bool:
    """Say whether all keys of a list are text that an array can hold: short, and without the letter 0."""
    if not names or set(map(type, names)) != {str} or max(map(len, names)) > LONGEST:
        return False
    return "\0" not in "".join(names)


def _sums(given: np.ndarray) -> np.ndarray:
    return given.astype(np.float64) @ WEIGHTS[: given.shape[1]]  # type: ignore[no-any-return]
