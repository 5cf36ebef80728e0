"""The experiment of `wolf demo`: one object tracked in the plane, three kinds of data, four filters.

The tracking problem of Duran-Martin et al. (2024, section 5.1). Data, runs and rows are made here; `wolf.plots` draws
what it is handed. About ten seconds, most of it compilation.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

import wolf
from wolf.plots import tracking
from wolf.plots.tracking import Track

START = np.array([0.0, 0.0, 1.0, 1.0])  # position and velocity, known to the filters up to unit variance
NOISE_VAR = 10.0
LEVEL = 0.95  # of the intervals whose coverage is counted
KALMAN, DEFAULT = "KF", "default"
FILTERS = {KALMAN: "KF", DEFAULT: None, "WoLF": "WoLF", "WoLF-IMQ": "WoLF-IMQ"}


class Kind(NamedTuple):
    """A kind of data: its outlier process, what that does, and the title of its picture if it has one."""

    process: Any
    words: str
    title: str | None = None


KINDS = {
    "clean": Kind(None, "noise as the model says"),
    "mixture": Kind(
        wolf.simulate.Mixture(prob=0.05, factor=2.0),
        "5 % of the measurements are doubled",
        "Mixture: one measurement in 20 is doubled",
    ),
    "Student-t": Kind(
        wolf.simulate.StudentT(dof=2.01),
        "heavy-tailed noise, 2.01 degrees of freedom",
        "Student-t: the noise has heavy tails",
    ),
}


@dataclass(frozen=True)
class Config:
    """How much to run.

    Attributes:
        steps: length of a track.
        trials: tracks of each kind.
        seed: of all random numbers; default: that of the paper's code.
    """

    steps: int = 1000
    trials: int = 50
    seed: int = 314


class DemoRow(NamedTuple):
    """One filter on one kind of data, over all trials.

    Attributes:
        data: kind of data.
        method: name of the filter.
        error: median over trials of the root mean square distance between the true and the estimated position.
        worst: largest of those.
        ratio: error relative to the Kalman filter's.
        coverage: share of true coordinates inside their 95 % interval.
        flagged: share of measurements called outliers.
    """

    data: str
    method: str
    error: float
    worst: float
    ratio: float
    coverage: float
    flagged: float


class Results(NamedTuple):
    """The rows of the table, and a typical run of each kind of dirty data for the picture."""

    rows: list[DemoRow]
    tracks: list[Track]


def run(config: Config, say: Callable[[str], None] = lambda words: None) -> Results:
    """Simulate, filter and count.

    Args:
        config: how much.
        say: told what happens while it happens.
    """
    model = make_model()
    rows: list[DemoRow] = []
    tracks: list[Track] = []
    for name, kind in KINDS.items():
        started = time.perf_counter()
        say(f"  {name:<11}simulating")
        truth, ys, outliers = simulate(model, kind.process, config)
        outs = {}
        for label, method in FILTERS.items():
            say(f" .. {label}")
            outs[label] = wolf.filter_many(model, ys, method=method)
        errors = {label: position_error(out.means, truth) for label, out in outs.items()}
        rows += [_row(name, label, outs[label], truth, errors) for label in FILTERS]
        if kind.title:
            i = int(np.argsort(errors[KALMAN])[config.trials // 2])
            tracks.append(Track(kind.title, truth[i], ys[i], outliers[i], outs[KALMAN][i], outs[DEFAULT][i]))
        say(f" .. {time.perf_counter() - started:.1f} s\n")
    return Results(rows, tracks)


def make_model() -> wolf.LinearModel:
    """Build the tracking model, with a prior around the true start."""
    prior = wolf.Gaussian(START, np.eye(4))
    return wolf.models.constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=NOISE_VAR, prior=prior)


def simulate(model: Any, process: Any, config: Config) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw states, measurements and outliers, each with a leading trial axis.

    The true tracks are the same for every kind of data: the key of a trial does not depend on the kind.
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
    """Say what is about to happen."""
    kinds = [f"  {name:<11}{kind.words}" for name, kind in KINDS.items()]
    runs = f"{config.trials} tracks of {config.steps} steps (seed {config.seed})"
    head = f"An object moves in the plane and its position is measured, with three kinds of noise: {runs}."
    return "\n".join([head, *kinds, "", "Running; compiling the filters on the first data is most of the time."])


def table(config: Config, rows: list[DemoRow]) -> str:
    """Lay the rows out for a terminal."""
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
        f"coverage  how often a {LEVEL:.0%} interval holds the true position; near {LEVEL:.0%} is honest",
        "flagged   measurements called outliers",
        "",
    ]
    return "\n".join(lines)


def picture(config: Config, tracks: list[Track]) -> Any:
    """Draw the typical runs; a `matplotlib.figure.Figure`."""
    heading = "Outliers drag a Kalman filter away; WoLF stays on the path"
    which = f"Of {config.trials} simulated runs: the one with the median error of the Kalman filter."
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
