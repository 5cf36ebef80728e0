"""Draw every picture of the documentation.

python docs/make_images.py
"""

import io
import runpy
import shutil
from pathlib import Path

import jax
import numpy as np
import pandas as pd
from PIL import Image

import wolf
from wolf.cleaning import Options, clean
from wolf.cleaning.gps_tracks import LocalPlane, clean_track
from wolf.cli.commands import demo
from wolf.plots import style
from wolf.plots.series_plot import band
from wolf.reports.page import render

HERE = Path(__file__).parent
IMAGES = HERE / "images"
COLOURS = 128  # of a palette: a third of the bytes, and nothing that one can see is lost

# Weight, method whose colour it has, and where its name stands in the picture of pulls.
WEIGHTS = {
    "Huber": (wolf.Huber(), "WoLF-Huber", (10.1, 1.46)),
    "StudentT": (wolf.StudentWeight(), "WoLF-StudentT", (10.1, 0.48)),
    "MahalanobisIMQ": (wolf.MahalanobisIMQ(metric="S"), "WoLF-MD", (10.1, 1.02)),
    "Welsch": (wolf.Welsch(), "WoLF-Welsch", (7.0, 0.32)),
    "Tukey": (wolf.Tukey(), "WoLF-Tukey", (3.45, 0.2)),
    "MahalanobisThreshold": (wolf.MahalanobisThreshold(metric="S"), "WoLF-TMD", (2.95, 2.55)),
}


