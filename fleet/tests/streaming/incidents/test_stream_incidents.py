"""Incidents of streams: reported after the commit of their rows, once per change, also over restarts."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest

import wolf
import wolf_fleet

pytest.importorskip("llvmlite")
pytest.importorskip("pyarrow")
pytestmark = pytest.mark.thorough
LEVEL = wolf.models.local_level(0.1, 1.0)
NAMES = {"key": "id", "values": "v", "time": "t"}


@pytest.fixture
def webhook():
    received, failures = [], [0]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            facts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if failures[0] == 0:
                received.append((facts["incident"], facts["key"], facts["kind"], facts["state"]))
            self.send_response(204 if failures[0] == 0 else 503)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/hook", received, failures
    server.shutdown()
    server.server_close()


def write_rows(folder, steps):
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(200, 3)).round(3)
    lines = []
    for t in range(steps):
        values = {
            "good": noise[t, 0],
            "spiky": noise[t, 1] + 90 * (t in (30, 32)),
            "moved": noise[t, 2] + 60 * (t >= 50),
        }
        lines += [f"{key},{t},{value}" for key, value in values.items()]
    (folder / "rows.csv").write_text("id,t,v\n" + "\n".join(lines) + "\n")


def run(folder, url, **options):
    options = {"batch_rows": 40, "alert_url": url} | options
    return wolf_fleet.stream(
        folder / "rows.csv", wolf.Bank(LEVEL), folder / "out", state=folder / "state", **NAMES, **options
    )


def test_incidents_of_a_stream_are_reported_once_over_restarts(tmp_path, webhook):
    url, received, failures = webhook
    write_rows(tmp_path, 45)
    failures[0] = 1
    run(tmp_path, url)
    assert received == []
    failures[0] = 0
    run(tmp_path, url)  # what the webhook did not take is sent by the next run
    assert received == [(1, "spiky", "outliers", "open")]
    write_rows(tmp_path, 80)
    run(tmp_path, url)
    assert received[1:] == [(1, "spiky", "outliers", "closed"), (2, "moved", "shift", "open")] or sorted(
        received[1:]
    ) == [(1, "spiky", "outliers", "closed"), (2, "moved", "outliers", "open"), (2, "moved", "shift", "updated")]
    before = list(received)
    run(tmp_path, url)
    assert received == before


def test_incidents_do_not_change_the_output_and_go_to_a_sink(tmp_path):
    import sqlite3

    write_rows(tmp_path, 80)
    (tmp_path / "plain").mkdir()
    write_rows(tmp_path / "plain", 80)
    run(tmp_path, None, incident_sink=f"sqlite:///{tmp_path}/incidents.db", format="csv")
    run(tmp_path / "plain", None, format="csv")
    texts = [
        [path.read_text() for path in sorted((place / "out").iterdir())] for place in (tmp_path, tmp_path / "plain")
    ]
    assert texts[0] == texts[1]
    with sqlite3.connect(tmp_path / "incidents.db") as connection:
        found = connection.execute("SELECT incident, key, kind FROM wolf_incidents ORDER BY incident").fetchall()
    assert found == [(1, "spiky", "outliers"), (2, "moved", "shift")]


def test_options_that_cannot_be_used_are_refused_before_anything_starts(tmp_path):
    write_rows(tmp_path, 5)
    with pytest.raises(ValueError, match="alert_url must be an address"):
        run(tmp_path, "localhost")
    assert not (tmp_path / "state").exists()
