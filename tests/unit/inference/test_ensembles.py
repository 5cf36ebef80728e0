"""Ensembles against closed forms, limits and theorems; their targets on chaotic models are in test_ensemble_targets."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.optimize import linear_sum_assignment

import wolf
from wolf.engine.measurements import preprocess
from wolf.inference import ensembles
from wolf.inference.ensembles.observation_ensemble import innovation_scores, observe_ensemble
from wolf.numerics.jax_compat import enable_x64
from wolf.numerics.pytree import cast, from_dict, to_dict

NAMES = [name for name in wolf.methods.names() if isinstance(wolf.methods.make(name), wolf.EnsembleFilter)]
PRINTED = {"EnKF", "AP-EnKF", "PP-EnKF", "Hub-EnKF"}
ROBUST = [name for name in NAMES if name.startswith("WoLF")] + ["AP-EnKF", "PP-EnKF", "Hub-EnKF"]
EXACT = {
    "stochastic": ensembles.Stochastic(),
    "ETKF": ensembles.ETKF(),
    "EnSRF": ensembles.EnSRF(),
}
FIXED = wolf.weights.PerCoordinate(wolf.MahalanobisIMQ(2.0, metric="R"))
STEPS = 24
QUICK = {"WoLF-EnKF", "WoLF-ETKF"}
PARTS = QUICK | {"EnKF", "PP-EnKF", "WoLF-LETKF"}  # the other rows are made of the same parts
each_method = pytest.mark.parametrize("name", NAMES)


def rows(names):
    """Parametrise over methods, those made of parts that others have only in long runs."""
    later = {name: pytest.mark.thorough if name in PARTS else pytest.mark.slow for name in set(names) - QUICK}
    return pytest.mark.parametrize("name", [pytest.param(name, marks=later.get(name, ())) for name in names])


def three_sensors(obs_cov=None):
    """A linear model of three states seen by three sensors, one of them of a sum."""
    F = np.array([[1.0, 0.1, 0.0], [0.0, 0.9, 0.1], [0.0, 0.0, 0.8]])
    H = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
    R = np.diag([0.5, 1.0, 2.0]) if obs_cov is None else obs_cov
    return wolf.LinearModel(F, H, 0.2 * np.eye(3), R, np.zeros(3), np.diag([1.0, 2.0, 3.0]))


@jax.jit
def update(method, now, state, y, key):
    return method.update(now, state, y, None, key)


def one_step(model, method, y, key=0):
    """Update once from the prior."""
    with enable_x64(True):
        model, method = cast(model, np.float64), cast(method, np.float64)
        state = method.init(model, jax.random.key(key))
        after, info = update(method, model.at(0), state, preprocess(jnp.asarray(y)), jax.random.key(key))
        return jax.tree.map(np.asarray, (state, after, info))


def deviations(states, ys, seed, rows, cols=None):
    """A sight whose members predict at random, for algebra that holds whatever they say."""
    rng = np.random.default_rng(seed)
    members = rng.normal(size=(rows, states))
    H = rng.normal(size=(ys, states))
    R = np.diag(rng.uniform(0.5, 2.0, ys)) if cols is None else cols
    model = wolf.LinearModel(np.eye(states), H, np.eye(states), R, np.zeros(states), np.eye(states))
    return model, jnp.asarray(members), rng.normal(size=ys), rng.uniform(0, 1, ys)


@pytest.mark.thorough
@pytest.mark.parametrize("analysis", EXACT.values(), ids=EXACT.keys())
def test_a_linear_ensemble_converges_to_the_weighted_kalman_filter_at_the_monte_carlo_rate(analysis):
    """One update of the prior; a hundredfold ensemble must be about ten times as close."""
    model, y = three_sensors(), np.array([1.0, -4.0, 3.0])
    weighted = wolf.WoLF(FIXED)
    exact = wolf.filter(model, y[None], method=weighted, update_first=True)
    errors = []
    for size in (400, 40_000):
        method = wolf.EnsembleFilter(size, analysis, weight=FIXED)
        finals = [one_step(model, method, y, key)[1] for key in range(4)]
        mean = [np.abs(final.mean - exact.means[0]).max() for final in finals]
        spread = [np.abs(np.cov(final.members.T) - exact.covs[0]).max() for final in finals]
        errors.append(np.mean(mean) + np.mean(spread))
    assert errors[1] < 0.05
    assert 4 < errors[0] / errors[1] < 25


def test_the_printed_filters_do_not_converge_to_the_weighted_kalman_filter():
    """Their gain comes from unweighted predictions: half-believed sensors keep their share of it."""
    model, y = three_sensors(np.array([[0.5, 0.0, 0.0], [0.0, 1.0, 0.8], [0.0, 0.8, 2.0]])), np.array([1.0, -6.0, 1.0])
    gate = lambda residual, obs_cov, innovation_cov: jnp.where(jnp.abs(residual) > 4.0, 0.0, 1.0)  # noqa: E731
    exact = wolf.filter(model, y[None], method=wolf.WoLF(gate), update_first=True).means[0]
    near, far = (
        one_step(model, wolf.EnsembleFilter(100_000, analysis, weight=weight, scope=scope), y)[1].mean
        for analysis, weight, scope in (
            (ensembles.Stochastic(), gate, "pooled"),
            (ensembles.SampledGain(), ensembles.AveragedParticle(20.0), "observation"),
        )
    )
    assert np.abs(near - exact).max() < 0.02
    assert np.abs(far - exact).max() > 0.1


@pytest.mark.parametrize("members", [5, 40], ids=["fewer members", "more members"])
@pytest.mark.parametrize("name", ["stochastic", "DEnKF", "ETKF", "EnSRF"])
def test_both_solution_spaces_are_the_textbook_update(name, members, x64):
    """Naive NumPy with explicit inverses, 12 observations, weights between 0 and 1."""
    analysis = EXACT.get(name, ensembles.DEnKF())
    model, states, y, weight = deviations(6, 12, 1, members)
    sight = observe_ensemble(model, states, preprocess(jnp.asarray(y)), None) if name != "EnSRF" else None
    if sight is None:
        sight = observe_ensemble(wolf.statespace.with_variances(model).at(0), states, preprocess(jnp.asarray(y)), None)
    mean = states.mean(0)
    draws = jax.random.normal(jax.random.key(2), (members, 12))
    got = analysis(mean, states - mean, sight, jnp.asarray(weight), draws, jax.random.key(1), None)

    A, Y = np.asarray(states - mean), np.asarray((states - mean) @ model.H.T) * weight
    e = weight * (y - model.H @ np.asarray(mean))
    K = A.T @ Y @ np.linalg.inv(Y.T @ Y + (members - 1) * model.R)
    xi = np.asarray(draws - draws.mean(0)) * np.sqrt(members / (members - 1)) * np.sqrt(np.diag(model.R))
    after = A + (e - Y + xi) @ K.T if name == "stochastic" else A - 0.5 * Y @ K.T
    if name in ("ETKF", "EnSRF"):
        np.testing.assert_allclose(got.mean, mean + K @ e, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(got.anomalies.T @ got.anomalies, A.T @ A - K @ Y.T @ A, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(got.anomalies.sum(0), 0, atol=1e-9)
    else:
        np.testing.assert_allclose(got.mean, mean + (0 if name == "stochastic" else K @ e), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(got.anomalies, after, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("members", [5, 40], ids=["fewer members", "more members"])
def test_own_weights_for_each_member_are_own_gains(members, x64):
    model, states, y, _ = deviations(4, 12, 3, members)
    weights = np.random.default_rng(4).uniform(0, 1, (members, 12))
    sight = observe_ensemble(model, states, preprocess(jnp.asarray(y)), None)
    mean, draws = states.mean(0), jax.random.normal(jax.random.key(2), (members, 12))
    key, args = jax.random.key(1), (states.mean(0), states - states.mean(0), sight)
    got = ensembles.Stochastic()(*args, jnp.asarray(weights), draws, key, None)
    for i in (0, members - 1):
        alone = ensembles.Stochastic()(*args, jnp.asarray(weights[i]), draws, key, None)
        np.testing.assert_allclose(got.anomalies[i], alone.anomalies[i], rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(got.mean, mean)


@pytest.mark.parametrize("members", [5, 40])
def test_likelihood_and_nis_are_those_of_a_dense_gaussian(members, x64):
    from scipy.stats import multivariate_normal

    model, states, y, _ = deviations(6, 12, 5, members)
    y[4] = np.nan
    sight = observe_ensemble(model, states, preprocess(jnp.asarray(y)), None)
    keep = ~np.isnan(y)
    predicted = np.asarray(states) @ model.H.T
    S = (np.cov(predicted.T) + model.R)[np.ix_(keep, keep)]
    expected = multivariate_normal(predicted.mean(0)[keep], S).logpdf(y[keep])
    nis, log_det = innovation_scores(sight)
    np.testing.assert_allclose(-0.5 * (nis + log_det + keep.sum() * np.log(2 * np.pi)), expected, rtol=1e-9)


@pytest.mark.parametrize(
    "weight", [wolf.MahalanobisIMQ(3.0, metric="S"), wolf.StudentWeight(), wolf.Tukey(9.0, metric="R")]
)
def test_a_pooled_weight_needs_no_dense_matrix(weight, x64):
    """More observations than members, against the same weight given dense covariances."""
    from wolf.inference.ensembles.robust_weights import weigh

    model, states, y, _ = deviations(6, 12, 6, 5)
    y[2] = np.nan
    for noise in (model, wolf.statespace.with_variances(model)):
        sight = observe_ensemble(noise.at(0), states, preprocess(jnp.asarray(y)), None)
        seen = jnp.asarray(~np.isnan(y), float)
        S = sight.deviations.T @ sight.deviations / 4 + sight.noise.matrix()
        dense = weight(sight.residual, sight.noise.matrix(), S, seen)
        np.testing.assert_allclose(weigh(weight, "pooled", sight), seen * dense, rtol=1e-9)


@pytest.mark.slow
def test_letkf_without_bounds_is_etkf_and_a_localised_gain_without_bounds_is_the_plain_one():
    model, y = wolf.models.lorenz96(12, obs_var=1e-3), 8.0 + 0.1 * np.random.default_rng(0).normal(size=12)
    far, weight = ensembles.Ring(np.inf), wolf.MahalanobisIMQ(metric="S")

    def members(analysis, localisation=None):
        return one_step(model, wolf.EnsembleFilter(10, analysis, localisation=localisation, weight=weight), y)[
            1
        ].members

    np.testing.assert_allclose(members(ensembles.LETKF(), far), members(ensembles.ETKF()), rtol=1e-9)
    for analysis in (ensembles.Stochastic(), ensembles.DEnKF(), ensembles.EnSRF()):
        np.testing.assert_allclose(members(analysis, far), members(analysis), rtol=1e-9)
        near = members(analysis, ensembles.Ring(1.0))
        assert np.abs(near - members(analysis)).max() > 1e-3


@pytest.mark.parametrize("name", ["EnKF-Exact", "WoLF-EnKF", "WoLF-ETKF"])
def test_two_wasserstein_influence_is_bounded_only_with_weights(name):
    """The distance between posterior ensembles of a clean and a contaminated measurement, by optimal transport."""
    model, method = three_sensors(), wolf.methods.make(name, num_members=60)
    reference = one_step(model, method, np.zeros(3))[1].members
    distances = []
    for size in (1e1, 1e2, 1e4, 1e6):
        hit = np.asarray(one_step(model, method, np.array([size, 0.0, 0.0]))[1].members)
        cost = ((np.asarray(reference)[:, None] - hit[None]) ** 2).sum(-1)
        distances.append(np.sqrt(cost[linear_sum_assignment(cost)].mean()))
    bounded = name.startswith("WoLF")
    assert (max(distances) < 3.0) == bounded
    assert (distances[-1] > 1e4) == (not bounded)


def test_a_zero_weight_is_a_missing_observation():
    model, y = three_sensors(), np.array([1.0, -4.0, 3.0])
    drop = lambda residual, obs_cov, innovation_cov: jnp.where(residual < -2.0, 0.0, 1.0)[0]  # noqa: E731
    for analysis in (*EXACT.values(), ensembles.DEnKF()):
        method = wolf.EnsembleFilter(30, analysis, weight=drop)
        dropped = one_step(model, method, y)[1].members
        absent = one_step(model, method, np.array([1.0, np.nan, 3.0]))[1].members
        np.testing.assert_allclose(dropped, absent, rtol=1e-9, atol=1e-9)


def test_correlated_noise_is_taken_whole():
    """The exact update with a dense R and N large is the Kalman filter's."""
    R = np.array([[0.5, 0.3, 0.0], [0.3, 1.0, 0.4], [0.0, 0.4, 2.0]])
    model, y = three_sensors(R), np.array([1.0, -1.0, 3.0])
    exact = wolf.filter(model, y[None], method="KF", update_first=True).means[0]
    for analysis in (ensembles.Stochastic(), ensembles.ETKF(), ensembles.DEnKF()):
        got = one_step(model, wolf.EnsembleFilter(100_000, analysis), y)[1].mean
        np.testing.assert_allclose(got, exact, atol=0.03)


