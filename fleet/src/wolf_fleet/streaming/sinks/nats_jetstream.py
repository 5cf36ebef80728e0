"""NATS JetStream subjects as sinks: `nats://localhost:4222/SUBJECT`, which a stream must store; a message per row.

Exactly once: each message has an id with the writer and the position. JetStream drops a repeated id, and after a
restart the id of the last message of the subject says where to go on, however long ago that was.
"""

import asyncio
from typing import Any

from wolf_fleet.streaming.brokers.base import Address, missing_client
from wolf_fleet.streaming.row_parser import JsonObject
from wolf_fleet.streaming.sinks.base import Position, Sink, encode, incident_id

TIMEOUT_SECONDS = 5.0
INCIDENTS = ".incidents"  # appended to the subject
MESSAGE_ID = "Nats-Msg-Id"


async def _ignore(error: Exception) -> None:
    """Ignore an error that is raised as well."""


class JetStreamSink(Sink):
    """A subject of a JetStream stream; arguments as in `Sink`."""

    def __init__(self, address: str, writer: str):
        super().__init__(address, writer)
        try:
            import nats
            from nats import errors
        except ModuleNotFoundError:
            raise missing_client("nats", "nats-py") from None
        self._address, self._nats, self._errors = Address.parse(address), nats, (OSError, errors.Error, TimeoutError)
        self.subject, self._loop = self._address.name, asyncio.new_event_loop()
        self._client: Any = None
        try:
            self._do(self._connect())
        except BaseException:
            self.close()
            raise

    def _do(self, work: Any) -> Any:
        from nats.js.errors import Error

        try:
            return self._loop.run_until_complete(asyncio.wait_for(work, 10 * TIMEOUT_SECONDS))
        except (*self._errors, Error) as error:
            raise self.error(error) from error

    async def _connect(self) -> None:
        address = self._address
        self._client = await self._nats.connect(
            f"nats://{address.host}:{address.port or 4222}",
            user=address.user,
            password=address.password,
            connect_timeout=TIMEOUT_SECONDS,
            allow_reconnect=False,
            max_reconnect_attempts=0,
            error_cb=_ignore,
        )
        self._stream = self._client.jetstream(timeout=TIMEOUT_SECONDS)

    def position(self) -> Position | None:
        """Read the id of the last message of the subject."""
        return self._do(self._last())  # type: ignore[no-any-return]

    async def _last(self) -> Position | None:
        from nats.js.errors import NotFoundError

        try:
            name = await self._stream.find_stream_name_by_subject(self.subject)
            last = await self._stream.get_last_msg(name, self.subject)
        except NotFoundError:
            return None
        writer, _, position = (last.headers or {}).get(MESSAGE_ID, "").partition(":")
        return Position.parse(position) if writer == self.writer else None

    def write(self, rows: list[JsonObject], key: str, after: Position) -> None:
        """Write rows, each with its own id."""
        first = after.rows - len(rows)
        ids = (f"{self.writer}:{Position(after.part, first + i + 1).text}" for i in range(len(rows)))
        self._do(self._publish(self.subject, [(name, encode(row)) for name, row in zip(ids, rows, strict=True)]))

    def write_incident(self, facts: JsonObject) -> None:
        """Write an incident to the subject of incidents."""
        self._do(self._publish(self.subject + INCIDENTS, [(f"{self.writer}:{incident_id(facts)}", encode(facts))]))

    async def _publish(self, subject: str, messages: list[tuple[str, bytes]]) -> None:
        # One after the other: the id of the last one must imply all before it.
        for name, body in messages:
            await self._stream.publish(subject, body, headers={MESSAGE_ID: name})

    def close(self) -> None:
        """Disconnect."""
        if self._client is not None and not self._client.is_closed:
            self._loop.run_until_complete(self._client.close())
        self._loop.close()
