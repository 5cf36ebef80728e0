"""Retrospective fault search: whole bursts, stuck runs, dropouts and shifts by kind; gaps; intervals."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wolf
from wolf.cleaning import Options, clean, durations, retrospective, smoother_pass
from wolf.cleaning.fault_search import FaultSearch
from wolf.diagnostics.faults import step_scan
from wolf.diagnostics.faults.stuck_values import stuck_rows, suspicious_values
from wolf.models.registry import parse

STEPS = 500
LEVEL = {"level_var": 0.05, "obs_var": 1.0}


@pytest.fixture(scope="module")
def values():
    rng = np.random.default_rng(5)
    return 20.0 + np.cumsum(np.sqrt(0.05) * rng.normal(size=STEPS)) + rng.normal(size=STEPS)


def judged(values, **options):
    return clean(values[:, None], None, Options(parameters=LEVEL, diagnostics=False, **options))[0]


def test_a_burst_is_found_whole_and_undone(values):
    dirty = values.copy()
    dirty[100:112] += 15.0
    found = judged(dirty)
    assert np.flatnonzero(found.outlier).tolist() == list(range(100, 112))
    assert set(found.fault[100:112]) == {"burst"}
    assert np.abs(found.mean[100:112, 0] - values[100:112]).mean() < 1.2
    np.testing.assert_array_equal(found.cleaned[100:112], found.mean[100:112])
    np.testing.assert_array_equal(found.cleaned[:100, 0], values[:100])


def test_a_shift_is_an_event_and_no_fault(values):
    moved = values.copy()
    moved[250:] += 15.0
    found = judged(moved)
    assert np.flatnonzero(found.fault == "shift").tolist() == [250]
    assert not found.outlier.any()
    assert np.abs(found.mean[:, 0] - judged(values).mean[:, 0] - 15.0 * (np.arange(STEPS) >= 250)).max() < 1.0


def test_what_is_longer_than_the_longest_fault_has_shifted(values):
    dirty = values.copy()
    dirty[100:112] += 15.0
    found = judged(dirty, max_fault_length=5)
    assert not found.outlier[100:112].any()
    assert np.flatnonzero(found.fault == "shift").tolist() == [100, 112]


@pytest.mark.parametrize(("size", "shifts"), [(10.0, [249])])
def test_what_comes_before_a_shift_is_no_drift(values, size, shifts):
    moved = values.copy()
    moved[249:] += size
    found = judged(moved)
    assert np.flatnonzero(found.fault == "shift").tolist() == shifts
    assert not found.outlier.any()


@pytest.mark.parametrize("count", [500, 470])
def test_a_forecast_is_that_of_the_engine(values, count):
    """Against the same model filtered by the engine: no row of a filled block comes after the last one."""
    known = {"level_var": 0.05, "obs_var": 1.0, "seasonal_var": 1e-6}
    wave = 5.0 * np.sin(2 * np.pi * np.arange(STEPS) / 24)
    some = (values + wave)[:count, None]
    options = Options(model="level+seasonal:24:1", parameters=known, forecast=12, diagnostics=False)
    ahead = clean(some, None, options)[0].forecast
    live = clean(some, None, dataclasses.replace(options, causal=True, method=wolf.KF()))[0].forecast
    np.testing.assert_allclose(ahead.mean, live.mean, atol=0.2)
    np.testing.assert_allclose(ahead.upper - ahead.mean, live.upper - live.mean, rtol=0.02)


def test_a_fault_is_as_surprising_as_it_is_large(values):
    dirty = values.copy()
    dirty[300] += 30.0
    found = clean(dirty[:, None], None, Options(parameters=LEVEL))[0]
    assert found.standardised[300, 0] == pytest.approx(30.0 / 1.2, rel=0.2)
    assert found.log_density[300] == 0.0  # it says nothing about the model


def test_stuck_runs_dropouts_and_spikes_are_distinguished(values):
    dirty = values.copy()
    dirty[100:124] = dirty[99]
    dirty[[200, 230, 260, 290, 320]] = -999.0
    dirty[400] += 30.0
    kind = judged(dirty).fault
    assert set(kind[100:124]) == {"stuck"}
    assert set(kind[[200, 230, 260, 290, 320]]) == {"dropout"}
    assert kind[400] == "spike"
    assert (kind != "").sum() == 24 + 5 + 1


def test_an_untouched_series_has_hardly_a_fault(values):
    assert judged(values).outlier.mean() < 0.005


def test_held_out_readings_lie_in_their_interval(values):
    hidden = np.random.default_rng(1).random(STEPS) < 0.2
    found = judged(np.where(hidden, np.nan, values))
    inside = (found.prediction_lower[:, 0] < values) & (values < found.prediction_upper[:, 0])
    assert 0.89 < inside[hidden].mean() <= 0.99
    assert set(found.fault[hidden]) == {"gap"}


def test_a_forecast_goes_on_from_the_last_row(values):
    rising = 5.0 * np.arange(STEPS) + values
    options = {"model": "trend", "parameters": {"level_var": 0.05, "slope_var": 1e-4, "obs_var": 1.0}, "forecast": 3}
    found = clean(rising[:, None], None, Options(diagnostics=False, **options))[0]
    ahead = found.mean[-1, 0] + 5.0 * np.arange(1, 4)
    np.testing.assert_allclose(found.forecast.mean[:, 0], ahead, atol=1.5)
    width = (found.forecast.upper - found.forecast.lower)[:, 0]
    assert 1.0 < width[0] / (found.upper - found.lower)[-1, 0] < 2.0


def test_causal_results_do_not_depend_on_the_future(values):
    changed = values.copy()
    changed[300:] += 50.0
    before, after = judged(values, causal=True), judged(changed, causal=True)
    np.testing.assert_allclose(before.mean[:300], after.mean[:300], atol=1e-3)  # the prior is guessed from all rows
    np.testing.assert_array_equal(before.outlier[:300], after.outlier[:300])


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 30), st.integers(60, 400), st.floats(10.0, 1e4))
def test_the_statistic_of_a_run_is_largest_where_it_is(length, first, size):
    from wolf.models import local_level

    shape = step_scan.shape_of(local_level(0.05, 1.0), 30)
    errors = np.zeros(600)
    step = np.concatenate([shape.step, np.zeros(600)])
    errors[first:] += size * step[: 600 - first]
    errors[first + length :] -= size * step[: 600 - first - length]
    limits = step_scan.DetectionThresholds(np.full(31, 5.0), np.full(len(shape.ramps), 5.0))
    found = step_scan.find(errors, np.ones(600, bool), shape, limits)
    assert (found.first[0], found.length[0]) == (first, length)
    assert found.size[0] == pytest.approx(size, rel=0.05)


def test_repeats_that_a_series_often_has_are_not_stuck():
    rng = np.random.default_rng(0)
    zeros = np.where(np.arange(400) % 40 < 20, 0.0, rng.normal(size=400))
    assert not stuck_rows(zeros).any()
    counts = rng.poisson(2.0, 400).astype(float)
    assert not stuck_rows(counts).any()


def test_a_limit_that_a_series_stays_at_is_not_stuck_and_two_runs_of_one_value_are():
    rng = np.random.default_rng(0)
    rain = np.round(np.maximum(rng.normal(size=400), 0.0), 3)
    rain[100:140] = 0.0  # a dry month, among many dry days
    rain[300] = -50.0  # a fault does not hide the limit
    assert not stuck_rows(rain).any()
    readings = rng.normal(size=400).round(2)
    readings[50:70] = readings[200:220] = 1.234
    assert stuck_rows(readings).sum() == 38


def test_a_value_that_belongs_is_not_suspicious():
    assert suspicious_values(np.random.default_rng(0).poisson(3.0, 400).astype(float)) == []


@pytest.mark.parametrize("patience", ["2 fortnights", "-3", 0, "soon", True])
def test_an_invalid_duration_is_rejected(patience):
    with pytest.raises(ValueError, match="must be a duration such as 2h"):
        Options(patience=patience)


def test_a_duration_without_dates_is_rejected():
    with pytest.raises(ValueError, match="no column of dates"):
        durations.rows_in("max_fault_length", "2h", 1.0, dated=False)


def test_causal_and_smooth_exclude_each_other():
    with pytest.raises(ValueError, match="exclude each other"):
        Options(causal=True, smooth=True)


@pytest.mark.parametrize("gaps", [None, "uneven"])
def test_a_pass_is_the_smoother_of_the_whole_series(values, gaps, monkeypatch):
    """In blocks, by native code, against one run of XLA over all rows; rows beyond a block that it looks at suffice."""
    monkeypatch.setattr(smoother_pass, "BLOCK_ROWS", 256)
    monkeypatch.setattr(smoother_pass, "LOOKAHEAD_ROWS", 128)
    steps = None if gaps is None else np.random.default_rng(0).uniform(0.5, 2.0, STEPS)
    named = parse("level")
    prior = named.start(values[:, None], 1.0)

    def build(gaps):
        return named.builder(gaps, prior, 1)(**LEVEL)

    some = np.where(np.arange(STEPS) % 50 < 5, np.nan, values)
    found = smoother_pass.run_pass(build, some, np.ones(STEPS), steps)
    whole = wolf.smooth(wolf.filter(build(steps), some[:, None], method="KF", backend="xla"))
    np.testing.assert_allclose(found.mean, whole.means[:, 0], atol=1e-9)
    np.testing.assert_allclose(found.variance, whole.covs[:, 0, 0], atol=1e-9)


def test_readings_beside_huge_spikes_are_not_left_out_before_a_season_is_known():
    """On the thermometer that comes with the package: three huge errors close together in its first half day."""
    table = np.genfromtxt(wolf.datasets.path("thermometer"), delimiter=",", names=True)
    found = clean(table["value"][:, None], table["time"], Options(diagnostics=False))[0]
    np.testing.assert_array_equal(np.flatnonzero(found.outlier[:400]), np.flatnonzero(table["is_outlier"][:400]))


def test_a_weight_of_a_half_is_four_times_the_noise_variance():
    weight, noise = retrospective._huber_weights(np.array([0.0, -6.0, np.nan]))
    assert weight.tolist() == [1.0, 0.5, 0.0]
    assert noise.tolist() == [1.0, 4.0, 1.0]


def test_the_interval_of_few_measurements_has_the_rank_of_the_next_one():
    """Nine errors: nine of ten is the rank of the largest (split conformal)."""
    assert retrospective.prediction_factor(np.arange(1.0, 10.0), 0.9) == 9.0
    assert retrospective.prediction_factor(np.arange(1.0, 100.0), 0.9) == pytest.approx(90.0, abs=0.2)


def test_a_leave_one_out_error_is_without_the_influence_of_its_own_reading():
    """With R = 2 and a smoothed variance of 0.5 the mean without the reading has the variance 1 / (1 / 0.5 - 1 / 2)."""
    search = SimpleNamespace(obs_var=2.0, ratio=1.0, used=np.array([1.0]))
    smoothed = SimpleNamespace(mean=np.array([0.2]), variance=np.array([0.5]))
    without = 1.0 / (1.0 / 0.5 - 1.0 / 2.0)
    mean = without * (0.2 / 0.5 - 1.0 / 2.0)
    found = FaultSearch.leave_one_out_errors(search, smoothed)
    np.testing.assert_allclose(found, (1.0 - mean) / np.sqrt(without + 2.0))
