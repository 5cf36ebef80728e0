"""Files as people and loggers write them: each is read as meant, or ends in one line that says what to do."""

import gzip
import json
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv as arrow_csv

import wolf
from wolf.cleaning import column_roles, io
from wolf.cleaning.io import date_formats, number_formats
from wolf.cleaning.load import ReadOptions, load
from wolf.cli import main
from wolf.cli.plugins import COMMANDS_OF_OTHER_PACKAGES
from wolf.diagnostics.faults import sentinel_values
from wolf.numerics import calendar_months as calendar

KNOWN = ["--set", "level_var=0.1", "--set", "obs_var=1"]
ROWS = 30
LEVEL = [20 + (7 * i % 11) / 10 for i in range(ROWS)]
DAYS = [f"{i + 1:02d}.05.2024 10:00" for i in range(ROWS)]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(lines, name="in.csv", encoding="utf-8"):
    text = lines if isinstance(lines, str) else "\n".join(lines) + "\n"
    Path(name).write_bytes(text.encode(encoding))
    return name


def table(cells, header="time,value", times=None, mark=","):
    times = range(len(cells)) if times is None else times
    return [header.replace(",", mark), *(f"{t}{mark}{cell}" for t, cell in zip(times, cells, strict=True))]


def invoke(*arguments):
    return CliRunner().invoke(main, [*map(str, arguments)])


def comma(value):
    return str(value).replace(".", ",")


# numbers

WRITTEN = {
    "decimal commas": (["20,5", "21", "1.020,25", ",5"], [20.5, 21.0, 1020.25, 0.5]),
    "thousands by points": (["1.234.567", "12"], [1234567.0, 12.0]),
    "thousands by commas": (["1,234.5", "12"], [1234.5, 12.0]),
    "thousands by blanks": (["1 234,5", "12\u00a0345,5"], [1234.5, 12345.5]),
    "thousands by apostrophes": (["1'234.5", "2’345.5"], [1234.5, 2345.5]),
    "per cent": (["12%", "13.5 %"], [12.0, 13.5]),
    "dollars": (["$1,200.50", "-$3", "$ 4"], [1200.5, -3.0, 4.0]),
    "euros": (["1.200,50 €", "3,5 €"], [1200.5, 3.5]),
    "a true minus": (["−5", "$−3", "4,5"][::2], [-5.0, 4.5]),
    "words for nothing": (["n/a", "---", "#DIV/0!", "5"], [np.nan, np.nan, np.nan, 5.0]),
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_numbers_are_read_as_people_write_them(kind):
    cells, expected = WRITTEN[kind]
    held = io.Table("some.csv", pa.table({"v": pa.chunked_array([cells])}), "csv", ";", lambda: iter(()))
    found = io.number_column(held, "v")
    np.testing.assert_array_equal(found.values, expected)
    assert found.bad == []


def test_cells_in_another_style_than_the_others_are_reported():
    for cells in (["1,5", "20.5", "21.5"], ["12%", "13", "14"], ["$3", "4", "5"], ["1.2.3", "2", "3"]):
        held = io.Table("some.csv", pa.table({"v": pa.chunked_array([cells])}), "csv", ";", lambda: iter(()))
        with pytest.raises(ValueError, match=r"row 1 \(line 2 of the file\)"):
            io.number_column(held, "v")


@given(
    st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 2)), min_size=3, max_size=20),
    st.sampled_from([("", ","), (".", ","), (" ", ","), (",", "."), ("'", ".")]),
)
def test_numbers_come_back_whatever_their_marks(values, marks):
    thousands, decimal = marks
    cells = [f"{x:,.2f}".replace(",", "t").replace(".", decimal).replace("t", thousands) for x in values]
    style = number_formats.infer_format(cells, ";")
    parsed, bad = number_formats.parse(pa.chunked_array([cells]), style)
    assert bad == []
    np.testing.assert_allclose(parsed.to_numpy(), values)


def test_only_one_thousand_and_more_is_reported_as_ambiguous():
    assert not number_formats.infer_format(["1,234", "5,678"], ",").sure
    assert number_formats.infer_format(["1,234", "5,678"], ";").decimal == ","
    assert number_formats.infer_format(["1,234", "5,678"], ";", decimal=".").grouped
    result = invoke("filter", write(table([f'"1,{100 + 7 * i % 5}"' for i in range(ROWS)])), *KNOWN)
    assert "--decimal ," in result.output


