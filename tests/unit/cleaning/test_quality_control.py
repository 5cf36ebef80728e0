"""Rules, labels, maintenance, quality flags, incidents, and the regular grid."""

import tomllib

import numpy as np
import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner

import wolf
from wolf.cleaning import quality_flags, regular_grid, rules, time_intervals
from wolf.cli import main
from wolf.diagnostics.faults.incidents import find_incidents
from wolf.integrations.accessors import FrameAccessor

KNOWN = {"level_var": 0.0025, "obs_var": 0.09}
START = np.datetime64("2024-05-01T00:00:00", "us")
STEP = np.timedelta64(15, "m")


def made(rows=200, seed=0):
    rng = np.random.default_rng(seed)
    return 20.0 + np.cumsum(0.05 * rng.normal(size=rows)) + 0.3 * rng.normal(size=rows)


def frame_of(values):
    return pd.DataFrame({"time": START + STEP * np.arange(len(values)), "temp": values})


def filtered(values, **options):
    return wolf.filter_frame(frame_of(values), time="time", parameters=KNOWN, **options)


def day(row):
    return START + STEP * row


@pytest.fixture(scope="module")
def faulty():
    values = made()
    values[[30, 60]] = [80.0, -40.0]
    values[90:110] = values[90]
    values[150:156] = np.nan
    return values


def test_without_rules_the_results_are_unchanged_and_flags_follow_the_outliers(faulty):
    out = filtered(faulty)
    flags = out["qartod"].to_numpy()
    assert np.array_equal(flags == 9, np.isnan(faulty))
    assert np.array_equal(flags == 4, out["outlier"])
    scores = out["anomaly_score"].to_numpy()
    assert np.array_equal(np.isnan(scores), np.isnan(faulty))
    known = ~np.isnan(scores)
    assert np.array_equal(scores[known] >= 0.5, out["outlier"].to_numpy()[known])
    assert scores[known].min() >= 0.0
    assert scores[known].max() <= 1.0
    wide = filtered(faulty, rules={"temp": {"min": -100, "max": 100, "max_rate": "500/h", "flat_for": "1d"}})
    pd.testing.assert_frame_equal(out, wide)


def test_rules_find_what_they_name():
    values = made()
    values[[30, 60]] = [21.0 + 5.0, 14.0]
    values[90:100] = values[90]
    out = filtered(values, rules={"temp": {"max": 25.0, "max_rate": "12/h", "flat_for": "2h"}})
    assert out["fault"][30] == "range"
    assert out["fault"][60] == "rate"
    assert (out["fault"][91:100] == "stuck").all()
    assert out["fault"][90] == ""
    assert (out["qartod"][[30, 60, 95]] == 4).all()
    assert np.isfinite(out["cleaned"]).all()


def brute_force(values, limit):
    """Size of the largest subset that keeps a limit of the change per step."""
    best = np.ones(len(values), int)
    for j in range(len(values)):
        for i in range(j):
            if abs(values[j] - values[i]) <= limit * (j - i):
                best[j] = max(best[j], best[i] + 1)
    return best.max()


def test_the_rate_rule_removes_the_fewest_readings(rng):
    for _ in range(20):
        values = np.round(rng.normal(size=25), 1)
        rate, jump = rules._rate_rows(values, np.arange(25.0), 0.7, 25)
        left = np.flatnonzero(~rate)
        assert not jump.any()
        assert np.all(np.abs(np.diff(values[left])) <= 0.7 * np.diff(left) + 1e-6)
        assert len(left) == brute_force(values, 0.7 + 1e-9)


