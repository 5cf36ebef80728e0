"""The service: what was acknowledged is kept, once, with the bits of a bank; and everybody is told in words."""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import wolf
import wolf_fleet
from wolf.cli import main
from wolf.diagnostics.faults.stuck_values import stuck_rows
from wolf_fleet.streaming import parts

pytest.importorskip("llvmlite")
uvicorn = pytest.importorskip("uvicorn", reason="the service needs the extra serve")
from wolf_fleet.service import Service, responses  # noqa: E402
from wolf_fleet.service.app import make_app  # noqa: E402
from wolf_fleet.service.key_health import RECENT, KeyWatch  # noqa: E402
from wolf_fleet.service.recent_rows import History, Shown  # noqa: E402
from wolf_fleet.service.write_ahead_log import Record  # noqa: E402

pytestmark = pytest.mark.thorough  # a part of its own, and a server to start

LEVEL = wolf.models.local_level(0.1, 1.0)
NAMES = {"key": "id", "values": "v", "time": "t"}
KILLER = Path(__file__).parent / "serving_kills.py"
TOKEN = "0123456789abcdef0123"


def open_service(folder, **options):
    return Service(wolf.Bank(LEVEL), folder, **NAMES | options)


def body(rows):
    return json.dumps([{"id": key, "t": t, "v": v} for key, t, v in rows]).encode()


def crash(service):
    """Leave a service as a kill would: nothing is committed, the folder is free."""
    service._journal.close()
    service._commits.close()


def some_rows(size=40, keys=3, seed=0):
    rng = np.random.default_rng(seed)
    return [(f"s{rng.integers(keys)}", float(t), round(float(rng.standard_cauchy()), 3)) for t in range(size)]


def states(service):
    return {key: service.flow.bank.dump(key) for key in service.flow.bank}


