"""Updates by 1 / w² and by a gate have the posterior and the density of the update by w."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wolf
from wolf.beliefs import Affine, Gaussian, SqrtGaussian
from wolf.beliefs.updates import GateUpdate, NoiseFactorUpdate, WeightedUpdate
from wolf.inference.weights import largest_factor
from wolf.numerics import linalg
from wolf.numerics.jax_compat import enable_x64

rng = np.random.default_rng(4)
STATES, SIZE = 3, 2
JAC, ROOT = rng.normal(size=(SIZE, STATES)), rng.normal(size=(STATES, STATES))
NOISE = np.array([[2.0, 0.5], [0.5, 1.0]])
RESIDUAL = np.array([1.0, -2.5])


def conditioned(update, residual=RESIDUAL, observed=(1.0, 1.0), form="joseph"):
    """Condition a belief; return the mean, the covariance and the density."""
    with enable_x64(True):
        belief = Gaussian(jnp.zeros(STATES), jnp.asarray(ROOT @ ROOT.T))
        if form == "sqrt":
            belief = SqrtGaussian(belief.mean, jnp.asarray(ROOT))
        view = Affine(jnp.zeros(SIZE), jnp.asarray(JAC))
        posterior, density = update.masked(jnp.asarray(observed)).apply(
            belief, view, jnp.asarray(residual), jnp.asarray(NOISE), form
        )
        return np.asarray(posterior.mean), np.asarray(posterior.cov), np.asarray(density)


@pytest.mark.parametrize(("form", "weight"), [("joseph", 0.6), ("sqrt", 1e-3)])
def test_the_factor_has_the_posterior_and_density_of_the_weight(form, weight):
    with enable_x64(True):
        one = jnp.asarray(weight)
        update = NoiseFactorUpdate(1 / one**2, largest_factor(one), one)
        expected = conditioned(WeightedUpdate(one), form=form)
        for got, wanted in zip(conditioned(update, form=form), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_a_gate_has_the_posterior_and_density_of_the_weight(weight):
    with enable_x64(True):
        expected, got = conditioned(WeightedUpdate(jnp.asarray(weight))), conditioned(GateUpdate(jnp.asarray(weight)))
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "weight", [wolf.IMQ(c=2.0), wolf.IMQ(), wolf.MahalanobisIMQ(), wolf.MahalanobisIMQ(metric="S")]
)
@pytest.mark.parametrize("observed", [(1.0, 1.0), (0.0, 1.0)])
def test_the_factor_of_a_weight_is_its_inverse_square(weight, observed):
    with enable_x64(True):
        seen = jnp.asarray(observed)
        measured = jnp.asarray(RESIDUAL) * seen, jnp.asarray(NOISE), linalg.cholesky(jnp.asarray(3 * NOISE))
        np.testing.assert_allclose(weight.noise_factor(*measured, seen), weight(*measured, seen) ** -2, rtol=1e-13)


@pytest.mark.parametrize("weight", [wolf.IMQ(c=2.0), wolf.MahalanobisIMQ(), wolf.MahalanobisThreshold()])
def test_a_huge_outlier_leaves_the_state_and_has_finite_gradients(weight):
    model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
    ys = np.array([[0.5], [-0.3], [1e100], [0.2]])
    method = wolf.WoLF(weight)
    means = wolf.filter(model, ys, method=method, backend="native").means
    np.testing.assert_allclose(means[2], means[1], rtol=1e-9)

    def last(level_var):
        return wolf.run_filter(wolf.models.local_level(level_var=level_var, obs_var=1.0), ys, method)[0].mean[0]

    with enable_x64(True):
        assert np.isfinite(jax.grad(last)(0.1))