def test_words_for_nothing_are_counted_and_other_words_are_reported():
    cells = [*map(str, LEVEL[:26]), "n/a", "n/a", "---", "broken"]
    assert "'broken' in column 'value' is not a number" in invoke("filter", write(table(cells)), *KNOWN).output
    output = invoke("filter", "in.csv", *KNOWN, "--on-bad-cell", "missing").output
    assert "3 cells of 'value' are marked as missing: 'n/a' (2), '---' (1)" in output
    assert "1 cells of 'value' are no numbers and treated as missing (rows 30)" in output
    assert "'broken' (1)" in invoke("filter", "in.csv", *KNOWN, "--missing", "broken").output


def test_codes_for_nothing_are_reported_and_taken_out_when_asked():
    cells = [*LEVEL[:10], -999, -999, -999, *LEVEL[13:]]
    assert "-999 occurs 3 times in 'value'" in invoke("filter", write(table(cells)), *KNOWN).output
    output = invoke("filter", "in.csv", *KNOWN, "--missing", "-999").output
    assert "3 values of 'value' are treated as missing" in output
    assert "missing       3 of 30 values" in output
    assert sentinel_values.codes(np.array([*range(900, 1100), 999.0, 999.0])) == {}


def test_a_code_for_nothing_moves_neither_the_choice_nor_the_rest_of_the_series():
    hours = np.arange(300)
    level = 20 + 3 * np.sin(2 * np.pi * hours / 24) + np.random.default_rng(0).normal(0, 0.3, len(hours))
    level[100:129] = level[200:211] = np.nan
    write(table(np.nan_to_num(np.round(level, 2), nan=-999.0)))
    output = invoke("filter", "in.csv", "--out", "as-it-is.csv").output
    assert "level+seasonal:24:1" in output
    assert "not independent" not in output
    invoke("filter", "in.csv", "--missing", "-999", "--out", "as-missing.csv")
    found, asked = (arrow_csv.read_csv(name).to_pydict() for name in ("as-it-is.csv", "as-missing.csv"))
    for name in ("mean", "lower", "upper", "prediction_lower", "prediction_upper", "cleaned"):
        np.testing.assert_array_equal(found[name], asked[name])
    np.testing.assert_array_equal(np.array(found["fault"]) == "dropout", np.isnan(level))


def test_what_a_broken_chip_says_again_and_again_is_a_code_and_no_limit():
    values = wolf.datasets.load("thermometer").values[:, 0]
    assert sentinel_values.codes(values) == {-127.0: 13, 85.0: 15}
    output = " ".join(load(str(wolf.datasets.path("thermometer"))).notes)
    assert "add --missing 85" in output
    assert "the limit" not in output
    tail = (
        np.random.default_rng(0).geometric(0.3, 5000).astype(float)
    )  # counts: the largest are rare and close together
    assert sentinel_values.codes(tail) == sentinel_values.limits(tail) == {}


def test_a_limit_of_the_sensor_is_reported_and_rounding_is_not():
    rng = np.random.default_rng(0)
    values = rng.normal(size=500).round(2)
    assert sentinel_values.limits(np.minimum(values, 1.0)) == {1.0: int((values >= 1.0).sum())}
    assert sentinel_values.limits(values) == sentinel_values.limits(values.round(1)) == {}
    assert sentinel_values.limits(np.maximum(values, 0.0)) == {}  # as rain


def test_a_sensor_that_always_says_the_same_is_no_limit_of_the_others():
    rng = np.random.default_rng(1)
    lines = [f"{t},a,{20 + rng.normal():.2f}\n{t},b,41.5" for t in range(100)]
    write(["time,sensor,value", *lines])
    assert "the limit" in " ".join(load("in.csv", values=("value",)).notes)
    assert "the limit" not in " ".join(load("in.csv", values=("value",), by="sensor").notes)


# dates

