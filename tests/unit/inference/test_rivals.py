"""Methods of other papers equal plain implementations of their equations, and the Kalman filter in limits."""

from functools import partial

import jax
import numpy as np
import pytest
from filterpy.kalman import IMMEstimator, KalmanFilter
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import betaln, digamma, gammaln
from scipy.stats import norm
from tests.oracle import random_system

import wolf
from wolf.inference.filters import Mode
from wolf.numerics.pytree import cast
from wolf.numerics.xla_fusion import EMITTED, _body_equations

SYSTEM = random_system(5, states=3, measured=2)
MODEL = wolf.LinearModel(**SYSTEM)
R, H = SYSTEM["R"], SYSTEM["H"]
RINV = np.linalg.inv(R)
KINDS = ["KF-B", "KF-IW", "KF-Student", "KF-Ting", "RSTKF", "Huber-KF", "MCKF", "KF-Huang"]


@pytest.fixture
def ys(rng):
    data = 3 * rng.normal(size=(25, 2))
    data[[5, 12, 13]] += [40.0, -30.0]
    return data


def learn(mean, cov, y, noise):
    """Update by the information form."""
    new = np.linalg.inv(np.linalg.inv(cov) + H.T @ np.linalg.inv(noise) @ H)
    return mean + new @ H.T @ np.linalg.inv(noise) @ (y - H @ mean), new


def square(mean, cov, y):
    """Compute E (y - Hx)(y - Hx)ᵀ."""
    e = y - H @ mean
    return np.outer(e, e) + H @ cov @ H.T


def kf_b(mean, cov, y, alpha=0.9, beta=0.1, times=4):
    rho = 1.0
    for _ in range(times):
        new = learn(mean, cov, y, R / rho)
        a, b = alpha + rho, beta + 1 - rho
        good = np.exp(digamma(a) - digamma(a + b) - 0.5 * np.trace(square(*new, y) @ RINV))
        rho = max(good / (good + np.exp(digamma(b) - digamma(a + b))), 1e-14)
    return new


def kf_iw(mean, cov, y, scaling=10.0, times=4):
    new = mean, cov
    for _ in range(times):
        new = learn(mean, cov, y, (scaling * R + square(*new, y)) / (scaling + 1))
    return new


def student(mean, cov, y, shape=2.0, rate=2.0, times=5):
    power = 1.0
    for _ in range(times):
        power = (shape + 1.0) / (rate + 0.5 * np.trace(square(*learn(mean, cov, y, R / power), y) @ RINV))
    return learn(mean, cov, y, R / power)


def ting(mean, cov, y):
    return student(mean, SYSTEM["Q"], y, 1.0, 1.0)


def rstkf(mean, cov, y, dof=5.0, tuning=5.0, times=10):
    size = len(mean)
    scale, xi, power = cov, 1.0, 1.0
    for _ in range(times):
        new, new_cov = learn(mean, scale, y, R / power)
        a = new_cov + np.outer(new - mean, new - mean)
        # U has u = n + τ + 2 degrees in the paper's count, and E Σ⁻¹ = (u - n - 1) U⁻¹
        u, wishart = size + tuning + 2, tuning * cov + xi * a
        expected = (u - size - 1) * np.linalg.inv(wishart)
        xi = (size + dof) / (dof + np.trace(a @ expected))
        power = (2 + dof) / (dof + np.trace(square(new, new_cov, y) @ RINV))
        scale = np.linalg.inv(expected) / xi
    return learn(mean, scale, y, R / power)


def regression(mean, cov, y, weigh, times, nominal):
    """Solve the stacked, whitened regression by weighted least squares."""
    prior, noise = np.linalg.cholesky(cov), np.linalg.cholesky(R)
    rows = np.vstack([np.linalg.inv(prior), np.linalg.solve(noise, H)])
    target = np.concatenate([np.linalg.solve(prior, mean), np.linalg.solve(noise, y)])
    x = mean
    for _ in range(times):
        power = weigh(target - rows @ x)
        information = rows.T @ (power[:, None] * rows)
        x = np.linalg.solve(information, rows.T @ (power * target))
    if not nominal:
        return x, np.linalg.inv(information)
    wide, loud = prior @ np.diag(1 / power[:3]) @ prior.T, noise @ np.diag(1 / power[3:]) @ noise.T
    gain = wide @ H.T @ np.linalg.inv(H @ wide @ H.T + loud)
    left = np.eye(3) - gain @ H
    return x, left @ cov @ left.T + gain @ R @ gain.T


