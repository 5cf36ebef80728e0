"""MQTT topics as sinks: `mqtt://localhost:1883/TOPIC`.

A row is published to `TOPIC/KEY`, an incident to `TOPIC/incidents/NUMBER`.

At least once (QoS 1): after a crash the rows of an interrupted batch are published again; `wolf_row` identifies them.
Incidents are retained messages, so that a client that connects later sees the open ones.
"""

import re

from wolf_fleet.streaming.brokers.base import Address, missing_client
from wolf_fleet.streaming.row_parser import JsonObject
from wolf_fleet.streaming.sinks.base import Position, Sink, encode

TIMEOUT_SECONDS = 10.0
UNSUITABLE = re.compile(r"[#+/\x00]")  # in the level of a topic


class MqttSink(Sink):
    """An MQTT topic; arguments as in `Sink`."""

    keeps_position = False

    def __init__(self, address: str, writer: str):
        super().__init__(address, writer)
        try:
            from paho.mqtt import client as mqtt
        except ModuleNotFoundError:
            raise missing_client("mqtt", "paho-mqtt") from None
        parsed = Address.parse(address)
        self.topic = parsed.name.rstrip("/")
        self._client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=f"wolf-{writer}")
        if parsed.user is not None:
            self._client.username_pw_set(parsed.user, parsed.password)
        try:
            self._client.connect(parsed.host, parsed.port or 1883)
        except OSError as error:
            raise self.error(error) from error
        self._client.loop_start()

    def write(self, rows: list[JsonObject], key: str, after: Position) -> None:
        """Publish rows, and wait until the broker has acknowledged all of them."""
        first = after.rows - len(rows)
        numbers = (Position(after.part, first + i + 1).text for i in range(len(rows)))
        marked = [row | {"wolf_row": number} for row, number in zip(rows, numbers, strict=True)]
        self._publish([(f"{self.topic}/{level(str(row[key]))}", encode(row), False) for row in marked])

    def write_incident(self, facts: JsonObject) -> None:
        """Publish an incident; retained while it is open."""
        topic = f"{self.topic}/incidents/{facts['incident']}"
        self._publish([(topic, encode(facts), True)])
        if facts["state"] == "closed":
            self._publish([(topic, b"", True)])  # an empty retained message deletes the one before

    def _publish(self, messages: list[tuple[str, bytes, bool]]) -> None:
        try:
            sent = [self._client.publish(topic, body, qos=1, retain=keep) for topic, body, keep in messages]
            for each in sent:
                each.wait_for_publish(TIMEOUT_SECONDS)
        except (OSError, ValueError, RuntimeError) as error:
            raise self.error(error) from error
        if not all(each.is_published() for each in sent):
            raise self.error(f"no acknowledgement in {TIMEOUT_SECONDS:g} s")

    def close(self) -> None:
        """Disconnect."""
        self._client.disconnect()
        self._client.loop_stop()


def level(key: str) -> str:
    """Return a key as one level of a topic.

    Example:
        >>> level("hall/3 #1")
        'hall_3 _1'
    """
    return UNSUITABLE.sub("_", key)
