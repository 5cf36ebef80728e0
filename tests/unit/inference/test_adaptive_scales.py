"""Adaptive scales: the score is the gradient of the density, and r and q are found, in every form and backend."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracle

import wolf
from wolf.beliefs import Affine, Gaussian
from wolf.inference.filters import GaussianFilter
from wolf.inference.noise import AdaptiveNoiseScales, NoiseEstimate, noise_scale_rml, sensitivities
from wolf.inference.noise.adaptive_scale_mixture import SCALES
from wolf.inference.noise.divergence_recovery import JumpEvidence, JumpRecovery
from wolf.inference.noise.mixture_counts import SHARED_WEIGHT, prior_counts
from wolf.inference.noise.scale_mixture import match
from wolf.inference.noise.whitened import whiten
from wolf.interfaces import UpdateContext

pytestmark = pytest.mark.thorough  # the quick tests cover this part elsewhere

PLANE = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
OFF = GaussianFilter(noise=JumpRecovery(AdaptiveNoiseScales(0, 0, priors=((0.5, 10.0, 1.0),), sizes=tuple(SCALES))))


def scaled(q, r, prior=1.0):
    return wolf.LinearModel(PLANE.F, PLANE.H, q * PLANE.Q, r * PLANE.R, PLANE.mean, prior * np.asarray(PLANE.cov))


@pytest.fixture(scope="module")
def dirty():
    """A thousand steps of PLANE, 5 % of them gross outliers."""
    return wolf.simulate.trajectory(PLANE, 1000, 11, wolf.simulate.Additive(0.05, -100.0, 100.0))


def log_density(y, mean, cov, noise_cov, scales, probabilities):
    """Compute the predictive density of a scale mixture, component by component."""
    terms = []
    for s, p in zip(scales, probabilities, strict=True):
        whole = cov + s * noise_cov
        e = y - mean
        distance = e @ np.linalg.solve(whole, e) + np.linalg.slogdet(2 * np.pi * whole)[1]
        terms.append(np.log(p) - 0.5 * distance)
    return np.logaddexp.reduce(terms)


def situation(seed, size, measured):
    """Draw a belief, its sensitivities, a measurement, and mixture probabilities."""
    rng = np.random.default_rng(seed)
    roots = [rng.normal(size=(n, n)) for n in (size, size, measured)]
    cov, more, noise_cov = (root @ root.T + 0.3 * np.eye(len(root)) for root in roots)
    jac, mean, first = rng.normal(size=(measured, size)), rng.normal(size=size), rng.normal(size=size)
    y = jac @ mean + 2.0 * rng.normal(size=measured)
    return cov, more, noise_cov, jac, mean, first, y, rng.dirichlet(np.ones(len(SCALES)))


@pytest.mark.parametrize(("size", "measured"), [(1, 1), (4, 2), (3, 3)])
@pytest.mark.parametrize("seed", [0, 1])
def test_score_is_the_gradient_of_the_log_predictive_density(seed, size, measured, x64):
    cov, more, noise_cov, jac, mean, first, y, probabilities = situation(seed, size, measured)
    level = 0.4

    def density(a, b):
        """Change mean and covariance by their sensitivities, and the scales."""
        moved = mean + (b - a) * first
        spread = cov + b * more + a * (cov - more)
        return log_density(y, jac @ moved, jac @ spread @ jac.T, noise_cov, np.exp(level + a) * SCALES, probabilities)

    ones = jnp.ones(measured)
    view, belief, obs_cov = (
        Affine(jac @ mean, jnp.asarray(jac)),
        Gaussian(mean, jnp.asarray(cov)),
        jnp.asarray(noise_cov),
    )
    context = UpdateContext(y - jac @ mean, view, belief, obs_cov, ones, None)
    matched = match(context, np.exp(level) * SCALES, probabilities, far=False)
    white = whiten(context)
    ahead = sensitivities.Sensitivities(jnp.asarray(first), jnp.asarray(more)).project(matched.pull.whitening @ jac)
    pulled = matched.pull.gain @ white.residual
    found = sensitivities.score(ahead, matched.pull, white.residual, pulled, matched.share.sum(), white.num_observed)
    step = 1e-5
    by_a, by_b = ((density(*(step * d)) - density(*(-step * d))) / (2 * step) for d in np.eye(2))
    np.testing.assert_allclose([found.noise, found.dynamics], [by_a, by_b], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("more_noise", [-0.9, 0.3, 1.0])
def test_score_of_b_after_a_step_in_a(more_noise, x64):
    """With all covariances times e^δ, squares of S⁻¹ z fall as e^-2δ, the rest of σ_b as e^-δ."""
    cov, more, noise_cov, jac, mean, first, y, _ = situation(2, 3, 2)
    jac, ahead = jnp.asarray(jac), sensitivities.Sensitivities(jnp.asarray(first), jnp.asarray(more))

    def found(factor):
        view, belief = Affine(jac @ mean, jac), Gaussian(mean, factor * jnp.asarray(cov))
        context = UpdateContext(y - jac @ mean, view, belief, jnp.asarray(noise_cov), jnp.ones(2), None)
        matched, white = match(context, factor * np.ones(1), np.ones(1), far=False), whiten(context)
        pulled = matched.pull.gain @ white.residual
        there = ahead.project(matched.pull.whitening @ jac)
        return sensitivities.score(there, matched.pull, white.residual, pulled, jnp.ones(()), jnp.asarray(2.0))

    before, after, less = found(1.0), found(np.exp(more_noise)), np.exp(-more_noise)
    expected = (before.dynamics - before.square) * less + before.square * less**2
    np.testing.assert_allclose(after.dynamics, expected, rtol=1e-10)
    series = sum((-more_noise) ** k / math.factorial(k) for k in range(5))
    assert series == pytest.approx(less, abs=0.06)  # the series in `noise_scale_rml._step`


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.booleans())
def test_log_odds_are_the_difference_of_a_quadratic_log_density(seed, curved):
    """ℓ(a, b) with curvature j: b at its estimate against b = 0, a moving as the joint information implies; and a."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(2, 2))
    bend, centre = root @ root.T + 0.1 * np.eye(2), rng.normal(size=2)
    level, (known_root, odds) = 0.5 * rng.normal(size=2), (rng.normal(size=(2, 2)), rng.normal(size=2))
    known = known_root @ known_root.T + np.eye(2)
    ones = sensitivities.RQ(jnp.ones(()), jnp.ones(()))
    levels = noise_scale_rml.initial_estimates(
        ones, sensitivities.Sensitivities(jnp.zeros(1), jnp.zeros((1, 1))), jnp.ones(()), curved
    )._replace(
        log_noise=level[0],
        log_dynamics=level[1],
        information=sensitivities.Information(known[0, 0], known[0, 1], known[1, 1]),
        log_odds=sensitivities.RQ(odds[0] if curved else None, odds[1]),
    )
    learns = sensitivities.RQ(noise=True, dynamics=True)
    gap = np.log(np.array(noise_scale_rml.scales_in_use(levels, learns))) - level
    spread = noise_scale_rml.variances(levels)
    margin = np.array(noise_scale_rml.MARGIN) * spread
    back = noise_scale_rml.MARGIN_SHARE
    at = level + gap - (1 - back) * margin  # to which the score is moved back
    slope, more = bend @ (centre - at), sensitivities.Information(bend[0, 0], bend[0, 1], bend[1, 1])
    back = noise_scale_rml._score_at_estimate(levels, sensitivities.RQ(*slope), more, learns)
    np.testing.assert_allclose(back, bend @ (centre - level), rtol=1e-4, atol=1e-4)

    def density(ab):
        return -0.5 * (ab - centre) @ bend @ (ab - centre)

    along = np.array([[-1.0, known[0, 1] / known[1, 1]], [known[0, 1] / known[0, 0], -1.0]])
    right = level + level[:, None] * along
    found = noise_scale_rml._update_log_odds(levels, back, more, learns)
    for i in (0, 1) if curved else (1,):
        expected = np.clip(odds[i] + density(level) - density(right[i]), *noise_scale_rml.LOG_ODDS_RANGE)
        np.testing.assert_allclose(found[i], expected, rtol=1e-3, atol=1e-3)
    assert curved or found.noise is None


