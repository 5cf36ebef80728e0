"""`wolf filter` end to end: what it writes, its summary, and every mistake in one line with exit code 2."""

import os
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import csv as arrow_csv
from pyarrow import feather, parquet

import wolf
from wolf.cleaning import io
from wolf.cli import main
from wolf.results import describe_method

STEPS = 200
OUTLIERS = [40, 41, 90, 150]
COLUMNS = "mean,lower,upper,prediction_lower,prediction_upper,weight,outlier,fault,cleaned,anomaly_score,qartod"
LEVEL = ("--model", "local-level")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def values():
    rng = np.random.default_rng(7)
    level = np.cumsum(0.3 * rng.normal(size=STEPS)) + 20.0
    ys = level + rng.normal(size=STEPS)
    ys[OUTLIERS] += [60.0, -55.0, 80.0, 70.0]
    ys[[10, 11, 100]] = np.nan
    return ys


def cell(y):
    return "" if np.isnan(y) else f"{y:.6f}"


def write_readings(path, ys, times=None, extra=()):
    times = [f"2024-05-01 {i // 60:02d}:{i % 60:02d}:00" for i in range(len(ys))] if times is None else times
    lines = ["time,temperature,note", *(f"{t},{cell(y)},n{i}" for i, (t, y) in enumerate(zip(times, ys, strict=True)))]
    Path(path).write_text("\n".join([*lines, *extra]) + "\n")


def invoke(*arguments, **options):
    return CliRunner().invoke(main, [*map(str, arguments)], **options)


def read(path):
    return arrow_csv.read_csv(str(path)).to_pydict()


def test_csv_gains_columns_and_keeps_its_own_text(folder, values):
    write_readings("readings.csv", values)
    result = invoke("filter", "readings.csv")
    assert result.exit_code == 0, result.output
    before, after = (Path(name).read_text().splitlines() for name in ("readings.csv", "readings-clean.csv"))
    assert after[0] == f"{before[0]},{COLUMNS}"
    assert all(new.startswith(old + ",") for old, new in zip(before, after, strict=True))
    out = read("readings-clean.csv")
    assert set(OUTLIERS) <= set(np.flatnonzero(out["outlier"]))
    assert sum(out["outlier"]) <= len(OUTLIERS) + 4
    assert np.all(np.array(out["lower"]) < np.array(out["mean"]))
    assert np.all(np.array(out["mean"]) < np.array(out["upper"]))
    width = np.array(out["upper"]) - np.array(out["lower"])
    assert width[11] > width[9]  # a gap widens the interval
    assert [out["fault"][i] for i in (9, 10, 11, 90)] == ["", "gap", "gap", "spike"]
    assert out["cleaned"][90] == out["mean"][90]
    assert out["cleaned"][91] == pytest.approx(values[91], abs=1e-6)
    assert out["weight"][10] == 0.0


def test_summary_says_what_was_done(folder, values):
    write_readings("readings.csv", values)
    shown = invoke("filter", "readings.csv").output
    golden = r"""readings\.csv: 200 rows
  values        temperature
  time          time, every 60 s
  missing       3 of 200 values
  outliers      \d+ flagged \(\d\.\d%\)
  model         local-level, a random-walk level: .*
                smoothed, judged retrospectively
  noise fitted  level_var 0\.\d+, obs_var \d\.\d+
  wrote         readings-clean\.csv
"""
    assert re.fullmatch(golden, shown), shown


def test_results_are_those_of_the_library(folder, values):
    write_readings("readings.csv", values)
    invoke("filter", "readings.csv", "--causal", *LEVEL, "--set", "level_var=0.1", "--set", "obs_var=1")
    out = read("readings-clean.csv")
    some = values[np.isfinite(values)]
    first = some[:15]
    middle = np.median(first)
    step_var = (1.4826 * np.median(np.abs(np.diff(some)))) ** 2
    spread = (3 * 1.4826 * np.median(np.abs(first - middle))) ** 2 + step_var
    model = wolf.models.local_level(0.1, 1.0, wolf.Gaussian([middle], [[spread]]))
    expected = wolf.filter(model, np.round(values, 6))
    np.testing.assert_allclose(out["mean"], expected.means[:, 0], rtol=1e-5)
    np.testing.assert_allclose(out["weight"], expected.weights, atol=1e-5)


