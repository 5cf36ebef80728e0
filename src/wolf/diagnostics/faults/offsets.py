"""Bursts that only lie too high or too low: what they add is estimated, and their readings tell the shape again.

A run of readings that are all off by one number d still says how the series moved. The one-step errors are linear in d,
with g(k) - g(k - L) the errors that an offset of 1 over L readings makes (`faults`), so that

    d <- d + Σ_k (g(k) - g(k - L)) e(s + k) / |g(k) - g(k - L)|²

is the generalised least squares of d, with variance 1 / |g(k) - g(k - L)|² (de Jong & Penzer 1998). Whether a run is of
this sort is asked of the errors inside it: without d they must be as large as others are, neither wild nor calm.
"""

from collections.abc import Callable

import numpy as np

from wolf.diagnostics.faults.step_scan import CUT, FaultShape, correlate
from wolf.diagnostics.faults.stuck_values import runs_of

SHORTEST = 4  # readings; in fewer there is nothing to be seen that their neighbours do not tell
ROUNDS = 3  # runs close to each other are found with each other's offsets taken off
RARE = 0.01  # probability of errors as wild, or as calm, in a run that is only offset


def candidates(
    faults: np.ndarray, off: np.ndarray, doubt: np.ndarray, shape: FaultShape
) -> dict[tuple[int, int], float]:
    """List runs that may be only offset, and whose offset would be known better than what lies under them.

    Args:
        faults: rows that may be in such a run, (T,).
        off: readings less what is known without all faults, (T,).
        doubt: variance of that, (T,).
        shape: of a step.

    Returns:
        First and last row (exclusive) of each, with the variance of its offset.
    """
    found = {}
    for first, stop in runs_of(faults):
        if SHORTEST <= stop - first <= shape.longest and stop < len(faults):
            rest, around = off[first:stop], float(doubt[first:stop].mean())
            variance = float(shape.norms[stop - first - 1] ** -2.0)
            if variance < around and np.abs(rest - np.median(rest)).max() < 2 * CUT * np.sqrt(around):
                found[first, stop] = variance
    return found


def find_offsets(
    errors_without: Callable[[np.ndarray, list[tuple[int, int]]], np.ndarray],
    runs: dict[tuple[int, int], float],
    usual: float,
    near: np.ndarray,
    shape: FaultShape,
) -> tuple[np.ndarray, np.ndarray]:
    """Find what runs are off by.

    Args:
        errors_without: offsets of all rows, and which runs to believe -> one-step errors over their deviation, (T,).
        runs: from `candidates`.
        usual: mean square of errors elsewhere, cut off at `CUT`, over their size nearby.
        near: size that errors usually have around each row, (T,).
        shape: of a step.

    Returns:
        For all rows the offset, 0 outside of runs that are only offset, and its variance.
    """
    while True:
        offset, doubt = np.zeros(len(near)), np.zeros(len(near))
        for _ in range(ROUNDS):
            total = correlate(errors_without(offset, list(runs)), shape.step)
            for (first, stop), variance in runs.items():
                offset[first:stop] += (total[first] - total[stop]) * variance
                doubt[first:stop] = variance * near[first] ** 2
        squares = np.minimum((errors_without(offset, list(runs)) / near) ** 2, CUT**2) / usual
        plain = {run: variance for run, variance in runs.items() if is_usual(squares[run[0] + 1 : run[1]])}
        if len(plain) == len(runs):
            return offset, doubt
        runs = plain  # once more without those that are not: they have moved the others


def is_usual(squares: np.ndarray) -> bool:
    """Say whether squared errors, over what they usually are, are neither too large nor too small by their χ² law.

    Example:
        >>> is_usual(np.ones(11)), is_usual(np.full(11, 4.0)), is_usual(np.full(11, 0.01))
        (True, False, False)
    """
    from scipy.special import chdtri  # here: importing scipy takes a while, and most files have no bursts

    low, high = chdtri(len(squares), 1.0 - RARE), chdtri(len(squares), RARE)
    return bool(low < squares.sum() < high)
