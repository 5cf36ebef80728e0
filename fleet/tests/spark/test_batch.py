"""What `wolf_fleet.spark` does without Spark: what it refuses, and what becomes of a partition."""

import sys
from types import SimpleNamespace

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wolf
import wolf_fleet.spark
from wolf_fleet.spark import batch

pytest.importorskip("llvmlite")
LEVEL = wolf.models.local_level(0.1, 1.0)
NAMES = {"key": "id", "time": "at", "value": "v", "model": LEVEL}


def frame(streaming):
    return SimpleNamespace(isStreaming=streaming, schema=None, columns=["id", "at", "v"])


def test_without_pyspark_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ModuleNotFoundError, match=r"fleet\[spark\]"):
        wolf_fleet.spark.filter(frame(False), **NAMES)
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(__version__="3.5.1"))
    with pytest.raises(ModuleNotFoundError, match=r"this is PySpark 3\.5\.1"):
        wolf_fleet.spark.stream(frame(True), **NAMES)


@pytest.mark.parametrize(
    ("function", "df", "changes", "words"),
    [
        (wolf_fleet.spark.filter, [1.0], {}, "df must be a Spark DataFrame"),
        (wolf_fleet.spark.filter, frame(True), {}, "df is a stream; use wolf_fleet.spark.stream"),
        (wolf_fleet.spark.stream, frame(False), {}, "df is a table; use wolf_fleet.spark.filter"),
        (wolf_fleet.spark.filter, frame(False), {"value": "w"}, "there is no column 'w'; there are 'id', 'at', 'v'"),
        (wolf_fleet.spark.filter, frame(False), {"time": None}, "there is no column None"),
        (wolf_fleet.spark.filter, frame(False), {"time": "id"}, "must be different columns"),
        (wolf_fleet.spark.filter, frame(False), {"step": 0.0}, "step must be"),
        (wolf_fleet.spark.stream, frame(True), {"buckets": 0}, "buckets must be"),
    ],
)
def test_what_is_wrong_is_said(monkeypatch, function, df, changes, words):
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(__version__="4.3.0"))
    with pytest.raises(ValueError, match=words):
        function(df, **NAMES | changes)


ROWS = 90
ORDER = [("at", "ascending"), ("id", "ascending"), ("v", "ascending"), ("w", "ascending")]


def rows_of_few_times(rng):
    """Rows of few keys and times, so that many are of one key and one time; some values are null."""
    v = np.where(rng.random(ROWS) < 0.2, np.nan, rng.integers(0, 3, ROWS).astype(float))
    columns = {
        "id": [f"s{k}" for k in rng.integers(4, size=ROWS)],
        "at": np.sort(rng.integers(8, size=ROWS)).astype(float),
    }
    return pyarrow.table(columns | {"v": pyarrow.array(v, from_pandas=True), "w": rng.normal(size=ROWS)})


@given(seed=st.integers(0, 30), cut=st.integers(1, 40))
def test_neither_batches_nor_the_order_within_a_time_change_a_partition(small_batches, seed, cut):
    rng = np.random.default_rng(seed)
    table = rows_of_few_times(rng)
    other = table.take(np.lexsort((rng.random(ROWS), np.array(table["at"]))))
    track = wolf.models.constant_velocity(dims=2, dt=1.0, dynamics_var=0.1, obs_var=10.0)
    partition = batch.PartitionFilter(track, None, "id", ("v", "w"), "at", 1.0, 0.95, shuffled=True)
    one, two = (
        pyarrow.Table.from_batches(partition(iter(each.to_batches(max_chunksize=size)))).sort_by(ORDER)
        for each, size in ((table, ROWS), (other, cut))
    )
    assert one.equals(two)
    used = one.filter(one["v_mean"].is_valid())
    assert used.num_rows == len(set(zip(*(table[name].to_pylist() for name in ("id", "at")), strict=True)))


@pytest.fixture(scope="module")
def small_batches():
    """Reduce the rows of a batch, so that equal times are split over batches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "BATCH_ROWS", 16)
        yield
