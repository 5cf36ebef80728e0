"""The introductory figure of the paper: three outliers, a Kalman filter and WoLF. Seconds.

Expected: the Kalman filter is dragged to each outlier with an unchanged band; WoLF stays near the truth and widens its
band there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import wolf
from wolf.plots import style
from wolf_paper import figures, tracking
from wolf_paper.protocol import Experiment, Rows, Task

BAND = 2.0  # standard deviations


@dataclass(frozen=True)
class Settings:
    """The paper's values: other ones than in its tracking experiment.

    Attributes:
        steps: T.
        dt: Δ.
        dynamics_var: q.
        obs_var: r.
        outlier_steps: which measurements are multiplied, counted from 0.
        factors: by what.
        c: threshold of WoLF-IMQ.
    """

    steps: int = 20
    dt: float = 1.0
    dynamics_var: float = 0.1
    obs_var: float = 1.0
    outlier_steps: tuple[int, ...] = (5, 10, 15)
    factors: tuple[float, ...] = (-2.0, 2.0, -2.0)
    c: float = 2.0


def make_data(config: Settings, seed: int) -> tuple[Any, Any, np.ndarray, np.ndarray]:
    """Simulate, then multiply three measurements: model, truth, measurements, where the outliers are."""
    variances = {"dynamics_var": config.dynamics_var, "obs_var": config.obs_var}
    model = tracking.make_model(tracking.World(steps=config.steps, dt=config.dt, **variances))
    data = wolf.simulate.trajectory(model, config.steps, seed, initial=tracking.START)
    ys, outlier = data.measurements.copy(), np.zeros(config.steps, bool)
    for step, factor in zip(config.outlier_steps, config.factors, strict=True):
        ys[step] *= factor
        outlier[step] = True
    return model, data.states, ys, outlier


def run(task: Task) -> Rows:
    """Filter with both."""
    config = task.config
    model, truth, ys, outlier = make_data(config, task.seed)
    found: Rows = []
    for name, method in {"KF": wolf.KF(), "WoLF-IMQ": wolf.methods.make("WoLF-IMQ", c=config.c)}.items():
        out = wolf.filter(model, ys, method=method)
        for step in range(config.steps):
            found.append(
                {
                    "method": name,
                    "step": step,
                    "truth": truth[step, 0],
                    "y": ys[step, 0],
                    "outlier": bool(outlier[step]),
                    "mean": out.means[step, 0],
                    "sd": float(np.sqrt(out.covs[step, 0, 0])),
                }
            )
    return found


def measure(done: Mapping[str, Rows], config: Settings) -> dict[str, float]:
    """Compare the errors at the outliers, and the bands there with those before."""
    found: dict[str, float] = {}
    for name in ("KF", "WoLF-IMQ"):
        rows = [row for row in done["run"] if row["method"] == name]
        error = np.array([abs(row["mean"] - row["truth"]) for row in rows])
        sd = np.array([row["sd"] for row in rows])
        at = list(config.outlier_steps)
        found[f"{name} error at the outliers"] = float(error[at].mean())
        found[f"{name} largest error"] = float(error.max())
        found[f"{name} band at the outliers over the band before"] = float((sd[at] / sd[np.array(at) - 1]).mean())
    kalman, robust = found["KF error at the outliers"], found["WoLF-IMQ error at the outliers"]
    after = [step + 1 for step in config.outlier_steps]
    spread = {
        name: np.array([row["sd"] for row in done["run"] if row["method"] == name]) for name in ("KF", "WoLF-IMQ")
    }
    found["WoLF is less certain than KF after an outlier"] = float(
        (spread["WoLF-IMQ"] / spread["KF"])[after].min() - 1.0
    )
    found["WoLF stays near the truth where KF does not"] = float(robust < 0.25 * kalman)
    return found


def draw(done: Mapping[str, Rows], config: Settings) -> dict[str, Any]:
    """Draw the first component."""
    figure = figures.new_figure(9.0, 4.4)
    ax = figure.add_subplot()
    first = [row for row in done["run"] if row["method"] == "KF"]
    steps, truth, ys = (np.array([row[name] for row in first]) for name in ("step", "truth", "y"))
    outlier = np.array([row["outlier"] for row in first], bool)
    for name, dash in (("KF", ":"), ("WoLF-IMQ", "-")):
        rows = [row for row in done["run"] if row["method"] == name]
        mean, sd = (np.array([row[key] for row in rows]) for key in ("mean", "sd"))
        shade = figures.color(name)
        ax.fill_between(steps, mean - BAND * sd, mean + BAND * sd, color=shade, alpha=0.18, lw=0)
        ax.plot(steps, mean, dash, color=shade, lw=2.2, label=f"{name}, mean ± {BAND:g} sd")
    ax.plot(steps, truth, "--", color=style.INK, lw=1.3, label="true state")
    ax.scatter(steps[~outlier], ys[~outlier], s=18, color=style.DOTS, zorder=3, label="measurements")
    ax.scatter(steps[outlier], ys[outlier], s=46, marker="x", color="#b2182b", zorder=4, label="outliers")
    figures.dress(ax)
    ax.set_xlabel("step")
    ax.set_ylabel("first state component (position x)")
    ax.set_xticks(range(0, config.steps, 5))
    ax.legend(frameon=False, fontsize=9, labelcolor=style.INK, loc="best")
    return {"intro": figure}


EXPERIMENT = Experiment(
    name="intro",
    title="The introductory figure: three outliers, KF and WoLF",
    shows="figure 1",
    settings={"small": Settings(), "paper": Settings()},
    parts=lambda config: ("run",),
    run=run,
    measure=measure,
    draw=draw,
    remarks=(
        "The figure has Δ = 1 and r = 1, unlike the tracking experiment (Δ = 0.1, r = 10); both coordinates of the "
        "measurements at steps 5, 10 and 15 are multiplied by -2, 2 and -2.",
        "The random numbers are our own, so the path is another one than in the paper.",
    ),
)
