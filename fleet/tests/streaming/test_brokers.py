"""Streams of brokers: what a real server keeps is read once, as a file would be; skipped where there is none."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from fleet.tests.streaming.test_stream import LEVEL, SETTINGS, output, run, write_rows

import wolf
import wolf_fleet
from wolf_fleet.streaming.brokers import open_broker
from wolf_fleet.streaming.brokers.base import Address

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.thorough


class Halt(Exception):  # noqa: N818
    pass


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def start(command, port):
    """Start a server, and wait until it listens."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return process
        except OSError:
            assert process.poll() is None
            time.sleep(0.05)
    raise AssertionError("the server does not listen")


def program(name):
    found = shutil.which(name) or shutil.which(name, path=Path(sys.executable).parent)
    return found or pytest.skip(f"there is no {name} on this machine")


class Redis:
    """A real server of Redis, with entries flushed as they come."""

    def __init__(self, folder):
        self.redis = pytest.importorskip("redis")
        self.port, self.folder, self.program = free_port(), folder, program("redis-server")
        self.address = f"redis://127.0.0.1:{self.port}/rows"
        self.start()

    def start(self):
        settings = {"port": self.port, "dir": self.folder, "appendonly": "yes", "appendfsync": "always", "save": ""}
        words = [text for name, value in settings.items() for text in (f"--{name}", str(value))]
        self.process = start([self.program, *words], self.port)

    def send(self, rows):
        client = self.redis.Redis(port=self.port)
        for i, (key, t, v) in enumerate(rows):
            fields = {"id": key, "t": t, "v": v}
            client.xadd("rows", fields if i % 2 else {"data": json.dumps(fields)})
        client.close()

    def drop(self):
        client = self.redis.Redis(port=self.port)
        client.xtrim("rows", maxlen=1, approximate=False)
        client.close()


class Nats:
    """A real server of NATS with JetStream."""

    def __init__(self, folder):
        self.nats = pytest.importorskip("nats")
        self.port, self.folder, self.program = free_port(), folder, program("nats-server")
        self.address = f"nats://127.0.0.1:{self.port}/ROWS"
        self.start()

    def start(self):
        self.process = start(
            [self.program, "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", self.folder], self.port
        )

    def do(self, work):
        async def whole():
            client = await self.nats.connect(f"nats://127.0.0.1:{self.port}")
            stream = client.jetstream()
            await stream.add_stream(name="ROWS", subjects=["rows"])
            await work(stream)
            await client.close()

        asyncio.run(whole())

    def send(self, rows):
        async def work(stream):
            for key, t, v in rows:
                await stream.publish("rows", json.dumps({"id": key, "t": t, "v": v}).encode())

        self.do(work)

    def drop(self):
        self.do(lambda stream: stream.purge_stream("ROWS", keep=1))


@pytest.fixture(params=[Redis, Nats], ids=["redis", "nats"])
def broker(request, tmp_path):
    opened = request.param(tmp_path / "broker") if (tmp_path / "broker").mkdir() is None else None
    yield opened
    opened.process.kill()
    opened.process.wait()


def stream(folder, address, name="b", **options):
    settings = SETTINGS | options
    return wolf_fleet.stream(address, wolf.Bank(LEVEL), folder / f"out-{name}", state=folder / name, **settings)


def test_a_broker_is_read_as_a_file_after_crashes_on_both_sides(tmp_path, broker):
    rows = write_rows(tmp_path / "rows.csv", rows=150)
    run(tmp_path)
    broker.send(rows)

    def halt(done):
        if done.epoch == 2:
            raise Halt

    with pytest.raises(Halt):
        stream(tmp_path, broker.address, batch_rows=40, on_progress=halt)
    os.kill(broker.process.pid, signal.SIGKILL)
    broker.process.wait()
    broker.start()
    done = stream(tmp_path, broker.address, batch_rows=33)
    assert (done.rows, done.waiting) == (len(rows), 0)
    assert output(tmp_path / "b").equals(output(tmp_path / "a"))
    again = stream(tmp_path, broker.address)
    assert (again.rows, again.epoch) == (done.rows, done.epoch)


def test_what_a_broker_dropped_unread_is_reported(tmp_path, broker):
    rows = write_rows(tmp_path / "rows.csv", rows=30)
    broker.send(rows[:10])
    stream(tmp_path, broker.address)
    broker.send(rows[10:])
    broker.drop()
    with pytest.raises(ValueError, match="has deleted messages that were not read yet"):
        stream(tmp_path, broker.address)


