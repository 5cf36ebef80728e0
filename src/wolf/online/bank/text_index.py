"""Hash table from text keys to rows, for whole arrays of text at once.

A lookup in a dict needs a Python string and a call for each key, three times the cost of a filter step. A NumPy array
of text stores its code points side by side, so one matrix product hashes all keys and one comparison verifies matches.
"""

import numpy as np

MAX_KEY_LENGTH = 64  # characters
# Code points are below 2**21, so 64 products of at most 2**26 x 2**21 add up to less than 2**53: exact in float64.
HASH_WEIGHTS = np.random.default_rng(0).integers(1, 2**26, MAX_KEY_LENGTH).astype(np.float64)
FIBONACCI_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: separates close values (Knuth 1973, 6.4)
MIN_SLOTS_PER_KEY = 8  # so that collisions are rare


class TextTable:
    """Immutable hash table with linear probing.

    Args:
        names: keys, all different.
        rows: of each key.
    """

    def __init__(self, names: list[str], rows: np.ndarray):
        self._code_points = code_points(np.array(names))
        self._rows, self._lengths = rows, np.fromiter(map(len, names), np.int64, len(names))
        bits = int(MIN_SLOTS_PER_KEY * len(names)).bit_length()
        self._shift, self._mask = np.uint64(64 - bits), 2**bits - 1
        self._slots, self._sums = np.full(2**bits, -1, np.int32), _weighted_sums(self._code_points)
        slot, waiting = self._first_slots(self._sums), np.arange(len(names), dtype=np.int32)
        while len(waiting):
            free = self._slots[slot] < 0
            self._slots[slot[free]] = waiting[free]
            placed = self._slots[slot] == waiting
            slot, waiting = (slot[~placed] + 1) & self._mask, waiting[~placed]

    def find(self, keys: np.ndarray) -> np.ndarray | None:
        """Find the rows of keys.

        Args:
            keys: array of text, (n,).

        Returns:
            Rows, (n,); None if a key is not in the table.
        """
        given = code_points(keys)
        sums = _weighted_sums(given)
        slot = self._first_slots(sums)
        found = self._slots.take(slot)
        wrong = np.flatnonzero(self._sums.take(found) != sums)
        while len(wrong):
            if found[wrong].min() < 0:
                return None
            slot[wrong] = (slot[wrong] + 1) & self._mask
            found[wrong] = self._slots[slot[wrong]]
            wrong = wrong[self._sums[found[wrong]] != sums[wrong]]
        if found.min() < 0 or not self._equal(found, given):
            return None
        return self._rows.take(found)  # type: ignore[no-any-return]

    def _first_slots(self, sums: np.ndarray) -> np.ndarray:
        return ((sums.astype(np.uint64) * FIBONACCI_MULTIPLIER) >> self._shift).astype(np.int64)

    def _equal(self, found: np.ndarray, given: np.ndarray) -> bool:
        """Compare all characters, since different keys may have equal sums."""
        given_width, width = given.shape[1], self._code_points.shape[1]
        common = min(given_width, width)
        if given_width > width and given[:, width:].any():
            return False
        if given_width < width and self._lengths[found].max() > given_width:
            return False
        return bool(np.array_equal(self._code_points.take(found, 0)[:, :common], given[:, :common]))


def code_points(keys: np.ndarray) -> np.ndarray:
    """View an array of text as code points, (n, longest key); shorter keys are padded with zeros."""
    native = np.ascontiguousarray(keys, keys.dtype.newbyteorder("="))
    return native.view(np.uint32).reshape(len(native), -1)


def is_short_text(keys: np.ndarray) -> bool:
    """Return whether an array has text of at most `MAX_KEY_LENGTH` characters."""
    return keys.dtype.kind == "U" and 0 < keys.dtype.itemsize <= 4 * MAX_KEY_LENGTH


def can_be_tabulated(names: list[str]) -> bool:
    """Return whether an array can hold all keys: short text without the character 0, which would end it."""
    if not names or set(map(type, names)) != {str} or max(map(len, names)) > MAX_KEY_LENGTH:
        return False
    return "\0" not in "".join(names)


def _weighted_sums(points: np.ndarray) -> np.ndarray:
    return points.astype(np.float64) @ HASH_WEIGHTS[: points.shape[1]]  # type: ignore[no-any-return]