def test_a_jump_that_stays_is_suspect_and_no_fault():
    values = np.concatenate([np.zeros(60), np.full(60, 50.0)])
    found = rules.violations(rules.Rule(max_rate=(1.0, 1.0)), values, np.arange(120.0), 1.0, False, 30)
    assert not found.rate.any()
    assert np.flatnonzero(found.jump).tolist() == [60]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"rules": {"tmp": {"min": 0}}}, "a rule for 'tmp', which is not filtered. Did you mean 'temp'"),
        ({"rules": {"temp": {"min": 3, "max": 2}}}, "min of 'temp' is 3, which is larger than max, 2"),
        ({"rules": {"temp": {"least": 3}}}, "there is no rule 'least'"),
        ({"rules": {"temp": {"max_rate": "5/fortnight"}}}, "max_rate of 'temp' must be"),
        ({"rules": {"temp": {"flat_for": "soon"}}}, "flat_for of 'temp' must be a duration"),
        ({"rules": {"temp": {"min": "low"}}}, "min of 'temp' must be a number"),
        ({"rules": 3}, "rules must be a mapping"),
        ({"rules": {"temp": {"min": 1e6}}}, "leave no reading"),
        ({"every": "often"}, "every must be a duration"),
        ({"every": "1h", "forecast": 3}, "every and forecast exclude each other"),
        ({"max_gap": -1}, "max_gap must be a duration"),
        ({"correction": "drift"}, "correction needs the times of calibrations"),
        ({"correction": "drift", "maintenance": [], "causal": True}, "correction and causal exclude each other"),
        ({"correction": "twist", "maintenance": []}, "correction must be one of offset, drift"),
        ({"labels": [{"start": "2024-05-01", "label": "odd"}]}, "must hold fault or good"),
        ({"labels": [{"start": 7, "label": "fault"}]}, "expected a date"),
        ({"labels": [{"begin": 7}]}, "expected a table with the columns start"),
        ({"maintenance": [{"start": "2024-05-02", "end": "2024-05-01"}]}, "ends before it starts"),
        ({"maintenance": [{"start": "2024-05-02", "column": "tmp"}]}, "names the column 'tmp'"),
    ],
)
def test_wrong_options_are_errors_that_say_what_to_do(given, words):
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        filtered(made(40), **given)


def test_labels_overrule_the_search(faulty):
    labels = [{"start": day(30), "label": "good"}, {"start": day(10), "end": day(12), "label": "fault"}]
    out = filtered(faulty, labels=labels)
    assert not out["outlier"][30]
    assert out["cleaned"][30] == 80.0
    assert (out["fault"][10:13] == "labelled").all()
    assert out["outlier"][10:13].all()


def test_labels_are_read_from_files_frames_and_row_numbers(tmp_path, faulty):
    (tmp_path / "labels.csv").write_text("start,end,label\n2024-05-01 02:30,2024-05-01 03:00,fault\n")
    expected = np.arange(10, 13)
    frame = pl.DataFrame({"start": [day(10).item()], "end": [day(12).item()], "label": ["fault"]})
    for labels in (tmp_path / "labels.csv", frame):
        assert np.flatnonzero(filtered(faulty, labels=labels)["fault"] == "labelled").tolist() == expected.tolist()
    by_row = [{"start": 11, "end": 13, "label": "fault"}]
    out = wolf.filter_frame(pd.Series(faulty), parameters=KNOWN, labels=by_row)
    assert np.flatnonzero(out["fault"] == "labelled").tolist() == expected.tolist()
    with pytest.raises(ValueError, match="holds dates, but the series has numbers"):
        time_intervals.read("labels", tmp_path / "labels.csv", False, 0.0)


def test_a_known_event_is_no_fault():
    values = made()
    values[100:] += 8.0
    values[150:155] += 30.0
    assert "shift" in set(filtered(values)["fault"])
    events = [{"start": day(100)}, {"start": day(150), "end": day(154)}]
    out = filtered(values, maintenance=events)
    assert set(out["fault"]) == {"", "maintenance"}
    assert np.flatnonzero(out["fault"] == "maintenance").tolist() == [100, *range(150, 155)]
    assert (out["qartod"][150:155] == 2).all()
    assert not out["outlier"][100]
    assert abs(out["mean"][99] - values[90:100].mean()) < 0.5
    assert abs(out["mean"][100] - values[100:110].mean()) < 0.5


def test_a_forecast_continues_at_the_level_after_a_calibration():
    values = made()
    values[100:] += 8.0
    out = filtered(values, maintenance=[{"start": day(100)}], forecast=3)
    assert abs(out["mean"].iloc[-1] - values[-20:].mean()) < 1.0


def test_causal_rules_do_not_look_ahead():
    values = made(120)
    values[40] += 30.0
    values[60:] += 50.0
    values[80:95] = values[80]
    for rule in (rules.Rule(max_rate=(5.0, 1.0)), rules.Rule(flat_for=6)):
        place = np.arange(120.0)
        whole = rules.violations(rule, values, place, 1.0, False, 8, causal=True)
        for stop in (41, 50, 61, 70, 86, 90):
            part = rules.violations(rule, values[:stop], place[:stop], 1.0, False, 8, causal=True)
            assert all(np.array_equal(a, b[:stop]) for a, b in zip(part, whole, strict=True))
    assert np.flatnonzero(whole.flat).tolist() == list(range(85, 95))
    fast = rules.violations(rules.Rule(max_rate=(5.0, 1.0)), values, place, 1.0, False, 8, causal=True)
    assert np.flatnonzero(fast.rate).tolist() == [40, *range(60, 68)]
    assert np.flatnonzero(fast.jump).tolist() == [68]