def test_rotation_keeps_mean_and_covariance(rng, x64):
    from wolf.inference.ensembles.analysis import rotated

    anomalies = rng.normal(size=(9, 4))
    anomalies -= anomalies.mean(0)
    turned = rotated(jax.random.key(0), jnp.asarray(anomalies))
    np.testing.assert_allclose(turned.sum(0), 0, atol=1e-12)
    np.testing.assert_allclose(turned.T @ turned, anomalies.T @ anomalies, atol=1e-12)
    assert np.abs(turned - anomalies).max() > 0.1


def test_inflation_does_what_its_formula_says(rng, x64):
    before, after = jnp.asarray(rng.normal(size=(8, 3))), jnp.asarray(0.5 * rng.normal(size=(8, 3)))
    spread = lambda a: np.sqrt(np.mean(np.asarray(a) ** 2, axis=0))  # noqa: E731
    np.testing.assert_allclose(ensembles.Multiplicative(1.1).posterior(before, after), 1.1 * after)
    np.testing.assert_allclose(ensembles.RTPP(0.25).posterior(before, after), 0.75 * after + 0.25 * before)
    relaxed = ensembles.RTPS(0.6).posterior(before, after)
    np.testing.assert_allclose(spread(relaxed), 0.4 * spread(after) + 0.6 * spread(before))
    assert (ensembles.RTPS(0.6).posterior(before, 0 * after) == 0).all()