def huber(mean, cov, y):
    return regression(mean, cov, y, lambda e: np.minimum(1, 1.345 / np.maximum(np.abs(e), 1e-300)), 5, nominal=False)


def correntropy(mean, cov, y):
    return regression(mean, cov, y, lambda e: np.maximum(np.exp(-(e**2) / 8), 1e-13), 5, nominal=True)


class Huang:
    """Estimate R and ν of Student-t noise, in the coordinates of y."""

    def __init__(self):
        self.u, self.scale, self.a, self.b = 10.0, 10.0 * R, 5.0, 1.0

    def __call__(self, mean, cov, y):
        keep = 1 - np.exp(-4.0)
        u, scale, a, b = keep * self.u, keep * self.scale, keep * self.a, keep * self.b
        power, noise, dof = 1.0, scale / u, a / b
        for _ in range(5):
            error = square(*learn(mean, cov, y, noise / power), y)
            shape, rate = (dof + 2) / 2, (dof + np.trace(error @ np.linalg.inv(noise))) / 2
            power, log_power = shape / rate, digamma(shape) - np.log(rate)
            noise = (scale + power * error) / (u + 1)
            dof = (a + 0.5) / (b - 0.5 * (1 + log_power - power))
        self.u, self.scale, self.a, self.b = u + 1, noise * (u + 1), a + 0.5, (a + 0.5) / dof
        return learn(mean, cov, y, noise / power)


ORACLES = dict(zip(KINDS, (kf_b, kf_iw, student, ting, rstkf, huber, correntropy, None), strict=True))


@pytest.mark.parametrize("name", KINDS)
def test_rival_equals_its_plain_equations(name, ys):
    update = Huang() if name == "KF-Huang" else ORACLES[name]
    near = {"rtol": 1e-7, "atol": 1e-5 if name == "MCKF" else 1e-7}  # weights of 1e-13 cost the oracle its digits
    out = wolf.filter(MODEL, ys, method=name)
    mean, cov = SYSTEM["mean"], SYSTEM["cov"]
    for t, y in enumerate(ys):
        mean, cov = SYSTEM["F"] @ mean, SYSTEM["F"] @ cov @ SYSTEM["F"].T + SYSTEM["Q"]
        mean, cov = update(mean, cov, y)
        np.testing.assert_allclose(out.means[t], mean, **near)
        np.testing.assert_allclose(out.covs[t], cov, **near)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["KF-B", "KF-IW", "RSTKF", "MCKF", "ADF"])
