"""Implementation of `wolf demo`: tracking of an object in the plane, with three kinds of noise and four filters.

The tracking problem of Duran-Martin et al. (2024, section 4.1); `wolf.plots` draws the figure. It takes about ten
seconds, most of it compilation.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

import wolf
from wolf.plots import tracking
from wolf.plots.tracking import Track
from wolf.simulate import OutlierProcess

if TYPE_CHECKING:
    from matplotlib.figure import Figure

START = np.array([0.0, 0.0, 1.0, 1.0])  # position and velocity, known to the filters up to unit variance
NOISE_VAR = 10.0
LEVEL = 0.95  # of the intervals whose coverage is measured
KALMAN, DEFAULT = "KF", "default"
FILTERS = {KALMAN: "KF", DEFAULT: None, "WoLF": "WoLF", "WoLF-IMQ": "WoLF-IMQ"}


class Scenario(NamedTuple):
    """A noise process, its description, and the title of its panel if it has one."""

    process: OutlierProcess | None
    description: str
    title: str | None = None


SCENARIOS = {
    "clean": Scenario(None, "noise as in the model"),
    "mixture": Scenario(
        wolf.simulate.Mixture(prob=0.05, factor=2.0),
        "5 % of the measurements are doubled",
        "Mixture: one measurement in 20 is doubled",
    ),
    "Student-t": Scenario(
        wolf.simulate.StudentT(dof=2.01),
        "heavy-tailed noise, 2.01 degrees of freedom",
        "Student-t: the noise has heavy tails",
    ),
}


@dataclass(frozen=True)
class Config:
    """Size of the experiment.

    Attributes:
        steps: length of a track.
        trials: number of tracks per scenario.
        seed: of all random numbers. Default: that of the paper's code.
    """

    steps: int = 1000
    trials: int = 50
    seed: int = 314


class DemoRow(NamedTuple):
    """Result of one filter in one scenario, over all trials.

    Attributes:
        data: name of the scenario.
        method: name of the filter.
        error: median over trials of the root mean square distance between the true and the estimated position.
        worst: largest of those.
        ratio: error relative to the Kalman filter's.
        coverage: share of true coordinates inside their 95 % interval.
        flagged: share of measurements that are outliers.
    """

    data: str
    method: str
    error: float
    worst: float
    ratio: float
    coverage: float
    flagged: float


class Results(NamedTuple):
    """Rows of the table, and a typical run of each scenario with outliers for the figure."""

    rows: list[DemoRow]
    tracks: list[Track]


def run(config: Config, on_progress: Callable[[str], None] = lambda text: None) -> Results:
    """Simulate, filter and compute errors and coverage.

    Args:
        config: size of the experiment.
        on_progress: called with text to print.
    """
    model = make_model()
    rows: list[DemoRow] = []
    tracks: list[Track] = []
    for name, kind in SCENARIOS.items():
        started = time.perf_counter()
        on_progress(f"  {name:<11}simulating")
        truth, ys, outliers = simulate(model, kind.process, config)
        outs = {}
        for label, method in FILTERS.items():
            on_progress(f" .. {label}")
            outs[label] = wolf.filter_many(model, ys, method=method)
        errors = {label: position_error(out.means, truth) for label, out in outs.items()}
        rows += [_row(name, label, outs[label], truth, errors) for label in FILTERS]
        if kind.title:
            i = int(np.argsort(errors[KALMAN])[config.trials // 2])
            tracks.append(Track(kind.title, truth[i], ys[i], outliers[i], outs[KALMAN][i], outs[DEFAULT][i]))
        on_progress(f" .. {time.perf_counter() - started:.1f} s\n")
    return Results(rows, tracks)


def make_model() -> wolf.LinearModel:
    """Build the tracking model, with a prior around the true start."""
    prior = wolf.Gaussian(START, np.eye(4))
    return wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=NOISE_VAR, prior=prior)


def simulate(
    model: wolf.LinearModel, process: OutlierProcess | None, config: Config
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw states, measurements and outliers, each with a leading trial axis.

    The true tracks are the same in every scenario: the key of a trial does not depend on it.
    """
    key = jax.random.key(config.seed)
    draws = [
        wolf.simulate.trajectory(model, config.steps, jax.random.fold_in(key, i), process, initial=START)
        for i in range(config.trials)
    ]
    truth, ys, outliers, _ = (np.stack(parts) for parts in zip(*draws, strict=True))
    return truth, ys, outliers


def position_error(means: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Compute the root mean square distance between estimated and true position, (series,)."""
    return np.hypot(*np.moveaxis(wolf.metrics.rmse(means, truth)[..., :2], -1, 0))


def introduction(config: Config) -> str:
    """Describe the experiment."""
    kinds = [f"  {name:<11}{kind.description}" for name, kind in SCENARIOS.items()]
    runs = f"{config.trials} tracks of {config.steps} steps (seed {config.seed})"
    head = f"An object moves in the plane and its position is measured, with three noise processes: {runs}."
    return "\n".join(
        [head, *kinds, "", "Running; most of the time is the compilation of the filters in the first scenario."]
    )


def table(config: Config, rows: list[DemoRow]) -> str:
    """Format the rows for a terminal."""
    lines = ["", f"{'data':<11}{'filter':<16}{'error':>8}{'worst':>9}{'error/KF':>11}{'coverage':>11}{'flagged':>10}"]
    for row in rows:
        if row.method == KALMAN:
            lines.append("-" * len(lines[1]))
        name = row.data if row.method == KALMAN else ""
        numbers = f"{row.error:>8.2f}{row.worst:>9.2f}{row.ratio:>11.2f}{row.coverage:>11.1%}{row.flagged:>10.1%}"
        lines.append(f"{name:<11}{row.method:<16}{numbers}")
    lines += [
        "",
        f"error     root mean square distance to the true position, median of {config.trials} tracks; worst: largest",
        f"coverage  share of {LEVEL:.0%} intervals that contain the true position; {LEVEL:.0%} if calibrated",
        "flagged   share of measurements that are outliers",
        "",
    ]
    return "\n".join(lines)


def picture(config: Config, tracks: list[Track]) -> "Figure":
    """Draw the typical runs; a `matplotlib.figure.Figure`."""
    heading = "Outliers displace the Kalman filter; WoLF stays on the path"
    which = f"The run with the median error of the Kalman filter, of {config.trials}."
    remark = f"Tracking in the plane, both filters on the same measurements. {which}"
    return tracking.comparison(tracks, heading, remark, noise_sd=NOISE_VAR**0.5)


def _row(name: str, label: str, out: wolf.Filtered, truth: np.ndarray, errors: dict[str, np.ndarray]) -> DemoRow:
    error = float(np.median(errors[label]))
    return DemoRow(
        data=name,
        method=label,
        error=error,
        worst=float(errors[label].max()),
        ratio=error / float(np.median(errors[KALMAN])),
        coverage=float(wolf.metrics.coverage(out.means, out.covs, truth, LEVEL)[:, :2].mean()),
        flagged=float(out.outliers.mean()),
    )
