"""Health of keys."""

from itertools import pairwise

import numpy as np
import pytest
from fleet.tests.service.test_recent_rows import ARRIVALS, make_rows
from hypothesis import given

from wolf.diagnostics.faults.stuck_values import stuck_rows
from wolf_fleet.streaming.incidents.key_health import RECENT_ROWS, KeyHealth

pytestmark = pytest.mark.thorough


@given(batches=ARRIVALS)
def test_counts_match_a_direct_computation(batches):
    health, whole = KeyHealth(1), []
    for at, batch in enumerate(batches):
        if batch:
            health.add([f"k{key}" for key, *_ in batch], make_rows(batch), float(at), float(at), False)
        whole += batch
    for key in {key for key, *_ in whole}:
        place, mine = health.index(f"k{key}"), [(v, flag) for k, v, flag in whole if k == key]
        assert health.flagged()[place] == sum(flag for _, flag in mine[-RECENT_ROWS:])
        runs, run = [], 0
        for (before, _), (now, _) in pairwise(mine):
            runs, run = ([*runs, run], 0) if now != before else (runs, run + 1)
        assert (health.run[place], health.longest[place]) == (run, max(runs, default=0))
        assert (health.repeats[place], health.runs[place]) == (sum(runs) + run, sum(r > 0 for r in [*runs, run]))
    again = KeyHealth(1)
    again.unpack(health.pack(), np.inf)
    assert again.keys == health.keys
    for one, other in zip(health.assess(9.0, 0.0)[1].values(), again.assess(9.0, 0.0)[1].values(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("digits", [0, 3])
def test_stuck_keys_are_found_as_in_whole_series(digits):
    rng = np.random.default_rng(0)
    values = np.round(rng.normal(size=300), digits)
    values[200:230] = values[200]
    health, called = KeyHealth(1), []
    for at, v in enumerate(values):
        health.add(["a"], make_rows([(0, v, False)]), float(at), float(at), False)
        called.append(bool(health.stuck()[0]))
    assert not any(called[:200])
    assert called[229] == stuck_rows(values[:230])[-1] == True  # noqa: E712
    assert not any(called[240:])


def test_silent_keys_are_found_but_not_irregular_ones():
    health = KeyHealth(1)
    for at in range(0, 600, 60):
        health.add(["steady"], make_rows([(0, at, False)]), float(at), float(at), False)
    health.add(["once"], make_rows([(0, 1, False)]), 540.0, 540.0, False)
    assert health.silent(700.0, 0.0).tolist() == [False, False]
    assert health.silent(900.0, 0.0).tolist() == [True, False]
    assert health.silent(900.0, 800.0).tolist() == [False, False]  # the service was not there to hear
