"""Retrospective cleaning: a series is judged as a whole, each measurement by those before and after it.

`fault_search` finds which measurements are faults and where the level shifts; bursts with a constant offset are
corrected and used (`diagnostics.faults.offsets`). The rest is smoothed with Huber weights, and long gaps are imputed
(`gap_imputation`). Prediction intervals are calibrated by leave-one-out errors (split conformal), scaled by the local
size of the errors (`diagnostics.faults.local_scale`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wolf.beliefs import Gaussian
from wolf.cleaning.fault_search import FAULTS as FAULTS
from wolf.cleaning.fault_search import FaultSearch
from wolf.cleaning.gap_imputation import impute_gaps
from wolf.cleaning.significance import reinstate_ordinary_runs
from wolf.cleaning.smoother_pass import Build, run_pass
from wolf.diagnostics.faults.false_alarms import DEFAULT_FALSE_ALARMS, DetectionLevel
from wolf.diagnostics.faults.sentinel_values import without_codes
from wolf.inference.filters.gaussian import GaussianState

RETROSPECTIVE = "retrospective"  # method name of a series that is judged as a whole
HUBER_DEVIATIONS = 3.0  # leave-one-out error, in deviations, from which a measurement is down-weighted (Huber 1964)
MIN_WEIGHT = 1e-3
MAX_FAULT_ROWS, MAX_FAULT_SHARE = 30, 0.05  # default of the longest fault: rows, and share of the series
MAX_TAIL_SHARE = 0.01  # share of the measurements that may be good ones in the tail although they were flagged
MAX_READING = 1e100  # larger numbers are not measurements


class RetrospectiveSeries(NamedTuple):
    """Retrospective result of a series of one column.

    Attributes:
        mean: estimate of the noise-free signal, (T,).
        variance: of the estimate, (T,).
        prediction_half: half the width of the prediction interval of a measurement, (T,).
        weight: of each measurement, (T,).
        fault: index into `FAULTS`, (T,).
        errors: one-step errors over their deviation, (T,); of a fault, the error from the mean; 0 where missing.
        spread: variance of the one-step errors, (T,).
        factor: half width of the prediction interval, in deviations, for a row anywhere in the series.
        final: state after the last row.
        detection: level above which a candidate is a fault.
        borderline: candidates below that level, which are used as good measurements, (T,).
    """

    mean: np.ndarray
    variance: np.ndarray
    prediction_half: np.ndarray
    weight: np.ndarray
    fault: np.ndarray
    errors: np.ndarray
    spread: np.ndarray
    factor: float
    final: GaussianState
    detection: DetectionLevel
    borderline: np.ndarray

    @property
    def is_fault(self) -> np.ndarray:
        """Which measurements are faults, (T,)."""
        return (self.fault > 0) & (self.fault < FAULTS.index("shift"))


def default_max_fault_rows(count: int) -> int:
    """Compute the default of the longest fault, in rows.

    Example:
        >>> default_max_fault_rows(2000), default_max_fault_rows(100)
        (30, 5)
    """
    return max(1, min(MAX_FAULT_ROWS, int(MAX_FAULT_SHARE * count)))


def judge(
    build: Build,
    values: np.ndarray,
    gaps: np.ndarray | None,
    longest: int,
    level: float,
    ratio: np.ndarray | float = 1.0,
    others: Sequence[Build] = (),
    false_alarms: float = DEFAULT_FALSE_ALARMS,
    witnesses: np.ndarray | None = None,
) -> RetrospectiveSeries:
    """Find the faults of a series, smooth the rest, and compute calibrated prediction intervals.

    Args:
        build: gaps -> model of one column.
        values: (T,), NaN where missing.
        gaps: before each row, (T,), in steps; None where all are 1.
        longest: rows of the longest fault; a longer deviation is a shift.
        level: probability of the prediction intervals.
        ratio: variance of each measurement over the model's, (T,), if known.
        others: models that may impute long gaps, as `build`.
        false_alarms: expected false incidents per 10,000 readings.
        witnesses: other columns of the table at the same rows, (T, K).
    """
    excessive = np.abs(values) > MAX_READING
    plain = without_codes(values)
    coded = np.isnan(plain) & np.isfinite(values) & ~excessive
    search = FaultSearch(build, np.where(excessive, np.nan, plain), gaps, longest, ratio)
    search.search()
    search.find_dropouts()
    detection, borderline = reinstate_ordinary_runs(search, false_alarms, witnesses)
    first_pass = search.run_pass()
    offset_var = search.correct_offsets(first_pass)
    weight, noise = _huber_weights(
        search.leave_one_out_errors(search.run_pass() if search.corrected.any() else first_pass)
    )
    del first_pass
    weight[search.corrected] = 0.0
    smoothed = run_pass(build, search.used, noise * search.ratio, gaps)
    left_out = search.leave_one_out_errors(smoothed, noise)
    left_out[search.corrected] = np.nan
    impute_gaps(smoothed, others, build, search.used, noise * search.ratio, gaps)
    np.add(smoothed.variance, offset_var, out=smoothed.variance)
    del noise
    half = smoothed.variance + search.obs_var * search.ratio
    np.sqrt(half, out=half)
    fault = np.where(excessive, FAULTS.index("spike"), np.where(coded, FAULTS.index("dropout"), search.fault_codes()))
    flagged = int((search.mask & ~search.stuck & search.known).sum())
    factor = prediction_factor(left_out, level, flagged)  # for any row; near a row, relative to the local scale:
    scale = search.local_error_scale(smoothed.errors)
    left_out /= scale
    half *= scale
    half *= prediction_factor(left_out, level, flagged)
    final = smoothed.final._replace(belief=_shift_level(smoothed.final.belief, search.offset[-1]))
    np.add(smoothed.mean, search.offset, out=smoothed.mean)
    # No one-step error exists for what was left out; it is compared with the mean given all other measurements.
    out = np.flatnonzero(((search.mask | search.dropped) & search.known) | coded)
    smoothed.errors[out] = (values[out] - smoothed.mean[out]) / np.sqrt(smoothed.spread[out])
    return RetrospectiveSeries(
        *(smoothed.mean, smoothed.variance, half, weight, fault, smoothed.errors, smoothed.spread, factor, final),
        *(detection, borderline),
    )


def _huber_weights(errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute Huber weights, and the factors on the noise variance that they imply; overwrites the errors."""
    unused = ~np.isfinite(errors)
    weight = HUBER_DEVIATIONS / np.maximum(np.abs(errors, out=errors), HUBER_DEVIATIONS)
    noise = np.maximum(weight, MIN_WEIGHT) ** -2.0
    weight[unused], noise[unused] = 0.0, 1.0
    return weight, noise