@pytest.mark.parametrize(("q", "off"), [(1.0, False), (0.1, True), (10.0, True)])
def test_log_odds_identify_a_wrong_q(q, off, dirty):
    out = wolf.filter(scaled(q, 1.0), dirty.measurements, method="Adaptive")
    log_odds = out.final.memory.base.scale_estimates.log_odds
    assert log_odds.noise is None
    assert (log_odds.dynamics > 2.0) == off
    assert abs(np.log(out.dynamics_scales[-1] * q)) < 0.7


@pytest.mark.parametrize(("q", "r"), [(1.0, 1.0), (0.1, 1.0), (1.0, 10.0)])
def test_nonlinear_models_have_lower_prior_odds_and_wrong_scales_are_still_found(q, r, dirty):
    """Sensitivities neglect that Jacobians depend on the mean; linear functions give what matrices give."""
    plane = scaled(q, r)
    curved = wolf.StateSpaceModel(lambda x: plane.F @ x, lambda x: plane.H @ x, plane.Q, plane.R, plane.prior)
    by_matrices, out = (wolf.filter(model, dirty.measurements, method="Adaptive") for model in (plane, curved))
    log_odds = out.final.memory.base.scale_estimates.log_odds
    assert (log_odds.noise > 2.0) == (r != 1.0)
    assert (log_odds.dynamics > 2.0) == (q != 1.0)
    start = noise_scale_rml.initial_estimates(sensitivities.RQ(1.0, 1.0), None, jnp.ones(()), nonlinear=True)
    assert start.log_odds.dynamics < 0 < noise_scale_rml.FIRST_LOG_ODDS
    for name in ("noise_scales", "dynamics_scales"):
        apart = np.log(getattr(out, name)[-50:] / getattr(by_matrices, name)[-50:])
        assert np.abs(apart).max() < 0.25


