"""Bursts found retrospectively: offsets are subtracted from those that keep the shape of the series."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wolf.cleaning import Options, clean, gap_imputation, runs
from wolf.cleaning.smoother_pass import run_pass
from wolf.diagnostics.faults import boundaries, offsets
from wolf.models.registry import parse
from wolf.numerics.runs import runs_of

STEPS, FIRST, STOP = 250, 100, 112
WANDERS = {"level_var": 1.0, "obs_var": 0.1}
BURST = np.where((np.arange(STEPS) >= FIRST) & (np.arange(STEPS) < STOP), 1.0, 0.0)


@pytest.fixture(scope="module")
def values():
    rng = np.random.default_rng(4)
    return 50.0 + np.cumsum(rng.normal(size=STEPS)) + np.sqrt(0.1) * rng.normal(size=STEPS)


def judged(values, **options):
    how = Options(parameters=WANDERS, model="local-level", max_fault_length=20, **options)
    return clean(values[:, None], None, how)[0]


def by_dense_algebra(values):
    """Predict the level under a burst of unknown size from the covariance of all readings."""
    later = np.minimum.outer(np.arange(STEPS), np.arange(STEPS)) + 1.0
    level = WANDERS["level_var"] * later + 1e6  # a level that nobody knows at the start
    cov = level + WANDERS["obs_var"] * np.eye(STEPS) + 1e6 * np.outer(BURST, BURST)
    return values.mean() + level @ np.linalg.solve(cov, values - values.mean())


def test_a_burst_on_a_series_that_wanders_keeps_its_shape(values):
    found = judged(values + 15.0 * BURST)
    assert np.flatnonzero(found.outlier).tolist() == list(range(FIRST, STOP))
    np.testing.assert_allclose(found.mean[FIRST:STOP, 0], by_dense_algebra(values + 15.0 * BURST)[FIRST:STOP], atol=0.3)
    assert (found.weight[FIRST:STOP] == 0.0).all()


def test_a_burst_is_undone_better_than_a_gap_is_bridged():
    rng, results = np.random.default_rng(6), []
    for _ in range(30):
        truth = np.cumsum(rng.normal(size=STEPS))
        values = truth + np.sqrt(0.1) * rng.normal(size=STEPS)
        for some in (values + 15.0 * BURST, np.where(BURST > 0, np.nan, values)):
            found = judged(some, diagnostics=False)
            inside = (found.lower[:, 0] <= truth) & (truth <= found.upper[:, 0])
            results.append((np.abs(found.mean[:, 0] - truth)[FIRST:STOP].mean(), inside[FIRST:STOP].mean()))
    undone, bridged = np.array(results).reshape(-1, 2, 2).mean(0)
    assert undone[0] < 0.7 * bridged[0]
    assert undone[1] > 0.9  # intervals know that the size of a burst is not known


@settings(max_examples=10, deadline=None)
@given(size=st.floats(12.0, 200.0), up=st.booleans())
def test_the_size_of_a_burst_does_not_matter(values, size, up):
    plain = judged(values + 15.0 * BURST, diagnostics=False).mean
    other = judged(values + (size if up else -size) * BURST, diagnostics=False).mean
    np.testing.assert_allclose(other[FIRST:STOP], plain[FIRST:STOP], atol=0.02)


def test_a_noisy_or_constant_run_is_imputed(values):
    noisy, still = values.copy(), values.copy()
    noisy[FIRST:STOP] += 20.0 * np.tile([1.0, -1.0], 6)
    still[FIRST:STOP] = 90.0 + 1e-3 * np.arange(12)
    bridged = judged(np.where(BURST > 0, np.nan, values)).mean
    for dirty in (noisy, still):
        found = judged(dirty)
        assert found.outlier[FIRST:STOP].all()
        np.testing.assert_allclose(found.mean[FIRST:STOP], bridged[FIRST:STOP], atol=0.5)


def test_errors_are_usual_as_often_as_chance_says():
    squares = np.random.default_rng(0).normal(size=(4000, 11)) ** 2
    share = np.mean([offsets.is_usual(row) for row in squares])
    assert 0.97 < share < 0.99  # one in a hundred is too large, one too small


def test_a_noisy_run_with_a_consistent_end_is_left_out_whole(values):
    dirty = values.copy()
    dirty[FIRST : FIRST + 8] += 1.3 * np.array([14, 7, -9, 23, -23, 8, 7, 7])
    found = judged(dirty)
    assert np.flatnonzero(found.outlier).tolist() == list(range(FIRST, FIRST + 8))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("off", [[-18, 21, -6, 8, 7, 5, 17, 15], [-6, 11, 11, 9, 15, 16, 19, 9]])
def test_where_a_series_wanders_fast_a_noisy_run_has_no_holes_and_clean_ends(off, seed):
    dirty = 50.0 + np.cumsum(np.random.default_rng(seed).normal(size=STEPS))
    dirty[100:108] += 1.2 * np.array(off)
    how = Options(parameters={"level_var": 1.0, "obs_var": 1e-3}, model="local-level", max_fault_length=20)
    found = clean(dirty[:, None], None, how)[0]
    assert np.flatnonzero(found.outlier).tolist() == list(range(100, 108))


def test_a_spike_beside_a_permanent_step_leaves_the_step(values):
    dirty = values + 30.0 * (np.arange(len(values)) >= FIRST)
    dirty[FIRST - 10] += 40.0
    found = judged(dirty)
    assert {FIRST - 10} <= set(np.flatnonzero(found.outlier)) <= {FIRST - 10, FIRST}
    assert set(np.flatnonzero(found.fault == "shift")) <= {FIRST, FIRST + 1}
    assert (found.fault == "shift").sum() == 1


@pytest.mark.parametrize("seed", range(6))
def test_good_readings_beside_some_that_are_hundreds_of_deviations_off_are_kept(seed):
    rng = np.random.default_rng(seed)
    dirty = 50.0 + np.cumsum(0.1 * rng.normal(size=STEPS)) + np.sqrt(0.1) * rng.normal(size=STEPS)
    dirty[[100, 103, 104]] += [300.0, -60.0, -60.0]
    how = Options(parameters={"level_var": 0.01, "obs_var": 0.1}, model="local-level", max_fault_length=20)
    found = clean(dirty[:, None], None, how)[0]
    assert {100, 103, 104} <= set(np.flatnonzero(found.outlier)) <= {100, 101, 102, 103, 104}


def test_what_leaving_rows_out_explains_is_that_of_a_regression():
    rng = np.random.default_rng(1)
    impulse = np.array([1.0, -0.6, -0.3, -0.1])
    errors, rows = rng.normal(size=30), np.array([10, 11, 13])
    design = np.zeros((30, 3))
    for column, row in enumerate(rows):
        design[row : row + 4, column] = impulse
    left = errors - design @ np.linalg.lstsq(design, errors, rcond=None)[0]
    alike = np.correlate(impulse, impulse, "full")[3:]
    normal = np.concatenate([alike, np.zeros(30)])[np.abs(rows[:, None] - rows)]
    products = np.array([impulse @ errors[row : row + 4] for row in rows])
    assert boundaries.log_likelihood_gain(products, normal) == pytest.approx(0.5 * (errors @ errors - left @ left))


@pytest.fixture(scope="module")
def gaps_in_a_level():
    """A level that hardly moves, with gaps; a slope that is followed, and the level itself, as models of it."""
    rng = np.random.default_rng(3)
    values = 50.0 + np.cumsum(0.02 * rng.normal(size=STEPS)) + rng.normal(size=STEPS)
    values[60:66] = values[150:156] = np.nan
    slope = runs._column_build(parse("local-trend"), {"level_var": 1e-4, "slope_var": 0.1, "obs_var": 1.0}, values)
    level = runs._column_build(parse("local-level"), {"level_var": 4e-4, "obs_var": 1.0}, values)
    return values, slope, level


def test_gaps_are_bridged_by_the_model_that_bridges_others_like_them(gaps_in_a_level):
    values, slope, level = gaps_in_a_level
    ones, rows = np.ones(STEPS), gap_imputation.long_gaps(values)
    plain, best = run_pass(slope, values, ones, None), run_pass(level, values, ones, None)
    seen = run_pass(slope, values, ones, None)
    gap_imputation.impute_gaps(seen, [level], slope, values, ones, None)
    np.testing.assert_array_equal(seen.mean[rows], best.mean[rows])
    np.testing.assert_array_equal(seen.mean[~rows], plain.mean[~rows])
    assert (seen.variance >= plain.variance).all()
    kept = run_pass(level, values, ones, None)
    gap_imputation.impute_gaps(kept, [slope], level, values, ones, None)
    np.testing.assert_array_equal(kept.mean, best.mean)


@given(length=st.integers(6, 20), turn=st.integers(0, 1), first=st.integers(20, 200), missing=st.integers(0, 25))
def test_what_is_cut_out_is_whole_and_away_from_gaps(length, turn, first, missing):
    used = np.zeros(STEPS)
    used[first : first + missing] = np.nan
    cut = gap_imputation.artificial_gaps(used, length, turn)
    assert all(stop - start == length for start, stop in runs_of(cut))
    near = np.convolve(gap_imputation.long_gaps(used), np.ones(2 * length - 1), "same") > 0
    assert not (cut & near).any()
