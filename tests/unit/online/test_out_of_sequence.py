"""Out-of-sequence rows of a bank: states equal those of the rows in order."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wolf

pytest.importorskip("llvmlite")
LEVEL = wolf.models.local_level(0.1, 1.0)


def dumps(bank):
    return {key: bank.dump(key) for key in bank}


@given(
    times=st.lists(st.integers(0, 15), min_size=1, max_size=25),
    cuts=st.lists(st.integers(1, 24), max_size=4),
    horizon=st.integers(1, 15),
)
def test_states_equal_those_of_rows_in_order(times, cuts, horizon):
    rows = [(f"k{(3 * i) % 2}", float(t), float((5 * i) % 7)) for i, t in enumerate(times)]
    ordered = wolf.online.OutOfSequenceBank(wolf.Bank(LEVEL), float(horizon))
    used, edges = [], [0, *sorted(c for c in set(cuts) if c < len(rows)), len(rows)]
    for first, last in pairwise(edges):
        if last > first:
            keys, when, ys = zip(*rows[first:last], strict=True)
            used += ordered.step(keys, ys, when).used.tolist()
    kept = [row for row, is_used in zip(rows, used, strict=True) if is_used]
    reference = wolf.Bank(LEVEL)
    for key, t, y in sorted(kept, key=lambda row: row[1]):
        assert reference.step([key], [y], [t]).used.all()
    assert dumps(ordered.bank) == dumps(reference)
    assert len(kept) + ordered.late + ordered.bank.repeated == len(rows)


def test_a_late_row_is_reported_at_its_own_time_and_other_keys_are_unchanged():
    ordered, reference = wolf.online.OutOfSequenceBank(wolf.Bank(LEVEL), 10.0), wolf.Bank(LEVEL)
    ordered.step(["a", "b", "a"], [1.0, 7.0, 2.0], [1.0, 1.0, 5.0])
    other = ordered.bank.dump("b")
    out = ordered.step(["a", "a"], [1.5, 9.0], [3.0, 5.0])
    assert out.used.tolist() == [True, False]
    expected = reference.step(["a"] * 3, [1.0, 1.5, 2.0], [1.0, 3.0, 5.0])
    np.testing.assert_array_equal(out.signal[0], expected.signal[1])
    assert ordered.bank.dump("a") == reference.dump("a")
    assert ordered.bank.dump("b") == other
    assert (ordered.rewound, ordered.late) == (1, 0)
    ordered.step(["a"], [1.0], [40.0])
    assert ordered.step(["a", "a"], [1.0, 2.0], [20.0, 30.0]).used.tolist() == [False, True]  # 30 is the horizon
    assert ordered.late == 1


def test_invalid_arguments_are_refused():
    with pytest.raises(ValueError, match=r"bank must be a wolf\.Bank"):
        wolf.online.OutOfSequenceBank(LEVEL, 1.0)
    with pytest.raises(ValueError, match="horizon must be"):
        wolf.online.OutOfSequenceBank(wolf.Bank(LEVEL), 0.0)
    with pytest.raises(ValueError, match="as many rows; got 2 and 1"):
        wolf.online.OutOfSequenceBank(wolf.Bank(LEVEL), 1.0).step(["a", "b"], [1.0], [1.0])
