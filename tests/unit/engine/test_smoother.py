"""The smoother equals weighted least squares over the whole path; a forecast equals filtering missing values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests import oracle
from tests.oracle import DT, G, assert_close

import wolf
from wolf.numerics import linalg

STEPS = 12
WEIGHTS = {
    "none": wolf.Unweighted(),
    "joint": wolf.MahalanobisIMQ(c=2.0),
    "gate": wolf.MahalanobisThreshold(c=9.0, metric="S"),
    "per coordinate": wolf.PerCoordinate(wolf.IMQ(c=1.5)),
}


def swing(x, u):
    return jnp.array([x[0] + DT * x[1], x[1] - DT * G * jnp.sin(x[0]) + DT * u[0]])


def look(x, u):
    return jnp.array([jnp.sin(x[0]) + 0.1 * u[0]])


def check(system, ys, us=None, weight="joint", tolerance=1e-8, **options):
    model = wolf.LinearModel(**system)
    out = wolf.filter(model, ys, method=wolf.WoLF(WEIGHTS[weight]), inputs=us, **options)
    means, covs = oracle.batch(system, ys, us, out.weights, **options)
    smoothed = wolf.smooth(model, out)
    assert_close(tolerance, means=(smoothed.means, means), covs=(smoothed.covs, covs))
    return out


@pytest.mark.parametrize("update_first", [False, True], ids=["predict first", "update first"])
@pytest.mark.parametrize("weight", WEIGHTS)
def test_smoother_equals_weighted_least_squares_over_the_whole_path(weight, update_first):
    system = oracle.random_system(1, steps=STEPS, controls=2)
    ys = oracle.random_data(2, STEPS, missing=0.2, outliers=0.3)
    us = np.random.default_rng(3).normal(size=(STEPS, 2))
    out = check(system, ys, us, weight, update_first=update_first)
    assert weight == "none" or out.outliers.any()


@pytest.mark.parametrize("form", ["symmetric", "sqrt"])
def test_smoother_equals_weighted_least_squares_in_every_form(form):
    system = oracle.random_system(1)
    ys = oracle.random_data(2, STEPS, missing=0.2, outliers=0.3)
    model = wolf.LinearModel(**system)
    out = wolf.filter(model, ys, method=wolf.WoLF(form=form))
    smoothed = wolf.smooth(model, out)
    means, covs = oracle.batch(system, ys, weights=out.weights)
    assert_close(1e-8, means=(smoothed.means, means), covs=(smoothed.covs, covs))


@given(seed=st.integers(0, 2**32 - 1), rank=st.integers(0, 2), prior_rank=st.integers(0, 3))
@example(seed=65, rank=0, prior_rank=2)
@example(seed=241, rank=1, prior_rank=0)
def test_smoother_is_exact_without_noise_in_some_directions(seed, rank, prior_rank):
    rng = np.random.default_rng(seed)
    noise, prior = rng.normal(size=(3, rank)), rng.normal(size=(3, prior_rank))
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))  # going back through it amplifies no rounding
    system = oracle.random_system(seed) | {"F": 0.95 * turn, "Q": noise @ noise.T, "cov": prior @ prior.T}
    check(system, oracle.random_data(seed, STEPS, missing=0.2, outliers=0.3))


@pytest.mark.parametrize("states", [3, 9])
def test_compiled_solve_with_a_singular_matrix_is_exact(states, x64, rng):
    """A pivot at rounding level may be zero in one part of the program only."""
    solve = jax.jit(linalg.psd_solve)
    for _ in range(2000):
        root = rng.normal(size=(states, states - 1))
        singular = root @ root.T
        known = singular @ rng.normal(size=(states, 1))
        np.testing.assert_allclose(singular @ solve(singular, known), known, atol=1e-6)


@pytest.mark.parametrize("zero", ["Q", "cov"])
@pytest.mark.parametrize("states", [3, 9])
def test_smoother_is_exact_without_dynamics_noise_or_prior_spread(states, zero):
    system = oracle.random_system(4, states=states) | {zero: np.zeros((states, states))}
    check(system, oracle.random_data(5, STEPS, missing=0.2))


@pytest.mark.parametrize("change", [{}, {"Q": np.zeros((17, 17))}, {"R": 1e-12 * np.eye(2)}], ids=["usual", "Q", "R"])
def test_large_smoother_is_exact_where_a_difference_is_and_where_it_is_not(change):
    system = oracle.random_system(4, states=17) | change
    model, ys = wolf.LinearModel(**system), oracle.random_data(5, STEPS, missing=0.2)
    smoothed = wolf.smooth(model, wolf.filter(model, ys, method="KF", backend="xla"))
    assert (np.linalg.eigvalsh(smoothed.covs) > -1e-13).all()
    if "R" not in change:  # weighted least squares is inaccurate beside an exact sensor
        means, covs = oracle.batch(system, ys)
        assert_close(1e-8, means=(smoothed.means, means), covs=(smoothed.covs, covs))


@pytest.mark.parametrize("states", [3, 9])
def test_constant_state_is_smoothed_to_the_last_estimate(states):
    system = oracle.random_system(4, states=states) | {"F": None, "Q": np.zeros((states, states))}
    model = wolf.LinearModel(**system)
    out = wolf.filter(model, oracle.random_data(5, STEPS), method="KF")
    smoothed = wolf.smooth(model, out)
    assert_close(1e-8, means=(smoothed.means, out.means[[-1] * STEPS]), covs=(smoothed.covs, out.covs[[-1] * STEPS]))


@pytest.mark.parametrize("states", [4, 10])
def test_smoother_does_not_depend_on_units(states):
    """Half of the states in kilometres, the others in micrometres: only rounding may change."""
    system, units = oracle.random_system(6, states=states), np.where(np.arange(states) % 2, 1e6, 1e-3)
    ys = oracle.random_data(7, STEPS)
    models = [wolf.LinearModel(**each) for each in (system, oracle.in_units(system, units))]
    usual, other = (wolf.smooth(model, wolf.filter(model, ys, method="KF")) for model in models)
    covs = other.covs / np.outer(units, units)
    assert_close(1e-7, means=(other.means / units, usual.means), covs=(covs, usual.covs))


def test_smoothing_many_equals_one_by_one():
    model = wolf.LinearModel(**oracle.random_system(8, controls=1))
    ys = np.stack([oracle.random_data(seed, STEPS, missing=0.2, outliers=0.2) for seed in range(3)])
    us = np.random.default_rng(9).normal(size=(3, STEPS, 1))
    many = wolf.smooth(model, wolf.filter_many(model, ys, inputs=us))
    for i in range(3):
        one = wolf.smooth(model, wolf.filter(model, ys[i], inputs=us[i]))
        assert_close(1e-10, means=(many.means[i], one.means), covs=(many.covs[i], one.covs))


@pytest.mark.thorough
def test_smoothing_many_with_their_own_models_equals_one_by_one():
    models = [wolf.LinearModel(**oracle.random_system(seed)) for seed in range(3)]
    ys = np.stack([oracle.random_data(seed, STEPS) for seed in range(3)])
    many = wolf.smooth(models, wolf.filter_many(models, ys))
    for i, model in enumerate(models):
        one = wolf.smooth(model, wolf.filter(model, ys[i]))
        assert_close(1e-10, means=(many.means[i], one.means), covs=(many.covs[i], one.covs))


def test_smoothing_the_last_chunk_equals_the_end_of_the_whole():
    model, ys = wolf.LinearModel(**oracle.random_system(1, steps=STEPS)), oracle.random_data(2, STEPS)
    whole = wolf.smooth(model, wolf.filter(model, ys))
    *_, last = wolf.filter_chunks(model, np.split(ys, 2), save="all")
    end = wolf.smooth(model, last)
    assert_close(
        1e-10, means=(end.means, whole.means[-len(end.means) :]), covs=(end.covs, whole.covs[-len(end.covs) :])
    )


def test_one_step_is_smoothed_to_itself():
    model = wolf.LinearModel(**oracle.random_system(1))
    out = wolf.filter(model, oracle.random_data(2, 1))
    smoothed = wolf.smooth(model, out)
    np.testing.assert_array_equal(smoothed.means, out.means)
    np.testing.assert_array_equal(smoothed.covs, out.covs)


AHEAD = 5


def check_forecast(model, ys, us=None, **options):
    """Compare with continued filtering, by a method that estimates nothing about the noise."""
    options |= {"method": "WoLF"}
    seen, future = (None, None) if us is None else (us[: len(ys)], us[len(ys) :])
    forecast = wolf.forecast(model, wolf.filter(model, ys, inputs=seen, **options), AHEAD, inputs=future)
    blind = np.concatenate([ys, np.full((AHEAD, ys.shape[1]), np.nan)])
    out = wolf.filter(model, blind, inputs=us, **options)
    assert_close(1e-12, means=(forecast.means, out.means[-AHEAD:]), covs=(forecast.covs, out.covs[-AHEAD:]))
    return forecast


def observed_covs(system, forecast):
    s = oracle.over_time(system, STEPS + AHEAD)
    H, R = s["H"][-AHEAD:], s["R"][-AHEAD:]
    return np.einsum("tij,tj->ti", H, forecast.means), H @ forecast.covs @ H.swapaxes(1, 2) + R


@pytest.mark.thorough
@pytest.mark.parametrize("update_first", [False, True], ids=["predict first", "update first"])
@pytest.mark.parametrize("controls", [0, 2], ids=["free", "inputs"])
def test_forecast_equals_filtering_what_is_missing(controls, update_first):
    system = oracle.random_system(10, steps=STEPS + AHEAD, controls=controls)
    us = np.random.default_rng(11).normal(size=(STEPS + AHEAD, controls)) if controls else None
    forecast = check_forecast(wolf.LinearModel(**system), oracle.random_data(12, STEPS), us, update_first=update_first)
    means, covs = observed_covs(system, forecast)
    assert_close(1e-10, obs_means=(forecast.obs_means, means), obs_covs=(forecast.obs_covs, covs))


@pytest.mark.thorough
@pytest.mark.parametrize("update_first", [False, True], ids=["predict first", "update first"])
def test_nonlinear_forecast_equals_filtering_what_is_missing(update_first):
    prior = wolf.Gaussian(np.array([0.5, 0.0]), 0.1 * np.eye(2))
    model = wolf.StateSpaceModel(swing, look, 0.01 * np.eye(2), 0.1 * np.eye(1), prior)
    us = np.random.default_rng(13).normal(size=(STEPS + AHEAD, 1))
    ys = wolf.simulate.trajectory(model, STEPS, key=0, inputs=us[:STEPS]).measurements
    forecast = check_forecast(model, ys, us, update_first=update_first)
    expected = np.sin(forecast.means[:, :1]) + 0.1 * us[STEPS:]
    slopes = np.cos(forecast.means[:, 0])
    assert_close(
        1e-10,
        obs_means=(forecast.obs_means, expected),
        obs_covs=(forecast.obs_covs[:, 0, 0], slopes**2 * forecast.covs[:, 0, 0] + 0.1),
    )


@pytest.mark.parametrize("own", [True, False], ids=["own inputs", "shared inputs"])
def test_series_that_end_early_are_forecast_from_their_own_last_input(own):
    """With `update_first` the input of the last step drives the transition to the first forecast."""
    model = wolf.LinearModel(**oracle.random_system(10, controls=2))
    rng = np.random.default_rng(5)
    ys, ahead = [rng.normal(size=(steps, model.obs_dim)) for steps in (9, 4)], rng.normal(size=(3, 2))
    us = rng.normal(size=(2, 9, 2)) if own else rng.normal(size=(9, 2))
    options = {"method": "KF", "update_first": True}
    many = wolf.forecast(wolf.filter_many(model, ys, inputs=us, **options), 3, inputs=ahead)
    for k, y in enumerate(ys):
        alone = wolf.filter(model, y, inputs=(us[k] if own else us)[: len(y)], **options)
        np.testing.assert_allclose(many.means[k], wolf.forecast(alone, 3, inputs=ahead).means, rtol=1e-5, atol=1e-6)


def test_forecast_in_square_root_form_equals_joseph():
    model = wolf.LinearModel(**oracle.random_system(10))
    ys = oracle.random_data(12, STEPS)
    root, joseph = (
        wolf.forecast(model, wolf.filter(model, ys, method=wolf.WoLF(form=form)), AHEAD) for form in ("sqrt", "joseph")
    )
    names = ("means", "covs", "obs_means", "obs_covs", "lower", "upper")
    assert_close(1e-10, **{name: (getattr(root, name), getattr(joseph, name)) for name in names})


def test_forecasting_many_equals_one_by_one():
    model = wolf.LinearModel(**oracle.random_system(8, controls=1))
    ys = np.stack([oracle.random_data(seed, STEPS) for seed in range(3)])
    us = np.random.default_rng(9).normal(size=(3, STEPS + AHEAD, 1))
    many = wolf.forecast(model, wolf.filter_many(model, ys, inputs=us[:, :STEPS]), AHEAD, inputs=us[:, STEPS:])
    for i in range(3):
        out = wolf.filter(model, ys[i], inputs=us[i, :STEPS])
        one = wolf.forecast(model, out, AHEAD, inputs=us[i, STEPS:])
        assert_close(1e-10, means=(many.means[i], one.means), obs_covs=(many.obs_covs[i], one.obs_covs))


def test_forecasting_many_with_their_own_models_equals_one_by_one():
    models = [wolf.LinearModel(**oracle.random_system(seed)) for seed in range(3)]
    ys = np.stack([oracle.random_data(seed, STEPS) for seed in range(3)])
    many = wolf.forecast(models, wolf.filter_many(models, ys), AHEAD)
    for i, model in enumerate(models):
        one = wolf.forecast(model, wolf.filter(model, ys[i]), AHEAD)
        assert_close(1e-10, means=(many.means[i], one.means), obs_covs=(many.obs_covs[i], one.obs_covs))


def test_forecast_past_the_end_of_a_time_axis_is_an_error():
    model, ys = wolf.LinearModel(**oracle.random_system(1, steps=STEPS)), oracle.random_data(2, STEPS)
    *_, last = wolf.filter_chunks(model, np.split(ys, 2), save="all")
    for out in (wolf.filter(model, ys), last):
        with pytest.raises(ValueError, match="time steps"):
            wolf.forecast(model, out, AHEAD)