def test_drift_is_corrected_between_calibrations():
    truth = made()
    drift = np.where(np.arange(200) < 120, 6.0 * np.arange(200) / 120, 0.0)
    for event in ({"start": day(120)}, {"start": day(120), "error": 6.0}):
        out = filtered(truth + drift, maintenance=[event], correction="drift")
        assert np.abs(out["cleaned"] - truth).max() < 0.6
        assert not out["outlier"].any()
    out = filtered(truth + 6.0 * (np.arange(200) < 120), maintenance=[{"start": day(120)}], correction="offset")
    assert np.abs(out["cleaned"] - truth).max() < 0.6


def test_gaps_are_filled_up_to_a_length(faulty):
    assert filtered(faulty, max_gap="90min")["cleaned"].notna().sum() == 200 - 19  # stuck readings are a gap too
    assert filtered(faulty, max_gap=5)["cleaned"].isna().sum() == 6 + 19
    assert filtered(faulty, max_gap="6h")["cleaned"].notna().all()


def test_the_grid_is_regular_and_holds_the_results_of_its_rows(faulty):
    frame = frame_of(faulty).drop(index=[70, 71, 72])
    whole = filtered(faulty)
    for backend in (pd.DataFrame, pl.from_pandas):
        out = wolf.filter_frame(backend(frame), time="time", parameters=KNOWN, every="30min")
        times = np.asarray(out["time"].to_numpy(), "datetime64[us]")
        assert np.array_equal(times, START + 2 * STEP * np.arange(100))
        here = np.asarray(out["mean"].to_numpy())
        np.testing.assert_allclose(here, whole["mean"][::2], atol=0.15)
        assert np.asarray(out["qartod"].to_numpy())[35:37].tolist() == [9, 9]
    finer = wolf.filter_frame(frame.set_index("time"), values="temp", parameters=KNOWN, every="10min", max_gap="30min")
    assert np.all(np.diff(finer.index.to_numpy()) == np.timedelta64(10, "m"))
    assert finer["cleaned"].isna().sum() > 0
    assert finer["mean"].notna().all()


def test_a_grid_of_many_series_has_their_keys():
    values = made(40)
    frame = pd.concat([frame_of(values).assign(key="b"), frame_of(values[:30]).assign(key="a")])
    out = wolf.filter_frame(frame, time="time", values="temp", by="key", parameters=KNOWN, every="1h")
    assert out["key"].tolist() == ["b"] * 10 + ["a"] * 8


@pytest.mark.thorough
def test_live_scores_raise_one_alarm_per_incident():
    values = made(400)
    values[100:112] += 9.0
    values[300] += 9.0
    out = filtered(values, causal=True)
    assert np.flatnonzero(out["anomaly_score"] >= 0.5).tolist() == [100, 300]


def test_scores_of_an_alarm_decay_whatever_the_chunks():
    scores, outlier = np.full(60, 0.9), np.zeros(60, bool)
    outlier[[5, 6, 30, 50]] = True
    whole, _ = quality_flags.decay(scores, outlier, quality_flags.AlarmState())
    state, parts = quality_flags.AlarmState(), []
    for part in np.split(np.arange(60), [6, 7, 31, 45]):
        found, state = quality_flags.decay(scores[part], outlier[part], state)
        parts.append(found)
    assert np.array_equal(np.concatenate(parts), whole)
    assert whole[[5, 6, 30, 50]].tolist() == [0.9, 0.45, 0.9, 0.45]


