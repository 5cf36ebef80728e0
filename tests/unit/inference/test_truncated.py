"""Bounds: moments are those of SciPy's truncated normal, means stay inside, and all ways to run return the same."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import wolf
from wolf.inference.filters import CovarianceReset
from wolf.inference.filters.truncated import truncate

TRACK = wolf.models.constant_velocity(dims=1, dt=1.0, dynamics_var=0.1, obs_var=1.0)
FALLING = np.r_[np.linspace(3.0, -3.0, 20), np.nan, 0.4, 300.0, 0.6][:, None]
truncate_once = jax.jit(truncate)


@pytest.fixture(autouse=True)
def in_float64(x64):
    pass


@settings(deadline=None, max_examples=30)
@given(mean=st.floats(-8.0, 8.0), scale=st.floats(0.1, 10.0), a=st.floats(-6.0, 6.0), width=st.floats(0.5, 20.0))
def test_moments_are_those_of_a_truncated_normal(mean, scale, a, width):
    kept, left, _ = truncate_once(mean, scale**2, mean + scale * a, mean + scale * (a + width))
    theirs = stats.truncnorm.stats(a, a + width, mean, scale, moments="mv")
    np.testing.assert_allclose(kept, theirs[0], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(left, theirs[1], rtol=1e-8, atol=1e-9 * scale**2)


@pytest.mark.parametrize("low", [-3.0, 0.0, 2.0, 6.0])
def test_one_sided_moments_are_scipy_s(low):
    kept, left, touched = truncate_once(0.5, 4.0, low, np.inf)
    theirs = stats.truncnorm((low - 0.5) / 2.0, np.inf, 0.5, 2.0)
    np.testing.assert_allclose([kept, left], theirs.stats("mv"), rtol=1e-9)
    assert touched


def test_far_outside_no_digits_are_lost():
    kept, left, _ = truncate_once(-1e9, 1.0, 0.0, np.inf)  # what is left is exponential, with rate 1e9
    np.testing.assert_allclose([kept, np.sqrt(left)], 1e-9, rtol=1e-12)
    kept, left, _ = truncate_once(-7.0, 0.0, 0.0, 1.0)  # nothing but a number: it goes to its bound
    assert (kept, left) == (0.0, 0.0)


def test_far_inside_nothing_changes():
    wide = wolf.filter(TRACK, FALLING, method=wolf.TruncatedFilter(wolf.KF(), lower=[-1e3, -np.inf]))
    bare = wolf.filter(TRACK, FALLING, method="KF")
    assert not truncate_once(0.0, 1.0, -10.0, 10.0)[2]
    np.testing.assert_array_equal(wide.means, bare.means)
    np.testing.assert_array_equal(wide.covs, bare.covs)


def test_the_other_states_follow_as_in_draws():
    method = wolf.TruncatedFilter(wolf.KF(), lower=[0.0, -np.inf])
    bare, cut = (wolf.filter(TRACK, [[-1.5]], method=each) for each in (wolf.KF(), method))
    draws = np.random.default_rng(0).multivariate_normal(bare.means[0], bare.covs[0], size=400_000)
    inside = draws[draws[:, 0] >= 0.0]
    np.testing.assert_allclose(cut.means[0], inside.mean(0), atol=0.02)
    np.testing.assert_allclose(cut.covs[0], np.cov(inside.T), atol=0.02)


@pytest.mark.parametrize("inner", [wolf.KF(), wolf.KF(form="sqrt"), wolf.WoLF(), CovarianceReset(wolf.WoLF())])
def test_means_stay_inside_and_covariances_stay_definite(inner):
    out = wolf.filter(TRACK, FALLING, method=wolf.TruncatedFilter(inner, lower=[0.0, -0.2], upper=[2.0, np.inf]))
    assert np.all((out.means[:20] >= [0.0, -0.2]) & (out.means[:20] <= [2.0, np.inf]))
    assert np.all(np.linalg.eigvalsh(out.covs) > 0.0)


def test_every_way_to_run_gives_the_same():
    method = wolf.TruncatedFilter(wolf.WoLF(), lower=[0.0, -np.inf])
    one = wolf.filter(TRACK, FALLING, method=method)
    many = wolf.filter_many(TRACK, np.stack([FALLING, FALLING + 1.0]), method=method)
    np.testing.assert_allclose(many.means[0], one.means, atol=1e-13)
    online = wolf.Online(TRACK, method)
    for y in FALLING:
        online.step(y)
    np.testing.assert_allclose(online.mean, one.means[-1], atol=1e-13)
    assert one.outliers[22]
    assert np.all(np.isfinite(wolf.smooth(one).means))


def test_without_measurements_nothing_is_cut_off():
    method = wolf.TruncatedFilter(wolf.KF(), lower=[0.0, -np.inf])
    out = wolf.filter(TRACK, np.full((24, 1), np.nan), method=method)
    np.testing.assert_array_equal(out.means, 0.0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: wolf.TruncatedFilter(wolf.methods.make("PF")), "Gaussian belief"),
        (lambda: wolf.TruncatedFilter(wolf.KF(), lower=1.0, upper=0.0), "must not be above"),
        (lambda: wolf.TruncatedFilter(wolf.KF(), lower=np.nan), "must be numbers"),
        (lambda: wolf.TruncatedFilter(wolf.KF(), lower=[0.0], upper=[1.0, 2.0]), "the same length"),
        (
            lambda: wolf.filter(TRACK, FALLING, method=wolf.TruncatedFilter(wolf.KF(), lower=[0.0])),
            "each of 2 states",
        ),
    ],
)
def test_wrong_bounds_are_refused_in_words(make, words):
    with pytest.raises(ValueError, match=words):
        make()
