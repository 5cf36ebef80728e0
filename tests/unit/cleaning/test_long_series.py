"""Vectorised steps of the retrospective search agree with a loop over the runs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from wolf.diagnostics.faults import boundaries, local_scale, sentinel_values, step_scan
from wolf.numerics.runs import counts_in, run_ends, runs_of

MASKS = hnp.arrays(bool, st.integers(1, 80))


def loop_of_runs(mask):
    """Walk over a mask, row by row."""
    runs, first = [], None
    for row, inside in enumerate([*mask.tolist(), False]):
        if inside and first is None:
            first = row
        if not inside and first is not None:
            runs.append((first, row))
            first = None
    return runs


@given(MASKS, MASKS)
def test_runs_and_counts_are_those_of_a_walk(mask, other):
    assert runs_of(mask) == loop_of_runs(mask)
    firsts, stops = run_ends(mask)
    other = np.resize(other, len(mask))
    assert counts_in(other, firsts, stops).tolist() == [int(other[a:b].sum()) for a, b in loop_of_runs(mask)]


@given(MASKS, st.integers(1, 30))
def test_clusters_are_runs_joined_one_after_the_other(mask, longest):
    joined = []
    for first, stop in loop_of_runs(mask):
        if joined and first - joined[-1][1] <= boundaries.MAX_GAP_ROWS:
            joined[-1][1] = stop
        else:
            joined.append([first, stop])
    dense = [
        (a, b)
        for a, b in joined
        if mask[a:b].sum() >= max(boundaries.MIN_CLUSTER_FAULTS, boundaries.MIN_CLUSTER_DENSITY * (b - a))
    ]
    assert boundaries.clusters(mask, longest) == [(a, b) for a, b in dense if b - a <= longest]


@given(MASKS)
def test_small_holes_among_many_faults_are_filled(mask):
    filled = mask.copy()
    for first, stop in loop_of_runs(~mask):
        around = mask[max(0, first - boundaries.NEIGHBOURHOOD_ROWS) : stop + boundaries.NEIGHBOURHOOD_ROWS]
        inner = first > 0 and stop < len(mask) and stop - first <= boundaries.MAX_HOLE_ROWS
        filled[first:stop] = inner and around.sum() >= boundaries.NEIGHBOURHOOD_ROWS // 2
    assert boundaries.filled(mask).tolist() == filled.tolist()


@given(st.integers(0, 10_000), st.sampled_from([0.05, 0.4, 0.9]))
def test_a_scale_where_nothing_is_usable_is_the_mean_of_those_beside_it(seed, share):
    rng = np.random.default_rng(seed)
    errors, usable = rng.normal(size=250), rng.random(250) < 0.5
    usable[:120] = rng.random(120) < 1 - share
    scale = local_scale.local_scale(errors, usable)
    for first, stop in loop_of_runs(~usable) if usable.sum() >= local_scale.WINDOW_ERRORS else []:
        before, after = first - 1 if first else stop, stop if stop < len(scale) else first - 1
        assert (scale[first:stop] == 0.5 * (scale[before] + scale[after])).all()


@settings(max_examples=50)
@given(st.integers(0, 10_000), st.sampled_from([0.1, 0.5, 0.9]))
def test_what_many_masks_earn_is_what_each_earns(seed, share):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(20, 60))
    normal, products, masks = rows @ rows.T, 10 * rng.normal(size=20), rng.random((8, 20)) < share
    for mask, found in zip(masks, boundaries.net_gains(masks, products, normal, 2.5, 8.0), strict=True):
        runs = loop_of_runs(mask)
        if not runs:
            assert found == -np.inf
            continue
        sums = np.array([[a <= i < b for i in range(20)] for a, b in runs], float)
        free = boundaries.log_likelihood_gain(products[mask], normal[np.ix_(mask, mask)]) - 2.5 * mask.sum()
        numbers = len(runs) + boundaries.OFFSET_ROW_COST * (mask.sum() - len(runs))
        offset = boundaries.log_likelihood_gain(sums @ products, sums @ normal @ sums.T) - 2.5 * numbers
        assert found == pytest.approx(max(free, offset) - 8.0 * len(runs), rel=1e-9)


@given(st.integers(0, 10_000))
def test_the_strongest_faults_leave_room_around_them(seed):
    rng = np.random.default_rng(seed)
    longest = int(rng.integers(1, 20))
    strength = np.where(rng.random(100) < 0.5, rng.random(100), 0.0)
    rows = np.flatnonzero(strength)
    lengths = np.minimum(rng.integers(0, longest + 1, len(rows)), 100 - rows)
    length_of = dict(zip(rows.tolist(), lengths.tolist(), strict=True))
    most = strength.max(initial=0.0)  # 100 rows are all within the reach of an echo
    kept, taken = [], np.zeros(100, bool)
    for row in sorted(length_of, key=lambda row: -strength[row]):
        length, room = length_of[row], length_of[row] or longest
        if (
            strength[row] >= step_scan.ECHO_STRENGTH_RATIO * most
            and not taken[max(row - room, 0) : row + length + room].any()
        ):
            taken[row : row + max(length, 1)] = True
            kept.append(row)
    assert step_scan._select_strongest(strength, rows, lengths, longest).tolist() == kept


@given(st.integers(0, 10_000), st.sampled_from([0, 1, 2]))
def test_codes_are_found_among_all_values_as_among_far_ones(seed, digits):
    rng = np.random.default_rng(seed)
    values = np.round(rng.normal(size=80) * rng.choice([0.0, 1.0, 300.0]), digits)
    for code in rng.choice(sentinel_values.CODES, 3):
        values[rng.random(80) < rng.choice([0.0, 0.05, 0.3])] = code
    plain = values[~np.isin(values, sentinel_values.CODES)]
    if not plain.size:
        assert sentinel_values.codes(values) == {}
        return
    low, high = np.quantile(plain, [0.25, 0.75])
    room = high - low
    present, counts = np.unique(values, return_counts=True)
    often = np.isin(present, sentinel_values.CODES) & (counts >= sentinel_values.MIN_CODE_COUNT) | (
        counts >= sentinel_values.MIN_OTHER_COUNT
    ) & (room > 0)
    often &= (present < low - sentinel_values.MIN_QUARTILE_DISTANCES * room) | (
        present > high + sentinel_values.MIN_QUARTILE_DISTANCES * room
    )
    alone = [value for value in present[often] if np.abs(present[~often] - value).min(initial=np.inf) > room]
    assert sorted(sentinel_values.codes(values)) == alone
