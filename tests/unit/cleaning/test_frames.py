"""Data frames come back as what they were, with new columns behind the old ones."""

import pickle
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wolf
from wolf.results.views import data_frame

NEW = ["mean", "lower", "upper", "prediction_lower", "prediction_upper", "weight", "outlier", "fault", "cleaned"]
NEW += ["anomaly_score", "qartod"]
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
    joint = {"weight", "outlier", "fault", "anomaly_score", "qartod"}
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
def test_mistakes_are_reported(frame, options, words):
    with pytest.raises(ValueError, match=words):
        wolf.filter_frame(frame, **options)


def test_without_narwhals_the_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "narwhals", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install narwhals"):
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
    assert {"mean_level", "sd_slope", "weight", "residual", "nis"} <= set(frame)
    with pytest.raises(ValueError, match="backend"):
        out.to_frame("numpy")
    with pytest.raises(ValueError, match="save"):
        wolf.filter(wolf.models.local_level(0.1, 1.0), [1.0, 2.0], save="final").to_frame()


DATES = pd.date_range("2024-01-01", periods=120, freq="h", tz="Europe/Oslo", name="when")


@pytest.fixture(scope="module")
def dated(readings):
    return wolf.filter(wolf.models.local_level(0.1, 1.0), pd.Series(readings, index=DATES))


def test_results_keep_the_index_that_the_data_came_with(dated):
    for out in (dated, wolf.smooth(dated), wolf.smooth(dated, reweight=True)):
        pd.testing.assert_index_equal(out.to_frame().index, DATES)
    pd.testing.assert_index_equal(dated[10:20].to_frame().index, DATES[10:20])
    pd.testing.assert_index_equal(pickle.loads(pickle.dumps(dated)).index, DATES)
    assert dated.to_frame("polars").columns[:2] == ["when", "step"]


def test_a_forecast_goes_on_with_the_index(dated):
    ahead = wolf.forecast(dated, steps=3)
    frame = pickle.loads(pickle.dumps(ahead)).to_frame()
    pd.testing.assert_index_equal(frame.index, pd.date_range(DATES[-1], periods=4, freq="h", name="when")[1:])
    np.testing.assert_array_equal(frame[["mean", "lower", "upper"]].to_numpy()[:, 1], ahead.lower[:, 0])
    assert list(ahead.to_frame("pyarrow").column_names) == ["when", "step", "mean", "sd", "lower", "upper"]
    uneven = dated.index.delete(5)
    assert data_frame.index_ahead(uneven, 1)[0] == DATES[-1] + pd.Timedelta(hours=1)
    assert data_frame.index_ahead(pd.Index([0.0, 0.5]), 2).tolist() == [1.0, 1.5]
    assert data_frame.index_ahead(pd.date_range("2024-01-31", periods=2, freq="ME"), 1)[0] == pd.Timestamp("2024-03-31")
    assert data_frame.index_ahead(pd.RangeIndex(3), 2).tolist() == [3, 4]
    assert data_frame.index_ahead(pd.Index(["a", "b"]), 1) is None


def test_an_index_can_be_given_and_is_checked(readings):
    out = wolf.filter(wolf.models.local_level(0.1, 1.0), readings)
    assert out.index is None
    assert out.to_frame(index=range(5, 125)).index.tolist()[0] == 5
    assert out.to_frame("polars", index=np.arange(120.0))["index"][1] == 1.0
    with pytest.raises(ValueError, match="index must hold a label for each of the 120 steps; got 3 of them"):
        out.to_frame(index=[1, 2, 3])
    with pytest.raises(ValueError, match="label for each of the 120 steps; got"):
        out.to_frame(index=7)


def test_many_series_share_the_index_that_is_given():
    out = wolf.filter_many(wolf.models.local_trend(0.1, 0.1, 1.0), [np.arange(5.0), np.arange(3.0)])
    for many in (out, wolf.smooth(out)):
        assert many.to_frame(index=list("abcde")).index.tolist() == list("abcdeabc")
    ahead = wolf.forecast(out, steps=2).to_frame()
    assert ahead["series"].tolist() == [0, 0, 1, 1]
    assert ahead["step"].tolist() == [1, 2, 1, 2]


@pytest.mark.parametrize("make", [pd.Series, pl.Series], ids=["pandas", "polars"])
def test_a_series_is_a_frame_of_one_column(make, readings):
    frame = wolf.filter_frame(make(readings), parameters=KNOWN)
    assert list(frame.columns) == ["value", *NEW]
    named = wolf.filter_frame(make(name="y", **{"data" if make is pd.Series else "values": readings}), parameters=KNOWN)
    assert list(named.columns) == ["y", *NEW]
    expected = wolf.filter_frame(pd.DataFrame({"y": readings}), parameters=KNOWN)
    np.testing.assert_array_equal(column(named, "mean"), expected["mean"])