@pytest.mark.parametrize("how", [(), ("--causal",), ("--causal", "--method", "WoLF"), ("--method", "KF")])
def test_a_cell_that_is_infinite_is_an_outlier_and_not_missing(folder, values, how):
    write_readings("readings.csv", np.where(np.arange(STEPS) == 60, np.inf, values))
    shown = invoke("filter", "readings.csv", *LEVEL, *how)
    assert "missing       3 of 200 values" in shown.output
    out = read("readings-clean.csv")
    assert (out["outlier"][60], out["fault"][60], out["fault"][10]) == (True, "spike", "gap")
    assert np.isfinite(out["cleaned"][60])


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (("level_var=0.1", "obs_var=1"), "filtered by the default, Adaptive"),
        (("level_var=0.1",), "filtered by the default, Adaptive"),
        (("obs_var=1",), "filtered by Learned, as Q is fitted"),
        ((), "filtered by Learned, as Q is fitted"),
    ],
    ids=["both", "Q", "R", "none"],
)
def test_learned_is_taken_where_q_is_fitted_and_the_default_where_it_is_given(folder, values, given, shown):
    write_readings("readings.csv", values)
    settings = [word for each in given for word in ("--set", each)]
    assert f"{shown}\n" in invoke("filter", "readings.csv", "--causal", *LEVEL, *settings).output
    patient = invoke("filter", "readings.csv", "--causal", *LEVEL, *settings, "--patience", "12").output
    name = "Adaptive" if "Adaptive" in shown else "Learned"
    assert f"{shown.replace(name, f'{name}(patience=12)')}\n" in patient


def test_a_bank_with_default_method_agrees_with_causal_filter(folder, values):
    """The priors differ, but the influence of a prior decays: the last rows agree."""
    write_readings("readings.csv", values)
    given = (*LEVEL, "--set", "level_var=0.1", "--set", "obs_var=1")
    invoke("filter", "readings.csv", "--causal", "--value", "temperature", *given)
    bank = wolf.Bank(wolf.models.local_level(0.1, 1.0, wolf.Gaussian([0.0], [[1e4]])))
    assert describe_method(bank.method) == "Adaptive"
    stepped = bank.step(["a"] * STEPS, np.round(values, 6))
    np.testing.assert_allclose(stepped.signal[-50:, 0], read("readings-clean.csv")["mean"][-50:], atol=0.1)


@pytest.mark.parametrize("shown", ["1", "1 rows", "1.9"])
def test_a_patience_of_one_row_is_rejected(folder, values, shown):
    write_readings("readings.csv", values)
    result = invoke("filter", "readings.csv", "--causal", "--patience", shown)
    assert result.exit_code == 2
    assert "patience must be at least 2 rows; got" in result.output


def test_a_patience_shorter_than_two_rows_is_rejected(folder, values):
    table = pa.table(
        {"time": np.datetime64("2024-05-01") + np.arange(STEPS) * np.timedelta64(3_600_000, "ms"), "v": values}
    )
    parquet.write_table(table, "readings.parquet")
    result = invoke("filter", "readings.parquet", "--causal", "--patience", "1h")
    assert result.exit_code == 2
    assert "patience must be at least 2 rows; '1h' is 1 of this series" in result.output
    assert invoke("filter", "readings.parquet", "--causal", "--patience", "2h").exit_code == 0


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_parquet_and_arrow_round_trip_with_their_types(folder, values, kind):
    times = np.datetime64("2024-05-01") + np.arange(STEPS) * np.timedelta64(60_000, "ms")
    table = pa.table({"time": times, "value": values, "count": np.arange(STEPS)})
    write = {"parquet": parquet.write_table, "arrow": feather.write_feather}[kind]
    write(table, f"readings.{kind}")
    result = invoke("filter", f"readings.{kind}", "--value", "value", "--forecast", "2")
    assert result.exit_code == 0, result.output
    reader = {"parquet": parquet.read_table, "arrow": feather.read_table}[kind]
    out = reader(f"readings-clean.{kind}")
    assert out.schema.names[:3] == table.schema.names
    assert [out.schema.field(i).type for i in range(3)] == [table.schema.field(i).type for i in range(3)]
    assert out.slice(0, STEPS).select(["time", "count"]).equals(table.select(["time", "count"]))
    assert out.num_rows == STEPS + 2
    assert out["time"][-1].as_py() - out["time"][-2].as_py() == out["time"][1].as_py() - out["time"][0].as_py()


