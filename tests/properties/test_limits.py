"""Limits: where a method must turn into another one."""

import jax.numpy as jnp
import numpy as np
import pytest

import wolf
from wolf.inference.noise import Weighted
from wolf.inference.weights import Weight
from wolf.numerics.pytree import pytree

FAMILIES = [wolf.MahalanobisIMQ, wolf.MahalanobisThreshold, wolf.Welsch, wolf.Tukey, wolf.Huber, wolf.IMQ]
FORMS = ("joseph", "symmetric", "sqrt")
ARRAYS = ("means", "covs", "predicted_means", "predicted_covs", "residuals", "innovation_covs", "nis", "log_liks")


@pytest.fixture
def ys(rng):
    ys = 10 * rng.standard_t(2, (60, 2))
    ys[7], ys[9, 0] = np.nan, np.nan
    return ys


def assert_same(one, other, tolerance=1e-12, names=ARRAYS):
    for name in names:
        a, b = getattr(one, name), getattr(other, name)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.nanmax(np.abs(b)), err_msg=name)


def grouped(weight):
    return wolf.PerGroup(weight, (0, 0))


@pytest.mark.parametrize(
    ("family", "wrap"),
    [(family, lambda w: w) for family in FAMILIES]
    + [(family, wrap) for family in (wolf.IMQ, wolf.Huber) for wrap in (wolf.PerCoordinate, grouped)],
)
def test_wolf_with_infinite_c_is_kf(family, wrap, tracking, ys):
    kalman = wolf.filter(tracking, ys, method="KF")
    for c in (1e9, 1e30, 1e200, np.inf):
        out = wolf.filter(tracking, ys, method=wolf.WoLF(wrap(family(c))))
        assert_same(out, kalman, names=(*ARRAYS, "weighted_log_liks"))
        assert not out.outliers.any()


@pytest.mark.parametrize("dof", [1e18, 1e290, np.inf])
def test_wolf_with_infinite_degrees_of_freedom_is_kf(dof, tracking, ys):
    out = wolf.filter(tracking, ys, method=wolf.WoLF(wolf.StudentWeight(dof)))
    assert_same(out, wolf.filter(tracking, ys, method="KF"))


@pytest.mark.parametrize("family", FAMILIES)
def test_wolf_with_vanishing_c_returns_the_prediction(family, tracking, ys):
    for c in (1e-12, 1e-60, 1e-300):
        out = wolf.filter(tracking, ys, method=wolf.WoLF(family(c)))
        np.testing.assert_allclose(out.means, out.predicted_means, atol=1e-4)


@pytest.mark.parametrize("method", ["EKF", "IEKF", wolf.WoLF(wolf.Unweighted())])
def test_on_a_linear_model_every_unweighted_method_is_kf(method, tracking, ys):
    assert_same(wolf.filter(tracking, ys, method=method), wolf.filter(tracking, ys, method="KF"))


@pytest.mark.parametrize("method", ["EKF", "IEKF", "WoLF", "WoLF-IEKF"])
def test_linear_functions_are_filtered_as_their_matrices(method, tracking, ys):
    functions = wolf.StateSpaceModel(
        lambda x: jnp.asarray(tracking.F, x.dtype) @ x,
        lambda x: jnp.asarray(tracking.H, x.dtype) @ x,
        tracking.Q,
        tracking.R,
        tracking.prior,
    )
    matrices = {"EKF": "KF", "IEKF": "KF"}.get(method, "WoLF")
    assert_same(wolf.filter(functions, ys, method=method), wolf.filter(tracking, ys, method=matrices))


WEIGHTED = [name for name in wolf.methods.names() if isinstance(wolf.methods.make(name).noise, Weighted)]


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in WEIGHTED if not name.endswith(("UKF", "CKF", "GHKF"))])
def test_zero_residual_leaves_the_mean_and_has_the_top_weight(name, tracking):
    out = wolf.filter(tracking, np.zeros((5, 2)), method=name)  # the prior mean is zero
    assert (out.means == 0).all()
    np.testing.assert_allclose(out.weights, 1.0, rtol=1e-15)


@pytest.mark.parametrize("method", ["KF", "WoLF", wolf.KF(form="sqrt")])
def test_identity_dynamics_need_no_matrix(method, ys):
    eye = np.eye(3)
    models = [wolf.LinearModel(F, eye[:2], 0.1 * eye, np.eye(2), np.ones(3), eye) for F in (None, eye)]
    assert_same(*(wolf.filter(model, ys, method=method) for model in models))


SEASON = wolf.models.structural(wolf.models.level(0.1), wolf.models.seasonal(9, 0.1), obs_var=10.0)
TRACK = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)


@pytest.mark.parametrize(
    ("make", "model"), [(wolf.KF, TRACK), (wolf.WoLF, TRACK), (wolf.WoLF, SEASON)], ids=["KF", "WoLF", "9 states"]
)
def test_numerical_forms_agree_when_the_problem_is_benign(make, model, rng):
    model = wolf.LinearModel(model.F, model.H, model.Q, model.R, model.mean, np.eye(model.state_dim))
    ys = 10 * rng.standard_t(2, (60, model.obs_dim))
    joseph, symmetric, root = (wolf.filter(model, ys, method=make(form=form)) for form in FORMS)
    assert_same(symmetric, joseph, 1e-10)
    assert_same(root, joseph, 1e-10)


@pytest.mark.parametrize("weight", [wolf.PerCoordinate(wolf.IMQ(0.5)), wolf.MahalanobisThreshold(1.0)])
def test_forms_agree_when_weights_vanish(weight, tracking, ys):
    joseph, symmetric, root = (wolf.filter(tracking, ys, method=wolf.WoLF(weight, form=form)) for form in FORMS)
    assert_same(symmetric, joseph, 1e-10)
    assert_same(root, joseph, 1e-10)


@pytest.mark.bits
def test_zero_weight_returns_the_prediction_bit_for_bit(tracking, ys):
    class Never(Weight):
        def __call__(self, residual, obs_cov, innovation_cov, observed=None):
            return jnp.zeros(residual.shape[1:], residual.dtype)

    out = wolf.filter(tracking, ys, method=wolf.WoLF(pytree(Never)()))
    np.testing.assert_array_equal(out.means, out.predicted_means)
    np.testing.assert_allclose(out.covs, out.predicted_covs, rtol=1e-15)


def test_time_axis_of_equal_matrices_changes_nothing(tracking, ys):
    varying = wolf.LinearModel(
        *(np.stack([a] * len(ys)) for a in (tracking.F, tracking.H, tracking.Q, tracking.R)),
        tracking.mean,
        tracking.cov,
    )
    assert_same(wolf.filter(varying, ys), wolf.filter(tracking, ys))


def test_without_noise_in_the_state_and_a_sure_prior_nothing_is_learned(ys):
    eye = np.eye(2)
    model = wolf.LinearModel(None, eye, 0 * eye, eye, np.ones(2), 0 * eye)
    for form in FORMS:
        out = wolf.filter(model, ys, method=wolf.KF(form=form))
        assert (out.means == 1).all()
        assert (out.covs == 0).all()
