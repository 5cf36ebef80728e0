"""Gaussian processes: equal to regression with dense matrices, at any gaps, and robust where that is not."""

from functools import partial

import numpy as np
import pytest

import wolf
from wolf.models import matern

RNG = np.random.default_rng(5)
TIMES = np.sort(RNG.uniform(0.0, 10.0, 60))
GIVEN = {"length": 1.3, "signal_var": 2.0, "obs_var": 0.05}


def kernel(smoothness, tau, length=1.3, signal_var=2.0):
    scaled = np.sqrt(2.0 * smoothness) * np.abs(tau) / length
    shape = {0.5: 1.0, 1.5: 1.0 + scaled, 2.5: 1.0 + scaled + scaled**2 / 3.0}[smoothness]
    return signal_var * shape * np.exp(-scaled)


def draw(smoothness, times, seed, obs_var=0.05):
    rng = np.random.default_rng(seed)
    cov = kernel(smoothness, times[:, None] - times) + 1e-10 * np.eye(len(times))
    truth = np.linalg.cholesky(cov) @ rng.normal(size=len(times))
    return truth, truth + np.sqrt(obs_var) * rng.normal(size=len(times))


def dense(smoothness, times, ys, obs_var=0.05):
    """Regress with matrices: mean, variance, log marginal likelihood."""
    seen = ~np.isnan(ys)
    gram = kernel(smoothness, times[seen][:, None] - times[seen]) + obs_var * np.eye(seen.sum())
    across = kernel(smoothness, times[:, None] - times[seen])
    mean = across @ np.linalg.solve(gram, ys[seen])
    variance = kernel(smoothness, 0.0) - np.einsum("ij,ji->i", across, np.linalg.solve(gram, across.T))
    misfit = ys[seen] @ np.linalg.solve(gram, ys[seen])
    return mean, variance, -0.5 * (misfit + np.linalg.slogdet(gram)[1] + seen.sum() * np.log(2.0 * np.pi))


@pytest.mark.parametrize("smoothness", [0.5, 1.5, 2.5])
def test_smoothing_is_regression_with_dense_matrices(smoothness):
    times = np.r_[TIMES[:57], 40.0, 40.0, 1000.0]  # two at one time, and gaps after which all is forgotten
    _, ys = draw(smoothness, TIMES, seed=1)
    ys[[10, 30, 59]] = np.nan  # what is missing is predicted
    out = wolf.filter(matern(times, smoothness, **GIVEN), ys, method="KF")
    smoothed = wolf.smooth(out)
    mean, variance, log_likelihood = dense(smoothness, times, ys)
    np.testing.assert_allclose(smoothed.means[:, 0], mean, atol=1e-8)
    np.testing.assert_allclose(smoothed.covs[:, 0, 0], variance, atol=1e-8)
    np.testing.assert_allclose(out.log_liks.sum(), log_likelihood, rtol=1e-8)


@pytest.mark.parametrize("smoothness", [0.5, 1.5, 2.5])
def test_steps_add_up_from_tiny_to_huge_gaps(smoothness):
    model = matern(TIMES, smoothness, **GIVEN)
    gaps = np.array([1e-6, 1e-3, 0.1, 0.5, 1.0, 2.0, 50.0, 1e5])
    (once, noise_once), (twice, noise_twice) = model.over(gaps), model.over(2.0 * gaps)
    np.testing.assert_allclose(twice, once @ once, rtol=1e-9, atol=1e-12)
    turned = once @ noise_once @ np.swapaxes(once, -1, -2) + noise_once
    np.testing.assert_allclose(noise_twice, turned, rtol=1e-8, atol=1e-11)
    assert np.all(np.linalg.eigvalsh(noise_once) > -1e-12)


def test_online_steps_with_their_own_times_are_the_same():
    _, ys = draw(1.5, TIMES, seed=2)
    model = matern(TIMES, 1.5, **GIVEN)
    online, before = wolf.Online(model, "WoLF"), TIMES[0]
    for time, y in zip(TIMES, ys, strict=True):
        online.step(y, dt=time - before)
        before = time
    np.testing.assert_allclose(online.mean, wolf.filter(model, ys, method="WoLF").means[-1], atol=1e-10)


def test_outliers_spoil_regression_and_not_its_robust_form():
    spoiled = {"dense": [], "default": [], "clean": []}
    for seed in range(20, 25):
        truth, clean = draw(1.5, TIMES, seed)
        rng = np.random.default_rng(100 + seed)
        ys = np.where(rng.random(60) < 0.1, clean + rng.choice([-1, 1], 60) * rng.uniform(3.0, 10.0, 60), clean)
        out = wolf.filter(matern(TIMES, 1.5, **GIVEN), ys)
        spoiled["default"].append(wolf.smooth(out).means[:, 0] - truth)
        spoiled["dense"].append(dense(1.5, TIMES, ys)[0] - truth)
        spoiled["clean"].append(dense(1.5, TIMES, clean)[0] - truth)
    error = {name: np.sqrt(np.mean(np.square(each))) for name, each in spoiled.items()}
    assert error["default"] < 0.5 * error["dense"]
    assert error["default"] < 2.0 * error["clean"]


@pytest.mark.slow
def test_hyperparameters_are_found_as_by_the_dense_likelihood():
    _, ys = draw(1.5, TIMES, seed=3)
    found = wolf.fit(
        partial(matern, TIMES, 1.5, obs_var=0.05),
        ys,
        start={"length": 1.0, "signal_var": 1.0},
        score="gaussian",
        restarts=0,
    )
    best = found.parameters

    def likelihood(length, signal_var):
        gram = kernel(1.5, TIMES[:, None] - TIMES, length, signal_var) + 0.05 * np.eye(60)
        return -0.5 * (ys @ np.linalg.solve(gram, ys) + np.linalg.slogdet(gram)[1])

    top = likelihood(**best)
    for name in best:
        for factor in (0.97, 1.03):
            assert likelihood(**(best | {name: factor * best[name]})) < top


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"smoothness": 1.0}, "smoothness must be one of 0.5, 1.5 and 2.5"),
        ({"length": 0.0}, "length"),
        ({"signal_var": -1.0}, "signal_var"),
        ({"times": [1.0, 0.0]}, "must not decrease"),
    ],
)
def test_wrong_arguments_are_refused_in_words(changes, words):
    with pytest.raises(ValueError, match=words):
        matern(**({"times": TIMES, "smoothness": 1.5} | GIVEN | changes))
