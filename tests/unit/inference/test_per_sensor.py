"""Noise by sensor: autocorrelated errors count for less, independent ones in full, and when it is suggested."""

import numpy as np
import pytest

import wolf

PLANE = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
FOUR = wolf.LinearModel(PLANE.F, np.repeat(PLANE.H, 2, axis=0), PLANE.Q, 10.0 * np.eye(4), *PLANE.prior)
EACH = wolf.Adaptive(sensors="each")
SERIES, STEPS, COEFFICIENT = 8, 400, 0.98


@pytest.fixture(scope="module")
def walks():
    """States, their noise-free measurements and white noise of the model."""
    rng = np.random.default_rng(3)
    states = np.empty((STEPS, SERIES, 4))
    state = FOUR.mean + rng.normal(size=(SERIES, 4))
    for t in range(STEPS):
        state = states[t] = state @ FOUR.F.T + np.sqrt(0.1) * rng.normal(size=state.shape)
    states = states.swapaxes(0, 1)
    return states, states @ FOUR.H.T, np.sqrt(10.0) * rng.normal(size=(SERIES, STEPS, 4))


def coverage(out, states):
    spread = np.sqrt(np.diagonal(out.covs, axis1=2, axis2=3)[..., :2])
    return np.mean(np.abs(out.means - states)[..., :2] < 1.96 * spread)


def test_intervals_are_no_narrower_than_the_models_where_biases_last(walks):
    states, clean, white = walks
    bias = white.copy()
    for t in range(1, STEPS):  # of the variance of the model
        bias[:, t] = COEFFICIENT * bias[:, t - 1] + np.sqrt(1 - COEFFICIENT**2) * white[:, t]
    ys = clean + bias + 0.1 * white
    each, plain = (wolf.filter_many(FOUR, ys, method=method, threads=1) for method in (EACH, "KF"))
    assert coverage(each, states) > coverage(plain, states) + 0.05  # without the correction 0.50 of a KF's 0.57
    assert each[0].final.memory.base[0].autocorrelation > 0.3


def test_independent_errors_count_in_full(walks):
    states, clean, white = walks
    out = wolf.filter_many(FOUR, clean + white, method=EACH, threads=1)
    found = np.array([each.autocorrelation for one in out for each in one.final.memory.base])
    assert np.mean(found > 0) < 0.05
    assert 0.92 < coverage(out, states) < 0.98


def test_a_coordinate_that_stands_out_suggests_noise_by_sensor(walks):
    _, clean, white = walks
    ys = (clean + white)[0]
    assert "stand out" not in repr(wolf.filter(FOUR, ys))
    ys[:, 2] += 20.0 * np.random.default_rng(0).normal(size=STEPS)
    assert "residuals of coordinate 2 stand out" in repr(wolf.filter(FOUR, ys))
    assert "stand out" not in repr(wolf.filter(FOUR, ys, method=EACH))