def test_standard_input_goes_to_standard_output(values):
    text = "value\n" + "\n".join(map(cell, values)) + "\n"
    result = invoke("filter", "-", input=text)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == "value," + COLUMNS
    assert len(result.stdout.splitlines()) == STEPS + 1
    assert "even steps" in result.stderr


def test_forecast_is_added_below_and_widens(folder, values):
    write_readings("readings.csv", values)
    assert invoke("filter", "readings.csv", "--forecast", "5", "--out", "out.csv").exit_code == 0
    lines = Path("out.csv").read_text().splitlines()
    assert len(lines) == STEPS + 6
    assert [line.split(",")[0][-8:] for line in lines[-2:]] == ["03:23:00", "03:24:00"]
    table = read("out.csv")
    width = np.array(table["upper"][-5:]) - np.array(table["lower"][-5:])
    assert np.all(np.diff(width) > 0)
    assert set(table["note"][-5:]) == {""}
    mean, ends = np.array(table["mean"]), np.array([table["prediction_lower"], table["prediction_upper"]])
    np.testing.assert_allclose(ends.mean(0), mean)
    assert np.all(np.diff(np.diff(ends, axis=0)[0, -5:]) > 0)


def test_smoothing_narrows_the_intervals(folder, values):
    write_readings("readings.csv", values)
    invoke("filter", "readings.csv", "--causal", "--out", "filtered.csv")
    invoke("filter", "readings.csv", "--smooth", "--out", "smoothed.csv")
    widths = [
        np.mean(np.subtract(read(name)["upper"], read(name)["lower"])) for name in ("filtered.csv", "smoothed.csv")
    ]
    assert widths[1] < 0.9 * widths[0]


def test_many_sensors_are_filtered_each_by_itself(folder, values):
    lines = ["sensor,value", *(f"{'AB'[i % 2]},{cell(y + 100 * (i % 2))}" for i, y in enumerate(values))]
    Path("two.csv").write_text("\n".join(lines))
    Path("one.csv").write_text("\n".join(["value", *map(cell, values[::2])]))
    assert invoke("filter", "two.csv", "--by", "sensor").exit_code == 0
    assert invoke("filter", "one.csv").exit_code == 0
    np.testing.assert_allclose(read("two-clean.csv")["mean"][::2], read("one-clean.csv")["mean"], rtol=1e-4)


def test_several_values_get_columns_each_and_a_track_shares_its_weight(folder, values):
    lines = ["a,b", *(f"{cell(y)},{cell(2 * y)}" for y in values)]
    Path("two.csv").write_text("\n".join(lines))
    assert invoke("filter", "two.csv", "--value", "a", "--value", "b").exit_code == 0
    assert set(read("two-clean.csv")) >= {"a_mean", "a_outlier", "b_mean", "b_weight"}
    track = invoke("filter", "two.csv", "--value", "a", "--value", "b", "--model", "wiener-velocity")
    assert track.exit_code == 0, track.output
    assert set(read("two-clean.csv")) == {
        *("a", "b", "weight", "outlier", "fault", "anomaly_score", "qartod"),
        *(
            f"{name}_{each}"
            for name in "ab"
            for each in COLUMNS.split(",")
            if each not in ("weight", "outlier", "fault", "anomaly_score", "qartod")
        ),
    }


def test_uneven_times_use_the_continuous_model(folder, values):
    times = np.cumsum(np.random.default_rng(1).exponential(10.0, STEPS)).round(3)
    write_readings("uneven.csv", values, times)
    given = ("--set", "level_var=0.1", "--set", "obs_var=1", "--method", "Learned")
    shown = invoke("filter", "uneven.csv", "--causal", *LEVEL, *given).output
    assert "continuous-time" in shown
    unit = np.median(np.diff(times))
    gaps = np.concatenate([[1.0], np.diff(times) / unit])
    out = read("uneven-clean.csv")
    width = np.array(out["upper"]) - np.array(out["lower"])
    sd = width / 2 / 1.959964
    grown = sd[10] ** 2 + 0.1 * gaps[11]  # two missing rows in a row: only the gap adds variance
    assert sd[11] ** 2 == pytest.approx(grown, rel=1e-4)


