"""Redis streams as sinks: `redis://localhost:6379/STREAM`; an entry per row, with the columns as fields.

Exactly once: entries and the position of the writer are one transaction. Redis must flush each of them to disk
(`appendonly yes`, `appendfsync always`), or it may lose both in a crash; it never has one without the other.
"""

from wolf_fleet.streaming.brokers.base import Address, missing_client
from wolf_fleet.streaming.row_parser import JsonObject
from wolf_fleet.streaming.sinks.base import Position, Sink, encode, incident_id

TIMEOUT_SECONDS = 10.0
INCIDENTS = ":incidents"  # appended to the name: a hash from the number of an incident to its last state


class RedisSink(Sink):
    """A Redis stream; arguments as in `Sink`."""

    def __init__(self, address: str, writer: str):
        super().__init__(address, writer)
        try:
            import redis
        except ModuleNotFoundError:
            raise missing_client("redis", "redis") from None
        parsed = Address.parse(address)
        self.stream, self._errors = parsed.name, redis.RedisError
        self._mark = f"wolf:sink:{writer}:{self.stream}"
        self._client = redis.Redis(
            host=parsed.host,
            port=parsed.port or 6379,
            username=parsed.user,
            password=parsed.password,
            db=int(parsed.options.get("db", 0)),
            decode_responses=True,
            socket_timeout=TIMEOUT_SECONDS,
        )

    def position(self) -> Position | None:
        """Read the key with the position of this writer."""
        try:
            found = self._client.get(self._mark)
        except self._errors as error:
            raise self.error(error) from error
        return None if found is None else Position.parse(str(found))

    def write(self, rows: list[JsonObject], key: str, after: Position) -> None:
        """Write rows and the position as one transaction."""
        with self._client.pipeline(transaction=True) as pipeline:
            for row in rows:
                pipeline.xadd(self.stream, {"data": encode(row)})
            pipeline.set(self._mark, after.text)
            self._execute(pipeline)

    def write_incident(self, facts: JsonObject) -> None:
        """Set the field of an incident, and publish its change."""
        with self._client.pipeline(transaction=True) as pipeline:
            pipeline.hset(self.stream + INCIDENTS, str(facts["incident"]), encode(facts))
            pipeline.publish(self.stream + INCIDENTS, encode(facts | {"id": incident_id(facts)}))
            self._execute(pipeline)

    def _execute(self, pipeline: object) -> None:
        try:
            pipeline.execute()  # type: ignore[attr-defined]
        except self._errors as error:
            raise self.error(error) from error

    def close(self) -> None:
        """Disconnect."""
        self._client.close()
