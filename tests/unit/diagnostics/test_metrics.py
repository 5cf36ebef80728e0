"""Diagnostics against closed forms, scipy and simulation."""

import numpy as np
import pytest
from scipy import integrate, stats
from statsmodels.stats.diagnostic import acorr_ljungbox

import wolf
from wolf.diagnostics import metrics


@pytest.fixture(scope="module")
def clean_runs():
    model = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
    trials = [wolf.simulate.trajectory(model, 200, key=k) for k in range(60)]
    out = wolf.filter_many(model, np.stack([t.measurements for t in trials]), method="KF")
    return out, np.stack([t.states for t in trials])


def test_errors_are_what_their_names_say():
    means, truth = np.array([[0.0], [3.0], [1.0]]), np.array([[0.0], [0.0], [0.0]])
    np.testing.assert_allclose(metrics.rmse(means, truth), np.sqrt(10 / 3))
    np.testing.assert_allclose(metrics.rmedse(means, truth), 1.0)
    np.testing.assert_allclose(metrics.j_score(means, truth), np.sqrt(10))


def test_crps_equals_its_integral():
    mean, deviation, truth = 0.3, 1.7, -1.1
    value = metrics.crps(np.array([[mean]]), np.array([[[deviation**2]]]), np.array([[truth]]))
    cdf = stats.norm(mean, deviation).cdf
    lower = integrate.quad(lambda x: cdf(x) ** 2, -30, truth)[0]
    upper = integrate.quad(lambda x: (1 - cdf(x)) ** 2, truth, 30)[0]
    np.testing.assert_allclose(value, lower + upper, rtol=1e-6)


def test_log_score_equals_scipy(rng):
    a = rng.normal(size=(2, 2))
    cov, mean, truth = a @ a.T + np.eye(2), rng.normal(size=(1, 2)), rng.normal(size=(1, 2))
    expected = stats.multivariate_normal(mean[0], cov).logpdf(truth[0])
    np.testing.assert_allclose(metrics.log_score(mean, cov[None], truth), expected)


def test_clean_data_have_nominal_nis_nees_and_coverage(clean_runs):
    out, states = clean_runs
    assert metrics.nis_band(out, level=0.999).holds
    np.testing.assert_allclose(metrics.coverage(out.means, out.covs, states).mean(0), 0.95, atol=0.01)
    # Errors of one series are correlated in time: take one step of each trial.
    assert metrics.nees_band(out.means[:, -1], out.covs[:, -1], states[:, -1], level=0.999).holds


def test_a_wrong_noise_level_shows_in_the_nis(clean_runs):
    out, _ = clean_runs
    model = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=5.0)
    wrong = wolf.filter(model, out[0].residuals + 0.0, method="KF")
    assert not metrics.nis_band(wrong, level=0.95).holds


def test_nis_counts_only_what_was_measured():
    model = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
    lossy = wolf.simulate.trajectory(model, 2000, key=3, outliers=wolf.simulate.Missing(0.3))
    band = metrics.nis_band(wolf.filter(model, lossy.measurements, method="KF"), level=0.999)
    assert band.holds
    assert band.value < 1.7  # fewer than two coordinates a step


def test_whiteness_equals_statsmodels(tracking):
    data = wolf.simulate.trajectory(tracking, 400, key=2)
    out = wolf.filter(tracking, data.measurements, method="KF")
    ours = metrics.whiteness(out, lags=10)
    for m in range(2):
        standard = out.residuals[:, m] / np.sqrt(out.innovation_covs[:, m, m])
        theirs = acorr_ljungbox(standard, lags=[10])["lb_pvalue"].iloc[0]
        np.testing.assert_allclose(ours[m], theirs, rtol=1e-8)
    assert np.all(ours > 0.01)


def test_a_missing_trend_shows_in_the_whiteness():
    level = wolf.models.local_level(1e-4, 1.0)
    ys = 0.05 * np.arange(300) + np.random.default_rng(0).normal(size=300)
    assert np.all(metrics.whiteness(wolf.filter(level, ys, method="KF")) < 1e-6)
