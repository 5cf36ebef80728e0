"""Changes of the noise variance: intervals in which the whitened innovations are larger, or smaller, than elsewhere.

A running median of their squares detects them, and is insensitive to single outliers and to the few steps after a jump.
The ends are refined by the likelihood: with ρ the factor on the variance of an error e of M coordinates, a step inside
gains

    e² (1 - 1/ρ) - M ln ρ

and the interval with the largest sum is selected.
"""

from typing import NamedTuple

import numpy as np

from wolf.numerics.rolling import running_median
from wolf.numerics.runs import runs_of

WINDOW_STEPS = 31  # innovations of a running median
MIN_VARIANCE_RATIO = 2.5  # smallest factor by which the variance must grow or shrink ...
MIN_LOG_RATIO_STDS = 6.0  # ... and smallest change of the log of the median, in its standard deviations
MAX_SQUARE_VARIANCES = 25.0  # variances at which one square is clipped
MAX_GAP_STEPS = 20  # steps between two changes in the same direction that are merged


class VarianceChange(NamedTuple):
    """Change of the noise variance: first step, step after the last, and factor on the variance of an error."""

    first: int
    stop: int
    factor: float


def find_variance_changes(errors: np.ndarray, measured: np.ndarray) -> list[VarianceChange]:
    """Find changes of the noise variance.

    Args:
        errors: whitened innovations, (T, M).
        measured: steps with a measurement, (T,).
    """
    from scipy.special import gammaincinv

    rows = np.flatnonzero(measured)
    if len(rows) < 3 * WINDOW_STEPS:
        return []
    count = errors.shape[1]
    squares = (errors[rows] ** 2).sum(axis=1)
    median = 2.0 * float(gammaincinv(0.5 * count, 0.5))
    ratios = running_median(squares, WINDOW_STEPS, "nearest") / max(float(np.median(squares)), 1e-300)
    half = WINDOW_STEPS // 2  # at the ends, the values of the first and last full window
    ratios[:half], ratios[-half:] = ratios[half], ratios[-half - 1]
    logs = np.log(np.maximum(ratios, 1e-300))
    limit = max(np.log(MIN_VARIANCE_RATIO), MIN_LOG_RATIO_STDS * _log_median_std(count, median))
    found = []
    for sign in (1.0, -1.0):
        for first, stop in runs_of(sign * logs > limit):
            factor = float(np.exp(np.median(logs[first:stop])))
            first, stop = _refine_ends(squares / (float(np.median(squares)) / median), first, stop, factor, count)
            found.append(VarianceChange(int(rows[first]), int(rows[stop - 1]) + 1, factor))
    return _merge_neighbours(sorted(found))


def _log_median_std(count: int, median: float) -> float:
    """Compute the standard deviation of the log of the median of a window of χ² variables, 1 / (2 f(m) √n) / m."""
    from scipy.special import gamma

    density = median ** (0.5 * count - 1) * np.exp(-0.5 * median) / (2 ** (0.5 * count) * gamma(0.5 * count))
    return float(1.0 / (2.0 * density * np.sqrt(WINDOW_STEPS)) / median)


def _refine_ends(squares: np.ndarray, first: int, stop: int, factor: float, count: int) -> tuple[int, int]:
    """Move the ends to where the likelihood is largest."""
    gains = np.minimum(squares, MAX_SQUARE_VARIANCES * max(factor, 1.0)) * (1.0 - 1.0 / factor) - count * np.log(factor)
    left = slice(max(first - 2 * WINDOW_STEPS, 0), (first + stop) // 2)
    right = slice((first + stop) // 2, min(stop + 2 * WINDOW_STEPS, len(squares)))
    start = left.start + int(np.cumsum(gains[left][::-1])[::-1].argmax()) if left.stop > left.start else first
    end = right.start + int(np.cumsum(gains[right]).argmax()) + 1
    return start, end


def _merge_neighbours(found: list[VarianceChange]) -> list[VarianceChange]:
    """Merge neighbouring changes in the same direction."""
    merged: list[VarianceChange] = []
    for change in found:
        previous = merged[-1] if merged else None
        if (
            previous
            and change.first <= previous.stop + MAX_GAP_STEPS
            and (previous.factor > 1.0) == (change.factor > 1.0)
        ):
            factor = max(previous.factor, change.factor) if change.factor > 1.0 else min(previous.factor, change.factor)
            merged[-1] = VarianceChange(previous.first, max(previous.stop, change.stop), factor)
        else:
            merged.append(change)
    return merged
