"""Stuck sensors: repeated values count once, on every path, and rounded measurements are hardly touched."""

import numpy as np
import pytest

import wolf

LEVEL = wolf.models.local_level(level_var=0.1, obs_var=1.0)
PLANE = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=1.0)


@pytest.fixture(scope="module")
def series():
    rng = np.random.default_rng(35)
    truth = np.cumsum(rng.normal(0.0, 0.1**0.5, 300))
    return truth, truth + rng.normal(size=300)


def error(out, truth):
    return float(np.sqrt(np.mean((out.means[:, 0] - truth) ** 2)))


@pytest.mark.parametrize("length", [3, 6, 12, 24])
def test_a_run_of_sentinel_values_costs_what_missing_values_cost(length, series):
    truth, ys = series
    bad, missing = ys.copy(), ys.copy()
    bad[100 : 100 + length], missing[100 : 100 + length] = -999.0, np.nan
    out = wolf.filter(LEVEL, bad)
    assert error(out, truth) < 1.05 * error(wolf.filter(LEVEL, missing), truth)
    assert np.flatnonzero(out.stuck).tolist() == [*range(101, 100 + length)]
    assert out.outliers[100 : 100 + length].all()
    assert not (out.inflations > 1.0).any()
    assert f"repeated exactly: {length - 1} number" in str(out)


def test_a_stuck_value_near_the_prediction_is_missing_and_no_outlier(series):
    _, ys = series
    ys = np.concatenate([ys[:100], np.full(30, ys[99])])
    out = wolf.filter(LEVEL, ys)
    assert out.stuck[100:].all()
    assert not out.outliers[100:].any()
    assert out.covs[-1, 0, 0] > out.covs[99, 0, 0] + 25 * 0.1 * out.dynamics_scales[-1]
    np.testing.assert_array_equal(out.weights[100:], 0.0)


def test_a_series_that_has_not_changed_yet_is_used():
    out = wolf.filter(LEVEL, np.append(np.full(30, 20.5), 95.0))
    assert not out.stuck.any()
    assert out.outliers[-1]


def test_each_coordinate_is_screened_by_itself():
    ys = wolf.simulate.trajectory(PLANE, 60, 1).measurements.copy()
    ys[40:, 1] = ys[39, 1]
    out = wolf.filter(PLANE, ys)
    assert out.stuck[40:, 1].all()
    assert not out.stuck[:, 0].any()
    alone = ys.copy()
    alone[40:, 1] = np.nan
    np.testing.assert_allclose(out.means, wolf.filter(PLANE, alone).means, atol=1e-12)


def test_missing_values_neither_repeat_nor_end_a_repetition(series):
    ys = series[1].copy()
    ys[100:110], ys[103] = -999.0, np.nan
    assert np.flatnonzero(wolf.filter(LEVEL, ys).stuck).tolist() == [101, 102, *range(104, 110)]


def test_a_long_repetition_is_not_taken_for_the_habit_of_the_series(series):
    ys = series[1].copy()
    ys[50:80], ys[100:112] = ys[49], -999.0
    assert wolf.filter(LEVEL, ys).stuck[102:112].all()


def test_rounded_measurements_are_hardly_touched(series):
    truth, ys = series
    for step, limit in ((0.5, 0.01), (2.0, 0.08)):
        rounded = step * np.round(ys / step)
        assert wolf.filter(LEVEL, rounded).stuck.mean() < limit
        used = wolf.filter(LEVEL, rounded, method=wolf.Adaptive(detect_stuck=False))
        assert error(wolf.filter(LEVEL, rounded), truth) < 1.03 * error(used, truth)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_repetitions_are_found_alike_on_every_path(dtype, series):
    ys = series[1].copy()
    ys[100:112] = -999.0
    out = wolf.filter(LEVEL, ys, dtype=dtype)
    xla = wolf.filter(LEVEL, ys, dtype=dtype, backend="xla")
    many = wolf.filter_many(LEVEL, np.stack([ys, series[1]]), dtype=dtype)
    online, bank = wolf.Online(LEVEL, dtype=dtype), wolf.Bank(LEVEL, dtype=dtype)
    reports = [online.step(y) for y in ys]
    for y in ys:
        bank.step(["a"], np.array([[y]]))
    stuck = np.array([report.stuck for report in reports])
    for found in (xla.stuck, many.stuck[0], stuck):
        np.testing.assert_array_equal(found, out.stuck)
    assert not many.stuck[1].any()
    np.testing.assert_array_equal(online.mean, out.means[-1])
    np.testing.assert_array_equal(bank["a"].mean, out.means[-1])


def test_the_option_and_other_methods_use_repeated_values(series):
    ys = np.concatenate([series[1][:50], np.full(20, 3.0)])
    assert "stuck" not in wolf.filter(LEVEL, ys, method=wolf.Adaptive(detect_stuck=False)).saved
    assert "stuck" not in wolf.filter(LEVEL, ys, method="Learned").saved
    with pytest.raises(ValueError, match="detect_stuck must be True or False"):
        wolf.Adaptive(detect_stuck="no")