def test_adaptive_inflation_finds_the_missing_spread_and_ignores_outliers(x64):
    """Residuals of variance 1 + 2 x 0.5 with an ensemble that says 0.5: the factor is 2."""
    rng, rule = np.random.default_rng(0), ensembles.Adaptive()
    memory = rule.start(jnp.zeros(()))
    for _ in range(300):
        error = rng.normal(size=50) * np.sqrt(2.0)
        weight = np.ones(50)
        error[:3], weight[:3] = 1e3, 0.0
        memory = rule.learn(memory, jnp.asarray(error), 0.5 * memory.factor * jnp.ones(50), jnp.asarray(weight))
    assert abs(float(memory.factor) - 2.0) < 0.15


def test_gaspari_cohn_is_the_convolution_that_defines_it():
    """The function is the normalised self-convolution of a hat in three dimensions, integrated here numerically."""
    from scipy.integrate import dblquad

    half = np.sqrt(10 / 3)  # where the hat ends, for a radius of 1; the taper ends at twice that

    def hat(r):
        return max(1 - r / half, 0.0)

    def convolved(z):
        def inner(cosine, r):
            return r**2 * hat(r) * hat(np.sqrt(max(r**2 + z**2 - 2 * r * z * cosine, 0.0)))

        return dblquad(inner, 0, half, -1, 1, epsabs=1e-7)[0]

    whole = convolved(0.0)
    for z in (0.4, 1.0, 1.5):
        np.testing.assert_allclose(ensembles.gaspari_cohn(z, 1.0), convolved(z) / whole, atol=1e-4)


