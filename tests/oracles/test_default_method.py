"""Oracles of the default method: derivatives of its own runs, estimates in many series, reports and documented costs.

A run is replayed by textbook equations with the scales that it had estimated, and must give the same result. Its
derivatives then follow independently of the code that carries them: by finite differences and by JAX.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from tests import oracle

import wolf
from wolf.inference.filters import IMM, Mode
from wolf.inference.noise import noise_scale_rml
from wolf.numerics.jax_compat import enable_x64

pytestmark = pytest.mark.thorough  # the quick tests cover this part elsewhere

STEPS = 12  # of the replayed runs
STRAIGHT = wolf.LinearModel(**oracle.random_system(5))


def swing(x):
    return jnp.array([x[0] + 0.1 * x[1], x[1] - 0.1 * 9.81 * jnp.sin(x[0])])


def look(x):
    return jnp.array([jnp.sin(x[0]), jnp.cos(x[0]) + 0.3 * x[1]])


PENDULUM = wolf.StateSpaceModel(
    swing, look, 0.02 * np.eye(2), np.array([[0.1, 0.02], [0.02, 0.1]]), wolf.Gaussian(np.array([0.5, 0.0]), np.eye(2))
)
RUNS = {
    "matrices": (STRAIGHT, wolf.Adaptive()),
    "functions": (PENDULUM, wolf.Adaptive(linearization=wolf.linearization.Taylor())),
}


class Step(NamedTuple):
    """One step of a run: affine models `F x + drift` and `H x + offset`, noise covariances in use, and mixture moments.

    The information of a weighed measurement is that of noise N, and its covariance gains a spread: it is open how large
    the noise was.
    """

    F: Any
    drift: Any
    Q: Any
    H: Any
    error: Any  # y - offset
    R: Any
    scales: Any
    probabilities: Any
    N: Any
    spread: Any
    far: float  # density of a measurement beyond all components


class Recorded(NamedTuple):
    """A run, step by step, and the results of the filter."""

    prior: Any
    steps: list
    means: Any
    covs: Any
    levels: Any
    parts: Any


def spoiled(scale):
    """Draw measurements with an outlier, one missing row and two partial ones, the last row among them."""
    ys = scale * oracle.random_data(2, STEPS)
    ys[8] += 15.0 * scale
    ys[4, 0], ys[7], ys[STEPS - 1, 1] = np.nan, np.nan, np.nan
    return ys


@pytest.fixture(scope="module", params=list(RUNS))
def recorded(request):
    """Record a run, and check it against textbook equations with its scales."""
    model, method = RUNS[request.param]
    ys = spoiled(1.0 if request.param == "matrices" else 0.3)

    def keep(state, info):
        return state.memory.base, state.mean, state.cov, info.predicted, info.inflation

    rules, means, covs, predicted, inflations = wolf.filter(model, ys, method=method, save=keep).saved
    assert (inflations == 1.0).all()
    with enable_x64(True):
        first = jax.tree.map(np.asarray, method.init(model).memory.base)
        steps = []
        for t, y in enumerate(ys):
            memory = first if t == 0 else jax.tree.map(lambda leaf, t=t: leaf[t - 1], rules)
            estimate = method.noise.base.noise_estimate(memory)
            belief = model.prior if t == 0 else (means[t - 1], covs[t - 1])
            steps.append(step_of(model, belief, y, estimate, predicted.mean[t], predicted.cov[t]))
            mean, cov, _ = go(steps[-1], *map(np.asarray, belief))
            np.testing.assert_allclose(mean, means[t], rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(cov, covs[t], rtol=1e-9, atol=1e-9)
    parts = np.isfinite(ys).mean(1)
    assert len(set(parts)) == 3
    return Recorded(tuple(map(np.asarray, model.prior)), steps, means, covs, rules.scale_estimates, parts)


def step_of(model, belief, y, estimate, mean, cov):
    """Linearise at the run's means, and compute the responsibilities component by component."""
    if model.linear:
        F, H = np.asarray(model.F), np.asarray(model.H)
        drift, offset, Q, R = np.zeros(len(F)), np.zeros(len(H)), model.Q, model.R
    else:
        F, H = (np.asarray(jax.jacfwd(fn)(at)) for fn, at in ((model.dynamics, belief[0]), (model.observe, mean)))
        drift, offset = (
            np.asarray(model.dynamics(belief[0])) - F @ belief[0],
            np.asarray(model.observe(mean)) - H @ mean,
        )
        Q, R = model.dynamics_cov, model.obs_cov
    came = np.isfinite(y)
    H, error, R = H[came], (y - offset)[came], np.asarray(R)[np.ix_(came, came)]
    scales, probabilities = np.asarray(estimate.scales), np.asarray(estimate.probabilities)
    step = Step(F, drift, estimate.dynamics * np.asarray(Q), H, error, R, scales, probabilities, R, 0.0 * cov, 0.0)
    if not came.any():
        return step
    z, signal = error - H @ mean, H @ cov @ H.T
    densities = np.exp([log_normal(z, signal + s * R) for s in scales])
    # Beyond all components: as dense as the widest at its 99 % distance, with u = 0.
    widest = np.linalg.slogdet(2 * np.pi * (signal + scales[-1] * R))[1]
    far = probabilities[-1] * np.exp(-0.5 * (wilson_hilferty(came.sum()) + widest))
    shares = probabilities * densities / (probabilities @ densities + far)
    inverses = np.stack([np.linalg.inv(signal + s * R) for s in scales])
    pulls = inverses @ z
    gain, pull = np.einsum("k,kij->ij", shares, inverses), shares @ pulls
    doubt = np.einsum("k,ki,kj->ij", shares, pulls, pulls) - np.outer(pull, pull)
    return step._replace(N=np.linalg.inv(gain) - signal, spread=cov @ H.T @ doubt @ H @ cov, far=far)


