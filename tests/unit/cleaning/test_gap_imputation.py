"""Long gaps: autoregressions against a Gaussian's conditional mean, weights against a solver, seasons, the contest."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import toeplitz
from scipy.optimize import minimize
from scipy.signal import lfilter

from wolf.cleaning import ar_imputation, gap_imputation, runs, stacking
from wolf.cleaning.ar_imputation import Autoregression
from wolf.cleaning.smoother_pass import run_pass
from wolf.models.registry import parse

ROWS = 160
SPARSE = Autoregression(np.array([0, 1, 2, 12]), np.array([1.0, -1.1, 0.4, -0.2]), 2.0)


def drawn(model, rng, count=ROWS):
    """Draw a series from an autoregression, and give its covariance."""
    whole = np.zeros(model.order + 1)
    whole[model.lags] = model.coefficients
    impulse = lfilter([model.scale], whole, np.eye(1, 4_000)[0])
    covariance = np.array([impulse[lag:] @ impulse[: len(impulse) - lag] for lag in range(count)])
    return lfilter([model.scale], whole, rng.normal(size=4_000))[-count:], toeplitz(covariance)


@pytest.mark.parametrize("gaps", [[(40, 64)], [(30, 38), (100, 120)], [(130, 154)], [(12, 20)]])
def test_a_gap_is_bridged_by_the_conditional_mean_of_a_gaussian(gaps):
    values, covariance = drawn(SPARSE, np.random.default_rng(0))
    missing = np.zeros(ROWS, bool)
    for first, stop in gaps:
        missing[first:stop] = True
    gain = np.linalg.solve(covariance[np.ix_(~missing, ~missing)], covariance[np.ix_(~missing, missing)])
    model = ar_imputation.interpolate(SPARSE, SPARSE, np.where(missing, 9.0, values), gaps)
    np.testing.assert_allclose(model[missing], gain.T @ values[~missing], rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(model[~missing], values[~missing])


def test_gaps_at_either_end_are_not_long_gaps():
    used = np.concatenate([np.full(9, np.nan), [1.0], np.full(9, np.nan), [2.0], np.full(9, np.nan)])
    assert np.flatnonzero(gap_imputation.long_gaps(used)).tolist() == list(range(10, 19))


def test_a_walk_is_bridged_by_a_straight_line():
    walk = ar_imputation.RANDOM_WALK
    values = np.cumsum(np.random.default_rng(1).normal(size=ROWS))
    model = ar_imputation.interpolate(walk, walk, values, [(50, 60)])
    np.testing.assert_allclose(model[49:61], np.linspace(values[49], values[60], 12), atol=1e-9)


@pytest.mark.parametrize("differenced", [False, True])
def test_coefficients_are_found_though_some_errors_are_wild(differenced):
    rng = np.random.default_rng(2)
    values = lfilter([1.0], [1.0, -1.1, 0.4, *[0.0] * 9, -0.2], rng.standard_t(2, 3_000))
    values = np.cumsum(values) if differenced else values
    known = rng.random(3_000) > 0.02
    filled = np.interp(np.arange(3_000), np.flatnonzero(known), values[known])
    model = ar_imputation.fit(filled, known, [1, 2, 12], differenced)
    whole = np.zeros(model.order + 1)
    whole[model.lags] = model.coefficients
    whole = np.cumsum(whole)[:-1] if differenced else whole
    np.testing.assert_allclose(whole[[1, 2, 12]], SPARSE.coefficients[1:], atol=0.05)


@given(st.integers(0, 10_000), st.integers(2, 8), st.integers(5, 80))
def test_what_is_weighed_is_no_worse_than_any_where_the_truth_is_known(seed, count, rows):
    rng = np.random.default_rng(seed)
    errors = rng.normal(size=rows) * rng.random() + rng.normal(size=(count, rows)) * rng.random((count, 1))
    weights = stacking.stacking_weights(errors)
    assert weights.min() >= 0.0
    assert weights.sum() == pytest.approx(1.0)
    sizes, size = np.abs(errors).mean(axis=1), np.abs(weights @ errors).mean()
    assert size <= sizes[0] * (1 + 1e-12)
    assert size <= sizes.min() / stacking.MAX_ERROR_RATIO * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_weights_are_those_of_a_solver(seed):
    rng = np.random.default_rng(seed)
    errors = rng.normal(size=(4, 30)) * np.array([[1.0], [1.2], [2.0], [0.8]])
    squares, towards = errors @ errors.T / 30, np.array([0.1, 0.0, 0.0, 0.0])
    solved = minimize(
        lambda weights: 0.5 * weights @ squares @ weights - towards @ weights,
        np.full(4, 0.25),
        method="SLSQP",
        bounds=[(0.0, 1.0)] * 4,
        constraints={"type": "eq", "fun": lambda weights: weights.sum() - 1.0},
        options={"ftol": 1e-14},
    )
    np.testing.assert_allclose(stacking._minimise_on_simplex(squares, towards, np.eye(4)[0]), solved.x, atol=1e-5)


def test_a_season_of_any_shape_is_seen_in_the_days_around():
    rng = np.random.default_rng(5)
    shape = np.tile(np.cumsum(rng.normal(size=48)), 30) * np.repeat(rng.uniform(0.8, 1.2, 30), 48)
    truth = shape + lfilter([1.0], [1.0, -0.8], 0.3 * rng.normal(size=len(shape)))
    values = truth.copy()
    for first in (500, 700, 900):
        values[first : first + 24] = np.nan
    waves = {"level_var": 0.1, "obs_var": 0.1, "seasonal_var": 1e-3}
    rough = runs._column_build(parse("level+seasonal:48:1"), waves, values)
    level = runs._column_build(parse("local-level"), {"level_var": 1.0, "obs_var": 0.1}, values)
    ones, rows = np.ones(len(values)), np.isnan(values)
    seen = run_pass(rough, values, ones, None)
    alone = [np.abs(run_pass(each, values, ones, None).mean - truth)[rows].mean() for each in (rough, level)]
    gap_imputation.impute_gaps(seen, [level], rough, values, ones, None)
    assert np.abs(seen.mean - truth)[rows].mean() < 0.5 * min(alone)


def test_uneven_steps_are_left_to_models():
    rng = np.random.default_rng(6)
    values = np.cumsum(rng.normal(size=900))
    values[300:312] = values[600:612] = np.nan
    level = runs._column_build(parse("local-level"), {"level_var": 1.0, "obs_var": 0.1}, values)
    slope = runs._column_build(parse("local-trend"), {"level_var": 1.0, "slope_var": 0.5, "obs_var": 0.1}, values)
    steps, ones = rng.uniform(0.5, 1.5, 900), np.ones(900)
    seen, kept = run_pass(level, values, ones, steps), run_pass(level, values, ones, steps)
    gap_imputation.impute_gaps(seen, [slope], level, values, ones, steps)
    np.testing.assert_allclose(seen.mean, kept.mean, atol=0.5)
    np.testing.assert_array_equal(seen.mean[~np.isnan(values)], kept.mean[~np.isnan(values)])


@pytest.mark.parametrize("kind", ["constant", "a line", "readings at the start alone"])
def test_whatever_the_series_bridges_are_finite(kind):
    rows, rng = np.arange(2_000.0), np.random.default_rng(7)
    values = {"constant": 0.0 * rows + 3.0, "a line": 2.0 * rows}.get(kind, np.cumsum(rng.normal(size=2_000)))
    values[300:312] = values[350:362] = np.nan
    if kind == "readings at the start alone":
        values[560:1_999] = np.nan
    variances = {"level_var": 1.0, "obs_var": 0.1, "seasonal_var": 1e-3}
    build = runs._column_build(parse("level+seasonal:48:1"), variances, values)
    means = gap_imputation._impute_by_autoregressions(
        [build], values, np.interp(rows, rows[~np.isnan(values)], values[~np.isnan(values)])
    )
    assert np.isfinite(means).all()
    if kind != "readings at the start alone":
        np.testing.assert_allclose(means[1], 3.0 if kind == "constant" else 2.0 * rows, rtol=1e-3, atol=1.0)
