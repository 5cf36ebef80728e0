"""Topics of MQTT: `mqtt://localhost:1883/TOPIC`; each message is a JSON object.

A broker of MQTT keeps no past: what comes while nobody listens, or is not committed when the process is killed, is
lost. Where rows have times and are sent again, what was used before is recognised.
"""

import queue
from typing import Any

from wolf_fleet.streaming.brokers.base import Address, Messages, needs

LARGEST = 100_000  # messages that wait here; then the broker has to
PATIENCE = 5.0  # seconds until a broker must have answered


class MqttTopic(Messages):
    """A topic of MQTT; arguments as in `Messages`. There are no places: the number counts messages."""

    def __init__(self, address: Address, place: Any, follow: bool):
        super().__init__(address, place, follow)
        try:
            from paho.mqtt import client as mqtt
        except ModuleNotFoundError:
            raise needs("mqtt", "paho-mqtt") from None
        if not follow:
            raise ValueError(f"{self.name} has no end: listen to it with --follow")
        self._count, self._queue = int(place), queue.Queue[Any](LARGEST)
        self._client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        if address.user is not None:
            self._client.username_pw_set(address.user, address.password)
        self._client.on_connect = lambda client, *_: client.subscribe(address.name, qos=1)
        self._client.on_subscribe = lambda *_: self._queue.put(None)
        self._client.on_message = lambda _, __, message: self._queue.put(message.payload.decode("utf-8", "replace"))
        try:
            self._client.connect(address.host, address.port or 1883)
            self._client.loop_start()
            self._queue.get(timeout=PATIENCE)  # it listens
        except (OSError, queue.Empty) as error:
            self.close()
            raise self.lost(error) from error

    def _read(self, most: int, seconds: float) -> list[tuple[Any, str]]:
        read: list[tuple[Any, str]] = []
        while len(read) < most:
            try:
                text = self._queue.get(timeout=seconds) if not read else self._queue.get_nowait()
            except queue.Empty:
                break
            if text is not None:  # it listens again, after the broker was away
                self._count += 1
                read.append((self._count, text))
        return read

    def close(self) -> None:
        """Let go of the broker."""
        self._client.disconnect()
        self._client.loop_stop()