def test_a_model_of_ones_own_is_used_as_it_is(readings):
    model = wolf.models.local_level(0.1, 1.0, prior=wolf.Gaussian(np.zeros(1), 100 * np.eye(1)))
    frame = wolf.filter_frame(pd.DataFrame({"y": readings}), model=model, causal=True)
    np.testing.assert_allclose(frame["mean"], wolf.filter(model, readings).means[:, 0], rtol=1e-9, atol=1e-9)


def test_a_model_of_ones_own_moves_over_uneven_times(readings):
    model = wolf.models.constant_velocity(dims=1, dt=0.5, dynamics_var=0.1, obs_var=1.0)
    gaps = np.tile([1, 1, 2], 40).astype(float)
    frame = pd.DataFrame({"t": 10.0 * np.cumsum(gaps), "y": readings})  # a typical step, 10, is one of the model's
    out = wolf.filter_frame(frame, time="t", values="y", model=model, causal=True)
    online = wolf.Online(model)
    for y, gap, mean in zip(readings, gaps, out["mean"], strict=True):
        online.step(y, dt=0.5 * gap)
        assert online.mean[0] == pytest.approx(mean, rel=1e-8, abs=1e-8)


def test_a_model_of_ones_own_that_does_not_suit_is_rejected(readings):
    level = wolf.models.local_level(0.1, 1.0)
    plain = wolf.LinearModel(level.F, level.H, level.Q, level.R, level.mean, level.cov)
    frame = pd.DataFrame({"t": np.cumsum(np.tile([1.0, 1, 2], 40)), "y": readings})
    for model, words in (
        (plain, "times are uneven, and your model has no motion over other time steps"),
        (wolf.models.wiener_velocity(frame["t"], 1, 0.1, 1.0, wolf.Gaussian(np.zeros(2), np.eye(2))), "F, Q that vary"),
        (wolf.models.lorenz96(4), "a linear model; got"),
        (3, "model must be a name, such as 'local-level', a file, or a linear model; got 3"),
    ):
        with pytest.raises(ValueError, match=words):
            wolf.filter_frame(frame, time="t", values="y", model=model)
    with pytest.raises(ValueError, match="your model has no parameter obs_var"):
        wolf.filter_frame(frame[["y"]], model=plain, parameters={"obs_var": 1.0})


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("times", ["none", "whole", "dates", "zoned"])
def test_a_forecast_is_rows_below_the_others(kind, times, readings):
    stamps = {
        "none": {},
        "whole": {"t": np.arange(120) * 5},
        "dates": {"t": pd.date_range("2024-01-01", periods=120, freq="D").to_numpy()},
        "zoned": {"t": DATES},
    }[times]
    frame = MAKE[kind](
        pd.DataFrame({"y": readings} | stamps).to_dict("list") if kind != "pandas" else {"y": readings} | stamps
    )
    options = {"values": "y", "parameters": KNOWN} | ({} if times == "none" else {"time": "t"})
    out, plain = (wolf.filter_frame(frame, **options, forecast=n) for n in (3, 0))
    assert len(out) == 123
    names = list(plain.column_names if kind == "pyarrow" else plain.columns)
    assert list(out.column_names if kind == "pyarrow" else out.columns) == names
    np.testing.assert_array_equal(column(out, "mean")[:120], column(plain, "mean"))
    assert np.isfinite(column(out, "upper").astype(float)).all()
    assert np.isnan(column(out, "y")[120:].astype(float)).all()
    assert column(out, "weight")[120:].tolist() == [0.0] * 3
    assert not column(out, "outlier")[120:].any()
    width = column(out, "upper") - column(out, "lower")
    assert (np.diff(width[119:]) > 0).all()
    if times != "none":
        ends = pd.Series(out["t"].to_numpy())[118:].diff().dropna()
        assert len(set(ends)) == 1  # the times go on as they went
    if kind == "pandas":
        assert out.index.tolist() == list(range(123))


def test_forecasts_of_many_sensors_go_on_each_by_itself(readings):
    frame = pd.DataFrame({"sensor": ["b", "a"] * 60, "x": readings, "y": -readings}, index=DATES)
    out = wolf.filter_frame(frame, values=["x", "y"], by="sensor", parameters=KNOWN, forecast=2)
    assert out["sensor"].tolist()[120:] == ["b", "b", "a", "a"]
    hours = pd.Timedelta(hours=2)
    assert out.index.tolist()[120:] == [
        DATES[-2] + hours,
        DATES[-2] + 2 * hours,
        DATES[-1] + hours,
        DATES[-1] + 2 * hours,
    ]
    np.testing.assert_allclose(out["x_mean"], -out["y_mean"], atol=1e-9)
    with pytest.raises(ValueError, match="forecast"):
        wolf.filter_frame(frame, values="x", parameters=KNOWN, forecast=-1)


def test_a_forecast_goes_on_with_an_index_of_periods():
    months = pd.period_range("2020-01", periods=40, freq="M")
    values = np.random.default_rng(0).normal(size=40)
    out = wolf.filter_frame(pd.Series(values, index=months, name="sales"), model="local-level", forecast=3)
    assert out.index[-3:].astype(str).tolist() == ["2023-05", "2023-06", "2023-07"]
    assert out.index.is_unique
