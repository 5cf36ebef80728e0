"""Diagonal and low-rank beliefs: with all directions they are the dense filter, with few they run on a million."""

import numpy as np
import pytest

import wolf

pytestmark = pytest.mark.thorough  # a part that the quick tests touch elsewhere

STEPS = 40


def keep(state, info):
    return {"residuals": info.residual, "weights": info.weight, "variances": info.innovation_cov}


@pytest.fixture
def examples(rng):
    xs = rng.normal(size=(STEPS, 3))
    ys = np.sin(xs[:, :1]) + 0.1 * rng.normal(size=(STEPS, 1))
    ys[[7, 20], 0] = 50.0, -50.0
    ys[12] = np.nan
    return xs, ys


def covariance(state):
    return np.linalg.inv(np.diag(state.diagonal) + state.directions @ state.directions.T)


@pytest.mark.parametrize("drift", [0.0, 1e-3, "each"])
def test_all_directions_equal_the_dense_filter(drift, examples, rng):
    xs, ys = examples
    drift = rng.uniform(0, 1e-3, 21) if drift == "each" else drift
    model = wolf.models.mlp(3, (4,), obs_var=0.2, prior_var=0.5, drift_var=drift)
    weight = wolf.IMQ(c=2.0)
    low = wolf.filter(model, ys, inputs=xs, method=wolf.LowRank(weight, rank=21), save=keep)
    full = wolf.filter(model, ys, inputs=xs, method=wolf.WoLF(weight), save=keep)
    np.testing.assert_allclose(low.final.mean, full.final.mean, atol=1e-9)
    np.testing.assert_allclose(covariance(low.final), full.final.cov, atol=1e-9)
    np.testing.assert_allclose(low.final.variances, np.diag(full.final.cov), atol=1e-9)
    np.testing.assert_allclose(low.saved["weights"], full.saved["weights"], atol=1e-9)
    np.testing.assert_allclose(low.saved["variances"], full.saved["variances"], atol=1e-9)


def test_vector_weights_and_several_outputs_equal_the_dense_filter(examples, rng):
    xs, ys = examples
    ys = np.hstack([ys, np.cos(xs[:, :1])])
    ys[rng.random(ys.shape) < 0.2] = np.nan
    model = wolf.models.mlp(3, (3,), outputs=2, obs_var=(0.1, 0.3), prior_var=0.5)
    weight = wolf.PerCoordinate(wolf.MahalanobisIMQ(c=2.0))
    low = wolf.filter(model, ys, inputs=xs, method=wolf.LowRank(weight, rank=20), save=keep)
    full = wolf.filter(model, ys, inputs=xs, method=wolf.WoLF(weight), save=keep)
    np.testing.assert_allclose(low.final.mean, full.final.mean, atol=1e-9)
    np.testing.assert_allclose(covariance(low.final), full.final.cov, atol=1e-9)


def test_rank_zero_is_the_variational_diagonal_filter(examples):
    """Precisions add up by the squares of the gradient; the mean moves by the gain of the diagonal belief."""
    xs, ys = examples
    ys = np.nan_to_num(np.clip(ys, -2, 2))
    model = wolf.models.mlp(3, hidden=(), obs_var=0.2, prior_var=0.5)
    out = wolf.filter(model, ys, inputs=xs, method=wolf.LowRank(wolf.Unweighted(), rank=0), save=keep)
    mean, precision = model.mean.copy(), np.full(4, 2.0)
    for x, y in zip(xs, ys[:, 0], strict=True):
        jac = np.append(x, 1.0)
        gain = jac / precision / (jac @ (jac / precision) + 0.2)
        mean, precision = mean + gain * (y - jac @ mean), precision + jac**2 / 0.2
    np.testing.assert_allclose(out.final.mean, mean, atol=1e-12)
    np.testing.assert_allclose(out.final.diagonal, precision, atol=1e-9)


def test_more_directions_come_closer_to_the_dense_filter(rng):
    xs = rng.uniform(-2, 2, (800, 2))
    ys = np.sin(2 * xs[:, 0]) + 0.1 * rng.normal(size=800)
    ys[rng.random(800) < 0.1] += 50.0
    model = wolf.models.mlp(2, (20,), activation="tanh", obs_var=0.1, prior_var=0.1)
    methods = [wolf.LowRank(rank=rank) for rank in (0, 20)] + [wolf.WoLF()]
    errors = [
        np.median(np.abs(wolf.filter(model, ys, inputs=xs, method=m, save=keep).saved["residuals"][400:]))
        for m in methods
    ]
    assert errors[1] < errors[0]
    assert errors[1] < 1.5 * errors[2]


def test_nothing_usable_leaves_the_belief_as_it_is(examples):
    xs, ys = examples
    model = wolf.models.mlp(3, (4,), obs_var=0.2)
    method = wolf.LowRank(rank=3)
    ys[-1] = ys[0]
    whole = wolf.filter(model, ys[:-1], inputs=xs[:-1], method=method, save=keep).final
    for bad in (np.nan, np.inf):
        ys[-1] = bad
        after = wolf.filter(model, ys, inputs=xs, method=method, save=keep).final
        np.testing.assert_allclose(after.mean, whole.mean, rtol=1e-13)
        np.testing.assert_allclose(after.diagonal, whole.diagonal, rtol=1e-13)


def test_results_have_variances_and_no_covariances(examples):
    xs, ys = examples
    out = wolf.filter(wolf.models.mlp(3, (4,)), ys, inputs=xs, method=wolf.LowRank(rank=3))
    assert out.variances.shape == (STEPS, 21)
    assert (out.variances > 0).all()
    with pytest.raises(AttributeError, match="has no covs"):
        out.covs


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 5])
def test_a_million_parameters_run(rank, rng):
    model = wolf.models.mlp(100, (9_900,), obs_var=0.1, prior_var=0.01)
    assert model.state_dim > 1_000_000
    xs, ys = rng.normal(size=(5, 100)), rng.normal(size=5)
    out = wolf.filter(model, ys, inputs=xs, method=wolf.LowRank(rank=rank), save=keep, dtype="float32")
    assert np.isfinite(out.saved["residuals"]).all()
    assert not np.array_equal(out.final.mean, model.mean)


def test_only_models_of_parameters_are_taken():
    with pytest.raises(ValueError, match="LowRank takes models of parameters"):
        wolf.filter(wolf.models.local_level(0.1, 1.0), np.zeros(3), method=wolf.LowRank())
    model = wolf.models.mlp(3, (4,))
    out = wolf.filter(model, np.zeros(3), inputs=np.zeros((3, 3)), method=wolf.LowRank(rank=1))
    with pytest.raises(ValueError, match="forecast needs a Gaussian filter"):
        wolf.forecast(model, out, 2, inputs=np.zeros((2, 3)))
    with pytest.raises(ValueError, match="rank must be a whole number"):
        wolf.LowRank(rank=-1)
