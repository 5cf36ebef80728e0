"""The evidence about a doubtful measurement: what the past, the future and its neighbours say of it."""

import dataclasses
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np

from wolf.beliefs import Gaussian
from wolf.diagnostics.faults.local_smoother import Window
from wolf.engine.measurements import is_unusable
from wolf.numerics.pytree import cast
from wolf.results import Filtered
from wolf.statespace import with_matrices

BROKEN = 1e-4  # probability below which before and after do not agree
TELLING = 4.0  # standard deviations by which a move must stand out for its absence to tell
AGREES = 1e-3  # probability above which a measurement agrees with what is said about it
SEVERAL = 3  # measurements from which on a sensor can be stuck or biased
STILL = 1e-6  # deviations of the noise within which values are the same
QUIET = 0.02  # deviations by which the values of a stuck sensor may tremble from one to the next
ROUNDING = 8.0  # units in the last place that a prediction plus its residual may be off
SHORTEST_QUIET = 6  # measurements of such a run: two or three may lie close by chance
SCATTER = 4.0  # deviations within which errors are one and the same bias
CHANCE = 1e-3  # probability of repeats, where values are rounded, that are called stuck


class Stretch(NamedTuple):
    """Steps in doubt: of which coordinate (None for the measurement as one), the first and the last."""

    channel: int | None
    first: int
    last: int


@dataclasses.dataclass(frozen=True)
class Run:
    """A run laid out: measurements and flags (T, M), and what is needed to smooth again."""

    model: Any
    linearization: Any
    inputs: Any
    update_first: bool
    ys: np.ndarray
    flags: np.ndarray
    joint: bool
    predicted: Gaussian
    deviations: np.ndarray
    nis: np.ndarray
    residuals: np.ndarray
    repeats: np.ndarray

    @property
    def channels(self) -> list[int | None]:
        """What is weighed by itself: every coordinate, or the measurement as one (None)."""
        return [None] if self.joint else list(range(self.ys.shape[1]))

    def refused(self, channel: int | None) -> np.ndarray:
        """Say which steps of a channel were refused, (T,)."""
        return self._any_refused if channel is None else self.flags[:, channel]

    @cached_property
    def _any_refused(self) -> np.ndarray:
        return np.any(self.flags, axis=1)

    @cached_property
    def last_believed(self) -> int:
        """Last step with a measurement that was believed; -1 if there is none."""
        return int(np.flatnonzero((np.isfinite(self.ys) & ~self.flags).any(axis=1)).max(initial=-1))

    def all_columns(self, channel: int | None) -> np.ndarray:
        """List the coordinates of a channel."""
        return np.arange(self.ys.shape[1]) if channel is None else np.array([channel])

    def columns(self, channel: int | None, t: int, wild: bool = False) -> np.ndarray:
        """List the coordinates of a channel that were measured in a step, infinite ones too if `wild`."""
        chosen = self.all_columns(channel)
        values = self.ys[t, chosen]
        return chosen[~np.isnan(values) if wild else np.isfinite(values)]

    @cached_property
    def distances(self) -> np.ndarray:
        """How far each coordinate was from its prediction, in standard deviations, (T, M)."""
        return np.abs(self.residuals) / self.deviations

    def size(self, channel: int | None, t: int) -> float:
        """Measure how far a measurement was from its prediction, in standard deviations."""
        return float(np.sqrt(self.nis[t]) if channel is None else self.distances[t, channel])


def read(out: Filtered, dtype: str) -> Run:
    """Lay a run out."""
    model, moments = cast(with_matrices(out.model), dtype), cast(out.method.linearization, dtype)
    predicted = Gaussian(out.predicted_means, out.predicted_covs)
    inputs = None if out.inputs is None else out.inputs.astype(dtype)
    wild = is_unusable(out.ys, dtype)
    ys = np.where(wild, np.copysign(np.inf, out.ys), out.ys)  # what the filter could not use has no distance
    joint = out.outliers.ndim == 1
    flags = np.repeat(out.outliers[:, None], ys.shape[1], axis=1) if joint else out.outliers
    flags = flags & ~np.isnan(ys)
    deviations = np.sqrt(np.diagonal(out.innovation_covs, axis1=1, axis2=2))
    repeats = count_repeats(ys, np.median(deviations, axis=0), float(np.finfo(dtype).eps))
    rest = (deviations, np.asarray(out.nis), np.asarray(out.residuals), repeats)
    return Run(model, moments, inputs, out.update_first, ys, flags, joint, predicted, *rest)


