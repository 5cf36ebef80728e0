"""Simulation: shapes, keys, the moments of what is drawn, and a filter that is honest about clean data."""

import jax
import numpy as np
import pytest
from scipy import stats

import wolf
from wolf import simulate

STEPS = 20_000
STILL = wolf.LinearModel(  # a state that stands still at 3, measured with correlated noise
    None, np.eye(2), np.zeros((2, 2)), np.array([[4.0, 1.0], [1.0, 2.0]]), 3 * np.ones(2), np.zeros((2, 2))
)
EVERYTHING = simulate.Sequence(
    (
        simulate.Mixture(prob=0.05),
        simulate.Additive(0.05, -50.0, 50.0),
        simulate.Burst(0.05, length=4, size=20.0),
        simulate.Stuck(0.05, length=4),
        simulate.Drift(start=50, rate=0.1),
        simulate.Missing(prob=0.1),
        simulate.Gap(start=20, length=10),
    )
)


def draw(process=None, key=1, steps=STEPS):
    return simulate.trajectory(STILL, steps, key=key, outliers=process)


@pytest.mark.parametrize("process", [None, simulate.StudentT(dof=2.01), EVERYTHING], ids=["none", "Student", "all"])
def test_data_have_their_shapes_and_only_the_key_moves_the_path(process, tracking):
    data, again, other = (simulate.trajectory(tracking, 100, key=key, outliers=process) for key in (1, 1, 2))
    assert data.states.shape == (100, 4)
    assert data.measurements.shape == (100, 2)
    assert data.outliers.shape == (100,)
    assert data.states.dtype == data.measurements.dtype == np.float64
    assert data.outliers.dtype == bool
    np.testing.assert_equal(tuple(again), tuple(data))
    assert (other.states != data.states).any()
    assert all(isinstance(each, np.ndarray) for each in data)
    np.testing.assert_array_equal(data.states, simulate.trajectory(tracking, 100, key=1).states)


def test_seed_and_key_mean_the_same(tracking):
    by_seed, by_key = (simulate.trajectory(tracking, 10, key=key) for key in (7, jax.random.key(7)))
    np.testing.assert_equal(tuple(by_seed), tuple(by_key))


def test_gaussian_noise_has_the_covariance_of_the_model():
    noise = draw().measurements - 3
    np.testing.assert_allclose(noise.mean(0), 0, atol=4 * 2 / STEPS**0.5)
    np.testing.assert_allclose(np.cov(noise.T), STILL.R, atol=0.15)
    assert not draw().outliers.any()


@pytest.mark.parametrize("dof", [2.01, 5.0])
def test_student_noise_is_the_scaled_student_distribution(dof):
    data = draw(simulate.StudentT(dof))
    noise = (data.measurements - 3) / np.sqrt(np.diag(STILL.R))
    for column in noise.T:
        assert stats.kstest(column, stats.t(dof).cdf).pvalue > 0.001
    joint = np.einsum("ti,ij,tj->t", data.measurements - 3, np.linalg.inv(STILL.R), data.measurements - 3) / 2
    assert stats.kstest(joint, stats.f(2, dof).cdf).pvalue > 0.001  # one scale for both coordinates
    share = stats.chi2(dof).cdf(dof / 9)
    assert abs(data.outliers.mean() - share) < 4 * (share / STEPS) ** 0.5


def test_mixture_moves_the_stated_share_to_the_stated_mean():
    data = draw(simulate.Mixture(prob=0.05, factor=5.0))
    assert abs(data.outliers.mean() - 0.05) < 4 * (0.05 / STEPS) ** 0.5
    np.testing.assert_allclose(data.measurements[data.outliers].mean(0), 15, atol=0.3)
    np.testing.assert_allclose(data.measurements[~data.outliers].mean(0), 3, atol=0.1)
    np.testing.assert_allclose(np.cov(data.measurements[data.outliers].T), STILL.R, atol=0.6)


def test_additive_errors_are_uniform_and_as_frequent_as_stated():
    data, clean = draw(simulate.Additive(0.1, 10.0, 50.0)), draw()
    errors = (data.measurements - clean.measurements)[data.outliers]
    assert abs(data.outliers.mean() - 0.1) < 4 * (0.1 / STEPS) ** 0.5
    assert stats.kstest(errors.ravel(), stats.uniform(10, 40).cdf).pvalue > 0.001
    np.testing.assert_array_equal(data.measurements[~data.outliers], clean.measurements[~data.outliers])


