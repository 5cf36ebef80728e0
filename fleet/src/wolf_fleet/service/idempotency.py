"""Requests that were answered: the same one twice is taken once, and answered alike."""

import json
from collections import OrderedDict
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

MOST = 100_000  # ids that are remembered, the latest
LONGEST = 200  # characters of an id


class Clash(ValueError):  # noqa: N818
    """An id came again with another body."""


class Answer(NamedTuple):
    """What a request came to, and a checksum of its body."""

    digest: str
    told: dict[str, Any]


class Answered:
    """Answers by the id of their request."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Answer] = OrderedDict()

    def __len__(self) -> int:
        """Count the ids."""
        return len(self._known)

    def find(self, name: str, body: bytes) -> dict[str, Any] | None:
        """Give the answer of a request that came before; None if it did not, or has no id."""
        known = self._known.get(name) if name else None
        if known is None:
            return None
        if known.digest != digest(body):
            raise Clash(f"the request id {name!r} was used for another body; a new request needs a new id")
        return known.told

    def add(self, name: str, body: bytes, told: dict[str, Any]) -> None:
        """Remember an answer, and forget the oldest if there are too many."""
        if not name:
            return
        self._known[name] = Answer(digest(body), told)
        while len(self._known) > MOST:
            self._known.popitem(last=False)

    def pack(self) -> dict[str, np.ndarray]:
        """Lay everything out as an array."""
        listed = [[name, *answer] for name, answer in self._known.items()]
        return {"answered": np.frombuffer(json.dumps(listed).encode(), np.uint8)}

    def unpack(self, arrays: dict[str, np.ndarray]) -> None:
        """Take over what `pack` laid out."""
        for name, known, told in json.loads(arrays["answered"].tobytes()):
            self._known[name] = Answer(known, told)


def digest(body: bytes) -> str:
    """Give a checksum of a body."""
    return blake2b(body, digest_size=12).hexdigest()