def test_near_observations_are_all_that_a_taper_leaves():
    for place, size in ((ensembles.Ring(1.5), 20), (ensembles.Grid((4, 5), 0.7, periodic=(True, False)), 20)):
        numbers, distances = place.near(size, size)
        full = np.asarray(place.taper(place.cross(size, size), jnp.zeros(())))
        rebuilt = np.zeros_like(full)
        for state in range(size):
            taper = np.asarray(place.taper(distances[state], jnp.zeros(())))
            np.add.at(rebuilt[:, state], numbers[state], taper)
        np.testing.assert_allclose(rebuilt, full, atol=1e-6)
        np.testing.assert_allclose(np.diag(place.between(size, size)), 0)
        np.testing.assert_allclose(place.between(size, size), place.cross(size, size))
    ring = ensembles.Ring(2.0).cross(20, 20)
    given = ensembles.Distances(ring.T, ring, 2.0)
    np.testing.assert_array_equal(given.cross(20, 20), ring.astype(np.float32))


@rows(NAMES)
def test_it_runs_follows_the_truth_and_repeats(name, tracking):
    data = wolf.simulate.trajectory(tracking, STEPS, key=3)
    ys = data.measurements.copy()
    ys[5], ys[9, 1] = np.nan, np.nan
    out, again = (wolf.filter(tracking, ys, method=name, key=1) for _ in range(2))
    np.testing.assert_array_equal(out.means, again.means)
    assert out.weights.shape == (STEPS, 2)
    assert (out.weights[5] == 0).all()
    assert out.weights[9, 1] == 0 < out.weights[9, 0]
    assert np.mean(np.abs(out.means - data.states) < 3.5 * np.sqrt(out.variances)) > 0.9


