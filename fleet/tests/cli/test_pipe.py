"""`wolf filter - --live`: a row is written before the next one has come."""

import csv
import os
import sys
import threading

import numpy as np
import pytest
from click.testing import CliRunner

import wolf
from wolf.cli import main
from wolf_fleet.cli import pipe

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.thorough

USUAL = {
    **{"live": True, "model": "local-level", "settings": ("level_var=0.1", "obs_var=1"), "values": ("v",)},
    **{"time": (), "by": None, "step": None, "level": 0.95, "on_bad_cell": "error", "missing": ()},
    **dict.fromkeys(pipe.WHOLE),
}
NUMBERS = [1.5, 1.1, 1.3, 1.2, 1.6]
VALUES = [*map(str, NUMBERS), "90", "", "-999", "1.2"]


def bank():
    return wolf.Bank(wolf.models.local_level(0.1, 1.0, wolf.Gaussian([0.0], [[1e12]])))


def filtered(lines, head="v", **options):
    made = pipe.Lines(head, USUAL | options, None)
    rows = [row for some in made.take(lines) for row in some]
    return list(csv.DictReader([head + made.head, *rows], delimiter=made.mark)), made


def test_each_row_is_answered_before_the_next_is_sent(monkeypatch):
    (read, sent), (answers, wrote) = os.pipe(), os.pipe()
    with os.fdopen(read) as stdin, os.fdopen(wrote, "w") as stdout, os.fdopen(answers) as out:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stdout", stdout)
        assert pipe.suits("-", "-", None, USUAL)
        done = []
        thread = threading.Thread(target=lambda: done.append(pipe.run(USUAL, None)))
        thread.start()
        os.write(sent, b"v\n")
        told = [out.readline()]
        for value in VALUES[:6]:
            os.write(sent, f"{value}\n".encode())
            told.append(out.readline())
        os.close(sent)
        thread.join()
    rows = list(csv.DictReader(told))
    want = bank().step(["a"] * 6, [*NUMBERS, 90.0])
    assert [float(row["mean"]) for row in rows] == want.signal[:, 0].tolist()
    assert [row["outlier"] for row in rows] == ["false"] * 5 + ["true"]
    assert done[0][1]["outliers"] == 1


def test_rows_have_the_bits_of_a_bank_whatever_the_batches():
    lines = [f"x,{value}" for value in VALUES]
    rows, _ = filtered(lines, "w,v", missing=("-999",))
    want = bank().step(["a"] * 9, [*NUMBERS, 90.0, np.nan, np.nan, 1.2])
    assert [float(row["mean"]) for row in rows] == want.signal[:, 0].tolist()
    assert [row["kind"] for row in rows] == [*[""] * 5, "spike", "gap", "gap", ""]
    assert rows[5]["repaired"] == rows[5]["mean"]
    assert filtered(["x,1", "x,2", "x,inf"], "w,v")[0][2]["kind"] == "spike"
    one, other = (pipe.Lines("w,v", USUAL | {"missing": ("-999",)}, None) for _ in range(2))
    singles = [row for line in lines for some in one.take([line]) for row in some]
    assert singles == [row for some in other.take(lines) for row in some]


def test_sensors_and_times_are_told_apart():
    lines = ["a;60;1;x", "b;60;7;x", "a;180;2;y", "a;120;2;y"]
    rows, made = filtered(lines, "id;t;v;note", by="id", time=("t",), step=60.0)
    want = bank().step(["a", "b", "a"], [1.0, 7.0, 2.0], [1.0, 1.0, 3.0])
    assert [row["mean"] for row in rows] == [*map(repr, want.signal[:, 0].tolist()), ""]
    assert (made.late, rows[3]["note"]) == (1, "y")


def test_a_row_that_cannot_be_read_ends_it_or_is_passed_over():
    with pytest.raises(ValueError, match="the row 'warm' cannot be read"):
        filtered(["1", "warm"])
    rows, made = filtered(["1", "warm", "2"], on_bad_cell="missing")
    assert [bool(row["mean"]) for row in rows] == [True, False, True]
    assert made.bad == 1
    with pytest.raises(ValueError, match="Parquet or Arrow"):
        filtered([], "PAR1...")
    with pytest.raises(ValueError, match="has no column 'v'"):
        filtered([], "w,x")


@pytest.mark.parametrize(
    "change",
    [
        {"model": "auto"},
        {"settings": ("obs_var=1",)},
        {"values": ()},
        {"time": ("t",)},
        {"forecast": 3},
        {"live": False},
    ],
)
def test_what_needs_the_end_waits_for_it(monkeypatch, change):
    monkeypatch.setattr(pipe, "_is_pipe", lambda: True)
    assert pipe.suits("-", "-", None, USUAL)
    assert not pipe.suits("-", "-", None, USUAL | change)
    assert not pipe.suits("-", "clean.csv", None, USUAL)


def test_a_file_on_standard_input_is_read_as_before():
    words = [
        "filter",
        "-",
        "--live",
        "--model",
        "local-level",
        "--value",
        "v",
        "--set",
        "level_var=0.1",
        "--set",
        "obs_var=1",
    ]
    result = CliRunner().invoke(main, words, input="v\n" + "1\n2\n" * 10)
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 21
