"""Requests that must neither stop the service, nor move a state, nor use memory or connections without limit."""

import contextlib
import gc
import json
import os
import socket
import threading
import time
import tracemalloc

import numpy as np
import pytest

pytest.importorskip("llvmlite")
pytest.importorskip("uvicorn", reason="the service needs the extra serve")
from fleet.tests.service.helpers import Server, body, crash, open_service, some_rows, states

from wolf_fleet.service import http_limits, responses, worker
from wolf_fleet.service.app import make_app
from wolf_fleet.service.write_ahead_log import Record

pytestmark = pytest.mark.thorough
NOW = 1_795_000_000.0


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    served = Server(make_app(open_service(tmp_path_factory.mktemp("state"), allowed_lateness=10.0)))
    yield served
    served.close()


def send(server, text, answer_bytes=200):
    """Send bytes over a socket; return the first bytes of the answer."""
    with socket.create_connection(("127.0.0.1", server.socket.getsockname()[1]), timeout=10) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(text)
        return connection.recv(answer_bytes)


@pytest.mark.parametrize("key", ["\ud800", "a\u0000b", "a\nb", "\x1b[2J", ""])
def test_a_key_that_cannot_be_stored_is_refused_and_moves_no_state(server, key):
    before = states_of(server)
    code, text = server.ask("/measurements", body([("good", 1.0, 1.0), (key, 2.0, 1.0)]))
    assert code == 400, text
    assert states_of(server) == before
    assert server.get("/health")["status"] == "ok"


def test_unusual_keys_that_are_text_are_kept(tmp_path):
    names = ["a\u2028b", "ключ", "a,b", 'say "x"', "\U0001f321"]
    with open_service(tmp_path) as service:
        for number, name in enumerate(names):
            service.post("lines", json.dumps({"id": name, "t": float(number), "v": 1.0}, ensure_ascii=False).encode())
        service.commit()
    with open_service(tmp_path) as service:
        assert set(states(service)) == set(names)


def states_of(server):
    return {row["key"]: row for row in server.get("/keys?limit=100")}, server.get("/health")


def test_a_row_in_milliseconds_makes_no_other_row_late(tmp_path):
    with open_service(tmp_path, allowed_lateness=10.0, idle_timeout=100.0) as service:
        assert send_at(service, [("a", NOW, 1.0), ("b", NOW, 1.0)])["ahead"] == 0
        assert send_at(service, [("a", NOW * 1000, 1.0)])["ahead"] == 1
        answer = send_at(service, [("a", NOW + 20, 1.0), ("b", NOW + 20, 1.0)])
        assert (answer["late"], answer["used"]) == (0, 2)


def send_at(service, rows, clock=NOW):
    return service.post_many([Record("", "json", clock, body(rows))])[0]


def test_numbers_of_another_unit_have_a_limit_where_it_is_given(tmp_path):
    with open_service(tmp_path, max_ahead=50.0) as service:
        answer = send_at(service, [("a", 1.0, 1.0), ("a", 40.0, 1.0), ("a", 1e6, 1.0), ("a", 80.0, 1.0)])
        assert (answer["ahead"], answer["used"]) == (1, 3)


@pytest.mark.parametrize("date", ["9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00"])
def test_dates_at_the_ends_of_the_calendar_stop_nothing(tmp_path, date):
    with open_service(tmp_path) as service:
        service.post("json", json.dumps([{"id": "a", "t": date, "v": v} for v in (1.0,)]).encode())
        service.post("json", json.dumps([{"id": "a", "t": "2026-11-18T00:00:00Z", "v": 900.0}]).encode())
        json.dumps(responses.fleet(service))
        json.dumps(responses.history(service, "a", 10))
        if "a" in service.pipeline.bank:
            json.dumps(responses.state(service, "a"))


