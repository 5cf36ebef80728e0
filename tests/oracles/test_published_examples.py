"""Examples that other libraries publish, ported: the same model, the same numbers.

filterpy and statsmodels run beside; results of dynamax and DAPPER are in `tests/fixtures/published.npz`.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from filterpy.kalman import ExtendedKalmanFilter
from statsmodels.datasets import nile
from statsmodels.tsa.statespace.structural import UnobservedComponents

import wolf

PUBLISHED = np.load(Path(__file__).parents[1] / "fixtures" / "published.npz")
DT = 0.05


def slant_range(x):
    return jnp.sqrt(x[:1] ** 2 + x[2:] ** 2)


def fly(x):
    return jnp.stack([x[0] + DT * x[1], x[1], x[2]])


def test_the_radar_of_the_book_of_filterpy():
    """Labbe, Kalman and Bayesian Filters in Python, chapter 11: an aircraft seen by the slant range of a radar."""
    rng = np.random.default_rng(0)
    positions = 100.0 * DT * np.arange(1, 81)
    ranges = np.hypot(positions + rng.normal(0, 5.0, 80).cumsum() * DT, 1000.0) + rng.normal(0, 5.0, 80)
    noise = np.zeros((3, 3))
    noise[:2, :2] = 0.1 * np.array([[DT**3 / 3, DT**2 / 2], [DT**2 / 2, DT]])
    noise[2, 2] = 0.1
    rk = ExtendedKalmanFilter(dim_x=3, dim_z=1)
    rk.x, rk.P, rk.R, rk.Q = np.array([-100.0, 200.0, 2000.0]), 50.0 * np.eye(3), np.array([[25.0]]), noise
    rk.F = np.eye(3) + np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]]) * DT
    theirs = []
    for z in ranges:
        rk.predict()
        rk.update(
            np.array([z]),
            lambda x: np.array([[x[0], 0.0, x[2]]]) / np.hypot(x[0], x[2]),
            lambda x: np.array([np.hypot(x[0], x[2])]),
        )
        theirs.append(rk.x.copy())
    prior = wolf.Gaussian([-100.0, 200.0, 2000.0], 50.0 * np.eye(3))
    model = wolf.StateSpaceModel(fly, slant_range, noise, [[25.0]], prior)
    out = wolf.filter(model, ranges, method="EKF")
    np.testing.assert_allclose(out.means, theirs, rtol=1e-9)
    np.testing.assert_allclose(out.covs[-1], rk.P, rtol=1e-7, atol=1e-9)


def test_the_nile_of_statsmodels():
    """The local level of the Nile (Durbin & Koopman 2012, section 2.2; the state space notebooks of statsmodels)."""
    flow = nile.load_pandas().data["volume"].to_numpy(float)
    theirs = UnobservedComponents(flow, "llevel").smooth([15099.0, 1469.1])
    level = wolf.LinearModel(None, [[1.0]], [[1469.1]], [[15099.0]], [0.0], [[1e6]])
    out = wolf.filter(level, flow, method="KF", update_first=True)
    smoothed = wolf.smooth(out)
    np.testing.assert_allclose(smoothed.means[:, 0], theirs.smoothed_state[0], rtol=2e-3)
    np.testing.assert_allclose(out.means[10:, 0], theirs.filtered_state[0, 10:], rtol=1e-3)
    ahead = wolf.forecast(out, 10)
    predicted = theirs.get_forecast(10)
    np.testing.assert_allclose(ahead.obs_means[:, 0], predicted.predicted_mean, rtol=1e-6)
    np.testing.assert_allclose(ahead.obs_covs[:, 0, 0], predicted.var_pred_mean, rtol=1e-6)
    fitted = wolf.fit(wolf.models.local_level, flow).parameters
    assert fitted["obs_var"] == pytest.approx(15099.0, rel=0.1)
    assert fitted["level_var"] == pytest.approx(1469.1, rel=0.25)


def test_the_track_of_dynamax():
    """The notebook "Tracking an object using the Kalman filter"; Murphy (2023), section 8.2.2.4."""
    given = {name.removeprefix("dynamax_"): PUBLISHED[name] for name in PUBLISHED if name.startswith("dynamax_")}
    F = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1]])
    model = wolf.LinearModel(F, np.eye(2, 4), 0.001 * np.eye(4), np.eye(2), [8.0, 10.0, 1.0, 0.0], 0.1 * np.eye(4))
    out = wolf.filter(model, given["ys"], method="KF", update_first=True)
    smoothed = wolf.smooth(out)
    np.testing.assert_allclose(out.means, given["means"], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(out.covs, given["covs"], rtol=1e-8, atol=1e-10)
    assert out.log_likelihood == pytest.approx(float(given["log_likelihood"]), rel=1e-9)
    # dynamax adds 1e-9 to the diagonal of what it inverts.
    np.testing.assert_allclose(smoothed.means, given["smoothed_means"], rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(smoothed.covs, given["smoothed_covs"], rtol=1e-5, atol=1e-7)


def test_the_ensemble_transform_of_dapper_on_lorenz63(x64):
    """`mods/Lorenz63/sakov2012.py`: every member after every cycle."""
    method = wolf.methods.make("ETKF", num_members=10, inflation=1.0)
    model = wolf.models.lorenz63()
    start = wolf.init(model, method, jax.random.key(0))._replace(members=jnp.asarray(PUBLISHED["dapper_first"]))
    _, members = wolf.run_filter(
        model, PUBLISHED["dapper_ys"], method, key=0, state=start, save=lambda state, info: state.members
    )
    np.testing.assert_allclose(members, PUBLISHED["dapper_members"], rtol=1e-6, atol=1e-6)
