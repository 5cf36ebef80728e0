"""Attitudes: products of rotations are SciPy's, the filter follows a turning body, and iron does not lead it astray."""

import runpy
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

import wolf
from wolf.inference.filters import ErrorState
from wolf.models.attitude import GyroDynamics, ReferenceVectors, compose

EXAMPLE = runpy.run_path(str(Path(__file__).parents[3] / "examples" / "attitude.py"))
TURNING = GyroDynamics(0.02)
VECTOR = st.tuples(*[st.floats(-3.0, 3.0)] * 3).map(np.array)
compose_once = jax.jit(compose)


@jax.jit
def back(x, step):
    def there_and_back(step):
        return TURNING.between(x, TURNING.retract(x, step))

    return there_and_back(step), jax.jacfwd(there_and_back)(step)


@pytest.fixture(autouse=True)
def in_float64(x64):
    pass


def model(**changes):
    prior = wolf.Gaussian(np.zeros(6), 0.01 * np.eye(6))
    given = {"dt": 0.02, "gyro_var": 4e-4, "bias_var": 0.0, "accel_var": 0.04, "mag_var": 4e-4}
    return wolf.models.attitude(**(given | {"field": (0.4, 0.0, -0.9), "prior": prior} | changes))


@settings(deadline=None, max_examples=50)
@given(first=VECTOR, second=VECTOR, scale=st.sampled_from([1.0, 1e-3, 1e-5, 1e-9, 0.0]))
def test_rotations_compose_as_those_of_scipy(first, second, scale):
    ours = Rotation.from_rotvec(np.array(compose_once(first, scale * second)))
    theirs = Rotation.from_rotvec(first) * Rotation.from_rotvec(scale * second)
    assert (ours.inv() * theirs).magnitude() < 1e-12
    assert ours.magnitude() <= np.pi


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-4, 1.0, np.pi - 1e-9, np.pi + 1e-9])
def test_going_there_and_looking_back_is_the_step_with_slope_one(angle):
    x = np.array([0.0, 0.6 * angle, 0.8 * angle, 0.1, 0.2, 0.3])
    step = np.array([0.2, -0.1, 0.3, 0.01, 0.0, -0.02])
    np.testing.assert_allclose(back(x, step)[0], step, atol=1e-14)
    np.testing.assert_allclose(back(x, np.zeros(6))[1], np.eye(6), atol=1e-12)


def test_sensors_say_the_world_in_body_axes():
    turned = Rotation.from_rotvec([1.0, -2.0, 0.5])
    seen = ReferenceVectors(np.array([0.0, 0.0, 9.81]), np.array([0.4, 0.0, -0.9]))(
        jnp.r_[turned.as_rotvec(), np.zeros(3)]
    )
    np.testing.assert_allclose(seen[:3], turned.inv().apply([0.0, 0.0, 9.81]), atol=1e-14)
    np.testing.assert_allclose(seen[3:], turned.inv().apply([0.4, 0.0, -0.9]), atol=1e-14)
    np.testing.assert_allclose(wolf.models.quaternions(turned.as_rotvec()), turned.as_quat(), atol=1e-15)


def test_without_measurements_the_gyroscope_is_integrated_as_by_scipy():
    gyro = np.random.default_rng(0).normal(scale=3.0, size=(EXAMPLE["STEPS"], 3))
    out = wolf.filter(model(), np.full((len(gyro), 6), np.nan), method="WoLF", inputs=gyro)
    turned = Rotation.identity()
    for rate in gyro:
        turned = turned * Rotation.from_rotvec(0.02 * rate)
    assert (Rotation.from_rotvec(out.means[-1, :3]).inv() * turned).magnitude() < 1e-10
    assert np.max(np.linalg.norm(out.means[:, :3], axis=1)) > 3.0  # and went through half a turn


def test_iron_nearby_leads_the_kalman_filter_astray_and_not_wolf():
    found = EXAMPLE["main"](seeds=range(7, 9), methods={"EKF": "EKF", "WoLF": "WoLF"})
    assert found["WoLF"] < 1.5
    assert found["EKF"] > 5.0 * found["WoLF"]


