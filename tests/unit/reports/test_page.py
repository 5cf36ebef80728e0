"""The report: one file, nothing from outside, small, and it works in a browser, light and dark."""

import base64
import dataclasses
import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import wolf
from wolf.cleaning import Options, clean
from wolf.reports import chart_data, page, summary, svg, write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LARGEST = 5_000_000
MOVED = "([min, max]) => { const now = window.wolfReport.range(); return now.min !== min || now.max !== max; }"
DRAWN = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.fixture(scope="module")
def series():
    rng = np.random.default_rng(0)
    ys = np.cumsum(0.3 * rng.normal(size=600)) + rng.normal(size=600)
    ys[::40] += 50.0
    ys[7] = np.nan
    return clean(ys[:, None], np.arange(600.0), Options(forecast=20), names=["<b>temp</b>"])


def make(path, series, **options):
    write_report(
        str(path), "readings.csv", series, Options(forecast=20), **({"names": ["<b>temp</b>"], "time": "t"} | options)
    )
    return path.read_text()


def page_data(text):
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S)[1])


def test_page_holds_everything_and_loads_nothing(tmp_path, series):
    text = make(tmp_path / "report.html", series)
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", text)
    assert "{{" not in text.split("<script>")[0]
    assert "Leon Sorokin" in text  # the licence of what is inlined
    assert re.search(r"<b>\d+ are outliers</b>", text)
    assert "level_var" in text
    assert "standard deviation of the noise" in text


def test_names_are_escaped(tmp_path, series):
    text = make(tmp_path / "report.html", series, notes=["</script><i>bad</i>"])
    assert "<b>temp</b>" not in text
    assert "<i>bad</i>" not in text


def test_numbers_are_those_of_the_series(tmp_path, series):
    picture = page_data(make(tmp_path / "report.html", series))["pictures"][0]
    mean = np.frombuffer(base64.b64decode(picture["mean"]["data"]), "<f4")
    np.testing.assert_allclose(mean, series[0].mean[:, 0], rtol=1e-6)
    assert sum(picture["counts"]) == picture["measured"] == 599
    assert len(picture["correlations"]) == chart_data.MAX_LAG
    assert picture["band"][1] == pytest.approx(5.0239, abs=1e-3)  # χ² with one degree of freedom, 97.5 %
    assert len(base64.b64decode(picture["forecast"]["time"]["data"])) == 20 * 8


def test_hundred_thousand_points_are_under_five_megabytes_and_more_are_thinned(tmp_path, series):
    size = 150_000
    spread = {
        name: np.resize(getattr(series[0], name), (size, *getattr(series[0], name).shape[1:]))
        for name in (
            "values",
            "mean",
            "lower",
            "upper",
            "prediction_lower",
            "prediction_upper",
            "weight",
            "outlier",
            "fault",
            "standardised",
            "nis",
            "log_density",
        )
    }
    long = dataclasses.replace(series[0], rows=np.arange(size), times=np.arange(size) * 0.37, forecast=None, **spread)
    text = make(tmp_path / "report.html", [long])
    picture = page_data(text)["pictures"][0]
    assert len(text.encode()) < LARGEST
    assert 0.9 * chart_data.MAX_POINTS < picture["shown"] <= chart_data.MAX_POINTS
    assert f"{picture['shown']:,} of 150,000 rows" in text
    flags = np.frombuffer(base64.b64decode(picture["outlier"]["data"]), "u1")
    assert flags.sum() == long.outlier.sum()  # every flagged row is shown


def test_correlations_of_white_noise_are_small(rng):
    assert np.abs(chart_data.correlations(rng.normal(size=10_000), 40)).max() < 0.05


def test_a_report_that_cannot_be_written_leaves_nothing(tmp_path, series):
    with pytest.raises(FileNotFoundError):
        make(tmp_path / "nowhere" / "report.html", series)
    assert list(tmp_path.iterdir()) == []


