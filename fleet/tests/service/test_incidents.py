"""Incidents and alerts: one for each fault, durable, delivered at least once."""

import hashlib
import hmac
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

pytest.importorskip("llvmlite")
pytest.importorskip("uvicorn", reason="the service needs the extra serve")
from fleet.tests.service.helpers import Server, body, crash, open_service, states

from wolf_fleet.service import responses
from wolf_fleet.service.app import make_app
from wolf_fleet.service.write_ahead_log import Record
from wolf_fleet.streaming.incidents import alerts
from wolf_fleet.streaming.sinks import http_endpoint

pytestmark = pytest.mark.thorough
NOW = 1_795_000_000.0
SECRET = "0123456789abcdef"


def feed(service, values, key="a", start=0, clock=None, period=1.0):
    """Post rows, one request each, at their own times unless a clock is given."""
    for i, value in enumerate(values):
        time_of_row = NOW + period * (start + i)
        record = Record("", "json", time_of_row if clock is None else clock, body([(key, time_of_row, value)]))
        answer = service.post_many([record])[0]
        assert not isinstance(answer, Exception), answer


def kinds(service):
    return [(each.kind, each.end is None) for each in service.incidents]


def test_a_fault_is_one_incident_from_begin_to_end(tmp_path):
    with open_service(tmp_path) as service:
        feed(service, [0.1, -0.3, 0.2, 0.5, -0.2] * 4)
        assert kinds(service) == []
        feed(service, [90.0, 0.1, 90.0, -0.2, 90.0], start=20)
        assert kinds(service) == [("outliers", True)]
        assert service.incidents.open[0].reason == "3 outliers in the last 20 rows"
        feed(service, [0.1, -0.3, 0.2, 0.5, -0.2] * 5, start=25)
        assert kinds(service) == [("outliers", False)]
        assert NOW + 20 < service.incidents._closed[0].start < service.incidents._closed[0].end


def test_a_level_shift_stays_open_until_it_is_acknowledged_also_over_a_restart(tmp_path):
    service = open_service(tmp_path)
    feed(service, [0.1, -0.3, 0.2, 0.5, -0.2] * 5)
    feed(service, [60.1, 59.7, 60.2, 60.5, 59.8] * 10, start=25)
    shift = next(each for each in service.incidents.open if each.kind == "shift")
    assert shift.reason.startswith("the level changed by 60")
    crash(service)
    service = open_service(tmp_path)
    assert any(each.kind == "shift" for each in service.incidents.open)
    before = states(service)
    number = next(each.number for each in service.incidents.open if each.kind == "shift")
    service.acknowledge(number)
    crash(service)
    again = open_service(tmp_path)
    assert not any(each.kind == "shift" for each in again.incidents.open)
    assert states(again) == before
    with pytest.raises(KeyError, match="there is no incident 999"):
        again.acknowledge(999)
    again.close()


def test_a_backfill_makes_no_key_silent_and_a_missing_sensor_does(tmp_path):
    with open_service(tmp_path) as service:
        feed(service, [0.1, 0.3, -0.2] * 5, period=60.0, clock=NOW + 900.0)  # all arrive at once
        assert service.health.silent(NOW + 1000.0, 0.0).tolist() == [False]
        assert service.health.silent(NOW + 900.0 + 301.0, 0.0).tolist() == [True]


def test_a_silent_key_is_an_incident_until_its_next_row(tmp_path, monkeypatch):
    with open_service(tmp_path) as service:
        feed(service, [0.1, 0.3, -0.2] * 5, period=60.0)
        service.since = NOW
        monkeypatch.setattr(service, "steady_time", lambda: NOW + 2000.0)
        service.find_silent()
        assert kinds(service) == [("silent", True)]
        service.find_silent()
        assert kinds(service) == [("silent", True)]
        monkeypatch.undo()
        feed(service, [0.1], start=15, period=60.0)
        assert kinds(service) == [("silent", False)]


def test_a_clock_that_is_set_makes_no_key_silent(tmp_path, monkeypatch):
    import time as clock

    with open_service(tmp_path) as service:
        feed(service, [0.1, 0.3, -0.2] * 5, period=60.0)
        real = clock.time
        monkeypatch.setattr("wolf_fleet.service.service.clocks.time", lambda: real() + 1e6)
        service.find_silent()
        assert kinds(service) == []


def test_outliers_that_turn_out_to_be_a_shift_are_one_incident(tmp_path):
    with open_service(tmp_path) as service:
        service.incidents.set_targets(["webhook"])
        feed(service, [0.1, -0.3, 0.2, 0.5, -0.2] * 5)
        feed(service, [60.1, 59.7, 60.2, 60.5, 59.8], start=25)
        assert [(each.kind, each.number) for each in service.incidents] in ([("outliers", 1)], [("shift", 1)])
        feed(service, [60.1, 59.7, 60.2, 60.5, 59.8] * 10, start=30)
        assert [(each.kind, each.number, each.state) for each in service.incidents] == [("shift", 1, "updated")]
        assert service.incidents.open[0].confidence > 0.99
        assert [each.changes for each in service.incidents.undelivered("webhook")] == [2]


def test_one_alert_that_is_refused_does_not_hold_up_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(alerts, "POLL_SECONDS", 0.02)
    program = tmp_path / "notify.py"
    got = tmp_path / "got"
    program.write_text(
        "import json, sys; facts = json.load(sys.stdin)\n"
        f"if facts['key'] == 'bad': sys.exit(1)\nopen({str(got)!r}, 'a').write(facts['key'])"
    )
    with open_service(tmp_path / "state") as service:
        for key in ("bad", "good"):
            feed(service, [None] * 30, key=key)
        sender = alerts.AlertSender(service, None, f"{sys.executable} {program}")
        wait_for(lambda: got.exists() and got.read_text() == "good")
        assert "exit code 1" in sender.error
        wait_for(lambda: service.incidents.num_undelivered == 1)
        sender.close()


