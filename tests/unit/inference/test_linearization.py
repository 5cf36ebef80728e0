"""Sigma-point views against the KF, against filterpy, and against the moments that define them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from filterpy.kalman import CubatureKalmanFilter, JulierSigmaPoints, UnscentedKalmanFilter

import wolf
from wolf.inference.linearization import Automatic, Cubature, GaussHermite, Taylor, Unscented
from wolf.statespace import Bound

DT = 0.1
SIGMA = ("UKF", "CKF", "GHKF")


def straight(x):
    return jnp.stack([x[0] + DT * x[2], x[1] + DT * x[3], x[2], x[3]])


def first_two(x):
    return x[:2]


def bend(x):
    return jnp.stack([x[0] + DT * jnp.sin(x[1]), 0.95 * x[1] + DT * x[0] ** 2 / (1 + x[0] ** 2)])


def look(x):
    return jnp.stack([jnp.sqrt(1 + x[0] ** 2 + x[1] ** 2)])


def numpy_look(x):
    return np.asarray(look(x), np.float64)


def numpy_bend(x, dt):
    return np.asarray(bend(x), np.float64)


@pytest.fixture
def bending():
    prior = wolf.Gaussian(np.array([0.5, 1.0]), np.diag([0.5, 0.3]))
    return wolf.StateSpaceModel(bend, look, 0.05 * np.eye(2), 0.2 * np.eye(1), prior)


@pytest.mark.thorough
@pytest.mark.parametrize("name", SIGMA)
@pytest.mark.parametrize("prefix", [pytest.param("", marks=pytest.mark.slow), "WoLF-"])
def test_sigma_points_on_linear_functions_equal_the_linear_filter(name, prefix, tracking, dirty):
    functions = wolf.StateSpaceModel(straight, first_two, tracking.Q, tracking.R, tracking.prior)
    expected = wolf.filter(tracking, dirty.measurements, method="WoLF" if prefix else "KF")
    for form in ("joseph", "sqrt"):
        method = wolf.methods.make(prefix + name, form=form)
        out = wolf.filter(functions, dirty.measurements, method=method)
        np.testing.assert_allclose(out.means, expected.means, atol=1e-10)
        np.testing.assert_allclose(out.covs, expected.covs, atol=1e-10)


def prepare(kf, model):
    kf.x, kf.P, kf.Q, kf.R = model.prior.mean.copy(), model.prior.cov.copy(), model.dynamics_cov, model.obs_cov
    return kf


def test_ukf_equals_filterpy_when_its_points_are_redrawn(bending):
    """filterpy reuses the points of the prediction in the update; one step from a fresh belief has no such choice."""
    points = JulierSigmaPoints(2, kappa=1.0)
    kf = UnscentedKalmanFilter(
        2, 1, DT, hx=lambda x: np.asarray(look(x)), fx=lambda x, dt: np.asarray(bend(x)), points=points
    )
    kf = prepare(kf, bending)
    kf.predict()
    still = wolf.StateSpaceModel(None, look, np.zeros((2, 2)), bending.obs_cov, wolf.Gaussian(kf.x.copy(), kf.P.copy()))
    kf.sigmas_f = points.sigma_points(kf.x, kf.P)
    kf.update(np.array([1.7]))
    out = wolf.filter(still, [1.7], method=wolf.methods.make("UKF"))
    np.testing.assert_allclose(out.means[0], kf.x, atol=1e-6)  # x64 is off inside filterpy's calls of look
    np.testing.assert_allclose(out.covs[0], kf.P, atol=1e-6)
    moved = wolf.filter(bending, [np.nan], method="UKF")
    np.testing.assert_allclose(moved.means[0], still.prior.mean, atol=1e-6)
    np.testing.assert_allclose(moved.covs[0], still.prior.cov, atol=1e-6)


def test_ckf_prediction_equals_filterpy(bending):
    kf = prepare(CubatureKalmanFilter(2, 1, DT, hx=numpy_look, fx=numpy_bend), bending)
    kf.predict()
    moved = wolf.filter(bending, [np.nan], method="CKF")
    np.testing.assert_allclose(moved.means[0], np.ravel(kf.x), atol=1e-6)
    np.testing.assert_allclose(moved.covs[0], kf.P, atol=1e-6)


def test_gauss_hermite_has_the_exact_moments_of_a_polynomial(x64):
    """For x ~ N(m, s²): E x² = m² + s², Var x² = 4 m² s² + 2 s⁴, Cov(x, x²) = 2 m s²."""
    m, s = 0.7, 0.9
    view = GaussHermite(order=3)(Bound(lambda x: x**2), wolf.Gaussian(jnp.array([m]), jnp.array([[s**2]])))
    total = view.jac**2 * s**2 + (view.root**2).sum()
    np.testing.assert_allclose(view.mean[0], m**2 + s**2, rtol=1e-12)
    np.testing.assert_allclose(total[0, 0], 4 * m**2 * s**2 + 2 * s**4, rtol=1e-12)
    np.testing.assert_allclose(view.jac[0, 0] * s**2, 2 * m * s**2, rtol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "rule", [Unscented(), Unscented(alpha=1.0, beta=2.0, kappa=1.0), Cubature(), GaussHermite(order=5)]
)
def test_leftover_covariance_is_what_the_line_does_not_explain(rule, x64, rng):
    """mean, cross and total covariance equal the plain weighted sums over the points."""
    root = np.tril(rng.normal(size=(2, 2))) + 2 * np.eye(2)
    belief = wolf.Gaussian(jnp.asarray(rng.normal(size=2)), jnp.asarray(root @ root.T))
    view = rule(Bound(bend), belief)
    draws = np.asarray(belief.mean) + rng.normal(size=(400_000, 2)) @ np.linalg.cholesky(belief.cov).T
    values = np.asarray(jax.vmap(bend)(jnp.asarray(draws)))
    total = np.asarray(view.jac @ belief.cov @ view.jac.T + view.root @ view.root.T)
    assert np.all(np.linalg.eigvalsh(view.root @ view.root.T) > -1e-15)
    np.testing.assert_allclose(view.mean, values.mean(0), atol=0.05)
    np.testing.assert_allclose(np.diag(total), values.var(0), rtol=0.25)


def test_square_roots_carry_what_a_line_leaves_over():
    prior = wolf.Gaussian(np.array([0.5, 1.0]), np.diag([0.5, 2.0]))
    model = wolf.StateSpaceModel(bend, look, 0.01 * np.eye(2), 0.1 * np.eye(1), prior)
    ys = np.linspace(1.0, 2.0, 5)
    plain, root = (wolf.filter(model, ys, method=wolf.methods.make("UKF", form=form)) for form in ("joseph", "sqrt"))
    np.testing.assert_allclose(root.means, plain.means, rtol=1e-10)
    np.testing.assert_allclose(root.predicted_covs, plain.predicted_covs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_beta_is_extra_weight_of_the_centre_in_the_covariance(beta, x64):
    """For x² under N(0, 1) the points have variance 2, and the centre is 1 away from their mean."""
    view = Unscented(alpha=1.0, beta=beta, kappa=2.0)(Bound(lambda x: x**2), wolf.Gaussian(jnp.zeros(1), jnp.eye(1)))
    np.testing.assert_allclose(view.root @ view.root.T, [[2.0 + beta]], rtol=1e-12)


def test_singular_beliefs_have_no_slope_where_they_have_no_spread(x64):
    belief = wolf.Gaussian(jnp.array([0.5, 1.0]), jnp.diag(jnp.array([0.5, 0.0])))
    view = Unscented()(Bound(bend), belief)
    assert np.all(np.isfinite(view.jac))
    np.testing.assert_array_equal(view.jac[:, 1], 0.0)


def test_negative_weights_are_refused(bending):
    with pytest.raises(ValueError, match="negative weight"):
        wolf.filter(
            bending, [1.0], method=wolf.methods.make("UKF", linearization=Unscented(alpha=1e-3, beta=2.0, kappa=0.0))
        )


def test_grids_that_are_too_large_are_refused():
    model = wolf.StateSpaceModel(None, first_two, np.eye(12), np.eye(2), wolf.Gaussian(np.zeros(12), np.eye(12)))
    with pytest.raises(ValueError, match="too many"):
        wolf.filter(model, np.zeros((3, 2)), method="GHKF")


@pytest.mark.parametrize("name", ["EKF", "UKF", "CKF", "WoLF-UKF"])
def test_bearings_that_cross_the_wrap_keep_the_filter_consistent(name):
    """A track that circles the sensor: NIS stays near M only if angles are averaged and subtracted on the circle."""
    prior = wolf.Gaussian(np.array([-8.0, 0.5, 0.0, -0.5]), 0.1 * np.eye(4))
    model = wolf.models.range_bearing(0.5, 0.01, 0.1, 1e-3, prior)
    data = wolf.simulate.trajectory(model, 300, key=3)
    assert np.ptp(data.measurements[:, 1]) > 6.0  # both ends of [-π, π) are visited
    out = wolf.filter(model, data.measurements, method=name)
    assert 1.6 < np.nanmean(out.nis) < 2.5


@pytest.mark.parametrize("name", SIGMA)
def test_many_series_equal_one_by_one(name, bending):
    ys = np.stack([wolf.simulate.trajectory(bending, 40, key=k).measurements for k in range(3)])
    many = wolf.filter_many(bending, ys, method=name)
    for i, one in enumerate(ys):
        np.testing.assert_allclose(many[i].means, wolf.filter(bending, one, method=name).means, atol=1e-9)


@pytest.mark.parametrize("together", [False, True])
def test_automatic_moments_are_points_where_they_have_values_and_tangents_where_not(together, x64):
    """The logarithm of a number that may be negative: at one of the points it is no number."""
    log = Bound(lambda x: jnp.stack([jnp.log(x[0]) + x[1]]))
    mean = np.array([1.0, 2.0])
    beliefs = [wolf.Gaussian(jnp.asarray(mean), jnp.diag(jnp.array([spread, 0.5]))) for spread in (0.01, 4.0)]
    wanted = [Unscented()(log, beliefs[0]), Taylor()(log, beliefs[1])]
    assert not np.isfinite(Unscented()(log, beliefs[1]).mean).all()
    if together:
        both = wolf.Gaussian(*(jnp.stack(part, -1) for part in zip(*beliefs, strict=True)))
        seen = Automatic()(log, both)
        found = [jax.tree.map(lambda part, i=i: part[..., i], seen) for i in range(2)]
    else:
        found = [Automatic()(log, belief) for belief in beliefs]
    for each, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(each.mean, other.mean, rtol=1e-12)
        np.testing.assert_allclose(each.jac, other.jac, rtol=1e-12)
    assert (np.asarray(found[0].root) != 0).any()
    assert (np.asarray(found[1].root) == 0).all()


def test_a_measurement_beyond_the_domain_of_a_point_is_not_lost():
    prior = wolf.Gaussian(np.ones(1), 0.5 * np.eye(1))
    model = wolf.StateSpaceModel(lambda x: 0.99 * x, jnp.log, 0.01 * np.eye(1), 0.1 * np.eye(1), prior)
    ys = 0.3 * np.random.default_rng(0).normal(size=(50, 1))
    by_points = wolf.filter(model, ys, method=wolf.Adaptive(linearization=Unscented()))
    assert (by_points.weights == 0).all()  # what Automatic is for
    out, tangents = wolf.filter(model, ys, method="Adaptive"), wolf.filter(model, ys, method="EKF")
    assert (out.weights > 0).all()
    assert np.abs(out.means - tangents.means).max() < 0.2


def test_many_states_are_seen_by_tangents():
    line = Bound(lambda x: jnp.stack([(x**3).sum()]))
    belief = wolf.Gaussian(jnp.ones(17), jnp.eye(17))
    assert Automatic()(line, belief).root is None
    np.testing.assert_allclose(Automatic()(line, belief).jac, Taylor()(line, belief).jac)
