"""Infinite readings, and those too large to square, count as outliers in what is learned about the noise."""

import numpy as np
import pytest

import wolf

LEVEL = wolf.models.local_level(level_var=0.1, obs_var=1.0)
TRACK = wolf.models.constant_velocity(dims=2, dt=1.0, dynamics_var=0.1, obs_var=1.0)
STEPS, RATE = 400, 0.05
RNG = np.random.default_rng(0)
READINGS = np.cumsum(RNG.normal(0.0, 0.1**0.5, STEPS)) + RNG.normal(size=STEPS)
BAD = RNG.random(STEPS) < RATE


def share(method, value, **options):
    return float(
        wolf.filter(LEVEL, np.where(BAD, value, READINGS), method=method, **options).learned_noise.outlier_share
    )


@pytest.mark.parametrize("backend", ["native", pytest.param("xla", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("method", ["Adaptive", "Learned"])
def test_infinite_readings_are_counted_as_gross_errors_are(method, backend):
    missing, spikes, infinite, huge = (share(method, v, backend=backend) for v in (np.nan, 50.0, -np.inf, 1e300))
    assert missing < 0.5 * RATE
    assert infinite == huge
    assert abs(infinite - spikes) < 0.25 * RATE
    assert abs(infinite - BAD.mean()) < 0.5 * RATE


def test_online_and_bank_count_them_as_the_series_does():
    ys = np.where(BAD, np.inf, READINGS)
    online, bank = wolf.Online(LEVEL), wolf.Bank(LEVEL)
    for y in ys:
        online.step(y)
    bank.step(["a"] * STEPS, ys)
    counts = wolf.filter(LEVEL, ys).learned_noise.counts
    np.testing.assert_array_equal(online.learned_noise.counts, counts)
    np.testing.assert_array_equal(bank["a"].learned_noise.counts, counts)


def test_a_sensor_of_its_own_counts_its_own():
    ys = RNG.normal(size=(STEPS, 2))
    ys[BAD, 1] = np.inf
    good, bad = wolf.filter(TRACK, ys, method=wolf.Adaptive(sensors="each")).learned_noise
    assert float(good.outlier_share) < 0.5 * RATE < float(bad.outlier_share)


def test_at_the_reading_the_belief_is_that_of_a_missing_one():
    ys = READINGS[:20].copy()
    ys[5] = np.inf
    infinite = wolf.filter(LEVEL, ys)
    missing = wolf.filter(LEVEL, np.where(np.isinf(ys), np.nan, ys))
    np.testing.assert_array_equal(infinite.means[:6], missing.means[:6])
    assert infinite.outliers[5]
    assert not missing.outliers[5]


def test_reports_count_them(tmp_path):
    from click.testing import CliRunner

    from wolf.cli import main

    ys = READINGS[:60].copy()
    ys[[10, 30]] = np.inf
    (tmp_path / "in.csv").write_text("\n".join(["value", *map(str, ys)]) + "\n")
    for causal in ([], ["--causal"]):
        arguments = ["filter", str(tmp_path / "in.csv"), "--set", "level_var=0.1", "--set", "obs_var=1", *causal]
        assert "outliers      2 flagged" in CliRunner().invoke(main, arguments).output
    assert wolf.filter(LEVEL, ys).outliers.sum() == 2