def test_square_root_form_of_a_rival_agrees(name, ys):
    plain, root = (wolf.filter(MODEL, ys, method=wolf.methods.make(name, form=form)) for form in ("joseph", "sqrt"))
    np.testing.assert_allclose(root.means, plain.means, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(root.covs, plain.covs, rtol=1e-8, atol=1e-8)


def entropy(cov):
    return 0.5 * np.linalg.slogdet(cov)[1]


def fit_of_state(mean, cov, prior_mean, prior_cov):
    """Compute E log p(x) plus the entropy of q(x), up to a constant."""
    moved = mean - prior_mean
    spread = np.trace(np.linalg.solve(prior_cov, cov + np.outer(moved, moved)))
    return -0.5 * spread - entropy(prior_cov) + entropy(cov)


def bernoulli_bound(state, prior, y, rho, a, b, alpha=0.9, beta=0.1):
    log_good, log_bad = digamma(a) - digamma(a + b), digamma(b) - digamma(a + b)
    error = np.trace(square(*state, y) @ RINV)
    fit = rho * (log_good - 0.5 * error) + (1 - rho) * log_bad
    counts = (alpha - a) * log_good + (beta - b) * log_bad + betaln(a, b)
    bits = -sum(p * np.log(p) for p in (rho, 1 - rho) if p > 0)
    return fit_of_state(*state, *prior) + fit + counts + bits


@given(st.floats(0.3, 5), st.floats(0.1, 2), st.lists(st.floats(-8, 8), min_size=2, max_size=2))
def test_each_step_of_kf_b_raises_its_evidence_bound(alpha, beta, y):
    """The plain equations of `test_rival_equals_its_plain_equations` are coordinate ascent."""
    prior, y = (SYSTEM["mean"], SYSTEM["cov"]), np.array(y)
    state, rho, a, b = prior, 0.7, alpha + 0.7, beta + 0.3
    bounds = []
    for _ in range(4):
        for which in range(3):
            if which == 0:
                state = learn(*prior, y, R / rho)
            elif which == 1:
                odds = digamma(a) - digamma(b) - 0.5 * np.trace(square(*state, y) @ RINV)
                rho = np.clip(1 / (1 + np.exp(-odds)), 1e-12, 1 - 1e-12)
            else:
                a, b = alpha + rho, beta + 1 - rho
            bounds.append(bernoulli_bound(state, prior, y, rho, a, b, alpha, beta))
    assert (np.diff(bounds) > -1e-8).all()


@given(st.floats(0.5, 20), st.lists(st.floats(-8, 8), min_size=2, max_size=2))
def test_each_step_of_the_student_filter_raises_its_evidence_bound(half, y):
    prior, y = (SYSTEM["mean"], SYSTEM["cov"]), np.array(y)
    shape = half + 1.0
    power, bounds = 1.0, []
    rate = shape / power
    for _ in range(4):
        for which in range(2):
            if which == 0:
                state = learn(*prior, y, R / power)
            else:
                rate = half + 0.5 * np.trace(square(*state, y) @ RINV)
                power = shape / rate
            log_power = digamma(shape) - np.log(rate)
            fit = log_power - 0.5 * power * np.trace(square(*state, y) @ RINV)
            gamma_prior = (half - 1) * log_power - half * power
            gamma_entropy = shape - np.log(rate) + gammaln(shape) + (1 - shape) * digamma(shape)
            bounds.append(fit_of_state(*state, *prior) + fit + gamma_prior + gamma_entropy)
    assert (np.diff(bounds) > -1e-8).all()


def gap(method, ys):
    return np.abs(wolf.filter(MODEL, ys, method=method).means - wolf.filter(MODEL, ys, method="KF").means).max()


@pytest.mark.parametrize(
    ("name", "near", "far"),
    [
        ("KF-Student", {"dof": 1e4}, {"dof": 1e8}),
        ("KF-IW", {"scaling": 1e4}, {"scaling": 1e8}),
        ("RSTKF", {"dof": 1e4, "prior_dof": 1e4, "tuning": 1e4}, {"dof": 1e8, "prior_dof": 1e8, "tuning": 1e8}),
        ("MCKF", {"bandwidth": 1e2}, {"bandwidth": 1e4}),
        ("KF-Huang", {"dof": 1e4, "dof_strength": 1e4, "strength": 1e4, "forgetting": 1.0},
         {"dof": 1e8, "dof_strength": 1e8, "strength": 1e8, "forgetting": 1.0}),
    ],
)  # fmt: skip
def test_rival_tends_to_the_kalman_filter_at_rate_one_over_its_parameter(name, near, far, ys):
    first, second = (gap(wolf.methods.make(name, **options), ys) for options in (near, far))
    assert 1e-8 < second < 1e-2
    np.testing.assert_allclose(first / second, 1e4, rtol=0.1)


def test_huber_regression_with_a_wide_threshold_is_the_kalman_filter(ys):
    assert gap(wolf.methods.make("Huber-KF", threshold=1e4), ys) < 1e-12


def test_kf_b_with_strong_prior_is_the_kalman_filter_on_clean_data(rng):
    ys = rng.normal(size=(25, 2))
    near, far = (gap(wolf.methods.make("KF-B", alpha=alpha, beta=2.0), ys) for alpha in (1e3, 1e6))
    np.testing.assert_allclose(near / far, 1e3, rtol=0.02)
    assert far < 1e-5


def test_one_iteration_of_kf_b_is_the_kalman_filter(ys):
    assert gap(wolf.methods.make("KF-B", iterations=1), ys) == 0.0


def test_ting_with_propagation_is_the_student_filter(ys):
    carried = wolf.methods.make("KF-Ting", propagate=True, shape=2.0, rate=2.0)
    same = wolf.filter(MODEL, ys, method=wolf.methods.make("KF-Student", dof=4.0))
    np.testing.assert_allclose(wolf.filter(MODEL, ys, method=carried).means, same.means, rtol=1e-12)


LAPACK = {
    "cholesky",
    "eigh",
    "qr",
    "lu",
    "svd",
    "triangular_solve",
    "custom_linear_solve",
    "geqrf",
    "householder_product",
}


@pytest.mark.parametrize("name", [*KINDS, "ADF", "IMM", "Learned"])
def test_a_small_step_calls_no_lapack_and_so_fits_into_one_kernel(name, tracking, ys, x64):
    method = cast(wolf.methods.make(name), np.float64)
    step = jax.make_jaxpr(partial(wolf.step, cast(tracking, np.float64), method))(wolf.init(tracking, method), ys[0])
    used = {equation.primitive.name for equation in _body_equations(step.jaxpr)}
    assert not used & LAPACK
    assert used <= EMITTED


def test_exact_moments_equal_quadrature_in_one_dimension():
    scales, probabilities = np.array([0.3, 1.0, 40.0]), np.array([0.2, 0.7, 0.1])
    model = wolf.LinearModel(F=np.eye(1), H=[[1.7]], Q=[[0.0]], R=[[2.0]], mean=[0.5], cov=[[3.0]])
    rule = wolf.methods.make("ADF", scales=scales, probabilities=probabilities, far=False)
    for y in (-20.0, -3.0, 0.1, 2.0, 9.0):
        out = wolf.filter(model, [y], method=rule)

        def density(x, y=y):
            noise = sum(p * norm.pdf(y, 1.7 * x, np.sqrt(2 * s)) for p, s in zip(probabilities, scales, strict=True))
            return noise * norm.pdf(x, 0.5, np.sqrt(3))

        limits = {"points": [0.5, y / 1.7], "epsabs": 1e-16, "epsrel": 1e-13, "limit": 400}
        mass = quad(density, -40, 40, **limits)[0]
        mean = quad(lambda x: x * density(x), -40, 40, **limits)[0] / mass
        second = quad(lambda x, mean=mean: (x - mean) ** 2 * density(x), -40, 40, **limits)[0] / mass
        np.testing.assert_allclose([out.means[0, 0], out.covs[0, 0, 0]], [mean, second], rtol=1e-8)


def test_exact_moments_equal_a_grid_in_two_dimensions():
    model = wolf.LinearModel(
        F=np.eye(2), H=[[1.0, 0.5], [-0.2, 2.0]], Q=np.zeros((2, 2)), R=[[1.0, 0.4], [0.4, 2.0]], mean=[0.0, 1.0],
        cov=[[2.0, -0.3], [-0.3, 1.0]],
    )  # fmt: skip
    y, scales, shares = np.array([4.0, 9.0]), (1.0, 20.0), (0.8, 0.2)
    out = wolf.filter(model, y[None], method=wolf.methods.make("ADF", scales=scales, probabilities=shares, far=False))
    axis = np.linspace(-12, 12, 1201)
    x = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)

    def gauss(z, cov):
        return np.exp(-0.5 * np.einsum("ni,ij,nj->n", z, np.linalg.inv(cov), z)) / np.sqrt(np.linalg.det(cov))

    noise = sum(p * gauss(y - x @ model.H.T, s * model.R) for p, s in zip(shares, scales, strict=True))
    share = noise * gauss(x - model.mean, model.cov)
    share /= share.sum()
    mean = share @ x
    np.testing.assert_allclose(out.means[0], mean, rtol=1e-8)
    np.testing.assert_allclose(out.covs[0], (share[:, None] * (x - mean)).T @ (x - mean), rtol=1e-7)


