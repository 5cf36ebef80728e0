"""One candidate tried on a series: its variances found on a grid that gets finer, scored by how well it foretells.

All variances but their ratios to the noise of a reading are concentrated out: the ratios settle the gain, and the scale
of the errors is fitted with the law that scores them (`scores`).
"""

import itertools
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from wolf.engine import steady_state
from wolf.fitting.select import predictive_score
from wolf.models.registry import parse
from wolf.models.structural import Sum

# Where the ratios are looked for, as powers of 10: first, last and how many on the first grid.
RANGES = {
    "level_var": (-4.0, 2.5, 8),
    "slope_var": (-7.0, 0.0, 6),
    "seasonal_var": (-7.0, -2.0, 3),
    "shock_var": (-1.0, 2.5, 5),
    "accel_rate": (-6.0, 2.0, 9),
    "dynamics_var": (-6.0, 2.0, 9),
    "cycle_var": (-7.0, 1.0, 5),
}
FINER = (0.5, 0.25)  # of the first grid's step, for the rounds after it
COARSE = 2_000  # values that the first grid sees


class CandidateFit(NamedTuple):
    """What a candidate came to.

    Attributes:
        name: as `--model` understands it.
        score: log density of the scored values, each foretold from those before it.
        parameters: variances, by name.
        errors: one-step errors of the scored rows over their deviation, (n,); NaN where missing.
        share: of outliers.
        widen: variance of an outlier's error over that of another.
        spare: variances that could be 0 as well.
        seconds: of processor time that it took.
        states: of the model, for one column.
    """

    name: str
    score: float
    parameters: dict[str, float]
    errors: np.ndarray
    share: float
    widen: float
    spare: tuple[str, ...]
    seconds: float
    states: int

    @property
    def price(self) -> float:
        """What a candidate must be better by for each of its parameters: half the logarithm of the rows (BIC)."""
        numbers = len(self.parameters) + self.name.count("+") + self.name.count(":")
        return 0.5 * numbers * float(np.log(max(np.isfinite(self.errors).sum(), 2)))

    @property
    def merit(self) -> float:
        """The score less its price."""
        return self.score - self.price


class _Walker:
    """A model on a series, ready to be walked with any variances."""

    def __init__(self, name: str, columns: np.ndarray, warm: int):
        self.sum: Any = parse(name)
        assert isinstance(self.sum, Sum)
        self.columns, self.warm = columns, warm
        built = self.sum.builder(None, self._nothing(), 1)
        ones = dict.fromkeys(self.sum.parameters, 1.0)
        model = built(**ones)
        size = self.sum.states(1)
        self.dynamics = np.eye(size) if model.F is None else np.asarray(model.F)
        self.row = np.asarray(model.H)[0]
        self.names = [name for name in self.sum.parameters if name != "obs_var"]
        self.shares = np.stack(
            [np.asarray(built(**(dict.fromkeys(ones, 0.0) | {each: 1.0, "obs_var": 1.0})).Q) for each in self.names]
        )
        self.starts = [
            steady_state.estimate_initial_state(column[: max(warm, 3 * size)], self.dynamics, self.row)
            for column in columns
        ]

    def _nothing(self) -> Any:
        from wolf.beliefs import Gaussian

        size = self.sum.states(1)
        return Gaussian(np.zeros(size), np.eye(size))

    def errors(self, ratios: np.ndarray, rows: slice, cut: np.ndarray) -> np.ndarray:
        """Walk with the ratios (B, K); one-step errors (rows, columns, B)."""
        settled = steady_state.steady_state_gain(
            self.dynamics, self.row, np.tensordot(ratios, self.shares, 1), np.ones(len(ratios))
        )
        self.variance = settled.variance
        walked = [
            steady_state.one_step_errors(column[rows], self.dynamics, self.row, settled.gain, start, cut)
            for column, start in zip(self.columns, self.starts, strict=True)
        ]
        return np.stack(walked, axis=1)

    def score(self, ratios: np.ndarray, cut: np.ndarray, rows: slice) -> tuple[predictive_score.Score, np.ndarray]:
        """Score the ratios; twice, if the first cut turns out too far from the scale."""
        errors = self.errors(ratios, rows, cut)
        flat = errors[self.warm :].reshape(-1, len(ratios))
        known = np.isfinite(flat[:, 0])
        return predictive_score.score(flat[known]), errors


def try_out(name: str, columns: np.ndarray, warm: int, cut: float) -> CandidateFit:
    """Fit a candidate's variances and score it.

    Args:
        name: as `--model` understands it.
        columns: series, (M, T), NaN where missing; several are coordinates of one track.
        warm: values before the first one that is scored.
        cut: size at which errors are cut off, at first.
    """
    began = process_time()
    walker = _Walker(name, columns, warm)
    size = columns.shape[1]
    coarse = slice(0, min(size, max(COARSE, 2 * warm)))
    axes = [np.linspace(*RANGES[_plain(each)]) for each in walker.names]
    steps = np.array([axis[1] - axis[0] for axis in axes])
    points = np.array(list(itertools.product(*axes)))
    found, _ = walker.score(10.0**points, np.full(len(points), cut), coarse)
    best = int(np.argmax(found.total))
    point, scale = points[best], float(found.scale[best])
    lows, highs = np.array([axis[0] for axis in axes]) - 1, np.array([axis[-1] for axis in axes]) + 1
    for share in FINER:
        moves = np.array(list(itertools.product((-1, 0, 1), repeat=len(axes)))) * share * steps
        points = np.clip(point + moves, lows, highs)
        found, errors = walker.score(
            10.0**points, np.full(len(points), steady_state.CLIP_DEVIATIONS * scale), slice(0, size)
        )
        best = int(np.argmax(found.total))
        point, scale = points[best], float(found.scale[best])
    ratios = dict(zip(walker.names, (10.0**point).tolist(), strict=True))
    obs_var = scale**2 / float(walker.variance[best])
    parameters = {name: ratios.get(name, 1.0) * obs_var for name in walker.sum.parameters}
    return CandidateFit(
        name,
        float(found.total[best]),
        parameters,
        errors[walker.warm :, :, best].mean(1) / scale if len(columns) == 1 else errors[walker.warm :, 0, best] / scale,
        float(found.share[best]),
        float(found.widen[best]),
        tuple(each for each, x, low in zip(walker.names, point, lows, strict=True) if x <= low + 1e-9),
        process_time() - began,
        walker.sum.states(1),
    )


def _plain(name: str) -> str:
    """Take off the number of a second variance of one name."""
    return name if name in RANGES else name.rstrip("0123456789").removesuffix("_")