def test_every_asset_is_in_the_package():
    for name in ("page.html", "page.css", "page.js", "uPlot.iife.min.js", "uPlot.min.css", "uPlot-LICENSE.txt"):
        assert page._asset(name)


def test_every_flagged_reading_is_in_the_table_with_a_reason(tmp_path, series):
    text = make(tmp_path / "report.html", series)
    rows = re.findall(r'<td data-title="rows">(\d+)(?: to (\d+))?</td>', text)
    kinds = re.findall(r'data-kind="(\w+)"', text)
    faults = [row for row, kind in zip(rows, kinds, strict=True) if kind != "shift"]
    covered = {row for first, last in faults for row in range(int(first), int(last or first) + 1)}
    assert covered == set(np.flatnonzero(series[0].outlier) + 1)
    reasons = re.findall(r'<td data-title="reason">([^<]*)</td>', text)
    assert len(reasons) >= 10
    pattern = (
        r"1 reading, (\S+) (above|below) the estimate of (\S+) \((\S+) half widths of the 95 % prediction interval\)"
    )
    (row,) = (row for row, _ in rows if row == "41")
    off, side, estimate, size = re.search(pattern, reasons[[first for first, _ in rows].index(row)]).groups()
    value, mean = series[0].values[40, 0], series[0].mean[40, 0]
    half = series[0].prediction_upper[40, 0] - mean
    assert (float(off), side) == (pytest.approx(value - mean, rel=1e-4), "above")
    assert (float(estimate), float(size)) == pytest.approx((mean, (value - mean) / half), rel=5e-3)


def test_kinds_events_and_the_choice_are_shown_where_they_are_known(tmp_path, series):
    kind = np.where(series[0].outlier, "burst", "").astype(object)
    kind[[300, 301]] = "shift"
    candidate = SimpleNamespace(name="local-level", score=-1.5, behind=0.0, parameters={"obs_var": 1.0}, seconds=0.1)
    choice = SimpleNamespace(candidates=(candidate,), verdict="independent errors", words="local-level: predicts best")
    values = series[0].values.copy()
    values[100:110] = np.nan
    known = dataclasses.replace(series[0], fault=kind, choice=choice, values=values)
    text = make(tmp_path / "report.html", [known])
    assert "the level changes by" in text
    assert "10 rows without a reading" in text
    assert page_data(text)["pictures"][0]["gaps"] == [[99.0, 110.0]]
    assert "local-level: predicts best" in text
    assert "All 1 candidates" in text
    picture = page_data(text)["pictures"][0]
    assert picture["kinds"] == ["burst", "shift"]


def test_the_page_says_one_thing(tmp_path, series):
    """A box is green only if there are no faults and no findings; there is one box."""
    rng = np.random.default_rng(0)
    errors = rng.normal(size=(600, 1))
    calm = {"outlier": np.zeros(600, bool), "fault": np.full(600, ""), "standardised": errors, "nis": errors[:, 0] ** 2}
    quiet = dataclasses.replace(series[0], values=np.nan_to_num(series[0].mean), **calm)
    assert '<p class="verdict good">No faults found' in make(tmp_path / "report.html", [quiet])
    text = make(tmp_path / "report.html", series)
    assert "verdict good" not in text
    assert re.search(r"<li>\d+ incidents: \d+ spike", text)
    unfit = SimpleNamespace(candidates=(), verdict="x; the errors are autocorrelated: no candidate fits", words="level")
    text = make(tmp_path / "report.html", [dataclasses.replace(quiet, choice=unfit)])
    assert "verdict good" not in text
    assert "no candidate fits" in text


