"""Kafka topics as sinks: `kafka://localhost:9092/TOPIC`; a message per row, by the key of the row.

Exactly once for consumers with `isolation.level=read_committed`: rows and the position of the writer (as the offset of
a consumer group) are one transaction.
"""

from typing import Any

from wolf_fleet.streaming.brokers.base import Address, missing_client
from wolf_fleet.streaming.row_parser import JsonObject
from wolf_fleet.streaming.sinks.base import Position, Sink, encode, incident_id

TIMEOUT_SECONDS = 10.0
ROW_BITS = 31  # of an offset that encodes a position: parts above, rows below
INCIDENTS = ".incidents"  # appended to the name of the topic


class KafkaSink(Sink):
    """A Kafka topic; arguments as in `Sink`."""

    def __init__(self, address: str, writer: str):
        super().__init__(address, writer)
        try:
            import confluent_kafka as kafka
        except ModuleNotFoundError:
            raise missing_client("kafka", "confluent-kafka") from None
        self._kafka, parsed = kafka, Address.parse(address)
        self.topic = parsed.name
        common = {"bootstrap.servers": f"{parsed.host}:{parsed.port or 9092}", "log_level": 0}
        group = f"wolf-sink-{writer}"
        self._consumer = kafka.Consumer(common | {"group.id": group, "enable.auto.commit": False})
        self._producer = kafka.Producer(common | {"transactional.id": f"{group}-{self.topic}"})
        try:
            self._producer.init_transactions(TIMEOUT_SECONDS)
        except kafka.KafkaException as error:
            self.close()
            raise self.error(error) from error

    def position(self) -> Position | None:
        """Read the offset of the writer's group."""
        try:
            found = self._consumer.committed([self._kafka.TopicPartition(self.topic, 0)], TIMEOUT_SECONDS)[0]
        except self._kafka.KafkaException as error:
            raise self.error(error) from error
        return None if found.offset < 0 else Position(found.offset >> ROW_BITS, found.offset & (1 << ROW_BITS) - 1)

    def write(self, rows: list[JsonObject], key: str, after: Position) -> None:
        """Write rows and the position as one transaction."""
        offset = (after.part << ROW_BITS) + after.rows
        mark = self._kafka.TopicPartition(self.topic, 0, offset)
        self._transact(self.topic, [(str(row[key]), encode(row)) for row in rows], mark)

    def write_incident(self, facts: JsonObject) -> None:
        """Write an incident to the topic of incidents."""
        self._transact(self.topic + INCIDENTS, [(incident_id(facts), encode(facts))], None)

    def _transact(self, topic: str, messages: list[tuple[str, bytes]], mark: Any) -> None:
        producer = self._producer
        try:
            producer.begin_transaction()
            for name, body in messages:
                while True:
                    try:
                        producer.produce(topic, body, name)
                        break
                    except BufferError:
                        producer.poll(TIMEOUT_SECONDS)
            if mark is not None:
                group = self._consumer.consumer_group_metadata()
                producer.send_offsets_to_transaction([mark], group, TIMEOUT_SECONDS)
            producer.commit_transaction(TIMEOUT_SECONDS)
        except self._kafka.KafkaException as error:
            self._abort()
            raise self.error(error) from error

    def _abort(self) -> None:
        try:
            self._producer.abort_transaction(TIMEOUT_SECONDS)
        except self._kafka.KafkaException:  # the broker aborts it when the next producer of this name starts
            return

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()
