"""Topics of Kafka: `kafka://localhost:9092/TOPIC`; each message is a JSON object."""

from typing import Any

from wolf_fleet.streaming.brokers.base import Address, Messages, needs

PATIENCE = 10.0  # seconds until a broker must have answered
AT_ONCE, SHORT = 10_000, 0.02  # messages, and seconds that those after the first are waited for
GROUP = "wolf"  # the client asks for one; places are ours to keep, and none is stored there


class KafkaTopic(Messages):
    """A topic of Kafka; arguments as in `Messages`. A place is the next offset of each partition.

    Rows of one key are in one partition, and so in order; how partitions mix is up to the broker.
    """

    def __init__(self, address: Address, place: Any, follow: bool):
        super().__init__(address, place, follow)
        try:
            import confluent_kafka as kafka
        except ModuleNotFoundError:
            raise needs("kafka", "confluent-kafka") from None
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
            self.place = self._begin(place)
        except kafka.KafkaException as error:
            self.close()
            raise self.lost(error) from error
        except BaseException:
            self.close()
            raise

    def _begin(self, place: Any) -> dict[str, int]:
        """Go to where each partition is to be read on."""
        told = self._client.list_topics(self.address.name, PATIENCE).topics[self.address.name]
        if told.error is not None or not told.partitions:
            raise ValueError(f"{self.name} does not exist: there is no topic of that name")
        offsets, self._ends = {}, {}
        for number in sorted(told.partitions):
            partition = self._kafka.TopicPartition(self.address.name, number)
            first, end = self._client.get_watermark_offsets(partition, PATIENCE)
            offsets[str(number)] = int((place or {}).get(str(number), first))
            if offsets[str(number)] < first:
                raise self.gone()
            self._ends[str(number)] = end
        whole = [self._kafka.TopicPartition(self.address.name, int(n), offset) for n, offset in offsets.items()]
        self._client.assign(whole)
        self._offsets = offsets
        return dict(offsets)

    def _read(self, most: int, seconds: float) -> list[tuple[Any, str]]:
        # A first answer takes a while, so at the end of what was there a read waits too.
        wait = seconds if self.follow else 0.0 if self._at_end() else PATIENCE
        first = self._client.poll(wait)
        more = self._client.consume(min(most, AT_ONCE) - 1, SHORT) if first is not None and most > 1 else []
        read = []
        for message in [first, *more] if first is not None else []:
            if message.error() is not None:
                raise self.lost(message.error())
            self._offsets = self._offsets | {str(message.partition()): int(message.offset() or 0) + 1}
            read.append((self._offsets, (message.value() or b"").decode("utf-8", "replace")))
        return read

    def _at_end(self) -> bool:
        return all(self._offsets[number] >= end for number, end in self._ends.items())

    def close(self) -> None:
        """Let go of the broker."""
        self._client.close()
