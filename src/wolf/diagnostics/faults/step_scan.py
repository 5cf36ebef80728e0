"""Retrospective scan for faults of one series: runs of readings that deviate and return, and permanent shifts.

A fault that adds 1 to the readings of a run changes the one-step errors of the filter by a known signature: that of a
step up, minus that of a step down L rows later. With g the signature of a step in standard deviations, and e the
observed errors,

    G(s) = Σ_k g(k) e(s + k),     τ(s, L) = (G(s) - G(s + L)) / |g(k) - g(k - L)|

is the root of the likelihood ratio for a fault of L readings that starts at s, and G(s) / |g| that for a permanent
shift (Willsky & Jones 1976; de Jong & Penzer 1998, *Diagnosing shocks in time series*, JASA 93). All rows and lengths
take one correlation.
"""

from typing import NamedTuple

import numpy as np

from wolf.diagnostics.faults.correlation import correlate_series
from wolf.diagnostics.faults.local_scale import tail_factor
from wolf.engine import steady_state
from wolf.numerics.robust import MAD_TO_STD
from wolf.numerics.rolling import running_maximum
from wolf.statespace import LinearModel

CUT = 3.0  # standard deviations at which errors are clipped where their typical size is measured
ROWS_PER_BLOCK = 16_384  # rows compared in one block, so that intermediate arrays stay in the processor's cache
STEP_RESPONSE_ROWS = 512  # rows of the signature of a step
FAULT = 5.0  # threshold of τ for a run, if the errors are Gaussian
LENGTH_PENALTY = 0.1  # relative margin of a longer fault over a shorter one, times the root of the additional rows
MIN_RAMP_ROWS, RAMP_LENGTH_INCREMENT = 8, 4  # rows of the shortest drift, and increment of the lengths
RAMP_MARGIN = 0.1  # relative margin of squared statistics by which a drift must exceed the shift at its end
SHIFT_THRESHOLD = 6.0  # threshold of a shift, if the errors are Gaussian
ECHO_ROWS = 200  # rows on either side of a fault in which it may cause spurious candidates
ECHO_STRENGTH_RATIO = 0.15  # strength relative to a fault nearby, below which a candidate may be spurious
MIN_STATISTIC_SCALE = 0.5  # smallest scale of τ, which is 1 where the model fits


class StepSignature(NamedTuple):
    """Signatures of a step, and norms of the signatures of runs and drifts.

    Attributes:
        step: g, signature of a step, (K,).
        norms: |g(k) - g(k - L)| for L = 1, 2, ..., and as the last entry |g|, for a shift.
        ramps: lengths of the drifts that are searched: readings that deviate slowly and return at once.
        ramp_norms: norms of their signatures.
    """

    step: np.ndarray
    norms: np.ndarray
    ramps: np.ndarray
    ramp_norms: np.ndarray

    @property
    def longest(self) -> int:
        """Length of the longest run that is searched."""
        return len(self.norms) - 1


class ScanResult(NamedTuple):
    """Detected runs and shifts.

    Attributes:
        first: first row of each, strongest first.
        length: number of rows; 0 for a shift.
        drift: whether the deviation grows slowly.
        size: deviation of the readings.
        strength: root of the likelihood ratio.
    """

    first: np.ndarray
    length: np.ndarray
    drift: np.ndarray
    size: np.ndarray
    strength: np.ndarray


def shape_of(model: LinearModel, longest: int) -> StepSignature:
    """Compute the signature of a step of 1 in the readings, for a steady-state filter.

    Args:
        model: model of one column, on a regular time grid.
        longest: length of the longest run.
    """
    row, noise = np.asarray(model.H)[0], np.asarray(model.R)[0]
    dynamics = np.eye(len(row)) if model.F is None else np.asarray(model.F)
    steady = steady_state.steady_state_gain(dynamics, row, np.asarray(model.Q)[None], noise)
    far = np.full(1, np.inf)
    errors = steady_state.one_step_errors(
        np.ones(STEP_RESPONSE_ROWS), dynamics, row, steady.gain, np.zeros(len(row)), far
    )[:, 0]
    step = errors / np.sqrt(steady.variance[0])
    delayed = np.zeros((longest, STEP_RESPONSE_ROWS))
    for length in range(1, longest + 1):
        delayed[length - 1, length:] = step[:-length]
    ramps = np.arange(MIN_RAMP_ROWS, longest + 1, RAMP_LENGTH_INCREMENT)
    ramp_shapes = [(delayed[: length - 1].sum(0) + step) / length - delayed[length - 1] for length in ramps]
    norms = np.append(np.linalg.norm(step - delayed, axis=1), np.linalg.norm(step))
    return StepSignature(step, norms, ramps, np.array([np.linalg.norm(each) for each in ramp_shapes]))


