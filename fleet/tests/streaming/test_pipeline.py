"""The pipeline: results do not depend on how rows are cut into batches."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wolf
from wolf_fleet.streaming.pipeline import Pipeline, make_columns
from wolf_fleet.streaming.row_parser import RowBatch

pytestmark = pytest.mark.thorough
pytest.importorskip("llvmlite")
LEVEL = wolf.models.local_level(0.1, 1.0)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), cuts=st.sets(st.integers(1, 59), max_size=8).map(sorted))
def test_expiry_does_not_depend_on_batches(seed, cuts):
    """Includes rows whose key expired long ago, and rows from clocks that lag."""
    rng = np.random.default_rng(seed)
    clock = np.cumsum(rng.exponential(2.0, 60))
    lag = np.where(rng.random(60) < 0.2, rng.uniform(0, 60, 60), 0.0)
    rows = RowBatch([f"s{k}" for k in rng.integers(3, size=60)], np.round(clock - lag, 1), rng.normal(size=(60, 1)))
    whole, pieces = (filter_in_batches(rows, ends) for ends in ([60], [*cuts, 60]))
    assert whole[0] == pieces[0]
    for one, other in zip(whole[1:], pieces[1:], strict=True):
        np.testing.assert_array_equal(one, other)


def filter_in_batches(rows, ends):
    """Filter rows in batches, and drop expired keys after each batch, as a commit does."""
    pipeline = Pipeline(wolf.Bank(LEVEL), make_columns("id", "v", "t"), 2.0, 1.0, 0.95, idle_timeout=10.0)
    filtered, begin = [], 0
    for end in ends:
        filtered.append(pipeline.process(rows.take(np.arange(begin, end)), 0.0))
        pipeline.drop_expired()
        begin = end
    filtered.append(pipeline.flush())
    some = [each for each in filtered if each is not None]
    whole = some[0].join(some[1:])
    counts = pipeline.summary(0)
    return (whole.rows.keys, counts.late, counts.repeated), whole.rows.times, whole.stepped.mean


NOW = 1_795_000_000.0


@pytest.mark.parametrize("unit", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("cuts", [[], [1], [1, 2, 3]])
@pytest.mark.parametrize("position", [0, 3])
def test_a_row_in_another_unit_makes_no_other_row_late(unit, cuts, position):
    times = NOW + np.arange(8.0)
    times[position] *= unit
    keys = ["a", "b", "c", "d", "b", "c", "d", "e"]
    pipeline = Pipeline(wolf.Bank(LEVEL), make_columns("id", "v", "t"), 2.0, 1.0, 0.95, idle_timeout=60.0)
    for some in np.split(np.arange(8), cuts):
        pipeline.process(RowBatch(keys, times, np.zeros((8, 1))).take(some), NOW)
    pipeline.flush()
    counts = pipeline.summary(0)
    assert (counts.rows, counts.late) == (8, 0)
    assert counts.used + counts.ahead == 8
    assert counts.ahead == (position > 0)


def test_a_count_of_steps_is_not_taken_for_a_time():
    pipeline = Pipeline(wolf.Bank(LEVEL), make_columns("id", "v", "t"), 2.0, 1.0, 0.95, idle_timeout=60.0)
    rows = RowBatch(["a", "b", "a", "b"], np.array([1.0, 1.0, NOW * 1e3, 2.0]), np.zeros((4, 1)))
    pipeline.process(rows, NOW)
    pipeline.flush()
    assert (pipeline.counts.used, pipeline.counts.ahead) == (3, 1)
