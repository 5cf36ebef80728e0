"""predict and update, late measurements by time, delays: compared with filterpy on measurements in order of time."""

import inspect

import jax.numpy as jnp
import numpy as np
import pytest
from filterpy.kalman import KalmanFilter

import wolf

LEVEL = wolf.models.local_level(level_var=0.1, obs_var=1.0)
CAR = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.5, obs_var=1.0)
GPS = wolf.Sensor(np.eye(2, 4), 2.0 * np.eye(2))
WHEEL = wolf.Sensor([[0.0, 0.0, 1.0, 0.0]], 0.1)
RADAR = wolf.Sensor([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]], np.diag([0.5, 0.2]))


def arrivals(seed, count=24):
    """Draw measurements of three sensors: (time, sensor, y), in order of time."""
    rng = np.random.default_rng(seed)
    stamps = np.cumsum(rng.exponential(0.1, count))
    sensors = [(GPS, WHEEL, RADAR)[i] for i in rng.integers(0, 3, count)]
    return [(t, sensor, rng.normal(size=len(sensor.R))) for t, sensor in zip(stamps, sensors, strict=True)]


def filterpy_in_order(rows, start=0.0):
    kf = KalmanFilter(dim_x=4, dim_z=2)
    kf.x, kf.P, now = np.array(CAR.mean), np.array(CAR.cov), start
    for t, sensor, y in rows:
        F, Q = CAR.over([t - now])
        kf.predict(F=F[0], Q=Q[0])
        kf.update(y, R=sensor.R, H=sensor.observe)
        now = t
    return kf


@pytest.mark.parametrize("backend", ["native", "xla"])
def test_predict_then_update_is_filterpy_and_step(backend):
    rows = arrivals(1, 8)
    halves, whole = (wolf.Online(CAR, "KF", backend=backend) for _ in range(2))
    kf = filterpy_in_order([])
    now = 0.0
    for t, sensor, y in rows:
        F, Q = CAR.over([t - now])
        kf.predict(F=F[0], Q=Q[0])
        ahead = halves.predict(dt=t - now, sensor=sensor)
        innovation_cov = sensor.observe @ kf.P @ sensor.observe.T + sensor.R
        np.testing.assert_allclose(ahead.mean, kf.x, atol=1e-12)
        np.testing.assert_allclose(ahead.cov, kf.P, atol=1e-12)
        np.testing.assert_allclose(ahead.measurement, sensor.observe @ kf.x, atol=1e-12)
        np.testing.assert_allclose(ahead.innovation_cov, innovation_cov, atol=1e-12)
        np.testing.assert_array_equal(halves.mean, ahead.mean)
        kf.update(y, R=sensor.R, H=sensor.observe)
        assert halves.update(y, sensor=sensor) == whole.step(y, dt=t - now, sensor=sensor)
        now = t
    np.testing.assert_array_equal(halves.mean, whole.mean)
    np.testing.assert_allclose(halves.mean, kf.x, atol=1e-12)
    np.testing.assert_allclose(halves.cov, kf.P, atol=1e-12)
    assert halves.time == pytest.approx(now)


def test_the_default_predicts_without_moving():
    halves, whole = wolf.Online(LEVEL), wolf.Online(LEVEL)
    for y in np.random.default_rng(2).normal(size=12):
        halves.predict()
        halves.update(y)
        whole.step(y)
    halves.predict(dt=0.3)  # never measured: counts as missing
    halves.step(1.0)
    whole.step(None, dt=0.3)
    whole.step(1.0)
    np.testing.assert_array_equal(halves.mean, whole.mean)
    np.testing.assert_array_equal(halves.cov, whole.cov)


def test_a_second_update_is_at_the_same_time():
    online, kf = wolf.Online(CAR, "KF"), filterpy_in_order([(0.2, GPS, np.ones(2))])
    online.predict(dt=0.2)
    online.update([1.0, 1.0], sensor=GPS)
    online.update(3.0, sensor=WHEEL)
    kf.update(np.array([3.0]), R=WHEEL.R, H=WHEEL.observe)
    np.testing.assert_allclose(online.mean, kf.x, atol=1e-12)
    np.testing.assert_allclose(online.cov, kf.P, atol=1e-12)
    assert online.time == pytest.approx(0.2)


@pytest.mark.parametrize("seed", [3, 4])
def test_late_measurements_of_any_sensor_equal_filterpy_in_order(seed):
    rows = arrivals(seed)
    rng = np.random.default_rng(seed)
    came = sorted(rows, key=lambda row: row[0] + rng.choice([0.0, 0.0, 0.35]))
    online = wolf.Online(CAR, "KF", horizon=30)
    late = 0
    for t, sensor, y in came:
        if online.t and t < online.time:
            online.late(y, time=t, sensor=sensor)
            late += 1
        else:
            online.step(y, dt=t - online.time, sensor=sensor)
    kf = filterpy_in_order(rows)
    assert late >= 3
    np.testing.assert_allclose(online.mean, kf.x, atol=1e-10)
    np.testing.assert_allclose(online.cov, kf.P, atol=1e-10)
    assert online.t == len(rows)
    assert online.time == pytest.approx(rows[-1][0])