def test_the_bias_is_found_and_errors_are_as_large_as_said():
    truth, gyro, ys, iron = EXAMPLE["turn"](11)
    out = EXAMPLE["follow"](gyro, np.where(iron[:, None], np.nan, ys), "EKF")
    np.testing.assert_allclose(out.means[-1, 3:], EXAMPLE["BIAS"], atol=0.005)
    error = (Rotation.from_rotvec(out.means[:, :3]).inv() * truth).as_rotvec()
    late = slice(100, None)
    distance = np.einsum("ti,tij,tj->t", error[late], np.linalg.inv(out.covs[late, :3, :3]), error[late])
    assert 0.5 < distance.mean() < 6.0  # 3 in the long run; errors of neighbouring steps go together


def test_every_way_to_run_gives_the_same():
    _, gyro, ys, _ = EXAMPLE["turn"](0)
    out = EXAMPLE["follow"](gyro, ys, "WoLF")
    online = wolf.Online(out.model, "WoLF")
    for y, u in zip(ys[:20], gyro[:20], strict=True):
        online.step(y, u=u)
    np.testing.assert_allclose(online.mean, out.means[19], atol=1e-12)
    many = wolf.filter_many(out.model, np.stack([ys, ys[::-1]]), method="WoLF", inputs=np.stack([gyro, gyro]))
    np.testing.assert_array_equal(many.means[0], out.means)
    with pytest.raises(ValueError, match="on a manifold: use smooth or forecast"):
        wolf.sample_paths(out, 3, key=0)


@pytest.mark.slow
def test_the_smoother_is_closer_than_the_filter():
    truth, gyro, ys, _ = EXAMPLE["turn"](1)
    out = EXAMPLE["follow"](gyro, ys, "WoLF")
    errors = [
        (Rotation.from_rotvec(np.array(means[:, :3])).inv() * truth).magnitude()
        for means in (out.means, wolf.smooth(out).means)
    ]
    assert np.mean(errors[1]) < 0.8 * np.mean(errors[0])


def test_what_adds_states_is_refused():
    ys, us = np.zeros((3, 6)), np.zeros((3, 3))
    for method in ("EnKF", "IMM"):
        with pytest.raises(ValueError, match="lie on a manifold"):
            wolf.filter(model(), ys, method=method, inputs=us, key=0)
    with pytest.raises(ValueError, match="retract"):
        wolf.filter(wolf.models.local_level(1.0, 1.0), [1.0], method=ErrorState(wolf.WoLF()))
    with pytest.raises(ValueError, match="Gaussian belief"):
        ErrorState(wolf.filters.ParticleFilter())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"field": (0.0, 0.0, 1.0)}, "must not be parallel to gravity"),
        ({"field": (1.0, 0.0)}, "field must be a vector in world axes"),
        ({"gravity": np.zeros(3)}, "gravity must be a vector"),
        ({"mag_var": 0.0}, "mag_var"),
        ({"dt": -1.0}, "dt"),
    ],
)
def test_wrong_arguments_are_refused_in_words(changes, words):
    with pytest.raises(ValueError, match=words):
        model(**changes)
    with pytest.raises(ValueError, match=r"means must have shape"):
        wolf.models.quaternions(np.zeros(4))


def test_simulated_attitudes_move_by_noise_in_body_axes_and_stay_rotations():
    steps, rate = 2000, np.array([0.0, 0.0, 3.0])
    wide = wolf.Gaussian(np.r_[0.0, 0.0, 3.0, np.zeros(3)], np.diag([4.0] * 3 + [0.01] * 3))
    turning = model(prior=wide, bias_var=1e-6)
    data = wolf.simulate.trajectory(turning, steps, key=0, inputs=np.tile(rate, (steps, 1)))
    turned, bias = Rotation.from_rotvec(np.array(data.states[:, :3])), data.states[:, 3:]
    assert np.max(turned.magnitude()) <= np.pi
    assert np.max(np.linalg.norm(data.states[:, :3], axis=1)) <= np.pi + 1e-12
    ahead = turned[:-1] * Rotation.from_rotvec(0.02 * (rate - bias[:-1]))
    noise = (ahead.inv() * turned[1:]).as_rotvec() / np.sqrt(turning.dynamics_cov[0, 0])
    # χ² with 3 (T - 1) degrees of freedom, four standard deviations to both sides
    assert abs(np.sum(noise**2) - noise.size) < 4.0 * np.sqrt(2.0 * noise.size)
    np.testing.assert_allclose(data.measurements[:, :3], turned.inv().apply([0.0, 0.0, 9.81]), atol=5.0 * 0.2)