def test_unsorted_and_doubled_times_are_reported_and_rows_keep_their_order(folder, values):
    order = np.random.default_rng(0).permutation(STEPS)
    write_readings("sorted.csv", values, np.arange(STEPS))
    write_readings("mixed.csv", values[order], np.arange(STEPS)[order])
    invoke("filter", "sorted.csv")
    shown = invoke("filter", "mixed.csv").output
    assert "sorted for filtering" in shown
    straight, mixed = read("sorted-clean.csv"), read("mixed-clean.csv")
    assert mixed["time"] == order.tolist()
    np.testing.assert_allclose(mixed["mean"], np.array(straight["mean"])[order], rtol=1e-6)
    write_readings("double.csv", values, np.arange(STEPS) // 2)
    assert "100 rows have the time stamp of the previous row" in invoke("filter", "double.csv").output


def test_bad_cells_can_be_taken_as_missing(folder, values):
    write_readings("readings.csv", values)
    text = Path("readings.csv").read_text().splitlines()
    text[17] = "2024-05-01 00:16:00,oops,n16"
    Path("readings.csv").write_text("\n".join(text))
    result = invoke("filter", "readings.csv", "--value", "temperature", "--on-bad-cell", "missing")
    assert result.exit_code == 0
    assert "1 cells of 'temperature' are no numbers and treated as missing (rows 17)" in result.output
    assert "missing       4 of" in result.output


def test_a_model_from_a_file(folder, values):
    write_readings("readings.csv", values)
    Path("parts.toml").write_text(
        'obs_var = 1.0\n[[parts]]\nkind = "trend"\nlevel_var = "fit"\nslope_var = 1e-6\n'
        '[[parts]]\nkind = "seasonal"\nperiod = 24\nharmonics = 1\nseasonal_var = 0.0\n'
    )
    result = invoke("filter", "readings.csv", "--model", "parts.toml")
    assert result.exit_code == 0, result.output
    assert "obs_var 1" in result.output
    assert "level_var" in result.output
    Path("matrices.toml").write_text("F=[[1.0]]\nH=[[1.0]]\nQ=[[0.1]]\nR=[[1.0]]\nmean=[20.0]\ncov=[[10.0]]\n")
    result = invoke("filter", "readings.csv", "--model", "matrices.toml", "--method", "KF", "--causal")
    assert result.exit_code == 0, result.output
    model = wolf.models.local_level(0.1, 1.0, wolf.Gaussian([20.0], [[10.0]]))
    expected = wolf.filter(model, np.round(values, 6), method="KF").means[:, 0]
    np.testing.assert_allclose(read("readings-clean.csv")["mean"], expected, rtol=1e-6)


BAD = {
    "missing file": (["nowhere.csv"], "there is no file nowhere.csv"),
    "folder": (["sub"], "is a folder"),
    "empty file": (["empty.csv"], "empty.csv is empty"),
    "header only": (["header.csv"], "no rows"),
    "no numbers": (["words.csv"], "no column of numbers"),
    "bad cell": (["oops.csv"], "oops.csv, row 17 (line 18 of the file): 'oops' in column 'value'"),
    "no such column": (["good.csv", "--value", "temprature"], "Did you mean 'temperature'?"),
    "nothing to tell series apart": (["good.csv", "--by", "sensor"], "no column 'sensor'"),
    "not text": (["binary.csv"], "is not a csv table"),
    "no such time": (["good.csv", "--time", "tme"], "Did you mean 'time'?"),
    "constant": (["constant.csv"], "all values are 3"),
    "all missing": (["blank.csv", "--value", "value"], "all 5 values are missing"),
    "all infinite": (["wild.csv", "--value", "value"], "none of 5 values is finite"),
    "one row": (["one.csv"], "fewer than two values"),
    "three rows": (["three.csv"], "at least 4 values"),
    "unknown model": (["good.csv", "--model", "local-levl"], "Did you mean 'local-level'?"),
    "unknown method": (["good.csv", "--method", "WoLF-TDM"], "Did you mean 'WoLF-TMD'?"),
    "bad option": (["good.csv", "--method", "WoLF-TMD:c"], "NAME:c=4.0"),
    "bad season": (["good.csv", "--model", "seasonal:x"], "written seasonal:PERIOD"),
    "bad setting": (["good.csv", "--set", "obs_var"], "--set obs_var=2.5"),
    "unknown parameter": (["good.csv", *LEVEL, "--set", "slope_var=1"], "it has level_var, obs_var"),
    "negative variance": (["good.csv", "--set", "obs_var=-1"], "must be a positive number; got -1.0"),
    "bad level": (["good.csv", "--level", "95"], "between 0 and 1"),
    "no folder": (["good.csv", "--out", "deep/out.csv"], "the folder deep does not exist"),
    "target is a folder": (["good.csv", "--out", "sub"], "is a folder"),
    "no model file": (["good.csv", "--model", "none.toml"], "there is no model file"),
    "broken model file": (["good.csv", "--model", "broken.toml"], "not a TOML file"),
    "bad dates": (["dates.csv", "--time", "time"], "row 2 (line 3 of the file): 'yesterday'"),
    "no time stamp": (["hole.csv", "--time", "time"], "row 2 has no time stamp"),
    "no header": (["numbers.csv"], "--no-header"),
    "twice": (["twice.csv"], "two columns called 'a'"),
    "ragged": (["ragged.csv"], "Expected 2 columns, got 3"),
    "not parquet": (["text.parquet"], "not a parquet table"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_nothing_is_written(folder, values, case):
    arguments, words = BAD[case]
    write_readings("good.csv", values)
    os.mkdir("sub")
    texts = {
        "empty.csv": "",
        "header.csv": "time,value\n",
        "words.csv": "a,b\nx,y\nz,w\n",
        "oops.csv": "value\n" + "\n".join("oops" if i == 16 else str(i % 7) for i in range(30)),
        "constant.csv": "value\n" + "3\n" * 20,
        "blank.csv": "i,value\n" + "".join(f"{i},\n" for i in range(5)),
        "wild.csv": "i,value\n" + "".join(f"{i},inf\n" for i in range(5)),
        "one.csv": "value\n3\n",
        "three.csv": "value\n3\n4\n3.5\n",
        "broken.toml": "a = [",
        "dates.csv": "time,value\n2024-01-01,1\nyesterday,2\n2024-01-03,1\n",
        "hole.csv": "time,value\n1,1\n,2\n3,1\n4,2\n5,1\n",
        "numbers.csv": "1.5,2.5\n3,4\n",
        "twice.csv": "a,a\n1,2\n",
        "ragged.csv": "a,b\n1,2\n3,4,5\n",
        "text.parquet": "a,b\n1,2\n",
    }
    for name, text in texts.items():
        Path(name).write_text(text)
    Path("binary.csv").write_bytes(b"value\n1\n\x02\x00\n")
    before = sorted(os.listdir())
    result = invoke("filter", *arguments, "--report", "report.html")
    assert result.exit_code == 2, result.output
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("Error: ")
    assert words in last
    assert "Traceback" not in result.output
    assert sorted(os.listdir()) == before


def test_a_file_that_may_not_be_read_or_written_is_one_line(folder, values, monkeypatch):
    write_readings("readings.csv", values)

    def fail(*arguments):
        raise PermissionError(13, "Permission denied", "readings.csv")

    monkeypatch.setattr(io.table_reader, "_read_file", fail)
    result = invoke("filter", "readings.csv")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == "Error: Permission denied: readings.csv"
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(os, "access", lambda *arguments: False)
    result = invoke("filter", "readings.csv")
    assert result.exit_code == 2
    assert "no permission to write" in result.stderr


def test_a_write_that_fails_leaves_the_old_file(folder, values, monkeypatch):
    write_readings("readings.csv", values)
    Path("out.csv").write_text("precious")

    def fail(*arguments):
        arguments[0].write(b"half")
        raise OSError(28, "No space left on device", "out.csv")

    monkeypatch.setattr(io.table_writer, "_write", fail)
    result = invoke("filter", "readings.csv", "--out", "out.csv")
    assert result.exit_code == 2
    assert "No space left" in result.stderr
    assert sorted(os.listdir()) == ["out.csv", "readings.csv"]
    assert Path("out.csv").read_text() == "precious"


def test_long_series_are_chunked_and_fitted_on_a_sample(folder, monkeypatch):
    from wolf.cleaning import runs

    model = wolf.models.local_level(0.1, 1.0, wolf.Gaussian([0.0], [[1.0]]))
    ys = wolf.simulate.trajectory(model, 1000, 1, wolf.simulate.Additive(0.05, -50.0, 50.0)).measurements
    Path("long.csv").write_text("\n".join(["value", *map(cell, ys[:, 0])]))
    known = ("--set", "level_var=0.1", "--set", "obs_var=1")
    invoke("filter", "long.csv", "--out", "whole.csv", "--causal", *known)
    monkeypatch.setattr(runs, "CHUNK_ROWS", 256)
    invoke("filter", "long.csv", "--out", "chunks.csv", "--causal", *known)
    np.testing.assert_allclose(read("chunks.csv")["mean"], read("whole.csv")["mean"], rtol=1e-12)
    monkeypatch.setattr(runs, "MAX_FIT_ROWS", 256)
    assert "on a sample: rows 373 to 628 of 1,000" in invoke("filter", "long.csv", *LEVEL).stdout


def test_compare_ranks_methods_by_prediction(folder, values):
    write_readings("readings.csv", values)
    result = invoke("compare", "readings.csv", "--method", "KF", "--method", "WoLF", "--method", "WoLF-TMD:c=9")
    assert result.exit_code == 0, result.output
    rows = {line.split()[0]: line.split() for line in result.output.splitlines() if line.startswith(("KF", "WoLF"))}
    assert set(rows) == {"KF", "WoLF", "WoLF-TMD:c=9"}
    assert float(rows["WoLF"][1]) > float(rows["KF"][1])
    assert rows["KF"][4] == "0.0%"


def test_naming_a_column_twice_is_naming_it_once(folder, values):
    write_readings("readings.csv", values)
    result = invoke("filter", "readings.csv", "--value", "temperature", "--value", "temperature")
    assert result.exit_code == 0
    assert "values        temperature\n" in result.output


def test_methods_without_a_threshold_cannot_be_tuned(folder, values):
    write_readings("readings.csv", values)
    result = invoke("tune", "readings.csv", "--method", "KF")
    assert result.exit_code == 2
    assert "use one with a threshold" in result.stderr


def test_tune_prints_the_option_to_use(folder, values):
    write_readings("readings.csv", values)
    result = invoke("tune", "readings.csv", "--method", "WoLF-TMD")
    assert result.exit_code == 0, result.output
    option = result.output.split("--method ")[1].strip()
    assert re.fullmatch(r"WoLF-TMD:c=[\d.]+", option)
    assert invoke("filter", "readings.csv", "--method", option).exit_code == 0


def test_simulated_readings_have_the_truth_beside_them(folder):
    options = ["--steps", "300", "--outliers", "0.1", "--missing", "0.05", "--seed", "3"]
    result = invoke("simulate", *options, "--out", "sim.csv")
    assert result.exit_code == 0, result.output
    table = read("sim.csv")
    assert list(table) == ["time", "value", "truth", "is_outlier"]
    assert 10 < sum(table["is_outlier"]) < 60
    assert any(value is None for value in table["value"])
    again = invoke("simulate", *options)
    assert again.stdout == Path("sim.csv").read_text()
    track = invoke("simulate", "--model", "wiener-velocity", "--columns", "2", "--steps", "10")
    assert track.stdout.splitlines()[0] == "time,value_1,value_2,truth_1,truth_2,is_outlier"
    assert invoke("simulate", "--columns", "2").exit_code == 2
    assert invoke("simulate", "--set", "q=1").exit_code == 2


def test_models_are_listed():
    output = invoke("models").output
    assert all(name in output for name in (*wolf.models.names(), ".toml"))
    assert all(name in output for name in ("level_var", "slope_var", "seasonal_var", "accel_rate", "dynamics_var"))


def test_dates_with_zones_and_semicolons_are_read(folder):
    Path("comma.csv").write_text("when;y\n2024-05-01T10:00:00Z;1,5\n")
    table = io.read_table("comma.csv")
    assert io.number_column(table, "y").values.tolist() == [1.5]
    axis = io.time_column(table, "when")
    assert axis.zoned
    assert axis.write(np.array([3600.0])) == ["2024-05-01T11:00:00Z"]


def test_accuracy_and_scale_are_options(folder):
    pm = np.exp(np.random.default_rng(0).normal(2, 0.3, 80))
    Path("air.csv").write_text("pm,acc\n" + "".join(f"{value},1.0\n" for value in pm))
    options = ["--value", "pm", "--sd", "acc", "--transform", "log", "--set", "level_var=0.01", "--set", "obs_var=0.1"]
    done = CliRunner().invoke(main, ["filter", "air.csv", "--model", "local-level", *options])
    assert done.exit_code == 0, done.output
    assert "transform log" in done.output
    assert min(arrow_csv.read_csv("air-clean.csv")["prediction_lower"].to_pylist()) > 0.0
