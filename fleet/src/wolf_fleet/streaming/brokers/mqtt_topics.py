"""MQTT topics as sources: `mqtt://localhost:1883/TOPIC`; each message is a JSON object.

An MQTT broker keeps no history: messages that arrive while no stream is running, or that are not committed when the
process is killed, are lost. If rows have times and are sent again, rows that were used before are recognised.
"""

import queue

from wolf_fleet.streaming.brokers.base import Address, BrokerSource, missing_client

MAX_QUEUED_MESSAGES = 100_000  # beyond these the broker is made to wait
TIMEOUT_SECONDS = 5.0  # for an answer of the broker


class MqttTopic(BrokerSource[int]):
    """An MQTT topic; arguments as in `BrokerSource`. The position counts messages; reading cannot resume there."""

    def __init__(self, address: Address, position: int, follow: bool):
        super().__init__(address, position, follow)
        try:
            from paho.mqtt import client as mqtt
        except ModuleNotFoundError:
            raise missing_client("mqtt", "paho-mqtt") from None
        if not follow:
            raise ValueError(f"{self.name} has no end: read it with --follow, or follow=True")
        self._count, self._queue = int(position), queue.Queue[str | None](MAX_QUEUED_MESSAGES)
        self._client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        if address.user is not None:
            self._client.username_pw_set(address.user, address.password)
        self._client.on_connect = lambda client, *_: client.subscribe(address.name, qos=1)
        self._client.on_subscribe = lambda *_: self._queue.put(None)
        self._client.on_message = lambda _, __, message: self._queue.put(message.payload.decode("utf-8", "replace"))
        try:
            self._client.connect(address.host, address.port or 1883)
            self._client.loop_start()
            self._queue.get(timeout=TIMEOUT_SECONDS)  # None: the subscription is active
        except (OSError, queue.Empty) as error:
            self.close()
            raise self.connection_error(error) from error

    def _read(self, max_messages: int, seconds: float) -> list[tuple[int, str]]:
        read: list[tuple[int, str]] = []
        while len(read) < max_messages:
            try:
                text = self._queue.get(timeout=seconds) if not read else self._queue.get_nowait()
            except queue.Empty:
                break
            if text is not None:  # None: subscribed again after the broker was away
                self._count += 1
                read.append((self._count, text))
        return read

    def close(self) -> None:
        """Disconnect from the broker."""
        self._client.disconnect()
        self._client.loop_stop()
