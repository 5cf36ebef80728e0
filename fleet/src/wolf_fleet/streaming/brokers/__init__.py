"""Message brokers as sources: NATS JetStream, Redis streams, Kafka and MQTT topics, chosen by the address scheme."""

from importlib import import_module

from wolf_fleet.streaming.brokers.base import Address, BrokerSource

CLASSES = {  # scheme: module, class
    "nats": ("nats_jetstream", "JetStream"),
    "redis": ("redis_streams", "RedisStream"),
    "kafka": ("kafka_topics", "KafkaTopic"),
    "mqtt": ("mqtt_topics", "MqttTopic"),
}


def is_address(source: str) -> bool:
    """Check whether a source is the address of a broker rather than a file.

    Example:
        >>> is_address("redis://localhost/rows"), is_address("rows.csv")
        (True, False)
    """
    return "://" in source


def open_broker(source: str, position: object, follow: bool) -> BrokerSource:
    """Connect to a broker.

    Args:
        source: address, such as `redis://localhost:6379/rows`.
        position: where to resume; 0 for the beginning.
        follow: wait for more messages at the end.
    """
    address = Address.parse(source)
    if address.scheme not in CLASSES:
        known = ", ".join(f"{scheme}://" for scheme in CLASSES)
        raise ValueError(
            f"the source must be a file, - or an address that begins with {known}; got {address.scheme}://"
        )
    module, name = CLASSES[address.scheme]
    # Named in a table, so that only the client library of this broker is imported.
    cls = getattr(import_module(f"wolf_fleet.streaming.brokers.{module}"), name)
    opened: BrokerSource = cls(address, position, follow)
    return opened