DATES = {
    "European": ["31.01.2024", "01.02.2024"],
    "European with one digit": ["31.1.2024 9:05", "1.2.2024 10:05"],
    "European with slashes": ["31/01/2024 10:00:00", "01/02/2024 10:00:00"],
    "American": ["01/31/2024", "02/01/2024"],
    "American with halves of a day": ["1/31/2024 12:30 AM", "1/31/2024 1:30 PM"],
    "two digits for the year": ["31.01.24", "01.02.24"],
    "months by name": ["31-Jan-2024", "01-Feb-2024"],
    "months by name, first": ["Jan 31, 2024", "Feb 01, 2024"],
    "year first with slashes": ["2024/01/31 10:00", "2024/02/01 10:00"],
    "months": ["2024-01", "2024-02"],
    "digits": ["20240131", "20240201"],
    "digits to the minute": ["202401311200", "202402011200"],
    "fractions": ["31.01.2024 10:00:00.25", "31.01.2024 10:00:00.75"],
    "ISO 8601 without zeros": ["2024-1-31 9:05", "2024-2-1 9:05"],
}


def as_pandas(cells):
    import pandas

    first = bool({"European", "two"} & {kind.split()[0] for kind, known in DATES.items() if known is cells})
    if cells[0].isdigit():
        return pandas.to_datetime(pandas.Series(cells), format="%Y%m%d" if len(cells[0]) == 8 else "%Y%m%d%H%M")
    first = first or cells is DATES["fractions"]
    return pandas.to_datetime(pandas.Series(cells), dayfirst=first, format="mixed")


@pytest.mark.parametrize("kind", DATES)
def test_dates_are_those_that_pandas_reads(kind):
    held = io.Table("some.csv", pa.table({"t": pa.chunked_array([DATES[kind]])}), "csv", ",", lambda: iter(()))
    axis = io.time_column(held, "t")
    expected = as_pandas(DATES[kind]).to_numpy().astype("datetime64[ns]").astype(np.int64)
    assert axis.origin == expected[0]
    np.testing.assert_allclose(axis.stamps, (expected - expected[0]) / 1e9)
    if kind not in ("fractions", "European with one digit", "American with halves of a day", "ISO 8601 without zeros"):
        assert axis.write(axis.stamps) == DATES[kind]
    assert io.is_time(held, "t")


@given(st.dates(date(1700, 1, 1), date(2200, 1, 1)))
def test_a_date_is_the_same_in_every_order(day):
    cells = {"day first": day.strftime("%d.%m.%Y"), "month first": day.strftime("%m/%d/%Y")}
    for kind, cell in cells.items():
        assert date_formats.parse(pa.array([cell]), kind)[0] == np.datetime64(day)


def test_dates_in_either_order_are_distinguished_by_their_steps_or_asked_for():
    even = [f"01/{i:02d}/2024" for i in range(1, 12)]
    assert date_formats.infer_format(even).kind == "month first"
    assert date_formats.infer_format([f"{i:02d}/01/2024" for i in range(1, 12)]).kind == "day first"
    with pytest.raises(LookupError, match="--day-first or --month-first"):
        date_formats.infer_format(["01/02/2024", "01/05/2024", "01/06/2024"])
    assert date_formats.infer_format(["01/02/2024"], day_first=True).kind == "day first"
    late = [*(["01/02/2024"] * 1500), "13/02/2024"]
    held = io.Table("some.csv", pa.table({"t": pa.chunked_array([late])}), "csv", ",", lambda: iter(()))
    assert io.time_column(held, "t").stamps[-1] == 12 * 86400


def test_a_date_that_is_not_there_is_reported_with_its_row():
    days = ["30.01.2024", "31.01.2024", "30.02.2024"]
    held = io.Table("some.csv", pa.table({"t": pa.chunked_array([days])}), "csv", ",", lambda: iter(()))
    with pytest.raises(ValueError, match=r"row 3 \(line 4 of the file\): '30.02.2024'"):
        io.time_column(held, "t")


