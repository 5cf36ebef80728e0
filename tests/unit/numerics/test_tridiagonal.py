"""Many inverses by one tridiagonal reduction: against SciPy, batched, and through gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from tests import oracle

import wolf
from wolf.engine.scan import run_filter
from wolf.inference.noise.adaptive_scale_mixture import SCALES
from wolf.numerics.linalg import tridiagonal
from wolf.numerics.precision import precision

KINDS = ("full", "low rank", "holes", "diagonal", "nothing", "huge")


def semidefinite(kind, size=19, seed=0):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(size, 3 if kind == "low rank" else 2 * size))
    cov = root @ root.T
    if kind == "holes":
        cov[::3], cov[:, ::3] = 0.0, 0.0
    factors = {"nothing": 0.0, "huge": 1e12, "diagonal": np.eye(size)}
    return cov * factors.get(kind, 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_reduction_has_the_inverses_of_scipy(kind):
    cov, rng = semidefinite(kind), np.random.default_rng(1)
    b, first, second = rng.normal(size=19), rng.uniform(size=12), rng.uniform(size=12)
    with precision("float64"):
        found = tridiagonal.reduce_shifted(jnp.asarray(cov), jnp.asarray(SCALES), jnp.asarray(b))
        averages = [np.asarray(found.back(each)) for each in found.averages(jnp.asarray(first), jnp.asarray(second))]
        one_by_one = [np.asarray(x) for x in (found.distances(), found.pulls().T, found.log_dets())]
    values, vectors = scipy.linalg.eigh(cov)
    inverses = [(vectors / (np.maximum(values, 0.0) + s)) @ vectors.T for s in SCALES]
    expected = [[b @ x @ b for x in inverses], [x @ b for x in inverses]]
    expected.append([np.log(np.maximum(values, 0.0) + s).sum() for s in SCALES])
    # A covariance of 1e12 has eigenvalues to 1e-4, beside components of 0.03: so do eigenvectors.
    tolerance = 1e-12 if kind != "huge" else 1e-3
    for mine, theirs in zip(one_by_one, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance * np.abs(theirs).max())
    for mine, weights in zip(averages, (first, second), strict=True):
        theirs = np.tensordot(weights, inverses, 1)
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=tolerance * np.abs(theirs).max())


def test_a_reduction_in_single_precision_and_of_many():
    covs = np.stack([semidefinite("full", seed=seed) for seed in range(3)]).astype(np.float32)
    b, scales = np.ones(19, np.float32), SCALES.astype(np.float32)

    def average(cov):
        found = tridiagonal.reduce_shifted(cov, jnp.asarray(scales), jnp.asarray(b))
        return found.back(found.averages(jnp.asarray(1.0 / scales), jnp.asarray(scales))[0])

    together, alone = jax.vmap(average)(jnp.asarray(covs)), jnp.stack([average(jnp.asarray(cov)) for cov in covs])
    assert together.dtype == np.float32
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-4 * float(jnp.abs(alone).max()))
    expected = np.stack([sum(np.linalg.inv(cov + s * np.eye(19)) / s for s in SCALES) for cov in covs.astype(float)])
    np.testing.assert_allclose(alone, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


@pytest.mark.slow
def test_gradients_flow_through_a_large_default():
    """Also with respect to off-diagonal entries of R, where it is diagonal; against finite differences."""
    system = oracle.random_system(5, states=20, measured=18)
    system["R"] = np.eye(18)
    ys = np.random.default_rng(0).normal(size=(6, 18))
    ys[2, :4], ys[3] = np.nan, ys[3] + 30.0

    def score(steps):
        both = jnp.zeros((18, 18)).at[0, 1].set(1.0).at[1, 0].set(1.0)
        model = wolf.LinearModel(**system | {"R": (1.0 + steps[0]) * jnp.eye(18) + steps[1] * both})
        _, saved = run_filter(model, jnp.asarray(ys), wolf.Learned())
        return saved["weighted_log_liks"].sum() + saved["means"].sum() + saved["weights"].sum()

    with precision("float64"):
        assert tridiagonal.is_faster(18)  # otherwise the reduction would not be tested
        found, small = jax.jit(jax.grad(score))(jnp.zeros(2)), 1e-5
        run = jax.jit(score)
        expected = [float(run(step) - run(-step)) / (2 * small) for step in small * jnp.eye(2)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
