"""The influence theorem as tests: unbounded for the Kalman filter, bounded for every robust method."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wolf
from wolf.beliefs.density import kl

ROBUST = [
    name for name in wolf.methods.names() if name.startswith("WoLF") and wolf.methods.make(name).noise is not None
]
FAR = np.array([1e1, 1e2, 1e4, 1e6, 1e9, 1e12])


def look(x):
    return jnp.stack([jnp.sqrt(1 + x[0] ** 2 + x[1] ** 2), x[1] + 0.1 * jnp.sin(x[0])])


@pytest.fixture
def nonlinear(tracking):
    prior = wolf.Gaussian(np.array([1.0, 1.0, 0.1, 0.1]), np.eye(4))
    return wolf.StateSpaceModel(None, look, tracking.Q, tracking.R, prior)


def rays():
    """Directions and sizes: (6, 4, 2)."""
    directions = np.array([[1.0, 0.0], [0.0, -1.0], [0.6, 0.8], [-0.8, 0.6]])
    return FAR[:, None, None] * directions


@pytest.mark.parametrize("method", ["KF", "EKF"])
def test_kalman_influence_grows_with_the_square_of_the_error(method, tracking, dirty):
    values = wolf.influence.pif(tracking, method, dirty.measurements[:30], rays())
    growth = values[1:] / values[:-1]
    np.testing.assert_allclose(growth, (FAR[1:, None] / FAR[:-1, None]) ** 2 * np.ones((1, 4)), rtol=1e-6)


@pytest.mark.parametrize("method", ROBUST)
def test_robust_influence_is_bounded(method, tracking, dirty):
    values = wolf.influence.pif(tracking, method, dirty.measurements[:30], rays())
    assert np.all(np.isfinite(values))
    # Huber and Student-t weights do not redescend: a bound is approached, not left again.
    assert values.max() < 50
    np.testing.assert_allclose(values[-1], values[-2], rtol=1e-3, atol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["WoLF", "WoLF-IMQ", "WoLF-TMD", "WoLF-UKF", "WoLF-IEKF"])
def test_robust_influence_is_bounded_on_a_nonlinear_model(method, nonlinear):
    ys = wolf.simulate.trajectory(nonlinear, 20, key=0).measurements
    values = wolf.influence.pif(nonlinear, method, ys, rays())
    assert np.all(np.isfinite(values))
    assert values.max() < 50


def test_no_contamination_has_no_influence(tracking, dirty):
    value = wolf.influence.pif(tracking, "WoLF", dirty.measurements[:10], np.zeros((1, 2)))
    np.testing.assert_allclose(value, 0.0, atol=1e-12)


def test_influence_is_the_divergence_of_the_contaminated_from_the_clean_posterior(tracking, dirty):
    """Against KL estimated from the two posteriors of two full runs, by the textbook formula."""
    ys, error = dirty.measurements[:30], np.array([7.0, -3.0])
    bad = ys.copy()
    bad[-1] += error
    clean, dirty_run = (wolf.filter(tracking, each, method="WoLF-IMQ").final for each in (ys, bad))
    inverse = np.linalg.inv(clean.cov)
    shift = dirty_run.mean - clean.mean
    expected = 0.5 * (
        np.trace(inverse @ dirty_run.cov)
        + shift @ inverse @ shift
        - 4
        + np.log(np.linalg.det(clean.cov) / np.linalg.det(dirty_run.cov))
    )
    np.testing.assert_allclose(wolf.influence.pif(tracking, "WoLF-IMQ", ys, error), expected, rtol=1e-9)


def test_kl_of_equal_gaussians_is_zero_and_otherwise_positive(x64, rng):
    a = rng.normal(size=(3, 3))
    first = wolf.Gaussian(jnp.asarray(rng.normal(size=3)), jnp.asarray(a @ a.T + np.eye(3)))
    second = wolf.Gaussian(first.mean + 0.1, first.cov * 1.2)
    np.testing.assert_allclose(kl(first, first), 0.0, atol=1e-12)
    assert float(kl(first, second)) > 0
    assert jnp.isfinite(jax.grad(lambda m: kl(first._replace(mean=m), second))(first.mean)).all()


def test_wasserstein_is_the_distance_of_a_shift(rng):
    members = rng.normal(size=(40, 3))
    shift = np.array([3.0, 0.0, 4.0])
    np.testing.assert_allclose(wolf.influence.wasserstein2(members, rng.permutation(members) + shift), 5.0, rtol=0.35)
    np.testing.assert_allclose(wolf.influence.wasserstein2(members, members[::-1]), 0.0, atol=1e-12)


def test_wasserstein_in_one_dimension_is_the_sorted_coupling(rng):
    a, b = rng.normal(size=50), 2 * rng.normal(size=50) + 1
    expected = np.sqrt(np.mean((np.sort(a) - np.sort(b)) ** 2))
    np.testing.assert_allclose(wolf.influence.wasserstein2(a[:, None], b[:, None]), expected)


def test_weight_maps_have_the_shape_of_their_grid():
    grid = np.stack(np.meshgrid(np.linspace(-5, 5, 7), np.linspace(-5, 5, 5)), axis=-1)
    values = wolf.influence.weight_map(wolf.IMQ(c=2.0), np.eye(2), np.eye(2), grid)
    np.testing.assert_allclose(values, 2.0 / np.sqrt(4.0 + (grid**2).sum(-1)))


@pytest.mark.parametrize(
    ("contaminations", "words"), [(np.zeros((3, 3)), r"\(\.\.\., 2\)"), ("far", "array of numbers")]
)
def test_invalid_contaminations_raise(contaminations, words, tracking, dirty):
    with pytest.raises(ValueError, match=words):
        wolf.influence.pif(tracking, "KF", dirty.measurements, contaminations)
