"""Posterior paths, ragged series and measurements that come late."""

import numpy as np
import pytest

import wolf


@pytest.fixture
def trend():
    return wolf.models.local_trend(0.1, 0.01, 1.0, prior=wolf.Gaussian(np.zeros(2), np.eye(2)))


@pytest.fixture
def lossy(trend):
    process = wolf.simulate.Sequence((wolf.simulate.StudentT(3.0), wolf.simulate.Missing(0.1)))
    return wolf.simulate.trajectory(trend, 50, key=0, outliers=process).measurements


def test_sampled_paths_have_the_moments_of_the_smoother(trend, lossy):
    out = wolf.filter(trend, lossy)
    smoothed = wolf.smooth(trend, out)
    paths = wolf.sample_paths(trend, out, num=20_000, key=0)
    deviations = np.sqrt(np.diagonal(smoothed.covs, axis1=1, axis2=2))
    assert np.max(np.abs(paths.mean(0) - smoothed.means) / deviations) < 5 / np.sqrt(20_000)
    sampled = np.einsum("nti,ntj->tij", paths - paths.mean(0), paths - paths.mean(0)) / 20_000
    scale = deviations[:, :, None] * deviations[:, None, :]
    assert np.max(np.abs(sampled - smoothed.covs) / scale) < 0.05


def test_sampled_paths_follow_the_dynamics(trend, lossy):
    """Steps of the paths have the lag-one covariance of the posterior: their noise has at most the variance Q."""
    for method in ("Learned", "Adaptive"):
        out = wolf.filter(trend, lossy, method=method)
        paths = wolf.sample_paths(trend, out, num=4000, key=1)
        noise = paths[:, 1:] - paths[:, :-1] @ trend.F.T
        level = out.dynamics_scales.max() if method == "Adaptive" else 1.0
        assert np.all(noise.var(axis=0) < 1.2 * level * np.diag(trend.Q))


def test_paths_depend_on_the_key_only(trend, lossy):
    out = wolf.filter(trend, lossy)
    first, same, other = (wolf.sample_paths(trend, out, num=3, key=k) for k in (0, 0, 1))
    np.testing.assert_array_equal(first, same)
    assert np.abs(first - other).max() > 0.01


def test_ragged_series_equal_one_by_one(tracking, dirty):
    ys = [dirty.measurements[:40], dirty.measurements, dirty.measurements[50:130]]
    many = wolf.filter_many(tracking, ys)
    smoothed = wolf.smooth(tracking, many)
    ahead = wolf.forecast(tracking, many, 4)
    for i, each in enumerate(ys):
        alone = wolf.filter(tracking, each)
        assert len(many[i]) == len(each)
        assert many[i].final.t == len(each)
        np.testing.assert_allclose(many[i].means, alone.means, atol=1e-10)
        np.testing.assert_allclose(many[i].final.cov, alone.final.cov, atol=1e-10)
        np.testing.assert_allclose(many.log_likelihood[i], alone.log_likelihood, rtol=1e-10)
        np.testing.assert_allclose(smoothed.means[i][: len(each)], wolf.smooth(tracking, alone).means, atol=1e-9)
        np.testing.assert_allclose(ahead.means[i], wolf.forecast(tracking, alone, 4).means, atol=1e-10)
    assert np.isnan(many.means[0, 40:]).all()
    assert not many.outliers[0, 40:].any()


def test_ragged_series_may_have_a_model_each(dirty):
    models = [wolf.models.constant_velocity(2, 0.1, 0.1, var) for var in (5.0, 10.0, 20.0)]
    ys = [dirty.measurements[:n] for n in (30, 60, 45)]
    many = wolf.filter_many(models, ys)
    for i, (model, each) in enumerate(zip(models, ys, strict=True)):
        np.testing.assert_allclose(many[i].means, wolf.filter(model, each).means, atol=1e-10)


@pytest.mark.parametrize("method", ["KF", "WoLF", "WoLF-TMD"])
def test_late_measurements_equal_the_sorted_run(method, tracking, dirty):
    ys, rng = dirty.measurements[:60], np.random.default_rng(0)
    online, waiting = wolf.Online(tracking, method, horizon=12), {}
    for t, y in enumerate(ys):
        if rng.uniform() < 0.3:
            online.step(None)
            waiting[t] = y
        else:
            online.step(y)
        for late in [s for s in waiting if t - s >= rng.integers(1, 8)]:
            online.late(waiting.pop(late), late)
    for late, y in waiting.items():
        online.late(y, late)
    sorted_run = wolf.filter(tracking, ys, method=method)
    np.testing.assert_allclose(online.mean, sorted_run.means[-1], atol=1e-12)
    np.testing.assert_allclose(online.cov, sorted_run.covs[-1], atol=1e-12)


def test_a_late_coordinate_leaves_the_other_as_it_came(tracking, dirty):
    ys = dirty.measurements[:20]
    online = wolf.Online(tracking, horizon=5)
    for t, y in enumerate(ys):
        online.step([y[0], np.nan] if t == 17 else y)
    online.late([np.nan, ys[17, 1]], 17)
    np.testing.assert_allclose(online.mean, wolf.filter(tracking, ys).means[-1], atol=1e-12)


def test_a_measurement_beyond_the_horizon_is_an_error(tracking, dirty):
    online = wolf.Online(tracking, horizon=3)
    for y in dirty.measurements[:10]:
        online.step(y)
    before = online.mean
    for t, words in ((6, "steps 7 to 9"), (10, "steps 7 to 9"), (-1, "t must be a whole number")):
        with pytest.raises(ValueError, match=words):
            online.late([0.0, 0.0], t)
    np.testing.assert_array_equal(online.mean, before)
