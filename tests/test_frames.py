"""Data frames come back as what they were, with new columns behind the old ones."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wolf

NEW = ["mean", "lower", "upper", "reading_lower", "reading_upper", "weight", "outlier", "kind", "repaired"]
KNOWN = {"level_var": 0.1, "obs_var": 1.0}
MAKE = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.fixture(scope="module")
def readings():
    rng = np.random.default_rng(3)
    ys = np.cumsum(0.3 * rng.normal(size=120)) + rng.normal(size=120)
    ys[[30, 80]] = [90.0, -70.0]
    return ys


def column(frame, name):
    return np.asarray(frame[name].to_numpy())


@given(
    kind=st.sampled_from(sorted(MAKE)),
    extra=st.lists(st.sampled_from(["a", "b", "note", "mean", "weight"]), unique=True),
    place=st.integers(0, 5),
    numbers=st.lists(st.floats(-1e6, 1e6), min_size=5, max_size=30),
    index=st.sampled_from(["range", "shuffled", "labels", "dates", "multi"]),
    missing=st.booleans(),
)
def test_frames_come_back_with_their_type_index_and_columns(kind, extra, place, numbers, index, missing):
    rows = len(numbers)
    data = {name: [f"{name}{i}" for i in range(rows)] for name in extra}
    names = [*extra[:place], "value", *extra[place:]]
    values = [None if missing and i == 2 else x for i, x in enumerate(numbers)]
    frame = MAKE[kind]({name: values if name == "value" else data[name] for name in names})
    if kind == "pandas":
        frame.index = {
            "range": pd.RangeIndex(rows),
            "shuffled": pd.Index(np.roll(np.arange(rows) * 3, 2)),
            "labels": pd.Index([f"row{i}" for i in range(rows)], name="label"),
            "dates": pd.date_range("2024-01-01", periods=rows, freq="h"),
            "multi": pd.MultiIndex.from_arrays([np.arange(rows) // 2, np.arange(rows)]),
        }[index]
    before = frame.copy() if kind == "pandas" else frame
    out = wolf.filter_frame(frame, values="value", parameters=KNOWN)
    assert type(out) is type(frame)
    added = [f"wolf_{name}" if name in names else name for name in NEW]
    assert list(out.column_names if kind == "pyarrow" else out.columns) == [*names, *added]
    if kind == "pandas":
        pd.testing.assert_index_equal(out.index, before.index)
        pd.testing.assert_frame_equal(out[names], before)
        pd.testing.assert_frame_equal(frame, before)  # the input is left alone
    else:
        assert out.select(names).equals(frame)


def test_all_kinds_give_the_same_numbers(readings):
    outs = [wolf.filter_frame(make({"y": readings})) for make in MAKE.values()]
    for name in NEW:
        first = column(outs[0], name)
        assert all(np.array_equal(column(out, name), first) for out in outs[1:])
    assert set(np.flatnonzero(column(outs[0], "outlier"))) >= {30, 80}


def test_groups_are_filtered_each_by_itself(readings):
    frame = pl.DataFrame({"sensor": ["b", "a"] * 60, "y": readings})
    both = wolf.filter_frame(frame, by="sensor", parameters=KNOWN)
    lone = wolf.filter_frame(frame.filter(pl.col("sensor") == "a").drop("sensor"), parameters=KNOWN)
    np.testing.assert_allclose(both.filter(pl.col("sensor") == "a")["mean"], lone["mean"], rtol=1e-12)


@pytest.mark.parametrize("zone", [None, "Europe/Oslo"])
def test_times_count_whatever_they_are_written_in(readings, zone):
    seconds = np.cumsum(np.random.default_rng(0).exponential(10.0, len(readings)))
    dates = pd.Timestamp("2024-03-30 23:00") + pd.to_timedelta(seconds, unit="s")
    dates = dates if zone is None else dates.tz_localize("UTC").tz_convert(zone)
    by_number = wolf.filter_frame(pd.DataFrame({"t": seconds, "y": readings}), time="t", values="y", parameters=KNOWN)
    by_date = wolf.filter_frame(pd.DataFrame({"t": dates, "y": readings}), time="t", parameters=KNOWN)
    by_index = wolf.filter_frame(pd.DataFrame({"y": readings}, index=dates), parameters=KNOWN)
    in_polars = wolf.filter_frame(pl.DataFrame({"t": list(dates), "y": readings}), time="t", parameters=KNOWN)
    for out in (by_date, by_index, in_polars):
        np.testing.assert_allclose(column(out, "mean"), by_number["mean"], rtol=1e-6, atol=1e-7)


def test_integers_with_nulls_are_numbers_with_gaps():
    numbers = [1, 2, None, 4, 3, 2, 1, 2]
    frames = [
        pd.DataFrame({"y": pd.array(numbers, dtype="Int64")}),
        pl.DataFrame({"y": numbers}),
        pa.table({"y": numbers}),
    ]
    for frame in frames:
        out = wolf.filter_frame(frame, parameters=KNOWN)
        assert column(out, "weight")[2] == 0.0
        assert np.isfinite(column(out, "mean").astype(float)).all()


def test_tracks_and_smoothing(readings):
    frame = pd.DataFrame({"x": readings, "y": -readings})
    track = wolf.filter_frame(frame, values=["x", "y"], model="wiener-velocity", smooth=True)
    joint = {"weight", "outlier", "kind"}
    assert set(track) == {"x", "y", *joint, *(f"{axis}_{name}" for axis in "xy" for name in set(NEW) - joint)}
    np.testing.assert_allclose(track["x_mean"], -track["y_mean"], atol=1e-6)


@pytest.mark.parametrize(
    ("frame", "options", "words"),
    [
        ([1, 2, 3], {}, "got list"),
        (pl.LazyFrame({"y": [1.0]}), {}, "collect"),
        (pd.DataFrame({"y": []}), {}, "no rows"),
        (pd.DataFrame({"a": [1.0], "b": [2.0]}), {}, "'a', 'b'"),
        (pd.DataFrame({"a": ["x"]}), {}, "none"),
        (pd.DataFrame({"a": ["x"]}), {"values": "a"}, "not numbers"),
        (pd.DataFrame({"speed": [1.0]}), {"values": "spead"}, "Did you mean 'speed'"),
        (pd.DataFrame({"y": [1.0]}), {"time": "t"}, "no column 't'"),
        (pd.DataFrame({"y": [1.0, 2.0], "t": ["a", "b"]}), {"time": "t"}, "not times"),
        (pd.DataFrame({"y": [1.0, 2.0], "t": [1.0, np.nan]}), {"time": "t", "values": "y"}, "row 2 has no time"),
        (pd.DataFrame({"y": [1.0, 2.0]}), {"model": "nothing"}, "no model"),
        (pd.DataFrame({"y": [1.0, 2.0]}), {"level": 2.0}, "level"),
    ],
)
def test_mistakes_are_told(frame, options, words):
    with pytest.raises(ValueError, match=words):
        wolf.filter_frame(frame, **options)


def test_without_narwhals_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "narwhals", None)
    with pytest.raises(ModuleNotFoundError, match=r"wolf-filter\[frames\]"):
        wolf.filter_frame(pd.DataFrame({"y": [1.0]}))


@pytest.mark.parametrize(
    ("backend", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame), ("pyarrow", pa.Table)]
)
def test_results_become_frames(backend, kind, readings):
    model = wolf.models.local_level(0.1, 1.0)
    out = wolf.filter(model, readings)
    frame = out.to_frame(backend)
    assert isinstance(frame, kind)
    np.testing.assert_array_equal(column(frame, "mean"), out.means[:, 0])
    np.testing.assert_allclose(column(frame, "upper") - column(frame, "lower"), 2 * 1.959964 * column(frame, "sd"))
    np.testing.assert_array_equal(column(frame, "outlier"), out.outliers)
    assert column(wolf.smooth(model, out).to_frame(backend), "sd")[5] < column(frame, "sd")[5]


def test_many_series_become_one_frame():
    out = wolf.filter_many(wolf.models.local_trend(0.1, 0.1, 1.0), [np.arange(5.0), np.arange(3.0)])
    frame = out.to_frame()
    assert frame["series"].tolist() == [0] * 5 + [1] * 3
    assert {"mean_0", "sd_1", "weight", "residual", "nis"} <= set(frame)
    with pytest.raises(ValueError, match="backend"):
        out.to_frame("numpy")
    with pytest.raises(ValueError, match="save"):
        wolf.filter(wolf.models.local_level(0.1, 1.0), [1.0, 2.0], save="final").to_frame()
