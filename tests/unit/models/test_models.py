"""Models: the values that the zoo's names promise, what a model says about itself, and that none is cut to float32."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wolf
from wolf.statespace import time_axes
from wolf.statespace.bound_functions import call, num_arguments

EYE = np.eye(2)


def test_constant_velocity_is_the_tracking_model_of_the_paper():
    model = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
    np.testing.assert_array_equal(model.F, [[1, 0, 0.1, 0], [0, 1, 0, 0.1], [0, 0, 1, 0], [0, 0, 0, 1]])
    np.testing.assert_array_equal(model.H, [[1, 0, 0, 0], [0, 1, 0, 0]])
    np.testing.assert_array_equal(model.Q, 0.1 * np.eye(4))
    np.testing.assert_array_equal(model.R, 10 * np.eye(2))
    np.testing.assert_equal(tuple(model.prior), (np.zeros(4), np.eye(4)))


def test_local_level_is_a_random_walk_with_a_vague_prior():
    model = wolf.models.local_level(level_var=0.1, obs_var=2.0)
    values = (model.F, model.H, model.Q, model.R, model.mean, model.cov)
    np.testing.assert_equal([float(value.item()) for value in values], [1, 1, 0.1, 2, 0, 2e6])


def test_local_trend_adds_its_slope_to_its_level():
    model = wolf.models.local_trend(level_var=0.1, slope_var=0.01, obs_var=2.0)
    np.testing.assert_array_equal(model.F, [[1, 1], [0, 1]])
    np.testing.assert_array_equal(model.H, [[1, 0]])
    np.testing.assert_array_equal(model.Q, np.diag([0.1, 0.01]))
    np.testing.assert_array_equal(model.cov, 2e6 * EYE)


@pytest.mark.parametrize(
    "make",
    [
        lambda prior: wolf.models.local_trend(0.1, 0.1, 1.0, prior=prior),
        lambda prior: wolf.models.constant_velocity(1, 0.1, 0.1, 1.0, prior=prior),
    ],
)
def test_given_prior_is_kept(make):
    prior = wolf.Gaussian(np.array([3.0, 4.0]), 5 * EYE)
    np.testing.assert_equal(tuple(make(prior).prior), tuple(prior))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: wolf.models.local_level(-1.0, 1.0),
            "level_var is a variance and must be a number of at least 0; got -1",
        ),
        (lambda: wolf.models.local_level(1.0, 0.0), "obs_var is a variance and must be a positive number; got 0.0"),
        (lambda: wolf.models.local_level(np.nan, 1.0), "level_var is a variance"),
        (lambda: wolf.models.local_level(1.0, np.eye(2)), "obs_var is a variance"),
        (lambda: wolf.models.local_trend(1.0, -1.0, 1.0), "slope_var is a variance"),
        (lambda: wolf.models.local_level("big", 1.0), "level_var"),
        (lambda: wolf.models.constant_velocity(0, 0.1, 0.1, 1.0), "dims must be a whole number of at least 1; got 0"),
        (
            lambda: wolf.models.constant_velocity(2.0, 0.1, 0.1, 1.0),
            "dims must be a whole number of at least 1; got 2.0",
        ),
        (lambda: wolf.models.constant_velocity(2, 0.0, 0.1, 1.0), "dt must be positive; got 0.0"),
        (lambda: wolf.models.constant_velocity(2, 0.1, np.inf, 1.0), "dynamics_var is a variance"),
        (lambda: wolf.models.constant_velocity(2, 0.1, 0.1, -1.0), "obs_var is a variance"),
    ],
)
def test_wrong_parameter_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_model_says_its_sizes_and_what_varies():
    model = wolf.LinearModel(EYE, np.ones((7, 1, 2)), EYE, np.ones((7, 1, 1)), np.zeros(2), EYE, B=np.ones((2, 3)))
    assert repr(model) == "LinearModel(2 states, 1 measured, 3 inputs, H, R vary in time)"
    assert (model.state_dim, model.obs_dim, model.linear, model.takes_inputs) == (2, 1, True, True)
    assert time_axes(model) == {"H": 7, "R": 7}
    now = model.at(3)
    assert now.H.shape == (1, 2)
    assert now.F is model.F


def test_arrays_stay_float64_outside_of_x64():
    third = 1 / 3
    model = wolf.LinearModel(third * EYE, EYE, EYE, EYE, [third, 0.0], EYE)
    assert model.F.dtype == np.float64
    assert model.F[0, 0] == model.mean[0] == third
    out = wolf.filter(model, np.zeros((1, 2)), method="KF")
    assert out.predicted_means[0, 0] == third * third


def test_nested_lists_and_jax_arrays_are_models_too():
    lists = wolf.LinearModel([[1.0]], [[1]], [[0.5]], [[2]], [0], [[1]])
    arrays = wolf.LinearModel(*(jnp.asarray(a) for a in (lists.F, lists.H, lists.Q, lists.R, lists.mean, lists.cov)))
    assert lists == arrays


def test_model_is_a_pytree_that_gradients_go_through():
    def loss(model):
        return wolf.run_filter(model, jnp.ones((3, 1)), wolf.KF())[1]["log_liks"].sum()

    slopes = jax.grad(loss)(jax.tree.map(jnp.asarray, wolf.models.local_level(1.0, 1.0, wolf.Gaussian([0.0], [[1.0]]))))
    assert isinstance(slopes, wolf.LinearModel)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))
    assert slopes.R[0, 0] != 0


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (lambda x: x, 1),
        (lambda x, u: x, 2),
        (lambda x, dt=0.1: x, 1),
        (jnp.sin, 1),
        (jax.tree_util.Partial(lambda x, u: x), 2),
        (jax.tree_util.Partial(lambda dt, x: x, 0.1), 1),
        (jax.jit(lambda x, u: x), 2),
    ],
)
def test_functions_are_asked_how_many_arguments_they_take(fn, expected):
    assert num_arguments(fn) == expected


def test_call_leaves_the_input_out_where_it_is_not_wanted():
    x = jnp.full(1, 3.0)
    assert call(lambda x: 2 * x, x, 9.0) == 6.0
    assert call(lambda x, u: x + u, x, 9.0) == 12.0


def gain(scale, x):
    return scale * x


def test_parameters_of_a_function_are_leaves_and_do_not_recompile():
    traces = []

    def save(state, info):
        traces.append(state)
        return state.mean

    def run(scale):
        observe = jax.tree_util.Partial(gain, scale)
        model = wolf.StateSpaceModel(None, observe, np.eye(1), np.eye(1), wolf.Gaussian([1.0], [[1.0]]))
        return wolf.filter(model, [1.0, 2.0], method="EKF", save=save).saved

    first = run(1.0)
    count = len(traces)
    assert (run(2.0) != first).all()
    assert (run(np.float32(3)) != first).all()
    assert len(traces) == count


def test_angles_wrap_around():
    """A bearing of +3.1 seen as -3.1 is a residual of -0.08, not of 6.2."""
    prior = wolf.Gaussian(np.array([-10.0, 10 * np.tan(np.pi - 3.1), 0.0, 0.0]), 0.01 * np.eye(4))
    model = wolf.models.range_bearing(0.1, 0.01, 1.0, 0.01, prior)
    out = wolf.filter(model, np.array([[10.0, -3.1]]), method="EKF")
    assert out.residuals[0, 1] == pytest.approx(2 * np.pi - 6.2, abs=1e-6)
    assert not wolf.filter(model, np.array([[10.0, -3.1]])).outliers.any()