def wilson_hilferty(count):
    """Approximate the 99 % quantile of χ²."""
    spread = 2.0 / (9.0 * count)
    return count * (1.0 - spread + stats.norm.ppf(0.99) * np.sqrt(spread)) ** 3


def log_normal(z, cov, xp=np):
    return -0.5 * (z @ xp.linalg.solve(cov, z) + xp.linalg.slogdet(2 * np.pi * cov)[1])


def go(step, mean, cov, a=0.0, b=0.0, xp=np):
    """Predict and update by textbook equations with fixed weights, e^a R and e^b Q, and a spread in proportion to R."""
    mean, cov = step.F @ mean + step.drift, step.F @ cov @ step.F.T + xp.exp(b) * step.Q
    if not len(step.H):
        return mean, cov, 0.0
    z, signal = step.error - step.H @ mean, step.H @ cov @ step.H.T
    terms = [log_normal(z, signal + xp.exp(a) * s * step.R, xp) for s in step.scales]
    density = xp.log(step.probabilities @ xp.exp(xp.stack(terms)) + step.far)
    gain = xp.linalg.solve(signal + xp.exp(a) * step.N, step.H @ cov).T
    return mean + gain @ z, cov - gain @ step.H @ cov + xp.exp(a) * step.spread, density


def replay(recorded, stop, a=0.0, b=0.0, xp=np):
    """Filter up to a step with noises of other sizes: mean, covariance, and the step's log predictive density.

    The prior goes with R: multiplying P0, Q and R together then leaves all means alone, which is what the slope in a
    rests on.
    """
    mean, cov = recorded.prior
    cov, density = xp.exp(a) * cov, 0.0
    for step in recorded.steps[:stop]:
        mean, cov, density = go(step, mean, cov, a, b, xp)
    return mean, cov, density


