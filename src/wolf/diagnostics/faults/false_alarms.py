"""Detection level for a stated rate of false alarms, from the tail of the fault statistic of the series itself.

Thresholds from a model (`step_scan.limits_of`) hold where the model fits. Weather, storms and changing variance have
heavier tails, and a year has many of them. With x the statistic of a fault over its threshold, the largest over all
lengths in blocks of rows, peaks between u and 1 are the ordinary excursions of a series just below the threshold. Their
tail is Pareto's, P(X > x) = (x / u)^-α, and its index α maximises the likelihood of the distribution truncated at 1
(Aban, Meerschaert & Panorska 2006, JASA 101), so that what lies above, faults among it, has no influence:

    mean log(x / u) = 1 / α - log(1 / u) / ((1 / u)^α - 1)

The level that the series exceeds by itself once in N rows is the return level u (n N / rows)^(1 / α), with n the number
of its peaks above u, those above 1 extrapolated. A run also has to begin and end abruptly where the tail is heavy: a
storm rises and falls gradually, a faulty sensor jumps.
"""

from typing import NamedTuple

import numpy as np

from wolf.diagnostics.faults.correlation import correlate_series
from wolf.diagnostics.faults.step_scan import DetectionThresholds, StepSignature

LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 30)  # rows of the runs whose statistics are compared with their thresholds
BLOCK_ROWS = 32  # rows of a block, of which the largest statistic is a peak
TAIL_START = 0.5  # u: smallest peak of the tail, as a share of the threshold
MIN_ROWS, MIN_PEAKS = 5_000, 20  # of a series and its tail; with fewer the thresholds of the model stay
MIN_TAIL_INDEX = 0.5
MAX_LEVEL = 6.0  # in thresholds: what exceeds this is reported however heavy the tail
MAX_TAIL_INDEX, BISECTIONS = 60.0, 50
DEFAULT_FALSE_ALARMS = 1.0  # expected false incidents per 10,000 readings
RATE_ROWS = 10_000
MIN_ABRUPTNESS = 0.25  # smaller step at the ends of a run, relative to the root mean square of its deviations
MIN_ROWS_OF_ABRUPTNESS = 3  # rows of the shortest run that may rise and fall gradually


class DetectionLevel(NamedTuple):
    """Calibrated detection level of a series.

    Attributes:
        level: smallest statistic of a fault, in thresholds of the model; 1 where those stay.
        tail_index: α of the tail; infinite if it was not estimated.
        num_peaks: peaks below the threshold that the tail was estimated from.
        false_alarms: expected false incidents per 10,000 readings.
    """

    level: float
    tail_index: float
    num_peaks: int
    false_alarms: float


def relative_statistics(errors: np.ndarray, shape: StepSignature, limits: DetectionThresholds) -> np.ndarray:
    """Compute |τ(s, L)| over its threshold for all rows s and the lengths L of `LENGTHS` that are searched, (n, T).

    Args:
        errors: one-step errors in standard deviations, (T,); 0 where no reading was used.
        shape: signature of a step.
        limits: thresholds from `limits_of`.
    """
    total = correlate_series(errors, shape.step)
    lengths = lengths_of(shape)
    found = np.zeros((len(lengths), len(errors)))
    for i, length in enumerate(lengths):
        if length < len(errors):
            statistic = np.abs(total[: len(errors) - length] - total[length : len(errors)])
            found[i, : len(statistic)] = statistic / (shape.norms[length - 1] * limits.runs[length - 1])
    return found


def lengths_of(shape: StepSignature) -> list[int]:
    """List the lengths of `relative_statistics`."""
    return [length for length in LENGTHS if length <= shape.longest]


