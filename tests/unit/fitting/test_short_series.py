"""Fits of short series: the share of outliers, variances at a boundary, and error bars under heavy tails."""

import numpy as np
import pytest

import wolf
from wolf.fitting.boundary import prefer_interior
from wolf.fitting.robust_start import without_start_outliers

STEPS, OBS_VAR, NUM_SERIES = 240, 0.49, 16


def monthly(level_var, slope_var, season_var, obs_var):
    parts = wolf.models.trend(level_var=level_var, slope_var=slope_var), wolf.models.seasonal(12, var=season_var)
    return wolf.models.structural(*parts, obs_var=obs_var)


TRUTH = monthly(0.05, 0.0005, 0.005, OBS_VAR)


def series(share, seed):
    """Draw a trend with a season, and spikes of 20 standard deviations at an exact share of the rows."""
    rng = np.random.default_rng([seed, 33])
    state = np.r_[10.0, 0.02, 3.0 * np.sin(np.pi * np.arange(11) / 6)]
    root = np.sqrt(np.diag(np.asarray(TRUTH.Q)))
    ys = np.empty(STEPS)
    for t in range(STEPS):
        state = np.asarray(TRUTH.F) @ state + root * rng.normal(size=13)
        ys[t] = (np.asarray(TRUTH.H) @ state)[0] + np.sqrt(OBS_VAR) * rng.normal()
    hit = rng.choice(STEPS, round(share * STEPS), replace=False)
    ys[hit] += 20.0 * np.sqrt(OBS_VAR) * rng.normal(size=len(hit))
    return ys


@pytest.mark.parametrize(("share", "within"), [(0.0125, 10), (0.05, 15), (0.1, 15)])
def test_share_of_outliers_is_found_beside_a_season(share, within):
    """Before the first rows were left out of the score, 1 of 30 series were within a factor of two at 1.25 %."""
    fits = wolf.fit_many(monthly, [series(share, seed) for seed in range(NUM_SERIES)])
    ratios = np.array([fit.outlier_share for fit in fits]) / share
    assert np.sum((ratios > 0.5) & (ratios < 2.0)) >= within
    assert 0.75 < np.median(ratios) < 1.35
    variances = np.array([fit.parameters["obs_var"] for fit in fits]) / OBS_VAR
    assert 0.4 < variances.min() < variances.max() < 1.8


def test_a_variance_at_a_boundary_is_reported_and_not_called_converged(rng):
    noise = rng.normal(size=301)
    ys = 3.0 + noise[1:] - 0.3 * noise[:-1]  # less than no level: what rises falls again
    found = wolf.fit(wolf.models.local_level, ys)
    assert found.at_boundary == ("level_var",)
    assert not found.converged
    assert "AT A BOUNDARY: level_var" in str(found)
    assert "At a boundary" in found.summary().as_text()
    moving = wolf.fit(wolf.models.local_level, ys + np.cumsum(rng.normal(size=300)))
    assert moving.converged
    assert moving.at_boundary == ()


def test_the_next_best_start_replaces_a_degenerate_optimum():
    """With a measurement variance of 0 the state follows every reading; one in the interior is used if it is near."""
    measurement, count = ("obs_var",), 200
    assert prefer_interior([1.0, 1.05], [measurement, ()], measurement, count)[0] == 1
    assert prefer_interior([1.0, 1.05], [measurement, ("slope_var",)], measurement, count)[0] == 1
    assert prefer_interior([1.0, 1.2], [measurement, ()], measurement, count)[0] == 0
    assert prefer_interior([1.0, 1.05], [("slope_var",), ()], measurement, count)[0] == 0
    assert prefer_interior([1.0, 1.005], [("slope_var",), ()], measurement, count)[0] == 1


def test_error_bars_of_the_measurement_variance_admit_student_noise():
    """The inner of two parts has about 1.3 times the squared scale of the t distribution, which errors must admit."""
    noise = [np.random.default_rng([seed, 3]).standard_t(3, size=STEPS) for seed in range(NUM_SERIES)]
    walks = [np.cumsum(np.sqrt(0.1) * np.random.default_rng(seed).normal(size=STEPS)) for seed in range(NUM_SERIES)]
    fits = wolf.fit_many(wolf.models.local_level, [walk + each for walk, each in zip(walks, noise, strict=True)])
    variances, errors = (np.array([getattr(fit, name)["obs_var"] for fit in fits]) for name in ("parameters", "errors"))
    assert np.median(variances) > 1.1
    assert np.sum(np.abs(variances - 1.0) < 1.96 * errors) >= 14


def test_outliers_of_the_first_season_are_removed_before_the_filter_believes_them():
    ys = series(0.0, 5)[None, :, None]
    ys[0, [4, 17], 0] += 20.0
    cleaned = without_start_outliers(ys, TRUTH, np.array([65]))
    assert np.flatnonzero(np.isnan(cleaned[0, :, 0])).tolist() == [4, 17]
    assert without_start_outliers(ys, TRUTH, np.array([0])) is ys
