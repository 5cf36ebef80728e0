"""Faults in hindsight: which runs of readings leave the series and come back, and which do not come back.

A fault that adds 1 to the readings of a run adds a known shape to the one-step errors of the filter: that of a step up,
less that of a step down L rows later. With g the errors that a step makes, in deviations, e the errors seen,

    G(s) = Σ_k g(k) e(s + k),     τ(s, L) = (G(s) - G(s + L)) / |g(k) - g(k - L)|

is the statistic of the likelihood ratio for a fault of L readings from s on, G(s) / |g| that for a shift for good (de
Jong & Penzer 1998, *Diagnosing shocks in time series*, JASA 93). All places and lengths take one correlation.
"""

from typing import NamedTuple

import numpy as np

from wolf.diagnostics.faults.local_scale import tail_factor
from wolf.engine import steady_state
from wolf.numerics.robust import MAD_TO_STD
from wolf.numerics.rolling import running_maximum
from wolf.statespace import LinearModel

CUT = 3.0  # deviations at which errors are cut off where their usual spread is measured
BLOCK = 65_536  # rows that are correlated at once
ROWS = 16_384  # rows that are compared at once: few enough for a processor's own memory
REACH = 512  # rows that the shape of a step is followed for
FAULT = 5.0  # deviations of τ from which a run is a fault, where its tails are a Gaussian's
LONGER = 0.1  # times the root of the further rows of a run, by which a longer fault must be better than a shorter one
SHORTEST_RAMP, RAMP_STEP = 8, 4  # rows of drifts that are looked for
FOR_GOOD = 1.1  # by which a shift must explain more than a fault that comes back
SHIFT = 7.0  # the same for a shift
ECHO = 200  # rows on either side of a fault in which its echo may be heard
WEAK = 0.15  # strength beside that of another fault nearby, below which it may be an echo
LEAST_SCALE = 0.5  # of τ, which has 1 where the model fits


class FaultShape(NamedTuple):
    """What faults make of the errors.

    Attributes:
        step: g, what a step does, (K,).
        norms: |g(k) - g(k - L)| for L = 1, 2, ..., and as the last |g|, that of a shift.
        ramps: lengths of the drifts that are looked for: readings that go astray slowly and come back at once.
        ramp_norms: of their shapes.
    """

    step: np.ndarray
    norms: np.ndarray
    ramps: np.ndarray
    ramp_norms: np.ndarray

    @property
    def longest(self) -> int:
        """Longest run that is looked for."""
        return len(self.norms) - 1


class Found(NamedTuple):
    """Runs that look like faults, and shifts.

    Attributes:
        first: row of each run, strongest first.
        length: of each run; 0 for a shift.
        drift: whether it goes astray slowly.
        size: by which the readings are off.
        strength: root of the likelihood ratio.
    """

    first: np.ndarray
    length: np.ndarray
    drift: np.ndarray
    size: np.ndarray
    strength: np.ndarray


def shape_of(model: LinearModel, longest: int) -> FaultShape:
    """Find what a step of 1 in the readings makes of the errors of a settled filter.

    Args:
        model: of one column, on even steps.
        longest: run.
    """
    row, noise = np.asarray(model.H)[0], np.asarray(model.R)[0]
    dynamics = np.eye(len(row)) if model.F is None else np.asarray(model.F)
    settled = steady_state.settle(dynamics, row, np.asarray(model.Q)[None], noise)
    far = np.full(1, np.inf)
    errors = steady_state.walk(np.ones(REACH), dynamics, row, settled.gain, np.zeros(len(row)), far)[:, 0]
    step = errors / np.sqrt(settled.variance[0])
    later = np.zeros((longest, REACH))
    for length in range(1, longest + 1):
        later[length - 1, length:] = step[:-length]
    ramps = np.arange(SHORTEST_RAMP, longest + 1, RAMP_STEP)
    means = [(later[: length - 1].sum(0) + step) / length - later[length - 1] for length in ramps]
    norms = np.append(np.linalg.norm(step - later, axis=1), np.linalg.norm(step))
    return FaultShape(step, norms, ramps, np.array([np.linalg.norm(each) for each in means]))