@pytest.mark.parametrize("seed", [0])
def test_information_is_the_expected_square_of_the_score(seed, x64):
    """For Gaussian noise: Fisher's information, from the Hessian of the expected log density."""
    cov, more, noise_cov, jac, _, first, _, _ = situation(seed, 3, 2)
    whole = jac @ cov @ jac.T + noise_cov

    def moments(ab):
        a, b = ab
        return (b - a) * jac @ first, jac @ (cov + b * more + a * (cov - more)) @ jac.T + (1.0 + a) * noise_cov

    def divergence(ab):  # Kullback-Leibler divergence: its Hessian is the information
        shift, there = moments(ab)
        inverse = jnp.linalg.inv(there)
        return 0.5 * (jnp.trace(inverse @ whole) + shift @ inverse @ shift + jnp.linalg.slogdet(there)[1])

    expected = jax.hessian(divergence)(jnp.zeros(2))
    root = np.linalg.cholesky(noise_cov)
    jac_white = np.linalg.solve(root, jac)
    ahead = sensitivities.Sensitivities(jnp.asarray(first), jnp.asarray(more)).project(jnp.asarray(jac_white))
    signal = jnp.asarray(jac_white @ cov @ jac_white.T)
    found = sensitivities.information(ahead, signal, jnp.asarray(1.0), jnp.asarray(2.0))
    np.testing.assert_allclose([[found.noise, found.cross], [found.cross, found.dynamics]], expected, rtol=1e-9)


