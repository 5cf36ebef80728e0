"""Several sensors at different rates: a step with a sensor is a step of the model with this sensor only."""

import runpy
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import wolf

TRACK = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=1.0)
PLACE, SPEED = wolf.Sensor(TRACK.H, 2.0 * np.eye(2)), wolf.Sensor([[0.0, 0.0, 0.0, 1.0]], 0.5)


@pytest.mark.parametrize("backend", ["native", "xla"])
def test_alternating_sensors_equal_one_sensor_with_missing_coordinates(backend):
    """A Kalman filter of all sensors, NaN where one did not measure, is the same in theory."""
    both = wolf.LinearModel(
        TRACK.F,
        np.vstack([PLACE.observe, SPEED.observe]),
        TRACK.Q,
        np.diag([2.0, 2.0, 0.5]),
        TRACK.mean,
        TRACK.cov,
    )
    ys = np.random.default_rng(0).normal(size=(12, 3))
    turn = np.arange(12) % 3 == 0
    ys[turn, 2], ys[~turn, :2] = np.nan, np.nan
    online = wolf.Online(TRACK, "KF", backend=backend)
    for y, place in zip(ys, turn, strict=True):
        online.step(y[:2] if place else y[2], sensor=PLACE if place else SPEED)
    out = wolf.filter(both, ys, method="KF")
    np.testing.assert_allclose(online.mean, out.means[-1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(online.cov, out.covs[-1], rtol=1e-9, atol=1e-12)


def fourth_state(x):
    return x[3:]


def difference(angle, predicted):
    return angle - predicted


@pytest.mark.parametrize("method", ["EKF", "WoLF", None])
def test_a_linear_function_gives_what_its_matrix_gives(method):
    functions = [wolf.Sensor(fourth_state, 0.5), wolf.Sensor(fourth_state, 0.5, residual=difference)]
    runs = [(SPEED, "native"), (functions[0], "native"), (functions[1], "native"), (functions[0], "xla")]
    means = []
    for sensor, engine in runs:
        online = wolf.Online(TRACK, method, backend=engine)
        for i, y in enumerate((0.3, 0.5, 90.0, None, 0.4)):
            online.step([1.0, 1.0])
            report = online.step(y, dt=0.1 * (i % 3), sensor=sensor)
            assert report.residual.shape == (1,)
        means.append(online.mean)
    for mean in means[1:]:
        np.testing.assert_allclose(mean, means[0], rtol=1e-8, atol=1e-10)


def test_a_model_of_functions_accepts_sensors_of_functions():
    def distance(x):
        return jnp.sqrt(x[0] ** 2 + x[1] ** 2)[None]

    model = wolf.StateSpaceModel(None, distance, 0.01 * np.eye(2), np.eye(1), wolf.Gaussian(np.ones(2), np.eye(2)))
    online = wolf.Online(model, "EKF")
    first = wolf.Sensor(lambda x: x[:1], 0.01)
    for _ in range(30):
        online.step(5.0)
        online.step(3.0, sensor=first)
    np.testing.assert_allclose(online.mean, [3.0, 4.0], atol=0.1)


def test_late_measurements_are_of_the_sensor_of_their_step():
    late, timely = (wolf.Online(TRACK, "WoLF", horizon=3) for _ in range(2))
    for online, y in ((timely, 0.7), (late, None)):
        online.step([1.0, 1.0])
        online.step(y, sensor=SPEED)
        online.step([1.1, 1.1], sensor=PLACE)
    late.late(0.7, t=1)
    np.testing.assert_allclose(late.mean, timely.mean, rtol=1e-12)


def test_invalid_sensors_are_refused():
    online = wolf.Online(TRACK, "KF")
    with pytest.raises(ValueError, match=r"sensor must be a wolf.Sensor\(H, R\); got 'gps'"):
        online.step([1.0], sensor="gps")
    with pytest.raises(ValueError, match="give either sensor, or H and R"):
        online.step([1.0], sensor=SPEED, R=np.eye(1))
    with pytest.raises(ValueError, match=r"y must have shape \(1,\)"):
        online.step([1.0, 2.0], sensor=SPEED)
    with pytest.raises(ValueError, match="KF needs a linear model"):
        online.step(1.0, sensor=wolf.Sensor(fourth_state, 1.0))
    with pytest.raises(ValueError, match="H must have shape"):
        online.step(1.0, sensor=wolf.Sensor([[1.0, 0.0]], 1.0))
    for arguments, words in (
        (([[1.0]], -1.0), "R must be positive definite"),
        (([[1.0]], np.eye(2)), "a row for each of the 2 rows of R"),
        (([[1.0]], 1.0, difference), "residual goes with a function"),
    ):
        with pytest.raises(ValueError, match=words):
            wolf.Sensor(*arguments)
    assert repr(SPEED) == "Sensor(a matrix, 1 measured)"
    assert repr(wolf.Sensor(fourth_state, 1.0)) == "Sensor(fourth_state, 1 measured)"


def test_the_fusion_example_follows_the_truth():
    example = runpy.run_path(str(Path(__file__).parents[3] / "examples" / "fusion.py"))
    truth, readings = example["drive"](3)
    found = example["follow"](readings[:160], "WoLF")
    assert np.linalg.norm(found - truth[: len(found)], axis=1)[20:].max() < 12.0
