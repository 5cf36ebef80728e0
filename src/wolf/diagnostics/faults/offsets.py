"""Offset bursts: runs of readings with a constant offset, which is estimated so that the readings can be used again.

A run of readings that are all off by the same d still shows the shape of the series. The one-step errors are linear in
d, and g(k) - g(k - L) are the errors caused by an offset of 1 over L readings (`step_scan.py`), so that

    d <- d + Σ_k (g(k) - g(k - L)) e(s + k) / |g(k) - g(k - L)|²

is the generalised least squares estimate of d, with variance 1 / |g(k) - g(k - L)|² (de Jong & Penzer 1998). Whether a
run has a constant offset is tested on the errors inside it: without d they must have the typical size, neither larger
nor smaller.
"""

from collections.abc import Callable

import numpy as np

from wolf.diagnostics.faults.correlation import correlate_series
from wolf.diagnostics.faults.step_scan import CUT, StepSignature
from wolf.numerics.runs import runs_of

MIN_RUN_READINGS = 4  # readings of a run; fewer contain no information beyond their neighbours
NUM_ROUNDS = 3  # rounds, so that neighbouring runs are estimated with each other's offsets removed
TAIL_PROBABILITY = 0.01  # probability of larger, and of smaller, errors in a run with a constant offset


def candidates(
    faults: np.ndarray, off: np.ndarray, variance_known: np.ndarray, shape: StepSignature
) -> dict[tuple[int, int], float]:
    """List runs that may have a constant offset, and whose offset would be known better than the values below them.

    Args:
        faults: rows that may be in such a run, (T,).
        off: readings minus the prediction without any faults, (T,).
        variance_known: variance of that difference, (T,).
        shape: signature of a step.

    Returns:
        First and last row (exclusive) of each run, with the variance of its offset.
    """
    found = {}
    for first, stop in runs_of(faults):
        if MIN_RUN_READINGS <= stop - first <= shape.longest and stop < len(faults):
            rest, around = off[first:stop], float(variance_known[first:stop].mean())
            variance = float(shape.norms[stop - first - 1] ** -2.0)
            if variance < around and np.abs(rest - np.median(rest)).max() < 2 * CUT * np.sqrt(around):
                found[first, stop] = variance
    return found


def find_offsets(
    errors_without: Callable[[np.ndarray, list[tuple[int, int]]], np.ndarray],
    runs: dict[tuple[int, int], float],
    typical: float,
    local_size: np.ndarray,
    shape: StepSignature,
) -> tuple[np.ndarray, np.ndarray]:
    """Estimate the offsets of runs.

    Args:
        errors_without: function from the offsets of all rows, and the runs to use, to one-step errors in standard
            deviations, (T,).
        runs: runs from `candidates`.
        typical: mean square of errors elsewhere, clipped at `CUT`, relative to their local size.
        local_size: typical size of errors around each row, (T,).
        shape: signature of a step.

    Returns:
        Per row the offset, 0 outside runs with a constant offset, and its variance.
    """
    while True:
        offset, variance_known = np.zeros(len(local_size)), np.zeros(len(local_size))
        for _ in range(NUM_ROUNDS):
            total = correlate_series(errors_without(offset, list(runs)), shape.step)
            for (first, stop), variance in runs.items():
                offset[first:stop] += (total[first] - total[stop]) * variance
                variance_known[first:stop] = variance * local_size[first] ** 2
        squares = np.minimum((errors_without(offset, list(runs)) / local_size) ** 2, CUT**2) / typical
        offset_only = {run: variance for run, variance in runs.items() if is_usual(squares[run[0] + 1 : run[1]])}
        if len(offset_only) == len(runs):
            return offset, variance_known
        runs = offset_only  # repeated without the rejected runs, because they affect the others


def is_usual(squares: np.ndarray) -> bool:
    """Test whether the sum of squared normalised errors is neither too large nor too small for its χ² distribution.

    Example:
        >>> is_usual(np.ones(11)), is_usual(np.full(11, 4.0)), is_usual(np.full(11, 0.01))
        (True, False, False)
    """
    from scipy.special import chdtri  # imported here: scipy is slow to import, and most files have no bursts

    low, high = chdtri(len(squares), 1.0 - TAIL_PROBABILITY), chdtri(len(squares), TAIL_PROBABILITY)
    return bool(low < squares.sum() < high)
