"""`df.wolf` and `series.wolf`: there when asked for, and the same as `wolf.filter_frame`."""

import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest

import wolf
import wolf.integrations.accessors  # the tests import wolf before pandas

KNOWN = {"level_var": 0.1, "obs_var": 1.0}
READINGS = np.random.default_rng(0).normal(20.0, 1.0, 120)
READINGS[50], READINGS[60] = 999.0, np.nan
BAD = [50, 60]


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_importing_wolf_registers_with_what_is_imported_and_imports_nothing_for_it():
    code = """
import sys, {first}
import wolf
print(*("wolf" in vars(getattr({first}, name)) for name in ("DataFrame", "Series")))
print(*(name in sys.modules for name in ("{other}", "jax", "numpy.f2py", "wolf.cleaning.frames")))
print(type({first}.Series([1.0]).wolf).__name__)
"""
    for first, other in (("pandas", "polars"), ("polars", "pandas")):
        found = python(code.format(first=first, other=other))
        assert found == ["True", "True", "False", "False", "False", "False", "SeriesAccessor"]


def test_libraries_imported_later_need_one_line():
    code = "import wolf, pandas; print(hasattr(pandas.Series(), 'wolf'))\n"
    code += "import wolf.integrations.accessors\n"
    code += "print(*(hasattr(made, 'wolf') for made in (pandas.Series(), pandas.DataFrame())))"
    assert python(code) == ["False", "True", "True"]


def test_cleaned_readings_differ_only_where_they_were_refused_or_missing():
    dates = pd.date_range("2024-01-01", periods=120, freq="h")
    for series in (pd.Series(READINGS, dates, name="y"), pl.Series("y", READINGS), pl.Series("y", READINGS.tolist())):
        cleaned = series.wolf.clean(parameters=KNOWN)
        assert type(cleaned) is type(series)
        assert cleaned.name == "y"
        changed = np.asarray(cleaned) != READINGS
        assert np.flatnonzero(changed).tolist() == BAD
        assert np.abs(np.asarray(cleaned)[BAD] - 20.0).max() < 2.0
        assert np.flatnonzero(series.wolf.outliers(parameters=KNOWN)).tolist() == [50]
    pd.testing.assert_index_equal(pd.Series(READINGS, dates).wolf.clean(parameters=KNOWN).index, dates)
    nulls = pl.Series("y", [1.0, None, 2.0, 1.5, 1.0]).wolf.clean(parameters=KNOWN)
    assert nulls.null_count() == 0


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_are_filtered_and_cleaned(make):
    frame = make({"mean": READINGS, "outlier": ["a"] * 120, "y": -READINGS})  # names that results would have
    out = frame.wolf.filter(values="y", parameters=KNOWN)
    assert list(out.columns) == list(wolf.filter_frame(frame, values="y", parameters=KNOWN).columns)
    both = frame.wolf.clean(values=["mean", "y"], parameters=KNOWN)
    assert list(both.columns) == list(frame.columns)
    np.testing.assert_allclose(both["mean"].to_numpy(), -both["y"].to_numpy(), atol=1e-9)
    assert np.flatnonzero(both["y"].to_numpy() != -READINGS).tolist() == BAD
    track = frame.wolf.clean(
        values=["mean", "y"], model="wiener-velocity", parameters={"accel_rate": 0.1, "obs_var": 1.0}
    )
    assert abs(track["y"].to_numpy()[50] + 20.0) < 3.0
    lone = make({"when": np.arange(120), "y": READINGS}).wolf.clean(time="when", parameters=KNOWN)
    assert np.flatnonzero(lone["y"].to_numpy() != READINGS).tolist() == BAD


def test_mistakes_raise():
    with pytest.raises(ValueError, match="forecast adds rows"):
        pd.Series(READINGS).wolf.clean(forecast=3)
    with pytest.raises(ValueError, match="name the column to filter"):
        pd.DataFrame({"a": READINGS, "b": READINGS}).wolf.clean()
    assert len(pd.Series(READINGS).wolf.filter(forecast=3, parameters=KNOWN)) == 123
