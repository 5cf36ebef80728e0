"""Tracks: degrees to metres and back, the date line and the poles, GPX and NMEA, accuracy as noise."""

import dataclasses
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv as arrow_csv

import wolf
from wolf.cleaning import Options, gps_tracks, io
from wolf.cleaning.gps_tracks import LocalPlane, clean_track, plane_around
from wolf.cleaning.load import load
from wolf.cli import main

STEPS = 120
OUTLIERS = [30, 31, 70]
KNOWN = {"accel_rate": 0.05, "obs_var": 9.0}
NAMES = {"g": "http://www.topografix.com/GPX/1/1"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def walk(latitude=52.5, longitude=13.4, seed=0):
    """A walk with errors of 3 m and three outliers: true latitude and longitude, and those measured."""
    rng = np.random.default_rng(seed)
    plane = LocalPlane(latitude, longitude)
    velocity = np.cumsum(0.2 * rng.normal(size=(STEPS, 2)), axis=0) + np.array([1.0, 0.5])
    true = np.cumsum(velocity, axis=0)
    seen = true + 3.0 * rng.normal(size=true.shape)
    seen[OUTLIERS] += [[400.0, -300.0], [380.0, -310.0], [-900.0, 100.0]]
    return *plane.to_globe(true), *plane.to_globe(seen)


def metres(latitude, longitude, other_latitude, other_longitude):
    """Distances on the sphere, by the haversine formula: not the formula that is tested."""
    a, b, c, d = map(np.radians, (latitude, longitude, other_latitude, other_longitude))
    h = np.sin((c - a) / 2) ** 2 + np.cos(a) * np.cos(c) * np.sin((d - b) / 2) ** 2
    return 2 * 6_371_008.8 * np.arcsin(np.sqrt(h))


@given(st.floats(-80, 80), st.floats(-180, 180), st.floats(-0.5, 0.5), st.floats(-0.5, 0.5))
def test_the_way_to_the_plane_and_back_is_exact_and_keeps_distances(latitude, longitude, north, east):
    plane = LocalPlane(latitude, longitude)
    place = latitude + north, (longitude + east + 180) % 360 - 180
    at = plane.to_plane(np.array([place[0]]), np.array([place[1]]))
    back = plane.to_globe(at)
    assert back[0][0] == pytest.approx(place[0], abs=1e-9)
    assert abs((back[1][0] - place[1] + 180) % 360 - 180) < 1e-9
    far = metres(latitude, longitude, *place)
    assert np.hypot(*at[0]) == pytest.approx(far, rel=0.06, abs=0.1)  # half a degree at 80° stretches the east by 5 %


def test_a_degree_has_its_known_length():
    east, north = LocalPlane(45.0, 7.0).to_plane(np.array([45.0, 46.0]), np.array([8.0, 7.0]))
    assert east[0] == pytest.approx(78_847, abs=1.0)  # on WGS 84 at 45°, in every table of degree lengths
    assert north[1] == pytest.approx(111_132, abs=1.0)


def test_the_date_line_is_no_jump():
    true_latitude, true_longitude, latitude, longitude = walk(-17.0, 179.9998)
    assert (true_longitude > 0).any()
    assert (true_longitude < 0).any()
    track = clean_track(latitude, longitude, options=Options(parameters=KNOWN))
    assert set(np.flatnonzero(track.series.outlier)) == set(OUTLIERS)
    off = metres(true_latitude, true_longitude, track.latitude, track.longitude)
    assert np.sqrt(np.mean(off**2)) < 4.0
    here = clean_track(latitude, longitude % 360, options=Options(parameters=KNOWN))
    np.testing.assert_allclose(here.latitude, track.latitude, atol=1e-9)


def test_poles_and_invalid_positions_are_rejected_with_a_reason():
    with pytest.raises(ValueError, match="latitude of 89, where the directions east and north turn"):
        plane_around(np.full(5, 89.0), np.arange(5.0))
    with pytest.raises(ValueError, match="interchanged"):
        clean_track(np.full(5, 152.0), np.full(5, 13.0))
    with pytest.raises(ValueError, match="no position"):
        clean_track([np.nan] * 5, [1.0] * 5)
    latitude, longitude = walk()[2:]
    latitude[5] = 999.0
    assert "1 impossible positions" in clean_track(latitude, longitude, options=Options(parameters=KNOWN)).notes[0]
    assert (
        "distances on its plane are wrong by up to"
        in gps_tracks._distortion_notes(LocalPlane(45.0, 0.0), np.array([30.0, 60.0]))[0]
    )


def test_a_long_reflection_is_found_whole_and_undone():
    known_walk = wolf.datasets.load("track")
    plane = LocalPlane(52.5, 13.4)
    seen, false = known_walk.values.copy(), known_walk.outliers.copy()
    for first in (60, 180, 300):
        seen[first : first + 8] += [25.0, 12.0]
        false[first : first + 8] = True
    known = Options(parameters={"accel_rate": 0.006, "obs_var": 9.0})
    track = clean_track(*plane.to_globe(seen), known_walk.times, options=known)
    off = np.hypot(*(plane.to_plane(track.latitude, track.longitude) - known_walk.truth).T)
    assert track.series.outlier[false].mean() > 0.95
    assert track.series.outlier[~false].mean() < 0.02
    assert set(track.series.fault[180:188]) == {"burst"}
    assert np.sqrt(np.mean(off**2)) < 1.5
    live = clean_track(*plane.to_globe(seen), known_walk.times, options=dataclasses.replace(known, causal=True))
    assert live.series.fault is None
    assert live.series.method == "the default, Adaptive"
    patient = dataclasses.replace(known, causal=True, patience=40)
    assert clean_track(*plane.to_globe(seen), known_walk.times, options=patient).series.method.endswith("(patience=40)")


def test_inaccurate_positions_have_less_weight():
    rng = np.random.default_rng(1)
    true_latitude, true_longitude, *_ = walk(seed=2)
    sigma = np.where(rng.random(STEPS) < 0.6, 1.0, 12.0)
    plane = LocalPlane(52.5, 13.4)
    seen = plane.to_plane(true_latitude, true_longitude) + sigma[:, None] * rng.normal(size=(STEPS, 2))
    places = plane.to_globe(seen)
    errors = []
    for accuracy, obs_var in ((None, np.mean(sigma**2)), (sigma, 1.0)):  # at the usual accuracy, which is 1 m
        options = Options(parameters={"accel_rate": 0.05, "obs_var": float(obs_var)})
        track = clean_track(*places, accuracy=accuracy, options=options)
        off = metres(true_latitude, true_longitude, track.latitude, track.longitude)
        errors.append(float(np.sqrt(np.mean(off**2))))
    assert errors[1] < 0.8 * errors[0]
    inside = off < track.radius
    assert 0.85 < inside.mean() <= 1.0


def gpx_of(latitude, longitude, extra=""):
    start = datetime(2024, 5, 1, 10, tzinfo=UTC)
    points = "".join(
        f'<trkpt lat="{a:.9f}" lon="{b:.9f}"><ele>{100 + 0.1 * (i % 7):.1f}</ele>'
        f"<time>{start + timedelta(seconds=i):%Y-%m-%dT%H:%M:%SZ}</time><hdop>{1 + i % 2}</hdop></trkpt>"
        for i, (a, b) in enumerate(zip(latitude, longitude, strict=True))
    )
    body = f"<trk><name>A walk</name><trkseg>{points}</trkseg></trk>"
    return f'<?xml version="1.0"?>{extra}<gpx version="1.1" xmlns="{NAMES["g"]}">{body}</gpx>'


def invoke(*arguments):
    return CliRunner().invoke(main, [*map(str, arguments)])


def settings():
    return [part for name, value in KNOWN.items() for part in ("--set", f"{name}={value}")]


def test_gpx_in_and_gpx_out(folder):
    true_latitude, true_longitude, latitude, longitude = walk()
    Path("walk.gpx").write_text(gpx_of(latitude, longitude))
    result = invoke("filter", "walk.gpx", *settings())
    assert result.exit_code == 0, result.output
    assert "'hdop' as accuracy" in result.output
    assert "3 flagged" in result.output or "4 flagged" in result.output  # three are false
    points = ElementTree.parse("walk-clean.gpx").getroot().findall(".//g:trkpt", NAMES)
    assert len(points) == STEPS
    cleaned = np.array([[float(point.get("lat")), float(point.get("lon"))] for point in points])
    off = metres(true_latitude, true_longitude, *cleaned.T)
    assert np.sqrt(np.mean(off**2)) < 4.0
    assert points[1].find("g:time", NAMES).text == "2024-05-01T10:00:01.000Z"
    assert 99 < float(points[5].find("g:ele", NAMES).text) < 101
    assert invoke("filter", "walk.gpx", *settings(), "--out", "walk.csv").exit_code == 0
    table = arrow_csv.read_csv("walk.csv")
    assert {"latitude_mean", "longitude_mean", "radius", "altitude_mean", "weight", "outlier"} <= set(
        table.column_names
    )
    np.testing.assert_allclose(table["latitude_mean"], cleaned[:, 0], atol=1e-7)


@pytest.mark.thorough
def test_the_report_of_a_track_has_a_map(folder):
    Path("walk.gpx").write_text(gpx_of(*walk()[2:]))
    assert invoke("filter", "walk.gpx", *settings(), "--report", "walk.html").exit_code == 0
    assert "track, metres east to the right, metres north upwards" in Path("walk.html").read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<gpx></gpx>", "contains no track"),
        ("<gpx><trk>", "not a GPX file that can be read"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><gpx></gpx>', "declares XML entities"),
        ('<gpx><trk><trkseg><trkpt lat="x" lon="1"/></trkseg></trk></gpx>', "without a latitude"),
    ],
)
def test_a_broken_gpx_file_is_one_line(folder, text, words):
    Path("walk.gpx").write_text(text)
    result = invoke("filter", "walk.gpx")
    assert result.exit_code == 2
    assert words in result.output


