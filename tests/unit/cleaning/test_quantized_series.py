"""Rounded, counted and filled-in readings: scales do not vanish, faults are found, and runs have their own law."""

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import wolf
from wolf.cleaning import Options, clean
from wolf.cli import main
from wolf.diagnostics.faults.stuck_values import longest_by_chance, stuck_rows
from wolf.fitting.select import interpolated_rows, quantization
from wolf.numerics.runs import run_ends

HOURS = np.arange(1_500)


def slow(seed, count=len(HOURS)):
    """Simulate a random walk with a permanent change, as of air pressure."""
    rng = np.random.default_rng(seed)
    slope = np.zeros(count)
    for t in range(1, count):
        slope[t] = 0.9 * slope[t - 1] + 0.15 * rng.normal()
    return 1013.0 + np.cumsum(slope - slope.mean())


def retrospective(values):
    return clean(values[:, None], None, Options())[0]


@given(st.sampled_from([0.1, 0.25, 0.5, 1.0, 5.0]), st.integers(0, 1_000), st.floats(-1e3, 1e3))
def test_the_step_of_rounded_readings_is_found_with_faults_among_them(step, seed, level):
    rng = np.random.default_rng(seed)
    values = step * np.round(rng.normal(level, step, 400) / step)
    values[rng.choice(400, 12, replace=False)] += rng.normal(0.0, 20.0 * step, 12)
    assert quantization.step_of(values) == pytest.approx(step)


@given(st.integers(0, 1_000))
def test_readings_that_are_finer_than_their_noise_have_no_step(seed):
    rng = np.random.default_rng(seed)
    assert quantization.step_of(rng.normal(size=300)) == 0.0
    assert quantization.step_of(np.round(rng.normal(0.0, 100.0, 300))) == 0.0
    assert quantization.step_of(np.array([np.nan, 1.0])) == 0.0
    rain = np.where(rng.random(300) < 0.6, 0.0, rng.random(300))  # one value that comes again is no step
    assert quantization.step_of(rain) == 0.0


def test_what_rounding_takes_away_has_the_variance_of_its_law():
    exact = np.random.default_rng(0).normal(0.0, 3.0, 200_000)
    assert np.var(exact - np.round(exact)) == pytest.approx(quantization.variance_of(1.0), rel=0.02)
    assert np.var(quantization.noise_of(1.0, 200_000)) == pytest.approx(quantization.variance_of(1.0), rel=0.02)
    assert np.abs(quantization.noise_of(0.5, 1_000)).max() <= 0.25


@pytest.mark.parametrize("seed", range(3))
def test_no_reading_is_less_noisy_than_it_is_rounded(seed):
    chosen = wolf.choose(np.round(slow(seed)))
    assert chosen.parameters["obs_var"] >= quantization.variance_of(1.0)
    assert "readings are rounded to 1" in chosen.verdict
    assert "rounded" not in wolf.choose(slow(seed)).verdict


@pytest.mark.parametrize("seed", range(3))
def test_noise_that_stands_for_rounding_is_taken_off_again(seed):
    rng = np.random.default_rng(seed)
    exact = 20.0 + rng.normal(0.0, 1.0, 3_000)
    assert wolf.choose(np.round(exact)).parameters["obs_var"] == pytest.approx(1.0 + 1.0 / 12.0, rel=0.1)


@pytest.mark.parametrize("step", [1.0, 2.0, 5.0])
def test_faults_in_whole_numbers_are_found_and_nothing_else(step):
    values = step * np.round(slow(4) / step)
    rows = np.random.default_rng(0).choice(np.arange(20, 1_480), 25, replace=False)
    damaged = values.copy()
    damaged[rows] += np.where(np.arange(25) % 2, 10.0, -10.0) * step
    assert not retrospective(values).outlier.any()
    assert np.flatnonzero(retrospective(damaged).outlier).tolist() == sorted(rows.tolist())


@pytest.mark.parametrize("mean", [3.0, 30.0])
def test_counts_have_hardly_a_fault(mean):
    counts = np.random.default_rng(1).poisson(mean, 1_500).astype(float)
    assert retrospective(counts).outlier.mean() <= 0.005


@pytest.mark.parametrize("chance", [0.1, 0.5, 0.8])
def test_runs_as_long_as_the_law_allows_are_as_rare_as_it_says(chance):
    rng = np.random.default_rng(3)
    longer = []
    for _ in range(300):
        lengths = rng.geometric(1.0 - chance, 300)
        longer.append(lengths.max() >= longest_by_chance(lengths, 2_000))
    assert np.mean(longer) <= 0.02  # 0.001 if the chance were known


def test_a_stuck_sensor_is_found_where_it_is_longer_than_the_series_stays_by_itself():
    values = np.round(slow(5))
    first, stop = run_ends(np.append(False, values[1:] == values[:-1]))
    assert (stop - first).max() > 8  # whole numbers stay the same for long
    assert not stuck_rows(values).any()
    values[700:760] = values[699]
    assert np.flatnonzero(stuck_rows(values))[[0, -1]].tolist() == [700, 759]
    values[700:712] = values[699] + np.arange(12)
    values[712:760] = np.round(slow(5))[712:760]
    assert not stuck_rows(values).any()


@given(st.integers(2, 8), st.integers(0, 7), st.integers(0, 1_000))
def test_readings_on_straight_lines_are_recognised_with_spikes_among_them(every, place, seed):
    rng = np.random.default_rng(seed)
    rows = np.arange(600)
    knots = rows[place % every :: every]
    values = np.interp(rows, knots, np.cumsum(rng.normal(size=len(knots))))
    assert interpolated_rows.every_of(values) == every
    values[rng.choice(600, 12, replace=False)] += 10.0
    assert interpolated_rows.every_of(values) == every


@given(st.integers(0, 1_000))
def test_measured_readings_lie_on_no_lines(seed):
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=600)
    pattern = np.tile(rng.normal(0.0, 5.0, 6), 100)
    for values in (noise, np.cumsum(noise), pattern + noise, np.full(600, 3.0), 2.0 * np.arange(600), np.arange(15.0)):
        assert interpolated_rows.every_of(values) == 1


def test_filled_in_readings_have_hardly_a_fault_and_it_is_reported():
    rng = np.random.default_rng(2)
    rows = np.arange(1_500)
    values = np.interp(rows, rows[::3], np.cumsum(rng.standard_t(3, 500)))
    assert retrospective(values).outlier.mean() <= 0.005
    assert "only every third reading is a measurement" in wolf.choose(values).verdict
    damaged = values.copy()
    damaged[[300, 700, 1_101]] += 40.0
    assert np.flatnonzero(retrospective(damaged).outlier).tolist() == [300, 700, 1_101]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (np.round(slow(5)), "pressure: readings are rounded to 1"),
        (np.interp(HOURS, HOURS[::2], slow(6)[::2]), "pressure: only every second reading is a measurement"),
        (slow(7), None),
    ],
)
def test_look_tells_what_readings_are_worth(column, words, tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("pressure\n" + "\n".join(f"{value!r}" for value in column.tolist()))
    output = CliRunner().invoke(main, ["inspect", str(path)]).output
    assert "pressure" in output
    assert (words in output) if words else ("readings are rounded" not in output and "is a measurement" not in output)
