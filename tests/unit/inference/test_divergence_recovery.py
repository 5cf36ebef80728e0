"""Jump test: jumps are accepted, bursts below the patience are not, and without rejections nothing changes."""

import jax
import numpy as np
import pytest
from filterpy.kalman import KalmanFilter
from tests import oracle

import wolf
from wolf.inference.filters import GaussianFilter
from wolf.inference.noise import Weighted
from wolf.inference.noise.divergence_recovery import JumpRecovery

PLANE = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
GATE = wolf.weights.MahalanobisThreshold(metric="S")


def with_jump_test(weight, patience=5):
    return GaussianFilter(noise=JumpRecovery(Weighted(weight), patience))


@pytest.fixture(scope="module")
def walks():
    rng = np.random.default_rng(77)
    runs = [wolf.simulate.trajectory(PLANE, 200, seed) for seed in range(40)]
    states = np.stack([run.states for run in runs])
    ys = np.stack([run.measurements for run in runs])
    wild = rng.random((40, 200, 1)) < 0.05
    wild[:, 95:115] = False
    return states, np.where(wild, ys + rng.uniform(-100, 100, ys.shape), ys), ys


def errors(method, ys, states):
    means = wolf.filter_many(PLANE, ys, method=method, save="means").means
    return np.linalg.norm((means - states)[..., :2], axis=-1)


@pytest.mark.parametrize("size", [30.0, 300.0, 1e5])
def test_a_jump_that_makes_a_gate_diverge_is_followed_within_twenty_steps(size, walks):
    states, ys, _ = walks
    moved = np.where(np.arange(200)[:, None] >= 100, size, 0.0)
    truth = states + moved * [1.0, 1.0, 0.0, 0.0]
    locked = errors(wolf.WoLF(GATE), ys + moved, truth)
    assert size < 100 or (locked[:, 150:] > 15).mean() > 0.9  # it may recover from a small one by itself
    for method in (with_jump_test(GATE), wolf.methods.make("Learned")):
        found = errors(method, ys + moved, truth)
        assert (found[:, 125:] < 8).mean() > 0.95
        assert (found[:, -1] < 15).all()


def test_a_jump_of_the_velocity_is_followed_by_the_drift(walks):
    states, _, ys = walks
    rate = 100.0
    late = np.maximum(np.arange(200) - 99, 0)[:, None] * 0.1 * rate
    truth = states + late * [1.0, 1.0, 0.0, 0.0]
    found = errors(wolf.methods.make("Learned"), ys + late, truth)
    assert (found[:, 140:] < 8).mean() > 0.95


def season(count=60, steps=450):
    """Simulate series of a level with a season of three waves, and their noise-free signals."""
    model = wolf.models.make("level+seasonal:24:3", level_var=0.05, seasonal_var=0.0002, obs_var=0.25)
    usual = np.diag([1.0, *[9.0] * 6])
    drawn = wolf.LinearModel(model.F, model.H, model.Q, model.R, np.zeros(7), usual)
    runs = [wolf.simulate.trajectory(drawn, steps, seed) for seed in range(count)]
    return model, np.stack([run.measurements for run in runs]), np.stack([run.states @ model.H.T for run in runs])


@pytest.mark.thorough
@pytest.mark.parametrize("size", [1e3, 1e6])
@pytest.mark.parametrize("sensors", [None, "each"])
def test_a_season_corrupted_by_a_false_jump_is_reinitialised(size, sensors):
    """Without the second criterion 99 of 100 such series diverge for good: rejections are never consistent."""
    model, ys, truth = season()
    ys[:, 200:205] += size
    out = wolf.filter_many(model, ys, method=wolf.Learned(sensors=sensors))
    error = np.abs(out.means @ model.H.T - truth)[..., 0]
    assert (np.median(error[:, 210:220], axis=1) > 10.0).mean() > 0.9
    assert (np.median(error[:, 350:], axis=1) < 1.0).mean() > 0.95


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["Learned", "Adaptive"])
def test_a_season_that_is_wrong_at_some_hours_is_reinitialised(method):
    """Rejected for ten hours a day, and accepted at all others; the noise scale must not absorb the rest."""
    model, ys, truth = season(steps=700)
    ys[:, 200:206] += 100.0
    out = wolf.filter_many(model, ys, method=method)
    error = np.abs(out.means @ model.H.T - truth)[..., 0]
    assert (error[:, 210:350].max(axis=1) > 50.0).mean() > 0.8
    assert (np.quantile(error[:, 600:], 0.95, axis=1) < 3.0).mean() > 0.95