def test_no_request_is_lost_when_no_file_can_be_opened(tmp_path, monkeypatch):
    service, rows = open_service(tmp_path, batch_rows=2), some_rows(12)
    real = os.open

    def refuse(path, flags, *rest, **more):
        if flags & os.O_CREAT:
            raise OSError(24, "Too many open files")
        return real(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    for i in range(0, 12, 3):
        assert service.post("json", body(rows[i : i + 3]), str(i))["rows"] == 3
    assert "Too many open files" in service.warning
    monkeypatch.undo()
    whole = states(service)
    crash(service)
    again = open_service(tmp_path)
    assert states(again) == whole
    assert again.post("json", body(rows[:3]), "0")["duplicate"]
    again.close()


def test_waiting_rows_count_towards_the_limits(tmp_path, monkeypatch):
    with open_service(tmp_path, allowed_lateness=1e6, max_keys=3) as service:
        service.post("json", body([(f"k{i}", 1.0, 1.0) for i in range(3)]))
        assert len(service.pipeline.bank) == 0
        with pytest.raises(ValueError, match="0 of at most 3 keys are free"):
            service.post("json", body([("k3", 2.0, 1.0)]))
        monkeypatch.setattr("wolf_fleet.service.service.MAX_WAITING_ROWS", 4)
        with pytest.raises(ValueError, match="of at most 4"):
            service.post("json", body([("k0", 2.0, 1.0), ("k0", 3.0, 1.0)]))


def test_refused_requests_are_not_kept_in_memory(tmp_path):
    with open_service(tmp_path) as service:
        posts = worker.Worker(service)
        gc.disable()
        tracemalloc.start()
        try:
            errors = []
            for i in range(10):
                data = b"[" + b"1," * 500_000 + str(i).encode()
                errors.append(posts.post(Record("", "json", 1.0, data)).exception(timeout=10))
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            gc.enable()
            posts.close()
        assert all(isinstance(error, ValueError) for error in errors)
        assert held < 4e6  # two of the bodies, in the queue of the worker


def test_a_worker_that_ends_leaves_no_request_without_an_answer(tmp_path, monkeypatch):
    service = open_service(tmp_path)
    posts = worker.Worker(service)
    monkeypatch.setattr(service, "commit_if_due", lambda: 1 / 0)
    monkeypatch.setattr(worker, "COMMIT_CHECK_SECONDS", 0.0)
    posts.post(Record("", "json", 1.0, body([("a", 1.0, 1.0)]))).exception(timeout=10)
    deadline = time.monotonic() + 10
    while not service.broken and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "a commit failed (ZeroDivisionError" in service.broken
    with pytest.raises(OSError, match="restart the service"):
        posts.post(Record("", "json", 1.0, body([("a", 2.0, 1.0)]))).result(timeout=10)
    monkeypatch.undo()
    posts.close()
    monkeypatch.setattr(worker.Worker, "_loop", lambda self: None)
    ended = worker.Worker(service)
    ended._thread.join()
    with pytest.raises(OSError, match="the worker thread has ended"):
        ended.post(Record("", "json", 1.0, body([("a", 2.0, 1.0)])))
    crash(service)


def test_headers_are_limited_in_size_and_time(server, monkeypatch):
    if server.server.config.http_protocol_class is not http_limits.LimitedProtocol:
        pytest.skip("the server of the tests uses another protocol")
    line = b"X-Header: " + b"x" * 1000 + b"\r\n"
    assert b"431" in send(server, b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + line * 100)
    monkeypatch.setattr(http_limits, "MAX_HEADER_SECONDS", 0.2)
    assert b"408" in send(server, b"POST /measurements HTTP/1.1\r\nHost: local")


def test_a_body_that_does_not_arrive_ends_the_request(server, monkeypatch):
    monkeypatch.setattr("wolf_fleet.service.app.MAX_READ_SECONDS", 0.2)
    head = b"POST /measurements HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\nContent-Length: 50\r\n\r\nid,t"
    assert b"408" in send(server, head)


@pytest.mark.parametrize(
    "host", ["localhost#.evil.example", "localhost@evil.example", "[::1", "127.0.0.1:x", "evil.example"]
)
def test_a_host_header_that_is_not_local_is_refused(server, host):
    assert b"403" in send(server, f"GET /health HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())


def test_answers_forbid_what_browsers_might_do_with_them(server):
    answer = send(server, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 2000).lower()
    assert b"x-content-type-options: nosniff" in answer
    assert b"content-security-policy: default-src 'none'" in answer


def test_deep_json_is_an_error_of_the_client(server):
    deep = b"[" * 100_000
    for path in ("/session", "/measurements"):
        assert server.ask(path, deep)[0] == 400


@pytest.mark.parametrize("alphabet", [range(256), b'0123456789eE+-.,:{}[]" nulNaIfty\\'], ids=["bytes", "json"])
@pytest.mark.parametrize("bodies", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_random_bodies_stop_nothing_and_refused_ones_move_no_state(tmp_path, alphabet, bodies):
    rng = np.random.default_rng(bodies)
    whole, formats = body(some_rows(6)), ["json", "lines", "csv"] if len(alphabet) == 256 else ["json"]
    with open_service(tmp_path, allowed_lateness=3.0) as service:
        service.post("json", whole)
        for _ in range(bodies):
            data = bytearray(whole)
            for place in rng.integers(0, len(data), rng.integers(1, 4)):
                data[place] = rng.choice(list(alphabet))
            before = states(service), service.pipeline.counts.rows
            answer = service.post_many([Record("", str(rng.choice(formats)), NOW, bytes(data))])[0]
            if isinstance(answer, Exception):
                assert isinstance(answer, ValueError)
                assert (states(service), service.pipeline.counts.rows) == before
        assert not service.broken


def test_requests_while_the_service_is_closed_end(tmp_path):
    service = open_service(tmp_path)
    posts = worker.Worker(service)
    futures = [posts.post(Record("", "json", 1.0, body([("a", float(i), 1.0)]))) for i in range(20)]
    threading.Thread(target=posts.close).start()
    assert [future.result(timeout=20)["rows"] for future in futures] == [1] * 20
    service.close()
