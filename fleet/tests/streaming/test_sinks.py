"""Sinks: every committed row is in the sink once, through kills of the writer and of the server."""

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import wolf
import wolf_fleet
from wolf_fleet.streaming import sinks
from wolf_fleet.streaming.checkpoint import read_manifest
from wolf_fleet.streaming.sinks import delivery
from wolf_fleet.streaming.sinks.base import Position

pytest.importorskip("llvmlite")
pytest.importorskip("pyarrow")
pytestmark = pytest.mark.thorough
LEVEL = wolf.models.local_level(0.1, 1.0)
NAMES = {"key": "id", "values": "v", "time": "t"}
SIZE = 60
FACTS = {"incident": 1, "key": "a", "kind": "stuck", "state": "open", "start": 1.0, "end": None, "severity": 0.5}
FACTS |= {"confidence": 1.0, "reason": "the same value 9 times in a row", "acknowledged": False}


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr("wolf_fleet.streaming.sinks.base.BATCH_ROWS", 7)


def write_rows(folder):
    rng = np.random.default_rng(0)
    lines = [f"{'abc'[rng.integers(3)]},{t},{rng.normal():.3f}" for t in range(SIZE)]
    (folder / "rows.csv").write_text("id,t,v\n" + "\n".join(lines) + "\n")


def run(folder, *addresses):
    return wolf_fleet.stream(
        folder / "rows.csv",
        wolf.Bank(LEVEL),
        folder / "out",
        state=folder / "state",
        batch_rows=25,
        sinks=addresses,
        **NAMES,
    )


class InterruptedDeliveryError(Exception):
    """A crash in the middle of a delivery."""


def run_with_crashes(folder, address, monkeypatch, after_write):
    """Stream with a crash in each third batch: before the sink has it, or after it and before anything else."""
    module, name = sinks.CLASSES[address.partition("://")[0]]
    cls = getattr(import_module(f"wolf_fleet.streaming.sinks.{module}"), name)
    write, calls = cls.write, []

    def failing(self, rows, key, after):
        calls.append(after)
        if len(calls) % 3 == 2 and not after_write:
            raise InterruptedDeliveryError
        write(self, rows, key, after)
        if len(calls) % 3 == 2:
            raise InterruptedDeliveryError

    monkeypatch.setattr(cls, "write", failing)
    for _ in range(30):
        try:
            return run(folder, address)
        except InterruptedDeliveryError:
            continue
    raise AssertionError("it never ended")


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
@pytest.mark.parametrize("after_write", [True, False])
def test_a_database_has_every_row_once_after_crashes(tmp_path, monkeypatch, kind, after_write):
    pytest.importorskip(kind if kind == "duckdb" else "sqlite3")
    write_rows(tmp_path)
    address = f"{kind}:///{tmp_path}/results.db?table=rows"
    run_with_crashes(tmp_path, address, monkeypatch, after_write)
    sink = sinks.open_sink(address, read_manifest(tmp_path / "state", ("wolf-stream",))["id"])
    assert sink.position() == Position(3, SIZE - 50)
    for _ in range(2):
        sink.write_incident(FACTS)
    cursor = sink._connection.cursor()
    cursor.execute('SELECT t, id, mean FROM "rows" ORDER BY t')
    found = cursor.fetchall()
    cursor.execute("SELECT kind, reason FROM wolf_incidents")
    assert cursor.fetchall() == [("stuck", FACTS["reason"])]
    sink.close()
    assert [row[0] for row in found] == list(range(SIZE))
    assert {row[1] for row in found} == {"a", "b", "c"}


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def start_server(command, port):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
            return process
        except OSError:
            time.sleep(0.05)
    process.kill()
    raise OSError(f"{command[0]} does not listen")


POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