def test_scores_of_a_run_are_the_gradient_of_its_log_predictive_density(recorded):
    """By finite differences, at every step; partial measurements count in proportion."""
    tiny = 1e-5
    late = np.stack(recorded.levels.recent, axis=1)
    before = np.concatenate([np.zeros((1, 2)), late[:-1]])
    kept = (
        1.0 - (1.0 - noise_scale_rml.RECENT_DECAY) * recorded.parts
    )  # decay of the sum of recent scores, which a run carries
    found = late - kept[:, None] * before
    for stop in range(1, STEPS + 1):
        ways = [replay(recorded, stop, *(sign * tiny * way))[2] for way in np.eye(2) for sign in (1.0, -1.0)]
        expected = np.array([ways[0] - ways[1], ways[2] - ways[3]]) / (2 * tiny)
        np.testing.assert_allclose(found[stop - 1], expected, rtol=1e-6, atol=1e-7)
    assert np.abs(found).max() > 0.5


def test_sensitivities_of_a_run_equal_automatic_differentiation(recorded):
    """dm/db and dP/db; for nonlinear models with fixed Jacobians, as the method assumes."""
    with enable_x64(True):
        for stop in (1, 5, 8, STEPS):
            run = lambda b, stop=stop: replay(recorded, stop, 0.0, b, jnp)[:2]  # noqa: E731
            (mean, cov), (by_mean, by_cov) = jax.jvp(run, (0.0,), (1.0,))
            np.testing.assert_allclose(mean, recorded.means[stop - 1], rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(cov, recorded.covs[stop - 1], rtol=1e-9, atol=1e-9)
            slopes = recorded.levels.sensitivities
            np.testing.assert_allclose(slopes.mean[stop - 1], by_mean, rtol=1e-8, atol=1e-10)
            np.testing.assert_allclose(slopes.cov[stop - 1], by_cov, rtol=1e-8, atol=1e-10)


def test_sensitivities_to_r_follow_from_homogeneity(recorded):
    """dm/da = -d and dP/da = P - Δ, by JAX, if the prior is scaled with R."""
    with enable_x64(True):
        run = lambda a: replay(recorded, STEPS, a, 0.0, jnp)[:2]  # noqa: E731
        (_, cov), (by_mean, by_cov) = jax.jvp(run, (0.0,), (1.0,))
        slopes = recorded.levels.sensitivities
        np.testing.assert_allclose(by_mean, -slopes.mean[-1], rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(by_cov, cov - slopes.cov[-1], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("factor", [1e-6, 1e4])
def test_scaling_prior_q_and_r_together_leaves_the_means_of_a_kalman_filter_alone(factor):
    ys = spoiled(1.0)
    cov = factor * np.asarray(STRAIGHT.cov)
    other = wolf.LinearModel(STRAIGHT.F, STRAIGHT.H, factor * STRAIGHT.Q, factor * STRAIGHT.R, STRAIGHT.mean, cov)
    a, b = (wolf.filter(model, ys, method="KF") for model in (STRAIGHT, other))
    np.testing.assert_allclose(b.means, a.means, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(b.covs, factor * a.covs, rtol=1e-10)
    # Robust filters weight residuals by their size: with measurements in the same units they scale, too.
    fixed = wolf.Adaptive(q_uncertainty=0, r_uncertainty=0)
    centre, root = offsets(STRAIGHT), np.sqrt(factor)
    for method in ("Learned", fixed):
        a, b = (
            wolf.filter(model, y, method=method)
            for model, y in ((STRAIGHT, ys), (other, centre + root * (ys - centre)))
        )
        np.testing.assert_allclose(b.covs, factor * a.covs, rtol=1e-9)
        np.testing.assert_allclose(b.weights, a.weights, rtol=1e-9)


def offsets(model):
    """Compute the noise-free measurements of the prior mean, (STEPS, M)."""
    F, H = np.asarray(model.F), np.asarray(model.H)
    return np.stack([H @ np.linalg.matrix_power(F, t + 1) @ model.mean for t in range(STEPS)])


PLANE = wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
STILL = wolf.models.local_level(level_var=1e-8, obs_var=1.0, prior=wolf.Gaussian(np.zeros(1), np.eye(1)))
LATE = np.arange(1000) >= 500


def walks(model, count, steps, seed, *, q=1.0, r=1.0, share=0.05, jumps=0.0):
    """Draw states, measurements of which a share is off by up to 100, and the mask of these; q and r may change."""
    rng = np.random.default_rng(seed)
    F = np.eye(model.state_dim) if model.F is None else np.asarray(model.F)
    Q, R, prior = (np.linalg.cholesky(np.asarray(each)) for each in (model.Q, model.R, model.cov))
    sizes = [np.sqrt(np.broadcast_to(each, steps)) for each in (q, r)]
    jumps = np.broadcast_to(jumps, (count, steps, len(F)))
    state, states = model.mean + rng.normal(size=(count, len(F))) @ prior.T, []
    for t in range(steps):
        state = state @ F.T + sizes[0][t] * rng.normal(size=state.shape) @ Q.T + jumps[:, t]
        states.append(state)
    states = np.stack(states, 1)
    sound = states @ np.asarray(model.H).T
    noise = sizes[1][:, None] * rng.normal(size=sound.shape) @ R.T
    hit = rng.random(sound.shape[:2])[..., None] < share
    return states, sound + np.where(hit, rng.uniform(-100.0, 100.0, sound.shape), noise), hit


def errors_of(out, states):
    """Compute the RMSE of the first state in each series, and the coverage of its 95 % interval at each step."""
    error = out.means[..., 0] - states[..., 0]
    return np.sqrt((error**2).sum(1)), np.abs(error) < stats.norm.ppf(0.975) * np.sqrt(out.covs[..., 0, 0])


@pytest.mark.parametrize("form", ["symmetric", "sqrt"])
def test_forms_agree_by_name_with_inputs_and_missing_rows(form):
    us = np.random.default_rng(5).normal(size=(60, 1))
    model = wolf.LinearModel(PLANE.F, PLANE.H, PLANE.Q, PLANE.R, *PLANE.prior, B=np.ones((4, 1)))
    ys = walks(PLANE, 1, 60, 6, jumps=us)[1][0]
    ys[40:] += 300.0  # a jump, accepted by the jump test
    ys[20], ys[30, 0], ys[42, 1], ys[43] = np.nan, np.nan, np.nan, np.nan
    a, b = (wolf.filter(model, ys, inputs=us, method=wolf.Adaptive(form=each)) for each in ("joseph", form))
    np.testing.assert_array_equal(a.inflations > 1, b.inflations > 1)
    assert (a.inflations > 1).sum() == 1
    np.testing.assert_allclose(b.means, a.means, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(b.covs, a.covs, rtol=1e-7, atol=1e-8)
    for name in ("noise_scales", "dynamics_scales", "outlier_probabilities"):
        np.testing.assert_allclose(getattr(b, name), getattr(a, name), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "changed"), [("noise_scales", {"r": 1 + 9 * LATE}), ("dynamics_scales", {"q": 1 + 9 * LATE})]
)
def test_a_tenfold_rise_of_r_or_q_is_found_and_intervals_are_calibrated(name, changed):
    states, ys, _ = walks(PLANE, 60, 1000, 0, **changed)
    out = wolf.filter_many(PLANE, ys)
    found = getattr(out, name)
    assert 0.8 < np.median(found[:, 499]) < 1.25
    assert 5.0 < np.median(found[:, 750]) < 20.0
    other = {"noise_scales": "dynamics_scales", "dynamics_scales": "noise_scales"}[name]
    assert 0.5 < np.median(getattr(out, other)[:, 750]) < 2.0
    _, held = errors_of(out, states)
    assert held[:, :500].mean() > 0.93
    assert held[:, 500:].mean() > 0.90


def test_forecasts_a_hundred_steps_after_a_rise_of_r_are_calibrated():
    _, ys, hit = walks(PLANE, 60, 1000, 0, r=1 + 9 * LATE)
    ahead = wolf.forecast(wolf.filter_many(PLANE, ys[:, :600]), steps=20)
    inside = (ys[:, 600:620] > ahead.lower) & (ys[:, 600:620] < ahead.upper)
    assert inside[~hit[:, 600:620, 0]].mean() > 0.88


def test_patience_grows_with_the_estimated_outlier_rate():
    """Without outliers in the run; `docs/learned-noise.md` states 6, 11 and 15."""
    jumps = np.zeros((60, 600, 4))
    jumps[:, 500, :2] = 300.0
    delays = {}
    for share in (0.0, 0.2, 0.3):
        states, ys, _ = walks(PLANE, 60, 600, 3, share=share, jumps=jumps)
        ys[:, 500:] = states[:, 500:, :2] + np.sqrt(10.0) * np.random.default_rng(4).normal(size=(60, 100, 2))
        out = wolf.filter_many(PLANE, ys)
        won = out.inflations[:, 500:] > 1
        assert won.any(1).all()
        delays[share] = won.argmax(1) + 1  # including the accepted one
        missed = np.linalg.norm((out.means - states)[:, 530:, :2], axis=-1)
        assert (missed < 10.0).mean() > 0.99
    assert ((delays[0.0] >= 6) & (delays[0.0] <= 7)).all()
    assert 10 <= np.median(delays[0.2]) <= 12
    assert 13 <= np.median(delays[0.3]) <= 16
    assert delays[0.0].max() < delays[0.2].min()
    assert np.median(delays[0.2]) < delays[0.3].min()


def over_oracle(model, truth, count, steps, seed):
    """Compute the mean of 100 log J relative to a Kalman filter with the true model and no outliers; and coverage."""
    states, ys, hit = walks(truth, count, steps, seed)
    best, _ = errors_of(wolf.filter_many(truth, np.where(hit, np.nan, ys), method="KF"), states)
    found, held = errors_of(wolf.filter_many(model, ys), states)
    return 100 * np.log(found / best).mean(), held.mean()


@pytest.mark.parametrize(
    ("steps", "q", "r", "most", "least"),
    [
        (50, 1.0, 1.0, 5.0, 0.94),
        (50, 0.1, 1.0, 5.0, 0.89),
        (50, 10.0, 1.0, 19.0, 0.95),
        (50, 1.0, 0.1, 10.0, 0.92),
        (50, 1.0, 10.0, 7.0, 0.95),
        (200, 1.0, 1.0, 3.5, 0.935),
        (200, 0.1, 1.0, 5.5, 0.91),
        (200, 10.0, 1.0, 8.0, 0.94),
        (200, 1.0, 0.1, 5.0, 0.92),
        (200, 1.0, 10.0, 4.5, 0.95),
    ],
)
def test_short_series_cost_what_is_documented(steps, q, r, most, least):
    over, held = over_oracle(PLANE.scaled(q, r), PLANE, 300, steps, 1)
    assert over < most
    assert held > least


@pytest.mark.parametrize(
    ("q", "r", "most", "least"), [(1.0, 1.0, 8.0, 0.93), (10.0, 1.0, 8.0, 0.93), (1.0, 10.0, 26.0, 0.94)]
)
def test_a_constant_level_costs_what_is_documented(q, r, most, least):
    over, held = over_oracle(STILL.scaled(q, r), STILL, 200, 1000, 1)
    assert over < most
    assert held > least


@pytest.mark.parametrize("share", [pytest.param(0.0, marks=pytest.mark.slow), 0.05])
def test_a_light_jump_mode_follows_jumps_better(share):
    """An IMM of two adaptive filters, one with jumps; 1 % of the steps jump by N(0, 10²) in every state."""
    rng = np.random.default_rng(0)
    jumps = np.where(rng.random((40, 600, 1)) < 0.01, 10.0 * rng.normal(size=(40, 600, 4)), 0.0)
    states, ys, _ = walks(PLANE, 40, 600, 1, share=share, jumps=jumps)
    modes, leaves = (Mode(), Mode(dynamics_scale=1000.0)), [[0.99, 0.01], [0.99, 0.01]]
    both = IMM(modes, leaves, wolf.Adaptive())
    (alone, _), (found, held) = (errors_of(wolf.filter_many(PLANE, ys, method=each), states) for each in (None, both))
    assert np.log(found / alone).mean() < -0.02
    assert held.mean() > 0.92


def test_outlier_rates_above_forty_percent_are_reported():
    for share, said in ((0.3, 0), (0.5, 6)):
        many = wolf.filter_many(PLANE, walks(PLANE, 6, 600, 1, share=share)[1])
        words = [many[i].learned_noise.remarks for i in range(6)]
        assert (
            sum(any("of the measurements are classified as outliers" in remark for remark in each) for each in words)
            == said
        )
        assert said or not any(words)


@pytest.mark.parametrize(("q", "r", "letter"), [(1.0, 1e6, "R"), (1e6, 1.0, "Q")])
def test_estimates_at_their_limit_are_reported(q, r, letter):
    ys = walks(PLANE, 4, 1000, 0)[1]
    many = wolf.filter_many(PLANE.scaled(q, r), ys)
    for i in range(4):
        limits = [remark for remark in many[i].learned_noise.remarks if "the limit of the estimate" in remark]
        assert limits
        assert limits[0].startswith(f"{letter} is far off")
        assert limits[0] in repr(many[i])


def test_too_few_measurements_are_reported_until_they_suffice():
    """On tracking after ten and not after two hundred; for a constant level q is undetermined after a thousand."""
    words = "the measurements so far do not determine the scale of Q"
    ys, still = walks(PLANE, 10, 200, 0)[1], walks(STILL, 10, 1000, 0)[1]
    for series, said in ((ys[:, :10], 10), (ys, 0)):
        many = wolf.filter_many(PLANE, series)
        assert sum(words in " ".join(many[i].learned_noise.remarks) for i in range(10)) == said
    estimates = [wolf.filter_many(STILL, still)[i].learned_noise for i in range(10)]
    named = [words in " ".join(estimate.remarks) for estimate in estimates]
    assert sum(named) >= 5
    assert all(
        each or "Q" not in f"{estimate} {estimate.remarks}" for each, estimate in zip(named, estimates, strict=True)
    )


@pytest.fixture(scope="module")
def four():
    """Four sensors, two for each axis, in 80 steps: a bias of one sensor, missing values, and a jump of the state."""
    model = wolf.LinearModel(PLANE.F, np.repeat(PLANE.H, 2, axis=0), PLANE.Q, 10 * np.eye(4), *PLANE.prior)
    jumps = np.zeros((1, 80, 4))
    jumps[:, 55, :2] = 150.0
    ys = walks(model, 1, 80, 7, share=0.0, jumps=jumps)[1][0]
    ys[15:35, 0] += 60.0
    ys[10, 1:3], ys[20], ys[57, 3] = np.nan, np.nan, np.nan
    method = wolf.Adaptive(sensors="each")
    out = wolf.filter(model, ys, method=method)
    assert (out.inflations > 1).sum() == 1
    assert out.outliers[15:20, 0].all()
    return model, method, ys, out


@pytest.mark.bits
def test_chunks_with_per_sensor_noise_are_the_whole(four):
    model, method, ys, out = four
    parts = list(
        wolf.filter_chunks(model, np.split(ys, [18, 57]), method=method, save="all")
    )  # within the bias, and within a run of rejections
    for name in ("means", "covs", "weights", "noise_scales", "dynamics_scales"):
        np.testing.assert_array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(out, name))


def test_online_steps_with_per_sensor_noise_are_the_scan(four):
    model, method, ys, out = four
    online = wolf.Online(model, method)
    rows = [(online.step(y), online.mean, online.cov)[1:] for y in ys]
    means, covs = (np.stack(each) for each in zip(*rows, strict=True))
    np.testing.assert_allclose(means, out.means, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(covs, out.covs, rtol=1e-12, atol=1e-12)


def test_per_sensor_noise_agrees_in_square_root_form(four):
    model, _, ys, out = four
    roots = wolf.filter(model, ys, method=wolf.Adaptive(sensors="each", form="sqrt"))
    np.testing.assert_array_equal(roots.inflations > 1, out.inflations > 1)
    np.testing.assert_allclose(roots.means, out.means, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(roots.covs, out.covs, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(roots.noise_scales, out.noise_scales, rtol=1e-7)
