"""Back-dating: smoothing places a jump at the first rejection, not where it was accepted."""

import numpy as np
import pytest

import wolf
from wolf.engine import jump_backdating

STEPS, JUMP, SIZE = 120, 60, 20.0
LEVEL = wolf.models.local_level(level_var=0.1, obs_var=1.0)
RUN_SET_BACK = 11  # a seed with noise of 3.6 sd just after the jump, which splits the run of rejections


def jumping(seed, steps=STEPS):
    rng = np.random.default_rng(seed)
    truth = np.cumsum(rng.normal(0, 0.1**0.5, 200)) + SIZE * (np.arange(200) >= 100)
    ys = truth + rng.normal(0, 1, 200)
    return truth[100 - JUMP : 100 - JUMP + steps], ys[100 - JUMP : 100 - JUMP + steps]


@pytest.fixture(scope="module")
def many():
    pairs = [jumping(seed) for seed in range(20)]
    truth, ys = (np.stack(column) for column in zip(*pairs, strict=True))
    out = wolf.filter_many(LEVEL, ys)
    return truth, ys, out, wolf.smooth(out)


@pytest.mark.thorough
def test_the_error_around_a_jump_is_that_of_any_other_step(many):
    truth, _, out, smoothed = many
    errors = smoothed.means[:, :, 0] - truth
    around = slice(JUMP - 3, JUMP + 10)
    assert np.sqrt((errors[:, around] ** 2).mean(0)).max() < 1.0
    assert np.abs(errors[:, around]).max() < 3.0
    late = np.abs(out.means[:, JUMP : JUMP + 3, 0] - truth[:, JUMP : JUMP + 3])
    assert late.min() > 15.0  # the causal filter has no information about it


def test_intervals_are_calibrated_around_a_jump(many):
    truth, _, _, smoothed = many
    held = np.abs(smoothed.means[:, :, 0] - truth) < 1.96 * np.sqrt(smoothed.covs[:, :, 0, 0])
    assert 0.92 < held.mean() < 0.97
    assert held[:, JUMP - 3 : JUMP + 10].mean() > 0.9


@pytest.mark.parametrize("seed", [0, RUN_SET_BACK])
def test_many_are_smoothed_as_one_by_one(seed, many):
    _, ys, _, smoothed = many
    alone = wolf.smooth(wolf.filter(LEVEL, ys[seed]))
    np.testing.assert_allclose(alone.means, smoothed.means[seed], rtol=1e-9, atol=1e-9)
    assert (alone.filtered.inflations > 1).sum() == 1
    assert alone.filtered.inflations[JUMP] > 1


def test_reweighted_smoothing_backdates_too(many):
    truth, ys, _, _ = many
    again = wolf.smooth(wolf.filter(LEVEL, ys[RUN_SET_BACK]), reweight=True)
    assert np.abs(again.means[:, 0] - truth[RUN_SET_BACK])[JUMP - 3 : JUMP + 10].max() < 3.0


@pytest.mark.parametrize("seed", [0, RUN_SET_BACK])
def test_a_fixed_lag_backdates_a_jump_within_its_lag(seed, many):
    truth, ys, _, _ = many
    late, means = wolf.FixedLag(LEVEL, lag=12), {}
    for y in ys[seed, : JUMP + 30]:
        answer = late.step(y)
        means[answer.t] = answer.mean[0]
    errors = np.array([means[t] - truth[seed, t] for t in range(JUMP - 3, JUMP + 10)])
    assert np.abs(errors).max() < 3.0


def test_without_an_accepted_jump_nothing_is_filtered_again(monkeypatch):
    _, ys = jumping(3)
    out = wolf.filter(LEVEL, ys - SIZE * (np.arange(STEPS) >= JUMP))
    assert not (out.inflations > 1).any()
    monkeypatch.setattr(jump_backdating, "with_jumps", lambda *given: pytest.fail("filtered again"))
    assert wolf.smooth(out).filtered is out


def test_an_outlier_just_before_the_jump_is_not_part_of_it(many):
    truth, ys, _, _ = many
    spoiled = ys[0].copy()
    spoiled[JUMP - 1] -= 30.0
    smoothed = wolf.smooth(wolf.filter(LEVEL, spoiled))
    assert np.abs(smoothed.means[:, 0] - truth[0])[JUMP - 3 : JUMP + 10].max() < 3.0


def test_missing_measurements_are_not_in_a_run():
    counts = np.array([[1.0], [1.0], [2.0], [3.0], [0.0]])
    won = np.array([1.0, 1.0, 1.0, 1.0, 9.0])
    assert jump_backdating.possible_starts(counts, won, np.array([True, False, True, True, True])) == [[0]]
    assert jump_backdating.possible_starts(counts, won, np.ones(5, bool)) == [[1, 0]]


@pytest.mark.slow
def test_sensors_tested_separately_jump_together():
    model = wolf.LinearModel(np.eye(1), np.ones((3, 1)), 0.1 * np.eye(1), np.eye(3), np.zeros(1), np.eye(1))
    rng = np.random.default_rng(5)
    truth = np.cumsum(rng.normal(0, 0.1**0.5, STEPS)) + SIZE * (np.arange(STEPS) >= JUMP)
    ys = truth[:, None] + rng.normal(0, 1, (STEPS, 3))
    ys[30:, 2] = -40.0  # one of them is stuck
    smoothed = wolf.smooth(wolf.filter(model, ys, method=wolf.Learned(sensors="each")))
    assert np.abs(smoothed.means[:, 0] - truth)[JUMP - 3 : JUMP + 10].max() < 3.0


@pytest.fixture(scope="module")
def burst():
    """Simulate a constant level with ten equal outliers."""
    rng = np.random.default_rng(3)
    truth = np.cumsum(rng.normal(0, 0.1**0.5, STEPS))
    ys = truth + rng.normal(0, 1, STEPS)
    in_burst = (np.arange(STEPS) >= JUMP) & (np.arange(STEPS) < JUMP + 10)
    return truth, np.where(in_burst, ys + SIZE, ys), in_burst


@pytest.mark.parametrize("method", ["Learned", "Adaptive"])
@pytest.mark.parametrize("reweight", [False, True])
def test_a_burst_that_ended_is_removed(method, reweight, burst):
    truth, ys, in_burst = burst
    out = wolf.filter(LEVEL, ys, method=method)
    assert (
        np.abs(out.means[in_burst, 0] - truth[in_burst]).max() > 15.0
    )  # the causal filter has no information about it
    smoothed = wolf.smooth(out, reweight=reweight)
    assert np.abs(smoothed.means[:, 0] - truth).max() < 3.0
    if not reweight:
        assert smoothed.filtered.outliers[in_burst].all()
        assert not (smoothed.filtered.inflations > 1).any()


def test_a_fixed_lag_removes_a_burst_within_its_lag(burst):
    truth, ys, _ = burst
    late, means = wolf.FixedLag(LEVEL, lag=25), {}
    for y in ys:
        answer = late.step(y)
        means[answer.t] = answer.mean[0]
    errors = np.array([means[t] - truth[t] for t in range(STEPS - 26)])
    assert np.abs(errors).max() < 3.0


def test_a_long_excursion_is_no_burst():
    assert jump_backdating.without_bursts([20, 60], lambda jumps, bursts: np.zeros(80, bool)) == ([20, 60], [])
    refuted = np.ones(80, bool)
    assert jump_backdating.without_bursts([20, 30], lambda jumps, bursts: refuted) == ([20, 30], [])