@pytest.mark.bits  # one with random numbers, one with matrices of its own for each state
@pytest.mark.parametrize("name", ["WoLF-EnKF", "WoLF-LETKF"])
def test_a_missing_row_leaves_the_prediction_bit_for_bit(name):
    leaves_the_prediction(name)


@rows([name for name in NAMES if name not in ("WoLF-EnKF", "WoLF-LETKF")])
def test_a_missing_row_leaves_the_prediction_of_the_other_rows(name):
    leaves_the_prediction(name)


def leaves_the_prediction(name):
    model, method = three_sensors(), cast(wolf.methods.make(name, num_members=8, inflation=1.1), np.float64)
    before, after, info = one_step(model, method, np.full(3, np.nan))
    np.testing.assert_array_equal(after.members, before.members)
    assert info.log_likelihood == 0
    assert not info.outlier.any()


@rows(NAMES)
def test_results_are_finite_whatever_comes(name, tracking, rng):
    for bad in (np.inf, 1e300, 1e100) if name in ROBUST else (np.inf, 1e300):
        ys = rng.normal(size=(STEPS, 2))
        ys[0], ys[3, 1], ys[5:7] = bad, bad, bad
        out = wolf.filter(tracking, ys, method=name, key=0)
        assert np.isfinite(out.means).all()
        assert np.isfinite(out.variances).all()


@rows(ROBUST)
def test_only_robust_rows_ignore_a_gross_error(name, tracking, rng):
    ys = rng.normal(size=(STEPS, 2))
    dirty = ys.copy()
    dirty[6] = 1e5
    calm, hit = (wolf.filter(tracking, data, method=name, key=0).means for data in (ys, dirty))
    assert np.abs(calm - hit).max() < 15
    plain = wolf.filter(tracking, dirty, method="EnKF-Exact", key=0).means
    assert np.abs(plain - calm).max() > 1e3


@each_method
def test_config_is_printable_comparable_hashable_and_storable(name):
    method = wolf.methods.make(name, num_members=7, inflation=1.25)
    assert method == wolf.methods.make(name, num_members=7, inflation=1.25)
    assert method != wolf.methods.make(name, num_members=7, inflation=1.5)
    assert hash(method) == hash(wolf.methods.make(name, num_members=7, inflation=1.5))
    assert from_dict(to_dict(method)) == method
    assert "num_members=7" in repr(method)


@each_method
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pure_layer_keeps_the_dtype_and_promotes_nothing(name, dtype, tracking, rng, x64):
    method = wolf.methods.make(name, num_members=6)
    model, method, data = jax.tree.map(
        jnp.asarray, cast((wolf.statespace.with_variances(tracking), method, rng.normal(size=(4, 2))), dtype)
    )
    with jax.numpy_dtype_promotion("strict"):
        shapes = jax.eval_shape(wolf.run_filter, model, data, method, None, jax.random.key(0))
    assert {leaf.dtype.name for leaf in jax.tree.leaves(shapes)} == {dtype, "int32", "bool"}