def disagreement(run: Run, firsts: np.ndarray, later: Gaussian) -> tuple[np.ndarray, np.ndarray]:
    """Compare what the past and the future of n stretches say of the states at their starts: probabilities, and moves.

    `δᵀ (P_before + P_after)⁻¹ δ` is χ² with D degrees of freedom if nothing happened; where the future says nothing its
    covariance is wide and the share of that direction zero.
    """
    from scipy.special import gammaincc

    moved = np.asarray(later.mean) - run.predicted.mean[firsts]
    return gammaincc(0.5 * moved.shape[1], 0.5 * _distance(run, firsts, later, moved) ** 2), moved


def _distance(run: Run, firsts: np.ndarray, later: Gaussian, moved: np.ndarray) -> np.ndarray:
    """Measure moves of the state against what both sides leave open, in standard deviations."""
    cov = np.asarray(later.cov) + run.predicted.cov[firsts]
    scale = np.sqrt(np.diagonal(cov, axis1=1, axis2=2))
    scale = np.where(scale > 0, scale, 1.0)
    unit = moved / scale
    inverse = np.linalg.pinv(cov / (scale[:, :, None] * scale[:, None, :]), hermitian=True)
    return np.sqrt(np.maximum(np.einsum("ni,nij,nj->n", unit, inverse, unit), 0.0))


class Said(NamedTuple):
    """What windows say of n measurements: the ones they expect, their covariance without the noise, and the noise."""

    expected: np.ndarray
    spread: np.ndarray
    noise: np.ndarray


def agreement(run: Run, channels: np.ndarray, steps: np.ndarray, said: Said) -> tuple[np.ndarray, ...]:
    """Compare measurements with what windows say: whether they agree, how far they are, and whether that means much.

    It means little where a window's prediction is so wide that anything would agree with it.

    Args:
        run: laid out.
        channels: of each of n measurements, -1 for all coordinates as one.
        steps: of each.
        said: about each.
    """
    from scipy.special import gammaincc

    whole = channels[:, None] < 0
    asked = np.isfinite(run.ys[steps]) & (whole | (channels[:, None] == np.arange(run.ys.shape[1])))
    error = np.where(asked, subtract(run, steps, said.expected), 0.0)
    both = asked[:, :, None] & asked[:, None, :]
    cov = np.where(both, said.spread + said.noise, 0.0) + np.eye(asked.shape[1]) * ~asked[:, :, None]
    with np.errstate(over="ignore"):
        square = np.einsum("ni,ni->n", error, np.linalg.solve(cov, error[:, :, None])[:, :, 0])
    some = asked.any(axis=1)
    agrees = some & (gammaincc(0.5 * np.maximum(asked.sum(axis=1), 1), 0.5 * square) > AGREES)
    size = np.where(whole[:, 0], np.sqrt(run.nis[steps]), run.distances[steps, channels])
    width = np.diagonal(said.spread, axis1=1, axis2=2)
    reach = run.deviations[steps] * np.maximum(size, 1.0)[:, None]
    wide = (9.0 * width < reach**2, width < 4.0 * np.diagonal(said.noise, axis1=1, axis2=2))
    informed = (wide[0] | ~asked).all(axis=1) | (wide[1] | ~asked).all(axis=1)
    away = np.sqrt(np.maximum(square, 0.0))  # below 0 by rounding alone, where a window says next to nothing
    return agrees, np.where(some, away, np.nan), informed


def returns(run: Run, stretch: Stretch, later: Window, moved: np.ndarray) -> bool:
    """Say whether all after a stretch is as it was before it, and whether a move like this one would have shown.

    Args:
        run: laid out.
        stretch: in doubt.
        later: what only the measurements after it say.
        moved: a move of the state, (D,).
    """
    first, state = np.array([stretch.first]), Gaussian(later.state.mean[None], later.state.cov[None])
    broken, _ = disagreement(run, first, state)
    return bool(broken[0] >= BROKEN and _distance(run, first, state, moved[None])[0] > TELLING)


