"""Weights in the light of the future: the cavity against a dense solution without the measurement; fixed lag."""

import numpy as np
import pytest
from tests import oracle

import wolf
from wolf.inference.filters import GaussianFilter
from wolf.inference.noise import Weighted

pytestmark = pytest.mark.thorough  # a part that the quick tests touch elsewhere

PLANE = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)


def system_of(model):
    return {name: np.asarray(getattr(model, name)) for name in ("F", "H", "R", "Q", "mean", "cov")}


@pytest.mark.parametrize("seed", [1, 2])
def test_weights_are_those_of_the_series_without_the_measurement(seed):
    """Leave each measurement out of the dense weighted solution, and ask the weight function about its residual."""
    ys = oracle.random_data(seed, 12, outliers=0.2, missing=0.1)
    weight = wolf.weights.MahalanobisIMQ(c=2.0, metric="S")
    model = wolf.LinearModel(PLANE.F, PLANE.H, PLANE.Q, [[3.0, 1.0], [1.0, 2.0]], *PLANE.prior)
    out = wolf.filter(model, ys, method=wolf.WoLF(weight))
    again = wolf.smooth(model, out, reweight=True)
    for t in np.flatnonzero(~np.isnan(ys).any(1)):
        without = ys.copy()
        without[t] = np.nan
        mean, cov = oracle.batch(system_of(model), without, weights=out.weights)
        spread = model.H @ cov[t] @ model.H.T + model.R
        error = ys[t] - model.H @ mean[t]
        expected = 1.0 / np.sqrt(1.0 + error @ np.linalg.solve(spread, error) / 4.0)
        np.testing.assert_allclose(again.weights[t], expected, rtol=1e-6)


@pytest.mark.parametrize("backend", ["native", "xla"])
def test_smoothing_with_the_new_weights_is_the_dense_solution_with_them(backend):
    ys = oracle.random_data(5, 15, outliers=0.2)
    again = wolf.smooth(PLANE, wolf.filter(PLANE, ys, method="WoLF", backend=backend), reweight=True)
    assert again.filtered.backend.startswith(backend)
    mean, cov = oracle.batch(system_of(PLANE), ys, weights=again.weights)
    np.testing.assert_allclose(again.means, mean, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(again.covs, cov, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("rows", [2, 6])
def test_a_filter_without_weights_stays_as_it_is(rows, rng):
    model = wolf.LinearModel(PLANE.F, np.tile(PLANE.H, (rows // 2, 1)), PLANE.Q, 10 * np.eye(rows), *PLANE.prior)
    ys = 3 * rng.normal(size=(20, rows))
    method = GaussianFilter(noise=Weighted(wolf.weights.Unweighted()))
    out = wolf.filter(model, ys, method=method)
    once, twice = wolf.smooth(model, out), wolf.smooth(model, out, reweight=True)
    np.testing.assert_allclose(twice.means, once.means, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(twice.covs, once.covs, rtol=1e-6, atol=1e-9)


def test_one_more_look_helps_under_heavy_tails():
    gains = {}
    for name in ("WoLF", "Learned"):
        logs = []
        for seed in range(40):
            run = wolf.simulate.trajectory(PLANE, 250, seed, wolf.simulate.StudentT(2.01))
            out = wolf.filter(PLANE, run.measurements, method=name)
            once, twice = wolf.smooth(PLANE, out), wolf.smooth(PLANE, out, reweight=True)
            j = [np.sqrt(((s.means - run.states)[:, :2] ** 2).sum()) for s in (once, twice)]
            logs.append(np.log(j[1] / j[0]))
        gains[name] = np.mean(logs)
    assert gains["WoLF"] < -0.01
    assert gains["Learned"] < 0.0


def test_what_cannot_be_weighed_again_is_refused():
    ys = np.zeros((5, 2))
    with pytest.raises(ValueError, match="needs a method with weights"):
        wolf.smooth(PLANE, wolf.filter(PLANE, ys, method="RSTKF"), reweight=True)
    with pytest.raises(ValueError, match="pick one of many"):
        wolf.smooth(PLANE, wolf.filter_many(PLANE, ys[None], method="WoLF"), reweight=True)


@pytest.mark.parametrize("update_first", [False, True])
def test_fixed_lag_is_the_smoother_over_what_has_come(update_first):
    ys = oracle.random_data(6, 16, outliers=0.1, missing=0.1)
    late = wolf.FixedLag(PLANE, "Learned", lag=4, update_first=update_first)
    for now, y in enumerate(ys):
        answer = late.step(y)
        if now in (2, 15):
            whole = wolf.filter(PLANE, ys[: now + 1], method="Learned", update_first=update_first)
            smoothed = wolf.smooth(PLANE, whole)
            assert answer.t == max(0, now - 4)
            np.testing.assert_allclose(answer.mean, smoothed.means[answer.t], rtol=1e-9, atol=1e-10)
            np.testing.assert_allclose(answer.cov, smoothed.covs[answer.t], rtol=1e-8, atol=1e-10)


def test_fixed_lag_refuses_what_it_cannot_smooth():
    with pytest.raises(ValueError, match="lag must be"):
        wolf.FixedLag(PLANE, lag=0)
    with pytest.raises(ValueError, match="needs a Gaussian filter"):
        wolf.FixedLag(PLANE, "PF", key=0)
