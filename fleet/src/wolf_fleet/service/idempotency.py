"""Idempotent requests: a request with a known id is not applied again, and gets the response of the first one."""

import json
from collections import OrderedDict
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from wolf_fleet.streaming.row_parser import JsonObject

MAX_IDS = 100_000  # the latest are kept
MAX_ID_LENGTH = 200  # characters


class IdempotencyConflict(ValueError):  # noqa: N818
    """A request id was used again with another body."""


class StoredResponse(NamedTuple):
    """Response to a request, and a checksum of the body of the request."""

    digest: str
    response: JsonObject


class IdempotencyStore:
    """Responses by request id."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, StoredResponse] = OrderedDict()

    def __len__(self) -> int:
        """Count the ids."""
        return len(self._known)

    def find(self, request_id: str, body: bytes) -> JsonObject | None:
        """Return the response to an earlier request with this id; None if there is none, or the id is empty."""
        known = self._known.get(request_id) if request_id else None
        if known is None:
            return None
        if known.digest != digest(body):
            raise IdempotencyConflict(
                f"the request id {request_id!r} was used for another body; use a new id for a new request"
            )
        return known.response

    def add(self, request_id: str, body: bytes, response: JsonObject) -> None:
        """Store a response, and delete the oldest ones if there are too many."""
        if not request_id:
            return
        self._known[request_id] = StoredResponse(digest(body), response)
        while len(self._known) > MAX_IDS:
            self._known.popitem(last=False)

    def pack(self) -> dict[str, np.ndarray]:
        """Serialise the store as an array."""
        listed = [[request_id, *stored] for request_id, stored in self._known.items()]
        return {"responses": np.frombuffer(json.dumps(listed).encode(), np.uint8)}

    def unpack(self, arrays: dict[str, np.ndarray]) -> None:
        """Load the result of `pack`."""
        for request_id, known, response in json.loads(arrays["responses"].tobytes()):
            self._known[request_id] = StoredResponse(known, response)


def digest(body: bytes) -> str:
    """Compute a checksum of a body."""
    return blake2b(body, digest_size=12).hexdigest()
