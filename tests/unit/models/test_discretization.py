"""Steps of any length: what a model does over two times in a row it does over their sum."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wolf

ONE = wolf.Gaussian(np.zeros(1), np.eye(1))
MODELS = {
    "level": wolf.models.local_level(0.3, 1.0),
    "velocity": wolf.models.constant_velocity(2, 0.5, 0.1, 1.0),
    "acceleration": wolf.models.constant_acceleration(1, 0.5, 0.1, 1.0),
    "singer": wolf.models.singer(1, 0.5, 2.0, 0.1, 1.0),
    "cycle": wolf.models.structural(wolf.models.level(0.1), wolf.models.cycle(7, 0.2, 0.9), obs_var=1.0),
    "sde": wolf.models.ornstein_uhlenbeck([0.0, 1.0], 0.3, 1.0, 1.0),
}
WHOLE = {"velocity": 0.5}  # noise that comes at every step adds up over whole steps


@pytest.mark.parametrize("name", MODELS)
@given(a=st.integers(1, 5), b=st.integers(1, 5))
def test_two_steps_in_a_row_are_one_step_of_their_sum(name, a, b):
    model, unit = MODELS[name], WHOLE.get(name, 0.7 if name != "velocity" else 0.5)
    (first, second, both), (q1, q2, q) = model.over(unit * np.array([a, b, a + b]))
    np.testing.assert_allclose(second @ first, both, atol=1e-9)
    np.testing.assert_allclose(second @ q1 @ second.T + q2, q, atol=1e-9)


@pytest.mark.parametrize("name", ["level", "velocity", "acceleration", "singer", "cycle"])
def test_a_step_of_the_usual_length_is_the_models_own(name):
    model = MODELS[name]
    own = 1.0 if name in ("level", "cycle") else 0.5
    for got, expected in zip(model.over([own]), (model.F, model.Q), strict=True):
        np.testing.assert_allclose(got[0], expected, atol=1e-12)


def test_steps_of_their_own_length_are_a_model_at_these_times():
    times = np.cumsum([0.0, 0.3, 1.7, 0.2, 4.0])
    prior = wolf.Gaussian(np.zeros(2), np.eye(2))
    model = wolf.models.wiener_velocity(times, 1, 0.1, 1.0, prior)
    ys = np.array([0.1, 0.4, 9.0, 0.2, 0.3])
    out = wolf.filter(model, ys)
    still = wolf.LinearModel(np.eye(2), np.eye(1, 2), np.eye(2), np.eye(1), *prior).with_motion(model.over)
    online = wolf.Online(still)
    for y, dt, mean in zip(ys, np.diff(times, prepend=0.0), out.means, strict=True):
        online.step(y, dt=dt)
        np.testing.assert_allclose(online.mean, mean, rtol=1e-9, atol=1e-12)


def arc(x, time):
    """Where an object that turns at a constant rate is after a time, in closed form."""
    rate, sine, cosine = x[4], np.sin(x[4] * time), np.cos(x[4] * time)
    along, across = x[2] * sine - x[3] * (1 - cosine), x[3] * sine + x[2] * (1 - cosine)
    moved = [x[0] + along / rate, x[1] + across / rate, x[2] * cosine - x[3] * sine, x[3] * cosine + x[2] * sine]
    return np.array([*moved, rate])


@pytest.mark.parametrize("backend", ["native", "xla"])
def test_a_model_of_functions_moves_by_the_given_time_step(backend):
    begin = np.array([0.0, 0.0, 3.0, 0.0, 0.2])
    turn = wolf.models.coordinated_turn(0.5, 1e-12, 1e-12, 1.0, wolf.Gaussian(begin, 1e-10 * np.eye(5)))
    online, usual, given = (wolf.Online(turn, "WoLF", backend=backend) for _ in range(3))
    for dt in (0.3, 0.0, 2.0):
        online.step(None, dt=dt)
    np.testing.assert_allclose(online.mean, arc(begin, 2.3), rtol=1e-9, atol=1e-9)
    usual.step([1.4, 0.1])
    given.step([1.4, 0.1], dt=0.5)
    np.testing.assert_array_equal(usual.mean, given.mean)
    given.step([2.5, 0.3], Q=4 * turn.dynamics_cov)  # its own time step again
    usual.step([2.5, 0.3], dt=0.5)
    np.testing.assert_allclose(usual.mean, given.mean, atol=1e-9)


def test_noise_of_a_model_of_functions_grows_with_time():
    turn = wolf.models.coordinated_turn(0.5, 0.1, 0.2, 1.0, wolf.Gaussian(np.zeros(5), np.zeros((5, 5))))
    online = wolf.Online(turn, "WoLF", backend="native")
    online.step(None, dt=1.5)
    np.testing.assert_allclose(np.diag(online.cov), 3 * np.diag(turn.dynamics_cov), rtol=1e-9)


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (MODELS["level"], {"dt": -1.0}, "dt must not be negative"),
        (MODELS["level"], {"dt": np.nan}, "dt must be finite"),
        (MODELS["level"], {"dt": 1.0, "F": np.eye(1)}, "either dt or time, or F and Q"),
        (
            wolf.LinearModel(np.eye(1), np.eye(1), np.eye(1), np.eye(1), *ONE),
            {"dt": 1.0},
            "no motion over other time steps",
        ),
        (wolf.StateSpaceModel(None, jnp.sin, np.eye(1), np.eye(1), ONE), {"dt": 1.0}, "no other time steps"),
    ],
)
def test_what_has_no_length_is_explained(model, options, words):
    online = wolf.Online(model)
    with pytest.raises(ValueError, match=words):
        online.step(1.0, **options)
