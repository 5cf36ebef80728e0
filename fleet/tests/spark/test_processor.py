"""What runs in Spark for a bucket of keys: the same bits however a stream is cut into micro-batches. Needs no Java."""

import itertools

import numpy as np
import pandas
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wolf
from wolf.online import filter_batches

pytest.importorskip("pyspark")
pytest.importorskip("google.protobuf")
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("default")]
LEVEL = wolf.models.local_level(0.1, 1.0)
ROWS, LATENESS = 80, 5  # seconds


class Value:
    """A value of Spark's state."""

    held = None

    def exists(self):
        return self.held is not None

    def get(self):
        return self.held

    def update(self, value):
        self.held = value

    def clear(self):
        self.held = None


class Handle:
    """Spark's side of a processor; it fails, as Spark warns, when a timer is set twice."""

    def __init__(self):
        self.timers = set()

    def getValueState(self, name, schema):
        return Value()

    def listTimers(self):
        return iter(sorted(self.timers))

    def registerTimer(self, time):
        assert time not in self.timers
        self.timers.add(time)


class Watermark:
    def __init__(self, now):
        self.now = now

    def getCurrentWatermarkInMs(self):
        return self.now


def play(processor, handle, batches):
    """Do as Spark does: rows first, then the timers that the watermark has passed; it moves after each micro-batch."""
    frames, watermark = [], 0
    for batch in batches:
        now = Watermark(watermark)
        if len(batch):
            frames += list(processor.handleInputRows(key=(0,), rows=iter([batch]), timerValues=now))
        for timer in sorted(time for time in handle.timers if time <= watermark):
            handle.timers.remove(timer)
            frames += list(processor.handleExpiredTimer(key=(0,), timerValues=now, expiredTimerInfo=None))
        if len(batch):
            watermark = max(watermark, int(batch["us"].max()) // 1000 - LATENESS * 1000)
    return pandas.concat(frames)


@given(cuts=st.lists(st.integers(0, ROWS), max_size=6), seed=st.integers(0, 3))
def test_micro_batches_cut_anywhere_give_the_same_bits(cuts, seed):
    from wolf_fleet.spark.processor import BucketProcessor

    rng = np.random.default_rng(seed)
    us = np.sort(rng.choice(60_000_000, ROWS, replace=False)) + 1
    late = np.argsort(us + rng.uniform(0, 4e6, ROWS))  # never more than the lateness
    keys = np.array([f"s{k}" for k in rng.integers(3, size=ROWS)], object)
    rows = pandas.DataFrame({"id": keys, "us": us, "v": rng.normal(size=ROWS)})
    stamps = pyarrow.array(us, pyarrow.timestamp("us"))
    table = pyarrow.table({"id": keys.tolist(), "us": stamps, "v": rows["v"].to_numpy()})
    expected = filter_batches(table, LEVEL, key="id", values="v", time="us").read_all()
    names = ["id", "us", "v", *expected.column_names[3:]]
    handle = Handle()
    processor = BucketProcessor(LEVEL, wolf.Bank(LEVEL).method, ("id", "us", "v"), 1.0, 0.95, names)
    processor.init(handle)
    ends = [0, *sorted(cuts), ROWS]
    mixed = rows.iloc[late].reset_index(drop=True)
    batches = [mixed.iloc[first:last] for first, last in itertools.pairwise(ends)]
    end = pandas.DataFrame({"id": ["end"], "us": [10**9], "v": [0.0]})
    got = play(processor, handle, [*batches, end, end.iloc[:0]]).sort_values("us", kind="stable")
    assert got["us"].tolist() == us.tolist()
    for name in names:
        if name != "us":
            assert got[name].tolist() == expected[name].to_pylist()