def test_european_files_are_filtered_and_looked_ahead_of_in_their_style():
    write(table(map(comma, LEVEL), "Datum,Wert", DAYS, ";"))
    result = invoke("filter", "in.csv", *KNOWN, "--forecast", "2")
    assert result.exit_code == 0, result.output
    assert "Datum, every 86400 s" in result.output
    lines = Path("in-clean.csv").read_text().splitlines()
    results = "mean;lower;upper;prediction_lower;prediction_upper;weight;outlier;fault;cleaned;anomaly_score;qartod"
    assert lines[0] == f"Datum;Wert;{results}"
    assert lines[1].startswith("01.05.2024 10:00;20,0;")
    assert lines[-1].startswith("01.06.2024 10:00;;")
    plain = load(write(table(LEVEL), "plain.csv")).values
    np.testing.assert_array_equal(load("in.csv").values, plain)


def test_date_and_time_of_day_in_two_columns_are_one_time():
    lines = ["date,time,value", *(f"2024-05-{1 + i // 24:02d},{i % 24:02d}:00,{y}" for i, y in enumerate(LEVEL))]
    found = load(write(lines))
    assert (found.time, found.clock, found.names) == ("date", "time", ["value"])
    np.testing.assert_array_equal(found.times, 3600.0 * np.arange(ROWS))
    np.testing.assert_array_equal(load("in.csv", ("date", "time")).times, found.times)
    assert invoke("filter", "in.csv", *KNOWN, "--forecast", "1").exit_code == 0
    assert Path("in-clean.csv").read_text().splitlines()[-1].startswith("2024-05-02,06:00:00,,")


def test_months_are_even_steps_and_forecasts_keep_to_them():
    months = np.arange("2000-01", "2020-01", dtype="datetime64[M]")
    waves = np.sin(2 * np.pi * np.arange(len(months)) / 12)
    level = np.round(20 + 8 * waves + np.random.default_rng(0).normal(0, 0.5, len(months)), 2)
    result = invoke("filter", write(table(level, "month,value", months)), "--forecast", "3")
    assert "month, every 1 month" in result.output
    assert "a season of 12 steps" in result.output
    out = arrow_csv.read_csv("in-clean.csv").to_pydict()
    assert [str(month)[:7] for month in out["month"][-3:]] == ["2020-01", "2020-02", "2020-03"]
    assert "every 1 month" in invoke("inspect", "in.csv").output


@given(
    st.dates(date(1680, 1, 1), date(2200, 1, 1)),
    st.sampled_from([1, 3, 12]),
    st.lists(st.integers(1, 4), min_size=3, max_size=30),
    st.booleans(),
)
def test_months_are_counted_as_pandas_counts_them(first, months, steps, ends):
    """Against dates of pandas: at one day of the month, or at its end; and with a day off they are no months."""
    places = np.cumsum([0, *steps])
    start = pd.Timestamp(first.replace(day=min(first.day, 28)))
    start = start + pd.offsets.MonthEnd(0) if ends else start
    offset = pd.offsets.MonthEnd if ends else lambda n: pd.DateOffset(months=n)
    stamps = pd.DatetimeIndex([start + offset(int(months * place)) for place in places])
    seconds = (stamps - stamps[0]) / pd.Timedelta(seconds=1)
    np.testing.assert_array_equal(calendar.months_since_first(seconds.to_numpy()), months * places)
    origin = start.timestamp()
    ahead = calendar.add_months(origin, months, len(places))
    expected = [(start + offset(months * (i + 1))).timestamp() for i in range(len(places))]
    np.testing.assert_array_equal(ahead, expected)
    astray = seconds.to_numpy(copy=True)
    astray[-2] += 10 * calendar.DAY
    assert calendar.months_since_first(astray) is None


def test_an_hour_that_comes_twice_is_reported_and_read_right_in_its_zone():
    local = [f"2024-10-27 {hour}:00" for hour in ("00", "01", "02", "02", "03", "04", "05")]
    found = load(write(table(LEVEL[:7], times=local)))
    assert any("put back for winter time" in note for note in found.notes)
    right = load("in.csv", how=ReadOptions(zone="Europe/Berlin"))
    np.testing.assert_array_equal(right.times, 3600.0 * np.arange(7))
    assert right.axis.write(right.times)[-1] == "2024-10-27 05:00:00"
    half = [f"2024-10-27 0{hour}:{minute}" for hour in (1, 2, 2, 3) for minute in ("00", "30")]
    np.testing.assert_array_equal(
        load(write(table(LEVEL[:8], times=half)), how=ReadOptions(zone="Europe/Berlin")).times, 1800.0 * np.arange(8)
    )
    with pytest.raises(ValueError, match="no time zone 'Nowhere'"):
        load("in.csv", how=ReadOptions(zone="Nowhere"))


