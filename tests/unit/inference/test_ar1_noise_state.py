"""AR(1) noise: exact without dynamics noise, sensitivities by differences, estimated where present and only there."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wolf
from wolf.beliefs import Affine, Gaussian
from wolf.inference.noise import ar1_noise_state
from wolf.models import with_ar1_noise
from wolf.statespace import LinearMap

PLANE = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
TREND = wolf.LinearModel([[1.0, 1.0], [0.0, 1.0]], [[1.0, 0.0]], np.diag([0.1, 0.01]), [[1.0]], np.zeros(2), np.eye(2))
ANCHORS = np.array([[0.0, 0.0], [10.0, 0.0], [10.0, 8.0], [0.0, 8.0]])
STEPS = 400


def known(memory, jac=None):
    """Return a state with known ρ."""
    start = ar1_noise_state.initial_state(TREND)
    return start._replace(coefficient=jnp.asarray(memory), log_odds=jnp.asarray(50.0), jac=jac)


def filtered(ys, F, memory, functions):
    """Filter without dynamics noise by predicted measurements, NaN is missing; R = 2."""
    H, mean, cov = np.asarray(TREND.H), np.zeros(2), np.diag([3.0, 1.0])
    lasts = known(memory, jnp.eye(2) if functions else None)
    dynamics = (lambda x: F @ x) if functions else LinearMap(jnp.asarray(F))
    for y in ys:
        mean, cov, lasts = F @ mean, F @ cov @ F.T, ar1_noise_state.predict(lasts, jnp.asarray(F))
        if np.isnan(y):
            continue
        whole = ar1_noise_state.predict_measurement(
            lasts, Affine(H @ mean, jnp.asarray(H)), Gaussian(mean, cov), dynamics, None, 1.0
        )
        jac, new = (
            np.asarray(whole.jac),
            2.0 * (1.0 - memory**2) * float(ar1_noise_state.innovation_scale(lasts, jnp.ones(1))),
        )
        gain = cov @ jac.T / (jac @ cov @ jac.T + new)
        mean = mean + gain @ (y - np.asarray(whole.mean))
        cov = cov - gain @ jac @ cov
        lasts = lasts._replace(noise=y - H @ mean, correlation=jnp.ones(1))
    return mean, cov


def all_at_once(ys, F, memory):
    """Compute the last state given all measurements, from their joint covariance."""
    t = np.flatnonzero(~np.isnan(ys)) + 1
    powers = [np.linalg.matrix_power(F, k) for k in range(len(ys) + 1)]
    rows, prior, end = np.stack([powers[k][0] for k in t]), np.diag([3.0, 1.0]), powers[-1]
    noise = 2.0 * memory ** np.abs(t[:, None] - t[None])
    gain = np.linalg.solve(rows @ prior @ rows.T + noise, rows @ prior @ end.T).T
    return gain @ ys[t - 1], end @ prior @ end.T - gain @ rows @ prior @ end.T


@settings(max_examples=20, deadline=None)
@given(st.floats(0.0, 0.95), st.integers(0, 100), st.booleans())
def test_filter_equals_the_joint_distribution(memory, seed, functions):
    """A linear trend, and a constant over gaps; the joint covariance needs no recursion."""
    rng = np.random.default_rng(seed)
    ys, F = rng.normal(size=8), np.asarray(TREND.F)
    if seed % 2:
        ys, F = np.where(rng.random(8) < 0.3, np.nan, ys), np.eye(2)
    mean, cov = filtered(ys, F, memory, functions)
    expected_mean, expected_cov = all_at_once(ys, F, memory)
    np.testing.assert_allclose(mean, expected_mean, atol=1e-6)
    np.testing.assert_allclose(cov, expected_cov, atol=1e-6)


def test_correlation_in_one_dimension_is_the_smoother_gain():
    """The regression of x_{t-1} on x_t is P F / P⁻."""
    F, Q, P = 0.5, 0.7, 1.3
    ahead = F * P * F + Q
    lasts = known(0.8)._replace(noise=jnp.zeros(1), correlation=0.8 * jnp.ones(1), mean_sensitivity=jnp.zeros(1))
    one, belief = jnp.eye(1), Gaussian(jnp.zeros(1), ahead * jnp.eye(1))
    whole = ar1_noise_state.predict_measurement(
        lasts, Affine(jnp.zeros(1), one), belief, LinearMap(F * one), Q * one, jnp.asarray(1.0)
    )
    np.testing.assert_allclose(whole.jac[0, 0], 1.0 - 0.8 * P * F / ahead, rtol=1e-6)


def test_sensitivities_equal_finite_differences_with_fixed_gains():
    """All ρ in use change by a little, gains and outlier probabilities are fixed."""
    ys = wolf.simulate.trajectory(with_ar1_noise(TREND, 0.6), 80, 3).measurements

    def keep(state, info):
        lasts = state.memory.base.ar1
        sensitivities = {name: getattr(lasts, name) for name in ("noise_sensitivity", "mean_sensitivity")}
        known = {"keeps": ar1_noise_state.coefficient_in_use(lasts), "sure": 1.0 - info.outlier_probability}
        return sensitivities | known | {"mean": state.mean, "predicted": info.predicted.mean, "residual": info.residual}

    saved = wolf.filter(TREND, ys, save=keep).saved
    gains = (saved["mean"] - saved["predicted"]) / saved["residual"]

    def again(shift):
        mean, noise = np.zeros(2), 0.0
        for t, y in enumerate(ys[:, 0]):
            keeps = (saved["keeps"][t - 1] if t else 0.0) + shift
            mean, expected = TREND.F @ mean, keeps * noise
            mean = mean + gains[t] * (y - mean[0] - expected)
            noise = expected + ar1_noise_state.PERSISTENT_SHARE * saved["sure"][t] * (y - mean[0] - expected)
        return np.append(mean, noise)

    slopes = (again(1e-6) - again(-1e-6)) / 2e-6
    np.testing.assert_allclose(again(0.0)[:2], saved["mean"][-1], atol=1e-9)
    np.testing.assert_allclose(saved["mean_sensitivity"][-1], slopes[:2], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(saved["noise_sensitivity"][-1], slopes[2:], rtol=1e-5, atol=1e-7)


def drawn(model, memory, series, seed):
    """Simulate states and measurements of many series, 5 % of them off by up to 30 sd."""
    rng = np.random.default_rng([seed, 5])
    truth = model if memory is None else with_ar1_noise(model, memory, share=0.99)
    runs = [wolf.simulate.trajectory(truth, STEPS, int(k)) for k in rng.integers(1 << 30, size=series)]
    states, ys = (np.stack([getattr(run, part) for run in runs]) for part in ("states", "measurements"))
    hit = rng.random(ys.shape[:2])[..., None] < 0.05
    size = 30.0 * np.sqrt(np.diag(model.obs_cov))
    return states, np.where(hit, ys + rng.uniform(-1, 1, ys.shape) * size, ys)


def keep(state, info):
    return {
        "mean": state.mean[0],
        "variance": state.cov[0, 0],
        "memory": ar1_noise_state.coefficient_in_use(state.memory.base.ar1),
    }


def judged(model, ys, states, method=None, save=None):
    """Compute error and coverage of the first state in the second half."""
    keeps = save or (lambda state, info: {"mean": state.mean[0], "variance": state.cov[0, 0]})
    saved = wolf.filter_many(model, ys, method=method, save=keeps).saved
    error = (saved["mean"] - states[..., 0])[:, STEPS // 2 :]
    held = np.abs(error) < 1.96 * np.sqrt(saved["variance"][:, STEPS // 2 :])
    return np.sqrt((error**2).mean()), held.mean(), saved


WITHOUT = wolf.Adaptive(estimate_autocorrelation=False)


@pytest.mark.parametrize("memory", [0.5, 0.7])
def test_coefficient_is_estimated_and_intervals_are_calibrated(memory):
    model = PLANE
    states, ys = drawn(model, memory, 40, 1)
    error, held, saved = judged(model, ys, states, save=keep)
    taken_in, overconfident, _ = judged(model, ys, states, WITHOUT)
    assert np.median(saved["memory"][:, -1]) == pytest.approx(memory, abs=0.15)
    assert held > 0.91 > overconfident + 0.05
    assert error < 0.9 * taken_in


@pytest.mark.parametrize("wrong", [(1.0, 1.0), (0.1, 1.0), (1.0, 0.1), (0.1, 10.0)])
def test_wrong_r_or_q_is_not_attributed_to_autocorrelation(wrong):
    states, ys = drawn(PLANE, None, 60, 2)
    error, _, saved = judged(PLANE.scaled(*wrong), ys, states, save=keep)
    plain, _, _ = judged(PLANE.scaled(*wrong), ys, states, WITHOUT)
    assert saved["memory"][:, STEPS // 4 :].max() < 0.3
    assert np.quantile(saved["memory"], 0.99) < 0.02
    assert error == pytest.approx(plain, rel=0.003)


@pytest.mark.slow
def test_intervals_for_autocorrelated_ranges_are_calibrated():
    """Four anchors, errors of 10 cm for a second or for half a minute (a bias), 5 % of them up to 3 m too long."""
    dt = 0.1
    F = np.eye(4) + dt * np.eye(4, k=2)
    Q = 0.5 * np.kron([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]], np.eye(2))
    prior = wolf.Gaussian(np.array([5.0, 4.0, 0.0, 0.0]), np.diag([1.0, 1.0, 0.5, 0.5]))
    model = wolf.StateSpaceModel(
        lambda x: F @ x, lambda x: jnp.sqrt(((x[None, :2] - ANCHORS) ** 2).sum(1)), Q, 0.01 * np.eye(4), prior
    )
    rng = np.random.default_rng(7)
    for lasts, least in ((1.0, 0.85), (30.0, 0.8)):
        runs = [wolf.simulate.trajectory(model, STEPS, int(k)) for k in rng.integers(1 << 30, size=30)]
        states = np.stack([run.states for run in runs])
        clean = np.sqrt(((states[..., None, :2] - ANCHORS) ** 2).sum(-1))
        memory, error = np.exp(-dt / lasts), 0.1 * rng.normal(size=clean.shape)
        for t in range(1, STEPS):
            error[:, t] = memory * error[:, t - 1] + np.sqrt(1 - memory**2) * error[:, t]
        ys = clean + error + 0.03 * rng.normal(size=clean.shape)
        ys += (rng.random(ys.shape) < 0.05) * rng.uniform(0.0, 3.0, ys.shape)
        (_, held, _), (_, overconfident, _) = judged(model, ys, states), judged(model, ys, states, WITHOUT)
        assert held > least > overconfident + 0.1


def test_forecasts_use_the_stationary_variance_of_the_noise():
    clean = np.stack([wolf.simulate.trajectory(with_ar1_noise(PLANE, 0.8), STEPS, k).measurements for k in range(30)])
    held = []
    for series in clean:
        ahead = wolf.forecast(wolf.filter(PLANE, series[:-20]), steps=20)
        spread = np.sqrt(np.diagonal(ahead.obs_covs, axis1=1, axis2=2))
        held.append(np.abs(series[-20:] - ahead.obs_means) < 1.96 * spread)
    assert np.mean(held) > 0.88


def test_autocorrelation_is_reported():
    correlated_ys = wolf.simulate.trajectory(with_ar1_noise(PLANE, 0.7), STEPS, 5).measurements
    out = wolf.filter(PLANE, correlated_ys)
    assert out.learned_noise.autocorrelation == pytest.approx(0.7, abs=0.15)
    assert "(autocorrelation 0." in repr(out.learned_noise)
    assert "with_ar1_noise" in repr(out)
    assert out.noise_scales[-1] == pytest.approx(1.0, abs=0.4)  # the stationary variance, as R is
    white = wolf.filter(PLANE, wolf.simulate.trajectory(PLANE, STEPS, 5).measurements)
    assert white.learned_noise.autocorrelation < 0.02
    assert "autocorrelation" not in repr(white)


def test_without_ar1_noise_no_state_is_carried():
    ys = np.zeros((5, 2))
    for method in (WITHOUT, wolf.Adaptive(sensors="each"), wolf.Adaptive(q_uncertainty=0, r_uncertainty=0)):
        memory = wolf.filter(PLANE, ys, method=method).final.memory.base
        first = memory[0].noise if isinstance(method.noise.base, wolf.noise.PerSensorNoise) else memory
        assert first.ar1 is None
    wide = wolf.LinearModel(np.eye(17), np.eye(1, 17), np.eye(17), np.eye(1), np.zeros(17), np.eye(17))
    assert wolf.filter(wide, np.zeros((5, 1))).final.memory.base.ar1 is None