def test_checks_are_reported_in_words(tmp_path, series):
    good = {"correlations": [0.01], "unflagged": 500, "inside": 0.95, "bias": 0.0}
    assert summary.residual_findings(good) == []
    assert "intervals are too narrow" in summary.residual_findings(good | {"correlations": [0.7]})[0]
    assert "underestimated" in summary.residual_findings(good | {"inside": 0.8})[0]
    assert "overestimated" in summary.residual_findings(good | {"inside": 0.999})[0]
    assert "too wide" in summary.residual_findings(good | {"correlations": [-0.7]})[0]
    assert summary.residual_findings(good | {"correlations": [-0.7]}, past=False) == []
    assert "below their prediction" in summary.residual_findings(good | {"bias": -0.5})[0]
    fit = SimpleNamespace(errors={"obs_var": 9.3}, converged=False, at_boundary=(), outlier_share=None)
    unsure = dataclasses.replace(series[0], fit=fit, parameters={"level_var": 0.1, "obs_var": 0.22})
    assert len(summary.series_findings(unsure)) == 2
    text = make(tmp_path / "report.html", [unsure])
    assert "not distinguishable from 0" in text
    assert "standard deviation of the noise</span>" not in text


def test_noise_that_changes_is_drawn_and_reported(tmp_path, series):
    rng = np.random.default_rng(1)
    errors = rng.normal(size=(600, 1))
    calm = dataclasses.replace(series[0], standardised=errors.copy(), outlier=np.zeros(600, bool))
    errors[300:450] *= 4.0
    loud = dataclasses.replace(calm, standardised=errors)
    text = make(tmp_path / "report.html", [loud])
    picture = page_data(text)["pictures"][0]
    noise = np.frombuffer(base64.b64decode(picture["noise"]["size"]["data"]), "<f4")
    assert noise[:200].max() < 1.6 < 3.0 < noise[350:400].min()
    assert re.search(r"around (3|4)\d\d it is \d.\d times its median", text)
    assert "times its median" not in make(tmp_path / "report.html", [calm])
    short = dataclasses.replace(loud, standardised=np.where(np.arange(600) < 200, errors[:, 0], np.nan)[:, None])
    assert page_data(make(tmp_path / "report.html", [short]))["pictures"][0]["noise"] is None


def test_many_series_are_shown_in_little_the_most_troubled_first(tmp_path, series):
    errors = np.random.default_rng(3).normal(size=(600, 1))
    calm = dataclasses.replace(series[0], label="calm", outlier=np.zeros(600, bool), standardised=errors)
    calm = dataclasses.replace(calm, nis=errors[:, 0] ** 2)
    some = [calm, dataclasses.replace(series[0], label="wild")]
    text = make(tmp_path / "report.html", some, failed={"dead": "all 9 values are missing"})
    places = [text.index(words) for words in ("<b>dead</b>", "<b>wild</b>", "<b>calm</b>")]
    assert places == sorted(places)
    assert [picture["label"] for picture in page_data(text)["pictures"]] == ["wild", "calm"]
    assert text.count('role="img" aria-label="calm') == 1


def test_a_series_whose_errors_are_alike_is_more_troubled_than_a_calm_one(tmp_path, series):
    errors = np.random.default_rng(3).normal(size=601)
    calm = dataclasses.replace(series[0], label="calm", outlier=np.zeros(600, bool), standardised=errors[1:, None])
    calm = dataclasses.replace(calm, nis=errors[1:] ** 2)
    correlated = (0.8 * errors[1:] + 0.8 * errors[:-1])[:, None]
    text = make(
        tmp_path / "report.html", [calm, dataclasses.replace(calm, label="correlated", standardised=correlated)]
    )
    assert text.index("<b>correlated</b>") < text.index("<b>calm</b>")


def test_the_shape_of_a_season_is_that_of_the_estimate():
    mean = 5.0 * np.sin(2 * np.pi * np.arange(240) / 24) + 0.1 * np.arange(240)
    known = SimpleNamespace(model="trend+seasonal:24:3", even=True, mean=mean[:, None])
    assert "Pattern of period 24: from -5 to 5 around the level" in svg.season(known)
    assert svg.season(SimpleNamespace(model="local-level", even=True, mean=mean[:, None])) == ""


