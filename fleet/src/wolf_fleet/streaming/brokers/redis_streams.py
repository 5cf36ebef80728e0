"""Redis streams as sources: `redis://localhost:6379/NAME`; an entry has the columns as fields, or JSON in `data`."""

import json

from wolf_fleet.streaming.brokers.base import Address, BrokerSource, missing_client

FIRST_ID = "0-0"
MIN_WAIT_SECONDS = 0.001  # zero would block without limit


class RedisStream(BrokerSource[list]):
    """A Redis stream; arguments as in `BrokerSource`. The position is the id of an entry and the entries up to it."""

    def __init__(self, address: Address, position: list, follow: bool):
        super().__init__(address, position or [FIRST_ID, None], follow)
        try:
            import redis
        except ModuleNotFoundError:
            raise missing_client("redis", "redis") from None
        self._errors = redis.RedisError
        self._client = redis.Redis(
            address.host,
            address.port or 6379,
            int(address.options.get("db", 0)),
            address.password,
            username=address.user or None,
            decode_responses=True,
        )
        self._next, self._count = self.position
        try:
            kind = self._client.type(address.name)
            if kind not in ("stream", "none"):
                raise ValueError(f"{self.name} is a Redis {kind}; expected a stream")
            if kind == "none" and not follow:
                raise ValueError(f"{self.name} does not exist: write to it with XADD, or wait for it with --follow")
            self._check_retention(kind)
        except self._errors as error:
            raise self.connection_error(error) from error

    def _check_retention(self, kind: str) -> None:
        """Raise an error if entries were trimmed before they were read."""
        info = self._client.xinfo_stream(self.address.name) if kind == "stream" else {}
        dropped = info.get("entries-added", 0) - info.get("length", 0)
        if self._count is None:
            self._count = dropped  # before the first run
        elif dropped > self._count or _id_parts(info.get("max-deleted-entry-id", FIRST_ID)) > _id_parts(self._next):
            raise self.retention_error()

    def _read(self, max_messages: int, seconds: float) -> list[tuple[list, str]]:
        wait = max(round(1000 * seconds), round(1000 * MIN_WAIT_SECONDS)) if self.follow else None
        try:
            found = self._client.xread({self.address.name: self._next}, count=max_messages, block=wait)
        except self._errors as error:
            raise self.connection_error(error) from error
        entries = found[0][1] if isinstance(found, list) and found else next(iter(found.values()))[0] if found else []
        read: list[tuple[list, str]] = []
        for number, fields in entries:
            self._next, self._count = number, self._count + 1
            read.append(([number, self._count], fields.get("data") or json.dumps(fields)))
        return read

    def close(self) -> None:
        """Disconnect from the server."""
        self._client.close()


def _id_parts(entry_id: str) -> tuple[int, ...]:
    return tuple(map(int, str(entry_id).split("-")))