def correlate(errors: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Form `G(s) = Σ_k g(k) e(s + k)` for every row, (T + 1,), by Fourier transforms of blocks.

    Example:
        >>> correlate(np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.5])).round(6)[:3].tolist()
        [2.0, 3.5, 3.0]
    """
    count, reach = len(errors), len(step)
    size = 1 << (min(BLOCK, count + 2 * reach) - 1).bit_length()
    rows = size - reach + 1
    turned = np.conj(np.fft.rfft(step, size))
    total = np.empty(count + 1)
    for first in range(0, count + 1, rows):
        some = errors[first : first + size]
        told = np.fft.irfft(np.fft.rfft(some, size) * turned, size)
        stop = min(first + rows, count + 1)
        total[first:stop] = told[: stop - first]
    return total


class Limits(NamedTuple):
    """Sizes from which on statistics are no chance: of each length and of a shift, and of each drift."""

    runs: np.ndarray
    ramps: np.ndarray

    def raised(self, factor: float) -> "Limits":
        """Multiply all."""
        return Limits(factor * self.runs, factor * self.ramps)


def limits_of(errors: np.ndarray, shape: FaultShape) -> Limits:
    """Find the limits of a series.

    Args:
        errors: one-step errors of a filter that outliers do not move, over their deviation, (n,).
        shape: of a step.
    """
    heavy = tail_factor(errors)
    total = correlate(np.clip(errors, -CUT, CUT), shape.step)

    def limit(parts: np.ndarray, least: float) -> float:
        scale = MAD_TO_STD * float(np.median(np.abs(parts))) if parts.size else 1.0
        return least * heavy * max(LEAST_SCALE, scale)

    runs = [limit(_run_parts(total, shape, length), FAULT) for length in range(1, shape.longest + 1)]
    ramps = [limit(_ramp_parts(total, shape, i), FAULT) for i in range(len(shape.ramps))]
    return Limits(np.array([*runs, limit(total[:-1] / shape.norms[-1], SHIFT)]), np.array(ramps))


def _run_parts(total: np.ndarray, shape: FaultShape, length: int) -> np.ndarray:
    """Form τ(s, L) for all rows; a run that lasts to the end may be a shift, and is left out."""
    return (total[: -length - 1] - total[length:-1]) / shape.norms[length - 1]


def _ramp_parts(total: np.ndarray, shape: FaultShape, i: int) -> np.ndarray:
    length = int(shape.ramps[i])
    sums = np.concatenate([[0.0], np.cumsum(total)])
    rows = len(total) - length - 1
    mean = (sums[length : length + rows] - sums[:rows]) / length
    return (mean - total[length : length + rows]) / shape.ramp_norms[i]


def find(errors: np.ndarray, usable: np.ndarray, shape: FaultShape, limits: Limits) -> Found:
    """Look for faults and shifts.

    Args:
        errors: one-step errors over their deviation, (T,); 0 where nothing was used.
        usable: rows with a reading that is not yet known to be a fault, (T,).
        shape: of a step.
        limits: from `limits_of`.
    """
    count = len(errors)
    total = correlate(errors, shape.step)
    best = np.zeros(count)
    told = []
    for first in range(0, count, ROWS):
        stop = min(first + ROWS, count)
        ahead = total[first : min(stop + shape.longest, count) + 1]
        strength, which, drift, size = _compare(ahead, stop - first, shape, limits)
        best[first:stop] = strength
        rows = np.flatnonzero(strength)
        told.append((first + rows, which[rows], drift[rows], size[rows]))
    rows, which, drift, size = (np.concatenate(each) for each in zip(*told, strict=True))
    best[~usable] = 0.0
    taken = _strongest(best, rows, which, shape.longest)
    chosen = np.searchsorted(rows, taken)
    return Found(taken, which[chosen], drift[chosen] & (which[chosen] > 0), size[chosen], best[taken])


def _compare(
    total: np.ndarray, count: int, shape: FaultShape, limits: Limits
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Find for each of some rows what explains most: strength, length (0 for a shift), whether it drifts, and size.

    Args:
        total: G of these rows, and of those after them that a run may end at.
        count: of rows.
        shape: of a step.
        limits: from `limits_of`.
    """
    best, raw, size = np.zeros(count), np.zeros(count), np.zeros(count)
    which, drift = np.zeros(count, int), np.zeros(count, bool)

    def compare(part: np.ndarray, limit: float, norm: float, length: int, ramp: bool) -> None:
        part = part[:count]
        rows, ratio = len(part), np.abs(part)
        ratio[ratio < limit] = 0.0
        np.maximum(raw[:rows], ratio, out=raw[:rows])
        ratio /= 1 + LONGER * np.sqrt(length - 1)
        better = ratio > best[:rows]
        best[:rows][better], which[:rows][better], drift[:rows][better] = ratio[better], length, ramp
        size[:rows][better] = part[better] / norm

    for length in range(1, min(shape.longest, len(total) - 2) + 1):
        compare(_run_parts(total, shape, length), limits.runs[length - 1], shape.norms[length - 1], length, False)
    for i, length in enumerate(shape.ramps.tolist()):
        if length < len(total) - 1:
            compare(_ramp_parts(total, shape, i), limits.ramps[i], shape.ramp_norms[i], length, True)
    total = total[:count]
    shift = np.abs(total) / shape.norms[-1]
    stays = (shift > limits.runs[-1]) & (shift > FOR_GOOD * raw)
    best[stays] = shift[stays] / (1 + LONGER * np.sqrt(shape.longest))  # no fault is as long as what lasts
    which[stays], size[stays] = 0, (total / shape.norms[-1] ** 2)[stays]
    return best, which, drift, size


def _strongest(strength: np.ndarray, rows: np.ndarray, lengths: np.ndarray, longest: int) -> np.ndarray:
    """Take the strongest of those that overlap; what is far weaker than another one nearby may be its echo, and waits.

    A shift waits for all faults around it.

    Args:
        strength: of what begins at each row, (T,); 0 for nothing.
        rows: at which something may begin.
        lengths: of it, 0 for a shift.
        longest: run.
    """
    around = running_maximum(strength, 2 * ECHO + 1)[rows]
    strengths = strength[rows]
    order = np.flatnonzero((strengths > 0.0) & (strengths >= WEAK * around))
    order = order[np.argsort(-strengths[order], kind="stable")]
    taken = bytearray(len(strength) + longest)  # which finds a byte in a short stretch faster than an array does
    kept = []
    for row, length in zip(rows[order].tolist(), lengths[order].tolist(), strict=True):
        room = length or longest  # what lies between two faults looks like one, too: the longer, the more room
        if taken.find(1, max(row - room, 0), row + length + room) < 0:
            taken[row : row + max(length, 1)] = b"\1" * max(length, 1)
            kept.append(row)
    return np.array(kept, int)