@pytest.mark.thorough
def test_a_result_in_python_becomes_a_page(tmp_path):
    model = wolf.models.constant_velocity(dims=2, dt=1.0, dynamics_var=0.1, obs_var=4.0)
    drawn = wolf.simulate.trajectory(model, 60, 3, wolf.simulate.Additive(0.1, -60.0, 60.0))
    out = wolf.filter(model, drawn.measurements)
    days = np.datetime64("2024-05-01") + np.arange(60)
    wolf.report(out, tmp_path / "track.html", times=days, names=["east", "north"], title="A track")
    text = (tmp_path / "track.html").read_text()
    assert 'aria-label="track, east to the right, north upwards"' in text
    assert "Of 60 rows" in text
    first = int(np.flatnonzero(out.outliers)[0])
    assert str(days[first]) in text
    mean = np.frombuffer(base64.b64decode(page_data(text)["pictures"][1]["mean"]["data"]), "<f4")
    np.testing.assert_allclose(mean, out.means[:, 1], rtol=1e-5)
    wolf.report(wolf.smooth(out), tmp_path / "smooth.html")
    assert "the whole series (smoothed)" in (tmp_path / "smooth.html").read_text()
    for wrong, words in ((np.zeros(3), "report needs a result"), (wolf.filter(model, out.ys, save="means"), "save=")):
        with pytest.raises(ValueError, match=words):
            wolf.report(wrong, tmp_path / "x.html")
    with pytest.raises(ValueError, match="times must have one entry"):
        wolf.report(out, tmp_path / "x.html", times=[1.0])
    with pytest.raises(ValueError, match="names must be one"):
        wolf.report(out, tmp_path / "x.html", names=["a"])


def test_a_curved_model_is_seen_through_its_measurement(tmp_path):
    prior = wolf.Gaussian([1.0], [[0.1]])
    model = wolf.StateSpaceModel(
        dynamics=lambda x: x, observe=lambda x: x**2, dynamics_cov=[[0.01]], obs_cov=[[0.1]], prior=prior
    )
    out = wolf.filter(model, np.ones(20))
    wolf.report(out, tmp_path / "curved.html")
    mean = page_data((tmp_path / "curved.html").read_text())["pictures"][0]["mean"]
    np.testing.assert_allclose(np.frombuffer(base64.b64decode(mean["data"]), "<f4"), out.means[:, 0] ** 2, rtol=1e-5)


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine; Debian has it as the package chromium")
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory, series):
    path = tmp_path_factory.mktemp("report") / "report.html"
    make(path, series)
    return path


def open_page(browser, path, scheme, width=1200):
    opened = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    errors = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    opened.on("request", lambda request: errors.append(request.url) if not request.url.startswith("file:") else None)
    opened.goto(Path(path).as_uri())
    opened.wait_for_function("window.wolfReport && window.wolfReport.ready")
    return opened, errors


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_draws_in_a_browser_without_errors(browser, written, scheme):
    opened, errors = open_page(browser, written, scheme)
    assert errors == []
    assert opened.locator("canvas").count() == 6
    background = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")
    # Every canvas has something on it besides its axes: more than a few colours.
    for place in ("series", "weights", "nis", "histogram", "memory"):
        drawn = opened.evaluate(
            """id => { const c = document.querySelector(`#${id} canvas`), x = c.getContext("2d");
            const d = x.getImageData(0, 0, c.width, c.height).data, s = new Set();
            for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 200) s.add(d[i] + 256 * d[i + 1] + 65536 * d[i + 2]);
            return s.size; }""",
            place,
        )
        assert drawn > 3, place
    opened.close()