class Server:
    """A real server in a thread."""

    def __init__(self, app):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]})
        self.thread.start()

    def ask(self, path, data=None, kind="application/json", **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        headers |= {} if data is None or kind is None else {"Content-Type": kind}
        try:
            request = urllib.request.Request(self.address + path, data, headers)
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def get(self, path, **headers):
        code, text = self.ask(path, **headers)
        assert code == 200, text
        return json.loads(text)

    def post(self, rows, path="/measurements", **headers):
        code, text = self.ask(path, body(rows), **headers)
        assert code == 200, text
        return json.loads(text)

    def close(self):
        self.server.should_exit = True
        self.thread.join()
        self.socket.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    served = Server(make_app(open_service(tmp_path_factory.mktemp("state")), body=20_000))
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


def test_a_flag_has_a_reason_and_its_key_comes_first(server):
    server.post([("noisy", float(t), 5.0 + 0.1 * (t % 3)) for t in range(30)])
    told = server.post([("noisy", 30.0, 80.0), ("noisy", 31.0, -70.0)])
    high, low = told["flagged"]
    assert high["reason"].startswith("74.")
    assert " above the estimate 5.1" in high["reason"]
    assert " below the estimate 5.1" in low["reason"]
    worst = next(each for each in server.get("/keys") if each["key"] == "noisy")
    assert worst["trouble"]
    assert "2 of the last 20 rows do not fit" in worst["reasons"]
    rows = server.get("/history?key=noisy&rows=3")
    assert rows["values"] == [[5.2, 80.0, -70.0]]
    assert set(rows["reasons"]) == {"1", "2"}


@pytest.mark.parametrize(
    ("path", "data", "kind", "code", "words"),
    [
        ("/measurements", b"a=b", "application/x-www-form-urlencoded", 415, "Content-Type must be one of"),
        ("/measurements", b"{", "application/json", 400, "the body is no JSON"),
        ("/measurements", b"3", "application/json", 400, "expected an object of JSON or a list"),
        ("/measurements", b"\xff", "text/csv", 400, "no UTF-8 text"),
        ("/measurements", b"a,b\n1,2", "text/csv", 400, "has no column 'id'; its first line has 'a', 'b'"),
        ("/measurements", b'[{"id": "x", "t": 1, "v": "warm"}]', "application/json", 400, "could not convert"),
        ("/measurements", b'[{"t": 1, "v": 1}]', "application/json", 400, "nothing was taken: 1 row cannot be read"),
        ("/measurements", b'{"id": "x", "t": "2024-01-01", "v": 1}', "application/json", 400, "times are numbers here"),
        ("/measurements", b'{"id": "%s", "t": 1, "v": 1}' % (b"k" * 300), "application/json", 400, "a key has 300"),
        ("/measurements", b"x" * 30_000, "text/csv", 413, "at most 20,000 bytes"),
        ("/measurements", None, None, 405, "Method Not Allowed"),
        ("/state?key=nobody", None, None, 404, "'nobody' is not in the bank"),
        ("/history?key=nobody", None, None, 404, "was not heard of"),
        ("/state", None, None, 400, "say which key is meant"),
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
    assert again == {name: first[name] for name in ("rows", "used", "outliers", "late", "repeated", "waiting")} | {
        "again": True
    }
    assert server.get("/state?key=twin")["measurements"] == 2
    code, text = server.ask("/measurements", body(rows[:1]), Idempotency_Key="once")
    assert (code, "needs a new id" in text) == (409, True)


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
        assert served.ask("/session", b'{"token": "wrong"}')[0] == 401
    finally:
        served.close()


def test_the_command_keeps_strangers_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["serve", "--state", "s", "--key", "id", "--value", "v", "--set", "level_var=1", "--set", "obs_var=1"]
    refused = CliRunner().invoke(main, [*words, "--host", "0.0.0.0"])
    assert refused.exit_code == 2
    assert "they need a token" in refused.output
    Path("token").write_text("short")
    assert "at least 16 letters" in CliRunner().invoke(main, [*words, "--token-file", "token"]).output
    assert not Path("s").exists()


def test_a_crash_after_any_request_loses_nothing(tmp_path):
    rows = some_rows(24)
    service, want = open_service(tmp_path / "live", batch=7), wolf.Bank(LEVEL)
    for i in range(0, 24, 2):
        service.post("json", body(rows[i : i + 2]), f"request {i}")
        for key, t, v in rows[i : i + 2]:
            want.step([key], [v], [t])
        if i % 6 == 0:
            copy = tmp_path / f"after-{i}"
            shutil.copytree(tmp_path / "live", copy)  # what a kill would leave
            # The folder of the parts is part of the settings, and so the copy takes the place of the first.
            (tmp_path / "live").rename(tmp_path / "aside")
            copy.rename(tmp_path / "live")
            again = open_service(tmp_path / "live", batch=7)
            assert states(again) == {key: want.dump(key) for key in want}
            assert again.post("json", body(rows[i : i + 2]), f"request {i}")["again"]
            assert again.flow.count.rows == i + 2
            crash(again)
            (tmp_path / "live").rename(copy)
            (tmp_path / "aside").rename(tmp_path / "live")
    crash(service)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A journal of several requests, its text, and the states after each."""
    folder = tmp_path_factory.mktemp("journal")
    service, rows = open_service(folder), some_rows(10)
    after, ends = [states(service)], [0]
    for i in range(0, 10, 2):
        service.post("json", body(rows[i : i + 2]))
        after.append(states(service))
        ends.append(service.journal_size)
    crash(service)
    journal = next(folder.glob("journal-*.log"))
    return folder, journal, journal.read_bytes(), after, ends


@given(where=st.floats(0, 1), change=st.integers(0, 255), cut=st.booleans())
def test_a_torn_journal_gives_the_requests_before_the_tear(written, where, change, cut):
    folder, journal, text, after, ends = written
    place = int(where * (len(text) - 1))
    journal.write_bytes(text[:place] if cut else text[:place] + bytes([text[place] ^ change]) + text[place + 1 :])
    whole = len(text) if change == 0 and not cut else place
    service = open_service(folder)
    try:
        assert states(service) == after[sum(end <= whole for end in ends[1:])]
        assert service.journal_size == max(end for end in ends if end <= whole)
    finally:
        crash(service)


@pytest.mark.slow
def test_twenty_five_kills_lose_nothing_that_was_acknowledged(tmp_path):
    check_kills(tmp_path, kills=25)


@pytest.mark.skipif(shutil.which("curl") is None, reason="the commands of the page use curl, which is not here")
def test_the_commands_of_the_page_run_and_a_kill_loses_nothing(tmp_path):
    text = (Path(__file__).parent.parent / "docs" / "service.md").read_text()
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
    assert json.loads(run(commands[2]))["again"]
    process.terminate()
    process.communicate()
    assert not (tmp_path / "state" / "journal-1.log").exists()  # asked to end, it commits


def check_kills(folder, kills):
    command = [sys.executable, "-W", "ignore", KILLER, folder, str(kills), "1"]
    kept = {"WOLF_CACHE": str(folder / "cache")}  # or each start would compile anew
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=os.environ | kept)
    assert done.returncode == 0, done.stderr[-2000:]
    hits, requests = map(int, done.stdout.split())
    assert hits == kills
    service, want = open_service(folder / "state"), wolf.Bank(LEVEL)
    taken = service.flow.count.rows
    assert taken - requests in (0, 1)  # the last may be on disk, and the kill came before its answer
    for i in range(taken):
        key, t, v = f"s{i % 5}", float(i), float(i * i % 17)
        want.step([key], [v], [t])
    assert states(service) == {key: want.dump(key) for key in want}
    crash(service)


def test_a_full_disk_is_told_and_nothing_acknowledged_is_lost(tmp_path, monkeypatch):
    service = open_service(tmp_path)
    service.post("json", body([("a", 1.0, 1.0)]))
    good = states(service)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(service._commits), "commit", full)
    service.batch = 1
    service.post("json", body([("a", 2.0, 1.0)]))  # the journal has it
    assert "the last commit failed" in service.warning
    monkeypatch.setattr("wolf_fleet.service.write_ahead_log.os.fsync", full)
    with pytest.raises(OSError, match="the journal cannot be written"):
        service.post("json", body([("a", 3.0, 1.0)]))
    with pytest.raises(OSError, match="mend it and start again"):
        service.post("json", body([("a", 4.0, 1.0)]))
    monkeypatch.undo()
    crash(service)
    again = open_service(tmp_path)
    assert states(again)["a"] != good["a"]
    assert again.flow.count.rows in (2, 3)  # the third was written, and never acknowledged
    assert again.flow.bank["a"].t == again.flow.count.rows
    again.close()


def test_history_and_watch_are_there_after_a_restart_and_old_parts_are_not(tmp_path):
    service = open_service(tmp_path, batch=10, keep=25)
    for i in range(0, 60, 5):
        service.post("json", body([("a", float(t), 1.0 + t % 2 + 90 * (t % 7 == 6)) for t in range(i, i + 5)]))
    told, doing = responses.history(service, "a", 100), responses.keys(service)
    assert told["times"] == list(range(35, 60))
    service.close()
    assert len(parts(tmp_path)) == len(list(tmp_path.glob("out/part-*"))) < 6
    again = open_service(tmp_path, batch=10, keep=25)
    back = responses.history(again, "a", 100)
    np.testing.assert_allclose(back.pop("halves"), told.pop("halves"), rtol=1e-12)  # from the ends of the intervals
    assert back | {"last": 0} == told | {"last": 0}
    assert responses.keys(again) == doing
    assert [flag.row.times.tolist() for flag in again.latest][-2:] == [[48.0], [55.0]]
    again.close()


def test_all_rows_are_kept_where_a_folder_is_given(tmp_path):
    with open_service(tmp_path / "state", out=tmp_path / "out", keep=5, batch=4) as service:
        for i in range(0, 20, 2):
            service.post("json", body([("a", float(i), 1.0), ("a", i + 1.0, 2.0)]))
    tables = [parquet.read_table(part) for part in parts(tmp_path / "state")]
    assert sum(table.num_rows for table in tables) == 20
    assert tables[0].column_names == ["id", "t", "v", "mean", "lower", "upper", "weight", "outlier", "arrived"]


def test_rows_without_times_and_late_rows(tmp_path):
    with open_service(tmp_path / "a", time=None) as service:
        service.post("csv", b"id,v\na,1\nb,3\na,2")
        want = wolf.Bank(LEVEL)
        want.step(["a", "b", "a"], [1.0, 3.0, 2.0])
        assert states(service) == {key: want.dump(key) for key in want}
        assert responses.state(service, "a")["time"] is None
        assert responses.state(service, "a")["last"]["arrived"].endswith("Z")
    with open_service(tmp_path / "b", lateness=5.0) as service:
        assert service.post("json", body([("a", 10.0, 1.0), ("a", 8.0, 2.0)]))["waiting"] == 2
    with open_service(tmp_path / "b", lateness=5.0) as service:
        told = service.post("json", body([("a", 20.0, 1.0), ("a", 9.0, 1.0)]))
        assert (told["used"], told["late"], told["waiting"]) == (2, 1, 1)


def test_keys_that_are_forgotten_leave_the_page_too(tmp_path):
    with open_service(tmp_path, forget=50.0) as service:
        service.post("json", body([("old", float(t), 90.0 * (t % 7 == 6)) for t in range(20)]))
        service.post("json", body([("new", 100.0, 1.0)]))
        assert responses.keys(service)[0]["key"] == "old"
        service.commit()
        assert responses.keys(service) == []
        assert (list(service.flow.bank), service.watch.keys) == (["new"], ["new"])
        service.post("json", body([("old", 101.0, 1.0), ("third", 101.0, 1.0)]))
        assert responses.state(service, "old")["measurements"] == 1


def test_limits_and_settings_are_held(tmp_path):
    with open_service(tmp_path, most_keys=2) as service:
        service.post("json", body([("a", 1.0, 1.0), ("b", 1.0, 1.0)]))
        with pytest.raises(ValueError, match=r"it has 1 new key, and there is room for 0 of 2"):
            service.post("json", body([("a", 2.0, 1.0), ("b", 2.0, 1.0), ("c", 1.0, 1.0)]))
        assert (len(service.flow.bank), service.flow.bank["a"].t) == (2, 1)
        with pytest.raises(ValueError, match="another process"):
            open_service(tmp_path)
    with pytest.raises(ValueError, match=r"with lateness 0\.0, not 1\.0"):
        open_service(tmp_path, lateness=1.0)
    (tmp_path / "rows.csv").write_text("id,t,v\na,1,1\n")
    with pytest.raises(ValueError, match="has format wolf-service 1; expected wolf-stream 1"):
        wolf_fleet.stream(tmp_path / "rows.csv", wolf.Bank(LEVEL), tmp_path / "out", state=tmp_path, **NAMES)
    curved = wolf.StateSpaceModel(
        dynamics=lambda x: x,
        observe=lambda x: x,
        dynamics_cov=[[1.0]],
        obs_cov=[[1.0]],
        prior=wolf.Gaussian([0.0], [[1.0]]),
    )
    with pytest.raises(ValueError, match="a service is for linear models"):
        Service(wolf.Bank(curved), tmp_path / "other", key="id", values="v")


@pytest.mark.slow
def test_the_example_finds_the_sensors_that_break():
    from examples import fleet_live

    rows, false = fleet_live.main(sensors=300, every=1.0, minutes=0.8, share=0.1, port=0)
    spikes, stuck = rows["spikes"], rows["stuck"]
    assert spikes[1] > 2
    assert spikes[0] + stuck[0] >= 0.5 * (spikes[1] + stuck[1])
    assert false <= 5


ARRIVALS = st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), max_size=30), max_size=4)


def lay(batch):
    values = np.array([float(v) for _, v, _ in batch])
    flags = np.array([flag for *_, flag in batch], bool)[:, None]
    return Shown(values, values[:, None], values[:, None], values[:, None], values, flags)


@given(batches=ARRIVALS, keep=st.integers(1, 20))
def test_history_has_the_last_rows_of_each_key(batches, keep):
    history, whole = History(keep, 1), []
    for batch in batches:
        history.add([f"k{key}" for key, *_ in batch], lay(batch))
        whole += batch
    for key in range(3):
        rows, _ = history.of(f"k{key}", 1000)
        assert rows.times.tolist() == [float(v) for k, v, _ in whole[-keep:] if k == key]


@given(batches=ARRIVALS)
def test_the_watch_counts_as_one_would_by_hand(batches):
    watch, whole = KeyWatch(1), []
    for at, batch in enumerate(batches):
        if batch:
            watch.add([f"k{key}" for key, *_ in batch], lay(batch), float(at))
        whole += batch
    for key in {key for key, *_ in whole}:
        place, mine = watch.place(f"k{key}"), [(v, flag) for k, v, flag in whole if k == key]
        assert watch.flagged()[place] == sum(flag for _, flag in mine[-RECENT:])
        runs, run = [], 0
        for (before, _), (now, _) in pairwise(mine):
            runs, run = ([*runs, run], 0) if now != before else (runs, run + 1)
        assert (watch.run[place], watch.longest[place]) == (run, max(runs, default=0))
        assert (watch.repeats[place], watch.runs[place]) == (sum(runs) + run, sum(r > 0 for r in [*runs, run]))
    again = KeyWatch(1)
    again.unpack(watch.pack())
    assert again.keys == watch.keys
    for one, other in zip(watch.judge(9.0, 0.0)[1].values(), again.judge(9.0, 0.0)[1].values(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("digits", [0, 3])
def test_stuck_is_called_as_in_whole_series(digits):
    rng = np.random.default_rng(0)
    values = np.round(rng.normal(size=300), digits)
    values[200:230] = values[200]
    watch, called = KeyWatch(1), []
    for at, v in enumerate(values):
        watch.add(["a"], lay([(0, v, False)]), float(at))
        called.append(bool(watch.stuck()[0]))
    assert not any(called[:200])
    assert called[229] == stuck_rows(values[:230])[-1] == True  # noqa: E712
    assert not any(called[240:])


def test_who_is_silent_is_told_and_who_was_never_regular_is_not():
    watch = KeyWatch(1)
    for at in range(0, 600, 60):
        watch.add(["steady"], lay([(0, at, False)]), float(at))
    watch.add(["once"], lay([(0, 1, False)]), 540.0)
    assert watch.silent(700.0, 0.0).tolist() == [False, False]
    assert watch.silent(900.0, 0.0).tolist() == [True, False]
    assert watch.silent(900.0, 800.0).tolist() == [False, False]  # the service was not there to hear


def test_requests_together_are_taken_in_order_each_by_itself(tmp_path):
    with open_service(tmp_path) as service:
        sent = [Record("", "json", 1.0, data) for data in (body([("a", 1.0, 1.0)]), b"{", body([("a", 2.0, 1.0)]))]
        first, refused, last = service.post_many(sent)
        assert (first["used"], last["used"]) == (1, 1)
        assert "no JSON" in str(refused)