def test_many_coordinates_give_the_same_moments_by_eigenvectors(rng):
    """Ten sensors use one eigendecomposition, two a factor for each component."""
    states, sensors = 2, 10
    matrix = rng.normal(size=(sensors, states))
    few = wolf.LinearModel(np.eye(states), matrix[:2], np.eye(states), np.eye(2), np.zeros(states), np.eye(states))
    many = wolf.LinearModel(np.eye(states), matrix, np.eye(states), np.eye(sensors), np.zeros(states), np.eye(states))
    ys = np.full((5, sensors), np.nan)
    ys[:, :2] = 5 * rng.normal(size=(5, 2))
    a, b = (wolf.filter(model, data, method="ADF") for model, data in ((few, ys[:, :2]), (many, ys)))
    np.testing.assert_allclose(a.means, b.means, rtol=1e-9)
    np.testing.assert_allclose(a.covs, b.covs, rtol=1e-9)


def test_exact_moments_with_the_far_component_ignore_any_outlier(ys):
    for size in (1e3, 1e8, 1e100, 1e150):
        dirty = ys.copy()
        dirty[20] = size
        blank = dirty.copy()
        blank[20] = np.nan
        hit, missed = (wolf.filter(MODEL, data, method="ADF") for data in (dirty, blank))
        np.testing.assert_allclose(hit.means, missed.means, atol=1e-9)
        np.testing.assert_allclose(hit.covs, missed.covs, atol=1e-9)


