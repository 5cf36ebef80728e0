"""Exogenous variables, fits and summaries equal statsmodels; a published filterpy example has the same numbers."""

import numpy as np
import pandas
import pytest
import statsmodels.api as sm
from filterpy.common import Q_discrete_white_noise
from filterpy.kalman import KalmanFilter
from statsmodels.tsa.statespace.structural import UnobservedComponents

import wolf

STEPS = 120
rng = np.random.default_rng(3)
X = pandas.DataFrame({"rain": rng.gamma(1, 2, STEPS), "holiday": 1.0 * (rng.random(STEPS) < 0.1)})
YS = np.cumsum(0.3 * rng.normal(size=STEPS)) + X.to_numpy() @ [2.0, -5.0] + rng.normal(size=STEPS)
AHEAD = pandas.DataFrame({"rain": [1.0, 2.0, 3.0], "holiday": [0.0, 1.0, 0.0]})
PARAMETERS = [1.0, 0.1]  # variances of noise and level


@pytest.fixture(scope="module")
def theirs():
    model = UnobservedComponents(YS, "llevel", exog=X, mle_regression=False)
    return model.smooth(PARAMETERS)


@pytest.fixture(scope="module")
def ours():
    prior = wolf.Gaussian(np.zeros(1), 1e6 * np.eye(1))
    level = wolf.models.local_level(level_var=0.1, obs_var=1.0, prior=prior)
    model = wolf.models.with_exogenous(level, X, prior_var=1e6)
    return wolf.filter(model, YS, method="KF", update_first=True)


def test_coefficients_and_likelihood_equal_statsmodels(ours, theirs):
    burn = 5
    np.testing.assert_allclose(ours.means[burn:], theirs.filtered_state.T[burn:], rtol=1e-8)
    covs = np.moveaxis(theirs.filtered_state_cov, -1, 0)
    np.testing.assert_allclose(ours.covs[burn:], covs[burn:], rtol=1e-6, atol=1e-9)
    assert ours.log_liks[3:].sum() == pytest.approx(theirs.llf, rel=1e-9)
    assert ours.state_names == ("level", "regression[rain]", "regression[holiday]")


def test_forecasts_with_future_variables_equal_statsmodels(ours, theirs):
    found, expected = wolf.forecast(ours, 3, exog=AHEAD), theirs.get_forecast(3, exog=AHEAD)
    np.testing.assert_allclose(found.obs_means[:, 0], expected.predicted_mean, rtol=1e-8)
    np.testing.assert_allclose(found.obs_covs[:, 0, 0], expected.var_pred_mean, rtol=1e-6)


def test_fit_with_exogenous_variables_finds_the_estimates_of_statsmodels():
    fit = wolf.fit(wolf.models.local_level, YS, exog=X, score="gaussian", update_first=True, restarts=0)
    expected = UnobservedComponents(YS, "llevel", exog=X, mle_regression=False).fit(disp=0)
    # A prior of another width, and the first rows inside the likelihood instead of outside, change the last digits.
    assert fit.parameters["obs_var"] == pytest.approx(expected.params.iloc[0], rel=0.03)
    assert fit.parameters["level_var"] == pytest.approx(expected.params.iloc[1], rel=0.1)
    out = wolf.filter(fit.model, YS, method="KF", update_first=True)
    np.testing.assert_allclose(out.final.mean[1:], expected.filtered_state[1:, -1], rtol=5e-3)


def test_summary_of_the_nile_example_equals_statsmodels():
    """`statsmodels` documentation, "Unobserved components": the Nile, a local level."""
    nile = sm.datasets.nile.load_pandas().data["volume"].to_numpy()
    expected = UnobservedComponents(nile, "llevel").fit(disp=0)
    found = wolf.fit(wolf.models.local_level, nile, score="gaussian", update_first=True, restarts=0).summary()
    assert found.fit.parameters["obs_var"] == pytest.approx(expected.params[0], rel=2e-2)
    assert found.log_likelihood == pytest.approx(expected.llf, abs=0.02)
    assert (found.aic, found.aicc) == pytest.approx((expected.aic, expected.aicc), abs=0.04)
    assert found.bic == pytest.approx(expected.bic, abs=0.04)
    tests = found.tests[0]
    q = np.ravel(expected.test_serial_correlation("ljungbox", lags=1))
    assert (tests.ljung_box, tests.ljung_box_p) == pytest.approx(q, abs=0.05)
    h = np.ravel(expected.test_heteroskedasticity("breakvar"))
    assert (tests.heteroskedasticity, tests.heteroskedasticity_p) == pytest.approx(h, abs=0.01)
    jb = np.ravel(expected.test_normality("jarquebera"))
    assert (tests.jarque_bera, tests.jarque_bera_p, tests.skew, tests.kurtosis) == pytest.approx(jb, abs=0.02)
    assert "Jarque-Bera (JB):" in found.as_text()
    assert "<td style='text-align:right'>AICc</td>" in found.as_html()


def test_residual_tests_equal_statsmodels_on_the_same_errors():
    from statsmodels.stats.diagnostic import acorr_ljungbox
    from statsmodels.stats.stattools import jarque_bera

    from wolf.fitting.residual_tests import ljung_box, residual_tests

    errors = np.random.default_rng(5).standard_t(4, 90)
    found = residual_tests(errors)
    assert (found.jarque_bera, found.jarque_bera_p, found.skew, found.kurtosis) == pytest.approx(jarque_bera(errors))
    expected = acorr_ljungbox(errors, lags=[4])
    assert ljung_box(errors, 4) == pytest.approx(expected["lb_stat"].iloc[0])
    assert residual_tests(np.full(50, np.nan)).count == 0


def test_tracking_example_of_filterpy_has_the_same_numbers():
    """Labbe, "Kalman and Bayesian filters in Python", chapter 8: a robot in the plane."""
    zs = np.array([[i + 0.3 * np.sin(3 * i), i - 0.2 * np.cos(2 * i)] for i in range(30)])
    tracker = KalmanFilter(dim_x=4, dim_z=2)
    tracker.F = np.array([[1, 1.0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1.0], [0, 0, 0, 1]])
    tracker.H = np.array([[1 / 0.3048, 0, 0, 0], [0, 0, 1 / 0.3048, 0]])
    tracker.R, tracker.P = np.eye(2) * 5.0, np.eye(4) * 500.0
    q = Q_discrete_white_noise(dim=2, dt=1.0, var=0.001)
    tracker.Q = np.kron(np.eye(2), q)
    expected = tracker.batch_filter(zs[..., None])
    model = wolf.LinearModel(
        tracker.F, tracker.H, tracker.Q, tracker.R, np.zeros(4), 500.0 * np.eye(4), state_names=["x", "vx", "y", "vy"]
    )
    out = wolf.filter(model, zs, method="KF")
    np.testing.assert_allclose(out.means, expected[0][..., 0], rtol=1e-9)
    np.testing.assert_allclose(out.covs, expected[1], rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(out.to_frame()["mean_vy"], out.means[:, 3])
