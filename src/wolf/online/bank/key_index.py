"""Rows of keys: text and integers, looked up one by one or as whole arrays, and keys as arrays for files."""

from collections.abc import Hashable, Iterable, Sequence, Sized
from itertools import pairwise

import numpy as np

from wolf import validation
from wolf.online.bank.text_index import TextTable, can_be_tabulated, is_short_text

MAX_TABLE_ENTRIES_PER_KEY = 16  # of the table of integers


class KeyIndex(dict[Hashable, int]):
    """Dict from keys to rows, with faster lookups for the batches that are common.

    - Small non-negative integers are also in a table, so an array of them is one fancy index.
    - Of lists of text the last one is kept with its rows: the next one is often equal, and comparing costs a fraction
      of looking up.
    - Arrays of text are looked up in a `TextTable`, built once as many keys were looked up as the index has.

    A step of a Kalman filter takes 14 ns a row with integers. With text it takes 11 ns where the list is the last one
    and 29 to 46 ns with arrays; with the dict alone it took 75 and 112 to 157 ns (100,000 keys, batches of 10,000).

    While all keys are text, a key that is found is text too, so no type has to be checked before.
    """

    def __init__(self) -> None:
        super().__init__()
        self._table = np.full(0, -1)
        self._only_text = True
        self._texts: TextTable | None = None
        self._text_lookups = 0  # keys of arrays of text, since the last change
        self._last_ends: tuple[int, Hashable, Hashable] = 0, None, None  # length, first and last key of the last list
        self._removals = 0
        # Valid while the number of removals is the same: that number, keys, rows.
        self._last: tuple[int, Sequence[Hashable], np.ndarray] = 0, [], np.empty(0, np.int64)

    @property
    def removals(self) -> int:
        """Number of keys removed so far. While it is the same, rows that were found remain valid."""
        return self._removals

    def add(self, keys: Sequence[Hashable], rows: Sequence[int]) -> None:
        """Add new keys, each with its row."""
        self._only_text = self._only_text and set(map(type, keys)) <= {str}
        self._texts, self._text_lookups = None, 0
        self |= dict(zip(keys, rows, strict=True))
        limit = MAX_TABLE_ENTRIES_PER_KEY * (len(self) + MAX_TABLE_ENTRIES_PER_KEY)
        small = [(key, row) for key, row in zip(keys, rows, strict=True) if type(key) is int and 0 <= key < limit]
        if not small:
            return
        highest = max(key for key, _ in small)
        if highest >= len(self._table):  # rebuilt at twice the length: older keys may have been too large until now
            self._table = np.full(2 * highest + 1, -1)
            small = [(k, row) for k, row in self.items() if type(k) is int and 0 <= k < len(self._table)]
        small_keys, small_rows = zip(*small, strict=True)
        self._table[list(small_keys)] = small_rows

    def remove(self, key: Hashable) -> int:
        """Remove a key, and return its row."""
        if type(key) is int and 0 <= key < len(self._table):
            self._table[key] = -1
        row = self.pop(key)
        self._texts, self._text_lookups = None, 0
        self._removals += 1  # last: a lookup on another thread that saw the old number has found the old row
        return row

    def try_find(self, keys: Iterable[Hashable]) -> np.ndarray | None:
        """Find the rows of keys by a fast way.

        Args:
            keys: a list or an array of any kind, not checked before.

        Returns:
            Rows, (n,); None where keys are unknown or have to be checked first.
        """
        if isinstance(keys, list):
            return self._find_list(keys)
        if not isinstance(keys, np.ndarray) or keys.ndim != 1 or not keys.size:
            return None
        if keys.dtype.kind == "O":
            return self._find_list(keys.tolist())
        if keys.dtype.kind == "U":
            return self._find_text_array(keys)
        if keys.dtype.kind not in "iu" or keys.min() < 0 or keys.max() >= len(self._table):
            return None
        rows = self._table[keys]
        return rows if rows.min() >= 0 else None

    def find(self, names: Sequence[Hashable]) -> np.ndarray:
        """Find the rows of known keys; raise a KeyError if one is unknown.

        Args:
            names: text or integers, in a list that is not changed afterwards.
        """
        rows = self.try_find(names)
        if rows is None:
            rows = np.fromiter(map(self.__getitem__, names), np.int64, len(names))
            if set(map(type, names)) == {str}:  # equal to text means text; equal to a number may be True, or 1.0
                self._last = self._removals, names, rows
        return rows

    def _find_text_array(self, keys: np.ndarray) -> np.ndarray | None:
        """Find the rows of an array of text, by a table of all keys if enough lookups pay for it."""
        if not self._only_text or not is_short_text(keys):
            return self._find_list(keys.tolist())
        texts = self._texts
        if texts is None:
            self._text_lookups += len(keys)
            if self._text_lookups <= len(self):
                return self._find_list(keys.tolist())
            removals, known = self._removals, dict(self)
            names = [str(name) for name in known]
            if not can_be_tabulated(names):
                return self._find_list(keys.tolist())
            texts = TextTable(names, np.fromiter(known.values(), np.int64, len(known)))
            if removals == self._removals and len(known) == len(self):
                self._texts = texts
        return texts.find(keys)

    def _find_list(self, keys: list[Hashable]) -> np.ndarray | None:
        """Find the rows of a list: those of the last list if it is equal, else key by key."""
        removals = self._removals
        valid_for, last, rows = self._last
        try:
            if valid_for == removals and last and keys == last:
                return rows
            if not self._only_text or not keys:
                return None
            rows = np.fromiter(map(self.__getitem__, keys), np.int64, len(keys))
        except (KeyError, TypeError, ValueError):  # unknown, not hashable, or not comparable
            return None
        ends = (len(keys), keys[0], keys[-1])
        if ends == self._last_ends:  # probably equal to the list before, so the next one may be too: worth a copy
            self._last = removals, keys.copy(), rows
        self._last_ends = ends
        return rows


