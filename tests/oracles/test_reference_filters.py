"""The filters and the smoother equal filterpy, statsmodels, dynamax, scipy and naive NumPy."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from filterpy.kalman import ExtendedKalmanFilter, KalmanFilter
from jax.tree_util import Partial
from scipy.optimize import minimize
from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother
from tests import oracle
from tests.oracle import DT, G, assert_close

import wolf

STEPS = 30
FORMS = ("joseph", "symmetric", "sqrt")


def swing(x, u):
    return jnp.array([x[0] + DT * x[1], x[1] - DT * G * jnp.sin(x[0]) + DT * u[0]])


def sine(x):
    return jnp.sin(x[:1])


def polar(x, u):
    return jnp.array([jnp.hypot(x[0] - u[0], x[1] - u[1]), jnp.arctan2(x[1] - u[1], x[0] - u[0])])


def bend(x):
    return jnp.array([x[0] + 0.3 * x[0] ** 3, x[0] * x[1]])


@pytest.fixture(params=["fixed", "varying"])
def system(request):
    return oracle.random_system(1, steps=STEPS if request.param == "varying" else None)


@pytest.fixture(params=["fixed", "varying"])
def steered(request):
    return oracle.random_system(2, steps=STEPS if request.param == "varying" else None, controls=2)


@pytest.fixture
def us():
    return np.random.default_rng(5).normal(size=(STEPS, 2))


def run_filterpy(system, ys, us=None):
    s = oracle.over_time(system, len(ys))
    kf = KalmanFilter(dim_x=s["mean"].size, dim_z=ys.shape[1])
    kf.x, kf.P = s["mean"].copy(), s["cov"].copy()
    rows = []
    for t, y in enumerate(ys):
        kf.predict(u=None if us is None else us[t], B=s["B"][t], F=s["F"][t], Q=s["Q"][t])
        kf.update(y, R=s["R"][t], H=s["H"][t])
        rows.append((kf.x, kf.P, kf.x_prior, kf.P_prior, kf.log_likelihood))
    beliefs = oracle.Beliefs(*map(np.array, zip(*rows, strict=True)))
    return beliefs, kf.rts_smoother(beliefs.means, beliefs.covs, s["F"], s["Q"])[:2]


def run_statsmodels(system, ys, us=None):
    s = oracle.over_time(system, len(ys))
    shifts = np.zeros(s["mean"].shape) if us is None else np.einsum("tij,tj->ti", s["B"], us).T
    smoother = KalmanSmoother(ys.shape[1], s["mean"].size, tolerance=0)
    smoother.bind(ys.copy())
    last = {"design": "H", "obs_cov": "R", "transition": "F", "state_cov": "Q"}
    for name, letter in last.items():
        smoother[name] = np.moveaxis(s[letter], 0, -1)
    smoother["selection"] = np.eye(s["mean"].size)
    smoother["state_intercept"] = shifts[:, None] if us is None else shifts
    smoother.initialize_known(s["mean"], s["cov"])
    return smoother.smooth()


@pytest.mark.parametrize("form", FORMS)
def test_kf_equals_filterpy(form, steered, us):
    ys = oracle.random_data(3, STEPS)
    expected, _ = run_filterpy(steered, ys, us)
    out = wolf.filter(wolf.LinearModel(**steered), ys, method=wolf.methods.KF(form=form), inputs=us)
    assert_close(1e-8, **{name: (getattr(out, name), getattr(expected, name)) for name in expected._fields})
    assert_close(1e-8, total=(out.log_likelihood, expected.log_liks.sum()))


def test_smoother_equals_filterpy(system):
    ys = oracle.random_data(3, STEPS)
    _, (means, covs) = run_filterpy(system, ys)
    model = wolf.LinearModel(**system)
    smoothed = wolf.smooth(model, wolf.filter(model, ys, method="KF"))
    assert_close(1e-8, means=(smoothed.means, means), covs=(smoothed.covs, covs))


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_kf_and_smoother_equal_statsmodels(steered, us, missing):
    ys = oracle.random_data(4, STEPS, missing=missing)
    expected = run_statsmodels(steered, ys, us)
    model = wolf.LinearModel(**steered)
    out = wolf.filter(model, ys, method="KF", inputs=us, update_first=True)
    smoothed = wolf.smooth(model, out)
    seen = ~np.isnan(ys).any(1)  # statsmodels blanks its own account of a partly missing row
    assert_close(
        1e-8,
        means=(out.means, expected.filtered_state.T),
        covs=(out.covs, np.moveaxis(expected.filtered_state_cov, -1, 0)),
        predicted_means=(out.predicted_means, expected.predicted_state.T[:-1]),
        predicted_covs=(out.predicted_covs, np.moveaxis(expected.predicted_state_cov, -1, 0)[:-1]),
        innovation_covs=(out.innovation_covs[seen], np.moveaxis(expected.forecasts_error_cov, -1, 0)[seen]),
        log_liks=(out.log_liks, expected.llf_obs),
        smoothed_means=(smoothed.means, expected.smoothed_state.T),
        smoothed_covs=(smoothed.covs, np.moveaxis(expected.smoothed_state_cov, -1, 0)),
    )


@pytest.mark.parametrize("form", FORMS)
def test_large_kf_equals_statsmodels(form):
    system = oracle.random_system(6, states=18, measured=10)
    ys = oracle.random_data(7, STEPS, 10, missing=0.2)
    expected = run_statsmodels(system, ys)
    out = wolf.filter(wolf.LinearModel(**system), ys, method=wolf.methods.KF(form=form), update_first=True)
    assert_close(
        1e-8,
        means=(out.means, expected.filtered_state.T),
        covs=(out.covs, np.moveaxis(expected.filtered_state_cov, -1, 0)),
        log_liks=(out.log_liks, expected.llf_obs),
    )


@pytest.mark.parametrize("name", ["fixed", "varying"])
def test_kf_and_smoother_equal_dynamax(name):
    given = load_dynamax(name)
    system = {key: given[key] for key in ("F", "H", "B", "Q", "R", "mean", "cov")}
    model = wolf.LinearModel(**system | {key: leads_on(system[key]) for key in "FBQ" if system[key].ndim == 3})
    out = wolf.filter(model, given["ys"], method="KF", inputs=leads_on(given["us"]), update_first=True)
    check_dynamax(given, out, wolf.smooth(model, out))


def test_ekf_and_smoother_equal_dynamax():
    given = load_dynamax("pendulum")
    model = wolf.StateSpaceModel(swing, sine, given["Q"], given["R"], wolf.Gaussian(given["mean"], given["cov"]))
    out = wolf.filter(model, given["ys"], method="EKF", inputs=leads_on(given["us"]), update_first=True)
    check_dynamax(given, out, wolf.smooth(model, out))


def load_dynamax(name):
    with np.load(Path(__file__).parents[1] / "fixtures" / "dynamax.npz") as file:
        return {key.removeprefix(f"{name}_"): file[key] for key in file.files if key.startswith(name)}


def leads_on(rows):
    """Index by where a step starts; dynamax indexes its dynamics and inputs by where a step ends."""
    return np.roll(rows, -1, axis=0)


def check_dynamax(given, out, smoothed):
    # dynamax adds 1e-9 to the innovation covariance
    assert_close(
        1e-6,
        means=(out.means, given["means"]),
        covs=(out.covs, given["covs"]),
        log_likelihood=(out.log_likelihood, given["log_likelihood"]),
        smoothed_means=(smoothed.means, given["smoothed_means"]),
        smoothed_covs=(smoothed.covs, given["smoothed_covs"]),
    )


@pytest.fixture
def radar():
    """A walker seen from a moving radar: (model, measurements, positions of the radar, F)."""
    F = np.kron([[1.0, 0.1], [0.0, 1.0]], np.eye(2))
    prior = wolf.Gaussian(np.array([4.0, 3.0, -1.0, 0.5]), np.diag([0.5, 0.5, 0.1, 0.1]))
    R = np.array([[0.04, 0.005], [0.005, 0.01]])
    model = wolf.StateSpaceModel(Partial(jnp.matmul, F), polar, 0.01 * np.eye(4), R, prior)
    us = np.column_stack([np.linspace(-1, 0, STEPS), np.linspace(-2, -1, STEPS)])
    ys = wolf.simulate.trajectory(model, STEPS, key=3, inputs=us).measurements
    return model, ys, us, F


@pytest.mark.parametrize("form", FORMS)
def test_ekf_equals_filterpy(form, radar):
    model, ys, us, F = radar
    ekf = ExtendedKalmanFilter(dim_x=4, dim_z=2)
    ekf.x, ekf.P, ekf.F, ekf.Q, ekf.R = *map(np.copy, model.prior), F, model.dynamics_cov, model.obs_cov
    rows = []
    for y, u in zip(ys, us, strict=True):
        ekf.predict()
        ekf.update(y, lambda x, u=u: oracle.polar(0, x, u)[1], lambda x, u=u: oracle.polar(0, x, u)[0])
        rows.append((ekf.x, ekf.P, ekf.x_prior, ekf.P_prior, ekf.log_likelihood))
    expected = oracle.Beliefs(*map(np.array, zip(*rows, strict=True)))
    out = wolf.filter(model, ys, method=wolf.methods.EKF(form=form), inputs=us)
    assert_close(1e-8, **{name: (getattr(out, name), getattr(expected, name)) for name in expected._fields})


@pytest.mark.parametrize("update_first", [False, True])
def test_ekf_with_inputs_and_missing_data_equals_naive_numpy(update_first):
    rng = np.random.default_rng(8)
    Q, R = oracle.random_cov(rng, 2, STEPS, scale=0.01), oracle.random_cov(rng, 1, STEPS, scale=0.1)
    mean, cov, us = np.array([0.5, 0.0]), 0.2 * np.eye(2), rng.normal(size=(STEPS, 1))
    ys = oracle.random_data(9, STEPS, 1, missing=0.3) / 4
    expected = oracle.extended(oracle.pendulum, oracle.sine, Q, R, mean, cov, ys, us, update_first=update_first)
    model = wolf.StateSpaceModel(swing, sine, Q, R, wolf.Gaussian(mean, cov))
    out = wolf.filter(model, ys, method="EKF", inputs=us, update_first=update_first)
    assert_close(1e-10, **{name: (getattr(out, name), getattr(expected, name)) for name in expected._fields})


def test_wolf_on_a_nonlinear_model_equals_ekf_with_divided_noise(radar):
    model, ys, us, F = radar
    ys = ys.copy()
    ys[::7] += 5.0
    out = wolf.filter(model, ys, inputs=us, method="WoLF")
    repeat = [np.broadcast_to(cov, (STEPS, *cov.shape)) for cov in (model.dynamics_cov, model.obs_cov)]
    expected = oracle.extended(lambda t, x, u: (F @ x, F), oracle.polar, *repeat, *model.prior, ys, us, out.weights)
    assert out.weights.min() < 0.3
    assert_close(1e-10, **{name: (getattr(out, name), getattr(expected, name)) for name in expected._fields})


@pytest.mark.parametrize("update_first", [False, True])
@pytest.mark.parametrize(
    "weight",
    [wolf.MahalanobisIMQ(c=2.0), wolf.StudentWeight(), wolf.PerCoordinate(wolf.IMQ(c=1.5))],
    ids=["joint", "above one", "per coordinate"],
)
def test_wolf_equals_kf_with_divided_noise(weight, update_first, us):
    system = oracle.random_system(10, steps=STEPS, controls=2)
    ys = oracle.random_data(11, STEPS, missing=0.2, outliers=0.2)
    out = wolf.filter(wolf.LinearModel(**system), ys, method=wolf.WoLF(weight), inputs=us, update_first=update_first)
    shown = out.weights
    if isinstance(weight, wolf.StudentWeight):  # it may exceed 1, which people are not shown
        count = np.isfinite(ys).sum(1)
        shown = np.where(count > 0, np.sqrt((weight.dof + count) / (weight.dof + np.nan_to_num(out.nis))), 0.0)
        np.testing.assert_allclose(out.weights, np.minimum(shown, 1.0), rtol=1e-10)
    used = np.where(shown == 0, 1.0, shown)  # zero stands for missing, which the oracle deletes
    expected = oracle.kalman(system, ys, us, used, update_first)
    assert out.weights[out.weights > 0].min() < 0.3
    assert_close(1e-10, **{name: (getattr(out, name), getattr(expected, name)) for name in expected._fields})


def test_iekf_on_a_linear_model_equals_kf():
    system = oracle.random_system(12)
    ys = oracle.random_data(13, STEPS)
    model = wolf.LinearModel(**system)
    kf, iekf = (wolf.filter(model, ys, method=name) for name in ("KF", "IEKF"))
    assert_close(1e-12, means=(iekf.means, kf.means), covs=(iekf.covs, kf.covs))


@pytest.mark.parametrize("name", ["IEKF", "WoLF-IEKF"])
def test_iterated_update_is_the_weighted_map(name):
    mean, cov = np.array([0.8, 0.5]), np.array([[0.1, 0.03], [0.03, 0.2]])
    R = np.array([[0.2, 0.05], [0.05, 0.3]])
    model = wolf.StateSpaceModel(None, bend, 0 * cov, R, wolf.Gaussian(mean, cov))
    for y in np.array([[1.5, 0.8], [2.5, -1.0], [6.0, 2.0]]):
        once = wolf.filter(model, y[None], method=name.replace("WoLF-IEKF", "WoLF").replace("IEKF", "EKF"))
        out = wolf.filter(model, y[None], method=wolf.methods.make(name, iterations=15))
        best = minimise(mean, cov, R, y, power=once.weights[0] ** 2)
        np.testing.assert_array_equal(out.weights, once.weights)
        np.testing.assert_allclose(out.means[0], best, atol=1e-5)
        assert np.abs(once.means[0] - best).max() > 1e-4


def minimise(mean, cov, R, y, power):
    """Find the mode of the prior times the likelihood of `bend` to a power."""

    def cost(x):
        gap, error = x - mean, y - np.array([x[0] + 0.3 * x[0] ** 3, x[0] * x[1]])
        return gap @ np.linalg.solve(cov, gap) + power * error @ np.linalg.solve(R, error)

    return minimize(cost, mean, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-14, "maxiter": 4000}).x
