"""Long gaps: bridged by what does it best elsewhere in the same series.

What foretells the next reading best need not know the way over a gap: a slope that holds for a few steps leads astray
in twenty. So the runners-up of a choice are asked, too, and autoregressions. Gaps of the same length are cut into the
good part of the series, and whichever comes closest to what was cut out, or the average of a few that comes closer
still (`stacking`), bridges those that are there.
"""

from collections.abc import Sequence

import numpy as np

from wolf.cleaning import ar_imputation
from wolf.cleaning.smoother_pass import Build, SmootherPass, sweep
from wolf.cleaning.stacking import stacked
from wolf.diagnostics.faults.local_scale import season_of
from wolf.numerics.runs import runs_of

SHORTEST = 6  # rows of a gap in which models differ
EVERY = 3  # lengths of a gap from one that is cut out to the next
SAMPLE = 4_096  # rows that gaps are cut into
FEWEST = 10  # of such gaps, to tell models apart
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
    seen: SmootherPass,
    others: Sequence[Build],
    build: Build,
    used: np.ndarray,
    noise: np.ndarray,
    gaps: np.ndarray | None,
) -> None:
    """Bridge long gaps anew if others do it better; changes mean and variance of `seen` there.

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
    builds = (build, *others)
    regress = gaps is None and ar_imputation.can_bridge(used[some], len(runs_of(rows)))
    told = []
    for cut in cuts:
        left = np.where(cut, np.nan, used[some])
        means = [sweep(each, left, noise[some], None if gaps is None else gaps[some]).mean for each in builds]
        means += _regressed(builds, left, means[0]) if regress else []
        told.append(np.stack(means)[:, cut] - used[some][cut])
    errors = np.concatenate(told, axis=1)
    weights = stacked(errors[:, np.isfinite(errors[0])])
    mean = weights[0] * seen.mean[rows]
    if regress and weights[len(builds) :].any():
        means = _regressed(builds, used, seen.mean, weights[len(builds) :])
        mean += weights[len(builds) :] @ np.stack(means)[:, rows]
    for i in np.flatnonzero(weights[1 : len(builds)]).tolist():
        also = sweep(others[i], used, noise, gaps)
        mean += weights[1 + i] * also.mean[rows]
        np.maximum(seen.variance, also.variance, out=seen.variance, where=rows)  # none is sure to know it better
    seen.mean[rows] = mean


def _regressed(
    builds: Sequence[Build], used: np.ndarray, start: np.ndarray, weights: np.ndarray | None = None
) -> list[np.ndarray]:
    """Bridge by autoregressions with a mean and without one, fitted to the middle of the series; (T,) each.

    Args:
        builds: models, whose seasons are taken.
        used: readings, NaN where there is none, (T,).
        start: what another bridge says, (T,).
        weights: of the autoregressions, if known: what has none is not asked.
    """
    first = max(0, (len(used) - SAMPLE) // 2)
    some, known = slice(first, first + SAMPLE), np.isfinite(used)
    middle = float(np.median(used[some][known[some]]))
    filled = np.where(known, used, start) - middle
    periods = {period for each in builds if (period := season_of(each(None))) is not None}
    told = [
        ar_imputation.fit(filled[some], known[some], lags, differenced)
        for lags in ar_imputation.lags_for(filled[some], known[some], sorted(periods))
        for differenced in (False, True)
    ]
    gaps = runs_of(long_gaps(used))
    return [
        ar_imputation.interpolate(each, told[i % 2], filled, gaps) + middle
        if weights is None or weights[i] > 0.0
        else filled
        for i, each in enumerate(told)
    ]


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
