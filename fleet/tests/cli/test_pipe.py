"""The command `wolf pipe`: a row is written before the next one arrives."""

import csv
import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import wolf
from wolf_fleet.cli import pipe

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.thorough

USUAL = {
    **{"model": "local-level", "settings": ("level_var=0.1", "obs_var=1"), "value": "v", "time": None, "by": None},
    **{"step": None, "level": 0.95, "on_bad_cell": "error", "missing": ()},
}
NUMBERS = [1.5, 1.1, 1.3, 1.2, 1.6]
VALUES = [*map(str, NUMBERS), "90", "", "-999", "1.2"]


def bank():
    return wolf.Bank(wolf.models.local_level(0.1, 1.0, wolf.Gaussian([0.0], [[1e12]])))


def filtered(lines, head="v", **options):
    made = pipe.PipeFilter(head, USUAL | options, None)
    rows = [row for some in made.process(lines) for row in some]
    return list(csv.DictReader([head + made.head, *rows], delimiter=made.delimiter)), made


def test_each_row_is_written_before_the_next_one_is_sent(monkeypatch):
    (read, sent), (answers, wrote) = os.pipe(), os.pipe()
    with os.fdopen(read) as stdin, os.fdopen(wrote, "w") as stdout, os.fdopen(answers) as out:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stdout", stdout)
        done = []
        thread = threading.Thread(target=lambda: done.append(pipe.run(USUAL, None)))
        thread.start()
        os.write(sent, b"v\n")
        lines = [out.readline()]
        for value in VALUES[:6]:
            os.write(sent, f"{value}\n".encode())
            lines.append(out.readline())
        os.close(sent)
        thread.join()
    rows = list(csv.DictReader(lines))
    want = bank().step(["a"] * 6, [*NUMBERS, 90.0])
    assert [float(row["mean"]) for row in rows] == want.signal[:, 0].tolist()
    assert [row["outlier"] for row in rows] == ["false"] * 5 + ["true"]
    assert done[0][1]["outliers"] == 1


def test_rows_have_the_bits_of_a_bank_for_any_batches():
    lines = [f"x,{value}" for value in VALUES]
    rows, _ = filtered(lines, "w,v", missing=("-999",))
    want = bank().step(["a"] * 9, [*NUMBERS, 90.0, np.nan, np.nan, 1.2])
    assert [float(row["mean"]) for row in rows] == want.signal[:, 0].tolist()
    assert [row["fault"] for row in rows] == [*[""] * 5, "spike", "gap", "gap", ""]
    assert rows[5]["cleaned"] == rows[5]["mean"]
    assert filtered(["x,1", "x,2", "x,inf"], "w,v")[0][2]["fault"] == "spike"
    one, other = (pipe.PipeFilter("w,v", USUAL | {"missing": ("-999",)}, None) for _ in range(2))
    singles = [row for line in lines for some in one.process([line]) for row in some]
    assert singles == [row for some in other.process(lines) for row in some]


def test_series_and_times_are_used():
    lines = ["a;60;1;x", "b;60;7;x", "a;180;2;y", "a;120;2;y"]
    rows, made = filtered(lines, "id;t;v;note", by="id", time="t", step=60.0)
    want = bank().step(["a", "b", "a"], [1.0, 7.0, 2.0], [1.0, 1.0, 3.0])
    assert [row["mean"] for row in rows] == [*map(repr, want.signal[:, 0].tolist()), ""]
    assert (made.late, rows[3]["note"]) == (1, "y")


def test_an_unreadable_row_is_an_error_or_is_skipped():
    with pytest.raises(ValueError, match="the row 'warm' cannot be read"):
        filtered(["1", "warm"])
    rows, made = filtered(["1", "warm", "2"], on_bad_cell="missing")
    assert [bool(row["mean"]) for row in rows] == [True, False, True]
    assert made.unreadable == 1


@pytest.mark.parametrize(
    ("head", "options", "words"),
    [
        ("PAR1...", {}, "Parquet or Arrow"),
        ('{"v": 1}', {}, "JSON, which `wolf stream -` reads"),
        ("w,x", {}, "has no column 'v'"),
        ("v", {"step": 60.0}, "--step needs the times of the rows"),
        ("v", {"settings": ("obs_var=1",)}, "give --set level_var="),
        ("v", {"missing": ("NA",)}, "--missing must be a number"),
    ],
)
def test_invalid_input_and_options_are_explained(head, options, words):
    with pytest.raises(ValueError, match=words):
        filtered([], head, **options)


def test_the_command_filters_a_file_on_standard_input(tmp_path):
    words = ["pipe", "--value", "v", "--set", "level_var=0.1", "--set", "obs_var=1", "--json"]
    text = "v\n" + "1\n2\n" * 10
    done = subprocess.run([sys.executable, "-m", "wolf", *words], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 21
    assert json.loads(done.stderr)["rows"] == 20


def test_closed_standard_input_is_explained(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ValueError, match="standard input is closed"):
        pipe.run(USUAL, None)
