"""A table is read again and written in pieces: their size changes nothing, and nothing of a long file is held."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import feather, parquet

from wolf.cleaning import io, prepared_series, runs
from wolf.cli import main
from wolf.cli.commands import filter_output

ROWS = 300
PIECE = 16  # rows; missing values, doubled times and a text with a line end lie at its borders
KNOWN = ("--set", "level_var=0.1", "--set", "obs_var=1")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def invoke(*arguments, **options):
    result = CliRunner().invoke(main, [*map(str, arguments)], **options)
    assert result.exit_code == 0, result.output
    return result


def write_readings(path, order=slice(None), doubled=False, uneven=False):
    rng = np.random.default_rng(4)
    values = np.cumsum(0.3 * rng.normal(size=ROWS)) + rng.normal(size=ROWS)
    values[[40, 41, 200]] += 60.0
    times = np.cumsum(rng.exponential(10.0, ROWS)).round(3) if uneven else np.arange(ROWS)
    if doubled:
        times[PIECE] = times[PIECE - 1]
    notes = ['"a\nb"' if i % PIECE in (0, PIECE - 1) else "" for i in range(ROWS)]
    missing = {PIECE - 1, PIECE, 2 * PIECE, ROWS - 1}
    rows = [
        f"{times[i]},{'' if i in missing else f'{values[i]:.4f}'},{values[i] ** 2:.3f},{'AB'[i % 2]},{notes[i]}"
        for i in range(ROWS)
    ]
    Path(path).write_text("\n".join(["time,value,other,sensor,note", *np.array(rows)[order]]) + "\n")


CASES = {
    "plain": ({}, ()),
    "forecast": ({}, ("--forecast", "3")),
    "uneven": ({"uneven": True}, ("--forecast", "2")),
    "doubled": ({"doubled": True}, ()),
    "unsorted": ({"order": np.r_[PIECE, 0:PIECE, PIECE + 1 : ROWS]}, ()),
    "several": ({}, ("--value", "other")),
    "smooth": ({}, ("--smooth",)),
    "sensors": ({}, ("--by", "sensor", "--forecast", "2")),
    "other kind": ({}, ("--out", "readings-clean.parquet")),
}


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES)
def test_the_size_of_pieces_changes_nothing(folder, monkeypatch, case):
    made, arguments = CASES[case]
    write_readings("readings.csv", **made)
    results = []
    for size in (None, PIECE):
        if size:
            monkeypatch.setattr(runs, "CHUNK_ROWS", size)
            monkeypatch.setattr(filter_output, "PIECE_ROWS", 2 * size + 1)
            monkeypatch.setattr(io.csv_reader, "BLOCK_BYTES", 1)
        result = invoke("filter", "readings.csv", "--time", "time", "--value", "value", *KNOWN, *arguments)
        written = next(Path().glob("readings-clean.*"))
        results.append((result.output, _content(written)))
        written.unlink()
    assert results[0] == results[1]


def _content(path):
    return path.read_bytes() if path.suffix == ".csv" else parquet.read_table(path).to_pydict()


def test_pieces_of_standard_input_and_of_compressed_files_are_those_of_the_file(folder, monkeypatch):
    write_readings("readings.csv")
    text = Path("readings.csv").read_text()
    invoke("filter", "readings.csv", "--value", "value", *KNOWN)
    expected = Path("readings-clean.csv").read_text()
    monkeypatch.setattr(runs, "CHUNK_ROWS", PIECE)
    monkeypatch.setattr(io.csv_reader, "BLOCK_BYTES", 1)
    assert invoke("filter", "-", "--value", "value", *KNOWN, input=text).stdout == expected
    with pa.output_stream("packed.csv.gz", compression="gzip") as packed:
        packed.write(text.encode())
    invoke("filter", "packed.csv.gz", "--value", "value", *KNOWN)
    assert Path("packed.csv-clean.csv").read_text() == expected


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_categories_that_differ_from_piece_to_piece_are_kept(folder, monkeypatch, kind):
    parts = [pa.array(["x", "y"] * 50).dictionary_encode(), pa.array(["z", "x"] * 50).dictionary_encode()]
    table = pa.table({"value": np.random.default_rng(0).normal(size=200), "kind": pa.chunked_array(parts)})
    parquet.write_table(table, "readings.parquet")
    monkeypatch.setattr(runs, "CHUNK_ROWS", PIECE)
    monkeypatch.setattr(io.table_writer, "ROW_GROUP_ROWS", 100)
    invoke("filter", "readings.parquet", "--value", "value", *KNOWN, "--forecast", "2", "--out", f"out.{kind}")
    out = {"parquet": parquet.read_table, "arrow": feather.read_table}[kind](f"out.{kind}")
    assert out["kind"].to_pylist() == [*table["kind"].to_pylist(), None, None]


def test_a_file_that_was_filtered_can_be_filtered_again_and_again(folder):
    write_readings("readings-0.csv")
    for i in range(3):
        invoke("filter", f"readings-{i}.csv", "--value", "value", *KNOWN, "--out", f"readings-{i + 1}.csv")
    header = Path("readings-3.csv").read_text().splitlines()[0].split(",")
    assert [name for name in header if name.endswith("mean")] == ["mean", "wolf_mean", "wolf_wolf_mean"]


def test_rows_are_counted_through_all_pieces():
    cells = pa.chunked_array([["1", "2"], ["3", "oops", ""], ["5"]])
    table = io.Table("some.csv", pa.table({"value": cells}), "csv", ",", lambda: iter(()))
    with pytest.raises(ValueError, match=r"row 4 .*'oops'"):
        io.number_column(table, "value")
    numbers, bad, *_ = io.number_column(table, "value", "missing")
    np.testing.assert_array_equal(numbers, [1.0, 2.0, 3.0, np.nan, np.nan, 5.0])
    assert bad == [3]


@pytest.mark.parametrize(
    ("cells", "row"),
    [
        ([["2024-01-01", ""], ["", "yesterday", "2024-01-03"]], 4),
        ([["2024-01-01 10:00:00"], ["2024-01-01 10:00:01", "2024-01-01 10:00:02Z"]], 3),
        ([["2024-01-01 10:00:00Z"], ["2024-01-01 10:00:01"]], 2),
    ],
)
def test_a_time_in_another_style_is_reported_with_its_row(cells, row):
    data = pa.table({"time": pa.chunked_array(cells)})
    table = io.Table("some.csv", data, "csv", ",", lambda: iter(()))
    with pytest.raises(ValueError, match=f"row {row} "):
        io.time_column(table, "time")


def test_rows_that_were_added_are_left_out_and_changes_are_reported(folder):
    write_readings("readings.csv")
    table = io.read_table("readings.csv").without_rows()
    with open("readings.csv", "a") as file:
        file.write("300,1,1,A,\n")
    assert io.RowReader(table).read(ROWS).num_rows == ROWS
    with pytest.raises(ValueError, match="was changed"):
        io.RowReader(table).read(ROWS + 1)
    text = Path("readings.csv").read_text()
    Path("readings.csv").write_text(text.replace("A", "B"))
    with pytest.raises(ValueError, match="was changed"):
        io.RowReader(table).read(ROWS)
    Path("readings.csv").write_text(text[:1000])
    with pytest.raises(ValueError, match="was changed"):
        io.RowReader(table).read(ROWS)


def test_a_file_that_changes_under_way_leaves_nothing_written(folder, monkeypatch):
    write_readings("readings.csv")
    start = prepared_series.deviations

    def meddle(level):
        Path("readings.csv").write_text(Path("readings.csv").read_text().replace("A", "B"))
        return start(level)

    monkeypatch.setattr(prepared_series, "deviations", meddle)
    result = CliRunner().invoke(main, ["filter", "readings.csv", "--value", "value", *KNOWN])
    assert result.exit_code == 2
    assert "was changed while it was being filtered" in result.stderr
    assert [path.name for path in Path().iterdir()] == ["readings.csv"]


def test_filtering_a_file_does_not_import_pandas(folder):
    write_readings("readings.csv")
    code = "import sys; from wolf.cli import main; main(standalone_mode=False); print('pandas' in sys.modules)"
    command = [sys.executable, "-c", code, "filter", "readings.csv", "--value", "value", *KNOWN]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


PEAK = (
    "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, capture_output=True);"
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)"
)


def peak_memory(*command):
    done = subprocess.run([sys.executable, "-c", PEAK, *command], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted in other units elsewhere")
def test_a_million_rows_live_take_no_more_memory_than_the_libraries_and_ten_times_the_file(folder):
    rng = np.random.default_rng(0)
    values = np.cumsum(0.3 * rng.normal(size=1_000_000)) + rng.normal(size=1_000_000)
    with open("long.csv", "w") as file:
        file.write("time,value\n")
        file.writelines(f"{i},{y:.4f}\n" for i, y in enumerate(values))
    idle = peak_memory(sys.executable, "-c", "import wolf.cleaning, pandas")  # with the libraries that it runs on
    size = Path("long.csv").stat().st_size
    # A causal run filters rows in chunks; a retrospective one holds the whole series.
    used = peak_memory(sys.executable, "-m", "wolf", "filter", "long.csv", "--causal")
    assert used < idle + 10 * size