def test_step_scan_chunks_and_online_agree(tracking, tmp_path):
    ys = wolf.simulate.trajectory(tracking, 24, key=3, outliers=wolf.simulate.StudentT(3.0)).measurements
    method = wolf.methods.make("WoLF-ETKF", num_members=12, inflation=ensembles.Adaptive())
    out = wolf.filter(tracking, ys, method=method, key=5)
    parts = list(wolf.filter_chunks(tracking, (ys[:12], ys[12:]), method=method, key=5, save="all"))
    np.testing.assert_allclose(np.concatenate([part.means for part in parts]), out.means, rtol=1e-12)
    online = wolf.Online(tracking, method, key=5)
    for y in ys[:20]:
        info = online.step(y)
    np.testing.assert_allclose(info.weight, out.weights[19], rtol=1e-9)
    online.save(tmp_path / "state.npz")
    online = wolf.Online.load(tmp_path / "state.npz", tracking)
    for y in ys[20:]:
        online.step(y)
    np.testing.assert_allclose(online.mean, out.final.mean, rtol=1e-9)
    np.testing.assert_allclose(online.state.members, out.final.members, rtol=1e-8, atol=1e-9)


def test_many_series_draw_their_own_numbers(tracking, rng):
    ys = np.stack([rng.normal(size=(10, 2))] * 3)
    out = wolf.filter_many(tracking, ys, method="WoLF-EnKF", key=0)
    assert out.means.shape == (3, 10, 4)
    assert (np.abs(out.means[0] - out.means[1]).max(1) > 0).all()
    np.testing.assert_allclose(out.means[0], out.means[1], atol=2.0)


def test_variances_and_diagonal_matrices_are_the_same_model(rng):
    prior = wolf.Gaussian(np.zeros(3), np.array([1.0, 2.0, 3.0]))
    slim = wolf.StateSpaceModel(None, jnp.sin, np.full(3, 0.1), np.full(3, 0.5), prior)
    full = wolf.StateSpaceModel(
        None, jnp.sin, 0.1 * np.eye(3), 0.5 * np.eye(3), wolf.Gaussian(prior.mean, np.diag(prior.cov))
    )
    ys = rng.normal(size=(12, 3))
    for name, key in (("WoLF-LETKF", 0), ("EKF", None)):
        a, b = (wolf.filter(model, ys, method=name, key=key) for model in (slim, full))
        np.testing.assert_array_equal(a.means, b.means)
    assert wolf.smooth(slim, a).means.shape == (12, 3)
    assert wolf.forecast(slim, a, 3).means.shape == (3, 3)
    assert wolf.Online(slim, "EKF").step(ys[0]).weight == 1
    first, second = (wolf.simulate.trajectory(model, 5, key=0) for model in (slim, full))
    np.testing.assert_allclose(first.measurements, second.measurements, rtol=1e-9)


def test_a_lost_robust_ensemble_listens_to_the_majority_but_not_to_one_bad_row():
    size = 30
    model = wolf.StateSpaceModel(
        None, identity, np.full(size, 0.01), np.ones(size), wolf.Gaussian(np.zeros(size), np.full(size, 0.01))
    )
    ys = np.random.default_rng(0).normal(size=(40, size))
    once, moved = ys.copy(), ys + 10.0
    once[20] += 50.0
    method = wolf.methods.make("WoLF-EnKF", num_members=40)
    stubborn = wolf.methods.make("WoLF-EnKF", num_members=40, patience=0)
    calm = wolf.filter(model, once, method=method, key=0).means
    assert np.abs(calm[21]).mean() < 0.5
    errors = [
        np.abs(wolf.filter(model, moved, method=each, key=0).means[-1] - 10).mean() for each in (method, stubborn)
    ]
    assert errors[0] < 2.0 < 3.0 < errors[1]


def identity(x):
    return x


