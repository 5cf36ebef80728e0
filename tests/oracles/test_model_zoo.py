"""The model zoo against statsmodels, closed forms, and a fine grid."""

import numpy as np
import pytest
from statsmodels.tsa.statespace.structural import UnobservedComponents

import wolf


def statsmodels_loglik(ys, model, params, **spec):
    """The log-likelihood of statsmodels' own structural model, started at our prior."""
    other = UnobservedComponents(ys, **spec)
    other.ssm.initialize_known(model.mean, model.cov)
    other.loglikelihood_burn = 0
    other.ssm.loglikelihood_burn = 0
    return other.loglike(params, transformed=True)


@pytest.fixture
def series(rng):
    t = np.arange(80)
    ys = 0.05 * t + np.sin(2 * np.pi * t / 12) + rng.normal(size=80)
    ys[[5, 30, 31]] = np.nan
    return ys


X = np.column_stack([np.linspace(-1, 1, 80), np.cos(np.arange(80))])

STRUCTURES = {
    "level": (lambda m: [m.level(0.3)], [1.5, 0.3], {"level": "llevel"}),
    "trend": (lambda m: [m.trend(0.3, 0.1)], [1.5, 0.3, 0.1], {"level": "lltrend"}),
    "dummy seasonal": (
        lambda m: [m.level(0.3), m.seasonal(4, 0.2)],
        [1.5, 0.3, 0.2],
        {"level": "llevel", "seasonal": 4},
    ),
    "trigonometric seasonal": (
        lambda m: [m.level(0.3), m.seasonal(12, 0.2, harmonics=3)],
        [1.5, 0.3, 0.2],
        {"level": "llevel", "freq_seasonal": [{"period": 12, "harmonics": 3}]},
    ),
    "cycle": (
        lambda m: [m.level(0.3), m.cycle(9.0, 0.2, damping=0.9)],
        [1.5, 0.3, 0.2, 2 * np.pi / 9.0, 0.9],
        {"level": "llevel", "cycle": True, "stochastic_cycle": True, "damped_cycle": True},
    ),
    "autoregression": (
        lambda m: [m.level(0.3), m.ar([0.5], 0.4)],
        [1.5, 0.3, 0.4, 0.5],
        {"level": "llevel", "autoregressive": 1},
    ),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_structural_models_equal_statsmodels(name, series):
    parts, params, spec = STRUCTURES[name]
    model = wolf.models.structural(*parts(wolf.models), obs_var=1.5)
    ours = wolf.filter(model, series, method="KF", update_first=True).log_likelihood
    np.testing.assert_allclose(ours, statsmodels_loglik(series, model, params, **spec), rtol=1e-8)


@pytest.mark.parametrize("part", [wolf.models.seasonal(4, 0.1), wolf.models.seasonal(4, 0.1, harmonics=2)])
def test_a_season_repeats_and_sums_to_zero(part):
    powers = [np.linalg.matrix_power(part.F, k) for k in range(5)]
    np.testing.assert_allclose(powers[4], np.eye(3), atol=1e-12)
    np.testing.assert_allclose(sum(part.H @ power for power in powers[:4]), 0.0, atol=1e-12)


def test_regression_equals_ordinary_least_squares_under_a_flat_prior(rng):
    coefficients = np.array([2.0, -1.0])
    ys = X @ coefficients + 0.1 * rng.normal(size=80)
    model = wolf.models.structural(wolf.models.regression(X), obs_var=0.01)
    out = wolf.filter(model, ys, method="KF", update_first=True)
    exact, *_ = np.linalg.lstsq(X, ys, rcond=None)
    np.testing.assert_allclose(out.final.mean, exact, atol=1e-5)
    np.testing.assert_allclose(out.final.cov, 0.01 * np.linalg.inv(X.T @ X), rtol=1e-3)


def test_arma_has_its_theoretical_autocovariance():
    """ARMA(1, 1): gamma_0 = s² (1 + 2 φ θ + θ²) / (1 - φ²), gamma_1 = φ gamma_0 + s² θ."""
    phi, theta, var = 0.6, 0.3, 2.0
    part = wolf.models.arma([phi], [theta], var)
    gamma_0 = var * (1 + 2 * phi * theta + theta**2) / (1 - phi**2)
    np.testing.assert_allclose(part.prior.cov[0, 0], gamma_0)
    np.testing.assert_allclose((part.F @ part.prior.cov)[0, 0], phi * gamma_0 + var * theta)


def test_a_second_order_autoregression_has_its_stationary_variance():
    """AR(2): gamma_0 = s² (1 - φ2) / ((1 + φ2) ((1 - φ2)² - φ1²))."""
    first, second, var = 0.5, 0.2, 0.4
    expected = var * (1 - second) / ((1 + second) * ((1 - second) ** 2 - first**2))
    np.testing.assert_allclose(wolf.models.ar([first, second], var).prior.cov[0, 0], expected)


def test_an_explosive_autoregression_has_no_stationary_prior():
    assert wolf.models.ar([1.1], 1.0).prior is None


def test_van_loan_equals_the_closed_forms():
    dt, q, rate = 0.7, 0.3, 1.3
    F, Q = wolf.models.discretise([[0.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, q]], dt)
    np.testing.assert_allclose(F, [[1, dt], [0, 1]], atol=1e-14)
    np.testing.assert_allclose(Q, q * np.array([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]]), rtol=1e-12)
    F, Q = wolf.models.discretise([[-rate]], [[q]], np.array([dt, 0.0]))
    np.testing.assert_allclose(F[:, 0, 0], [np.exp(-rate * dt), 1.0])
    np.testing.assert_allclose(Q[:, 0, 0], [q * (1 - np.exp(-2 * rate * dt)) / (2 * rate), 0.0], atol=1e-15)