def test_imm_with_one_mode_is_the_filter_itself(ys):
    ys[3], ys[7, 0] = np.nan, np.nan
    one, plain = (wolf.filter(MODEL, ys, method=m) for m in (wolf.methods.make("IMM", modes=(Mode(),)), "EKF"))
    for name in ("means", "covs", "log_liks", "predicted_covs", "innovation_covs", "nis"):
        np.testing.assert_allclose(getattr(one, name), getattr(plain, name), rtol=1e-12, atol=1e-12)


def test_imm_equals_filterpy(ys):
    other = SYSTEM | {"F": SYSTEM["F"] @ np.diag([1.0, 0.5, 1.2])}
    transition = np.array([[0.9, 0.06, 0.04], [0.2, 0.7, 0.1], [0.3, 0.2, 0.5]])
    modes = (Mode(), Mode(obs_scale=30.0, dynamics_scale=2.0), Mode(model=wolf.LinearModel(**other)))
    out = wolf.filter(MODEL, ys, method=wolf.methods.make("IMM", modes=modes, transition=transition))
    filters = []
    for system, q, r in ((SYSTEM, 1, 1), (SYSTEM, 2, 30), (other, 1, 1)):
        kf = KalmanFilter(3, 2)
        kf.x, kf.P, kf.F, kf.H = SYSTEM["mean"].copy(), SYSTEM["cov"].copy(), system["F"], H
        kf.Q, kf.R = q * SYSTEM["Q"], r * R
        filters.append(kf)
    imm = IMMEstimator(filters, transition[0].copy(), transition)
    for t, y in enumerate(ys):
        imm.predict()
        imm.update(y)
        np.testing.assert_allclose(out.means[t], imm.x, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(out.covs[t], imm.P, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(out.final.probabilities, imm.mu, rtol=1e-8)


def test_gradient_filter_takes_the_steps_of_adam(ys):
    """Compared with Adam as in Kingma & Ba (2015)."""
    out = wolf.filter(MODEL, ys, method=wolf.methods.make("OGD", learning_rate=0.05, iterations=3))
    x, first, second, count = SYSTEM["mean"], np.zeros(3), np.zeros(3), 0
    for t, y in enumerate(ys):
        x = SYSTEM["F"] @ x
        for _ in range(3):
            slope = -2 * H.T @ (y - H @ x)
            count += 1
            first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
            x = x - 0.05 * (first / (1 - 0.9**count)) / (np.sqrt(second / (1 - 0.999**count)) + 1e-8)
        np.testing.assert_allclose(out.means[t], x, rtol=1e-8)
    assert "covs" not in out.saved
    with pytest.raises(AttributeError, match="GradientFilter has no covs"):
        _ = out.covs
    with pytest.raises(ValueError, match="smooth needs a Gaussian filter"):
        wolf.smooth(MODEL, out)


@pytest.mark.parametrize("name", ["KF-B", "KF-IW", "KF-Student", "RSTKF", "ADF"])
def test_a_missing_coordinate_is_as_if_its_sensor_did_not_exist(name, ys):
    alone = wolf.LinearModel(**(SYSTEM | {"H": H[:1], "R": R[:1, :1]}))
    half = ys.copy()
    half[:, 1] = np.nan
    a, b = wolf.filter(alone, ys[:, :1], method=name), wolf.filter(MODEL, half, method=name)
    near = {"rtol": 1e-9, "atol": 1e-5 if name == "RSTKF" else 1e-9}  # after outliers it amplifies rounding
    np.testing.assert_allclose(b.means, a.means, **near)
    np.testing.assert_allclose(b.covs, a.covs, **near)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "KF-B", "beta": 0.0}, "beta must be positive; got 0.0"),
        ({"name": "KF-IW", "scaling": -1.0}, "scaling must be positive"),
        ({"name": "MCKF", "iterations": 0}, "iterations must be a whole number"),
        ({"name": "ADF", "scales": (1.0, 2.0), "probabilities": (1.0,)}, "two lists of one length"),
        ({"name": "ADF", "scales": (2.0, 1.0)}, "scales must increase"),
        ({"name": "IMM", "modes": (1.0, 2.0)}, "modes must be a list of Mode"),
        ({"name": "IMM", "transition": np.eye(2)}, r"transition must be \(3, 3\)"),
        ({"name": "Beta-PF", "beta": -0.1}, "beta must not be negative"),
        ({"name": "KF-B", "c": 3.0}, "KF-B does not take these options: c"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=message):
        wolf.methods.make(**options)


