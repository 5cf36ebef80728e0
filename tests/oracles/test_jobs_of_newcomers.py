"""What people who come from other tools try first, in the words of those tools; each job is a few lines."""

import ctypes
import shutil
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import wolf

pytestmark = pytest.mark.slow
RNG = np.random.default_rng(0)
DAYS = pd.date_range("2024-01-01", periods=120, freq="D")
LEVEL = pd.Series(20.0 + np.cumsum(RNG.normal(0, 0.3, 120)) + RNG.normal(0, 1.0, 120), index=DAYS, name="flow")


def test_statsmodels_fit_summary_components_and_forecast_with_dates():
    fit = wolf.fit(wolf.models.local_level, LEVEL)
    text = str(fit.summary())
    assert all(word in text for word in ("AIC", "BIC", "std err"))
    out = wolf.filter(fit.model, LEVEL)
    ahead = wolf.forecast(out, 7).to_frame()
    assert ahead.index[0] == DAYS[-1] + pd.Timedelta(days=1)
    assert list(out.components()) == ["level"]


def test_statsmodels_exog_in_the_fit_and_its_future_in_the_forecast():
    rain = RNG.normal(size=(120, 1))
    choice = wolf.choose(LEVEL.to_numpy() + 3.0 * rain[:, 0], candidates=["local-level"], exog=rain)
    assert next(iter(choice.coefficients.values())) == pytest.approx(3.0, abs=0.4)
    out = wolf.filter(choice.model, LEVEL.to_numpy() + 3.0 * rain[:, 0])
    wet, dry = (wolf.forecast(out, 1, exog=[[x]]).obs_means[0, 0] for x in (1.0, 0.0))
    assert wet - dry == pytest.approx(3.0, abs=0.4)


def test_darts_and_sktime_backtest_with_coverage():
    result = wolf.backtest(wolf.models.local_level(level_var=0.09, obs_var=1.0), LEVEL, horizon=3, step=5)
    assert "coverage" in str(result).lower()
    assert result.mean.shape[1:] == (3, 1)


def test_filterpy_predict_look_at_the_innovation_then_update():
    kf = wolf.Online(wolf.models.constant_velocity(dims=1, dt=1.0, dynamics_var=0.1, obs_var=1.0), "KF")
    for z in (1.0, 2.1, 2.9, 4.2):
        kf.predict()
        kf.update(z)
    ahead = kf.predict()
    distance = (100.0 - ahead.measurement) ** 2 / ahead.innovation_cov[0]
    assert distance[0] > 9.0  # the gate by hand; then no update
    kf.update(None)
    assert kf.mean[0] < 7.0


def test_robotics_two_sensors_at_their_times_and_one_late():
    model = wolf.models.constant_velocity(dims=1, dt=0.1, dynamics_var=0.1, obs_var=1.0)
    gps, wheel = wolf.Sensor([[1.0, 0.0]], 1.0), wolf.Sensor([[0.0, 1.0]], 0.01)
    late = wolf.Online(model, "KF", horizon=10)
    in_time = wolf.Online(model, "KF")
    for k in range(5):
        for robot in (late, in_time):
            robot.step(2.0, time=0.1 * k, sensor=wheel)
        if k == 3:
            in_time.predict(time=0.35, sensor=gps)
            in_time.update(0.7, sensor=gps)
    late.late(0.7, time=0.35, sensor=gps)
    np.testing.assert_allclose(late.mean, in_time.mean, atol=1e-9)


