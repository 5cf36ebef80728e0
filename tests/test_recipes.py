"""Recipes: what they say about a gap is what the stochastic differential equation says."""

import numpy as np
import pytest

import wolf
from wolf.models import discretise, recipes

GAPS = np.array([0.3, 1.0, 2.5, 40.0])


def agrees(part, parameters, drift, diffusion):
    dynamics, noise = discretise(drift, diffusion, GAPS)
    total = sum(value * part.noise[name](GAPS) for name, value in parameters.items())
    np.testing.assert_allclose(np.broadcast_to(part.move(GAPS), dynamics.shape), dynamics, atol=1e-10)
    np.testing.assert_allclose(total, noise, rtol=1e-9, atol=1e-10)


def test_level_trend_and_velocity_are_exact_over_any_gap():
    shear = np.array([[0.0, 1.0], [0.0, 0.0]])
    agrees(recipes.level(), {"level_var": 0.3}, np.zeros((1, 1)), 0.3 * np.eye(1))
    agrees(recipes.trend(), {"level_var": 0.3, "slope_var": 0.7}, shear, np.diag([0.3, 0.7]))
    agrees(recipes.velocity(), {"accel_var": 0.7}, shear, np.diag([0.0, 0.7]))


def test_a_season_turns_with_time():
    angle = 2 * np.pi / 24
    turn = np.kron(np.diag([1.0, 2.0]), angle * np.array([[0.0, 1.0], [-1.0, 0.0]]))
    agrees(recipes.seasonal(24, 2), {"seasonal_var": 0.2}, turn, 0.2 * np.eye(4))


def test_even_steps_are_the_models_of_the_zoo():
    prior = wolf.Gaussian(np.zeros(2), np.eye(2))
    built = recipes.parse("local-trend").builder(None, prior)(level_var=0.1, slope_var=0.2, obs_var=3.0)
    zoo = wolf.models.local_trend(0.1, 0.2, 3.0, prior)
    for name in ("F", "H", "Q", "R"):
        np.testing.assert_allclose(getattr(built, name), getattr(zoo, name))


def test_a_track_has_positions_first():
    prior = wolf.Gaussian(np.zeros(4), np.eye(4))
    built = recipes.parse("constant-velocity").builder(None, prior, 2)(accel_var=0.1, obs_var=3.0)
    np.testing.assert_allclose(built.H, np.eye(2, 4))
    np.testing.assert_allclose(built.F, [[1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1]])


def test_one_outlier_at_the_start_does_not_move_the_prior():
    values = np.full((20, 1), 5.0) + 0.1 * np.sin(np.arange(20.0))[:, None]
    values[0] = 1e6
    prior = recipes.parse("local-level").start(values, 0.01)
    assert abs(prior.mean[0] - 5.0) < 0.2
    assert prior.cov[0, 0] < 1.0


@pytest.mark.parametrize("spec", ["seasonal", "seasonal:1", "seasonal:24:13", "local-level:3", "trend"])
def test_unknown_recipes_are_told(spec):
    with pytest.raises(ValueError, match=r"model|waves"):
        recipes.parse(spec)
