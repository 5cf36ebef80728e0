"""Calibrated prediction intervals: the bound on their coverage, equal on all paths, estimates left alone."""

import numpy as np
import pytest

import wolf
from wolf.results.conformal import MAX_LOG_SCALE

MODEL = wolf.models.local_level(level_var=0.1, obs_var=1.0)
RNG = np.random.default_rng(5)
YS = 4.0 * RNG.normal(size=300)  # noise of sixteen times the variance of the model
YS[40:45], YS[60] = np.nan, np.inf


def just_outside(radius):
    return np.nextafter(radius, np.inf)


ADVERSARIES = {
    "always just outside": just_outside,
    "never outside": lambda radius: 0.0,
    "huge, then nothing": lambda radius: np.inf if radius < 50.0 else 0.0,
    "just inside": lambda radius: radius,
    "random scale": lambda radius: np.exp(RNG.normal(scale=8.0)),
}


@pytest.mark.parametrize("level", [0.5, 0.95])
@pytest.mark.parametrize("adversary", ADVERSARIES.values(), ids=ADVERSARIES)
def test_coverage_is_within_the_bound_against_an_adversary(adversary, level):
    intervals, log_scale, inside = wolf.ConformalIntervals(level=level), np.zeros(1), []
    for _ in range(2000):
        radius = float(intervals.radius(log_scale)[0])
        error = adversary(radius)
        inside.append((error <= radius and radius > 0.0) or np.isinf(radius))
        log_scale = intervals.adapt(log_scale, np.array([error]), np.ones(1))
    for count in (20, 500, 2000):
        assert abs(np.mean(inside[:count]) - level) <= intervals.bound(count)
    # and exactly: the sum of the updates
    assert level - np.mean(inside) == pytest.approx(log_scale[0] / (intervals.rate * 2000), abs=1e-12)
    assert abs(log_scale[0]) <= MAX_LOG_SCALE + intervals.rate


def test_coverage_of_delayed_forecasts_is_within_its_bound():
    intervals, delay, count = wolf.ConformalIntervals(level=0.9), 7, 3000
    errors = np.exp(np.cumsum(RNG.normal(scale=0.3, size=(count, 2)), axis=0))  # scales wander over decades
    radii = intervals.track(errors, np.ones_like(errors), delay=delay)[:-1]
    inside = (errors <= radii).mean(axis=0)
    assert np.all(np.abs(inside - 0.9) <= intervals.bound(count) + (delay - 1) / count)
    np.testing.assert_array_equal(radii[:delay], radii[:1].repeat(delay, axis=0))


def test_radii_are_equal_on_all_paths_and_estimates_unchanged():
    plain = wolf.filter(MODEL, YS, method="KF")
    out = wolf.filter(MODEL, YS, method="KF", calibrate="conformal")
    np.testing.assert_array_equal(out.means, plain.means)
    np.testing.assert_array_equal(out.covs, plain.covs)
    assert np.isnan(out.prediction_interval()[0][40, 0])
    assert out.conformal_radius[-1, 0] > 5.0  # of a nominal 1.96: the noise is four times wider

    online, radii = wolf.Online(MODEL, "KF", calibrate="conformal"), []
    for y in YS:
        radii.append(online.conformal_radius)
        online.step(y)
    np.testing.assert_array_equal(radii, out.conformal_radius)

    bank = wolf.Bank(MODEL, "KF", calibrate="conformal")
    rows = bank.step(["a", "b"] * 300, np.repeat(YS, 2))
    one = wolf.Bank(MODEL, "KF", calibrate="conformal")
    first = [one.step(["c", "a"], [0.0, y]) for y in YS[:3]]  # by the code for keys that are all different
    lower, upper = out.prediction_interval(calibrated=True)
    for key in (0, 1):
        np.testing.assert_allclose((rows.prediction - rows.half_width)[key::2], lower, rtol=1e-12)
        np.testing.assert_allclose((rows.prediction + rows.half_width)[key::2], upper, rtol=1e-12)
    np.testing.assert_array_equal([each.half_width[1] for each in first], rows.half_width[1:6:2])
    assert wolf.Bank(MODEL, "KF").step(["a"], [1.0]).half_width is None


