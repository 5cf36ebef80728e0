"""Kafka topics as sources: `kafka://localhost:9092/TOPIC`; each message is a JSON object."""

from typing import TYPE_CHECKING

from wolf_fleet.streaming.brokers.base import Address, BrokerSource, missing_client

if TYPE_CHECKING:
    from confluent_kafka import Message

TIMEOUT_SECONDS = 10.0  # for an answer of the broker
MAX_MESSAGES_PER_READ = 10_000
LINGER_SECONDS = 0.02  # wait for messages after the first one
GROUP = "wolf"  # the client requires a group; offsets are kept in our manifest and not stored at the broker


class KafkaTopic(BrokerSource[dict[str, int]]):
    """A Kafka topic; arguments as in `BrokerSource`. The position is the next offset of each partition.

    Rows of one key are in one partition and so in order; how partitions interleave is up to the broker.
    """

    def __init__(self, address: Address, position: dict[str, int], follow: bool):
        super().__init__(address, position, follow)
        try:
            import confluent_kafka as kafka
        except ModuleNotFoundError:
            raise missing_client("kafka", "confluent-kafka") from None
        self._kafka = kafka
        servers = f"{address.host}:{address.port or 9092}"
        self._client = kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "log_level": 0,
            }
        )
        try:
            self.position = self._assign(position)
        except kafka.KafkaException as error:
            self.close()
            raise self.connection_error(error) from error
        except BaseException:
            self.close()
            raise

    def _assign(self, position: dict[str, int]) -> dict[str, int]:
        """Assign all partitions at the offsets where reading resumes."""
        topic = self._client.list_topics(self.address.name, TIMEOUT_SECONDS).topics[self.address.name]
        if topic.error is not None or not topic.partitions:
            raise ValueError(f"{self.name} does not exist: the broker has no topic of that name")
        offsets, self._ends = {}, {}
        for number in sorted(topic.partitions):
            partition = self._kafka.TopicPartition(self.address.name, number)
            first, end = self._client.get_watermark_offsets(partition, TIMEOUT_SECONDS)
            offsets[str(number)] = int((position or {}).get(str(number), first))
            if offsets[str(number)] < first:
                raise self.retention_error()
            self._ends[str(number)] = end
        whole = [self._kafka.TopicPartition(self.address.name, int(n), offset) for n, offset in offsets.items()]
        self._client.assign(whole)
        self._offsets = offsets
        return dict(offsets)

    def _read(self, max_messages: int, seconds: float) -> list[tuple[dict[str, int], str]]:
        # The first answer of the broker takes a while, so before the end is reached an empty read waits too.
        wait = seconds if self.follow else 0.0 if self._at_end() else TIMEOUT_SECONDS
        first = self._client.poll(wait)
        more: list[Message] = []
        if first is not None and max_messages > 1:
            more = self._client.consume(min(max_messages, MAX_MESSAGES_PER_READ) - 1, LINGER_SECONDS)
        read = []
        for message in [first, *more] if first is not None else []:
            if message.error() is not None:
                raise self.connection_error(message.error())
            self._offsets = self._offsets | {str(message.partition()): int(message.offset() or 0) + 1}
            read.append((self._offsets, (message.value() or b"").decode("utf-8", "replace")))
        return read

    def _at_end(self) -> bool:
        return all(self._offsets[number] >= end for number, end in self._ends.items())

    def close(self) -> None:
        """Disconnect from the broker."""
        self._client.close()
