"""Rows that a broker keeps: streams of NATS and Redis, topics of Kafka and MQTT, found by an address."""

from importlib import import_module

from wolf_fleet.streaming.brokers.base import Address, Messages

HOMES = {
    "nats": ("jetstream", "JetStream"),
    "redis": ("redis_streams", "RedisStream"),
    "kafka": ("kafka_topics", "KafkaTopic"),
    "mqtt": ("mqtt_topics", "MqttTopic"),
}


def is_address(source: str) -> bool:
    """Say whether a source is that of a broker, and not a file.

    Example:
        >>> is_address("redis://localhost/rows"), is_address("rows.csv")
        (True, False)
    """
    return "://" in source


def open_broker(source: str, place: object, follow: bool) -> Messages:
    """Open a source by its address.

    Args:
        source: as `redis://localhost:6379/rows`.
        place: where to go on; 0 for the beginning.
        follow: wait for more at the end.
    """
    address = Address.read(source)
    if address.scheme not in HOMES:
        known = ", ".join(f"{scheme}://" for scheme in HOMES)
        raise ValueError(f"sources are files, - for standard input, or begin with {known}; got {address.scheme}://")
    module, name = HOMES[address.scheme]
    opened: Messages = getattr(import_module(f"wolf_fleet.streaming.brokers.{module}"), name)(address, place, follow)
    return opened