def prediction_factor(errors: np.ndarray, level: float, flagged: int = 0) -> float:
    """Compute how many deviations a prediction interval needs to contain the given share of measurements.

    Args:
        errors: leave-one-out error of each measurement, in deviations; NaN where it was not used.
        level: the share.
        flagged: number of measurements that were classified as faults. They may be the tail of the good ones, which
            would otherwise be missing here, so up to `MAX_TAIL_SHARE` of all count as outside.

    Example:
        >>> errors = np.random.default_rng(0).normal(size=10_000)
        >>> round(prediction_factor(errors, 0.95), 2), round(prediction_factor(errors, 0.95, 50), 2)
        (1.96, 2.0)
    """
    known = errors[np.isfinite(errors)]
    np.abs(known, out=known)
    if not known.size:
        from scipy.special import ndtri

        return float(ndtri(0.5 + 0.5 * level))
    # One more than observed: the rank of a new measurement (Vovk, Gammerman & Shafer 2005, split conformal).
    count = len(known) + min(flagged, MAX_TAIL_SHARE * len(known)) + 1
    return float(np.quantile(known, min(1.0, level * count / len(known)), overwrite_input=True))


def _shift_level(belief: Gaussian, offset: float) -> Gaussian:
    """Add the shifts back to the level, which is the first state."""
    mean = np.array(belief.mean)
    mean[0] += offset
    return belief._replace(mean=mean)