def test_calibration_is_saved_with_the_state(tmp_path):
    online = wolf.Online(MODEL, "KF", calibrate=wolf.ConformalIntervals(level=0.8, rate=0.05))
    bank = wolf.Bank(MODEL, "KF", calibrate="conformal")
    for y in YS[:30]:
        online.step(y)
        bank.step(["a"], [y])
    online.save(tmp_path / "online.npz")
    bank.save(tmp_path / "bank.npz")
    np.testing.assert_array_equal(
        wolf.Online.load(tmp_path / "online.npz", MODEL).conformal_radius, online.conformal_radius
    )
    loaded, restored = wolf.Bank.load(tmp_path / "bank.npz", MODEL), wolf.Bank(MODEL, "KF", calibrate="conformal")
    restored.restore("a", bank.dump("a"))
    expected = bank.step(["a", "new"], [1.0, 1.0]).half_width
    for each in (loaded, restored):
        np.testing.assert_array_equal(each.step(["a", "new"], [1.0, 1.0]).half_width, expected)
    with pytest.raises(ValueError, match="calibrate=None"):
        bank.read(_saved(tmp_path, wolf.Bank(MODEL, "KF")))


def _saved(folder, bank):
    bank.step(["a"], [1.0])
    bank.save(folder / "plain.npz")
    return folder / "plain.npz"


def test_frames_have_both_intervals():
    frame = wolf.filter(MODEL, YS, method="KF", calibrate="conformal").to_frame()
    widths = [frame[f"{kind}_upper"] - frame[f"{kind}_lower"] for kind in ("prediction", "calibrated")]
    assert widths[1].iloc[-1] > 2.5 * widths[0].iloc[-1]


def test_a_missing_measurement_changes_no_radius():
    residuals = np.array([[3.0], [np.nan], [np.nan], [0.1]])
    radii = wolf.ConformalIntervals().track(residuals, np.ones((4, 1)))[:, 0]
    assert radii[1] == radii[2] == radii[3] > radii[0]
    assert radii[4] < radii[3]


def test_outliers_can_be_left_out():
    ys = np.where(np.arange(300) % 5 == 0, 1e3, 0.0) + RNG.normal(size=300)
    every, kept = (
        wolf.filter(MODEL, ys, method="WoLF-TMD", calibrate=wolf.ConformalIntervals(skip_outliers=skip))
        for skip in (False, True)
    )
    assert kept.conformal_radius.max() < 5.0
    assert every.conformal_radius.max() > 5.0


def test_forecast_intervals_are_calibrated_by_horizon():
    ys = np.where(np.isfinite(YS), YS, 0.0)
    out = wolf.filter(MODEL, ys, method="KF", calibrate="conformal")
    ahead, plain = wolf.forecast(out, 3), wolf.forecast(wolf.filter(MODEL, ys, method="KF"), 3)
    np.testing.assert_array_equal(ahead.means, plain.means)
    np.testing.assert_array_equal(ahead.obs_covs, plain.obs_covs)
    assert np.all(ahead.upper - ahead.lower > 2.0 * (plain.upper - plain.lower))
    for k in (1, 2, 3):  # the level forecast from each step, against the measurement k steps later
        errors, variances = ys[k:, None] - out.means[:-k], out.covs[:-k, 0] + 0.1 * k + 1.0
        radius = wolf.ConformalIntervals().track(errors, variances, delay=k)[-1]
        half = radius * np.sqrt(out.covs[-1, 0] + 0.1 * k + 1.0)
        np.testing.assert_allclose(0.5 * (ahead.upper - ahead.lower)[k - 1], half, rtol=1e-9)


def test_errors_say_what_is_expected():
    with pytest.raises(ValueError, match='calibrate must be "conformal"'):
        wolf.filter(MODEL, YS, calibrate="conform")
    with pytest.raises(ValueError, match='save="all"'):
        wolf.filter(MODEL, YS, method="KF", calibrate="conformal", save="means")
    with pytest.raises(ValueError, match="rate must be"):
        wolf.ConformalIntervals(rate=2.0)
    with pytest.raises(AttributeError, match="calibrate"):
        wolf.Online(MODEL, "KF").conformal_radius


def test_prediction_intervals_are_those_of_the_predicted_measurement():
    """A Kalman filter of scalars, written out."""
    out = wolf.filter(MODEL, YS[:30], method="KF")
    lower, upper = out.prediction_interval(0.9)
    mean, var = 0.0, float(MODEL.prior.cov[0, 0])
    for t, y in enumerate(YS[:30]):
        var += 0.1
        half = 1.6448536269514722 * np.sqrt(var + 1.0)  # 95 % quantile of the standard normal distribution
        assert [lower[t, 0], upper[t, 0]] == pytest.approx([mean - half, mean + half], rel=1e-9, abs=1e-9)
        gain = var / (var + 1.0)
        mean, var = mean + gain * (y - mean), (1.0 - gain) * var