def test_sensitivities_equal_automatic_differentiation(x64):
    """A Kalman filter, whose weights are fixed, with one missing measurement."""
    F, H, Q = (jnp.asarray(each) for each in (PLANE.F, PLANE.H, PLANE.Q))
    root = np.sqrt(10.0)
    ys = 3.0 * np.random.default_rng(2).normal(size=(12, 2)) / root

    def run(b, carries):
        mean, cov = jnp.asarray(PLANE.mean), jnp.asarray(PLANE.cov)
        slope = sensitivities.Sensitivities(0.0 * mean, 0.0 * cov)
        for i, y in enumerate(ys):
            mean, cov, used = F @ mean, F @ cov @ F.T + jnp.exp(b) * Q, jnp.exp(b) * Q
            slope = slope.predict(F, used)
            if i == 5:
                continue
            jac = H / root
            gain = jnp.linalg.inv(jac @ cov @ jac.T + jnp.eye(2))
            pulled = gain @ (y - jac @ mean)
            slope = slope.condition(slope.project(jac), jac @ cov, gain, pulled)
            mean, cov = mean + cov @ jac.T @ pulled, cov - cov @ jac.T @ gain @ jac @ cov
        return (mean, cov, slope) if carries else (mean, cov)

    *_, carried = run(0.3, carries=True)
    _, exact = jax.jvp(lambda b: run(b, carries=False), (0.3,), (1.0,))
    np.testing.assert_allclose(carried.mean, exact[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(carried.cov, exact[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("factor", [0.01, 30.0])
def test_scaling_all_covariances_together_scales_the_covariance_and_nothing_else(factor, dirty):
    """With fixed scales; estimated ones differ, since the prior of r and q is elsewhere."""
    fixed = wolf.Adaptive(q_uncertainty=0, r_uncertainty=0)
    ys = dirty.measurements[:60]
    a = wolf.filter(PLANE, ys, method=fixed)
    root = np.sqrt(factor)
    b = wolf.filter(scaled(factor, factor, factor), root * (ys - PLANE.mean[:2]) + PLANE.mean[:2], method=fixed)
    np.testing.assert_allclose(b.covs, factor * a.covs, rtol=1e-9)
    np.testing.assert_allclose(b.means - PLANE.mean, root * (a.means - PLANE.mean), rtol=1e-7, atol=1e-7 * root)


def test_without_uncertainty_it_is_the_learned_method_bit_for_bit(dirty):
    a, b = (wolf.filter(PLANE, dirty.measurements, method=method) for method in ("Learned", OFF))
    for name in ("means", "covs", "weights", "outlier_probabilities", "inflations"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


@pytest.mark.parametrize(("q", "r"), [(0.1, 1.0), (10.0, 1.0), (1.0, 0.1), (1.0, 10.0), (0.1, 10.0)])
def test_wrong_scales_are_estimated_and_reported(q, r, dirty):
    out = wolf.filter(scaled(q, r), dirty.measurements, method="Adaptive")
    estimate = out.learned_noise
    assert 0.4 < estimate.dynamics * q < 2.5
    assert 0.8 < estimate.typical * r < 1.25
    assert 0.03 < estimate.outlier_share < 0.09
    assert out.noise_scales.shape == out.dynamics_scales.shape == (1000,)
    np.testing.assert_allclose(out.dynamics_scales[-1], estimate.dynamics, rtol=0.1)
    held = np.abs(out.means - dirty.states)[:, 0] < 1.96 * np.sqrt(out.covs[:, 0, 0])
    assert held.mean() > 0.9
    assert "times R, dynamics noise" in repr(estimate)


@pytest.mark.parametrize("uncertainty", [0, None])
def test_exact_q_is_not_estimated(uncertainty, dirty):
    out = wolf.filter(scaled(10.0, 1.0), dirty.measurements, method=wolf.Adaptive(q_uncertainty=uncertainty))
    assert (out.dynamics_scales == 1.0).all()
    assert out.learned_noise.dynamics == 1.0
    assert out.noise_scales.std() > 0.01


@settings(max_examples=10)
@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(-2, 2))
def test_units_do_not_matter(first, second, inner):
    """Neither those of the measurement nor those of the state."""
    ys = oracle.random_data(3, 25, outliers=0.1)
    units, turn = np.diag([10.0**first, 10.0**second]), np.diag(10.0 ** np.array([inner, 0.0, -inner, inner]))
    back = np.linalg.inv(turn)
    F, H = turn @ PLANE.F @ back, units @ PLANE.H @ back
    Q, R, cov = turn @ PLANE.Q @ turn, units @ PLANE.R @ units, turn @ np.asarray(PLANE.cov) @ turn
    other = wolf.LinearModel(F, H, Q, R, turn @ PLANE.mean, cov)
    a, b = wolf.filter(PLANE, ys, method="Adaptive"), wolf.filter(other, ys @ units, method="Adaptive")
    np.testing.assert_allclose(a.means @ turn, b.means, rtol=1e-6, atol=1e-8 * 10 ** abs(inner))
    np.testing.assert_allclose(a.dynamics_scales, b.dynamics_scales, rtol=1e-6)


@pytest.mark.bits
def test_chunks_are_the_whole(rng):
    ys = 3 * rng.normal(size=(40, 2))
    ys[25:] += 90.0  # a jump, and a run of rejections across the cut
    whole = wolf.filter(PLANE, ys, method="Adaptive")
    parts = list(wolf.filter_chunks(PLANE, [ys[:28], ys[28:]], method="Adaptive", save="all"))
    np.testing.assert_array_equal(np.concatenate([part.means for part in parts]), whole.means)
    assert (whole.inflations > 1).sum() == 1


def test_step_by_step_many_and_float32_are_the_scan(rng):
    ys = 3 * rng.normal(size=(40, 2))
    ys[10], ys[11, 0], ys[25:] = np.nan, np.nan, ys[25:] + 90.0
    out = wolf.filter(PLANE, ys, method="Adaptive")
    online = wolf.Online(PLANE, "Adaptive")
    means = [(online.step(y), online.mean)[1] for y in ys]
    np.testing.assert_allclose(means, out.means, rtol=1e-9, atol=1e-10)
    many = wolf.filter_many(PLANE, np.stack([ys, ys[::-1]]), method="Adaptive")
    np.testing.assert_allclose(many.means[0], out.means, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(many.dynamics_scales[0], out.dynamics_scales, rtol=1e-9)
    half = wolf.filter(PLANE, ys, method="Adaptive", dtype="float32")
    assert half.dynamics_scales.dtype == np.float32
    np.testing.assert_allclose(half.means, out.means, atol=0.02)


@pytest.mark.parametrize("form", [pytest.param("symmetric", marks=pytest.mark.thorough), "sqrt"])
def test_forms_agree(form):
    ys = oracle.random_data(4, 40, missing=0.1, outliers=0.1)
    a, b = (wolf.filter(PLANE, ys, method=wolf.Adaptive(form=f)) for f in ("auto", form))
    np.testing.assert_allclose(a.means, b.means, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(a.covs, b.covs, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(a.dynamics_scales, b.dynamics_scales, rtol=1e-6)


@pytest.mark.thorough
def test_functions_give_the_estimates_of_matrices(monkeypatch):
    """The same model as functions, by Taylor and by sigma points, with the prior odds of a linear model."""
    monkeypatch.setattr(
        noise_scale_rml,
        "FIRST_LOG_ODDS_NONLINEAR",
        sensitivities.RQ(noise_scale_rml.LOG_ODDS_RANGE[1], noise_scale_rml.FIRST_LOG_ODDS),
    )
    ys = oracle.random_data(4, 40, missing=0.1, outliers=0.1)
    F, H = jnp.asarray(PLANE.F), jnp.asarray(PLANE.H)
    same = wolf.StateSpaceModel(lambda x: F @ x, lambda x: H @ x, PLANE.Q, PLANE.R, PLANE.prior)
    out = wolf.filter(PLANE, ys, method="Adaptive")
    for moments in (wolf.linearization.Taylor(), wolf.linearization.Unscented()):
        other = wolf.filter(same, ys, method=wolf.Adaptive(linearization=moments))
        np.testing.assert_allclose(other.means, out.means, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(other.dynamics_scales, out.dynamics_scales, rtol=1e-5)


def test_sensors_share_r_and_q():
    rows = np.repeat(np.asarray(PLANE.H), 2, axis=0)
    model = wolf.LinearModel(PLANE.F, rows, PLANE.Q, 10 * np.eye(4), *PLANE.prior)
    run = wolf.simulate.trajectory(model, 600, 8)
    ys = run.measurements.copy()
    ys[100:400, 0] += 60.0
    wrong = wolf.LinearModel(PLANE.F, rows, 10 * PLANE.Q, np.eye(4), *PLANE.prior)
    out = wolf.filter(wrong, ys, method=wolf.Adaptive(sensors="each"))
    estimates = out.learned_noise
    assert len(estimates) == 4
    assert len({float(estimate.dynamics) for estimate in estimates}) == 1
    assert 0.03 < estimates[0].dynamics < 0.4
    assert all(5 < estimate.ordinary < 20 for estimate in estimates)
    assert out.noise_scales.shape == (600, 4)
    assert out.dynamics_scales.shape == (600,)
    assert out.outliers[120:400, 0].mean() > 0.95
    assert out.outliers[:, 1:].mean() < 0.05
    held = np.abs(out.means - run.states)[:, :2] < 1.96 * np.sqrt(out.variances[:, :2])
    assert held.mean() > 0.9


def test_networks_estimate_r_and_carry_no_sensitivities(rng):
    features = rng.uniform(-1, 1, (400, 2))
    targets = features[:, 0] + 0.1 * rng.normal(size=400)
    model = wolf.models.mlp(2, (4,), obs_var=1.0)
    out = wolf.filter(model, targets, inputs=features, method="Adaptive", save=lambda state, info: info.noise_scale)
    assert out.final.memory.base.scale_estimates.sensitivities is None
    assert out.saved[-1] < 0.1


def test_priors_are_weighted_by_bayes_with_a_fixed_share():
    """Brute force: the density of each residual under each prior's counts, and a share returned to the start."""
    level = wolf.models.local_level(level_var=0.5, obs_var=1.0)
    ys = np.random.default_rng(3).standard_t(2.5, 120)
    method = GaussianFilter(noise=AdaptiveNoiseScales(0, 0))  # no scale factors: the components are fixed
    keep = lambda state, info: (state.memory, info.residual[0], info.innovation_cov[0, 0] - 1.0)  # noqa: E731
    memory, residuals, signals = wolf.filter(level, ys, method=method, save=keep).saved
    rule = method.noise
    first = np.array([bell.weight for bell in rule.priors])
    weights, counts = first.copy(), np.asarray(method.init(level).memory.counts)
    for t, (e, g) in enumerate(zip(residuals, signals, strict=True)):
        spread = g + np.array(rule.sizes)
        densities = np.exp(-0.5 * e**2 / spread) / np.sqrt(spread)
        foresaw = (counts * densities).sum(1) / counts.sum(1)
        weights = SHARED_WEIGHT * first + (1 - SHARED_WEIGHT) * weights * foresaw / (weights * foresaw).sum()
        np.testing.assert_allclose(memory.weights[t], weights, rtol=2e-3)
        counts = memory.counts[t]
    assert weights[1] > 2 * first[1]  # such noise is wider than the narrow prior


@pytest.mark.parametrize("priors", [(), ((0.4, 0.0, 1.0),), ((np.inf, 1.0, 1.0),)])
def test_degenerate_priors_raise(priors):
    with pytest.raises(ValueError, match="priors must be at least one"):
        AdaptiveNoiseScales(priors=priors)


@pytest.mark.parametrize("sizes", [(1.0, 0.25), (1.0, 1.0, 4.0)])
def test_unsorted_sizes_raise(sizes):
    with pytest.raises(ValueError, match="sizes must increase"):
        AdaptiveNoiseScales(sizes=sizes)


@pytest.mark.parametrize(("share", "patience"), [(0.01, 5), (0.05, 5), (0.1, 7), (0.2, 9), (0.3, 12), (0.9, 22)])
def test_patience_depends_on_the_outlier_rate(share, patience, x64):
    counts = np.full(len(SCALES), 1e-12)
    counts[[3, -1]] = 1 - share, share  # sizes 1 and 10,000
    np.testing.assert_allclose(NoiseEstimate(SCALES, counts).outlier_share, share)
    method = GaussianFilter(noise=JumpRecovery(OFF.noise.base, grows=True))
    state = method.init(PLANE)
    rule = state.memory.base._replace(counts=jnp.asarray(1e8 * counts)[None])
    for t, least in ((0, 5), (20, 6)):  # at first the prior may be wrong
        begun = method.noise._begin_run(state.memory._replace(base=rule), t)
        assert np.ceil(method.noise._patience(begun, 0)) == max(patience, least)


def test_the_possible_outlier_rate_is_two_standard_deviations_above_the_rate():
    counts = np.full(len(SCALES), 1e-12)
    counts[[3, -1]] = 90.0, 10.0
    found = NoiseEstimate(SCALES, counts)
    np.testing.assert_allclose(found.possible_share, (10.0 + np.sqrt(40.5)) / 100.0, rtol=1e-9)


def test_an_accepted_jump_restores_the_counts(rng, x64):
    ys = np.sqrt(10.0) * rng.normal(size=(60, 2))
    ys[40:] += 500.0
    kept = wolf.filter(PLANE, ys, method="Adaptive", save=lambda state, info: (state.memory, info.inflation)).saved
    memory, inflations = kept
    (won,) = np.flatnonzero(inflations > 1)
    assert isinstance(memory, JumpEvidence)
    rule, late = wolf.Adaptive().noise.base, np.asarray(memory.base.counts[won])
    shares = [
        rule.noise_estimate(jax.tree.map(lambda leaf, t=t: leaf[t], memory.base)).outlier_share
        for t in (39, won - 1, won)
    ]
    assert shares[1] > 0.05
    assert shares[2] == pytest.approx(shares[0], abs=1e-3)
    np.testing.assert_array_equal(memory.base.weights[won], memory.base.weights[39])
    forgotten = rule.forgetting ** (won - 40)  # as if those steps had had no measurement
    first = np.asarray(prior_counts(rule.sizes, rule.priors, late.dtype)[0])
    np.testing.assert_allclose(late[:, :3], (first + forgotten * (memory.base.counts[39] - first))[:, :3], atol=0.01)
    assert (late >= first - 1e-12).all()
    assert (memory.base.counts[won - 1] != memory.base.counts[39]).any()
    assert (memory.base.scale_estimates.sensitivities.cov[won] == 0.0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"q_uncertainty": -1.0}, "q_uncertainty"),
        ({"estimate_autocorrelation": "no"}, "estimate_autocorrelation must be True or False"),
        ({"r_uncertainty": "factor 2"}, "r_uncertainty"),
        ({"patience": 1}, "patience must be at least 2"),
        *(({"patience": odd}, "patience must be one number of at least 2; got") for odd in ([5], [5, 6], None, {}, 5j)),
        ({"patience": np.array([5.0, 6.0])}, "patience must be one number of at least 2; got"),
        *(({"q_uncertainty": odd}, "q_uncertainty must be one number from 0") for odd in (1j, {}, "1", [1.0], True, 5)),
        *(
            ({"r_uncertainty": odd}, "r_uncertainty must be one number from 0")
            for odd in (1j, {}, "1", [1.0], -1, np.nan)
        ),
        ({"sensors": "all"}, "sensors must be one whole number"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=message):
        wolf.methods.make("Adaptive", **options)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["q_uncertainty", "r_uncertainty"])
def test_negligible_uncertainty_is_none(name, dtype):
    ys = oracle.random_data(4, 40, missing=0.1, outliers=0.1)
    sure = wolf.filter(PLANE, ys, method=wolf.Adaptive(**{name: 0}), dtype=dtype)
    for small in (1e-300, 1e-160, 1e-20, 1e-7, 1e-6, 1e-4):
        out = wolf.filter(PLANE, ys, method=wolf.Adaptive(**{name: small}), dtype=dtype)
        np.testing.assert_allclose(out.means, sure.means, rtol=1e-4, atol=1e-4)


def test_smoothing_uses_the_estimated_q(dirty):
    """A filter that scales Q is that of another model: smooth this one and compare."""
    ys = dirty.measurements[:60]
    smoothed = wolf.smooth(wolf.filter(scaled(10.0, 1.0), ys, method="Adaptive"))
    out = smoothed.filtered
    assert (out.inflations == 1.0).all()
    noise = 10.0 * out.dynamics_scales[:, None, None] * np.asarray(PLANE.Q)[None]
    scaled_q = wolf.LinearModel(PLANE.F, PLANE.H, noise, PLANE.R, *PLANE.prior)
    again = dataclasses.replace(
        out, model=scaled_q, saved={k: v for k, v in out.saved.items() if k != "dynamics_scales"}
    )
    np.testing.assert_allclose(wolf.smooth(again).means, smoothed.means, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(wolf.smooth(again).covs, smoothed.covs, rtol=1e-8)
    paths = wolf.sample_paths(out, num=400, key=0)
    deviation = np.sqrt(np.diagonal(smoothed.covs, axis1=1, axis2=2))
    np.testing.assert_allclose(paths.mean(0), smoothed.means, atol=5 * deviation.max() / np.sqrt(400))
    np.testing.assert_allclose(paths.std(0) / deviation, 1.0, atol=0.25)


@pytest.mark.parametrize("method", ["Learned", "Adaptive", "each"])
def test_forecasts_use_the_estimated_noise(method):
    level = wolf.models.local_level(level_var=0.1, obs_var=1.0)
    rng = np.random.default_rng(5)
    truth = np.cumsum(np.sqrt(0.1) * rng.normal(size=(100, 320)), axis=1)
    ys = truth + np.sqrt(6.0) * rng.normal(size=truth.shape)
    chosen = wolf.Adaptive(sensors="each") if method == "each" else method
    ahead = wolf.forecast(wolf.filter_many(level, ys[:, :300], method=chosen), steps=20)
    held = (ys[:, 300:, None] > ahead.lower) & (ys[:, 300:, None] < ahead.upper)
    low, high = (0.83, 0.97) if method == "Learned" else (0.93, 0.97)
    assert low < held.mean() < high


@pytest.mark.thorough
def test_reweighting_uses_the_noise_scale_of_each_step(dirty):
    """R is ten times larger from the middle on; later measurements keep their own scale."""
    rng = np.random.default_rng(4)
    late = np.arange(600) >= 300
    ys = dirty.states[:600, :2] + np.sqrt(np.where(late, 100.0, 10.0))[:, None] * rng.normal(size=(600, 2))
    again = wolf.smooth(wolf.filter(PLANE, ys, method="Adaptive"), reweight=True)
    assert again.weights[:280].mean() > 0.8
    assert again.weights[350:].mean() < 0.5
    error = np.sqrt(((again.means - dirty.states[:600])[:, :2] ** 2).mean())
    assert error < 1.5


def test_wrong_models_are_reported_in_words(dirty):
    out = wolf.filter(scaled(1.0, 1 / 30), dirty.measurements, method="Adaptive")
    assert any(
        "R is far off: the covariance of the measurement noise is" in remark for remark in out.learned_noise.remarks
    )
    assert "R is far off" in repr(out)
    assert wolf.filter(PLANE, dirty.measurements, method="Adaptive").learned_noise.remarks == ()
    for off, said in ((1 / 30, True), (1.0, False), (30.0, True)):
        counted = wolf.filter(scaled(1.0, off), dirty.measurements, method="Learned")
        assert ("R is off: the noise covariance is" in repr(counted)) == said
        assert ("let method='Adaptive' estimate the scale of R" in repr(counted)) == said
    few = wolf.filter(PLANE, dirty.measurements[:5], method="Adaptive")
    assert "the measurements so far do not determine the scale of Q" in repr(few)
    limit = NoiseEstimate(SCALES, np.ones(12), 1e4, sensitivities.RQ(0.1, 0.1))
    assert any("limit of the estimate" in remark for remark in limit.remarks)
    still = wolf.filter(
        PLANE, 3.0 + 1e-4 * dirty.measurements
    ).learned_noise.remarks  # r is known to a factor of 20, and is 1e-4
    assert any("R is far off" in remark for remark in still)


def test_zero_q_is_not_reported():
    """A constant state, as the coefficients of a regression: a Q of zero has no scale."""
    still = wolf.LinearModel(np.eye(2), np.eye(2), np.zeros((2, 2)), np.eye(2), np.zeros(2), np.eye(2))
    ys = np.random.default_rng(0).normal(size=(200, 2))
    out = wolf.filter(still, ys)
    assert "Q" not in repr(out.learned_noise)
    assert out.learned_noise.remarks == ()
    alone = wolf.filter(still, ys, method=wolf.Adaptive(q_uncertainty=0))
    np.testing.assert_allclose(out.means, alone.means, rtol=1e-9)
    assert "times Q" in repr(wolf.filter(PLANE, ys).learned_noise)


LEVEL = wolf.models.local_level(level_var=0.1, obs_var=1.0)


@pytest.mark.parametrize(
    "method", ["Adaptive", "Learned", wolf.Adaptive(q_uncertainty=0), wolf.Adaptive(sensors="each")]
)
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_without_usable_measurements_nothing_is_reported(method, value):
    out = wolf.filter(PLANE, np.full((20, 2), value), method=method)
    estimates = out.learned_noise if isinstance(out.learned_noise, list) else [out.learned_noise]
    for estimate in estimates:
        assert estimate.measured == 0
        assert repr(estimate) == "nothing, as no measurement could be used"
        assert len(estimate.remarks) == 1
        assert "no measurement could be used" in estimate.remarks[0]
    assert "times R" not in repr(out)


def test_too_few_measurements_are_reported():
    for method in ("Adaptive", "Learned", wolf.Adaptive(q_uncertainty=0)):
        for ys in ([1.0], [1.0, np.nan, 2.0]):
            estimate = wolf.filter(LEVEL, ys, method=method).learned_noise
            assert estimate.remarks == (
                f"too few measurements ({estimate.measured}) to estimate the scale of the noise",
            )
    few = wolf.filter(LEVEL, [1.0, 2.0, 0.5]).learned_noise.remarks
    assert any("do not determine the scale of R" in remark for remark in few)
    sure = wolf.filter(LEVEL, [1.0, 2.0, 0.5], method=wolf.Adaptive(r_uncertainty=0)).learned_noise.remarks
    assert not any("scale of R" in remark for remark in sure)
    enough = wolf.simulate.trajectory(LEVEL, 200, 1).measurements
    assert wolf.filter(LEVEL, enough).learned_noise.remarks == ()


def test_without_measurements_there_is_no_estimate():
    online = wolf.Online(LEVEL)
    assert repr(online.learned_noise) == "nothing, as no measurement could be used"
    online.step(None)
    assert any("do not determine the scale of R" in remark for remark in online.learned_noise.remarks)


def test_number_of_measurements_is_unknown_for_parts_of_a_run():
    ys = wolf.simulate.trajectory(LEVEL, 60, 1).measurements
    out = wolf.filter(LEVEL, ys)
    assert out.learned_noise.measured == 60
    assert out[:2].learned_noise.measured is None
    *_, last = wolf.filter_chunks(LEVEL, [ys[:58], ys[58:]], save="all")
    assert last.learned_noise.measured is None
    many = wolf.filter_many(LEVEL, [ys, ys[:30]])
    assert [many[i].learned_noise.measured for i in range(2)] == [60, 30]


@pytest.mark.parametrize("method", ["Adaptive", "Learned", "WoLF-TMD"])
@pytest.mark.parametrize("kind", ["alternating", "infinite", "far"])
def test_data_far_from_the_model_are_reported(method, kind):
    noise = np.random.default_rng(0).normal(size=300)
    ys = {"alternating": 1e300 * (-1.0) ** np.arange(300), "infinite": np.full(300, np.inf), "far": 1e9 + noise}[kind]
    out = wolf.filter(LEVEL, ys, method=method)
    summary = repr(out).partition("final state")[2]
    assert "300 of 300 measurements were rejected: the prior mean or the level of the model is far from the" in summary
    assert not any(word in summary for word in ("autocorrelated", "Lower Q", "raise Q", "Fit or raise it"))


def test_data_followed_after_some_rejections_are_not_reported_as_far():
    ys = wolf.simulate.trajectory(LEVEL, 100, 1).measurements.copy()
    ys[10:40:2] += 1e4
    assert "were refused" not in repr(wolf.filter(LEVEL, ys))


@pytest.mark.parametrize("uncertainty", [0, None])
def test_exact_q_is_not_reported(uncertainty):
    ys = wolf.simulate.trajectory(LEVEL, 200, 1).measurements
    estimate = wolf.filter(LEVEL, ys, method=wolf.Adaptive(q_uncertainty=uncertainty)).learned_noise
    assert "Q" not in repr(estimate)
    assert not estimate.estimates_dynamics


@pytest.mark.parametrize("width", [1e4, 1e8, 1e18])
def test_vague_priors_do_not_bias_r(width):
    """Estimates hardly depend on the width; no measurement is rejected, and all results are finite."""
    start = wolf.simulate.trajectory(PLANE, 100, 1)
    vague = wolf.LinearModel(PLANE.F, PLANE.H, PLANE.Q, 0.1 * PLANE.R, PLANE.mean, width * np.eye(4))
    out = wolf.filter(vague, start.measurements)
    assert out.outliers.sum() <= 2
    assert 5.0 < out.noise_scales[-1] < 15.0
    held = np.abs(out.means - start.states)[5:, :2] < 1.96 * np.sqrt(np.diagonal(out.covs, axis1=1, axis2=2)[5:, :2])
    assert held.mean() > 0.88


def test_a_diffuse_prior_teaches_nothing_until_the_state_is_observed():
    """Each of the first twenty-four readings of a season determines a state; the next ones inform about the noise."""
    season = wolf.models.structural(wolf.models.level(0.1), wolf.models.seasonal(24, 0.01), obs_var=1.0)
    size = season.state_dim
    season = wolf.LinearModel(season.F, season.H, season.Q, season.R, np.zeros(size), 1e6 * np.eye(size))
    ys = np.random.default_rng(4).normal(size=2 * size + 10)
    estimates = [wolf.filter(season, ys[:steps]).final.memory.base for steps in (1, size, 2 * size + 10)]
    first, observed, last = (jax.tree.leaves((each.counts, each.scale_estimates[:3])) for each in estimates)
    jax.tree.map(np.testing.assert_array_equal, observed, first)
    assert all(np.any(new != old) for new, old in zip(last, first, strict=True))


def test_a_large_q_is_no_diffuse_prior():
    """The predicted variance is 2,000 times R in every step, and the outlier rate is estimated all the same."""
    level = wolf.models.local_level(level_var=2e3, obs_var=1.0)
    run = wolf.simulate.trajectory(level, 400, 3)
    ys = run.measurements[:, 0] + np.where(np.arange(400) % 5 == 0, 1e4, 0.0)
    assert wolf.filter(level, ys).learned_noise.outlier_share > 0.1


def test_autocorrelated_noise_is_not_called_a_wrong_r_and_r_can_be_a_lower_bound():
    level = wolf.models.local_level(level_var=1.0, obs_var=1.0)
    rng, covered = np.random.default_rng(9), []
    truth, noise = np.cumsum(rng.normal(size=(20, 200)), 1), rng.normal(size=(20, 200))
    for t in range(1, 200):
        noise[:, t] = 0.9 * noise[:, t - 1] + np.sqrt(0.19) * noise[:, t]
    for method in (wolf.Adaptive(), wolf.Adaptive(r_is_lower_bound=True)):
        out = wolf.filter_many(level, truth + noise, method=method)
        covered.append((np.abs(out.means[..., 0] - truth) < 1.96 * np.sqrt(out.covs[..., 0, 0])).mean())
        assert (out.noise_scales >= 0.99).all() == (method != wolf.Adaptive())
    assert covered[0] < 0.7
    assert covered[1] > 0.85
    remarks = wolf.filter(level, (truth + noise)[0]).learned_noise.remarks
    assert any("either R is too large, or the noise is autocorrelated" in each for each in remarks)
    assert not any("R is far off" in each for each in remarks)