def test_offsets_that_change_with_summer_are_one_time():
    times = ["2024-10-27T01:00:00+02:00", "2024-10-27T02:00:00+02:00", "2024-10-27T02:00:00+01:00"]
    np.testing.assert_array_equal(load(write(table(LEVEL[:3], times=times))).times, [0.0, 3600.0, 7200.0])


# where the table is

LAYOUTS = {
    "a preamble": ["Station: Berlin", "Made by logger 7, version 2, in May", "", *table(LEVEL)],
    "a preamble with as many cells": ["Logger 7", "Made by: Jane, 2024", "Place, Berlin", "", *table(LEVEL)],
    "comments above": ["# Station: Berlin", "# 52 N", *table(LEVEL)],
    "names in a comment": ["# made by numpy", "# time,value", *table(LEVEL)[1:]],
    "comments between": ["# a", *table(LEVEL)[:5], "# changed the battery", *table(LEVEL)[5:]],
    "a footer": [*table(LEVEL), "End of data", "Checksum 12"],
    "units": ["time,value", "s,°C", *table(LEVEL)[1:]],
    "the delimiter for Excel": ["sep=;", *table(LEVEL, mark=";")],
    "empty lines above": ["", "", *table(LEVEL)],
    "blanks between": ["time value", *(f"{i}   {y}" for i, y in enumerate(LEVEL))],
}


@pytest.mark.parametrize("kind", LAYOUTS)
def test_the_table_is_found(kind):
    found = load(write(LAYOUTS[kind]))
    assert (found.time, found.names) == ("time", ["value"])
    np.testing.assert_array_equal(found.values[:, 0], LEVEL)
    result = invoke("filter", "in.csv", *KNOWN)
    assert result.exit_code == 0, result.output
    assert len(Path("in-clean.csv").read_text().splitlines()) == ROWS + 1


def test_lines_can_be_left_out_by_number_and_by_mark():
    lines = table(LEVEL)
    found = load(write(["a,b", *lines]), how=ReadOptions(skip=1))
    np.testing.assert_array_equal(found.values[:, 0], LEVEL)
    found = load(write([*lines[:4], "% a remark", *lines[4:]]), how=ReadOptions(comment="%"))
    np.testing.assert_array_equal(found.values[:, 0], LEVEL)
    assert "--skip 99 skips all" in invoke("filter", "in.csv", "--skip", "99").output
    output = invoke("filter", write([*lines[:4], "1,2,3", *lines[4:]]), *KNOWN)
    assert "line 5: Expected 2 columns, got 3, in '1,2,3'" in output.output
    output = invoke("filter", "in.csv", *KNOWN, "--on-bad-cell", "missing")
    assert "1 rows with too many or too few cells left out" in output.output


@pytest.mark.parametrize("encoding", ["utf-8-sig", "latin-1", "cp1252", "utf-16"])
def test_texts_of_other_encodings_are_read(encoding):
    lines = ["Zeit,Wärme,Ort", *(f"{i},{y},Köln" for i, y in enumerate(LEVEL))]
    found = load(write(lines, encoding=encoding), ("Zeit",))
    assert found.names == ["Wärme"]
    assert invoke("filter", "in.csv", *KNOWN).exit_code == 0
    assert Path("in-clean.csv").read_text().splitlines()[1].startswith("0,20.0,Köln,")


def test_compressed_files_are_read():
    Path("a.csv.gz").write_bytes(gzip.compress(Path(write(table(LEVEL))).read_bytes()))
    with pa.output_stream("b.csv.zst", compression="zstd") as packed:
        packed.write(Path("in.csv").read_bytes())
    for name in ("a.csv.gz", "b.csv.zst"):
        np.testing.assert_array_equal(load(name).values[:, 0], LEVEL)