def test_constant_acceleration_has_the_textbook_noise():
    dt, q = 0.5, 2.0
    model = wolf.models.constant_acceleration(dims=1, dt=dt, jerk_rate=q, obs_var=1.0)
    np.testing.assert_allclose(model.F, [[1, dt, dt**2 / 2], [0, 1, dt], [0, 0, 1]], atol=1e-14)
    expected = [[dt**5 / 20, dt**4 / 8, dt**3 / 6], [dt**4 / 8, dt**3 / 3, dt**2 / 2], [dt**3 / 6, dt**2 / 2, dt]]
    np.testing.assert_allclose(model.Q, q * np.array(expected), rtol=1e-10)


def test_singer_tends_to_constant_acceleration_for_long_maneuvers():
    tau, q = 1e7, 2.0
    model = wolf.models.singer(2, 0.5, tau, q * tau / 2, 1.0)
    limit = wolf.models.constant_acceleration(2, 0.5, q, 1.0)
    np.testing.assert_allclose(model.F, limit.F, atol=1e-6)
    np.testing.assert_allclose(model.Q, limit.Q, rtol=1e-5, atol=1e-9)


def test_singer_acceleration_has_its_long_run_variance():
    model = wolf.models.singer(1, 0.5, 3.0, 1.7, 1.0)
    decay, noise = model.F[2, 2], model.Q[2, 2]
    np.testing.assert_allclose(noise / (1 - decay**2), 1.7, rtol=1e-10)


@pytest.mark.parametrize("kind", ["level", "velocity", "ou"])
def test_irregular_steps_equal_a_fine_grid_with_missing_data(kind, rng):
    ticks = np.sort(rng.choice(np.arange(1, 200), size=25, replace=False))
    prior = wolf.Gaussian(np.zeros(2), np.eye(2)) if kind == "velocity" else wolf.Gaussian(np.zeros(1), np.eye(1))
    build = {
        "level": lambda times: wolf.models.wiener_level(times, 0.4, 0.5, prior, start=0.0),
        "velocity": lambda times: wolf.models.wiener_velocity(times, 1, 0.4, 0.5, prior, start=0.0),
        "ou": lambda times: wolf.models.ornstein_uhlenbeck(times, 0.8, 1.2, 0.5, prior, start=0.0),
    }[kind]
    values = rng.normal(size=25)
    fine = np.full(200, np.nan)
    fine[ticks - 1] = values
    coarse = wolf.filter(build(0.05 * ticks), values)
    grid = wolf.filter(build(0.05 * np.arange(1, 201)), fine)
    np.testing.assert_allclose(coarse.means, grid.means[ticks - 1], atol=1e-10)
    np.testing.assert_allclose(coarse.covs, grid.covs[ticks - 1], atol=1e-10)
    np.testing.assert_allclose(coarse.weights, grid.weights[ticks - 1], atol=1e-10)


def test_equal_gaps_equal_the_discrete_model(rng):
    ys = rng.normal(size=20)
    prior = wolf.Gaussian(np.zeros(1), np.eye(1))
    regular = wolf.filter(wolf.models.local_level(0.4, 0.5, prior), ys)
    timed = wolf.filter(wolf.models.wiener_level(np.arange(1.0, 21.0), 0.4, 0.5, prior, start=0.0), ys)
    np.testing.assert_allclose(timed.means, regular.means, atol=1e-12)


