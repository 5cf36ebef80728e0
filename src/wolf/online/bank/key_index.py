"""Which row each key has: text and integers, found one by one or as a whole array, and as arrays on disk."""

from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from wolf import validation
from wolf.online.bank.text_index import TextTable, fit, suits

TABLE_PER_KEY = 16  # entries of a table of integers for each key that there is


class KeyIndex(dict[Hashable, int]):
    """Says which row each key has.

    Those of small integers are also in a table, where an array finds them at once, and so is text, once as many keys
    were looked up as there are. Of text the last list is kept: often the next one is the same, and comparing is several
    times quicker than looking up. Where all keys are text, what is found among them is text, and need not be checked
    before.
    """

    def __init__(self) -> None:
        super().__init__()
        self._table = np.full(0, -1)
        self._only_text = True
        self._texts: TextTable | None = None
        self._looked_up = 0  # keys of arrays of text, since the last change
        self._ends: tuple[int, Any, Any] = 0, None, None  # length, first and last key of the last list
        self._dropped = 0
        self._last: tuple[int, Any, np.ndarray] = 0, [], np.empty(0, np.int64)  # as of so many drops: keys, their rows

    def put(self, keys: Sequence[Hashable], rows: Sequence[int]) -> None:
        """Add keys that are new, each with its row."""
        self._only_text = self._only_text and set(map(type, keys)) <= {str}
        self._texts, self._looked_up = None, 0
        self |= dict(zip(keys, rows, strict=True))
        small = [(key, row) for key, row in zip(keys, rows, strict=True) if type(key) is int and 0 <= key < self._most]
        if not small:
            return
        highest = max(key for key, _ in small)
        if highest >= len(self._table):  # anew, and twice as long: some keys may have been too large for the old one
            self._table = np.full(2 * highest + 1, -1)
            small = [(k, row) for k, row in self.items() if type(k) is int and 0 <= k < len(self._table)]
        where, what = zip(*small, strict=True)
        self._table[list(where)] = what

    @property
    def _most(self) -> int:
        """Length of a table that is not much longer than there are keys."""
        return TABLE_PER_KEY * (len(self) + TABLE_PER_KEY)

    def drop(self, key: Hashable) -> int:
        """Take a key out, and give its row."""
        if type(key) is int and 0 <= key < len(self._table):
            self._table[key] = -1
        row = self.pop(key)
        self._texts, self._looked_up = None, 0
        self._dropped += 1  # last: who looks keys up meanwhile, on another thread, has looked before this drop
        return row

    def find(self, keys: Any) -> np.ndarray | None:
        """Find the rows of an array of integers, (n,), or of text; None where that is not enough."""
        array = isinstance(keys, np.ndarray) and keys.ndim == 1 and keys.size > 0
        if isinstance(keys, list) or (array and keys.dtype.kind in "UO"):
            if array and keys.dtype.kind == "O":
                keys = keys.tolist()
            return self._find_text(keys) if isinstance(keys, list) else self._find_array(keys)
        if not array or keys.dtype.kind not in "iu" or keys.min() < 0 or keys.max() >= len(self._table):
            return None
        rows = self._table[keys]
        return rows if rows.min() >= 0 else None

    @property
    def drops(self) -> int:
        """How many keys were taken out so far: as long as it is the same, what was found holds."""
        return self._dropped

    def _find_array(self, keys: np.ndarray) -> np.ndarray | None:
        """Find the rows of an array of text, by a table of all keys if that was worth making."""
        if not self._only_text or not suits(keys):
            return self._find_text(keys.tolist())
        texts = self._texts
        if texts is None:
            self._looked_up += len(keys)
            if self._looked_up <= len(self):
                return self._find_text(keys.tolist())
            dropped, known = self._dropped, dict(self)
            names = [str(name) for name in known]
            if not fit(names):
                return self._find_text(keys.tolist())
            texts = TextTable(names, np.fromiter(known.values(), np.int64, len(known)))
            if dropped == self._dropped and len(known) == len(self):
                self._texts = texts
        return texts.find(keys)

    def _find_text(self, keys: list[Any]) -> np.ndarray | None:
        """Find the rows of a list: as those of the last one, or key by key."""
        dropped = self._dropped
        version, last, rows = self._last
        try:
            if version == dropped and last and keys == last:
                return rows
            if not self._only_text or not keys:
                return None
            rows = np.fromiter(map(self.__getitem__, keys), np.int64, len(keys))
        except (KeyError, TypeError, ValueError):  # not there; or no key, and neither to be hashed nor compared
            return None
        ends = (len(keys), keys[0], keys[-1])
        if ends == self._ends:  # perhaps the same as before: worth a copy, to compare the next one with
            self._last = dropped, keys.copy(), rows
        self._ends = ends
        return rows

    def look_up(self, names: Sequence[Hashable]) -> np.ndarray:
        """Find the rows of keys that are there.

        Args:
            names: text or integers, in a list that nobody changes afterwards.
        """
        rows = self.find(names)
        if rows is None:
            rows = np.fromiter(map(self.__getitem__, names), np.int64, len(names))
            if set(map(type, names)) == {str}:  # what equals text is text; what equals a number may be none
                self._last = self._dropped, names, rows
        return rows


class EncodedKeys:
    """Keys of rows as Arrow's dictionaries have them: few names, and for each row which of them it has.

    Args:
        names: text or integers, each of some row.
        codes: (n,), numbers of names.
    """

    def __init__(self, names: list[Hashable], codes: np.ndarray):
        self.names, self.codes = names, codes

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.codes)


def names(keys: Any) -> list[Hashable]:
    """List keys as Python's own text and integers.

    Args:
        keys: a sequence or an array of them.
    """
    if isinstance(keys, str | bytes) or not hasattr(keys, "__len__"):
        raise ValueError(f"keys must be a list or an array, one for each row; got {validation.short_repr(keys)}")
    listed = keys.tolist() if isinstance(keys, np.ndarray) else list(keys)
    if not set(map(type, listed)) <= {str, int}:
        listed = [key.item() if isinstance(key, np.generic) else key for key in listed]
        wrong = next((key for key in listed if type(key) not in (str, int)), None)
        if wrong is not None or None in listed:
            raise ValueError(f"keys must be text or integers; got {validation.short_repr(wrong)}")
    return listed


def pack(keys: Sequence[Hashable]) -> dict[str, np.ndarray]:
    """Lay keys out as arrays of numbers: the text of all, where each begins, and which were integers."""
    texts = list(map(str, keys))
    whole = "".join(texts).encode()
    sizes = texts if len(whole) == sum(map(len, texts)) else [text.encode() for text in texts]
    ends = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, sizes), np.int64, len(texts)), out=ends[1:])
    integers = np.fromiter((isinstance(key, int) for key in keys) if set(map(type, keys)) - {str} else (), bool)
    integers = integers if len(integers) else np.zeros(len(texts), bool)
    return {"key_text": np.frombuffer(whole, np.uint8), "key_ends": ends, "key_integers": integers}


def unpack(arrays: dict[str, np.ndarray]) -> list[Hashable]:
    """Take keys out of what `pack` made."""
    text, ends = arrays["key_text"].tobytes(), arrays["key_ends"].tolist()
    words = [text[a:b].decode() for a, b in pairwise(ends)]
    return [int(word) if whole else word for word, whole in zip(words, arrays["key_integers"], strict=True)]