def test_hundred_thousand_observations_need_no_square_matrix():
    size = 100_000
    prior = wolf.Gaussian(np.zeros(size), np.ones(size))
    model = wolf.StateSpaceModel(None, identity, np.full(size, 0.1), np.ones(size), prior)
    ys = np.random.default_rng(0).normal(size=(2, size))
    ys[1, 7], ys[1, 8] = 1e6, np.nan
    out = wolf.filter(model, ys, method=wolf.methods.make("WoLF-ETKF", num_members=4), key=0, dtype="float32")
    assert out.outliers[1, 7]
    assert out.weights[1, 8] == 0
    assert np.isfinite(out.means).all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda m: wolf.filter(m, np.zeros((3, 3)), method="WoLF-EnKF"), "pass key="),
        (lambda m: wolf.filter_many(m, np.zeros((2, 3, 3)), method="EnKF"), "pass key="),
        (lambda m: wolf.Online(m, "ETKF"), "pass key="),
        (lambda m: wolf.EnsembleFilter(num_members=1), "num_members must be a whole number of at least 2"),
        (lambda m: wolf.EnsembleFilter(analysis=ensembles.LETKF()), "LETKF needs a localisation"),
        (lambda m: wolf.EnsembleFilter(analysis=ensembles.ETKF(), localisation=ensembles.Ring(2.0)), "no local form"),
        (lambda m: wolf.EnsembleFilter(analysis=ensembles.ETKF(), scope="member"), "needs Stochastic"),
        (lambda m: wolf.EnsembleFilter(weight=ensembles.Clipped(1.0)), "belongs to the filters as published"),
        (lambda m: wolf.EnsembleFilter(scope="all"), "scope must be one of"),
        (lambda m: wolf.EnsembleFilter(analysis="ETKF"), "analysis must be one of wolf.ensembles"),
        (lambda m: ensembles.Multiplicative(-1.0), "factor must be positive"),
        (lambda m: ensembles.RTPS(1.5), "share must be between 0 and 1"),
        (lambda m: ensembles.Distances(np.zeros((3, 2)), np.zeros((3, 3)), 1.0), "state_obs must have shape"),
        (
            lambda m: wolf.filter(m, np.zeros((3, 3)), method=wolf.methods.make("EnSRF"), key=0),
            "EnSRF needs independent noise",
        ),
        (
            lambda m: wolf.smooth(m, wolf.filter(m, np.zeros((3, 3)), method="EnKF", key=0)),
            "smooth needs a Gaussian filter",
        ),
        (
            lambda m: wolf.filter(
                wolf.models.lorenz96(8),
                np.zeros((3, 8)),
                method=wolf.methods.make("LETKF", localisation=ensembles.Grid((3, 3), 1.0)),
                key=0,
            ),
            "shape must hold 8 states",
        ),
    ],
)
def test_mistakes_are_named(make, words):
    R = np.array([[0.5, 0.3, 0.0], [0.3, 1.0, 0.4], [0.0, 0.4, 2.0]])
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        make(three_sensors(R))


def test_robust_default_keeps_ninety_seven_per_cent_of_one_observation():
    expected = wolf.MahalanobisIMQ.calibrated(dim=1, efficiency=0.97)
    np.testing.assert_allclose(ensembles.ROBUST.c, expected.c, rtol=1e-9)
    assert wolf.methods.make("WoLF-ETKF").weight == ensembles.ROBUST


@pytest.mark.parametrize("count", [1, 5, 30])
def test_local_transform_is_the_symmetric_root_with_fewer_observations_than_members(count, x64, rng):
    members, degrees = 12, 11
    local, seen, anomaly = rng.normal(size=(count, members)), rng.normal(size=count), rng.normal(size=members)
    near = jnp.arange(count)[None], jnp.ones((1, count))

    class Given:  # a sight of the observations as they are
        def __init__(self):
            self.degrees = degrees

        def weighed(self, weight):
            return jnp.asarray(local.T), jnp.asarray(seen)

    found = ensembles.LETKF()(jnp.zeros(1), jnp.asarray(anomaly)[:, None], Given(), None, None, None, near)
    information = np.eye(members) + local.T @ local / degrees
    gain = np.linalg.solve(degrees * information, local.T @ seen)
    np.testing.assert_allclose(found.mean, [gain @ anomaly], atol=1e-12)
    root = sqrtm(np.linalg.inv(information))
    np.testing.assert_allclose(found.anomalies[:, 0], root @ anomaly, atol=1e-12)