class DetectionThresholds(NamedTuple):
    """Thresholds of the statistics: of runs of each length and of a shift, and of each drift."""

    runs: np.ndarray
    ramps: np.ndarray

    def raised(self, factor: float) -> "DetectionThresholds":
        """Multiply all thresholds by a factor."""
        return DetectionThresholds(factor * self.runs, factor * self.ramps)


def limits_of(errors: np.ndarray, shape: StepSignature) -> DetectionThresholds:
    """Compute the detection thresholds for a series.

    Args:
        errors: one-step errors in standard deviations, of a filter that outliers do not affect, (n,).
        shape: signature of a step.
    """
    tail = tail_factor(errors)
    total = correlate_series(np.clip(errors, -CUT, CUT), shape.step)

    def threshold(statistics: np.ndarray, minimum: float) -> float:
        scale = MAD_TO_STD * float(np.median(np.abs(statistics))) if statistics.size else 1.0
        return minimum * tail * max(MIN_STATISTIC_SCALE, scale)

    runs = [threshold(_run_statistics(total, shape, length), FAULT) for length in range(1, shape.longest + 1)]
    ramps = [threshold(_ramp_statistics(total, shape, i), FAULT) for i in range(len(shape.ramps))]
    return DetectionThresholds(
        np.array([*runs, threshold(total[:-1] / shape.norms[-1], SHIFT_THRESHOLD)]), np.array(ramps)
    )


def _run_statistics(total: np.ndarray, shape: StepSignature, length: int) -> np.ndarray:
    """Compute τ(s, L) for all rows; a run up to the end may be a shift, and is omitted."""
    return (total[: -length - 1] - total[length:-1]) / shape.norms[length - 1]


def _ramp_statistics(total: np.ndarray, shape: StepSignature, i: int) -> np.ndarray:
    """Compute the statistic of a drift for all rows."""
    length = int(shape.ramps[i])
    sums = np.concatenate([[0.0], np.cumsum(total)])
    rows = len(total) - length - 1
    mean = (sums[length : length + rows] - sums[:rows]) / length
    return (mean - total[length : length + rows]) / shape.ramp_norms[i]


def find(errors: np.ndarray, usable: np.ndarray, shape: StepSignature, limits: DetectionThresholds) -> ScanResult:
    """Scan a series for faults and shifts.

    Args:
        errors: one-step errors in standard deviations, (T,); 0 where no reading was used.
        usable: rows with a reading that is not yet known to be a fault, (T,).
        shape: signature of a step.
        limits: thresholds from `limits_of`.
    """
    count = len(errors)
    total = correlate_series(errors, shape.step)
    shift = np.abs(total[:-1]) / _shift_norms(shape, count)
    best, edges = np.zeros(count), np.zeros(count + shape.longest + 1)
    blocks = []
    for first in range(0, count, ROWS_PER_BLOCK):
        stop = min(first + ROWS_PER_BLOCK, count)
        end = min(stop + shape.longest, count) + 1
        found = _best_patterns(total[first:end], shift[first:end], stop - first, shape, limits)
        np.maximum(edges[first : stop + shape.longest], found.edges, out=edges[first : stop + shape.longest])
        best[first:stop] = found.strength
        rows = np.flatnonzero(found.strength)
        blocks.append((first + rows, *(each[rows] for each in found[1:-1])))
    rows, length_of, drift, size, raw = (np.concatenate(each) for each in zip(*blocks, strict=True))
    # A shift has one edge, a fault two. At the same edge the one with the larger likelihood ratio is selected.
    shift[(shift <= edges[:count]) | ~usable] = 0.0
    best[rows[raw < _largest_within(shift, rows, length_of)]] = 0.0
    is_shift = np.flatnonzero((shift > best) & (shift > limits.runs[-1]))
    length, is_drift, sizes = np.zeros(count, int), np.zeros(count, bool), np.zeros(count)
    length[rows], is_drift[rows], sizes[rows] = length_of, drift, size
    best[is_shift], length[is_shift], is_drift[is_shift] = shift[is_shift], 0, False
    sizes[is_shift] = (total[:-1] / _shift_norms(shape, count) ** 2)[is_shift]
    best[~usable] = 0.0
    firsts = _select_strongest(best, np.flatnonzero(best), length[best > 0.0], shape.longest)
    firsts = firsts[_is_settled(firsts, length[firsts], best[firsts])]
    return ScanResult(firsts, length[firsts], is_drift[firsts], sizes[firsts], best[firsts])


def _is_settled(firsts: np.ndarray, lengths: np.ndarray, strengths: np.ndarray) -> np.ndarray:
    """Select the candidates that no stronger one nearby may have caused: shifts, and faults beside shifts, (n,)."""
    kept = np.ones(len(firsts), bool)
    for i in np.flatnonzero(lengths == 0).tolist():
        distance = np.abs(firsts - firsts[i])
        if np.any((distance < STEP_RESPONSE_ROWS) & (strengths > strengths[i])):
            kept[i] = False
        else:
            kept &= (distance >= ECHO_ROWS) | (strengths >= strengths[i])
    return kept