def test_incidents_join_rows_with_numbers_that_agree(faulty):
    out = filtered(faulty)
    found = wolf.incidents(out, time="time", values="temp")
    assert found["kind"].tolist() == ["spike", "spike", "stuck", "gap"]
    first = found.iloc[0]
    assert first["start"] == first["end"]
    row = int((first["start"] - pd.Timestamp(START)) / pd.Timedelta("15min"))
    off = abs(faulty[row] - out["mean"][row])
    assert f"1 reading, {off:.5g} " in first["reason"]
    assert first["severity"] == pytest.approx(off / (out["prediction_upper"] - out["mean"])[row], rel=1e-4)
    assert found["rows"].tolist() == [1, 1, 19, 6]
    in_polars = wolf.incidents(pl.from_pandas(out), time="time", values="temp")
    assert in_polars["reason"].to_list() == found["reason"].tolist()
    by_row = FrameAccessor(out).incidents(values="temp")
    assert sorted(by_row["start"]) == [31.0, 61.0, 92.0, 151.0]
    with pytest.raises(ValueError, match=r"needs a result of wolf\.filter_frame"):
        wolf.incidents(frame_of(faulty), time="time", values="temp")


def test_incidents_of_tracks_files_and_forecasts(tmp_path, faulty):
    track = pd.DataFrame({"x": faulty, "y": -faulty})
    known = {"accel_rate": 1e-4, "obs_var": 0.09}
    out = wolf.filter_frame(track, values=["x", "y"], model="wiener-velocity", parameters=known)
    found = wolf.incidents(out, values=["x", "y"])
    assert len(found) == len(set(found["start"]))
    assert set(found["column"]) == {""}
    ahead = filtered(faulty, forecast=5)
    expected = wolf.incidents(filtered(faulty), time="time", values="temp")
    pd.testing.assert_frame_equal(wolf.incidents(ahead, time="time", values="temp"), expected)
    ahead.to_csv(tmp_path / "ahead.csv", index=False)
    read = wolf.incidents(pd.read_csv(tmp_path / "ahead.csv", parse_dates=["time"]), time="time", values="temp")
    assert read["reason"].tolist() == expected["reason"].tolist()


def test_confidence_grows_with_size():
    values, half = np.zeros((1000, 1)), np.ones((1000, 1))
    confidence = []
    for rows, size in (([10], 1.5), ([10, 11, 12], 6.0), ([10], 60.0)):
        values[:] = 0.0
        values[rows] = size
        outlier = values[:, 0] > 0.0
        (found,) = find_incidents(values, 0.0 * values, half, outlier, np.where(outlier, "burst", ""))
        confidence.append(found.confidence)
    assert confidence == pytest.approx(np.exp([-50.0 / size**3 for size in (1.5, 6.0, 60.0)]))


def test_missing_rows_of_irregular_series_are_not_added():
    times = np.array([0.0, 1.0, 2.5, 3.5, 4.5])
    assert regular_grid.add_missing_rows(None, times, np.ones((5, 1)))[1] is times


def test_the_command_repeats_a_run_from_its_record(tmp_path, monkeypatch, faulty):
    monkeypatch.chdir(tmp_path)
    frame_of(faulty).to_csv("readings.csv", index=False)
    (tmp_path / "visits.csv").write_text("start,end\n2024-05-01 02:00,2024-05-01 02:30\n")
    (tmp_path / "rules.toml").write_text(
        'maintenance = "visits.csv"\n[parameters]\nlevel_var = 0.0025\nobs_var = 0.09\n'
    )
    first = "filter readings.csv --config rules.toml --max temp=50 --min -30 --flat-for temp=2h --incidents i.csv"
    for command in (f"{first} --record r.toml --out a.csv", "filter readings.csv --config r.toml --out b.csv"):
        result = CliRunner().invoke(main, command.split(), catch_exceptions=False)
        assert result.exit_code == 0, result.output
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    record = tomllib.loads((tmp_path / "r.toml").read_text())
    assert record["rules"] == {"temp": {"max": 50.0, "flat_for": "2h"}, "": {"min": -30.0}}
    assert record["record"]["series"][0]["faults"]["range"] == 2
    incidents = pd.read_csv("i.csv")
    assert incidents["kind"].tolist() == ["range", "range", "stuck", "maintenance", "gap"]
    assert incidents["start"][0] in ("2024-05-01 07:30:00", "2024-05-01 15:00:00")
    grid = CliRunner().invoke(main, ["filter", "readings.csv", "--config", "r.toml", "--every", "1h", "--out", "g.csv"])
    assert grid.exit_code == 0, grid.output
    assert len(pd.read_csv("g.csv")) == 50
    (tmp_path / "wrong.toml").write_text("every_hour = 1\n")
    wrong = CliRunner().invoke(main, ["filter", "readings.csv", "--config", "wrong.toml"])
    assert wrong.exit_code == 2
    assert "unknown key 'every_hour'" in wrong.output
