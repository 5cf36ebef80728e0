"""Fit of one candidate: its variances on a refined grid, scored by its one-step predictions.

All variances except their ratios to the measurement noise are concentrated out: the ratios determine the steady-state
gain, and the scale of the errors is fitted with the distribution that scores them (`predictive_score.py`).
"""

import itertools
from functools import lru_cache
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
MAX_NEIGHBOURS = 4096  # points whose neighbours' filters are cached, at most 27 filters each
MAX_STRUCTURES = 256  # candidates whose grid of filters is cached: groups of one file share most of them
COARSE_EM_ROUNDS = 4  # of the scores on the coarse grid, which are only compared with each other


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


class CandidateStructure(NamedTuple):
    """Properties of a candidate that do not depend on the data.

    Attributes:
        sum: components.
        dynamics: F, (D, D).
        obs_row: H, (D,).
        names: names of the variances other than that of the measurement.
        unit_dynamics_covs: Q for a unit value of each of them, (K, D, D).
        grid: coarse grid of their ratios to the measurement noise, as powers of 10, (B, K).
        grid_steps: distance of neighbouring values, (K,).
        grid_filter: steady-state filters of the grid.
    """

    sum: Sum
    dynamics: np.ndarray
    obs_row: np.ndarray
    names: tuple[str, ...]
    unit_dynamics_covs: np.ndarray
    grid: np.ndarray
    grid_steps: np.ndarray
    grid_filter: steady_state.SteadyStateFilter

    @property
    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest value of each ratio, as powers of 10: a factor of 10 beyond the coarse grid."""
        return self.grid[0] - 1, self.grid[-1] + 1


@lru_cache(maxsize=MAX_STRUCTURES)
def candidate_structure(name: str) -> CandidateStructure:
    """Build what all series share that are tried with this candidate."""
    parsed: Any = parse(name)
    assert isinstance(parsed, Sum)
    size = parsed.states(1)
    builder = parsed.builder(None, Gaussian(np.zeros(size), np.eye(size)), 1)
    ones = dict.fromkeys(parsed.parameters, 1.0)
    model = builder(**ones)
    dynamics = np.eye(size) if model.F is None else np.asarray(model.F)
    obs_row = np.asarray(model.H)[0]
    names = tuple(each for each in parsed.parameters if each != "obs_var")
    unit_covs = np.stack(
        [np.asarray(builder(**(dict.fromkeys(ones, 0.0) | {each: 1.0, "obs_var": 1.0})).Q) for each in names]
    )
    axes = [np.linspace(*LOG10_RATIO_GRIDS[_base_name(each)]) for each in names]
    grid = np.array(list(itertools.product(*axes)))
    steps = np.array([axis[1] - axis[0] for axis in axes])
    found = _steady_state(dynamics, obs_row, unit_covs, 10.0**grid)
    return CandidateStructure(parsed, dynamics, obs_row, names, unit_covs, grid, steps, found)


def _steady_state(
    dynamics: np.ndarray, obs_row: np.ndarray, unit_covs: np.ndarray, ratios: np.ndarray
) -> steady_state.SteadyStateFilter:
    """Compute the filters of variance ratios, (B, K), for a measurement noise of variance 1."""
    return steady_state.steady_state_gain(dynamics, obs_row, np.tensordot(ratios, unit_covs, 1), np.ones(len(ratios)))


class Neighbours(NamedTuple):
    """Points around one point of a grid, (B, K), and their steady-state filters."""

    points: np.ndarray
    filter: steady_state.SteadyStateFilter


@lru_cache(maxsize=MAX_NEIGHBOURS)
def neighbours(name: str, point: tuple[float, ...], share: float) -> Neighbours:
    """Compute the filters around a point, a share of the grid's steps away; many series refine the same points."""
    structure = candidate_structure(name)
    lows, highs = structure.limits
    moves = np.array(list(itertools.product((-1, 0, 1), repeat=len(point)))) * share * structure.grid_steps
    points = np.clip(point + moves, lows, highs)
    return Neighbours(
        points, _steady_state(structure.dynamics, structure.obs_row, structure.unit_dynamics_covs, 10.0**points)
    )


class CandidateFilter:
    """Steady-state filter of a candidate on a series, for arbitrary variances."""

    def __init__(self, name: str, columns: np.ndarray, num_warmup: int):
        self.structure = candidate_structure(name)
        self.columns, self.num_warmup = columns, num_warmup
        length = max(num_warmup, 3 * len(self.structure.obs_row))
        self.starts = np.array(
            [
                steady_state.estimate_initial_state(column[:length], self.structure.dynamics, self.structure.obs_row)
                for column in columns
            ]
        )

    def score(
        self, steady: steady_state.SteadyStateFilter, clip: float, rows: slice, rounds: int
    ) -> tuple[predictive_score.Score, np.ndarray]:
        """Score filters by their one-step errors, (rows, columns, B), which are returned too."""
        errors = steady_state.one_step_errors_of_pieces(
            self.columns[:, rows].T,
            self.structure.dynamics,
            self.structure.obs_row,
            steady.gain,
            self.starts,
            np.full(len(steady.gain), clip),
        )
        flat = errors[self.num_warmup :].reshape(-1, len(steady.gain))
        known = np.isfinite(flat[:, 0])
        return predictive_score.score(flat[known], rounds), errors


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
    structure, size = filter_.structure, columns.shape[1]
    num_coarse = MAX_COARSE_VALUES if is_track else MAX_COARSE_VALUES // len(columns)
    coarse = slice(0, min(size, max(num_coarse, 2 * num_warmup)))
    scores, _ = filter_.score(structure.grid_filter, clip, coarse, COARSE_EM_ROUNDS)
    index = int(np.argmax(scores.total))
    point, scale = structure.grid[index], float(scores.scale[index])
    for share in REFINEMENT_STEPS:
        near = neighbours(name, tuple(point.tolist()), share)
        clip = steady_state.CLIP_DEVIATIONS * scale
        scores, errors = filter_.score(near.filter, clip, slice(0, size), predictive_score.EM_ROUNDS)
        index = int(np.argmax(scores.total))
        point, scale = near.points[index], float(scores.scale[index])
    ratios = dict(zip(structure.names, (10.0**point).tolist(), strict=True))
    obs_var = scale**2 / float(near.filter.variance[index])
    parameters = {name: ratios.get(name, 1.0) * obs_var for name in structure.sum.parameters}
    return CandidateFit(
        name,
        float(scores.total[index]),
        parameters,
        _joined(errors[filter_.num_warmup :, : 1 if is_track else None, index]) / scale,
        float(scores.share[index]),
        float(scores.widen[index]),
        tuple(
            each for each, x, low in zip(structure.names, point, structure.limits[0], strict=True) if x <= low + 1e-9
        ),
        process_time() - start_time,
        structure.sum.states(1),
    )


def _joined(errors: np.ndarray) -> np.ndarray:
    """Join the errors of pieces (T, M) by NaN, so that no correlation is computed from one piece to the next."""
    if errors.shape[1] == 1:
        return errors[:, 0]
    return np.concatenate([errors.T, np.full((errors.shape[1], 1), np.nan)], axis=1).ravel()


def _base_name(name: str) -> str:
    """Strip the number of a second variance with the same name."""
    return name if name in LOG10_RATIO_GRIDS else name.rstrip("0123456789").removesuffix("_")
