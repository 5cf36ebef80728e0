"""Recent rows of keys."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wolf_fleet.service.recent_rows import RecentRows
from wolf_fleet.streaming.incidents.row_view import RowView

pytestmark = pytest.mark.thorough

ARRIVALS = st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), max_size=30), max_size=4)


def make_rows(batch):
    values = np.array([float(v) for _, v, _ in batch])
    flags = np.array([flag for *_, flag in batch], bool)[:, None]
    return RowView(values, values[:, None], values[:, None], values[:, None], values, flags)


@given(batches=ARRIVALS, keep=st.integers(1, 20))
def test_the_last_rows_of_each_key_are_kept(batches, keep):
    recent, whole = RecentRows(keep, 1), []
    for batch in batches:
        recent.add([f"k{key}" for key, *_ in batch], make_rows(batch))
        whole += batch
    for key in range(3):
        rows, _ = recent.of(f"k{key}", 1000)
        assert rows.times.tolist() == [float(v) for k, v, _ in whole[-keep:] if k == key]