def test_time_stamps_are_counted_in_seconds():
    stamps = np.array(["2024-01-01T00:00:00", "2024-01-01T00:00:02.5"], dtype="datetime64[ms]")
    np.testing.assert_array_equal(wolf.models.time_steps(stamps), [0.0, 2.5])


def test_unsorted_times_are_an_error():
    with pytest.raises(ValueError, match="at row 2: sort them first"):
        wolf.models.time_steps([0.0, 2.0, 1.0])


def test_merged_sensors_keep_every_reading(rng):
    first, second = np.sort(rng.uniform(size=7)), np.sort(rng.uniform(size=5))
    a, b = rng.normal(size=(7, 2)), rng.normal(size=5)
    times, ys = wolf.models.merge_sensors((first, a), (second, b))
    assert np.all(np.diff(times) > 0)
    np.testing.assert_array_equal(ys[np.isin(times, first)][:, :2], a)
    np.testing.assert_array_equal(ys[np.isin(times, second)][:, 2], b)
    assert np.isnan(ys).sum() == ys.size - a.size - b.size


def test_two_values_at_one_time_are_an_error():
    with pytest.raises(ValueError, match="two values at one time"):
        wolf.models.merge_sensors(([0.0, 0.0], [1.0, 2.0]))


def test_a_turn_keeps_speed_and_goes_around():
    """A full circle at ω = 1 comes back; ω = 0 goes straight."""
    prior = wolf.Gaussian(np.zeros(5), np.eye(5))
    model = wolf.models.coordinated_turn(2 * np.pi / 100, 0.1, 0.1, 1.0, prior)
    x = np.array([0.0, 0.0, 1.0, 0.0, 1.0])
    for _ in range(100):
        x = np.asarray(model.dynamics(x), np.float64)
    np.testing.assert_allclose(x, [0.0, 0.0, 1.0, 0.0, 1.0], atol=1e-4)
    straight = np.asarray(model.dynamics(np.array([0.0, 0.0, 1.0, 2.0, 0.0])))
    np.testing.assert_allclose(straight[:4], [2 * np.pi / 100, 4 * np.pi / 100, 1.0, 2.0], atol=1e-6)


@pytest.mark.parametrize("method", ["EKF", "WoLF", "UKF"])
def test_turning_targets_are_tracked_consistently(method):
    prior = wolf.Gaussian(np.array([0.0, 0.0, 5.0, 0.0, 0.3]), np.diag([1.0, 1.0, 1.0, 1.0, 0.01]))
    model = wolf.models.coordinated_turn(0.2, 0.01, 1e-4, 0.5, prior)
    data = wolf.simulate.trajectory(model, 400, key=5)
    out = wolf.filter(model, data.measurements, method=method)
    assert np.all(wolf.metrics.rmse(out.means, data.states)[:2] < 1.0)
    assert 1.7 < out.nis.mean() < 2.3


def test_odometry_with_gps_uses_its_inputs():
    prior = wolf.Gaussian(np.zeros(3), 0.01 * np.eye(3))
    model = wolf.models.gps_odometry(0.1, 1e-3, 1e-4, 4.0, prior)
    inputs = np.column_stack([np.full(300, 3.0), 0.5 * np.sin(np.arange(300) / 30)])
    data = wolf.simulate.trajectory(model, 300, key=1, inputs=inputs)
    out = wolf.filter(model, data.measurements, inputs=inputs)
    assert np.all(wolf.metrics.rmse(out.means, data.states)[:2] < 1.0)
    assert 1.7 < out.nis.mean() < 2.3


def test_parts_with_regressors_of_two_lengths_are_an_error():
    with pytest.raises(ValueError, match="same length"):
        wolf.models.structural(wolf.models.regression(X), wolf.models.regression(X[:10]), obs_var=1.0)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda m: m.seasonal(1, 0.1), "at least 2"),
        (lambda m: m.seasonal(12, 0.1, harmonics=7), "between 1 and 6"),
        (lambda m: m.cycle(1.5, 0.1), "above 2"),
        (lambda m: m.cycle(9.0, 0.1, damping=1.5), "at most 1"),
        (lambda m: m.level(-1.0), "variance"),
        (lambda m: m.structural(obs_var=1.0), "at least one part"),
        (lambda m: m.regression(np.array([[np.nan]])), "finite"),
        (lambda m: m.singer(2, 0.1, -1.0, 1.0, 1.0), "maneuver_time must be positive"),
    ],
)
def test_bad_parameters_raise(build, words):
    with pytest.raises(ValueError, match=words):
        build(wolf.models)
