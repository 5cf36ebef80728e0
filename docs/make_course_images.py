"""Draw the pictures of the course, from the variables of its snippets.

python docs/make_course_images.py
"""

import doctest
from pathlib import Path

import numpy as np
from make_images import save

from wolf.plots import style

HERE = Path(__file__).parent
FOLDER = "course"


def run_page(name):
    """Run the snippets of a chapter and return its variables."""
    text = (HERE / "course" / f"{name}.md").read_text(encoding="utf-8")
    variables = {}
    for example in doctest.DocTestParser().get_examples(text):
        exec(compile(example.source, name, "single"), variables)
    return variables


def band(ax, times, mean, sd, color, label):
    """Draw a mean and two standard deviations around it."""
    ax.fill_between(times, mean - 2 * sd, mean + 2 * sd, color=color, alpha=0.2, lw=0)
    ax.plot(times, mean, color=color, lw=1.8, label=label)


def legend(figure):
    """Put one legend above all axes."""
    handles, labels = [], []
    for ax in figure.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            if label not in labels:
                handles.append(handle)
                labels.append(label)
    figure.legend(handles, labels, loc="outside upper left", ncols=4, frameon=False, fontsize=11)


def draw_thermometer():
    """Draw the random walk of chapter 1 and its filter."""
    page = run_page("1-noisy-thermometer")
    times = np.arange(300)
    figure = style.new_figure(8, 3.8)
    ax = figure.add_subplot()
    ax.plot(times, page["ys"], ".", color=style.DOTS, ms=4, label="reading")
    ax.plot(times, page["level"], color=style.INK, lw=1.2, label="true temperature")
    band(ax, times, page["means"], np.sqrt(page["variances"]), style.KALMAN, "Kalman filter, ± 2 sd")
    style.dress(ax)
    ax.set(xlabel="step", ylabel="temperature in °C", xlim=(0, 299))
    legend(figure)
    save(figure, f"{FOLDER}/thermometer.png")


def draw_motion():
    """Draw position and velocity of chapter 2."""
    page = run_page("2-motion")
    out, states = page["out"], page["data"].states
    times = np.arange(len(states)) * page["dt"]
    figure = style.new_figure(8, 5.4)
    axes = figure.subplots(2, 1, sharex=True)
    axes[0].plot(times, page["data"].measurements[:, 0], ".", color=style.DOTS, ms=4, label="measured position")
    for i, (ax, name) in enumerate(zip(axes, ("position in m", "velocity in m/s"), strict=True)):
        ax.plot(times, states[:, i], color=style.INK, lw=1.2, label="truth")
        band(ax, times, out.means[:, i], np.sqrt(out.covs[:, i, i]), style.KALMAN, "Kalman filter, ± 2 sd")
        style.dress(ax)
        ax.set(ylabel=name, xlim=(0, times[-1]))
    axes[0].set_ylim(*style.limits(states[:, 0], page["data"].measurements))
    axes[1].set_ylim(*style.limits(states[:, 1], margin=0.5))
    axes[1].set_xlabel("time in s")
    legend(figure)
    save(figure, f"{FOLDER}/motion.png")


def draw_scales():
    """Draw the scale factors that chapter 4 estimates."""
    out = run_page("4-unknown-noise")["out"]
    figure = style.new_figure(8, 3.6)
    ax = figure.add_subplot()
    ax.axhline(0.1, color=style.INK, lw=1.2, label="truth")
    ax.semilogy(out.noise_scales, color=style.ROBUST, lw=1.8, label="scale factor of R")
    ax.semilogy(out.dynamics_scales, color=style.KALMAN, ls="--", lw=1.8, label="scale factor of Q")
    style.dress(ax)
    ax.set(xlabel="step", ylabel="scale factor", xlim=(0, len(out.means) - 1))
    legend(figure)
    save(figure, f"{FOLDER}/scales.png")


def draw_radar():
    """Draw the boat of chapter 5 with false echoes."""
    page = run_page("5-nonlinear")
    wolf, model, dirty, states = page["wolf"], page["model"], page["dirty"], page["data"].states
    echoes = dirty[:, :1] * np.column_stack([np.cos(dirty[:, 1]), np.sin(dirty[:, 1])])
    figure = style.new_figure(8, 4.6)
    ax = figure.add_subplot()
    ax.plot(*echoes[~page["false"]].T, ".", color=style.DOTS, ms=5, label="echo")
    ax.plot(*echoes[page["false"]].T, "x", color=style.DOTS, ms=6, label="false echo")
    ax.plot(*states[:, :2].T, color=style.INK, lw=4, alpha=0.35, label="path")
    ax.plot(*wolf.filter(model, dirty, method="EKF").means[:, :2].T, color=style.KALMAN, lw=1.4, ls="--", label="EKF")
    ax.plot(*wolf.filter(model, dirty).means[:, :2].T, color=style.ROBUST, lw=1.8, label="default")
    ax.plot(0, 0, "^", color=style.INK, ms=9)
    ax.annotate("radar", (0, 0), (8, 8), textcoords="offset points", size=11)
    style.dress(ax, grid="both")
    ax.set(xlim=(-400, 120), ylim=(-250, 220), xlabel="x in m", ylabel="y in m")
    ax.set_aspect("equal")
    legend(figure)
    save(figure, f"{FOLDER}/radar.png")


def draw_robot():
    """Draw the path of the robot of chapter 6."""
    page = run_page("6-robot")
    figure = style.new_figure(8, 4.4)
    ax = figure.add_subplot()
    reflected = page["reflected"]
    ax.plot(*page["fixes"][~reflected].T, ".", color=style.DOTS, ms=6, label="beacon")
    ax.plot(*page["fixes"][reflected].T, "x", color=style.DOTS, ms=7, label="reflection")
    ax.plot(*page["path"].T, color=style.INK, lw=5, alpha=0.3, label="path")
    ax.plot(*page["kalman"].T, color=style.KALMAN, lw=1.3, ls="--", label="EKF")
    ax.plot(*page["robust"].T, color=style.ROBUST, lw=1.8, label="WoLF")
    style.dress(ax, grid="both")
    ax.set(xlabel="x in m", ylabel="y in m")
    ax.set_aspect("equal")
    legend(figure)
    save(figure, f"{FOLDER}/robot.png")


if __name__ == "__main__":
    (HERE / "images" / FOLDER).mkdir(parents=True, exist_ok=True)
    for draw in (draw_thermometer, draw_motion, draw_scales, draw_radar, draw_robot):
        draw()
