"""The weighted update: R / w² for every positive weight, the prediction at zero, finite gradients everywhere."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import multivariate_normal, norm
from tests import oracle
from tests.oracle import assert_close
from tests.rows import PARTS

import wolf
from wolf.beliefs import Affine, Gaussian, SqrtGaussian
from wolf.beliefs.updates import WeightedUpdate
from wolf.inference.noise import Weighted
from wolf.numerics import linalg
from wolf.numerics.jax_compat import enable_x64
from wolf.numerics.pytree import cast

D, M, K = 3, 2, 3
FORMS = ("joseph", "symmetric", "sqrt")
RANKS = {"joint": (), "per coordinate": (M,)}


def numbers(*shape, low=-2.0, high=2.0):
    return arrays(np.float64, shape, elements=st.floats(low, high, allow_subnormal=False))


def covs(size):
    return numbers(size, size).map(lambda a: a @ a.T + 0.5 * np.eye(size))


def powers(shape):
    return numbers(*shape, low=0.05, high=1.5)


settings = {
    "mean": numbers(D),
    "cov": covs(D),
    "jac": numbers(M, D),
    "error": numbers(M, low=-9.0, high=9.0),
    "R": covs(M),
}


@partial(jax.jit, static_argnames="form")
def _condition(form, mean, cov, view, error, R, update):
    belief = SqrtGaussian(mean, jnp.linalg.cholesky(cov)) if form == "sqrt" else Gaussian(mean, cov)
    posterior, log_lik = update.apply(belief, view, error, R, form)
    return posterior.mean, posterior.cov, log_lik


def condition(form, mean, cov, jac, error, R, weight, *, root=None, spread=None):
    with enable_x64(True):
        view = Affine(np.zeros(M), jac, root)
        return map(np.asarray, _condition(form, mean, cov, view, error, R, WeightedUpdate(np.asarray(weight), spread)))


def textbook(mean, cov, jac, error, noise):
    gain = cov @ jac.T @ np.linalg.inv(jac @ cov @ jac.T + noise)
    return mean + gain @ error, cov - gain @ jac @ cov


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rank", RANKS)
@given(data=st.data())
def test_weighted_update_divides_noise_by_squared_weight(rank, form, data):
    given = {name: data.draw(values) for name, values in settings.items()}
    weight = data.draw(powers(RANKS[rank]))
    w = np.broadcast_to(weight, M)
    mean, cov, log_lik = condition(form, *given.values(), weight)
    noise = given.pop("R") / np.outer(w, w)
    expected = textbook(**given, noise=noise)
    weighted_cov = np.outer(w, w) * (given["jac"] @ given["cov"] @ given["jac"].T + noise)
    assert_close(1e-10, mean=(mean, expected[0]), cov=(cov, expected[1]))
    assert_close(1e-10, log_lik=(log_lik, multivariate_normal.logpdf(w * given["error"], cov=weighted_cov)))


@pytest.mark.parametrize("form", FORMS)
@given(root=numbers(M, K), weight=powers((M,)), **settings)
def test_what_a_straight_line_leaves_out_is_noise_that_weights_do_not_change(form, root, weight, **given):
    mean, cov, _ = condition(form, *given.values(), weight, root=root)
    noise = given.pop("R") / np.outer(weight, weight) + root @ root.T
    expected = textbook(**given, noise=noise)
    assert_close(1e-10, mean=(mean, expected[0]), cov=(cov, expected[1]))


@pytest.mark.parametrize("form", FORMS)
@given(weight=powers((M, M)), **settings)
def test_matrix_weight_is_an_information_matrix(form, weight, **given):
    mean, cov, _ = condition(form, *given.values(), weight)
    info = given["jac"].T @ weight.T @ weight
    expected_cov = np.linalg.inv(np.linalg.inv(given["cov"]) + info @ given["jac"])
    expected_mean = given["mean"] + expected_cov @ info @ given["error"]
    assert_close(1e-9, mean=(mean, expected_mean), cov=(cov, expected_cov))


@pytest.mark.parametrize("form", FORMS)
@given(shares=numbers(K, low=0.05, high=1.0), scales=numbers(K, low=0.5, high=50.0), **settings)
def test_believed_reproduces_the_exact_moments_of_a_gaussian_scale_mixture(form, shares, scales, **given):
    mean, cov, jac, error, R = given.values()
    shares = shares / shares.sum()
    expected_mean, expected_cov, gamma = mixture(mean, cov, jac, error, R, shares, scales)

    lower = np.linalg.cholesky(R)
    white_cov = np.linalg.solve(lower, np.linalg.solve(lower, jac @ cov @ jac.T).T)
    delta, vectors = np.linalg.eigh(white_cov)
    V = vectors.T @ np.linalg.inv(lower)
    pulls = (V @ error)[:, None] / (delta[:, None] + scales)  # u_k in the basis V, (M, K)
    a = (gamma / (delta[:, None] + scales)).sum(1)
    weight = np.sqrt(a / (1 - a * delta))[:, None] * V
    spread = cov @ jac.T @ V.T @ (np.sqrt(gamma) * (pulls - pulls @ gamma[:, None]))

    got_mean, got_cov, _ = condition(form, *given.values(), weight, spread=spread)
    assert_close(1e-10, mean=(got_mean, expected_mean), cov=(got_cov, expected_cov))


def mixture(mean, cov, jac, error, R, shares, scales):
    """Condition on each scale of the noise in turn, and take the moments of the mixture of the posteriors."""
    log_gamma = [multivariate_normal.logpdf(error, cov=jac @ cov @ jac.T + s * R) for s in scales] + np.log(shares)
    gamma = np.exp(log_gamma - np.logaddexp.reduce(log_gamma))
    each = [textbook(mean, cov, jac, error, s * R) for s in scales]
    center = sum(g * m for g, (m, _) in zip(gamma, each, strict=True))
    total = sum(g * (P + np.outer(m - center, m - center)) for g, (m, P) in zip(gamma, each, strict=True))
    return center, total, gamma


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rank", RANKS)
@given(data=st.data())
def test_zero_weight_returns_the_prediction(rank, form, data):
    given = {name: data.draw(values) for name, values in settings.items()}
    mean, cov, _ = condition(form, *given.values(), np.zeros(RANKS[rank]))
    np.testing.assert_array_equal(mean, given["mean"])
    # a root is taken and multiplied out again; without one only subnormal numbers are flushed
    np.testing.assert_allclose(cov, given["cov"], rtol=0, atol=1e-13 if form == "sqrt" else 1e-300)


@partial(jax.jit, static_argnames="form")
def gradients(form, *at):
    def moments(weight, mean, cov, jac, error, R):
        new_mean, new_cov, _ = _condition(form, mean, cov, Affine(np.zeros(M), jac), error, R, WeightedUpdate(weight))
        return new_mean.sum() + new_cov.sum()

    return jax.grad(moments, argnums=range(6))(*at)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("weight", [np.zeros(()), np.zeros(M), np.array([0.0, 1.0])], ids=["joint", "none", "one"])
@pytest.mark.parametrize("error", [np.zeros(M), np.array([1.0, -2.0]), np.array([1e150, 0.0])], ids=str)
def test_gradient_of_the_update_is_finite_at_zero_weight(error, weight, form, x64, rng):
    at = (np.zeros(D), oracle.random_cov(rng, D), rng.normal(size=(M, D)), error, oracle.random_cov(rng, M))
    assert all(np.isfinite(g).all() for g in gradients(form, weight, *at))


def test_gradient_at_zero_weight_equals_the_limit(x64):
    """m and P depend on w²: at w = 0 their slope is 0, and their curvature is that of the information form."""
    rng = np.random.default_rng(1)
    cov, R, jac, error = (
        oracle.random_cov(rng, D),
        oracle.random_cov(rng, M),
        rng.normal(size=(M, D)),
        rng.normal(size=M),
    )

    def mean(weight):
        view = Affine(np.zeros(M), jac)
        return _condition("joseph", np.zeros(D), cov, view, error, R, WeightedUpdate(weight))[0]

    slope, curvature = jax.jit(lambda w: (jax.jacfwd(mean)(w), jax.jacfwd(jax.jacfwd(mean))(w)))(0.0)
    assert_close(1e-12, slope=(slope, np.zeros(D)), curvature=(curvature, 2 * cov @ jac.T @ np.linalg.solve(R, error)))


def hard_data():
    """Rows that are missing, partly missing, infinite, huge, and exactly as predicted."""
    ys = oracle.random_data(2, 9)
    ys[0] = 0.0
    ys[2], ys[3, 1], ys[4, 0], ys[5], ys[6, 1] = np.nan, np.nan, np.inf, 1e300, 1e100
    return ys


def hard_model():
    return wolf.LinearModel(**oracle.random_system(3, states=2) | {"mean": np.zeros(2)})


@jax.jit
@partial(jax.grad, argnums=(0, 1))
def slope(model, method, ys):
    _, saved = wolf.run_filter(model, ys, method)
    return sum(saved[name].sum() for name in ("means", "covs", "weights", "weighted_log_liks"))


ALIKE = {"EKF", "WoLF-MD", "UKF", "CKF", "GHKF", "WoLF-CKF", "WoLF-GHKF"}  # compute what others here compute


WEIGHTED = {name for name in wolf.methods.names() if isinstance(wolf.methods.make(name).noise, Weighted)}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", sorted(WEIGHTED - ALIKE - PARTS)
)  # for those parts: tests/properties/test_registry_contract.py
def test_gradient_of_a_whole_run_is_finite(name, x64):
    slopes = slope(cast(hard_model(), float), cast(wolf.methods.make(name), float), hard_data())
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))


@pytest.mark.thorough
def test_gradient_of_a_whole_run_is_finite_and_the_same_in_every_form(x64):
    joseph, symmetric, sqrt = (slope(cast(hard_model(), float), wolf.WoLF(form=form), hard_data())[0] for form in FORMS)
    for name in ("F", "H", "mean"):  # of a covariance the forms may read the two triangles differently
        expected = getattr(joseph, name)
        assert np.isfinite(expected).all()
        assert_close(1e-8, symmetric=(getattr(symmetric, name), expected), sqrt=(getattr(sqrt, name), expected))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((symmetric, sqrt)))


def test_gradient_of_the_log_likelihood_equals_finite_differences(x64):
    model, method, ys = cast(hard_model(), float), wolf.WoLF(), hard_data()

    @jax.jit
    def log_lik(log_scale):
        scaled = jax.tree.map(lambda x: x, model)
        object.__setattr__(scaled, "Q", jnp.exp(log_scale) * model.Q)
        return wolf.run_filter(scaled, ys[:4], method)[1]["log_liks"].sum()

    step = 1e-5
    difference = (log_lik(step) - log_lik(-step)) / (2 * step)
    np.testing.assert_allclose(jax.grad(log_lik)(0.0), difference, rtol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_huge_prior_against_tiny_noise_keeps_the_noise(form, x64):
    """The short form P - K S Kᵀ cancels to zero here; 1 / (1 / P + 1 / R) does not."""
    cov, R = np.array([[1e10]]), np.array([[1e-14]])
    belief = SqrtGaussian(np.zeros(1), np.sqrt(cov)) if form == "sqrt" else Gaussian(np.zeros(1), cov)
    view = Affine(np.zeros(1), np.ones((1, 1)))
    posterior, _ = WeightedUpdate(np.ones(())).apply(belief, view, np.ones(1), R, form)
    expected = 1 / (1 / cov + 1 / R)
    if form == "symmetric":  # the fast form is for large states and promises no more than rounding of P
        np.testing.assert_allclose(posterior.cov, expected, atol=1e-15 * cov[0, 0])
    else:
        np.testing.assert_allclose(posterior.cov, expected, rtol=1e-9)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("states", [4, 10])
def test_filter_does_not_depend_on_units(states, form):
    """Kilometres for half of the states, micrometres for the others: only rounding may change."""
    system, units = oracle.random_system(6, states=states), np.where(np.arange(states) % 2, 1e6, 1e-3)
    ys = oracle.random_data(7, 9, outliers=0.2)
    models = [wolf.LinearModel(**each) for each in (system, oracle.in_units(system, units))]
    usual, other = (wolf.filter(model, ys, method=wolf.WoLF(form=form)) for model in models)
    covs = other.covs / np.outer(units, units)
    assert_close(1e-9, weights=(other.weights, usual.weights), log_liks=(other.log_liks, usual.log_liks))
    assert_close(1e-9, means=(other.means / units, usual.means), covs=(covs, usual.covs))


def test_roots_of_large_matrices_have_positive_pivots(rng, x64):
    """LAPACK's QR leaves signs to chance; solving with such a root floors its pivots, which must not be negative."""
    half = rng.normal(size=(12, 12))
    root = np.asarray(linalg.psd_root(half @ half.T))
    np.testing.assert_allclose(root @ root.T, half @ half.T, atol=1e-10)
    np.testing.assert_array_equal(root, np.tril(root))
    assert (np.diag(root) > 0).all()


def test_weighted_evidence_is_the_integral_of_the_powered_likelihood():
    """`log ∫ p(y|x)^{w²} p(x) dx`, by quadrature, for a measurement that is half believed."""
    level = wolf.models.local_level(level_var=0.5, obs_var=2.0, prior=wolf.Gaussian([0.0], [[1.0]]))
    out = wolf.filter(level, [4.0], method=wolf.WoLF(wolf.IMQ(c=2.0)))
    assert 0.3 < out.weights[0] < 0.7
    x = np.linspace(-15.0, 15.0, 20_001)
    density = norm.pdf(4.0, x, np.sqrt(2.0)) ** out.weights[0] ** 2 * norm.pdf(x, 0.0, np.sqrt(1.5))
    np.testing.assert_allclose(out.weighted_log_liks[0], np.log(np.trapezoid(density, x)), rtol=1e-8)