def sentence(body):
    return f"${body}*{reduce(lambda a, b: a ^ b, body.encode()):02X}\r\n"


def angle(degrees, digits, sides):
    whole, minutes = divmod(abs(degrees) * 60, 60)
    return f"{int(whole):0{digits}d}{minutes:08.5f},{sides[int(degrees < 0)]}"


def test_nmea_is_read_over_midnight_and_bad_sums_are_left_out(folder):
    latitude, longitude = walk(-33.9, 18.4)[2:]
    lines = []
    for i, (a, b) in enumerate(zip(latitude, longitude, strict=True)):
        now = datetime(2024, 5, 1, 23, 59, 30) + timedelta(seconds=i)
        clock, place = now.strftime("%H%M%S.00"), f"{angle(a, 2, 'NS')},{angle(b, 3, 'EW')}"
        lines.append(sentence(f"GPGGA,{clock},{place},1,08,{1 + 0.1 * (i % 3):.1f},{50 + i % 2}.0,M,30.0,M,,"))
        lines.append(sentence(f"GPRMC,{clock},A,{place},0.5,54.7,{now:%d%m%y},,,A"))
    lines[40] = lines[40].replace("GPGGA,", "GPGGA,9")
    lines.append(sentence("GPGGA,000200.00,,,,,0,00,,,M,,M,,"))
    Path("log.nmea").write_text("".join(lines))
    table = io.read_table("log.nmea")
    assert table.notes == ("1 sentences with a wrong checksum left out",)
    np.testing.assert_allclose(table.data["latitude"], latitude, atol=1e-6)
    np.testing.assert_allclose(table.data["longitude"], longitude, atol=1e-6)
    found = load("log.nmea")
    np.testing.assert_array_equal(found.times, np.arange(STEPS))
    result = invoke("filter", "log.nmea", *settings(), "--out", "log.gpx")
    assert result.exit_code == 0, result.output
    assert Path("log.gpx").read_text().count("<trkpt") == STEPS


def test_positions_in_a_table_of_many_tracks(folder):
    latitude, longitude = walk()[2:]
    lines = [
        "who,lat,lon",
        *(f"{'ab'[i % 2]},{a},{b}" for i, (a, b) in enumerate(zip(latitude, longitude, strict=True))),
    ]
    lines += ["pole,89.5,1", "pole,89.6,2", "pole,89.5,3"]
    Path("in.csv").write_text("\n".join(lines))
    result = invoke("filter", "in.csv", "--by", "who", *settings())
    assert result.exit_code == 0, result.output
    assert "pole was not filtered: the track is at a latitude of 89.5" in result.output
    out = arrow_csv.read_csv("in-clean.csv").to_pydict()
    assert out["latitude_mean"][-1] is None
    np.testing.assert_allclose(out["latitude_mean"][:20], latitude[:20], atol=2e-4)
    assert invoke("filter", "in.csv", "--by", "who", "--forecast", "3").exit_code == 2
    assert "is for tracks" in invoke("filter", "in.csv", "--value", "lat", "--out", "x.gpx").output
