"""Imputation of long gaps by the models that impute artificial gaps of the same series best.

The best model for one-step prediction need not be the best over a gap: a slope that holds for a few steps misleads over
twenty. So the runners-up of the model selection and autoregressions are candidates too. Gaps of the same length are cut
into complete parts of the series; the candidate with the smallest error there, or a weighted average with a smaller one
(`stacking`), imputes the actual gaps.
"""

from collections.abc import Sequence

import numpy as np

from wolf.cleaning import ar_imputation
from wolf.cleaning.smoother_pass import Build, SmootherPass, run_pass
from wolf.cleaning.stacking import stacking_weights
from wolf.diagnostics.faults.local_scale import season_of
from wolf.numerics.runs import runs_of

MIN_GAP_ROWS = 6  # in shorter gaps models hardly differ
GAP_SPACING = 3  # distance between artificial gaps, in gap lengths
SAMPLE_ROWS = 4_096  # that artificial gaps are cut into
MIN_GAPS_FOR_STACKING = 10  # artificial gaps
NUM_ROUNDS = 2  # of artificial gaps, at different places


def long_gaps(used: np.ndarray) -> np.ndarray:
    """Find rows in long gaps, (T,), except gaps at either end of a series.

    Args:
        used: measurements, NaN where missing or left out, (T,).

    Example:
        >>> np.flatnonzero(long_gaps(np.array([1.0, *[np.nan] * 7, 2.0, np.nan, 3.0]))).tolist()
        [1, 2, 3, 4, 5, 6, 7]
    """
    found = np.zeros(len(used), bool)
    for first, stop in runs_of(np.isnan(used)):
        found[first:stop] = stop - first >= MIN_GAP_ROWS and first > 0 and stop < len(used)
    return found


def impute_gaps(
    smoothed: SmootherPass,
    others: Sequence[Build],
    build: Build,
    used: np.ndarray,
    noise: np.ndarray,
    gaps: np.ndarray | None,
) -> None:
    """Impute long gaps where other candidates do it better; changes mean and variance of `smoothed` there.

    Args:
        smoothed: pass with the selected model.
        others: further candidates: gaps -> model.
        build: the selected model.
        used: measurements, NaN where missing or left out, (T,).
        noise: variance of each measurement over the model's, (T,).
        gaps: before each row, (T,), in steps; None where all are 1.
    """
    rows = long_gaps(used)
    if not rows.any() or not others:
        return
    length = int(np.median([stop - first for first, stop in runs_of(rows)]))
    first = max(0, (len(used) - SAMPLE_ROWS) // 2)
    sample = slice(first, first + SAMPLE_ROWS)
    cuts = [artificial_gaps(used[sample], length, turn) for turn in range(NUM_ROUNDS)]
    if sum(len(runs_of(cut)) for cut in cuts) < MIN_GAPS_FOR_STACKING:
        return
    builds = (build, *others)
    regress = gaps is None and ar_imputation.is_applicable(used[sample], len(runs_of(rows)))
    parts = []
    for cut in cuts:
        left = np.where(cut, np.nan, used[sample])
        means = [run_pass(each, left, noise[sample], None if gaps is None else gaps[sample]).mean for each in builds]
        means += _impute_by_autoregressions(builds, left, means[0]) if regress else []
        parts.append(np.stack(means)[:, cut] - used[sample][cut])
    errors = np.concatenate(parts, axis=1)
    weights = stacking_weights(errors[:, np.isfinite(errors[0])])
    mean = weights[0] * smoothed.mean[rows]
    if regress and weights[len(builds) :].any():
        means = _impute_by_autoregressions(builds, used, smoothed.mean, weights[len(builds) :])
        mean += weights[len(builds) :] @ np.stack(means)[:, rows]
    for i in np.flatnonzero(weights[1 : len(builds)]).tolist():
        other = run_pass(others[i], used, noise, gaps)
        mean += weights[1 + i] * other.mean[rows]
        np.maximum(smoothed.variance, other.variance, out=smoothed.variance, where=rows)  # the wider one is safe
    smoothed.mean[rows] = mean


def _impute_by_autoregressions(
    builds: Sequence[Build], used: np.ndarray, start: np.ndarray, weights: np.ndarray | None = None
) -> list[np.ndarray]:
    """Impute gaps by autoregressions, with a mean and differenced, fitted to the middle of the series; (T,) each.

    Args:
        builds: models, whose seasonal periods are used.
        used: measurements, NaN where missing, (T,).
        start: imputation by another candidate, (T,).
        weights: of the autoregressions, if known: those of weight 0 are not computed.
    """
    first = max(0, (len(used) - SAMPLE_ROWS) // 2)
    sample, known = slice(first, first + SAMPLE_ROWS), np.isfinite(used)
    middle = float(np.median(used[sample][known[sample]]))
    filled = np.where(known, used, start) - middle
    periods = {period for each in builds if (period := season_of(each(None))) is not None}
    fitted = [
        ar_imputation.fit(filled[sample], known[sample], lags, differenced)
        for lags in ar_imputation.candidate_lags(filled[sample], known[sample], sorted(periods))
        for differenced in (False, True)
    ]
    gaps = runs_of(long_gaps(used))
    return [
        ar_imputation.interpolate(each, fitted[i % 2], filled, gaps) + middle
        if weights is None or weights[i] > 0.0
        else filled
        for i, each in enumerate(fitted)
    ]


def artificial_gaps(used: np.ndarray, length: int, turn: int) -> np.ndarray:
    """Select rows for artificial gaps, (n,): runs of one length, evenly spaced, away from actual gaps.

    Args:
        used: measurements, (n,).
        length: rows of a gap.
        turn: 0, 1, ...; each has other places.
    """
    cut, spacing = np.zeros(len(used), bool), 2 * GAP_SPACING * length
    missing = long_gaps(used)
    for first in range(length + turn * spacing // NUM_ROUNDS, len(used) - 2 * length, spacing):
        if not missing[max(first - length, 0) : first + 2 * length].any():
            cut[first : first + length] = True
    return cut
