"""Model selection: the steady-state gain against its equation, known seasons, simpler models on ties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import solve_discrete_are

import wolf
from wolf.diagnostics.faults import local_scale
from wolf.engine import steady_state
from wolf.fitting.select import predictive_score
from wolf.fitting.select.seasonality import find_seasons
from wolf.models.registry import parse


def noisy(seed=0, count=600):
    return np.random.default_rng(seed).normal(size=count)


@settings(max_examples=20, deadline=None)
@given(st.floats(-4, 3), st.floats(-5, 1))
def test_steady_state_gain_solves_the_riccati_equation(level, slope):
    dynamics, row = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([1.0, 0.0])
    noise = np.diag([10.0**level, 10.0**slope])
    found = steady_state.steady_state_gain(dynamics, row, noise[None], np.ones(1))
    cov = solve_discrete_are(dynamics.T, row[:, None], noise, np.eye(1))
    np.testing.assert_allclose(found.variance[0], cov[0, 0] + 1, rtol=1e-6)
    np.testing.assert_allclose(found.gain[0], cov @ row / (cov[0, 0] + 1), rtol=1e-6)


def test_the_walk_is_the_kalman_filter_once_it_has_settled():
    ys = np.cumsum(0.3 * noisy()) + noisy(1)
    model = wolf.models.local_level(0.09, 1.0)
    expected = wolf.filter(model, ys, method="KF").residuals[:, 0]
    found = steady_state.steady_state_gain(np.eye(1), np.ones(1), np.array([[[0.09]]]), np.ones(1))
    errors = steady_state.one_step_errors(ys, np.eye(1), np.ones(1), found.gain, np.zeros(1), np.full(1, np.inf))[:, 0]
    np.testing.assert_allclose(errors[300:], expected[300:], atol=1e-9)


def test_the_score_of_gaussian_errors_is_their_log_density_up_to_the_price_of_outliers():
    from scipy.stats import norm

    errors = noisy(3, 4000)[:, None]
    total = predictive_score.score(errors).total[0]
    assert total == pytest.approx(norm.logpdf(errors, scale=errors.std()).sum(), abs=4.0)


SERIES = {
    "local-level": lambda: np.cumsum(0.3 * noisy(0)) + noisy(1),
    "local-trend": lambda: np.cumsum(np.cumsum(0.02 * noisy(0))) + noisy(1),
    "level+seasonal:24:1": lambda: 10 * np.sin(2 * np.pi * np.arange(600) / 24) + noisy(1),
}


@pytest.mark.parametrize("name", SERIES)
def test_what_made_a_series_is_chosen_with_and_without_outliers(name):
    ys = SERIES[name]()
    choice = wolf.choose(ys)
    assert choice.name == name
    assert choice.candidates[0].name == name
    assert name in repr(choice)
    assert "second" in repr(choice)
    dirty = ys.copy()
    dirty[::31] += 40.0
    assert wolf.choose(dirty).name == name
    obs_var = wolf.choose(dirty).parameters["obs_var"]
    assert 0.6 < obs_var < 1.6
    assert wolf.filter(choice.model, ys).means.shape[0] == 600


def test_variances_are_close_to_those_of_a_fit():
    ys = SERIES["local-level"]()
    found, fitted = wolf.choose(ys, candidates=["local-level"]), wolf.fit(wolf.models.local_level, ys)
    assert found.parameters["obs_var"] == pytest.approx(fitted.parameters["obs_var"], rel=0.2)
    assert np.log(found.parameters["level_var"] / fitted.parameters["level_var"]) == pytest.approx(0.0, abs=0.6)


@pytest.mark.parametrize(("weekly", "periods"), [(2.0, {24, 168}), (0.0, {24})])
def test_a_weak_week_beside_a_strong_day_is_found_and_none_is_made_up(weekly, periods):
    hours = np.arange(1500)
    ys = 10 * np.sin(2 * np.pi * hours / 24) + weekly * np.sin(2 * np.pi * hours / 168) + noisy(3, len(hours))
    assert {season.period for season in find_seasons(ys, 3600.0)} == periods


def test_two_seasons_are_found_and_a_calendar_names_them():
    hours = np.arange(24 * 7 * 6)
    ys = 5 * np.sin(2 * np.pi * hours / 24) + 4 * np.sin(2 * np.pi * hours / 168) + noisy(2, len(hours))
    assert {(season.period, season.name) for season in find_seasons(ys, 3600.0)} == {(24, "day"), (168, "week")}
    dates = np.datetime64("2024-01-01") + hours * np.timedelta64(1, "h")
    assert wolf.choose(ys, dates).name.count("seasonal") == 2


def test_periods_of_two_seasons_are_exact_without_a_calendar():
    hours = np.arange(1000)
    ys = 5 * np.sin(2 * np.pi * hours / 24) + 4 * np.sin(2 * np.pi * hours / 168) + noisy(2, len(hours))
    assert {season.period for season in find_seasons(ys)[:2]} == {24, 168}


@pytest.mark.parametrize("seed", range(3))
def test_a_season_beside_a_trend_is_found(seed):
    trend = np.cumsum(np.cumsum(0.02 * noisy(seed)))
    ys = trend + 3 * np.sqrt(2) * np.sin(2 * np.pi * np.arange(600) / 24) + noisy(seed + 1)
    assert 24 in {season.period for season in find_seasons(ys)[:2]}


def test_noise_has_no_season():
    assert all("seasonal" not in wolf.choose(noisy(seed)).name for seed in range(3))


def test_coordinates_of_a_moving_point_are_a_track():
    t = np.arange(300.0)
    track = np.stack([10 * np.sin(t / 30), 10 * np.cos(t / 30)], axis=1) + 0.1 * np.random.default_rng(0).normal(
        size=(300, 2)
    )
    choice = wolf.choose(track)
    assert choice.name == "wiener-velocity"
    assert choice.model.obs_dim == 2


def test_long_series_uses_a_sample_and_reports_it():
    choice = wolf.choose(np.cumsum(noisy(0, 9000)), candidates=["local-level"])
    assert (choice.rows, len(choice.pieces), choice.pieces[0]) == ((0, 9000), 8, (0, 512))
    assert "chosen on 8 pieces of 512 rows, spread over all 9,000" in choice.verdict


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"ys": np.arange(5.0)}, "at least 12 values"),
        ({"ys": noisy(), "candidates": "local-level"}, "list of names"),
        ({"ys": noisy(), "candidates": ["lokal-level"]}, "no model is called"),
        ({"ys": noisy(), "candidates": ["local-level"], "times": np.zeros(3)}, "one entry for each of the 600 rows"),
        ({"ys": np.ones(50)}, "constant"),
        ({"ys": np.zeros((2, 3, 4))}, "shape"),
    ],
)
def test_invalid_arguments_raise(arguments, words):
    with pytest.raises(ValueError, match=words):
        wolf.choose(**arguments)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.05, 0.95), st.integers(2, 9))
def test_a_gap_of_fading_parts_is_what_as_many_steps_would_have_been(damping, steps):
    for name in ("damped-trend", "ar-noise"):
        part = parse(f"{name}:{damping}").parts[-1]
        gap, one = np.array([float(steps)]), part.dynamics(None)
        np.testing.assert_allclose(part.dynamics(gap)[0], np.linalg.matrix_power(one, steps), atol=1e-12)
        for noise in part.noise.values():
            powers = [np.linalg.matrix_power(one, j) for j in range(steps)]
            np.testing.assert_allclose(noise(gap)[0], sum(p @ noise(None) @ p.T for p in powers), rtol=1e-7, atol=1e-10)


def test_a_sharp_rise_every_morning_takes_more_waves_than_its_power_does():
    hours = np.arange(24 * 40)
    rise = np.where(hours % 24 < 8, 0.0, 5.0)
    noisy = rise + np.random.default_rng(3).normal(0.0, 0.2, len(hours))
    noisy[100:112] += 20.0  # a burst moves no median
    found = find_seasons(noisy, 3600.0)[0]
    assert found.period == 24
    assert found.waves >= 4
    smooth = np.sin(2 * np.pi * hours / 24) + np.random.default_rng(3).normal(0.0, 0.2, len(hours))
    assert find_seasons(smooth, 3600.0)[0].waves == 1


def test_errors_that_are_usual_at_an_hour_are_no_faults_there():
    rng = np.random.default_rng(4)
    errors, hours = rng.normal(size=2400), np.arange(2400)
    errors[(hours % 24 == 7) & (rng.random(2400) < 0.3)] *= 8.0  # three mornings of ten
    scale = local_scale.season_scale(errors, np.ones(2400, bool), hours, 24.0)
    assert np.all(scale[hours % 24 == 7] > 2.0)
    assert np.all(scale[hours % 24 != 7] == 1.0)