def test_zoom_pan_and_reset_move_all_pictures(browser, written):
    opened, errors = open_page(browser, written, "light")

    def span():
        found = opened.evaluate("window.wolfReport.range()")
        return found["min"], found["max"]

    def moved_from(before):
        opened.wait_for_function(MOVED, arg=before)
        opened.evaluate(DRAWN)
        return span()

    whole = span()
    opened.click("[data-zoom=in]")
    low, high = moved_from(whole)
    assert high - low == pytest.approx(0.5 * (whole[1] - whole[0]), rel=1e-6)
    opened.click("[data-zoom=right]")
    right = moved_from((low, high))
    assert right[0] > low
    box = opened.locator("#series .u-over").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    opened.mouse.move(*middle)
    opened.mouse.wheel(0, -200)
    closer = moved_from(right)
    assert closer[1] - closer[0] < high - low
    opened.keyboard.down("Shift")
    opened.mouse.down()
    opened.mouse.move(middle[0] + 100, middle[1], steps=5)
    opened.mouse.up()
    opened.keyboard.up("Shift")
    moved = moved_from(closer)
    assert moved[0] < closer[0]
    assert moved[1] - moved[0] == pytest.approx(closer[1] - closer[0], rel=1e-6)
    opened.mouse.dblclick(*middle)
    assert moved_from(moved) == pytest.approx(whole)
    opened.mouse.move(box["x"] + 100, middle[1])
    opened.mouse.down()
    opened.mouse.move(box["x"] + 300, middle[1], steps=5)
    opened.mouse.up()
    chosen = moved_from(whole)
    assert chosen[1] - chosen[0] == pytest.approx((whole[1] - whole[0]) * 200 / box["width"], rel=0.05)
    opened.click("#all")
    opened.click("#theme")
    opened.evaluate(DRAWN)
    assert errors == []
    opened.close()


def test_the_page_fits_a_phone_and_the_keyboard(browser, written):
    opened, errors = open_page(browser, written, "light", width=390)
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390
    legend, heading = opened.locator("#legend").bounding_box(), opened.locator("h2:text('Incidents')").bounding_box()
    assert legend["y"] + legend["height"] <= heading["y"]
    assert all(text.strip() for text in opened.locator("#legend span").all_inner_texts())
    whole = opened.evaluate("window.wolfReport.range()")
    opened.focus("#series")
    opened.keyboard.press("+")
    opened.wait_for_function(MOVED, arg=(whole["min"], whole["max"]))
    closer = opened.evaluate("window.wolfReport.range()")
    assert closer["max"] - closer["min"] == pytest.approx(0.5 * (whole["max"] - whole["min"]), rel=1e-6)
    assert errors == []
    opened.close()


def test_labels_of_the_report_are_read_by_the_command(browser, tmp_path):
    import csv

    from wolf.cleaning import time_intervals

    ys = np.random.default_rng(0).normal(size=(60, 1))
    ys[30] = 40.0
    known = Options(parameters={"obs_var": 1.0, "level_var": 1e-4}, dated=True, origin=1714521600.0)
    cleaned = clean(ys, 900.0 * np.arange(60), known, names=["temp"])
    path = tmp_path / "report.html"
    write_report(str(path), "x.csv", cleaned, known, names=["temp"], origin=1714521600 * 10**9, time="t")
    opened, errors = open_page(browser, path, "light")
    opened.select_option("select.label", "good")
    opened.click("[data-zoom=in]")
    opened.evaluate(DRAWN)
    opened.click("[data-range=fault]")
    with opened.expect_download() as download:
        opened.click("#export")
    download.value.save_as(tmp_path / "labels.csv")
    opened.close()
    assert errors == []
    rows = list(csv.DictReader((tmp_path / "labels.csv").read_text().splitlines()))
    assert [(row["column"], row["label"]) for row in rows] == [("temp", "good"), ("temp", "fault")]
    good, fault = sorted(
        time_intervals.read("labels", tmp_path / "labels.csv", True, 1714521600.0), key=lambda x: x.label
    )[::-1]
    assert (good.start, good.end) == (27_000.0, 27_000.0)
    assert (fault.start, fault.end) == pytest.approx((900 * 14.75, 900 * 44.25))