@pytest.mark.thorough
@pytest.mark.parametrize("share", [0.3, 0.6, 1.0])
def test_random_measurements_are_too_rarely_clustered_to_count_as_divergence(share):
    model, ys, _ = season()
    rng = np.random.default_rng(5)
    ys = np.where(rng.random(ys.shape) < share, rng.uniform(-500.0, 500.0, ys.shape), ys)
    ys[:, :150] = season()[1][:, :150]
    keep = lambda state, info: state.memory.clustered[0]  # noqa: E731
    assert wolf.filter_many(model, ys, save=keep).saved[:, 150:].max() < 13.0  # of the 20 needed


def test_past_runs_estimate_the_share_of_consistent_outliers(walks):
    """A share of the measurements plus one standard deviation; unrelated outliers are never consistent."""
    _, wild, sound = walks
    hit = np.random.default_rng(6).random(sound.shape[:2])[..., None] < 0.2
    shares = jax.vmap(lambda evidence: evidence.consistent_share)
    alike = shares(wolf.filter_many(PLANE, np.where(hit, sound + 50.0, sound)).final.memory)
    assert 0.15 < np.median(alike) < 0.3
    assert np.median(shares(wolf.filter_many(PLANE, wild).final.memory)) == 0.0


@pytest.mark.thorough
def test_equal_outliers_are_rarely_accepted_although_they_are_clustered():
    """At a rate of 40 % in one series of thirty; counting every long run they would be accepted in one of four."""
    runs = [wolf.simulate.trajectory(PLANE, 1000, seed) for seed in range(60)]
    truth, sound = np.stack([run.states for run in runs]), np.stack([run.measurements for run in runs])
    hit = np.random.default_rng(7).random(sound.shape[:2])[..., None] < 0.4
    found = errors("Adaptive", np.where(hit, sound + 50.0, sound), truth)
    assert (np.sqrt((found**2).mean(axis=1)) < 5).mean() > 0.9


def test_an_offset_that_drifts_fast_is_accepted():
    """Each residual is far from the last one, and where the two before extrapolate to."""
    level = wolf.models.local_level(level_var=0.1, obs_var=1.0)
    ys = np.concatenate([np.zeros(10), 100.0 * np.arange(1, 7)])
    out = wolf.filter(level, ys, method=with_jump_test(GATE, patience=3))
    assert np.flatnonzero(out.inflations > 1)[0] == 13


@pytest.mark.parametrize("patience", [3, 5, 8])
def test_a_burst_shorter_than_the_patience_is_ignored(patience, walks):
    ys = walks[2]
    method = wolf.methods.make("Learned", patience=patience)
    for length, followed in ((patience - 1, False), (patience, True)):
        shifted = ys.copy()
        shifted[:, 100 : 100 + length] += 90.0
        inflations = wolf.filter_many(PLANE, shifted, method=method).inflations
        assert (inflations[:, 100 : 101 + length] > 1).any(1).mean() == pytest.approx(float(followed), abs=0.1)


@pytest.mark.parametrize("method", [with_jump_test(GATE), wolf.methods.make("Learned")], ids=["gate", "Learned"])
def test_an_accepted_jump_goes_no_farther_than_a_kalman_filter(method):
    """The prior is inflated by no more than the residual needs, and what follows is an ordinary update."""
    for seed, size in ((0, 30.0), (1, 1e3), (2, 1e6)):
        system = oracle.random_system(seed)
        model = wolf.LinearModel(*(system[name] for name in ("F", "H", "Q", "R", "mean", "cov")))
        quiet = wolf.simulate.trajectory(model, 30, key=seed).measurements
        shifted = quiet + np.where(np.arange(30)[:, None] >= 20, size, 0.0) * [1.0, -0.5]
        out = wolf.filter(model, shifted, method=method)
        t = np.flatnonzero(out.inflations > 1)[0]
        assert t >= 24  # the fifth of them
        prior, white = out.predicted_covs[t] / out.inflations[t], np.linalg.inv(np.linalg.cholesky(system["R"]))
        before, after = (white @ (shifted[t] - system["H"] @ each[t]) for each in (out.predicted_means, out.means))
        assert np.linalg.norm(after) <= np.linalg.norm(before)
        assert np.linalg.norm(before - after) <= np.linalg.norm(before)
        G = white @ system["H"] @ prior @ system["H"].T @ white.T
        needed = before @ G @ before / np.trace(G @ G)
        assert 1.0 < out.inflations[t] <= needed * (1 + 1e-9)
        kalman = KalmanFilter(dim_x=3, dim_z=2)
        kalman.x, kalman.P, kalman.H = out.predicted_means[t], needed * prior, system["H"]
        kalman.update(shifted[t], R=1e-9 * system["R"])  # with a weight of one
        shift, farthest = (np.abs(mean - out.predicted_means[t]) for mean in (out.means[t], kalman.x))
        assert (shift <= 1.01 * farthest + 1e-6 * size).all()