def calibrate(statistics: np.ndarray, usable: np.ndarray, false_alarms: float) -> DetectionLevel:
    """Compute the level that a series exceeds by itself at the stated rate.

    Args:
        statistics: from `relative_statistics`, of a series without its faults, (n, T).
        usable: rows with a reading that is no candidate, (T,).
        false_alarms: expected false incidents per 10,000 readings.

    Example:
        >>> heavy = 0.06 * (1.0 + np.random.default_rng(0).pareto(3.0, (1, 320_000)))
        >>> found = calibrate(heavy, np.ones(320_000, bool), 1.0)
        >>> round(found.tail_index, 1), round(found.level, 1)
        (2.6, 1.5)
    """
    count = len(usable) // BLOCK_ROWS * BLOCK_ROWS
    peaks = np.where(usable, statistics.max(0), 0.0)[:count].reshape(-1, BLOCK_ROWS).max(1)
    peaks = peaks[(peaks >= TAIL_START) & (peaks < 1.0)]
    if len(usable) < MIN_ROWS or len(peaks) < MIN_PEAKS or not false_alarms:
        return DetectionLevel(1.0, np.inf, len(peaks), false_alarms)
    index = max(_truncated_tail_index(float(np.log(peaks / TAIL_START).mean())), MIN_TAIL_INDEX)
    above = len(peaks) / (1.0 - TAIL_START**index)  # peaks above u, with those beyond 1 that the tail implies
    allowed = usable.sum() * false_alarms / RATE_ROWS
    level = TAIL_START * (above / allowed) ** (1.0 / index)
    return DetectionLevel(float(np.clip(level, 1.0, MAX_LEVEL)), index, len(peaks), false_alarms)


def _truncated_tail_index(mean_log: float) -> float:
    """Solve for the index of a Pareto tail between u and 1 with the given mean of log(x / u), by bisection."""
    reach = -np.log(TAIL_START)
    low, high = 1e-3, MAX_TAIL_INDEX
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        if 1.0 / middle - reach / np.expm1(middle * reach) > mean_log:
            low = middle
        else:
            high = middle
    return low


def strongest_within(statistics: np.ndarray, shape: StepSignature, first: int, stop: int) -> float:
    """Compute the largest relative statistic of the runs inside one run, with a row on either side."""
    start, end = max(first - 1, 0), stop + 1
    inside = [
        statistics[i, start : max(end - length + 1, start + 1)].max()
        for i, length in enumerate(lengths_of(shape))
        if length <= end - start
    ]
    return float(max(inside))


def is_abrupt(deviations: np.ndarray) -> bool:
    """Return whether a run begins and ends by a step, and not gradually.

    Args:
        deviations: of the readings of the run from the estimate without them; NaN where missing.

    Example:
        >>> is_abrupt(np.ones(9)), is_abrupt(np.array([0.1, 1.0, 3.0, 8.0, 9.0, 6.0, 4.0, 2.0, 0.4]))
        (True, False)
    """
    known = deviations[np.isfinite(deviations)]
    if len(known) < MIN_ROWS_OF_ABRUPTNESS:
        return True
    ends = min(abs(float(known[0])), abs(float(known[-1])))
    return ends >= MIN_ABRUPTNESS * float(np.sqrt(np.mean(known**2)))


def separate_groups(firsts: np.ndarray, stops: np.ndarray, margin: int, num_groups: int) -> np.ndarray:
    """Assign runs to groups in which they are far from each other, where possible, (n,).

    Args:
        firsts: first rows, in order.
        stops: rows after the last ones.
        margin: rows between two runs of a group.
        num_groups: number of groups.

    Example:
        >>> separate_groups(np.array([0, 5, 300]), np.array([1, 6, 301]), 200, 4).tolist()
        [0, 1, 0]
    """
    ends = np.full(num_groups, -margin - 1)
    groups = np.zeros(len(firsts), int)
    for i, (first, stop) in enumerate(zip(firsts.tolist(), stops.tolist(), strict=True)):
        free = np.flatnonzero(ends + margin < first)
        groups[i] = free[0] if len(free) else int(np.argmin(ends))
        ends[groups[i]] = stop
    return groups
