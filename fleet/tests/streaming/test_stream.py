"""Streams: exactly once and in order, for any batches, kills and rows."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import csv, parquet

import wolf
import wolf_fleet
from wolf_fleet.streaming import parts

pytestmark = pytest.mark.thorough  # a part that the quick tests touch elsewhere

pytest.importorskip("llvmlite")
LEVEL = wolf.models.local_level(0.1, 1.0)
NAMES = {"key": "id", "values": "v", "time": "t"}
SETTINGS = NAMES | {"allowed_lateness": 3.0}
KILLER = Path(__file__).parent / "streaming_kills.py"


def write_rows(path, rows=600, keys=7, seed=0, spread=4.0):
    """Write rows out of order by up to `spread` seconds, some of them twice; give them back in the order written."""
    rng = np.random.default_rng(seed)
    times = np.round(np.cumsum(rng.exponential(0.2, rows)), 3)
    made = [(f"s{rng.integers(keys)}", t, round(float(rng.standard_cauchy()), 3)) for t in times.tolist()]
    made += [made[i] for i in rng.integers(rows, size=rows // 50)]
    order = np.argsort([t + spread * rng.random() for _, t, _ in made])
    shuffled = [made[i] for i in order]
    path.write_text("id,t,v\n" + "".join(f"{key},{t},{v}\n" for key, t, v in shuffled))
    return shuffled


def output(state):
    return pyarrow.concat_tables(parquet.read_table(part) for part in parts(state))


def run(folder, name="a", source="rows.csv", **options):
    settings = SETTINGS | options
    return wolf_fleet.stream(folder / source, wolf.Bank(LEVEL), folder / f"out-{name}", state=folder / name, **settings)


def test_output_is_that_of_a_bank_fed_in_order(tmp_path):
    rows = write_rows(tmp_path / "rows.csv", spread=2.9)
    done, out = run(tmp_path, batch_rows=97), output(tmp_path / "a")
    assert (done.rows, done.late, done.repeated, done.waiting) == (len(rows), 0, len(rows) - 600, 0)
    assert out.num_rows == done.used == 600
    for key in {row[0] for row in rows}:
        mine = sorted({row for row in rows if row[0] == key}, key=lambda row: row[1])
        bank = wolf.Bank(LEVEL)
        stepped = bank.step([key] * len(mine), [row[2] for row in mine], [row[1] for row in mine])
        table = out.filter(pyarrow.compute.equal(out["id"], key))
        np.testing.assert_array_equal(table["mean"], stepped.signal[:, 0])
        np.testing.assert_array_equal(table["outlier"], stepped.outlier)


@pytest.mark.parametrize("batch", [7, 60])
def test_batches_change_nothing(tmp_path, batch):
    write_rows(tmp_path / "rows.csv", rows=150)
    whole, cut = run(tmp_path, allowed_lateness=1.0), run(tmp_path, "b", batch_rows=batch, allowed_lateness=1.0)
    assert whole.late > 0
    assert output(tmp_path / "b").equals(output(tmp_path / "a"))
    assert (cut.late, cut.repeated, cut.outliers) == (whole.late, whole.repeated, whole.outliers)


def test_a_clock_that_is_ahead_costs_the_others_nothing(tmp_path):
    lines = [f"a,{t},1.0\n" + ("b,99999,1.0\n" if t == 3 else "") for t in range(10)]
    (tmp_path / "rows.csv").write_text("id,t,v\n" + "".join(lines))
    done = run(tmp_path)
    assert (done.used, done.late) == (11, 0)


@pytest.mark.thorough
def test_six_kills_change_nothing(tmp_path):
    check_kills(tmp_path, rows=1500, kills=6)


@pytest.mark.slow
def test_fifty_kills_change_nothing(tmp_path):
    check_kills(tmp_path, rows=30_000, kills=50)


def check_kills(folder, rows, kills):
    write_rows(folder / "rows.csv", rows=rows)
    run(folder, "undisturbed")
    command = [sys.executable, "-W", "ignore", KILLER, folder, str(kills), "1"]
    kept = {"WOLF_CACHE": str(folder / "cache")}  # or each start would compile again
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=os.environ | kept)
    assert done.returncode == 0, done.stderr[-2000:]
    hits, _ = map(int, done.stdout.split())
    assert hits > kills // 2  # or nothing was attacked
    assert output(folder / "state").equals(output(folder / "undisturbed"))
    one, other = (json.loads((folder / name / "manifest.json").read_text()) for name in ("state", "undisturbed"))
    assert {one[name] == other[name] for name in ("rows", "used", "late", "repeated", "position", "latest")} == {True}
    banks = [wolf.Bank(LEVEL), wolf.Bank(LEVEL)]
    for bank, name, manifest in zip(banks, ("state", "undisturbed"), (one, other), strict=True):
        bank.read(folder / name / f"states-{manifest['epoch']}.npz")
    assert {key: banks[0].dump(key) for key in banks[0]} == {key: banks[1].dump(key) for key in banks[1]}


@pytest.mark.parametrize("moment", ["part", "states", "waiting", "manifest", "renamed"])
def test_a_crash_inside_a_commit_is_as_if_it_had_not_begun_or_was_done(tmp_path, monkeypatch, moment):
    write_rows(tmp_path / "rows.csv", rows=150)
    run(tmp_path)
    replaced, happened = os.replace, []

    def fail(source, target):
        name = Path(target).name.lstrip(".")
        hit = moment == "renamed" and Path(source).name.startswith(".part") and name == Path(target).name
        happened.append(name)
        if len(happened) > 8 and (hit or name.startswith(moment)):
            raise KeyboardInterrupt
        replaced(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "b", batch_rows=40)
    monkeypatch.undo()
    run(tmp_path, "b", batch_rows=40)
    assert output(tmp_path / "b").equals(output(tmp_path / "a"))
    assert not [*tmp_path.glob("out-b/.*"), *tmp_path.glob("b/.*")]


def test_a_file_that_grew_is_taken_up_where_it_ended(tmp_path):
    write_rows(tmp_path / "rows.csv", rows=150, spread=0.0)
    run(tmp_path)
    text = (tmp_path / "rows.csv").read_text().splitlines(keepends=True)
    for end in (40, 41, len(text)):
        (tmp_path / "growing.csv").write_text("".join(text[:end]))
        run(tmp_path, "b", "growing.csv")
    assert output(tmp_path / "b").equals(output(tmp_path / "a"))


def test_a_file_is_followed_while_it_grows(tmp_path):
    write_rows(tmp_path / "rows.csv", rows=150)
    whole = run(tmp_path)
    text, seen = (tmp_path / "rows.csv").read_text(), []
    growing = tmp_path / "growing.csv"
    growing.write_text("")

    class Enough(Exception):  # noqa: N818
        pass

    def on_progress(summary):
        seen.append(summary)
        if summary.rows == whole.rows:
            raise Enough

    def grow():
        with growing.open("a") as file:
            for i in range(0, len(text), 701):  # cuts lines anywhere
                file.write(text[i : i + 701])
                file.flush()
                time.sleep(0.01)

    thread = threading.Thread(target=grow)
    thread.start()
    with pytest.raises(Enough):
        run(tmp_path, "b", "growing.csv", follow=True, commit_interval=0.05, on_progress=on_progress)
    thread.join()
    assert seen[-1].waiting > 0
    out = output(tmp_path / "b")
    assert out.equals(output(tmp_path / "a").slice(0, out.num_rows))


def test_json_lines_and_csv_are_one(tmp_path):
    rows = write_rows(tmp_path / "rows.csv", rows=60)
    lines = [json.dumps({"id": key, "t": t, "v": v, "more": [1]}) for key, t, v in rows]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    run(tmp_path)
    run(tmp_path, "b", "rows.jsonl")
    assert output(tmp_path / "b").equals(output(tmp_path / "a"))


def test_dates_are_seconds_and_come_back_as_dates(tmp_path):
    stamps = ["2024-01-01T00:00:00Z", "2024-01-01 00:00:05", "2024-01-01T01:00:10+01:00"]
    (tmp_path / "rows.csv").write_text("id;t;v\n" + "".join(f"a;{stamp};{i}\n" for i, stamp in enumerate(stamps)))
    run(tmp_path, format="csv")
    table = csv.read_csv(parts(tmp_path / "a")[0])
    expected = wolf.Bank(LEVEL).step(["a"] * 3, [0.0, 1.0, 2.0], [0.0, 5.0, 10.0]).signal[:, 0]
    np.testing.assert_allclose(table["mean"], expected, rtol=1e-14)
    assert str(table["t"][2]) == "2024-01-01 00:00:10+00:00"


def test_a_step_is_as_long_as_given(tmp_path):
    (tmp_path / "rows.csv").write_text("id,t,v\na,0,1\na,60,2\na,180,1\n")
    run(tmp_path, step=60.0)
    expected = wolf.Bank(LEVEL).step(["a"] * 3, [1.0, 2.0, 1.0], [0.0, 1.0, 3.0]).signal[:, 0]
    np.testing.assert_array_equal(output(tmp_path / "a")["mean"], expected)


def test_lines_that_are_no_rows_are_counted_and_reported(tmp_path):
    lines = ["a,1,1.5", "a,2", ",3,1", "a,x,1", "a,4,warm", "", "a,inf,1", "a,5,", 'a,"6",2', "a,2024-01-01,1"]
    (tmp_path / "rows.csv").write_bytes("\r\n".join(["id,t,v", *lines]).encode() + b"\r\n\xff,7,1\r\n")
    done = run(tmp_path)
    assert (done.rows, done.used, done.unreadable) == (3, 3, 7)
    assert done.example == "'a,2' (ValueError: expected 3 cells, got 2)"
    assert "7 lines could not be read: 'a,2'" in str(done)


def test_without_times_rows_are_taken_as_they_come(tmp_path):
    (tmp_path / "rows.csv").write_text("id,v\na,1\nb,7\na,2\n")
    run(tmp_path, time=None, allowed_lateness=0.0)
    expected = wolf.Bank(LEVEL).step(["a", "b", "a"], [1.0, 7.0, 2.0]).signal[:, 0]
    np.testing.assert_array_equal(output(tmp_path / "a")["mean"], expected)


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_a_key_that_was_silent_for_too_long_is_reinitialised_whatever_the_batches(tmp_path, batch):
    rows = [("a", 0, 1.0), ("b", 1, 5.0), ("a", 2, 1.5), ("b", 30, 7.0), ("a", 31, 9.0), ("a", 32, 9.5), ("c", 60, 1.0)]
    rows += [("a", 61, 2.0), ("a", 90, 2.0)]
    (tmp_path / "rows.csv").write_text("id,t,v\n" + "".join(f"{key},{t},{v}\n" for key, t, v in rows))
    done, out = run(tmp_path, allowed_lateness=0.0, idle_timeout=20.0, batch_rows=batch), output(tmp_path / "a")
    lives = {
        ("a", 0): 0,
        ("a", 2): 0,
        ("a", 31): 1,
        ("a", 32): 1,
        ("a", 61): 2,
        ("a", 90): 3,
        ("b", 1): 4,
        ("b", 30): 5,
    }
    want = wolf.Bank(LEVEL)
    expected = [want.step([lives.get((key, t), 6)], [v], [float(t)]).signal[0, 0] for key, t, v in rows]
    np.testing.assert_array_equal(out["mean"], expected)
    assert done.keys == 1  # the others are forgotten
    with pytest.raises(ValueError, match="idle_timeout needs times"):
        run(tmp_path, "c", time=None, allowed_lateness=0.0, idle_timeout=1.0)


def test_standard_input_that_is_sent_again_is_recognised(tmp_path, monkeypatch):
    write_rows(tmp_path / "rows.csv", rows=60)
    run(tmp_path)
    for _ in range(2):
        with (tmp_path / "rows.csv").open("rb") as file:
            monkeypatch.setattr(sys, "stdin", file)
            done = wolf_fleet.stream(
                "-", wolf.Bank(LEVEL), tmp_path / "o", state=tmp_path / "b", allowed_lateness=3.0, **NAMES
            )
    assert output(tmp_path / "b").equals(output(tmp_path / "a"))
    assert done.late + done.repeated > 60


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"values": ["v", "w"]}, "values must name 1 column, as many as the model measures; got 2"),
        ({"key": "v"}, "must be different columns"),
        ({"key": "sensor"}, "has no column 'sensor'; its first line has 'id', 't', 'v'"),
        ({"allowed_lateness": -1.0}, "allowed_lateness must be finite and at least 0"),
        ({"time": None}, "name their column with time="),
        ({"format": "xml"}, "format must be"),
        ({"batch_rows": 0}, "batch_rows must be"),
    ],
)
def test_what_cannot_be_streamed_is_explained(tmp_path, options, words):
    write_rows(tmp_path / "rows.csv", rows=5)
    with pytest.raises(ValueError, match=words):
        run(tmp_path, **options)


def test_a_model_without_steps_of_other_lengths_is_refused_before_anything_is_made(tmp_path):
    write_rows(tmp_path / "rows.csv", rows=5)
    still = wolf.LinearModel(np.eye(1), np.eye(1), np.eye(1), np.eye(1), [0.0], np.eye(1))
    with pytest.raises(ValueError, match="no motion over other time steps"):
        wolf_fleet.stream(tmp_path / "rows.csv", wolf.Bank(still), tmp_path / "out", state=tmp_path / "state", **NAMES)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


def test_a_state_goes_on_only_with_what_made_it(tmp_path):
    write_rows(tmp_path / "rows.csv", rows=50)
    run(tmp_path)
    with pytest.raises(ValueError, match=r"a stream with allowed_lateness 3\.0, not 1\.0"):
        run(tmp_path, allowed_lateness=1.0)
    with pytest.raises(ValueError, match="holds output of another stream"):
        wolf_fleet.stream(tmp_path / "rows.csv", wolf.Bank(LEVEL), tmp_path / "out-a", state=tmp_path / "new", **NAMES)
    other = wolf.Bank(wolf.models.local_level(0.2, 1.0))
    with pytest.raises(ValueError, match="another model"):
        wolf_fleet.stream(
            tmp_path / "rows.csv", other, tmp_path / "out-a", state=tmp_path / "a", allowed_lateness=3.0, **NAMES
        )
    text = (tmp_path / "rows.csv").read_text()
    (tmp_path / "rows.csv").write_text(text.replace("s", "z"))
    with pytest.raises(ValueError, match="it was replaced"):
        run(tmp_path)
    (tmp_path / "rows.csv").write_text(text[:100])
    with pytest.raises(ValueError, match="it was truncated or replaced"):
        run(tmp_path)
    (tmp_path / "a" / "manifest.json").write_text("{")
    with pytest.raises(ValueError, match="is damaged"):
        run(tmp_path)
    with pytest.raises(ValueError, match="not the state folder of a stream"):
        parts(tmp_path / "nowhere")


def test_two_processes_cannot_have_one_state(tmp_path):
    pytest.importorskip("fcntl")
    write_rows(tmp_path / "rows.csv", rows=5)
    with pytest.raises(ValueError, match="another process is running a stream"):
        run(tmp_path, on_progress=lambda _: run(tmp_path))


def test_the_example_goes_on_after_its_kill_and_is_closer_than_raw(capsys):
    from examples import fleet

    done, miss, raw = fleet.main(sensors=40, rows=50)
    assert (done.rows, done.unreadable) == (2020, 0)
    assert done.used == 2020 - done.repeated - done.late > 1980  # 20 rows came twice
    assert miss < 0.7 * raw
    assert "killed after two commits" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["csv", "json"])
def test_random_lines_stop_nothing_and_are_counted(tmp_path, form):
    rng, lines = np.random.default_rng(0), []
    alphabet = b'0123456789eE+-.,:;{}[]" nulNaIfty\\\xe9\xff\0'
    for t in range(5_000):
        line = f'{{"id": "s{t % 5}", "t": {t}, "v": {t % 7}.5}}' if form == "json" else f"s{t % 5},{t},{t % 7}.5"
        data = bytearray(line.encode())
        for place in rng.integers(0, len(data), rng.integers(1, 4)):
            data[place] = rng.choice(list(alphabet))
        lines.append(bytes(data))
    head = b'{"id": "s0", "t": -1, "v": 0}' if form == "json" else b"id,t,v"
    (tmp_path / "rows").write_bytes(b"\n".join([head, *lines]) + b"\n")
    options = {"key": "id", "values": "v", "time": "t", "max_ahead": 1e6}
    done = wolf_fleet.stream(tmp_path / "rows", wolf.Bank(LEVEL), tmp_path / "out", state=tmp_path / "state", **options)
    assert done.unreadable > 500
    assert done.rows > 200
    assert done.rows + done.unreadable == len(lines) + (form == "json")
    assert done.used + done.late + done.repeated + done.ahead == done.rows