def test_inconsistent_outliers_are_never_accepted(walks):
    ys = walks[2]
    rng = np.random.default_rng(5)
    wild = ys.copy()
    wild[:, 100:160] += rng.choice([-1, 1], (40, 60, 2)) * rng.uniform(100, 5000, (40, 60, 2))
    found = wolf.filter_many(PLANE, wild, method="Learned")
    assert (found.inflations > 1).mean() < 1e-3
    assert np.isfinite(found.means).all()


def test_giant_values_are_never_accepted():
    ys = oracle.random_data(2, 40)
    ys[20:] = 1e60
    out = wolf.filter(PLANE, ys, method="Learned")
    assert (out.inflations == 1.0).all()
    assert np.isfinite(out.covs).all()


def test_without_rejections_the_jump_test_changes_no_bit(walks):
    ys = walks[2][0]
    wide = wolf.weights.MahalanobisIMQ(c=50.0)
    a, b = (wolf.filter(PLANE, ys, method=m) for m in (wolf.WoLF(wide), with_jump_test(wide)))
    np.testing.assert_array_equal(a.means, b.means)
    np.testing.assert_array_equal(a.covs, b.covs)


def test_more_sensors_than_states_recover():
    rows = np.array([[1.0], [1.0], [2.0], [0.5]])
    model = wolf.LinearModel([[1.0]], rows, [[0.01]], np.eye(4), [0.0], [[1.0]])
    rng = np.random.default_rng(1)
    level = np.where(np.arange(80) >= 40, 50.0, 0.0)
    ys = level[:, None] * rows[:, 0] + rng.normal(size=(80, 4))
    out = wolf.filter(model, ys, method=with_jump_test(GATE))
    assert abs(out.means[-1, 0] - 50) < 1
    assert (out.inflations > 1).sum() == 1


def test_missing_coordinates_do_not_disturb_the_test(walks):
    ys = walks[2][0].copy()
    ys[100:] += 100.0
    ys[101::2, 0] = np.nan
    ys[102] = np.nan
    out = wolf.filter(PLANE, ys, method="Learned")
    fired = np.flatnonzero(out.inflations > 1)
    assert len(fired) >= 1
    assert fired[0] <= 110
    assert np.linalg.norm(out.means[-1, :2] - ys[-2]) < 15


def test_smoothing_uses_the_inflated_prediction(walks):
    """Inflation is a larger Q at that step: smooth this model and compare."""
    ys = walks[2][0][:60].copy()
    ys[30:] += 200.0
    smoothed = wolf.smooth(wolf.filter(PLANE, ys, method=with_jump_test(GATE)))
    out = smoothed.filtered  # once more, with the jump at the first rejection
    assert np.flatnonzero(out.inflations > 1).tolist() == [30]
    noise = np.repeat(np.asarray(PLANE.Q)[None], 60, 0)
    for t in np.flatnonzero(out.inflations > 1):
        noise[t] = out.predicted_covs[t] - PLANE.F @ out.covs[t - 1] @ PLANE.F.T
    system = {"F": PLANE.F, "H": PLANE.H, "R": PLANE.R, "Q": noise, "mean": PLANE.mean, "cov": PLANE.cov}
    mean, cov = oracle.batch({k: np.asarray(v) for k, v in system.items()}, ys, weights=out.weights)
    np.testing.assert_allclose(smoothed.means, mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(smoothed.covs, cov, rtol=1e-5, atol=1e-7)


def test_another_sensor_for_one_step_may_end_a_run_and_has_none():
    H = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    model = wolf.LinearModel(np.eye(2), H, 0.1 * np.eye(2), np.eye(3), np.zeros(2), np.eye(2))
    online = wolf.Online(model)
    for y in ([0.0, 0.0, 0.0], [50.0, 50.0, 100.0], [51.0, 50.0, 101.0]):
        online.step(y)
    assert online.state.memory.consistent.tolist() == [2.0]
    online.step([70.0, 70.0], H=H[1:], R=np.eye(2))
    assert online.state.memory.consistent.tolist() == [2.0]
    online.step([0.0, 0.0], H=H[1:], R=np.eye(2))
    assert online.state.memory.consistent.tolist() == [0.0]


@pytest.mark.parametrize(("sensors", "words"), [("each", "write NaN"), ((0, 0, 1), "of each of the 2 coordinates")])
def test_per_sensor_noise_does_not_allow_other_sensors_for_a_step(sensors, words):
    model = wolf.LinearModel([[1.0]], np.ones((3, 1)), [[0.1]], np.eye(3), [0.0], [[1.0]])
    online = wolf.Online(model, wolf.Learned(sensors=sensors))
    with pytest.raises(ValueError, match=words):
        online.step([0.0, 1.0], H=np.ones((2, 1)), R=np.eye(2))
    online.step([0.0, 1.0, np.nan])
    assert online.t == 1