def bias(run: Run, stretch: Stretch, steps: np.ndarray, both: Window) -> tuple[bool, float]:
    """Say whether the errors of a stretch are one and the same, and how large in the coordinate where it shows most."""
    channel, first = stretch.channel, stretch.first
    if len(steps) < SEVERAL or not np.isfinite(run.ys[steps]).any():
        return False, 0.0
    errors = subtract(run, steps, both.expected[steps - first])
    variances = np.diagonal(both.spread[steps - first] + both.noise[steps - first], axis1=1, axis2=2)
    deviations = np.sqrt(variances)
    if channel is None:
        known = np.isfinite(errors).all(axis=0)
        channel = int(np.where(known, np.abs(np.median(errors / deviations, axis=0)), -1.0).argmax())
    one, spread = errors[:, channel], deviations[:, channel]
    usable = np.isfinite(one)
    if usable.sum() < SEVERAL:
        return False, 0.0
    middle = float(np.median(one[usable]))
    alike = np.abs(one[usable] - middle) <= SCATTER * spread[usable]
    shows = abs(middle) > SCATTER * float(np.median(spread[usable])) / np.sqrt(usable.sum())
    return bool(alike.all() and shows), middle


def consistent(run: Run, stretch: Stretch, steps: np.ndarray, itself: Window) -> bool:
    """Say whether the measurements of a stretch fit the model among themselves."""
    from scipy.special import gammainccinv

    count = max(len(run.columns(stretch.channel, int(steps[0]))), 1)
    later = itself.nis[steps - stretch.first][run.predicted.mean.shape[1] :]
    return bool(len(later)) and bool(np.median(later) < 2.0 * gammainccinv(0.5 * count, AGREES))


def count_repeats(ys: np.ndarray, deviations: np.ndarray, precision: float) -> np.ndarray:
    """Count how long a sensor has said one and the same value around each step; 0 if that may be chance.

    Where values are rounded, neighbours are equal now and then; the share of equal neighbours elsewhere in the series
    says how likely a run of them is.

    Args:
        ys: measurements, (T, M).
        deviations: usual ones of the residuals, (M,).
        precision: relative, of the numbers.

    Example:
        >>> count_repeats(np.array([[0.1], [0.7], [0.7], [0.7], [0.3]]), np.ones(1), 1e-16)[:, 0].tolist()
        [0, 3, 3, 3, 0]
    """
    values = np.where(np.isfinite(ys), ys, np.nan)
    counted = np.zeros(ys.shape, int)
    for j, column in enumerate(values.T):
        steps = np.abs(np.diff(column))
        rounding = ROUNDING * precision * np.abs(column[1:])
        same = _runs_by_length(steps <= STILL * deviations[j] + rounding, SEVERAL, CHANCE)
        quiet = _runs_by_length(steps <= QUIET * deviations[j], SHORTEST_QUIET, CHANCE / max(len(column), 1))
        counted[:, j] = np.where(same > 0, same, quiet)
    return counted


def _runs_by_length(same: np.ndarray, shortest: int, chance: float) -> np.ndarray:
    """Say of each of T values how long the run of like neighbours is that it is in, 0 if it may be chance."""
    groups = np.concatenate([[0], np.cumsum(~same)])  # one number for each run
    lengths = np.bincount(groups)
    elsewhere = np.maximum(len(same) - (lengths - 1), 1)
    usual = (same.sum() - (lengths - 1)) / elsewhere
    stuck = (lengths >= shortest) & (usual ** (lengths - 1) < chance)
    return np.where(stuck, lengths, 0)[groups]


def subtract(run: Run, steps: np.ndarray, expected: Any) -> np.ndarray:
    """Form residuals as the model does, (n, M); NaN where nothing usable came."""
    ys, usable = run.ys[steps], np.isfinite(run.ys[steps])
    if run.model.residual is None:
        return np.where(usable, ys, np.nan) - expected
    filled = np.where(usable, ys, expected)
    rows = [np.asarray(run.model.subtract(jax.numpy.asarray(y), e)) for y, e in zip(filled, expected, strict=True)]
    return np.where(usable, np.stack(rows), np.nan)
