"""Recursive maximum likelihood: surprise, caution after a jump, rescaling of information; the prior is kept."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wolf.inference.noise import AdaptiveNoiseScales, noise_scale_rml
from wolf.inference.noise.sensitivities import RQ, Information, ScoreVector, Sensitivities
from wolf.numerics.jax_compat import enable_x64

pytestmark = pytest.mark.thorough  # the quick tests cover this part elsewhere

SURE = RQ(1.6**-2, 1.3**-2)
MORE = Information(0.5, 0.0, 0.1)  # of one measurement
BOTH, NOISE_ONLY = RQ(noise=True, dynamics=True), RQ(noise=True, dynamics=False)


def begin(calm=1.0):
    sure = RQ(*map(jnp.asarray, SURE))
    return noise_scale_rml.initial_estimates(
        sure, Sensitivities(jnp.zeros(1), jnp.zeros((1, 1))), jnp.ones(())
    )._replace(calm=jnp.asarray(calm))


@jax.jit
def feed(levels, slopes):
    """Update with scores of a, one after the other, in standard deviations; those of b are 0."""

    def body(levels, slope):
        found = ScoreVector(jnp.sqrt(MORE.noise) * slope, 0.0 * slope, 0.0 * slope)
        more = Information(*(each + 0.0 * slope for each in MORE))
        levels = noise_scale_rml.update_scales(levels, SURE, found, more, 1.0 + 0.0 * slope, 0.5 + 0.0 * slope, BOTH)
        return levels, levels

    return jax.lax.scan(body, levels, slopes)


@pytest.fixture(scope="module")
def steady():
    with enable_x64(True):
        return feed(begin(), jnp.asarray(np.resize([1.0, -1.0], 300)))[0]


def test_scores_of_equal_sign_discount_the_past_and_others_hardly_do(steady, x64):
    """All are 1.5 standard deviations; only the signs differ."""
    before, signs = float(steady.information.noise), np.resize([1.5, -1.5], 15)
    alike, apart = (feed(steady, jnp.asarray(each))[0] for each in (np.abs(signs), signs))
    assert alike.information.noise < 0.3 * before
    assert float(apart.information.noise) == pytest.approx(before, rel=0.05)
    assert alike.log_noise - steady.log_noise > 10.0 * abs(apart.log_noise - steady.log_noise)


def test_surprise_is_suspended_after_a_jump_for_a_hundred_measurements(steady, x64):
    same = jnp.full(15, 1.5)
    restless = steady._replace(calm=jnp.zeros(()))
    usual, careful = feed(steady, same)[0], feed(restless, same)[0]
    assert careful.information.noise > 0.8 * steady.information.noise
    assert usual.log_noise - steady.log_noise > 2.0 * (careful.log_noise - steady.log_noise)
    _, path = feed(restless, jnp.asarray(np.resize([1.0, -1.0], 300)))
    np.testing.assert_allclose(path.calm, np.minimum(np.arange(1, 301) / 100.0, 1.0), rtol=1e-12)


def test_tenfold_noise_is_tracked_by_surprise_and_constant_noise_is_averaged(x64):
    """In a closed loop without any state: y ~ N(0, e^a), with score (y² / r - 1) / 2 and information 1/2.

    The same without surprise needs a hundred steps for what takes twenty with it. Where nothing changes, the estimate
    is as sure as the measurements that are kept: forgetting f in a step leaves a variance of f / (2 j) at least.
    """
    ys = np.random.default_rng(0).normal(size=(200, 500)) * np.where(np.arange(500) < 400, 1.0, np.sqrt(10.0))

    @jax.jit
    def run(ys, calm):
        def body(levels, y):
            levels = levels._replace(calm=levels.calm * calm)
            slope, zero = 0.5 * (y**2 / noise_scale_rml.scales_in_use(levels, NOISE_ONLY).noise - 1.0), 0.0 * y
            found, more = ScoreVector(slope, zero, zero), Information(0.5 + zero, zero, zero)
            levels = noise_scale_rml.update_scales(levels, SURE, found, more, 1.0 + zero, zero, NOISE_ONLY)
            return levels, levels.log_noise

        return jax.vmap(lambda each: jax.lax.scan(body, begin(), each)[1])(ys)

    found, unmoved = (np.asarray(run(jnp.asarray(ys), calm)) for calm in (1.0, 0.0))
    rise, constant = np.median(found, axis=0) / np.log(10.0), found[:, 300:400]
    assert rise[419] > 0.5
    assert rise[460:].min() > 0.85
    assert np.median(unmoved[:, 419]) / np.log(10.0) < 0.3
    assert abs(constant.mean()) < 0.03
    least = np.sqrt(noise_scale_rml.FORGETTING.noise / (2.0 * 0.5))
    assert least < constant.std() < 2.0 * least


def test_a_jump_keeps_scales_and_resets_sensitivities_and_calm(tracking, x64):
    rule = AdaptiveNoiseScales()
    memory = rule.start(tracking)
    levels = memory.scale_estimates._replace(
        log_noise=jnp.asarray(0.7),
        log_dynamics=jnp.asarray(-0.4),
        information=Information(jnp.asarray(30.0), jnp.asarray(2.0), jnp.asarray(9.0)),
        sensitivities=Sensitivities(jnp.ones(4), jnp.eye(4)),
    )
    memory = memory._replace(scale_estimates=levels)
    after = rule.after_jump(memory, rule.snapshot(memory), jnp.zeros(1)).scale_estimates
    assert levels.calm == 1.0
    assert after.calm == 0.0
    assert all((each == 0.0).all() for each in after.sensitivities)
    for name in ("log_noise", "log_dynamics", "information", "log_odds", "prior_share"):
        assert getattr(after, name) == getattr(levels, name)


@given(st.floats(-1.4, 1.4), st.floats(-1.4, 1.4), st.floats(0.0, 1.0), st.floats(0.1, 50.0), st.floats(-0.9, 0.9))
def test_information_about_q_is_rescaled_and_the_prior_is_kept(noise, dynamics, shown, learned, tilt):
    """By (q/r)^(1 - x), approximately for short steps; information about r does not change."""
    prior, known = 0.6, 20.0
    before = begin()._replace(log_noise=0.3, log_dynamics=-0.2)
    both = tilt * np.sqrt(known * learned)
    after = before._replace(
        log_noise=0.3 + noise, log_dynamics=-0.2 + dynamics, information=Information(known, both, prior + learned)
    )
    found = Information(*map(float, noise_scale_rml._rescale_information(before, after, prior, shown).information))
    ratio = np.clip(dynamics - noise, -noise_scale_rml.MAX_STEP, noise_scale_rml.MAX_STEP)
    power = np.exp((1.0 - shown) * ratio)
    assert found.noise == known
    assert (found.dynamics - prior) / learned == pytest.approx(power, rel=0.07)
    assert found.cross**2 * learned == pytest.approx(both**2 * (found.dynamics - prior), rel=1e-4, abs=1e-6)
    nothing = after._replace(information=Information(known, 0.0, prior))
    left = noise_scale_rml._rescale_information(before, nothing, prior, shown).information
    assert left == Information(known, 0.0, prior)