def test_a_muted_key_alerts_nobody(tmp_path):
    with open_service(tmp_path) as service:
        feed(service, [0.1, -0.3, 0.2, 0.5, -0.2] * 4)
        service.mute("a", 1e9)
        feed(service, [90.0, 0.1, 90.0], start=20)
        assert service.incidents.open[0].acknowledged
        service.incidents.set_targets(["webhook", "sink"])
        assert service.incidents.undelivered("webhook") == []
        assert len(service.incidents.undelivered("sink")) == 1
        with pytest.raises(KeyError, match="no key 'b'"):
            service.mute("b", 10.0)


class Receiver:
    """A webhook that fails a number of times before it accepts."""

    def __init__(self, failures):
        self.received, self.signed, outer = [], [], self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                nonlocal failures
                text = self.rfile.read(int(self.headers["Content-Length"]))
                failures -= 1
                self.send_response(503 if failures >= 0 else 204)
                self.end_headers()
                if failures < 0:
                    outer.received.append(json.loads(text))
                    digest = hmac.new(SECRET.encode(), text, hashlib.sha256).hexdigest()
                    outer.signed.append(self.headers[http_endpoint.SIGNATURE] == f"sha256={digest}")

            def log_message(self, *_):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def wait_for(condition, seconds=20.0):
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    assert condition()


def test_alerts_are_signed_repeated_until_delivered_and_sent_after_a_restart(tmp_path, monkeypatch):
    monkeypatch.setattr(alerts, "FIRST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(alerts, "POLL_SECONDS", 0.02)
    hook, service = Receiver(failures=2), open_service(tmp_path)
    sender = alerts.AlertSender(service, hook.url, None, SECRET)
    feed(service, [0.1, -0.3, 0.2, 0.5, -0.2] * 4 + [90.0, 0.1, 90.0])
    wait_for(lambda: hook.received)
    first = hook.received[0]
    assert (first["key"], first["kind"], first["state"], first["incident"]) == ("a", "outliers", "open", 1)
    assert "outliers in the last 20 rows" in first["reason"]
    wait_for(lambda: not service.incidents.num_undelivered)
    sender.close()
    feed(service, [0.1, -0.3, 0.2, 0.5, -0.2] * 5, start=23)  # it closes while nothing can be sent
    crash(service)
    again = open_service(tmp_path)
    sender = alerts.AlertSender(again, hook.url, None, SECRET)
    wait_for(lambda: any(each["state"] == "closed" for each in hook.received))
    sender.close()
    assert all(hook.signed)
    again.close()


def test_a_command_gets_the_incident_and_its_failure_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(alerts, "POLL_SECONDS", 0.02)
    program = tmp_path / "notify.py"
    program.write_text(f"import sys; open({str(tmp_path / 'got')!r}, 'a').write(sys.stdin.read() + '\\n')")
    with open_service(tmp_path / "state") as service:
        sender = alerts.AlertSender(service, None, f"{sys.executable} {program}")
        feed(service, [0.1, -0.3, 0.2, 0.5, -0.2] * 4 + [90.0, 0.1, 90.0])
        wait_for(lambda: (tmp_path / "got").exists() and (tmp_path / "got").read_text().endswith("\n"))
        sender.close()
        assert json.loads((tmp_path / "got").read_text().splitlines()[0])["kind"] == "outliers"
        feed(service, [None] * 30, key="b")
        failing = alerts.AlertSender(service, None, f"{sys.executable} -c 'import sys; sys.exit(3)'")
        wait_for(lambda: "exit code 3" in failing.error)
        failing._stop.set()


@pytest.mark.parametrize("options", [{"alert_url": "ftp://x/y"}, {"alert_url": "hook"}, {"alert_command": " "}])
def test_addresses_and_commands_that_cannot_be_used_are_refused(tmp_path, options):
    with open_service(tmp_path) as service, pytest.raises(ValueError, match="alert_"):
        make_app(service, **options)


def test_incidents_by_http(tmp_path):
    service = open_service(tmp_path)
    feed(service, [0.1, -0.3, 0.2, 0.5, -0.2] * 5 + [60.1, 59.7, 60.2, 60.5, 59.8] * 10)
    server = Server(make_app(service))
    try:
        found = server.get("/incidents?open=1")
        shift = next(each for each in found if each["kind"] == "shift")
        assert 'wolf_open_incidents{kind="shift"} 1' in server.ask("/metrics")[1]
        assert "# TYPE wolf_key_score gauge" in server.ask("/metrics")[1]
        data = json.dumps({"incident": shift["incident"]}).encode()
        code, _ = server.ask("/incidents/acknowledge", data, Origin="http://evil.example")
        assert code == 401
        code, text = server.ask("/incidents/acknowledge", data)
        assert (code, json.loads(text)["acknowledged"], json.loads(text)["state"]) == (200, True, "closed")
        assert server.ask("/incidents/acknowledge", b'{"incident": 99}')[0] == 404
        assert server.ask("/incidents/acknowledge", b"[]")[0] == 400
        assert server.ask("/incidents/mute", b'{"key": "a", "seconds": 60}')[0] == 200
        assert server.ask("/incidents/mute", b'{"key": "a", "seconds": -1}')[0] == 400
        assert 'wolf_open_incidents{kind="shift"} 0' in server.ask("/metrics")[1]
        assert responses.fleet(service)["incidents"] == server.get("/incidents?open=1")
    finally:
        server.close()