def test_embedded_r_and_dt_as_arguments_of_c(tmp_path):
    if shutil.which("cc") is None:
        pytest.skip("no C compiler here")
    model = wolf.models.constant_velocity(dims=1, dt=0.1, dynamics_var=0.1, obs_var=1.0)
    made = wolf.export_c(model, "WoLF", tmp_path / "nav.c", dtype="float64", arguments=("R", "dt"), report=())
    subprocess.run(
        ["cc", "-std=c99", "-O1", "-shared", "-fPIC", made.path, "-o", tmp_path / "nav.so", "-lm"], check=True
    )
    library, state = ctypes.CDLL(str(tmp_path / "nav.so")), (ctypes.c_double * (made.state_bytes // 8))()
    library.nav_init(state)
    online = wolf.Online(model, "WoLF")
    for y, noise, dt in ((1.0, 1.0, 0.1), (50.0, 2.0, 0.3), (1.5, 0.5, 0.0)):
        one = ctypes.c_double * 1
        library.nav_step(state, one(y), one(noise), ctypes.c_double(dt), None)
        online.step(y, R=[[noise]], dt=dt)
    np.testing.assert_allclose(state[:2], online.mean, rtol=1e-12)


def test_jax_grad_jit_and_vmap_of_a_log_likelihood():
    ys = jnp.asarray(LEVEL.to_numpy())

    def nll(log_var):
        model = wolf.models.local_level(level_var=jnp.exp(log_var), obs_var=1.0)
        return -wolf.run_filter(model, ys, "KF")[1]["log_liks"].sum()

    slopes = jax.jit(jax.vmap(jax.grad(nll)))(jnp.array([-6.0, 2.0]))
    assert slopes[0] < 0.0 < slopes[1]


def test_assimilation_own_model_observed_at_an_index_array():
    where = np.arange(0, 40, 2)
    base = wolf.models.lorenz96(40)
    model = wolf.StateSpaceModel(base.dynamics, lambda x: x[where], base.dynamics_cov, np.ones(20), base.prior)
    data = wolf.simulate.trajectory(model, 40, key=1)
    near = wolf.ensembles.Ring(4.0, observed=tuple(where))
    method = wolf.methods.make("WoLF-LETKF", num_members=20, localisation=near)
    out = wolf.filter(model, data.measurements, method=method, key=0)
    assert np.sqrt(np.mean((out.means - data.states)[20:] ** 2)) < 1.0
    assert out.to_xarray()["means"].dims == ("step", "state")


def test_counts_percentages_and_compass():
    humidity = pd.DataFrame({"rh": np.clip(97.0 + RNG.normal(0, 2, 120), 0, 100)}, index=DAYS)
    out = wolf.filter_frame(humidity, transform="logit:0:100")
    assert out["prediction_upper"].max() <= 100.0
    compass = pd.DataFrame({"heading": (358.0 + np.cumsum(RNG.normal(0, 2, 120))) % 360})
    assert wolf.filter_frame(compass, angle="degrees")["outlier"].sum() <= 2


def test_two_thermometers_one_with_a_gap():
    room = np.cumsum(RNG.normal(0, 0.5, 300))
    frame = pd.DataFrame({"a": room + RNG.normal(0, 0.1, 300), "b": 0.8 * room + RNG.normal(0, 0.1, 300)})
    frame.loc[100:139, "a"] = np.nan
    filled = wolf.filter_frame(frame, values=["a", "b"], together=["a", "b"])["a_cleaned"]
    alone = wolf.filter_frame(frame, values=["a", "b"])["a_cleaned"]
    errors = [np.sqrt(np.mean((each - room)[100:140] ** 2)) for each in (filled, alone)]
    assert errors[0] < 0.7 * errors[1]


def test_one_bad_sensor_is_named_and_a_fault_that_would_show_is_known():
    model = wolf.LinearModel(None, np.ones((4, 1)), [[0.1]], np.eye(4), [0.0], [[10.0]])
    data = wolf.simulate.trajectory(model, 300, key=2).measurements.copy()
    data[:, 2] += np.where(RNG.random(300) < 0.4, RNG.normal(0, 40.0, 300), 0.0)
    assert "sensors='each'" in repr(wolf.filter(model, data))
    online = wolf.Online(model, "WoLF-TMD")
    online.step(data[0])
    assert np.all(online.detectable > 1.0)
