"""The service by HTTP: responses, errors, tokens and metrics."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import wolf

pytest.importorskip("llvmlite")
pytest.importorskip("uvicorn", reason="the service needs the extra serve")
from fleet.tests.service.helpers import LEVEL, Server, body, open_service, some_rows

from wolf_fleet.service import responses
from wolf_fleet.service.app import make_app

pytestmark = pytest.mark.thorough  # starts a server
TOKEN = "0123456789abcdef0123"
DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    served = Server(make_app(open_service(tmp_path_factory.mktemp("state")), max_body_bytes=20_000))
    yield served
    served.close()


def test_json_lines_csv_and_json_have_the_bits_of_a_bank(server):
    rows = some_rows(12)
    bank, want = wolf.Bank(LEVEL), []
    for form, kind in (("json", "application/json"), ("lines", "application/x-ndjson"), ("csv", "text/csv")):
        mine = [(f"{form}-{key}", t, v) for key, t, v in rows]
        if form == "lines":
            data = "\n".join(json.dumps({"id": key, "t": t, "v": v}) for key, t, v in mine).encode()
        else:
            data = (
                body(mine) if form == "json" else ("v,t,id\n" + "".join(f"{v},{t},{k}\n" for k, t, v in mine)).encode()
            )
        code, text = server.ask("/measurements?results=1", data, kind)
        assert code == 200, text
        told = json.loads(text)
        out = bank.step(*zip(*[(key, v, t) for key, t, v in mine], strict=True))
        assert (told["rows"], told["used"], told["outliers"]) == (12, 12, int(out.outlier.sum()))
        by_time = {row["t"]: row for row in told["results"]}
        assert [by_time[t]["mean"] for _, t, _ in mine] == out.signal[:, 0].tolist()
        assert {row["t"] for row in told["flagged"]} == {
            t for (_, t, _), bad in zip(mine, out.outlier, strict=True) if bad
        }
        want.append(out)
    key = f"csv-{rows[-1][0]}"
    told = server.get(f"/state?key={key}")
    assert told["state"] == bank[key].mean.tolist()
    assert told["cov"] == bank[key].cov.tolist()
    assert told["time"] == rows[-1][1]


def test_forecast_is_that_of_the_library(server, tmp_path):
    values = [1.0, 1.4, 0.8, 1.2]
    want = wolf.forecast(wolf.filter(LEVEL, values), steps=5)
    with open_service(tmp_path, time=None) as service:
        service.post("csv", b"id,v\n" + b"".join(b"a,%f\n" % v for v in values))
        told = responses.forecast(service, "a", 5, 0.95)
    np.testing.assert_allclose(told["mean"], want.obs_means[:, 0], rtol=1e-12)
    np.testing.assert_allclose(told["lower"], want.lower[:, 0], rtol=1e-12)
    np.testing.assert_allclose(told["upper"], want.upper[:, 0], rtol=1e-12)
    server.post([("ahead", float(t), v) for t, v in enumerate(values)])
    assert server.get("/forecast?key=ahead&steps=3")["times"] == [4.0, 5.0, 6.0]
    assert 1.0 < server.get("/detectable?key=ahead")["detectable"] < 10.0


def test_a_flag_has_a_reason_and_its_key_comes_first(server):
    server.post([("noisy", float(t), 5.0 + 0.1 * (t % 3)) for t in range(30)])
    told = server.post([("noisy", 30.0, 80.0), ("noisy", 31.0, -70.0)])
    high, low = told["flagged"]
    assert high["reason"].startswith("74.")
    assert " above the estimate 5.1" in high["reason"]
    assert " below the estimate 5.1" in low["reason"]
    worst = next(each for each in server.get("/keys") if each["key"] == "noisy")
    assert worst["problem"]
    assert "2 outliers in the last 20 rows" in worst["reasons"]
    rows = server.get("/history?key=noisy&rows=3")
    assert rows["values"] == [[5.2, 80.0, -70.0]]
    assert set(rows["reasons"]) == {"1", "2"}


@pytest.mark.parametrize(
    ("path", "data", "kind", "code", "words"),
    [
        ("/measurements", b"a=b", "application/x-www-form-urlencoded", 415, "Content-Type must be one of"),
        ("/measurements", b"{", "application/json", 400, "the body is not JSON"),
        ("/measurements", b"3", "application/json", 400, "expected a JSON object or a list"),
        ("/measurements", b"\xff", "text/csv", 400, "not UTF-8 text"),
        ("/measurements", b"a,b\n1,2", "text/csv", 400, "has no column 'id'; its first line has 'a', 'b'"),
        ("/measurements", b'[{"id": "x", "t": 1, "v": "warm"}]', "application/json", 400, "could not convert"),
        (
            "/measurements",
            b'[{"t": 1, "v": 1}]',
            "application/json",
            400,
            "no rows were accepted: 1 row",
        ),
        (
            "/measurements",
            b'{"id": "x", "t": "2024-01-01", "v": 1}',
            "application/json",
            400,
            "expected a number",
        ),
        ("/measurements", b'{"id": "%s", "t": 1, "v": 1}' % (b"k" * 300), "application/json", 400, "got 300"),
        ("/measurements", b"x" * 30_000, "text/csv", 413, "at most 20,000 bytes"),
        ("/measurements", None, None, 405, "Method Not Allowed"),
        ("/state?key=nobody", None, None, 404, "there is no key 'nobody'"),
        ("/history?key=nobody", None, None, 404, "there is no key 'nobody'"),
        ("/state", None, None, 400, "the key is missing"),
        ("/forecast?key=base&steps=2000000", None, None, 400, "at most 1,000"),
        ("/forecast?key=base&steps=soon", None, None, 400, "steps must be an integer; got 'soon'"),
        ("/forecast?key=base&level=2", None, None, 400, "level must"),
        ("/nowhere", None, None, 404, "Not Found"),
    ],
)
def test_what_is_refused_is_explained(server, path, data, kind, code, words):
    server.post([("base", 1.0, 1.0)])
    before = server.ask("/metrics")[1]
    answered, text = server.ask(path, data, kind)
    assert (answered, words in json.loads(text)["error"]) == (code, True), text
    rows = "wolf_rows_total"
    counted = [
        next(line for line in told.splitlines() if line.startswith(rows))
        for told in (before, server.ask("/metrics")[1])
    ]
    assert counted[0] == counted[1]


def test_another_name_of_this_machine_is_refused(server):
    assert server.ask("/", Host="evil.example")[0] == 403
    assert server.ask("/health", Host="localhost")[0] == 200


def test_metrics_have_the_form_that_prometheus_reads(server):
    server.post([("counted", 1.0, 1.0)])
    code, text = server.ask("/metrics")
    assert code == 200
    numbers = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            numbers[name] = float(value)
    assert numbers["wolf_rows_total"] >= numbers["wolf_used_total"] > 0
    assert numbers['wolf_request_seconds_bucket{le="+Inf"}'] == numbers["wolf_request_seconds_count"]
    kinds = dict(line.split()[2:] for line in text.splitlines() if line.startswith("# TYPE"))
    assert {
        name.partition("{")[0].removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in numbers
    } == set(kinds)


def test_the_same_request_twice_is_counted_once(server):
    rows = [("twin", 1.0, 1.0), ("twin", 2.0, 5.0)]
    first = server.post(rows, Idempotency_Key="once")
    again = server.post(rows, Idempotency_Key="once")
    assert again == {
        name: first[name] for name in ("rows", "used", "outliers", "late", "repeated", "ahead", "waiting")
    } | {"duplicate": True}
    assert server.get("/state?key=twin")["measurements"] == 2
    code, text = server.ask("/measurements", body(rows[:1]), Idempotency_Key="once")
    assert (code, "use a new id" in text) == (409, True)


def test_a_token_opens_and_nothing_else_does(tmp_path):
    served = Server(make_app(open_service(tmp_path), token=TOKEN))
    try:
        assert served.ask("/measurements", body([("a", 1.0, 1.0)]))[0] == 401
        assert served.ask("/keys")[0] == served.ask("/events")[0] == served.ask("/metrics")[0] == 401
        assert served.ask("/")[0] == served.ask("/health")[0] == 200
        served.post([("a", 1.0, 1.0)], Authorization=f"Bearer {TOKEN}")
        assert served.ask("/keys", Authorization=f"Bearer {TOKEN[:-1]}")[0] == 401
        request = urllib.request.Request(f"{served.address}/session", json.dumps({"token": TOKEN}).encode())
        with urllib.request.urlopen(request) as answer:
            cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert TOKEN not in cookie
        cookie = cookie.partition(";")[0]
        assert served.ask("/keys", Cookie=cookie)[0] == 200
        assert served.ask("/measurements", body([("a", 2.0, 1.0)]), Cookie=cookie)[0] == 401
        name = cookie.partition("=")[0]
        assert [served.ask("/keys", Cookie=f"{name}={text}")[0] for text in ("", "wrong", TOKEN[:-1])] == [401] * 3
        assert served.ask("/session", b'{"token": "wrong"}')[0] == 401
    finally:
        served.close()


@pytest.mark.skipif(shutil.which("curl") is None, reason="the commands of the page use curl, which is not here")
def test_the_commands_of_the_page_run_and_a_kill_loses_nothing(tmp_path):
    text = (DOCS / "service.md").read_text()
    blocks = "".join(re.findall(r"```console\n(.*?)```", text, re.S)).replace("\\\n", " ")
    serve, *commands = [line[2:] for line in blocks.splitlines()]
    kept = os.environ | {"WOLF_CACHE": str(tmp_path / "cache")}

    def start():
        words = [sys.executable, "-m", *shlex.split(serve), "--port", "0"]
        process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=kept)
        return process, process.stderr.readline().split()[2].removeprefix("http://")

    def run(command):
        shell = command.replace("localhost:8765", address)
        done = subprocess.run(["sh", "-ec", shell], capture_output=True, text=True, cwd=tmp_path, check=True)
        assert '"error"' not in done.stdout, command
        return done.stdout

    process, address = start()
    told = dict(zip(commands, map(run, commands), strict=True))
    assert len(told) == 9
    asked = next(command for command in commands if "/state" in command)
    assert json.loads(told[asked])["measurements"] == 2
    process.kill()
    process.communicate()
    process, address = start()
    assert run(asked) == told[asked]
    assert json.loads(run(commands[2]))["duplicate"]
    process.terminate()
    process.communicate()
    assert not (tmp_path / "state" / "journal-1.log").exists()  # asked to end, it commits
