"""Written CSV files: decimal marks as in the input, and no cell that a spreadsheet program runs as a formula."""

import csv
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from wolf.cleaning import io
from wolf.cleaning.io import table_reader
from wolf.cli import main

KNOWN = ("--set", "level_var=0.1", "--set", "obs_var=1")
VALUES = np.random.default_rng(0).normal(20.0, 1.0, 30).round(3)
RESULTS = ("mean", "lower", "upper", "prediction_lower", "prediction_upper", "weight", "cleaned")
FORMULAS = ["=1+1", "+1+1", "-2+3", "@SUM(A1)", "\tx", "=cmd|' /C calc'!A0"]
HARMLESS = ["-3.5", "-3,5", "+49 170 12", "- $3", "-1e-5", "-", "---", "a=b", ""]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def invoke(*arguments):
    result = CliRunner().invoke(main, ["filter", *arguments, *KNOWN])
    assert result.exit_code == 0, result.output


def write(path, delimiter, decimal, quote=""):
    rows = [f"{i}{delimiter}{quote}{str(y).replace('.', decimal)}{quote}" for i, y in enumerate(VALUES)]
    Path(path).write_text("\n".join([f"time{delimiter}value", *rows]) + "\n")


def read(path, delimiter):
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


@pytest.mark.parametrize(("delimiter", "quote"), [(";", ""), (",", '"')])
def test_decimal_commas_come_back(folder, delimiter, quote):
    write("point.csv", ",", ".")
    write("comma.csv", delimiter, ",", quote)
    for name in ("point.csv", "comma.csv"):
        invoke(name, "--forecast", "2")
    points, commas = read("point-clean.csv", ","), read("comma-clean.csv", delimiter)
    assert len(points) == len(commas) == len(VALUES) + 2
    for plain, other in zip(points, commas, strict=True):
        assert [other[name] for name in RESULTS] == [plain[name].replace(".", ",") for name in RESULTS]
        assert (other["outlier"], other["fault"]) == (plain["outlier"], plain["fault"])
    invoke("comma-clean.csv", "--value", "cleaned", "--out", "again.csv")


def test_parquet_from_decimal_commas_holds_numbers(folder):
    write("comma.csv", ";", ",")
    invoke("comma.csv", "--out", "out.parquet")
    assert io.read_table("out.parquet").data.schema.field("mean").type == pa.float64()


def test_formulas_are_escaped_on_request_and_numbers_are_not(folder):
    cells = [(FORMULAS + HARMLESS)[i % (len(FORMULAS) + len(HARMLESS))] for i in range(len(VALUES))]
    with Path("in.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["=time", "value", "note"], *zip(range(len(VALUES)), VALUES, cells, strict=True)])
    invoke("in.csv", "--value", "value", "--time", "=time", "--out", "plain.csv")
    assert [row["note"] for row in read("plain.csv", ",")] == cells
    invoke("in.csv", "--value", "value", "--time", "=time", "--out", "safe.csv", "--escape-formulas")
    safe = read("safe.csv", ",")
    assert [row["note"] for row in safe] == [f"'{cell}" if cell in FORMULAS else cell for cell in cells]
    assert "'=time" in safe[0]
    invoke("in.csv", "--value", "value", "--time", "=time", "--out", "safe.parquet", "--escape-formulas")
    assert io.read_table("safe.parquet").data["note"].to_pylist() == cells


def test_text_of_any_arrow_type_is_escaped():
    text = pa.array(["=1", "x", None])
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        table = pa.table({"a": text.cast(kind) if kind != pa.string_view() else pa.array(["=1", "x", None], kind)})
        assert io.CsvStyle(escape_formulas=True).convert(table)["a"].to_pylist() == ["'=1", "x", None]


@pytest.mark.parametrize("size", [0, 1, 60])
def test_a_file_truncated_while_it_is_read_ends_in_one_line(folder, monkeypatch, size):
    """Were the file mapped into memory, this process would end by SIGBUS."""
    rows = [f"{i},{VALUES[i % len(VALUES)]}" for i in range(2000)]  # several pages of memory
    Path("in.csv").write_text("\n".join(["time,value", *rows]) + "\n")
    read_text = table_reader.csv_reader.read_text

    def truncate_first(*arguments):
        os.truncate("in.csv", size)
        return read_text(*arguments)

    monkeypatch.setattr(table_reader.csv_reader, "read_text", truncate_first)
    result = CliRunner().invoke(main, ["filter", "in.csv", *KNOWN])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "in.csv was changed while it was being filtered" in result.stderr
    assert os.listdir() == ["in.csv"]
