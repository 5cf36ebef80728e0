"""Detection levels for a stated rate of false alarms, abruptness, and other columns as witnesses."""

import numpy as np
import pytest

from wolf.cleaning import Options, clean
from wolf.diagnostics.faults import false_alarms, witnesses

ROWS = 6_000
GIVEN = {"level_var": 0.1, "obs_var": 0.05}
USABLE = np.ones(320_000, bool)


def rough(seed=0):
    """Return a random walk with heavy-tailed steps, whose model is Gaussian."""
    rng = np.random.default_rng(seed)
    return 0.3 * np.cumsum(rng.standard_t(2.2, size=ROWS)) + 0.2 * rng.standard_t(2.2, size=ROWS)


def cleaned(values, **options):
    return clean(values, None, Options(model="local-level", parameters=GIVEN, diagnostics=False, **options))


def test_a_heavy_tail_raises_the_level_until_the_stated_rate_holds():
    heavy = 0.06 * (1.0 + np.random.default_rng(1).pareto(3.0, (1, len(USABLE))))
    level = false_alarms.calibrate(heavy, USABLE, 1.0).level
    blocks = heavy.reshape(-1, false_alarms.BLOCK_ROWS).max(1)
    # 32 are expected; blocks join neighbours, as incidents do.
    assert 10 < (blocks > level).sum() < 80
    assert false_alarms.calibrate(heavy, USABLE, 10.0).level < level


def test_faults_beyond_the_threshold_do_not_change_the_level():
    statistics = 0.06 * (1.0 + np.random.default_rng(1).pareto(3.0, (1, len(USABLE))))
    dirty = statistics.copy()
    dirty[0, 7::4_000] = 40.0
    both = [false_alarms.calibrate(each, USABLE, 1.0).level for each in (statistics, dirty)]
    assert both[1] == pytest.approx(both[0], rel=0.05)


def test_a_gaussian_series_keeps_the_thresholds_of_the_model():
    normal = np.abs(np.random.default_rng(2).normal(size=(1, 40_000))) / 5.0
    assert false_alarms.calibrate(normal, np.ones(40_000, bool), 1.0).level == 1.0


def test_ordinary_excursions_are_reinstated_and_listed():
    values = rough()
    values[3_000] += 60.0
    alone, all_candidates = (cleaned(values[:, None], false_alarms=rate)[0] for rate in (1.0, 0.0))
    assert alone.outlier[3_000]
    assert alone.detection[0].level > 1.0
    assert alone.outlier.sum() < 0.3 * all_candidates.outlier.sum()
    assert alone.borderline.sum() > 0
    assert not (alone.borderline & alone.outlier).any()
    assert all_candidates.detection[0].level == 1.0


def test_a_storm_in_another_column_is_the_weather():
    rng = np.random.default_rng(3)
    quiet = np.zeros(ROWS)
    storm = quiet + rng.normal(size=ROWS)
    storm[2_000] += 12.0
    active = witnesses.activity(storm)
    assert witnesses.weather_factor(active, 2_000, 2_001) == witnesses.WEATHER_FACTOR
    assert witnesses.weather_factor(active + 1e3, 2_000, 2_001) == 1.0  # the whole instrument
    assert not witnesses.activity(quiet).any()


def test_a_column_of_missing_values_is_no_witness():
    assert not witnesses.activity(np.full(100, np.nan)).any()


def test_zeros_among_values_near_zero_are_no_dropouts():
    rng = np.random.default_rng(4)
    values = 5.0 + np.cumsum(0.1 * rng.normal(size=600))
    values[300:] -= values[300:].mean()
    zeros = np.r_[100:104, 150:153, 200:204]
    values[zeros] = 0.0
    values[np.flatnonzero(np.abs(values[300:]) < 0.05) + 300] = 0.0
    found = clean(values[:, None], None, Options(model="local-level", parameters=GIVEN, diagnostics=False))[0]
    dropouts = np.flatnonzero(found.fault == "dropout")
    assert set(zeros) <= set(dropouts)
    assert (dropouts < 300).all()


@pytest.mark.parametrize("rate", [-1.0, float("nan"), "few"])
def test_a_rate_must_be_a_number_that_is_not_negative(rate):
    with pytest.raises(ValueError, match="false_alarms"):
        Options(false_alarms=rate)
