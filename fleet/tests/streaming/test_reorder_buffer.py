"""The reorder buffer: order and lateness follow from the rows alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wolf_fleet.streaming.reorder_buffer import ReorderBuffer
from wolf_fleet.streaming.row_parser import RowBatch

pytestmark = pytest.mark.thorough


@given(
    times=st.lists(st.integers(0, 12), min_size=1, max_size=30),
    cuts=st.lists(st.integers(1, 29), max_size=3),
    lateness=st.integers(0, 4),
)
def test_order_and_lateness_follow_from_the_rows_alone(times, cuts, lateness):
    keys = [f"s{(7 * i) % 3}" for i in range(len(times))]
    rows = RowBatch(keys, np.array(times, float), np.arange(len(times), dtype=float)[:, None])

    def play(pieces):
        buffer, gone, late, last = ReorderBuffer(float(lateness), 1), [], 0, {}
        for piece in pieces:
            released, more, _ = buffer.push(
                rows.take(piece), lambda asked: np.array([last.get(k, np.nan) for k in asked])
            )
            for key, t, (i,) in zip(*released, strict=True):
                assert t >= last.get(key, -np.inf)  # the rows of a key are let go in order
                last[key] = t
                gone.append(int(i))
            late += more
        return gone + [int(i) for i in buffer.flush().values[:, 0]], late

    one_by_one, late = play([np.array([i]) for i in range(len(times))])
    assert play(np.split(np.arange(len(times)), sorted(c for c in cuts if c < len(times)))) == (one_by_one, late)
    assert len(one_by_one) + late == len(times)
    newest = np.maximum.accumulate(times)
    assert {i for i in range(1, len(times)) if times[i] >= newest[i - 1] - lateness} <= set(one_by_one)


def test_a_row_at_the_watermark_is_in_time_and_one_before_it_is_late():
    buffer = ReorderBuffer(2.0, 1)
    rows = RowBatch(["a", "a", "a"], np.array([10.0, 8.0, 7.0]), np.zeros((3, 1)))
    released, late, _ = buffer.push(rows, lambda asked: np.array([9.0 for _ in asked]))
    assert late == 1
    assert sorted([*released.times, *buffer.flush().times]) == [8.0, 10.0]
