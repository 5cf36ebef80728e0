"""Fit of one candidate: its variances on a refined grid, scored by its one-step predictions.

All variances except their ratios to the measurement noise are concentrated out: the ratios determine the steady-state
gain, and the scale of the errors is fitted with the distribution that scores them (`predictive_score.py`).
"""

import itertools
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from wolf.beliefs import Gaussian
from wolf.engine import steady_state
from wolf.fitting.select import predictive_score
from wolf.models.registry import parse
from wolf.models.structural import Sum

# Grids of the ratios, as powers of 10: first, last and number of values of the coarse grid.
LOG10_RATIO_GRIDS = {
    "level_var": (-4.0, 2.5, 8),
    "slope_var": (-7.0, 0.0, 6),
    "seasonal_var": (-7.0, -2.0, 3),
    "shock_var": (-1.0, 2.5, 5),
    "accel_rate": (-6.0, 2.0, 9),
    "dynamics_var": (-6.0, 2.0, 9),
    "cycle_var": (-7.0, 1.0, 5),
}
REFINEMENT_STEPS = (0.5, 0.25)  # steps of the refined grids, relative to the coarse one
MAX_COARSE_VALUES = 2_000  # values of the series used with the coarse grid


class CandidateFit(NamedTuple):
    """Fit of one candidate.

    Attributes:
        name: model name, as in `--model`.
        score: log density of the scored values, each predicted from those before it.
        parameters: variances, by name.
        errors: one-step errors of the scored rows in standard deviations, (n,); NaN where missing.
        share: share of outliers.
        widen: variance of an outlier's error over that of other errors.
        negligible: variances that do not differ from 0.
        seconds: processor time.
        states: number of states of the model, for one column.
    """

    name: str
    score: float
    parameters: dict[str, float]
    errors: np.ndarray
    share: float
    widen: float
    negligible: tuple[str, ...]
    seconds: float
    states: int

    @property
    def complexity_penalty(self) -> float:
        """Penalty for the number of parameters: half the log of the number of rows for each (BIC)."""
        numbers = len(self.parameters) + self.name.count("+") + self.name.count(":")
        return 0.5 * numbers * float(np.log(max(np.isfinite(self.errors).sum(), 2)))

    @property
    def penalised_score(self) -> float:
        """Score minus the complexity penalty."""
        return self.score - self.complexity_penalty


class CandidateFilter:
    """Steady-state filter of a candidate on a series, for arbitrary variances."""

    def __init__(self, name: str, columns: np.ndarray, num_warmup: int):
        self.sum: Any = parse(name)
        assert isinstance(self.sum, Sum)
        self.columns, self.num_warmup = columns, num_warmup
        builder = self.sum.builder(None, self._unit_prior(), 1)
        ones = dict.fromkeys(self.sum.parameters, 1.0)
        model = builder(**ones)
        size = self.sum.states(1)
        self.dynamics = np.eye(size) if model.F is None else np.asarray(model.F)
        self.obs_row = np.asarray(model.H)[0]
        self.names = [name for name in self.sum.parameters if name != "obs_var"]
        self.unit_dynamics_covs = np.stack(
            [np.asarray(builder(**(dict.fromkeys(ones, 0.0) | {each: 1.0, "obs_var": 1.0})).Q) for each in self.names]
        )
        self.starts = [
            steady_state.estimate_initial_state(column[: max(num_warmup, 3 * size)], self.dynamics, self.obs_row)
            for column in columns
        ]

    def _unit_prior(self) -> Gaussian:
        from wolf.beliefs import Gaussian

        size = self.sum.states(1)
        return Gaussian(np.zeros(size), np.eye(size))

    def errors(self, ratios: np.ndarray, rows: slice, clip: np.ndarray) -> np.ndarray:
        """Run the filter with variance ratios (B, K); return one-step errors (rows, columns, B)."""
        steady = steady_state.steady_state_gain(
            self.dynamics, self.obs_row, np.tensordot(ratios, self.unit_dynamics_covs, 1), np.ones(len(ratios))
        )
        self.variance = steady.variance
        paths = [
            steady_state.one_step_errors(column[rows], self.dynamics, self.obs_row, steady.gain, start, clip)
            for column, start in zip(self.columns, self.starts, strict=True)
        ]
        return np.stack(paths, axis=1)

    def score(self, ratios: np.ndarray, clip: np.ndarray, rows: slice) -> tuple[predictive_score.Score, np.ndarray]:
        """Score variance ratios; also return their errors."""
        errors = self.errors(ratios, rows, clip)
        flat = errors[self.num_warmup :].reshape(-1, len(ratios))
        known = np.isfinite(flat[:, 0])
        return predictive_score.score(flat[known]), errors


def fit_candidate(name: str, columns: np.ndarray, num_warmup: int, clip: float, is_track: bool = False) -> CandidateFit:
    """Fit a candidate's variances and score it.

    Args:
        name: model name, as in `--model`.
        columns: (M, T), NaN where missing: pieces of one series, or the coordinates of a track.
        num_warmup: number of values before the first scored one.
        clip: size at which errors are clipped on the coarse grid.
        is_track: whether the columns are the coordinates of a track.
    """
    start_time = process_time()
    filter_ = CandidateFilter(name, columns, num_warmup)
    size = columns.shape[1]
    num_coarse = MAX_COARSE_VALUES if is_track else MAX_COARSE_VALUES // len(columns)
    coarse = slice(0, min(size, max(num_coarse, 2 * num_warmup)))
    axes = [np.linspace(*LOG10_RATIO_GRIDS[_base_name(each)]) for each in filter_.names]
    steps = np.array([axis[1] - axis[0] for axis in axes])
    points = np.array(list(itertools.product(*axes)))
    scores, _ = filter_.score(10.0**points, np.full(len(points), clip), coarse)
    index = int(np.argmax(scores.total))
    point, scale = points[index], float(scores.scale[index])
    lows, highs = np.array([axis[0] for axis in axes]) - 1, np.array([axis[-1] for axis in axes]) + 1
    for share in REFINEMENT_STEPS:
        moves = np.array(list(itertools.product((-1, 0, 1), repeat=len(axes)))) * share * steps
        points = np.clip(point + moves, lows, highs)
        scores, errors = filter_.score(
            10.0**points, np.full(len(points), steady_state.CLIP_DEVIATIONS * scale), slice(0, size)
        )
        index = int(np.argmax(scores.total))
        point, scale = points[index], float(scores.scale[index])
    ratios = dict(zip(filter_.names, (10.0**point).tolist(), strict=True))
    obs_var = scale**2 / float(filter_.variance[index])
    parameters = {name: ratios.get(name, 1.0) * obs_var for name in filter_.sum.parameters}
    return CandidateFit(
        name,
        float(scores.total[index]),
        parameters,
        _joined(errors[filter_.num_warmup :, : 1 if is_track else None, index]) / scale,
        float(scores.share[index]),
        float(scores.widen[index]),
        tuple(each for each, x, low in zip(filter_.names, point, lows, strict=True) if x <= low + 1e-9),
        process_time() - start_time,
        filter_.sum.states(1),
    )


def _joined(errors: np.ndarray) -> np.ndarray:
    """Join the errors of pieces (T, M) by NaN, so that no correlation is computed from one piece to the next."""
    if errors.shape[1] == 1:
        return errors[:, 0]
    return np.concatenate([errors.T, np.full((errors.shape[1], 1), np.nan)], axis=1).ravel()


def _base_name(name: str) -> str:
    """Strip the number of a second variance with the same name."""
    return name if name in LOG10_RATIO_GRIDS else name.rstrip("0123456789").removesuffix("_")