@pytest.mark.slow
@pytest.mark.skipif(not POSTGRES, reason="there is no PostgreSQL server here")
@pytest.mark.parametrize("after_write", [True, False])
def test_postgresql_has_every_row_once_after_crashes(tmp_path, monkeypatch, after_write):
    pytest.importorskip("adbc_driver_postgresql")
    place, port = Path(tempfile.mkdtemp()), free_port()
    owner = "postgres" if os.geteuid() == 0 else None  # the server refuses to run as root
    if owner:
        shutil.chown(place, owner)
    subprocess.run([POSTGRES[-1] / "initdb", "-A", "trust", place / "db"], user=owner, check=True, capture_output=True)
    options = ["-D", str(place / "db"), "-p", str(port), "-k", str(place), "-h", "127.0.0.1"]
    server = subprocess.Popen([POSTGRES[-1] / "postgres", *options], user=owner, stderr=subprocess.DEVNULL)
    address = f"postgresql://{owner or os.environ['USER']}@127.0.0.1:{port}/postgres?table=rows"
    try:
        for _ in range(100):
            try:
                sinks.open_sink(address, "x").close()
                break
            except OSError:
                time.sleep(0.1)
        write_rows(tmp_path)
        run_with_crashes(tmp_path, address, monkeypatch, after_write)
        sink = sinks.open_sink(address, read_manifest(tmp_path / "state", ("wolf-stream",))["id"])
        assert sink.position() == Position(3, SIZE - 50)
        for _ in range(2):
            sink.write_incident(FACTS)
        cursor = sink._connection.cursor()
        cursor.execute('SELECT t FROM "rows" ORDER BY t')
        assert [row[0] for row in cursor.fetchall()] == list(range(SIZE))
        cursor.execute("SELECT kind, reason FROM wolf_incidents")
        assert cursor.fetchall() == [("stuck", FACTS["reason"])]
        cursor.close()
        sink.close()
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(place)


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="there is no redis-server here")
def test_redis_has_every_row_once_after_crashes_and_a_kill_of_the_server(tmp_path, monkeypatch):
    redis, port = pytest.importorskip("redis"), free_port()
    command = [shutil.which("redis-server"), "--port", str(port), "--dir", str(tmp_path), "--save", ""]
    command += ["--appendonly", "yes", "--appendfsync", "always"]
    server = start_server(command, port)
    try:
        write_rows(tmp_path)
        address = f"redis://127.0.0.1:{port}/results"
        run_with_crashes(tmp_path, address, monkeypatch, after_write=True)
        server.kill()
        server.wait()
        server = start_server(command, port)
        client = redis.Redis(port=port, decode_responses=True)
        rows = [json.loads(fields["data"]) for _, fields in client.xrange("results")]
        assert sorted(row["t"] for row in rows) == list(range(SIZE))
        sink = sinks.open_sink(address, "x")
        sink.write_incident(FACTS)
        assert json.loads(client.hget("results:incidents", "1"))["kind"] == "stuck"
        sink.close()
    finally:
        server.kill()
        server.wait()
    with pytest.raises(OSError, match="does not take rows"):
        sinks.open_sink(address, "x").position()


NATS = Path(sys.executable).with_name("nats-server")


@pytest.mark.skipif(not NATS.exists(), reason="there is no nats-server here")
def test_jetstream_has_every_row_once_after_crashes(tmp_path, monkeypatch):
    import asyncio

    nats, port = pytest.importorskip("nats"), free_port()
    server = start_server([str(NATS), "-js", "-p", str(port), "-a", "127.0.0.1", "-sd", str(tmp_path / "js")], port)

    async def prepare():
        client = await nats.connect(f"nats://127.0.0.1:{port}")
        # A duplicate window of 100 ms: positions are found without it.
        await client.jetstream().add_stream(name="RESULTS", subjects=["results", "results.>"], duplicate_window=0.1)
        await client.close()

    async def read():
        client = await nats.connect(f"nats://127.0.0.1:{port}")
        stream = client.jetstream()
        count = (await stream.stream_info("RESULTS")).state.messages
        found = [json.loads((await stream.get_msg("RESULTS", seq=i + 1)).data) for i in range(count)]
        await client.close()
        return found

    try:
        asyncio.run(prepare())
        write_rows(tmp_path)
        run_with_crashes(tmp_path, f"nats://127.0.0.1:{port}/results", monkeypatch, after_write=True)
        rows = asyncio.run(read())
        assert sorted(row["t"] for row in rows) == list(range(SIZE))
    finally:
        server.kill()
        server.wait()


