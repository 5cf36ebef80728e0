"""Long gaps: bridged by whichever of a few models does it best elsewhere in the same series.

What foretells the next reading best need not know the way over a gap: a slope that holds for a few steps leads astray
in twenty. So the runners-up of a choice are asked, too. Gaps of the same length are cut into the good part of the
series, and whichever model comes closest to what was cut out bridges those that are there.
"""

from collections.abc import Sequence

import numpy as np

from wolf.readings.shapes import runs_of
from wolf.readings.sweeps import Build, Sweep, sweep

SHORTEST = 6  # rows of a gap in which models differ
EVERY = 3  # lengths of a gap from one that is cut out to the next
SAMPLE = 4_096  # rows that gaps are cut into
FEWEST = 10  # of such gaps, to tell models apart
BETTER = 0.98  # share of the chosen model's error that another one must stay below
ROUNDS = 2  # of cutting, at other places each


def long_gaps(used: np.ndarray) -> np.ndarray:
    """Find rows in long runs without a reading, (T,), but for those at either end of a series.

    Args:
        used: readings, NaN where there is none or it is left out, (T,).

    Example:
        >>> np.flatnonzero(long_gaps(np.array([1.0, *[np.nan] * 7, 2.0, np.nan, 3.0]))).tolist()
        [1, 2, 3, 4, 5, 6, 7]
    """
    found = np.zeros(len(used), bool)
    for first, stop in runs_of(np.isnan(used)):
        found[first:stop] = stop - first >= SHORTEST and first > 0 and stop < len(used)
    return found


def bridge(
    seen: Sweep, others: Sequence[Build], build: Build, used: np.ndarray, noise: np.ndarray, gaps: np.ndarray | None
) -> None:
    """Bridge long gaps anew if another model does it better; changes mean and variance of `seen` there.

    Args:
        seen: what the chosen model says.
        others: models that may bridge, too: gaps -> model.
        build: that of the chosen model.
        used: readings, NaN where there is none or it is left out, (T,).
        noise: variance of each reading over the model's, (T,).
        gaps: before each row, (T,), in steps; None where all are 1.
    """
    rows = long_gaps(used)
    if not rows.any() or not others:
        return
    length = int(np.median([stop - first for first, stop in runs_of(rows)]))
    first = max(0, (len(used) - SAMPLE) // 2)
    some = slice(first, first + SAMPLE)
    cuts = [cut_out(used[some], length, turn) for turn in range(ROUNDS)]
    if sum(len(runs_of(cut)) for cut in cuts) < FEWEST:
        return
    given = (used[some], noise[some], None if gaps is None else gaps[some])
    errors = [_error(each, cuts, *given) for each in (build, *others)]
    best = int(np.argmin(errors))
    if errors[best] < BETTER * errors[0]:
        told = sweep(others[best - 1], used, noise, gaps)
        seen.mean[rows] = told.mean[rows]
        np.maximum(seen.variance, told.variance, out=seen.variance, where=rows)  # neither is sure to know it better


def cut_out(used: np.ndarray, length: int, turn: int) -> np.ndarray:
    """Choose rows to cut out, (n,): runs of a length, at even distances, not beside a gap that is there.

    Args:
        used: readings, (n,).
        length: of a run.
        turn: 0, 1, ...: other places each.
    """
    cut, away = np.zeros(len(used), bool), 2 * EVERY * length
    missing = long_gaps(used)
    for first in range(length + turn * away // ROUNDS, len(used) - 2 * length, away):
        if not missing[max(first - length, 0) : first + 2 * length].any():
            cut[first : first + length] = True
    return cut


def _error(build: Build, cuts: list[np.ndarray], used: np.ndarray, noise: np.ndarray, gaps: np.ndarray | None) -> float:
    """Say how far a model is from readings that are cut out, on the average."""
    apart = [used[cut] - sweep(build, np.where(cut, np.nan, used), noise, gaps).mean[cut] for cut in cuts]
    return float(np.nanmean(np.abs(np.concatenate(apart))))