def test_a_delayed_sensor_takes_its_place_in_time():
    camera = wolf.Sensor(np.eye(2, 4), 0.3 * np.eye(2), delay=0.25)
    online, made, now = wolf.Online(CAR, "KF", horizon=8), [], 0.0
    rng = np.random.default_rng(5)
    for k in range(1, 13):
        now += 0.1
        made.append((now, WHEEL, rng.normal(size=1)))
        online.step(made[-1][2], dt=0.1, sensor=WHEEL)
        if k % 4 == 0:
            now += 0.02
            made.append((now - 0.25, camera, rng.normal(size=2)))
            online.step(made[-1][2], dt=0.02, sensor=camera)
    kf = filterpy_in_order(sorted(made, key=lambda row: row[0]))
    F, Q = CAR.over([0.02])
    kf.predict(F=F[0], Q=Q[0])
    np.testing.assert_allclose(online.mean, kf.x, atol=1e-10)
    np.testing.assert_allclose(online.cov, kf.P, atol=1e-10)


def test_a_delayed_measurement_from_before_the_start_is_not_used():
    online = wolf.Online(CAR, "KF", horizon=3)
    online.step([9.0, 9.0], dt=0.1, sensor=wolf.Sensor(np.eye(2, 4), np.eye(2), delay=5.0))
    np.testing.assert_allclose(online.mean, CAR.over([0.1])[0][0] @ CAR.mean)


def turn_rate(x):
    return x[4:5]


def test_functions_of_the_state_are_divided_too():
    prior = wolf.Gaussian(np.array([0.0, 0.0, 1.0, 0.0, 0.1]), np.eye(5))
    model = wolf.models.coordinated_turn(dt=0.5, speed_var=0.1, turn_var=0.01, obs_var=1.0, prior=prior)
    gyro = wolf.Sensor(turn_rate, 0.01)
    late, timely = wolf.Online(model, "EKF", horizon=4), wolf.Online(model, "EKF")
    rows = [(0.5, None, [1.0, 0.0]), (0.7, gyro, 0.1), (1.2, None, [1.5, 0.1])]
    for t, sensor, y in rows:
        timely.step(y, time=t, sensor=sensor)
    for t, sensor, y in (rows[0], rows[2], rows[1]):
        if late.t and t < late.time:
            late.late(y, time=t, sensor=sensor)
        else:
            late.step(y, time=t, sensor=sensor)
    np.testing.assert_allclose(late.mean, timely.mean, atol=1e-10)
    np.testing.assert_allclose(late.cov, timely.cov, atol=1e-10)


def bearing(x):
    return jnp.arctan2(x[1], x[0])[None]


def wrapped(y, prediction):
    return (y - prediction + jnp.pi) % (2 * jnp.pi) - jnp.pi


def test_a_predicted_angle_is_that_of_the_function():
    online = wolf.Online(CAR, "EKF")
    online.set_state(online.state._replace(belief=wolf.Gaussian(np.array([-1.0, 0.1, 0.0, 0.0]), np.eye(4))))
    ahead = online.predict(sensor=wolf.Sensor(bearing, 0.01, wrapped))
    np.testing.assert_allclose(ahead.measurement, np.arctan2(ahead.mean[1], ahead.mean[0]), atol=1e-12)


def test_forecasts_of_a_filter_are_those_of_its_series():
    ys, online = np.random.default_rng(6).normal(size=20), wolf.Online(LEVEL)
    for y in ys:
        online.step(y)
    ahead, series = online.forecast(5, level=0.9), wolf.forecast(wolf.filter(LEVEL, ys), steps=5, level=0.9)
    np.testing.assert_allclose(ahead.lower, series.lower)
    np.testing.assert_allclose(ahead.obs_covs, series.obs_covs)


def test_invalid_halves_are_refused(tmp_path):
    online = wolf.Online(CAR, "KF", horizon=3)
    camera = wolf.Sensor(np.eye(2, 4), np.eye(2), delay=5.0)
    for _ in range(5):
        online.step([1.0, 1.0])
    before = online.mean
    for call, words in (
        (lambda: online.late([1.0, 1.0]), "either the number t of the step, or the time"),
        (lambda: online.late([1.0, 1.0], 2, sensor=GPS), "go with time"),
        (lambda: online.late([1.0, 1.0], time=9.0), "must not be after that of the filter, 0.5"),
        (lambda: online.late([1.0, 1.0], time=0.1), "within the horizon"),
        (lambda: online.step([1.0, 1.0], dt=0.1, sensor=camera), "needs a larger horizon than 3"),
        (lambda: online.step([1.0, 1.0], time=0.2), "must not be before that of the filter"),
        (lambda: online.predict(dt=0.1, time=0.2), "either dt or time"),
        (lambda: wolf.Sensor(np.eye(2, 4), np.eye(2), delay=-1.0), "delay must not be negative"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    np.testing.assert_array_equal(online.mean, before)
    online.predict()
    with pytest.raises(ValueError, match="awaits its measurement"):
        online.save(tmp_path / "state.npz")
    with pytest.raises(ValueError, match="y must have shape"):
        online.update([1.0, 2.0, 3.0])
    assert online.update(None).weight == 0.0


def test_the_signature_of_step_is_readable():
    assert len(str(inspect.signature(wolf.Online.step))) < 400
