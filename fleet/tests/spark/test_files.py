"""`wolf_fleet.spark.filter_parquet` without Spark: a stand-in for the session runs the tasks."""

import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow
import pytest
from fleet.tests.spark.test_batch import LEVEL, NAMES, ROWS, rows_of_few_times
from pyarrow import dataset, fs, parquet

import wolf_fleet.spark
from wolf_fleet.datasets import filesystem, filter_dataset

pytest.importorskip("llvmlite")


class Session:
    """Spark's side of `filter_parquet`: it does each task as often as it is told, at least once."""

    def __init__(self, attempts):
        self.sparkContext = SimpleNamespace(defaultParallelism=2)
        self.attempts, self.done = attempts, []

    def range(self, first, end, step, pieces):
        assert (first, end - first, step) == (0, pieces, 1)
        self.pieces = pieces
        return self

    def mapInArrow(self, function, schema):
        work = pickle.loads(pickle.dumps(function))
        for piece in range(self.pieces):
            for _ in range(self.attempts):
                (out,) = work(iter([pyarrow.record_batch({"id": [piece]})]))
            self.done.append(out.to_pylist()[0])
        return SimpleNamespace(collect=lambda: self.done[-self.pieces :])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(__version__="4.3.0", cloudpickle=pickle))
    (tmp_path / "in").mkdir()
    for i in range(4):
        table = rows_of_few_times(np.random.default_rng(i)).select(["id", "at", "v"])
        parquet.write_table(table, tmp_path / "in" / f"rows{i}.parquet")
    return tmp_path


def test_tasks_that_are_done_twice_leave_one_copy_with_the_bits_of_one_machine(folder):
    spark = Session(attempts=2)
    done = wolf_fleet.spark.filter_parquet(spark, folder / "in", f"file://{folder}/out", **NAMES)
    one = filter_dataset(folder / "in", folder / "one", LEVEL, key="id", values="v", time="at", workers=1)
    assert (done.rows, done.keys, done.outliers, done.unused) == (4 * ROWS, 4, one.outliers, one.unused)
    assert sum(part["rows"] for part in done.parts) == done.rows
    assert {part["file"] for part in done.parts} == {path.name for path in (folder / "out").glob("*.parquet")}
    order = [(name, "ascending") for name in ("id", "at", "v", "mean")]
    got, expected = (dataset.dataset(folder / name).to_table().sort_by(order) for name in ("out", "one"))
    assert got.equals(expected)
    assert (folder / "out" / "_SUCCESS").exists()
    before = len(spark.done)
    again = wolf_fleet.spark.filter_parquet(spark, folder / "in", folder / "out", **NAMES, mode="resume")
    assert (again, len(spark.done)) == (done, before)
    wolf_fleet.spark.filter_parquet(spark, folder / "in", folder / "out", **NAMES, level=0.9, mode="overwrite")
    assert len(spark.done) == 2 * before


def test_files_with_whole_keys_are_not_shuffled(folder):
    table = dataset.dataset(folder / "in").to_table()
    (folder / "whole").mkdir()
    for i, some in enumerate((["s2", "s0"], ["s3"], ["s1"])):
        mine = table.filter(pyarrow.compute.is_in(table["id"], pyarrow.array(some)))
        parquet.write_table(mine, folder / "whole" / f"rows{i}.parquet")
    spark = Session(1)
    done = wolf_fleet.spark.filter_parquet(spark, folder / "whole", folder / "out", **NAMES, shuffle=False)
    assert (done.keys, len(spark.done)) == (4, 3)  # a task for each file, in one round
    wolf_fleet.spark.filter_parquet(spark, folder / "whole", folder / "one", **NAMES)
    order = [(name, "ascending") for name in ("id", "at", "v", "mean")]
    got, expected = (dataset.dataset(folder / name).to_table().sort_by(order) for name in ("out", "one"))
    assert got.equals(expected)


def test_folders_may_lie_behind_a_uri(folder, monkeypatch):
    remote = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())
    filter_dataset(folder / "in", folder / "one", LEVEL, key="id", values="v", time="at", workers=1)
    monkeypatch.setattr(filesystem, "locate", lambda name: filesystem.Location(f"far://{name}", str(name), remote))
    done = wolf_fleet.spark.filter_parquet(Session(1), "in", "out", **NAMES)
    assert str(done).endswith("wrote far://out")
    order = [(name, "ascending") for name in ("id", "at", "v", "mean")]
    got, expected = (dataset.dataset(folder / name).to_table().sort_by(order) for name in ("out", "one"))
    assert got.equals(expected)
    with pytest.raises(ValueError, match="far://out exists"):
        wolf_fleet.spark.filter_parquet(Session(1), "in", "out", **NAMES)
    with pytest.raises(ValueError, match="far://in was not written by wolf"):
        wolf_fleet.spark.filter_parquet(Session(1), "out", "in", **NAMES, mode="overwrite")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"spark": 3}, "spark must be a SparkSession; got 3"),
        ({"spark": SimpleNamespace(range=None)}, "does not report its number of cores; give tasks="),
        ({"mode": "append"}, "mode must be one of"),
        ({"source": "nowhere"}, "nowhere is not a folder"),
        ({"source": 3}, "must be a path or a URI; got 3"),
        ({"source": "gopher://in"}, "gopher://in cannot be opened"),
        ({"destination": "in", "mode": "resume"}, "lies in"),
        ({"destination": "."}, "exists; choose another folder"),
        ({"destination": ".", "mode": "overwrite"}, "lies in the output"),
        ({"value": "w"}, "there is no column 'w'"),
        ({"tasks": 0}, "tasks must be"),
        ({"memory": 1e6}, "memory must be at least 0.3 GB"),
        ({"step": -1.0}, "step must be"),
    ],
)
def test_what_is_wrong_with_a_folder_is_said(folder, monkeypatch, changes, words):
    monkeypatch.chdir(folder)
    given = {"spark": Session(1), "source": "in", "destination": "out"} | NAMES | changes
    with pytest.raises(ValueError, match=words):
        wolf_fleet.spark.filter_parquet(given.pop("spark"), given.pop("source"), given.pop("destination"), **given)


def test_what_a_task_finds_wrong_is_said_and_not_repeated(folder):
    table = pyarrow.table({"id": ["a", None], "at": [0.0, 1.0], "v": [0.0, 0.0]})
    parquet.write_table(table, folder / "in" / "rows4.parquet")
    with pytest.raises(ValueError, match="a row has no key: 'id' contains a null"):
        wolf_fleet.spark.filter_parquet(Session(1), folder / "in", folder / "out", **NAMES)