# Medians of J_0 on the paper's tracking (clean, Student, mixture) of 500 other trials, by another implementation.
STUDY = {
    "KF-B": (40.0, 52.7, 40.8),
    "KF-Student": (40.9, 47.7, 41.7),
    "RSTKF": (40.4, 47.9, 41.4),
    "Huber-KF": (40.1, 50.1, 43.8),
    "MCKF": (40.8, 50.2, 41.9),
    "IMM": (39.5, 48.7, 40.6),
}


@pytest.fixture(scope="module")
def trials():
    start = np.array([0.0, 0.0, 1.0, 1.0])
    prior = wolf.Gaussian(start, np.eye(4))
    model = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0, prior=prior)
    processes = (None, wolf.simulate.StudentT(2.01), wolf.simulate.Mixture(0.05))
    runs = [[wolf.simulate.trajectory(model, 1000, i, p, initial=start) for i in range(20)] for p in processes]
    stack = [[np.stack([getattr(run, name) for run in each]) for each in runs] for name in ("measurements", "states")]
    return model, *(np.concatenate(part) for part in stack)


@pytest.mark.thorough
@pytest.mark.parametrize("name", STUDY)
def test_rival_reaches_the_error_of_an_independent_study(name, trials):
    model, ys, states = trials
    means = wolf.filter_many(model, ys, method=name, save="means").means
    medians = np.median(np.sqrt(((means - states)[..., 0] ** 2).sum(1)).reshape(3, 20), axis=1)
    np.testing.assert_allclose(medians, STUDY[name], rtol=0.06)  # a median of twenty has an error of about 2 %