def save(figure, name):
    """Write a picture with few colours."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=150)
    picture = Image.open(buffer).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(IMAGES / name, optimize=True)
    print(f"{name}: {(IMAGES / name).stat().st_size / 1e3:.0f} kB")


def draw_demo():
    """The picture of `wolf demo`."""
    config = demo.Config()
    save(demo.picture(config, demo.run(config).tracks), "demo.png")


def draw_home():
    """The first picture of the site, which can be read at a width of 390 px."""
    data = wolf.datasets.load("thermometer")
    frame = pd.DataFrame({"time": data.times, "value": data.values[:, 0]})
    clean = wolf.filter_frame(frame, time="time")
    part = clean.iloc[60:360]
    hours = part["time"] / 60
    figure = style.new_figure(6.5, 4.0)
    ax = figure.add_subplot()
    good, low, high = ~part["outlier"], 2.0, 22.0
    ax.plot(hours[good], part["value"][good], ".", color=style.DOTS, ms=5, label="reading")
    style.edge_marks(ax, hours.to_numpy(), part["value"].to_numpy(), low, high, style.KALMAN)
    ax.plot([], [], "^", color=style.KALMAN, ms=7, ls="", label="false reading")
    ax.fill_between(hours, part["lower"], part["upper"], color=style.ROBUST, alpha=0.25, lw=0)
    ax.plot(hours, part["mean"], color=style.ROBUST, lw=2.2, label="estimate")
    style.dress(ax)
    ax.set(xlim=(hours.min(), hours.max()), ylim=(low, high))
    ax.set_xlabel("hours", size=14)
    ax.set_ylabel("temperature in °C", size=14)
    ax.tick_params(labelsize=13)
    figure.legend(loc="outside upper left", ncols=3, frameon=False, fontsize=14)
    save(figure, "home.png")


def power(weight, distances):
    """w² at distances from the prediction, for one coordinate of unit variance."""
    one = np.eye(1)
    return np.asarray(jax.vmap(lambda e: weight(e[None], one, one))(distances)) ** 2


def draw_weights():
    """Plot weight and influence of a measurement against its distance from the prediction."""
    distances = np.linspace(0, 10, 1001)
    figure = style.new_figure(10.5, 4.2)
    left, right = figure.subplots(1, 2)
    left.axhline(1, color=style.TRUTH, lw=2.2)
    right.plot(distances, distances, color=style.TRUTH, lw=2.2)
    right.text(3.6, 3.35, "Unweighted: Kalman", color=style.QUIET, size=10)
    for name, (weight, method, place) in WEIGHTS.items():
        powers, (color, dash, _) = power(weight, distances), style.method_style(method)
        left.plot(distances, powers, color=color, ls=dash, lw=2.0, solid_joinstyle="miter")
        right.plot(distances, powers * distances, color=color, ls=dash, lw=2.0, solid_joinstyle="miter")
        right.text(*place, name, color=color, size=10, va="center", weight="bold")
    left.set_title("Power of the likelihood: w²", loc="left", size=11, color=style.INK)
    right.set_title("How far it pulls: w² × distance", loc="left", size=11, color=style.INK)
    for ax, top in ((left, 1.35), (right, 4.0)):
        style.dress(ax)
        ax.set(xlim=(0, 10), ylim=(0, top), xlabel="distance from the prediction, in standard deviations")
    save(figure, "weights.png")


def draw_metric():
    """A gap of 60 steps: what comes after it looks like an outlier to the R metric."""
    model = wolf.models.local_level(level_var=0.3, obs_var=1.0)
    data = wolf.simulate.trajectory(model, 160, key=5, initial=np.zeros(1))
    ys = data.measurements[:, 0].copy()
    ys[60:120] = np.nan
    times = np.arange(len(ys))
    figure = style.new_figure(10, 3.8)
    ax = figure.add_subplot()
    ax.plot(times, data.states[:, 0], color=style.TRUTH, lw=4, label="truth")
    ax.scatter(times, ys, s=11, color=style.DOTS, lw=0, label="measurement", zorder=5)
    for metric, color in (("R", style.KALMAN), ("S", style.ROBUST)):
        out = wolf.filter(model, ys, method=wolf.WoLF(wolf.MahalanobisThreshold(metric=metric)))
        band(
            ax, times, out.means[:, 0], np.sqrt(out.covs[:, 0, 0]), color, f'metric="{metric}", ± 2 standard deviations'
        )
    ax.set_ylim(*style.limits(data.states, ys, margin=0.5))
    style.dress(ax)
    ax.set(xlabel="step", ylabel="level", xlim=(0, 159))
    figure.legend(loc="outside upper left", ncols=4, frameon=False, fontsize=9.5, labelcolor=style.INK)
    save(figure, "metric.png")


def draw_dirty_sensor():
    """The picture of examples/dirty_sensor.py."""
    example = runpy.run_path(str(HERE.parent / "examples" / "dirty_sensor.py"))
    save(example["main"](out=io.BytesIO()), "dirty_sensor.png")


def draw_gps_track():
    """The picture of gps-track.md: a walk as GPS saw it, as it was, and as it was cleaned."""
    walk = wolf.datasets.load("track")
    latitude, longitude = LocalPlane(52.52, 13.40).to_globe(walk.values)
    cleaned = clean_track(latitude, longitude, walk.times, options=Options(smooth=True))
    true_latitude, true_longitude = LocalPlane(52.52, 13.40).to_globe(walk.truth)
    bad = cleaned.series.outlier
    figure = style.new_figure(8.0, 4.0)
    ax = figure.add_subplot()
    ax.plot(true_longitude, true_latitude, color=style.TRUTH, lw=6, solid_capstyle="round", label="where it was")
    ax.plot(longitude[~bad], latitude[~bad], ".", color=style.DOTS, ms=4, label="positions as measured")
    ax.plot(longitude[bad], latitude[bad], "x", color=style.KALMAN, ms=6, label="flagged")
    ax.plot(cleaned.longitude, cleaned.latitude, color=style.ROBUST, lw=1.6, label="cleaned")
    style.dress(ax)
    ax.set_aspect(1 / np.cos(np.radians(52.52)))  # a degree to the east is shorter than one to the north
    ax.ticklabel_format(useOffset=False)
    ax.set_xlabel("longitude")
    ax.set_ylabel("latitude")
    figure.legend(loc="outside upper left", ncols=4, frameon=False, fontsize=9.5, labelcolor=style.INK)
    save(figure, "gps-track.png")


def draw_report():
    """The upper part of the report on the thermometer, as a browser shows it; its table is cut."""
    from playwright.sync_api import sync_playwright

    data = wolf.datasets.load("thermometer")
    series = clean(data.values, data.times, Options(), names=["value"])
    page = render("thermometer.csv", series, Options(), names=["value"], time="time")
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as started:
        launched = started.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        opened = launched.new_page(viewport={"width": 1180, "height": 1560}, color_scheme="light")
        opened.set_content(page)
        opened.wait_for_function("window.wolfReport && window.wolfReport.ready")
        for body in opened.locator("details tbody").all():
            body.evaluate("(body) => [...body.rows].slice(5).forEach((row) => row.remove())")
        shot = opened.screenshot()
        launched.close()
    picture = Image.open(io.BytesIO(shot)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(IMAGES / "report.png", optimize=True)


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    for draw in (draw_home, draw_demo, draw_weights, draw_metric, draw_dirty_sensor, draw_gps_track, draw_report):
        draw()
