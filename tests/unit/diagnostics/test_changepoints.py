"""Changepoints: the recursions equal sums over all segmentations, and outliers are not changes."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

import wolf

DRIFT, NOISE, WIDE = 0.1, 1.0, 100.0
LEVEL = wolf.models.local_level(DRIFT, NOISE, prior=wolf.Gaussian([0.0], [[WIDE]]))
STEPS = 60


def log_segment(ys):
    """Compute the log density of a segment from its dense covariance."""
    steps = np.arange(1, len(ys) + 1)
    cov = WIDE + DRIFT * np.minimum.outer(steps, steps) + NOISE * np.eye(len(ys))
    return multivariate_normal(np.zeros(len(ys)), cov).logpdf(ys)


def all_segmentations(ys, hazard, min_length):
    """List all segmentations of a short series with their log probabilities."""
    steps, cuts, scores = len(ys), [], []
    for number in range(steps):
        for cut in combinations(range(1, steps), number):
            ends = [0, *cut, steps]
            sizes = np.diff(ends)
            if np.any(sizes[:-1] < min_length):
                continue
            lengths = np.log(hazard) * number + np.log1p(-hazard) * np.sum(np.maximum(sizes - min_length, 0))
            cuts.append(cut)
            scores.append(lengths + sum(log_segment(ys[a:b]) for a, b in pairwise(ends)))
    return cuts, np.array(scores)


@pytest.mark.parametrize(("hazard", "min_length"), [(0.1, 1), (0.3, 2), (0.05, 4)])
def test_recursions_equal_sums_over_all_segmentations(hazard, min_length):
    ys = np.random.default_rng(2).normal(size=9) + np.repeat([0.0, 6.0, -5.0], 3)
    cuts, scores = all_segmentations(ys, hazard, min_length)
    found = wolf.changepoints(LEVEL, ys, hazard=hazard, min_length=min_length, outliers=0.0)
    total = logsumexp(scores)
    np.testing.assert_allclose(found.log_evidence, total, rtol=1e-10)
    assert tuple(found.at) == cuts[int(np.argmax(scores))]
    for t in range(9):
        share = sum(np.exp(score - total) for cut, score in zip(cuts, scores, strict=True) if t in cut)
        np.testing.assert_allclose(found.probabilities[t], share, atol=1e-10)


def test_without_a_chance_of_change_the_evidence_is_the_likelihood_of_the_filter():
    ys = np.random.default_rng(0).normal(size=STEPS)
    found = wolf.changepoints(LEVEL, ys, hazard=1e-12, outliers=0.0)
    assert found.at.size == 0
    assert found.segments == [(0, STEPS)]
    np.testing.assert_allclose(found.log_evidence, wolf.filter(LEVEL, ys, method="KF").log_likelihood, rtol=1e-9)


def test_on_data_of_the_model_as_many_changes_are_expected_as_there_are():
    rng, hazard, min_length = np.random.default_rng(5), 0.05, 5
    expected, there, spread = 0.0, 0, 0.0
    for _ in range(30):
        firsts = np.cumsum(min_length - 1 + rng.geometric(hazard, size=STEPS))
        firsts = firsts[firsts < STEPS]
        starts = np.isin(np.arange(STEPS), [0, *firsts])
        level, ys = 0.0, np.empty(STEPS)
        for t in range(STEPS):
            level = rng.normal(0, np.sqrt(WIDE)) if starts[t] else level
            level += rng.normal(0, np.sqrt(DRIFT))
            ys[t] = level + rng.normal(0, np.sqrt(NOISE))
        found = wolf.changepoints(LEVEL, ys, hazard=hazard, min_length=min_length, outliers=0.0)
        expected, there = expected + found.probabilities.sum(), there + len(firsts)
        spread += np.sum(found.probabilities * (1.0 - found.probabilities))
    # given the data, the number of changes has this mean and, if they hardly depend on each other, this variance
    assert abs(expected - there) < 4.0 * np.sqrt(spread)


@given(far=st.floats(25.0, 1e200), which=st.integers(1, STEPS - 2))
def test_one_value_is_no_change_however_far_it_is_off(far, which):
    ys = np.random.default_rng(1).normal(size=STEPS) + np.where(np.arange(STEPS) < 30, 0.0, 12.0)
    ys[which] = far
    (change,) = wolf.changepoints(LEVEL, ys).at
    assert abs(change - 30) <= 1  # an outlier next to a change may belong to either side


def test_max_length_bounds_segments_and_gaps_carry_no_information():
    ys = np.where(np.arange(STEPS) < 30, 0.0, 12.0) + np.random.default_rng(3).normal(size=STEPS)
    ys[10:20] = np.nan
    assert wolf.changepoints(LEVEL, ys).at.tolist() == [30]
    bounded = wolf.changepoints(LEVEL, ys, max_length=25)
    assert max(last - first for first, last in bounded.segments) <= 25
    assert 30 in bounded.at


@pytest.mark.parametrize("kind", ["level", "line", "two columns", "outliers"])
def test_changes_are_found_without_a_model(kind):
    rng = np.random.default_rng(8)
    ys = rng.normal(size=120)
    t = np.arange(120)
    ys = ys + (0.5 * np.maximum(t - 60, 0) if kind == "line" else 6.0 * (t >= 60))
    if kind == "two columns":
        ys = np.stack([ys, rng.normal(size=120)], axis=1)
    if kind == "outliers":
        ys[::17] += 40.0
    found = wolf.changepoints(ys)
    assert len(found.at) == 1
    assert abs(found.at[0] - 60) <= (5 if kind == "line" else 1)
    assert found.probabilities[found.at[0] - 5 : found.at[0] + 6].sum() > 0.8


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_noise_without_a_model_has_no_change(correlation):
    noise = np.random.default_rng(20).normal(size=150)
    for t in range(1, 150):
        noise[t] += correlation * noise[t - 1]
    assert wolf.changepoints(noise).at.tolist() == []


def test_evidence_of_a_segment_is_that_of_a_student_t_distribution():
    """Against scipy: with β ~ N(0, σ² v), σ² inverse gamma (a, b), y is multivariate t with 2a degrees of freedom."""
    from scipy.stats import multivariate_t

    from wolf.diagnostics import segment_regression as regression

    y = np.random.default_rng(0).normal(size=12) + 1.0
    rho, steps = 0.5, np.arange(12)
    spread = max(float(y.var()), 1.0)
    ramp = steps / (regression.SLOPE_SPAN * 12)
    for line in (False, True):
        design = np.stack([np.ones(12), ramp], axis=1)[:, : 2 if line else 1]
        noise = rho ** np.abs(steps[:, None] - steps) / (1 - rho**2)
        shape = (noise + spread * design @ design.T) * (1 - rho**2)
        expected = multivariate_t(np.zeros(12), shape, df=2 * regression.NOISE_SHAPE).logpdf(y)
        found = regression.segment_evidence(y, 12, rho, line)[0, -1]
        assert found == pytest.approx(expected, rel=1e-9)


def test_repr_lists_changes_in_one_line():
    one = wolf.Changepoints(np.array([2]), np.array([0.0, 0.1, 0.9, 0.0]), -5.0)
    assert repr(one) == "Changepoints: 1 change in 4 steps at 2 (90%)"


def test_invalid_arguments_raise():
    varying = wolf.LinearModel(np.eye(1), np.eye(1), np.ones((5, 1, 1)), np.eye(1), [0.0], np.eye(1))
    with pytest.raises(ValueError, match="Q vary with time"):
        wolf.changepoints(varying, np.zeros(5))
    with pytest.raises(ValueError, match="hazard"):
        wolf.changepoints(LEVEL, np.zeros(5), hazard=1.5)
    with pytest.raises(ValueError, match="max_length= of at most 400"):
        wolf.changepoints(LEVEL, np.zeros(10_000))
    with pytest.raises(ValueError, match="ys must have shape"):
        wolf.changepoints(np.zeros((2, 3, 4)))
    with pytest.raises(ValueError, match="max_length"):
        wolf.changepoints(LEVEL, np.zeros(9), max_length=3)
