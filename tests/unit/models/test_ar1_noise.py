"""Noise with a memory: the posterior of all data at once, intervals that hold, and what cannot be given one."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wolf
from wolf.models import with_ar1_noise

PLANE = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
LEVEL = wolf.LinearModel([[1.0]], [[1.0]], [[0.3]], [[2.0]], [1.0], [[0.5]])


def all_at_once(ys, memory, share):
    """The last state of LEVEL given all measurements, from their joint covariance."""
    t = np.arange(1, len(ys) + 1)
    states = 0.5 + 0.3 * np.minimum(t[:, None], t[None])
    noise = 2.0 * (share * memory ** np.abs(t[:, None] - t[None]) + (1 - share) * np.eye(len(ys)))
    gain = np.linalg.solve(states + noise, states[:, -1])
    return 1.0 + gain @ (ys - 1.0), states[-1, -1] - gain @ states[:, -1]


@settings(max_examples=20, deadline=None)
@given(st.floats(0.05, 0.98), st.floats(0.05, 0.95), st.integers(0, 100))
def test_a_kalman_filter_finds_the_posterior_of_all_data_at_once(memory, share, seed):
    ys = np.random.default_rng(seed).normal(size=(12, 1))
    out = wolf.filter(with_ar1_noise(LEVEL, memory, share), ys, method="KF")
    mean, variance = all_at_once(ys[:, 0], memory, share)
    np.testing.assert_allclose(out.means[-1, 0], mean, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(out.covs[-1, 0, 0], variance, rtol=1e-4)


def test_functions_give_what_matrices_give():
    """A nonlinear model of linear functions, with inputs."""
    F, B = jnp.asarray(PLANE.F), np.ones((4, 1))
    curved = wolf.StateSpaceModel(
        lambda x, u: F @ x + u[0],
        lambda x: x[:2],
        np.diag(np.asarray(PLANE.Q)),
        np.diag(np.asarray(PLANE.R)),
        PLANE.prior,
    )
    straight = wolf.LinearModel(PLANE.F, PLANE.H, PLANE.Q, PLANE.R, *PLANE.prior, B=B)
    ys, us = np.random.default_rng(1).normal(size=(30, 2)), 0.1 * np.random.default_rng(2).normal(size=(30, 1))
    runs = [wolf.filter(with_ar1_noise(one, 0.8), ys, method="EKF", inputs=us) for one in (curved, straight)]
    np.testing.assert_allclose(runs[0].means, runs[1].means, rtol=1e-4, atol=1e-4)


def test_steps_of_other_lengths_are_those_of_the_process():
    model = with_ar1_noise(PLANE, 0.9, 0.8)
    F, Q = model.over([0.1, 0.2])
    np.testing.assert_allclose(F[0], model.F, atol=1e-12)
    np.testing.assert_allclose(Q[0], model.Q, atol=1e-12)
    np.testing.assert_allclose(F[1][4:, 4:], 0.81 * np.eye(2), atol=1e-12)
    np.testing.assert_allclose(Q[1][4:, 4:], 8.0 * (1 - 0.9**4) * np.eye(2), atol=1e-12)


@pytest.mark.parametrize(("memory", "lowest"), [(0.5, 0.93), (0.9, 0.92)])
def test_intervals_hold_where_noise_lasts(memory, lowest):
    """5 % gross outliers; without the autocorrelation, given or estimated, the same method is overconfident."""
    rng = np.random.default_rng([3, int(10 * memory)])
    truth = with_ar1_noise(PLANE, memory)
    runs = [wolf.simulate.trajectory(truth, 400, int(k)) for k in rng.integers(1 << 30, size=20)]
    states, ys = (np.stack([getattr(run, part) for run in runs]) for part in ("states", "measurements"))
    hit = rng.random(ys.shape[:2])[..., None] < 0.05
    ys = np.where(hit, ys + rng.uniform(-100, 100, ys.shape), ys)

    def held(model, method=None):
        out = wolf.filter_many(model, ys, method=method)
        error = np.abs(out.means[..., 0] - states[..., 0])
        return (error < 1.96 * np.sqrt(out.covs[..., 0, 0])).mean()

    found, missed = held(PLANE), held(PLANE, wolf.Adaptive(estimate_autocorrelation=False))
    assert held(truth) > lowest > missed + 0.05
    assert found > missed + 0.05


def test_a_run_reports_autocorrelated_residuals():
    quiet, correlated = (wolf.simulate.trajectory(model, 400, 5) for model in (PLANE, with_ar1_noise(PLANE, 0.9)))
    for method in ("KF", "WoLF", None):
        assert "positively autocorrelated" not in repr(wolf.filter(PLANE, quiet.measurements, method=method))
        assert "with_ar1_noise" in repr(wolf.filter(PLANE, correlated.measurements, method=method))
    assert "as happens with autocorrelated measurement noise" in repr(
        wolf.filter(PLANE, correlated.measurements, method="Adaptive")
    )
    restless = wolf.LinearModel(PLANE.F, PLANE.H, 3000 * PLANE.Q, PLANE.R, *PLANE.prior)
    assert "negatively autocorrelated" in repr(wolf.filter(restless, quiet.measurements, method="KF"))
    holes = quiet.measurements.copy()
    holes[::2] = np.nan  # no two in a row
    assert "positively autocorrelated" not in repr(wolf.filter(PLANE, holes))


@pytest.mark.parametrize("model", [PLANE, wolf.models.local_level(0.01, 1.0)], ids=["plane", "level"])
def test_the_default_reports_a_short_autocorrelation_that_it_follows(model):
    """At a coefficient of 0.5 it attributes half of the noise to the dynamics: residuals are hardly correlated."""
    reported = {}
    for name, truth in (("white", model), ("ar1", with_ar1_noise(model, 0.5))):
        ys = np.stack([wolf.simulate.trajectory(truth, 500, key).measurements for key in range(10)])
        many = wolf.filter_many(model, ys)
        reported[name] = sum("with_ar1_noise" in " ".join(many[i].learned_noise.remarks) for i in range(10))
    assert reported["white"] == 0
    assert reported["ar1"] >= 9


@pytest.mark.parametrize("model", [PLANE, wolf.models.local_level(0.1, 1.0)], ids=["plane", "level"])
def test_an_r_that_is_too_large_is_not_reported_as_autocorrelated(model):
    """There is less noise than R, but no more dynamics: autocorrelation is named as the alternative only."""
    ys = np.stack([wolf.simulate.trajectory(model, 500, key).measurements for key in range(10)])
    many = wolf.filter_many(model.scaled(1.0, 10.0), ys)
    laws = [many[i].learned_noise for i in range(10)]
    remarks = [remark for law in laws for remark in law.remarks]
    assert not any("autocorrelated" in remark and "either R is too large" not in remark for remark in remarks)
    assert all(law.dynamics > 5.0 * law.typical for law in laws if law.dynamics > 1.0)


@pytest.mark.parametrize("model", [PLANE, wolf.models.local_level(0.1, 1.0)], ids=["plane", "level"])
@pytest.mark.parametrize("method", ["KF", "WoLF", "Learned", "Adaptive"])
def test_a_constant_series_has_no_autocorrelation_report(model, method):
    """Its residuals are those of the first steps, and then none."""
    for steps in (300, 3000):
        reported = repr(wolf.filter(model, np.full((steps, model.obs_dim), 3.0), method=method))
        assert "autocorrelated" not in reported.replace("either R is too large, or the noise is autocorrelated", "")
        assert "residuals" not in reported.partition("final state")[2]


@pytest.mark.parametrize(
    ("model", "settings", "words"),
    [
        (PLANE, {"phi": 1.0}, "phi must be below 1"),
        (PLANE, {"phi": 0.0}, "phi must be positive"),
        (PLANE, {"phi": 0.5, "share": 1.5}, "share must be below 1"),
        ("constant-velocity", {"phi": 0.5}, "model must be a LinearModel"),
    ],
)
def test_what_cannot_have_a_memory_is_refused_in_words(model, settings, words):
    with pytest.raises(ValueError, match=words):
        with_ar1_noise(model, **settings)


@pytest.mark.parametrize(("model", "memory"), [(PLANE, 0.8), (wolf.models.local_level(0.01, 1.0), 0.6)])
def test_a_fit_finds_how_long_errors_last_under_outliers_and_a_wrong_r(model, memory):
    truth = with_ar1_noise(model, memory)
    outliers = wolf.simulate.Additive(0.05, -50.0, 50.0)
    ys = wolf.simulate.trajectory(truth, 600, key=4, outliers=outliers).measurements
    found = wolf.fit_ar1_noise(model.scaled(1.0, 3.0), ys, restarts=0)
    assert found.parameters["phi"] == pytest.approx(memory, abs=0.1)
    assert found.parameters["share"] == pytest.approx(0.9, abs=0.15)
    assert found.parameters["noise_scale"] == pytest.approx(1 / 3, rel=0.3)
    assert found.model.state_dim == truth.state_dim


@pytest.mark.parametrize("model", [PLANE, wolf.models.local_level(0.01, 1.0)], ids=["plane", "level"])
def test_a_fit_finds_no_memory_where_there_is_none(model):
    outliers = wolf.simulate.Additive(0.05, -50.0, 50.0)
    for key in range(2):
        ys = wolf.simulate.trajectory(model, 300, key, outliers=outliers).measurements
        found = wolf.fit_ar1_noise(model, ys, restarts=0)
        assert list(found.parameters) == ["noise_scale", "dynamics_scale"]
        assert found.model.state_dim == model.state_dim


def test_a_memory_that_cannot_be_fitted_is_refused_in_words():
    with pytest.raises(ValueError, match="model must be a LinearModel or a StateSpaceModel; got 3"):
        wolf.fit_ar1_noise(3, np.zeros(20))
    with pytest.raises(ValueError, match="too short"):
        wolf.fit_ar1_noise(PLANE, np.ones((2, 2)))
