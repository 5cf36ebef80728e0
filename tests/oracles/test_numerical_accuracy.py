"""Numerics: hard problems against 60 digits, long runs, single precision, and the small algebra against NumPy."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import maximum_filter1d, median_filter

import wolf
from wolf.numerics import linalg
from wolf.numerics.rolling import running_maximum, running_median

VELOCITY = np.kron([[1.0, 0.1], [0.0, 1.0]], np.eye(2))


def make_model(H, obs_var, prior_var, dynamics_var):
    eye = np.eye(4)
    return wolf.LinearModel(VELOCITY, H, dynamics_var * eye, obs_var * np.eye(2), np.zeros(4), prior_var * eye)


STIFF = make_model(np.eye(2, 4), obs_var=1e-14, prior_var=1e10, dynamics_var=0.1)
COLLINEAR = make_model(np.array([[1, 1, 0, 0], [1, 1 + 1e-6, 0, 0]]), obs_var=1e-14, prior_var=1e6, dynamics_var=1e-6)


def exact_variances(model, steps):
    """Run the covariance recursion in 60 digits."""
    with mpmath.workdps(60):
        F, H, Q, R, P = (mpmath.matrix(a.tolist()) for a in (model.F, model.H, model.Q, model.R, model.cov))
        rows = []
        for _ in range(steps):
            P = F * P * F.T + Q
            K = P * H.T * mpmath.inverse(H * P * H.T + R)
            P = P - K * H * P
            rows.append([float(P[i, i]) for i in range(P.rows)])
        return np.array(rows)


def smallest_correlation(covs):
    scales = np.sqrt(np.einsum("tii->ti", covs))
    return np.linalg.eigvalsh(covs / scales[:, :, None] / scales[:, None, :]).min()


def just_cov(state, info):
    return state.cov


def run(model, form, steps, **options):
    ys = np.zeros((steps, model.obs_dim))
    return wolf.filter(model, ys, method=wolf.KF(form=form), save=just_cov, **options).saved


@pytest.mark.parametrize("form", ["sqrt", "joseph"])
def test_huge_prior_and_tiny_noise_keep_six_digits(form):
    covs = run(STIFF, form, 100)
    np.testing.assert_allclose(np.einsum("tii->ti", covs), exact_variances(STIFF, 100), rtol=1e-6)
    assert smallest_correlation(covs) > -1e-12


def test_nearly_collinear_sensors_keep_six_digits_in_square_root_form():
    covs = run(COLLINEAR, "sqrt", 300)
    np.testing.assert_allclose(np.einsum("tii->ti", covs), exact_variances(COLLINEAR, 300), rtol=1e-6)
    assert smallest_correlation(covs) > -1e-12


def test_nearly_collinear_sensors_stay_positive_in_joseph_form():
    covs = run(COLLINEAR, "joseph", 300)
    assert np.isfinite(covs).all()
    assert smallest_correlation(covs) > -1e-8


@pytest.mark.parametrize("form", ["sqrt", "joseph"])
def test_long_runs_stay_positive_symmetric_and_steady(form):
    covs = run(STIFF, form, 100_000)
    assert smallest_correlation(covs) > -1e-12
    np.testing.assert_array_equal(covs, np.swapaxes(covs, 1, 2))
    np.testing.assert_allclose(covs[50_000:], np.broadcast_to(covs[-1], (50_000, 4, 4)), rtol=1e-9, atol=1e-22)
    np.testing.assert_allclose(np.diag(covs[-1]), exact_variances(STIFF, 250)[-1], rtol=1e-6)


@pytest.mark.parametrize("form", ["joseph", "symmetric", "sqrt"])
def test_long_dirty_runs_stay_positive_and_symmetric(form, tracking, rng):
    ys = 10 * rng.standard_t(2, (20_000, 2))
    covs = wolf.filter(tracking, ys, method=wolf.WoLF(form=form), save=just_cov).saved
    np.testing.assert_array_equal(covs, np.swapaxes(covs, 1, 2))
    assert smallest_correlation(covs) > 1e-6


@pytest.mark.parametrize("condition", [1e2, 1e4, 1e6])
def test_single_precision_square_root_is_near_double(condition):
    model = make_model(np.eye(2, 4), obs_var=1 / condition, prior_var=1.0, dynamics_var=0.1)
    single, double = (run(model, "sqrt", 2000, dtype=dtype) for dtype in ("float32", "float64"))
    variances = [np.einsum("tii->ti", covs.astype(float)) for covs in (single, double)]
    np.testing.assert_allclose(*variances, rtol=1e-4)
    assert single.dtype == np.float32


def naive(model, ys):
    """Filter with a scalar IMQ weight in the S metric, in plain NumPy."""
    m, P, means = model.mean, model.cov, []
    for y in ys:
        m, P = model.F @ m, model.F @ P @ model.F.T + model.Q
        e, S = y - model.H @ m, model.H @ P @ model.H.T + model.R
        w2 = 1 / (1 + e @ np.linalg.solve(S, e) / 9)
        K = w2 * P @ model.H.T @ np.linalg.inv(w2 * model.H @ P @ model.H.T + model.R)
        m, P = m + K @ e, P - K @ model.H @ P
        means.append(m)
    return np.array(means), P


@pytest.mark.parametrize(
    ("size", "seen", "form"), [(9, 2, "auto"), (20, 3, "auto"), (30, 10, "auto"), (30, 10, "sqrt")]
)
def test_large_states_are_right(size, seen, form, rng):
    F = np.linalg.qr(rng.normal(size=(size, size)))[0] * 0.95
    half = rng.normal(size=(size, size))
    R = np.eye(seen) + 0.5
    model = wolf.LinearModel(
        F, rng.normal(size=(seen, size)), half @ half.T / size, R, rng.normal(size=size), np.eye(size)
    )
    ys = 5 * rng.standard_t(2, (15, seen))
    out = wolf.filter(model, ys, method=wolf.WoLF(wolf.MahalanobisIMQ(3.0, metric="S"), form=form), save="all")
    means, cov = naive(model, ys)
    np.testing.assert_allclose(out.means, means, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(out.covs[-1], cov, rtol=1e-9, atol=1e-9)


# The small algebra: for one matrix and for a trailing batch of them, which is three ways to compute the same.
# Not jitted: what is unrolled for a batch takes long to compile, and the engine never unrolls more than 8.
SHAPES = [(size, ()) for size in range(1, 13)] + [(size, (3,)) for size in (1, 2, 6, 7, 8)]
each_shape = pytest.mark.parametrize(("size", "batch"), SHAPES)


def products(a, b, x, p):
    pairs = linalg.matmul(a, b), linalg.matvec(a, x), linalg.gram(a), linalg.sandwich(a, p), linalg.outer(x, x)
    reductions = linalg.sum_leading(a), linalg.max_leading(a), linalg.all_leading(a > -1)
    return *pairs, *reductions, linalg.diagonal(p), linalg.transpose(a)


def factorise(a, b, x):
    factor = linalg.cholesky(a)
    parts = factor.matrix(), factor.diagonal(), factor.log_det(), factor.product()
    solved = factor.half(b), factor.back(b), factor.solve(b), factor.half(x), factor.back(x)
    return *parts, *solved, linalg.from_lower(factor.matrix()).solve(b)


def root_and_solve(a, b):
    return linalg.psd_root(a), linalg.psd_solve(a, b)


def lead(a, batch):
    """Move the batch axis to the front, as NumPy expects it."""
    return np.moveaxis(np.asarray(a), -1, 0) if batch else np.asarray(a)


def turn(a):
    return np.swapaxes(a, -1, -2)


def draw_psd(rng, size, rank, batch):
    half = rng.normal(size=(size, rank, *batch))
    return np.einsum("ij...,kj...->ik...", half, half)


def assert_all_close(got, expected, batch):
    for i, (a, b) in enumerate(zip(got, expected, strict=True)):
        np.testing.assert_allclose(lead(a, batch), b, rtol=1e-9, atol=1e-9, err_msg=f"number {i}")


@each_shape
def test_products_equal_numpy(size, batch, rng, x64):
    a, b, x, p = (rng.normal(size=(*shape, *batch)) for shape in ((size, 3), (3, size), (3,), (3, 3)))
    p = p + np.swapaxes(p, 0, 1)
    A, B, X, P = (lead(each, batch) for each in (a, b, x, p))
    pairs = A @ B, np.vecdot(A, X[..., None, :]), A @ turn(A), A @ P @ turn(A), X[..., None] * X[..., None, :]
    reductions = A.sum(-2), A.max(-2), (A > -1).all(-2)
    expected = *pairs, *reductions, np.diagonal(P, axis1=-2, axis2=-1), turn(A)
    assert_all_close(products(*jax.device_put((a, b, x, p))), expected, batch)


@each_shape
def test_cholesky_equals_numpy(size, batch, rng, x64):
    a = draw_psd(rng, size, size + 2, batch)
    b, x = rng.normal(size=(size, 2, *batch)), rng.normal(size=(size, *batch))
    A, B, X = (lead(each, batch) for each in (a, b, x))
    L = np.linalg.cholesky(A)
    parts = L, np.diagonal(L, axis1=-2, axis2=-1), np.linalg.slogdet(A)[1], A
    matrices = (np.linalg.solve(each, B) for each in (L, turn(L), A))
    vectors = (np.linalg.solve(each, X[..., None])[..., 0] for each in (L, turn(L)))
    assert_all_close(factorise(*jax.device_put((a, b, x))), [*parts, *matrices, *vectors, np.linalg.solve(A, B)], batch)


@each_shape
def test_semi_definite_matrices_have_roots_and_solutions(size, batch, rng, x64):
    for rank in {size, size - 1, size // 2, 0}:
        a = draw_psd(rng, size, rank, batch)
        b = np.einsum("ij...,jk...->ik...", a, rng.normal(size=(size, 2, *batch)))
        root, solution = (lead(each, batch) for each in root_and_solve(*jax.device_put((a, b))))
        np.testing.assert_allclose(root @ turn(root), lead(a, batch), atol=1e-9)
        np.testing.assert_array_equal(root, np.tril(root))
        np.testing.assert_allclose(lead(a, batch) @ solution, lead(b, batch), atol=1e-6)


@pytest.mark.parametrize(("size", "batch"), [*SHAPES, (26, ())])
def test_lq_is_a_triangular_root_of_the_gram_matrix(size, batch, rng, x64):
    rows = rng.normal(size=(size, size + 3, *batch))
    for _ in ("full rank", "two equal rows", "a row of zeros"):
        got, expected = lead(linalg.lq(jax.device_put(rows)), batch), lead(rows, batch)
        np.testing.assert_allclose(got @ turn(got), expected @ turn(expected), rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(got, np.tril(got))
        assert (np.diagonal(got, axis1=-2, axis2=-1) >= 0).all()
        rows[size // 2] = rows[0] * (rows[0] != rows[size // 2]).any()


@pytest.mark.parametrize("scale", [1e-160, 1.0, 1e150])
def test_lq_neither_overflows_nor_vanishes(scale, rng, x64):
    rows = rng.normal(size=(3, 5))
    np.testing.assert_allclose(
        linalg.lq(jax.device_put(scale * rows)) / scale, linalg.lq(jax.device_put(rows)), rtol=1e-12
    )


@pytest.mark.parametrize("fn", [linalg.psd_root, linalg.lq], ids=["psd_root", "lq"])
def test_roots_of_singular_matrices_have_finite_gradients(fn, x64):
    slope = jax.jit(jax.jacobian(fn))
    for matrix in (np.zeros((3, 3)), np.ones((3, 3)), np.diag([1.0, 0.0, 2.0])):
        assert np.isfinite(slope(matrix)).all()


def test_a_pivot_consumed_by_rounding_has_a_floor(x64):
    factor = linalg.cholesky(jnp.full((3, 3), 4.0))  # three sensors with equal readings, and negligible noise
    assert np.isfinite(factor.log_det())
    assert np.isfinite(factor.half(jnp.array([1.0, 2.0, 3.0]))).all()


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40), st.integers(0, 8), st.sampled_from(["nearest", "reflect"])
)
def test_running_median_and_maximum_are_those_of_scipy(values, half, beyond):
    series, size = np.array(values), 2 * half + 1
    np.testing.assert_array_equal(running_median(series, size, beyond), median_filter(series, size, mode=beyond))
    for each in (size, size + 1):
        np.testing.assert_array_equal(running_maximum(series, each), maximum_filter1d(series, each))