class EncodedKeys:
    """Keys of rows in dictionary encoding, as Arrow has it: the distinct names, and the code of each row.

    Args:
        names: text or integers, each of at least one row.
        codes: positions in `names`, (n,).
    """

    def __init__(self, names: list[Hashable], codes: np.ndarray):
        self.names, self.codes = names, codes

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.codes)


def key_list(keys: Iterable[Hashable]) -> list[Hashable]:
    """Convert keys to a list of Python's text and integers, or raise a ValueError.

    Args:
        keys: a sequence or an array.
    """
    if isinstance(keys, str | bytes) or not isinstance(keys, Sized):  # arrays, series, columns
        raise ValueError(f"keys must be a list or an array, one for each row; got {validation.short_repr(keys)}")
    listed = keys.tolist() if isinstance(keys, np.ndarray) else list(keys)
    if not set(map(type, listed)) <= {str, int}:
        listed = [key.item() if isinstance(key, np.generic) else key for key in listed]
        wrong = next((key for key in listed if type(key) not in (str, int)), None)
        if wrong is not None or None in listed:
            raise ValueError(f"keys must be text or integers; got {validation.short_repr(wrong)}")
    return listed


def pack(keys: Sequence[Hashable]) -> dict[str, np.ndarray]:
    """Encode keys as arrays: UTF-8 text of all keys, where each begins and ends, and which are integers."""
    texts = list(map(str, keys))
    joined = "".join(texts).encode()
    sizes = texts if len(joined) == sum(map(len, texts)) else [text.encode() for text in texts]
    ends = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, sizes), np.int64, len(texts)), out=ends[1:])
    integers = np.fromiter((isinstance(key, int) for key in keys) if set(map(type, keys)) - {str} else (), bool)
    integers = integers if len(integers) else np.zeros(len(texts), bool)
    return {"key_text": np.frombuffer(joined, np.uint8), "key_ends": ends, "key_integers": integers}


def unpack(arrays: dict[str, np.ndarray]) -> list[Hashable]:
    """Decode keys that `pack` encoded."""
    text, ends = arrays["key_text"].tobytes(), arrays["key_ends"].tolist()
    words = [text[start:end].decode() for start, end in pairwise(ends)]
    return [int(word) if whole else word for word, whole in zip(words, arrays["key_integers"], strict=True)]
