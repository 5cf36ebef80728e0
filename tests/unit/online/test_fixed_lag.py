"""Fixed-lag smoothing: the smoother of the last steps, whatever arrays the measurements arrive in."""

import numpy as np
import pytest

import wolf

LEVEL = wolf.models.local_level(level_var=0.1, obs_var=1.0)


def level_with_jump(seed=0, steps=40, jump=20):
    ys = np.random.default_rng(seed).normal(size=(steps, 1))
    ys[jump:] += 100.0
    return ys


@pytest.mark.parametrize("backend", ["native", "xla"])
def test_estimates_are_those_of_the_smoother_over_the_rows_so_far(backend):
    ys, lag = level_with_jump(jump=40), 5
    smoother = wolf.FixedLag(LEVEL, "KF", lag=lag)
    if backend == "xla":
        smoother._native = None
    for t, y in enumerate(ys):
        estimate = smoother.step(y)
        assert estimate.t == max(t - lag, 0)
        if t % 10 == 9:
            smoothed = wolf.smooth(wolf.filter(LEVEL, ys[: t + 1], method="KF"))
            np.testing.assert_allclose(estimate.mean, smoothed.means[estimate.t], rtol=1e-9)
            np.testing.assert_allclose(estimate.cov, smoothed.covs[estimate.t], rtol=1e-9)


def test_estimates_use_the_estimated_scale_of_the_dynamics_noise():
    """The velocity moves by four times the standard deviation of its model."""
    model = wolf.models.constant_velocity(dims=1, dt=1.0, dynamics_var=0.01, obs_var=1.0)
    rng = np.random.default_rng(3)
    velocity = np.cumsum(0.4 * rng.normal(size=60))
    ys = (np.cumsum(velocity) + rng.normal(size=60))[:, None]
    smoother = wolf.FixedLag(model, lag=5)
    estimates = [smoother.step(y) for y in ys]
    out = wolf.filter(model, ys)
    smoothed = wolf.smooth(out, reweight=False)
    assert out.dynamics_scales[-1] > 2.0
    np.testing.assert_allclose(estimates[-1].mean, smoothed.means[-6], rtol=1e-9)
    np.testing.assert_allclose(estimates[-1].cov, smoothed.covs[-6], rtol=1e-9)


def test_a_caller_may_reuse_the_array_of_a_measurement():
    """A jump is back-dated by filtering the last measurements again, so they must not change meanwhile."""
    ys, buffer = level_with_jump(), np.empty(1)
    own, reused = wolf.FixedLag(LEVEL, lag=12), wolf.FixedLag(LEVEL, lag=12)
    for y in ys:
        buffer[:] = y
        expected, found = own.step(y.copy()), reused.step(buffer)
        np.testing.assert_array_equal(found.mean, expected.mean)
        np.testing.assert_array_equal(found.cov, expected.cov)
    assert abs(own.online.mean[0] - 100.0) < 2.0
