"""Smoothing and forecasts of states on a manifold, and within bounds."""

import jax.numpy as jnp
import numpy as np
import pytest

import wolf
from wolf.numerics.pytree import pytree


def move(x, u):
    return jnp.stack([x[0] + 0.1 * x[1] + u[0], 0.9 * x[1]])


@pytree
class Flat:
    """A manifold that is a vector space: the smoother of errors must be that of vectors."""

    damping: float

    def __call__(self, x, u):
        return move(x, u)

    def retract(self, x, step):
        return x + step

    def between(self, x, other):
        return other - x


def first(x, u):
    return x[:1]


@pytest.mark.parametrize("update_first", [False, True])
def test_smoothed_errors_are_smoothed_vectors_where_the_space_is_flat(update_first):
    rng = np.random.default_rng(0)
    ys, us = rng.normal(size=(2, 30, 1))
    ys[7], ys[11] = 40.0, np.nan
    prior = wolf.Gaussian(np.zeros(2), np.eye(2))
    models = [
        wolf.StateSpaceModel(dynamics, first, 0.1 * np.eye(2), np.eye(1), prior, inputs=1)
        for dynamics in (Flat(0.9), move)
    ]
    options = {"inputs": us, "method": "WoLF", "update_first": update_first}
    curved, flat = (wolf.filter(model, ys, **options) for model in models)
    assert type(curved.method).__name__ == "ErrorState"
    ours, known = wolf.smooth(curved), wolf.smooth(flat)
    np.testing.assert_allclose(ours.means, known.means, atol=1e-12)
    np.testing.assert_allclose(ours.covs, known.covs, atol=1e-12)
    ahead, expected = (wolf.forecast(out, 5, inputs=us[:5]) for out in (curved, flat))
    np.testing.assert_allclose(ahead.obs_means, expected.obs_means, atol=1e-12)
    np.testing.assert_allclose(ahead.obs_covs, expected.obs_covs, atol=1e-12)


@pytest.mark.slow
def test_many_attitudes_are_smoothed_one_by_one():
    rng = np.random.default_rng(1)
    prior = wolf.Gaussian(np.zeros(6), 0.01 * np.eye(6))
    model = wolf.models.attitude(
        dt=0.1, gyro_var=1e-3, bias_var=0.0, accel_var=0.04, mag_var=0.01, field=(0.4, 0, -0.9), prior=prior
    )
    us, ys = 0.3 * rng.normal(size=(12, 3)), rng.normal(size=(2, 12, 6))
    many = wolf.smooth(wolf.filter_many(model, ys, inputs=us, method="WoLF"))
    one = wolf.smooth(wolf.filter(model, ys[1], inputs=us, method="WoLF"))
    np.testing.assert_allclose(many[1].means, one.means, atol=1e-12)
    assert (np.diagonal(one.covs, axis1=1, axis2=2) <= np.diagonal(one.filtered.covs, axis1=1, axis2=2) + 1e-9).all()


def test_bounds_hold_in_the_smoother_and_in_forecasts():
    rng = np.random.default_rng(2)
    walk = wolf.LinearModel(None, np.eye(2), 0.01 * np.eye(2), np.eye(2), [0.5, 0.5], 0.1 * np.eye(2))
    rows = [[1.0, 1.0], [1.0, 0.0]]  # shares add up to 1, and the first is not negative
    shares = wolf.TruncatedFilter(wolf.KF(), lower=[1.0, 0.0], upper=[1.0, np.inf], matrix=rows)
    out = wolf.filter(walk, rng.normal([0.02, 0.98], 0.7, (40, 2)), method=shares)
    for found in (out, wolf.smooth(out), wolf.forecast(out, 5)):
        np.testing.assert_allclose(found.means.sum(1), 1.0, atol=1e-9)
        assert found.means[:, 0].min() > -1e-9
        assert np.linalg.eigvalsh(found.covs).min() > -1e-9


def test_a_row_for_each_state_is_bounds_of_the_states():
    level = wolf.models.local_level(level_var=0.1, obs_var=1.0)
    ys = np.array([-1.0, -2.0, 0.5, 3.0])
    plain, rows = wolf.TruncatedFilter(wolf.WoLF(), lower=0.0), wolf.TruncatedFilter(wolf.WoLF(), 0.0, matrix=[[1.0]])
    expected, found = (wolf.smooth(wolf.filter(level, ys, method=method)) for method in (plain, rows))
    np.testing.assert_allclose(found.means, expected.means, atol=1e-12)
    np.testing.assert_allclose(found.covs, expected.covs, atol=1e-12)
    assert found.means.min() > 0.0


def test_shapes_of_constraints_are_checked():
    with pytest.raises(ValueError, match="matrix must have shape"):
        wolf.TruncatedFilter(wolf.WoLF(), lower=[0.0, 0.0], matrix=[[1.0, 1.0]])
    level = wolf.models.local_level(level_var=0.1, obs_var=1.0)
    with pytest.raises(ValueError, match="a column for each of 1 states"):
        wolf.filter(level, [1.0], method=wolf.TruncatedFilter(wolf.WoLF(), lower=0.0, matrix=[[1.0, 1.0]]))