def test_a_broker_is_followed(tmp_path, broker):
    rows = write_rows(tmp_path / "rows.csv", rows=40)
    broker.send(rows[:1])
    thread = threading.Timer(0.3, broker.send, (rows[1:],))

    def halt(done):
        if done.rows == len(rows):
            raise Halt

    thread.start()
    with pytest.raises(Halt):
        stream(tmp_path, broker.address, follow=True, commit_interval=0.1, on_progress=halt)
    thread.join()


def test_a_broker_that_is_away_is_reported(tmp_path, broker, monkeypatch):
    monkeypatch.setattr("wolf_fleet.streaming.brokers.nats_jetstream.TIMEOUT_SECONDS", 1.0)
    broker.process.kill()
    broker.process.wait()
    with pytest.raises(OSError, match=r"cannot be read: .*once the broker is available"):
        stream(tmp_path, broker.address)


def test_kafka_goes_on_at_the_offsets_of_all_partitions(tmp_path):
    kafka = pytest.importorskip("confluent_kafka")
    quiet = {"log_level": 0}
    producer = kafka.Producer(
        {"test.mock.num.brokers": 1, "bootstrap.servers": "mock", **quiet}
    )  # the client's own mock
    server = next(iter(producer.list_topics(timeout=10).brokers.values()))
    rows = write_rows(tmp_path / "rows.csv", rows=150, spread=0.0)
    run(tmp_path, allowed_lateness=0.0)
    for key, t, v in rows:
        producer.produce("rows", json.dumps({"id": key, "t": t, "v": v}), key)
    producer.flush()
    address = f"kafka://{server.host}:{server.port}/rows"

    def halt(done):
        if done.epoch == 2:
            raise Halt

    with pytest.raises(Halt):
        stream(tmp_path, address, allowed_lateness=0.0, batch_rows=40, on_progress=halt)
    done = stream(tmp_path, address, allowed_lateness=0.0)
    assert (done.rows, done.late) == (len(rows), 0)
    place = json.loads((tmp_path / "b" / "manifest.json").read_text())["position"]
    assert sum(place.values()) == len(rows)
    order = [("id", "ascending"), ("t", "ascending")]  # how partitions mix is the broker's; each key is in order
    assert output(tmp_path / "b").sort_by(order).equals(output(tmp_path / "a").sort_by(order))
    with pytest.raises(ValueError, match="the broker has no topic"):
        stream(tmp_path, address.replace("/rows", "/nothing"), "c")


def test_mqtt_is_listened_to(tmp_path):
    mqtt = pytest.importorskip("paho.mqtt.client")
    port = free_port()
    (tmp_path / "conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    server = start([program("mosquitto"), "-c", str(tmp_path / "conf")], port)
    try:
        rows = write_rows(tmp_path / "rows.csv", rows=60)
        run(tmp_path)
        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        client.connect("127.0.0.1", port)
        client.loop_start()

        def send():
            for key, t, v in rows:
                client.publish("hall/rows", json.dumps({"id": key, "t": t, "v": v}), qos=1)

        def halt(done):
            if done.rows == len(rows):
                raise Halt

        thread = threading.Timer(1.0, send)
        thread.start()
        address = f"mqtt://127.0.0.1:{port}/hall/#"
        with pytest.raises(Halt):
            stream(tmp_path, address, follow=True, commit_interval=0.2, on_progress=halt)
        thread.join()
        client.disconnect()
        client.loop_stop()
        out = output(tmp_path / "b")
        assert out.equals(output(tmp_path / "a").slice(0, out.num_rows))
        with pytest.raises(ValueError, match="read it with --follow"):
            stream(tmp_path, address, "c")
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("ftp://host/rows", r"begins with nats://, redis://, kafka://, mqtt://; got ftp://"),
        ("redis://host", "the name is missing"),
        ("nats:///rows", "the host is missing"),
        ("kafka://host:many/rows", "cannot be parsed"),
    ],
)
def test_an_address_that_is_none_is_explained(address, words):
    with pytest.raises(ValueError, match=words):
        open_broker(address, 0, False)


def test_a_password_is_not_shown():
    address = Address.parse("redis://me:se%40cret@box:1/rows?db=2")
    assert (address.user, address.password, address.options) == ("me", "se@cret", {"db": "2"})
    assert address.display == "redis://box:1/rows"