def test_kafka_has_every_row_in_transactions_by_key(tmp_path):
    kafka = pytest.importorskip("confluent_kafka")
    # The mock of the client library: there is no broker on PyPI or in Debian. It forgets the offsets of transactions,
    # so that a restart cannot be tested with it.
    owner = kafka.Producer({"bootstrap.servers": "x", "test.mock.num.brokers": 1})
    port = next(iter(owner.list_topics(timeout=10).brokers.values())).port
    write_rows(tmp_path)
    address = f"kafka://127.0.0.1:{port}/results"
    run(tmp_path, address)
    reader = kafka.Consumer(
        {"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "test", "auto.offset.reset": "earliest"}
    )
    reader.subscribe(["results"])
    messages, until = [], time.monotonic() + 20
    while len(messages) < SIZE and time.monotonic() < until:
        messages += [message for message in reader.consume(SIZE, 0.3) if message.error() is None]
    reader.close()
    rows = [json.loads(message.value()) for message in messages]
    assert sorted(row["t"] for row in rows) == list(range(SIZE))
    assert [message.key().decode() for message in messages] == [row["id"] for row in rows]


@pytest.mark.skipif(shutil.which("mosquitto") is None, reason="there is no mosquitto here")
def test_mqtt_has_every_row_at_least_once(tmp_path, monkeypatch):
    mqtt, port = pytest.importorskip("paho.mqtt.client"), free_port()
    server = start_server([shutil.which("mosquitto"), "-p", str(port)], port)
    try:
        rows, ready = [], threading.Event()
        listener = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        listener.on_message = lambda _, __, message: rows.append((message.topic, message.payload))
        listener.on_subscribe = lambda *_: ready.set()
        listener.connect("127.0.0.1", port)
        listener.subscribe("results/#", qos=1)
        listener.loop_start()
        assert ready.wait(10)
        write_rows(tmp_path)
        run_with_crashes(tmp_path, f"mqtt://127.0.0.1:{port}/results", monkeypatch, after_write=True)
        sink = sinks.open_sink(f"mqtt://127.0.0.1:{port}/results", "x")
        sink.write_incident(FACTS)
        sink.close()
        until = time.monotonic() + 10
        while not any(topic == "results/incidents/1" for topic, _ in rows) and time.monotonic() < until:
            time.sleep(0.02)
        listener.loop_stop()
        read = [json.loads(payload) for topic, payload in rows if topic != "results/incidents/1"]
        assert sorted({row["t"] for row in read}) == list(range(SIZE))
        assert len({row["wolf_row"] for row in read}) == SIZE
        assert any(topic == "results/a" for topic, _ in rows)
    finally:
        server.kill()
        server.wait()


def test_http_repeats_with_the_same_key_until_it_is_answered(tmp_path):
    received, failures = {}, [3]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            text = self.rfile.read(int(self.headers["Content-Length"]))
            failures[0] -= 1
            received.setdefault(self.headers["Idempotency-Key"], json.loads(text))
            self.send_response(503 if failures[0] >= 0 else 204)  # the answer is lost after the rows have arrived
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    write_rows(tmp_path)
    for _ in range(3):
        with pytest.raises(OSError, match="They are kept, and sent later"):
            run(tmp_path, f"http://127.0.0.1:{server.server_port}/rows")
    run(tmp_path, f"http://127.0.0.1:{server.server_port}/rows")
    server.shutdown()
    server.server_close()
    assert sorted(row["t"] for rows in received.values() for row in rows) == list(range(SIZE))


def test_a_service_keeps_parts_until_the_sink_has_them(tmp_path, monkeypatch):
    from wolf_fleet.service import Service

    monkeypatch.setattr(delivery, "FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(delivery, "POLL_SECONDS", 0.02)
    place = tmp_path / "later"
    address = f"sqlite:///{place}/results.db"
    with Service(wolf.Bank(LEVEL), tmp_path / "state", **NAMES, batch_rows=5, history_rows=5) as service:
        thread = delivery.SinkThread(service.deliver_to(address))
        for t in range(30):
            service.post("json", json.dumps({"id": "a", "t": t, "v": 1.0}).encode())
        until = time.monotonic() + 20
        while "does not take rows" not in thread.error and time.monotonic() < until:
            time.sleep(0.02)
        assert len(service._committed_parts()) == 6  # although 5 rows of history need one
        place.mkdir()
        while thread.delivery.done < 6 and time.monotonic() < until:
            time.sleep(0.02)
        for t in range(30, 40):
            service.post("json", json.dumps({"id": "a", "t": t, "v": 1.0}).encode())
        service.commit()
        assert len(service._committed_parts()) <= 3
        thread.close()
    with sqlite3.connect(place / "results.db") as connection:
        assert connection.execute("SELECT count(*), count(DISTINCT t) FROM wolf_results").fetchone() == (40, 40)


def test_unknown_addresses_are_refused_before_anything_starts(tmp_path):
    write_rows(tmp_path)
    for address in ("ftp://x/y", "results.db", "redis://"):
        with pytest.raises(ValueError, match="a sink is an address that begins with"):
            run(tmp_path, address)
    assert not (tmp_path / "state").exists()