def test_an_excel_file_is_read_or_reported_in_one_line():
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["Station Berlin"])
    book.active.append(["when", "value", "note"])
    for i, y in enumerate(LEVEL):
        book.active.append([datetime(2024, 5, 1) + timedelta(hours=i), y, "x"])
    book.save("in.xlsx")
    found = load("in.xlsx")
    assert (found.time, found.names) == ("when", ["value"])
    np.testing.assert_array_equal(found.times, 3600.0 * np.arange(ROWS))
    assert invoke("filter", "in.xlsx", *KNOWN).exit_code == 0
    assert len(arrow_csv.read_csv("in-clean.csv")) == ROWS


def test_an_excel_file_without_a_library_is_one_line(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    Path("in.xlsx").write_bytes(b"PK\x03\x04" + bytes(64))
    result = invoke("filter", "in.xlsx")
    assert result.exit_code == 2
    assert "needs openpyxl" in result.output


# which column


def test_the_value_is_no_identifier_constant_or_part_of_a_date():
    names = "id,year,month,day,loggingSample,station_id,constant,ok,temperature"
    rows = [f"{i + 5},2024,5,{i + 1},{i},{7 * i % 3},3.5,{i % 2},{y}" for i, y in enumerate(LEVEL)]
    found = load(write([names, *rows]))
    assert found.names == ["temperature"]
    assert "'constant', which is constant" in found.notes[-1]
    kinds = {column.name: column.kind for column in column_roles.describe(io.read_table("in.csv"))}
    assert kinds["id"] == kinds["loggingSample"] == "count"
    assert kinds["year"] == "constant"
    assert kinds["day"] == "calendar"
    assert kinds["station_id"] == "identifier"
    assert kinds["ok"] == "flag"
    assert (
        "'id' rises evenly"
        in invoke("filter", write(["time,id", *(f"2024-05-{i + 1:02d},{i}" for i in range(9))])).output
    )
    result = invoke("filter", write(["id,year,note", *(f"{i},2024,x" for i in range(9))]))
    assert result.exit_code == 2
    assert "no column of measurements: 'id' rises evenly" in result.output


def test_days_in_digits_are_the_time():
    lines = ["day,temperature", *(f"202405{i + 1:02d},{y}" for i, y in enumerate(LEVEL))]
    found = load(write(lines))
    assert (found.time, found.names) == ("day", ["temperature"])
    np.testing.assert_array_equal(np.diff(found.times), 86400.0)


# many series


def test_dead_series_stop_no_others():
    cells = {"good": LEVEL, "still": [3.5] * ROWS, "zero": [0] * ROWS, "dead": [""] * ROWS}
    lines = ["sensor,value", *(f"{name},{y}" for name, ys in cells.items() for y in ys), "short,1"]
    result = invoke("filter", write(lines), "--by", "sensor")
    assert result.exit_code == 0, result.output
    for name in ("still", "zero", "dead", "short"):
        assert f"{name} was not filtered: " in result.output
    out = arrow_csv.read_csv("in-clean.csv").to_pydict()
    kept = np.array([mean is not None for mean in out["mean"]])
    np.testing.assert_array_equal(kept, np.array(out["sensor"]) == "good")
    alone = invoke("filter", write(["value", *map(str, LEVEL)], "alone.csv"))
    assert alone.exit_code == 0
    np.testing.assert_allclose(np.array(out["mean"])[kept].astype(float), arrow_csv.read_csv("alone-clean.csv")["mean"])
    assert invoke("filter", "in.csv", "--by", "sensor", "--strict").exit_code == 1
    assert Path("in-clean.csv").exists()
    result = invoke("filter", write([lines[0], *lines[ROWS + 1 :]], "bad.csv"), "--by", "sensor")
    assert result.exit_code == 2
    assert "no series could be filtered" in result.output


def test_a_dead_series_of_a_frame_is_a_warning():
    frame = pa.table({"key": ["a"] * ROWS + ["b"] * ROWS, "value": [*LEVEL, *[1.0] * ROWS]})
    with pytest.warns(UserWarning, match="b was not filtered: all values are 1"):
        out = wolf.filter_frame(frame, by="key", values="value", parameters=None)
    assert np.isfinite(out["mean"].to_numpy()).sum() == ROWS


# what is said


def test_look_says_what_it_sees_and_would_do():
    lines = ["sensor;Datum;Wert", *(f"{'AB'[i % 2]};{DAYS[i // 2]};{comma(y)}" for i, y in enumerate(LEVEL))]
    result = invoke("inspect", write(["Logger 7", *lines]))
    assert result.exit_code == 0, result.output
    assert "30 rows, 3 columns (csv, separated by semicolons, utf-8)" in result.output
    assert "numbers, 20 to 21, written with decimal commas" in result.output
    assert result.output.splitlines()[-1] == "wolf filter in.csv --time Datum --value Wert --by sensor"
    assert list(Path().iterdir()) == [Path("in.csv")]
    output = invoke("inspect", write(table(LEVEL, "time,outside °C"), "in.csv")).output
    assert output.splitlines()[-1] == "wolf filter in.csv --time time --value 'outside °C'"
    write(["Logger 7", *lines])
    seen = json.loads(invoke("inspect", "in.csv", "--json").output)
    assert seen["plan"]["values"] == ["Wert"]
    assert seen["plan"]["identifies_series"] == ["sensor"]
    assert [column["kind"] for column in seen["columns"]] == ["text", "time", "reading"]
    assert "wolf filter would fail" in invoke("inspect", write(table(["x", "y"]))).output


def test_every_summary_is_there_as_json_and_none_when_quiet():
    write(table(LEVEL))
    output = json.loads(invoke("filter", "in.csv", *KNOWN, "--json").output)
    assert output["rows"] == ROWS
    assert output["series"][0]["parameters"] == {"level_var": 0.1, "obs_var": 1.0}
    assert output["wrote"] == ["in-clean.csv"]
    assert invoke("filter", "in.csv", *KNOWN, "--quiet").output == ""
    output = json.loads(invoke("compare", "in.csv", *KNOWN, "--method", "KF", "--json").output)
    assert output["methods"][0]["name"] == output["best"] == "KF"
    assert json.loads(invoke("models", "--json").output)["models"] == list(wolf.models.names())
    assert json.loads(invoke("simulate", "--steps", "9", "--out", "s.csv", "--json").output)["rows"] == 9


def test_every_help_has_an_example():
    for name in main.list_commands(None):
        if name not in COMMANDS_OF_OTHER_PACKAGES:
            assert f"wolf {name}" in invoke(name, "--help").output.split("Examples:")[1]


# dates in columns of their own


@settings(max_examples=30)
@given(st.lists(st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)), min_size=1, max_size=5), st.integers(2, 6))
def test_parts_of_dates_are_put_together_and_taken_apart(moments, count):
    units = ("year", "month", "day", "hour", "minute", "second")[:count]
    blank = {"day": 1, "hour": 0, "minute": 0, "second": 0, "microsecond": 0}
    moments = [each.replace(**{unit: first for unit, first in blank.items() if unit not in units}) for each in moments]
    parts = {unit: [getattr(each, unit) for each in moments] for unit in units}
    axis = io.parts_axis(io.Table("some.csv", pa.table(parts), "csv", ",", lambda: iter(())), units)
    expected = np.array(moments, "datetime64[s]") - np.datetime64(moments[0], "s")
    np.testing.assert_array_equal(axis.stamps, expected.astype(float))
    assert io.write_parts(axis, axis.stamps, units) == parts


def test_year_month_and_day_in_three_columns_are_one_date():
    days = [date(2024, 2, 15) + timedelta(i) for i in range(ROWS)]
    cells = [f"{d.year},{d.month},{d.day},{x}" for d, x in zip(days, LEVEL, strict=True)]
    write(["Year,Month,Day,level", *cells])
    assert load("in.csv").parts == ("Year", "Month", "Day")
    seen = invoke("inspect", "in.csv").output
    assert "Year and Month and Day, every 86400 s" in seen
    assert "--time Year --time Month --time Day --value level" in seen
    assert invoke("filter", "in.csv", *KNOWN, "--forecast", "2", "--out", "out.csv").exit_code == 0
    assert pd.read_csv("out.csv")[["Year", "Month", "Day"]].to_numpy()[-1].tolist() == [2024, 3, 17]
    write(["Year,Month,Day,level", *cells[:20], "2024,2,31,20.5"])
    assert "there is no such date: Year 2024, Month 2, Day 31" in invoke("filter", "in.csv", *KNOWN).output
    assert "or year, month, day" in invoke("filter", "in.csv", *(3 * ["--time", "Day"])).output
