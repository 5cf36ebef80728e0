"""Wrappers of noise models: members are forwarded, and the protocol replaces walks over wrapper classes."""

import jax.numpy as jnp
import numpy as np
import pytest

import wolf
from wolf.beliefs import Affine, Gaussian
from wolf.engine.jump_backdating import KnownJumps
from wolf.inference import noise
from wolf.inference.noise.divergence_recovery import JumpRecovery
from wolf.interfaces import NoiseModel, UpdateContext
from wolf.numerics import linalg
from wolf.numerics.pytree import pytree

PLANE = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
MIXTURE, SCALES = noise.AdaptiveScaleMixture(), noise.AdaptiveNoiseScales()
WRAPPERS = {
    "recovery": JumpRecovery,
    "known": lambda base: KnownJumps(JumpRecovery(base), np.zeros(3)),
    "sensors": noise.PerSensorNoise,
    "nested": lambda base: JumpRecovery(noise.PerSensorNoise(base)),
}


@pytree
class Plain(noise.DelegatingNoise):
    """Wrapper with the forwarded members only."""

    base: NoiseModel

    def __call__(self, context):
        return self.base(context)


def context_of(model, memory, residual, variance):
    """Build the context of a cavity with independent coordinates."""
    size, obs_cov = model.obs_dim, jnp.asarray(model.obs_cov)
    belief = Gaussian(jnp.zeros(size), variance * jnp.eye(size))
    view = Affine(jnp.zeros(size), jnp.eye(size))
    factor = linalg.cholesky(belief.cov + obs_cov)
    return UpdateContext(
        jnp.asarray(residual), view, belief, obs_cov, jnp.ones(size), factor, memory, jnp.zeros((), int)
    )


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrappers_forward_what_describes_the_wrapped_model(name):
    outer = WRAPPERS[name](MIXTURE)
    assert isinstance(outer, NoiseModel)
    assert outer.innermost is MIXTURE
    assert outer.is_mixture
    assert not outer.revises_prior
    estimate = outer.noise_estimate(outer.start(PLANE))
    estimates = estimate if isinstance(estimate, list) else [estimate]
    assert len(estimates) == len(outer.sensor_slices(2))
    np.testing.assert_array_equal(estimates[0].counts, MIXTURE.noise_estimate(MIXTURE.start(PLANE)).counts)


def test_sensor_numbers_are_found_through_wrappers():
    assert JumpRecovery(noise.PerSensorNoise(MIXTURE, sensors=(5, 5, 2))).sensor_numbers(2) == [5, 2]
    assert JumpRecovery(noise.PerSensorNoise(MIXTURE)).sensor_numbers(3) == [0, 1, 2]
    assert JumpRecovery(MIXTURE).sensor_numbers(1) == [0]


def test_a_plain_wrapper_changes_no_bit(rng):
    ys = wolf.simulate.trajectory(PLANE, 60, 3).measurements
    bare, wrapped = (wolf.filter(PLANE, ys, method=wolf.GaussianFilter(noise=each)) for each in (SCALES, Plain(SCALES)))
    np.testing.assert_array_equal(wrapped.means, bare.means)
    np.testing.assert_array_equal(wrapped.log_liks, bare.log_liks)


def test_methods_with_other_wrappers_have_no_constructor_call():
    usual, custom = wolf.Adaptive(sensors="each"), wolf.GaussianFilter(noise=JumpRecovery(Plain(SCALES)))
    assert wolf.methods.constructor_call(usual) == "Adaptive(sensors='each')"
    assert wolf.methods.constructor_call(custom) is None
    assert "GaussianFilter" in repr(wolf.filter(PLANE, np.zeros((3, 2)), method=custom))


@pytest.mark.parametrize("base", [MIXTURE, SCALES], ids=["mixture", "scales"])
def test_leave_one_out_information_is_that_of_the_wrapped_model(base, x64):
    memory = base.start(PLANE)
    expected = base.loo_information_root(context_of(PLANE, memory, [1.0, 30.0], 2.0))
    outer = JumpRecovery(base)
    found = outer.loo_information_root(context_of(PLANE, outer.start(PLANE), [1.0, 30.0], 2.0))
    np.testing.assert_array_equal(found, expected)


def test_leave_one_out_information_of_sensors_is_block_diagonal(x64):
    outer = noise.PerSensorNoise(MIXTURE)
    root = np.asarray(outer.loo_information_root(context_of(PLANE, outer.start(PLANE), [1.0, 300.0], 2.0)))
    assert root[0, 1] == root[1, 0] == 0.0
    assert root[0, 0] ** 2 * 10.0 == pytest.approx(1.0, rel=0.3)
    assert root[1, 1] ** 2 * 10.0 < 0.01


def test_default_leave_one_out_information_is_the_weight_in_white_coordinates(x64):
    weighted = noise.Weighted(lambda residual, obs_cov, innovation_cov: jnp.asarray(0.5))
    root = np.asarray(weighted.loo_information_root(context_of(PLANE, (), [1.0, 2.0], 2.0)))
    np.testing.assert_allclose(root.T @ root, 0.25 * np.linalg.inv(PLANE.obs_cov), rtol=1e-12)
