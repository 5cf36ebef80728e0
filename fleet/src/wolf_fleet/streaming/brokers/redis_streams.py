"""Streams of Redis: `redis://localhost:6379/NAME`; an entry has the columns as fields, or JSON in the field `data`."""

import json
from typing import Any

from wolf_fleet.streaming.brokers.base import Address, Messages, needs

START = "0-0"
SHORTEST = 0.001  # seconds of a wait: zero would be for ever


class RedisStream(Messages):
    """A stream of Redis; arguments as in `Messages`. A place is the id of an entry and its number."""

    def __init__(self, address: Address, place: Any, follow: bool):
        super().__init__(address, place or [START, None], follow)
        try:
            import redis
        except ModuleNotFoundError:
            raise needs("redis", "redis") from None
        self._errors = redis.RedisError
        self._client = redis.Redis(
            address.host,
            address.port or 6379,
            int(address.options.get("db", 0)),
            address.password,
            username=address.user or None,
            decode_responses=True,
        )
        self._next, self._count = self.place
        try:
            kind = self._client.type(address.name)
            if kind not in ("stream", "none"):
                raise ValueError(f"{self.name} is a {kind} of Redis, not a stream")
            if kind == "none" and not follow:
                raise ValueError(f"{self.name} does not exist: write to it with XADD, or wait with --follow")
            self._check(kind)
        except self._errors as error:
            raise self.lost(error) from error

    def _check(self, kind: str) -> None:
        """Refuse to go on where entries were trimmed that nobody read."""
        told = self._client.xinfo_stream(self.address.name) if kind == "stream" else {}
        dropped = told.get("entries-added", 0) - told.get("length", 0)
        if self._count is None:
            self._count = dropped  # before anybody listened
        elif dropped > self._count or _number(told.get("max-deleted-entry-id", START)) > _number(self._next):
            raise self.gone()

    def _read(self, most: int, seconds: float) -> list[tuple[Any, str]]:
        wait = max(round(1000 * seconds), round(1000 * SHORTEST)) if self.follow else None
        try:
            found = self._client.xread({self.address.name: self._next}, count=most, block=wait)
        except self._errors as error:
            raise self.lost(error) from error
        entries = found[0][1] if isinstance(found, list) and found else next(iter(found.values()))[0] if found else []
        read: list[tuple[Any, str]] = []
        for number, fields in entries:
            self._next, self._count = number, self._count + 1
            read.append(([number, self._count], fields.get("data") or json.dumps(fields)))
        return read

    def close(self) -> None:
        """Let go of the broker."""
        self._client.close()


def _number(place: str) -> tuple[int, ...]:
    return tuple(map(int, str(place).split("-")))
