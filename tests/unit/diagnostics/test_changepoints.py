"""Changepoints: sums over all cuts are those of all cuts one by one, and outliers are no changes."""

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


def log_piece(ys):
    """Evaluate the density of a piece from its dense covariance."""
    steps = np.arange(1, len(ys) + 1)
    cov = WIDE + DRIFT * np.minimum.outer(steps, steps) + NOISE * np.eye(len(ys))
    return multivariate_normal(np.zeros(len(ys)), cov).logpdf(ys)


def by_hand(ys, chance, shortest):
    """Go through all ways to cut a short series."""
    steps, cuts, scores = len(ys), [], []
    for number in range(steps):
        for cut in combinations(range(1, steps), number):
            ends = [0, *cut, steps]
            sizes = np.diff(ends)
            if np.any(sizes[:-1] < shortest):
                continue
            lengths = np.log(chance) * number + np.log1p(-chance) * np.sum(np.maximum(sizes - shortest, 0))
            cuts.append(cut)
            scores.append(lengths + sum(log_piece(ys[a:b]) for a, b in pairwise(ends)))
    return cuts, np.array(scores)


@pytest.mark.parametrize(("chance", "shortest"), [(0.1, 1), (0.3, 2), (0.05, 4)])
def test_sums_and_the_best_are_those_of_all_cuts(chance, shortest):
    ys = np.random.default_rng(2).normal(size=9) + np.repeat([0.0, 6.0, -5.0], 3)
    cuts, scores = by_hand(ys, chance, shortest)
    found = wolf.changepoints(LEVEL, ys, chance=chance, shortest=shortest, outliers=0.0)
    total = logsumexp(scores)
    np.testing.assert_allclose(found.log_evidence, total, rtol=1e-10)
    assert tuple(found.at) == cuts[int(np.argmax(scores))]
    for t in range(9):
        share = sum(np.exp(score - total) for cut, score in zip(cuts, scores, strict=True) if t in cut)
        np.testing.assert_allclose(found.probabilities[t], share, atol=1e-10)


def test_without_a_chance_of_change_the_evidence_is_the_likelihood_of_the_filter():
    ys = np.random.default_rng(0).normal(size=STEPS)
    found = wolf.changepoints(LEVEL, ys, chance=1e-12, outliers=0.0)
    assert found.at.size == 0
    assert found.pieces == [(0, STEPS)]
    np.testing.assert_allclose(found.log_evidence, wolf.filter(LEVEL, ys, method="KF").log_likelihood, rtol=1e-9)


def test_on_data_of_the_model_as_many_changes_are_expected_as_there_are():
    rng, chance, shortest = np.random.default_rng(5), 0.05, 5
    expected, there, spread = 0.0, 0, 0.0
    for _ in range(30):
        firsts = np.cumsum(shortest - 1 + rng.geometric(chance, size=STEPS))
        firsts = firsts[firsts < STEPS]
        starts = np.isin(np.arange(STEPS), [0, *firsts])
        level, ys = 0.0, np.empty(STEPS)
        for t in range(STEPS):
            level = rng.normal(0, np.sqrt(WIDE)) if starts[t] else level
            level += rng.normal(0, np.sqrt(DRIFT))
            ys[t] = level + rng.normal(0, np.sqrt(NOISE))
        found = wolf.changepoints(LEVEL, ys, chance=chance, shortest=shortest, outliers=0.0)
        expected, there = expected + found.probabilities.sum(), there + len(firsts)
        spread += np.sum(found.probabilities * (1.0 - found.probabilities))
    # given the data, the number of changes has this mean and, if they hardly depend on each other, this variance
    assert abs(expected - there) < 4.0 * np.sqrt(spread)


@given(far=st.floats(25.0, 1e200), which=st.integers(1, STEPS - 2))
def test_one_value_is_no_change_however_far_it_is_off(far, which):
    ys = np.random.default_rng(1).normal(size=STEPS) + np.where(np.arange(STEPS) < 30, 0.0, 12.0)
    ys[which] = far
    (change,) = wolf.changepoints(LEVEL, ys).at
    assert abs(change - 30) <= 1  # nobody knows whether a value beside a change, and off, was of this side or that


def test_longest_bounds_pieces_and_gaps_say_nothing():
    ys = np.where(np.arange(STEPS) < 30, 0.0, 12.0) + np.random.default_rng(3).normal(size=STEPS)
    ys[10:20] = np.nan
    assert wolf.changepoints(LEVEL, ys).at.tolist() == [30]
    bounded = wolf.changepoints(LEVEL, ys, longest=25)
    assert max(last - first for first, last in bounded.pieces) <= 25
    assert 30 in bounded.at


def test_changes_are_told_in_a_line():
    one = wolf.Changepoints(np.array([2]), np.array([0.0, 0.1, 0.9, 0.0]), -5.0)
    assert repr(one) == "Changes: 1 change in 4 steps at 2 (90%)"


def test_what_cannot_be_is_refused_in_words():
    varying = wolf.LinearModel(np.eye(1), np.eye(1), np.ones((5, 1, 1)), np.eye(1), [0.0], np.eye(1))
    with pytest.raises(ValueError, match="Q vary with time"):
        wolf.changepoints(varying, np.zeros(5))
    with pytest.raises(ValueError, match="chance"):
        wolf.changepoints(LEVEL, np.zeros(5), chance=1.5)
    with pytest.raises(ValueError, match="longest= at most 400"):
        wolf.changepoints(LEVEL, np.zeros(10_000))
    with pytest.raises(ValueError, match="longest"):
        wolf.changepoints(LEVEL, np.zeros(9), longest=3)
