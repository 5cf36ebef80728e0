"""Find stretches where the errors of a filter spread more, or less, than elsewhere: a change of the noise.

A running median of their squares sees it, and neither single outliers nor the few steps after a jump. Where it begins
and ends is where the likelihood says: with ρ the factor on the variance of an error e of M numbers, a step inside gains

    e² (1 - 1/ρ) - M ln ρ

and the stretch with the largest sum is taken.
"""

from typing import NamedTuple

import numpy as np

from wolf.numerics.rolling import running_median

WINDOW = 31  # errors of a running median
TIMES = 2.5  # by which the variance must have grown or shrunk at least ...
DEVIATIONS = 6.0  # ... and by how many deviations of the logarithm of a median
FARTHEST = 25.0  # variances at which one square is cut off
CLOSE = 20  # steps between two changes of one kind that are one


class Spread(NamedTuple):
    """A change of the noise: first step, the one after the last, and the factor on the variance of an error."""

    first: int
    stop: int
    factor: float


def changes(errors: np.ndarray, measured: np.ndarray) -> list[Spread]:
    """Find changes of the noise.

    Args:
        errors: white, (T, M).
        measured: which steps have a measurement, (T,).
    """
    from scipy.special import gammaincinv

    rows = np.flatnonzero(measured)
    if len(rows) < 3 * WINDOW:
        return []
    count = errors.shape[1]
    squares = (errors[rows] ** 2).sum(axis=1)
    middle = 2.0 * float(gammaincinv(0.5 * count, 0.5))
    ratios = running_median(squares, WINDOW, "nearest") / max(float(np.median(squares)), 1e-300)
    half = WINDOW // 2  # the ends have what the first and the last whole window say
    ratios[:half], ratios[-half:] = ratios[half], ratios[-half - 1]
    logs = np.log(np.maximum(ratios, 1e-300))
    limit = max(np.log(TIMES), DEVIATIONS * _deviation(count, middle))
    found = []
    for sign in (1.0, -1.0):
        for first, stop in runs_of(sign * logs > limit):
            factor = float(np.exp(np.median(logs[first:stop])))
            first, stop = _extend(squares / (float(np.median(squares)) / middle), first, stop, factor, count)
            found.append(Spread(int(rows[first]), int(rows[stop - 1]) + 1, factor))
    return _joined(sorted(found))


def _deviation(count: int, middle: float) -> float:
    """Deviation of the logarithm of the median of a window of χ² numbers: 1 / (2 f(m) √n), over m."""
    from scipy.special import gamma

    density = middle ** (0.5 * count - 1) * np.exp(-0.5 * middle) / (2 ** (0.5 * count) * gamma(0.5 * count))
    return float(1.0 / (2.0 * density * np.sqrt(WINDOW)) / middle)


def runs_of(mask: np.ndarray) -> list[tuple[int, int]]:
    """List runs of True, each as its first step and the one after its last."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int8), [0]])))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _extend(squares: np.ndarray, first: int, stop: int, factor: float, count: int) -> tuple[int, int]:
    """Move the ends to where the likelihood is largest."""
    gains = np.minimum(squares, FARTHEST * max(factor, 1.0)) * (1.0 - 1.0 / factor) - count * np.log(factor)
    left = slice(max(first - 2 * WINDOW, 0), (first + stop) // 2)
    right = slice((first + stop) // 2, min(stop + 2 * WINDOW, len(squares)))
    start = left.start + int(np.cumsum(gains[left][::-1])[::-1].argmax()) if left.stop > left.start else first
    end = right.start + int(np.cumsum(gains[right]).argmax()) + 1
    return start, end


def _joined(found: list[Spread]) -> list[Spread]:
    """Put neighbours of one kind together."""
    joined: list[Spread] = []
    for one in found:
        last = joined[-1] if joined else None
        if last and one.first <= last.stop + CLOSE and (last.factor > 1.0) == (one.factor > 1.0):
            factor = max(last.factor, one.factor) if one.factor > 1.0 else min(last.factor, one.factor)
            joined[-1] = Spread(last.first, max(last.stop, one.stop), factor)
        else:
            joined.append(one)
    return joined
