"""The experiment of `wolf demo`: one object tracked in the plane, three kinds of data, three filters.

The tracking problem of Duran-Martin et al. (2024, section 5.1). Data, runs and rows are made here; `wolf.plots` draws
what it is handed. About 10 seconds, most of it compilation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

import wolf
from wolf.plots.tracking import Track

START = np.array([0.0, 0.0, 1.0, 1.0])  # position and velocity, known to the filters up to unit variance
NOISE_VAR = 10.0
LEVEL = 0.95  # of the intervals whose coverage is counted
DEFAULT = "WoLF (default)"
FILTERS = {"KF": "KF", DEFAULT: None, "WoLF-IMQ": "WoLF-IMQ"}

# What is wrong with the data, in words; the process that does it; the title of its picture.
KINDS: dict[str, tuple[Any, str]] = {
    "clean": (None, ""),
    "mixture": (wolf.simulate.Mixture(prob=0.05, factor=2.0), "Mixture: one measurement in 20 is doubled"),
    "Student-t": (wolf.simulate.StudentT(dof=2.01), "Student-t: the noise has heavy tails"),
}


@dataclass(frozen=True)
class Config:
    """How much to run.

    Attributes:
        steps: length of a track.
        trials: tracks of each kind.
        seed: of all random numbers.
    """

    steps: int = 1000
    trials: int = 50
    seed: int = 0


class Row(NamedTuple):
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

    rows: list[Row]
    tracks: list[Track]


def run(config: Config, say: Callable[[str], None] = lambda words: None) -> Results:
    """Simulate, filter and count.

    Args:
        config: how much.
        say: told what happens while it happens.
    """
    model = wolf.models.constant_velocity(
        dims=2, dt=0.1, dynamics_var=0.1, obs_var=NOISE_VAR, prior=wolf.Gaussian(START, np.eye(4))
    )
    rows, tracks = [], []
    for kind, (process, title) in KINDS.items():
        say(f"{kind}: simulating {config.trials} tracks of {config.steps} steps")
        truth, ys, outliers = _simulate(model, process, config)
        outs = {}
        for name, method in FILTERS.items():
            say(f"{kind}: filtering with {name}{'' if rows[3:] else ', which compiles first'}")
            outs[name] = wolf.filter_many(model, ys, method=method)
        errors = {name: position_error(out.means, truth) for name, out in outs.items()}
        rows += [_row(kind, name, outs[name], truth, errors) for name in FILTERS]
        if process is not None:
            typical = int(np.argsort(errors["KF"])[len(errors["KF"]) // 2])
            picked = (truth[typical], ys[typical], outliers[typical], outs["KF"][typical], outs[DEFAULT][typical])
            tracks.append(Track(title, *picked))
    return Results(rows, tracks)


def position_error(means: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Compute the root mean square distance between estimated and true position, (series,)."""
    return np.hypot(*np.moveaxis(wolf.metrics.rmse(means, truth)[..., :2], -1, 0))


def _simulate(model: Any, process: Any, config: Config) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw the same true tracks for every kind of data: the key of a trial does not depend on the kind."""
    key = jax.random.key(config.seed)
    draws = [
        wolf.simulate.trajectory(model, config.steps, jax.random.fold_in(key, i), process, initial=START)
        for i in range(config.trials)
    ]
    truth, ys, outliers = (np.stack(parts) for parts in zip(*draws, strict=True))
    return truth, ys, outliers


def _row(kind: str, name: str, out: wolf.Filtered, truth: np.ndarray, errors: dict[str, np.ndarray]) -> Row:
    error = float(np.median(errors[name]))
    return Row(
        data=kind,
        method=name,
        error=error,
        worst=float(errors[name].max()),
        ratio=error / float(np.median(errors["KF"])),
        coverage=float(wolf.metrics.coverage(out.means, out.covs, truth, LEVEL)[:, :2].mean()),
        flagged=float(out.outliers.mean()),
    )
