"""Sinks: where results and incidents go besides files, chosen by the scheme of an address."""

from importlib import import_module

from wolf_fleet.streaming.sinks.base import Sink

CLASSES = {  # scheme: module, class
    "kafka": ("kafka_topic", "KafkaSink"),
    "nats": ("nats_jetstream", "JetStreamSink"),
    "redis": ("redis_stream", "RedisSink"),
    "mqtt": ("mqtt_topic", "MqttSink"),
    "http": ("http_endpoint", "HttpSink"),
    "https": ("http_endpoint", "HttpSink"),
    "sqlite": ("sql_table", "SqliteSink"),
    "duckdb": ("sql_table", "DuckDbSink"),
    "postgresql": ("sql_table", "PostgresSink"),
}


def check_address(address: str) -> None:
    """Raise a `ValueError` for the address of an unknown kind of sink."""
    scheme, mark, rest = address.partition("://")
    if not mark or scheme not in CLASSES or not rest:
        known = ", ".join(f"{name}://" for name in CLASSES)
        raise ValueError(f"a sink is an address that begins with {known}; got {scheme}{mark}")


def open_sink(address: str, writer: str) -> Sink:
    """Connect to a sink.

    Args:
        address: such as `redis://localhost:6379/results` or `sqlite:///var/results.db?table=results`.
        writer: identity of the state folder; positions in the sink are kept by it.
    """
    check_address(address)
    module, name = CLASSES[address.partition("://")[0]]
    # Named in a table, so that only the client library of this sink is imported.
    cls = getattr(import_module(f"wolf_fleet.streaming.sinks.{module}"), name)
    opened: Sink = cls(address, writer)
    return opened