def test_stuck_sensor_repeats_its_last_good_value():
    data, clean = draw(simulate.Stuck(0.02, length=5), steps=500), draw(steps=500)
    assert data.outliers.any()
    for t in range(500):
        expected = data.measurements[t - 1] if data.outliers[t] else clean.measurements[t]
        np.testing.assert_array_equal(data.measurements[t], expected)


def test_drift_grows_by_its_rate_from_its_start():
    data, clean = draw(simulate.Drift(start=10, rate=0.5), steps=20), draw(steps=20)
    expected = np.repeat(np.concatenate([np.zeros(10), 0.5 * np.arange(1, 11)])[:, None], 2, axis=1)
    np.testing.assert_allclose(data.measurements - clean.measurements, expected, atol=1e-12)
    np.testing.assert_array_equal(data.outliers, np.arange(20) >= 10)


def test_burst_adds_one_error_for_its_length():
    data, clean = draw(simulate.Burst(0.001, length=4, size=20.0)), draw()
    errors = data.measurements - clean.measurements
    starts = np.flatnonzero(data.outliers & ~np.concatenate([[False], data.outliers[:-1]]))
    lonely = [t for t in starts if data.outliers[t : t + 5].tolist() == [True] * 4 + [False]]
    assert len(lonely) > 5
    for t in lonely:
        np.testing.assert_allclose(errors[t : t + 4], np.repeat(errors[t : t + 1], 4, axis=0), atol=1e-9)
    assert 10 < errors[starts].std() < 40
    np.testing.assert_array_equal(errors[~data.outliers], 0)


def test_lost_numbers_are_nan_as_often_and_where_stated():
    assert abs(np.isnan(draw(simulate.Missing(0.2)).measurements).mean() - 0.2) < 0.01
    gap = np.isnan(draw(simulate.Gap(start=5, length=3), steps=20).measurements)
    np.testing.assert_array_equal(gap.all(1), (np.arange(20) >= 5) & (np.arange(20) < 8))
    np.testing.assert_array_equal(gap.any(1), gap.all(1))


def test_sequence_applies_one_process_after_the_other():
    data = draw(simulate.Sequence((simulate.Mixture(prob=0.05, factor=50.0), simulate.Missing(prob=0.3))))
    assert abs(np.isnan(data.measurements).mean() - 0.3) < 0.02
    assert abs(data.outliers.mean() - 0.05) < 0.01
    assert np.nanmean(data.measurements[data.outliers]) > 100


def test_path_follows_the_model(tracking):
    start = np.array([1.0, 2.0, 3.0, 4.0])
    states = simulate.trajectory(tracking, STEPS, key=0, initial=start).states
    steps = states - np.concatenate([start[None], states[:-1]]) @ tracking.F.T
    np.testing.assert_allclose(np.cov(steps.T), tracking.Q, atol=0.005)
    np.testing.assert_allclose(steps.mean(0), 0, atol=4 * (0.1 / STEPS) ** 0.5)


def test_first_state_comes_from_the_prior():
    prior = wolf.Gaussian(np.array([10.0]), np.array([[4.0]]))
    model = wolf.models.local_level(level_var=0.0, obs_var=1.0, prior=prior)
    first = np.array([simulate.trajectory(model, 1, key=key).states[0, 0] for key in range(300)])
    assert stats.kstest(first, stats.norm(10, 2).cdf).pvalue > 0.001


def test_inputs_move_the_path():
    model = wolf.LinearModel(None, np.eye(1), np.zeros((1, 1)), np.eye(1), np.zeros(1), np.zeros((1, 1)), B=np.eye(1))
    states = simulate.trajectory(model, 5, key=0, inputs=np.arange(5.0)).states
    np.testing.assert_allclose(states[:, 0], [0, 1, 3, 6, 10])


def test_kalman_filter_is_honest_on_clean_data(tracking):
    """The mean NIS is M, and the 95 % intervals hold the truth 95 % of the time."""
    data = simulate.trajectory(tracking, STEPS, key=0)
    out = wolf.filter(tracking, data.measurements, method="KF")
    assert abs(out.nis.mean() - 2) < 4 * (4 / STEPS) ** 0.5
    assert stats.kstest(out.nis, stats.chi2(2).cdf).pvalue > 0.001
    np.testing.assert_allclose(wolf.metrics.coverage(out.means, out.covs, data.states), 0.95, atol=0.02)