def _shift_norms(shape: StepSignature, count: int) -> np.ndarray:
    """Compute the norm of the signature of a shift at each row, (T,), cut off at the end of the series."""
    energy = np.cumsum(shape.step**2)
    remaining = np.minimum(count - np.arange(count), len(energy))
    return np.asarray(np.sqrt(energy[remaining - 1]))


def _largest_within(values: np.ndarray, firsts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Compute the largest value from each first row to the row after the last of its run, (n,)."""
    largest = np.zeros(len(firsts))
    for lag in range(int(lengths.max(initial=0)) + 1):
        inside = (lengths >= lag) & (firsts + lag < len(values))
        largest[inside] = np.maximum(largest[inside], values[firsts[inside] + lag])
    return largest


class _Patterns(NamedTuple):
    """Strongest run or drift that starts at each of some rows.

    Attributes:
        strength: discounted by length, (n,); 0 for none.
        length: rows.
        drift: whether the deviation grows slowly.
        size: of the deviation.
        raw: root of the likelihood ratio.
        edges: largest root of the likelihood ratio of runs that begin or end at a row, (n + longest,).
    """

    strength: np.ndarray
    length: np.ndarray
    drift: np.ndarray
    size: np.ndarray
    raw: np.ndarray
    edges: np.ndarray


def _best_patterns(
    total: np.ndarray, shift: np.ndarray, count: int, shape: StepSignature, limits: DetectionThresholds
) -> _Patterns:
    """Find the strongest run or drift that starts at each of some rows.

    Args:
        total: G of these rows, and of the rows after them where a run may end.
        shift: statistic of a shift at the same rows.
        count: number of rows.
        shape: signature of a step.
        limits: thresholds from `limits_of`.
    """
    found = _Patterns(
        np.zeros(count),
        np.zeros(count, int),
        np.zeros(count, bool),
        np.zeros(count),
        np.zeros(count),
        np.zeros(count + shape.longest),
    )

    def consider(ratio: np.ndarray, statistic: np.ndarray, norm: float, length: int, ramp: bool) -> None:
        discounted = ratio / (1 + LENGTH_PENALTY * np.sqrt(length - 1))
        improved = np.flatnonzero(discounted > found.strength[: len(ratio)])
        found.strength[improved], found.raw[improved] = discounted[improved], ratio[improved]
        found.length[improved], found.drift[improved] = length, ramp
        found.size[improved] = statistic[improved] / norm

    for length in range(1, min(shape.longest, len(total) - 2) + 1):
        statistic = _run_statistics(total, shape, length)[:count]
        ratio = np.abs(statistic)
        ratio[ratio < limits.runs[length - 1]] = 0.0
        for edge in (0, length):
            part = found.edges[edge : edge + len(ratio)]
            np.maximum(part, ratio, out=part)
        consider(ratio, statistic, shape.norms[length - 1], length, False)
    for i, length in enumerate(shape.ramps.tolist()):
        if length < len(total) - 1:
            statistic = _ramp_statistics(total, shape, i)[:count]
            ratio = np.abs(statistic)
            # A series that shifts at the end of a drift explains its return: the growth needs evidence of its own.
            end = shift[length : length + len(ratio)]
            needed = np.sqrt(limits.ramps[i] ** 2 + (1 + RAMP_MARGIN) * end**2)
            ratio[: len(end)][ratio[: len(end)] < needed] = 0.0
            ratio[ratio < limits.ramps[i]] = 0.0
            consider(ratio, statistic, shape.ramp_norms[i], length, True)
    return found


def _select_strongest(strength: np.ndarray, rows: np.ndarray, lengths: np.ndarray, longest: int) -> np.ndarray:
    """Select the strongest of overlapping candidates.

    Candidates far weaker than another one nearby are left for later rounds, and so is a shift until all faults around
    it have been removed.

    Args:
        strength: strength of the candidate at each row, (T,); 0 for none.
        rows: rows with a candidate.
        lengths: their lengths, 0 for a shift.
        longest: length of the longest run.
    """
    strongest_nearby = running_maximum(strength, 2 * ECHO_ROWS + 1)[rows]
    strengths = strength[rows]
    order = np.flatnonzero((strengths > 0.0) & (strengths >= ECHO_STRENGTH_RATIO * strongest_nearby))
    order = order[np.argsort(-strengths[order], kind="stable")]
    occupied = bytearray(len(strength) + longest)  # faster than an array at finding a byte in a short range
    selected = []
    for row, length in zip(rows[order].tolist(), lengths[order].tolist(), strict=True):
        margin = length or longest  # rows between two faults resemble a fault, the more so the longer they are
        if occupied.find(1, max(row - margin, 0), row + length + margin) < 0:
            occupied[row : row + max(length, 1)] = b"\1" * max(length, 1)
            selected.append(row)
    return np.array(selected, int)
