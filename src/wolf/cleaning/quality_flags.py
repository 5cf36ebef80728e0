"""Flags and scores of readings: QARTOD flags, and an anomaly score for rankings and benchmarks."""

from typing import NamedTuple

import numpy as np

from wolf.cleaning.fault_search import FAULTS

FAULT_NAMES = (*FAULTS, "range", "rate", "labelled", "maintenance")  # names in the column `fault`
NO_FAULTS = ("", "shift", "gap", "maintenance")
CERTAIN = ("stuck", "dropout", "range", "rate", "labelled")  # faults whose score does not depend on their size
GOOD, NOT_EVALUATED, SUSPECT, FAIL, MISSING = 1, 2, 3, 4, 9  # QARTOD flags (U.S. IOOS 2020)
ALARM_QUIET_ROWS = 20  # rows without an outlier after which the next one is a new alarm
SCORE_DIGITS = 6


class AlarmState(NamedTuple):
    """Last alarm of a causal run.

    Attributes:
        quiet: rows since the last outlier.
        outliers: of the present alarm so far.
    """

    quiet: float = np.inf
    outliers: int = 0


def qartod_flags(
    values: np.ndarray, outlier: np.ndarray, weight: np.ndarray, fault: np.ndarray, suspect: np.ndarray | None = None
) -> np.ndarray:
    """Compute QARTOD flags, in the shape of the outliers.

    9 is a missing reading, 4 a fault, 2 a reading during maintenance, which is not evaluated; 3 is a suspect reading,
    which is used: with less than half of its information (weight² < 1/2), after a shift of the level, or after a change
    that is faster than permitted; 1 is a good one.

    Args:
        values: (T, M), NaN where missing.
        outlier: (T,) or (T, M).
        weight: likewise.
        fault: kinds of fault, (T,) of text.
        suspect: readings that are suspect for other reasons, (T, M).

    Example:
        >>> values = np.array([[1.0], [9.0], [np.nan]])
        >>> fault, weight = np.array(["", "spike", "gap"]), np.array([1.0, 0.0, 0.0])
        >>> qartod_flags(values, weight == 0.0, weight, fault).tolist()
        [1, 4, 9]
    """
    rowwise = outlier.ndim == 1
    missing = np.isnan(values).all(axis=1) if rowwise else np.isnan(values)
    doubted = weight**2 < 0.5
    if suspect is not None:
        doubted = doubted | (suspect.any(axis=1) if rowwise else suspect)
    shift, unjudged = fault == "shift", fault == "maintenance"
    shift, unjudged = (shift, unjudged) if rowwise else (shift[:, None], unjudged[:, None])
    flags = np.where(doubted | shift, SUSPECT, GOOD)
    flags = np.where(outlier, FAIL, flags)
    flags = np.where(unjudged & outlier, NOT_EVALUATED, flags)
    return np.asarray(np.where(missing, MISSING, flags), np.int8)


def anomaly_scores(
    values: np.ndarray, mean: np.ndarray, half: np.ndarray, outlier: np.ndarray, fault: np.ndarray
) -> np.ndarray:
    """Compute a score in [0, 1] per reading, in the shape of the outliers; NaN where missing.

    With the distance d from the estimate, in half widths of the prediction interval, it is d / (1 + d), halved, plus
    1/2 for a fault: outliers are the readings with 1/2 or more. Where the kind of fault is certain it is 1, and during
    maintenance 0.

    Args:
        values: (T, M), NaN where missing.
        mean: estimates, (T, M).
        half: half width of the prediction interval, (T, M).
        outlier: (T,) or (T, M).
        fault: kinds of fault, (T,) of text.

    Example:
        >>> values, half = np.array([[0.0], [4.0]]), np.ones((2, 1))
        >>> anomaly_scores(values, np.zeros((2, 1)), half, np.array([False, True]), np.array(["", "spike"])).tolist()
        [0.0, 0.9]
    """
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        distance = np.abs(values - mean) / half
        share = np.where(np.isinf(distance), 1.0, distance / (1.0 + distance))
    if outlier.ndim == 1:
        known = np.isfinite(share).any(axis=1)
        share = np.where(known, np.where(np.isfinite(share), share, -1.0).max(axis=1), np.nan)
    scores = 0.5 * share + 0.5 * outlier
    certain, unjudged = np.isin(fault, CERTAIN), fault == "maintenance"
    certain, unjudged = (certain, unjudged) if outlier.ndim == 1 else (certain[:, None], unjudged[:, None])
    scores = np.where(np.isnan(scores), scores, np.where(certain & outlier, 1.0, np.where(unjudged, 0.0, scores)))
    return np.asarray(np.round(scores, SCORE_DIGITS))


def decay(scores: np.ndarray, outlier: np.ndarray, state: AlarmState) -> tuple[np.ndarray, AlarmState]:
    """Halve the score of each further outlier of an alarm, so that a causal score crosses 1/2 once per alarm.

    An outlier after `ALARM_QUIET_ROWS` rows without one is a new alarm.

    Args:
        scores: of consecutive rows, (T,) or (T, M).
        outlier: likewise.
        state: after the rows before.

    Returns:
        The scores, and the state after the last row.

    Example:
        >>> decay(np.array([0.9, 0.9, 0.1, 0.9]), np.array([True, True, False, True]), AlarmState())[0].tolist()
        [0.9, 0.45, 0.1, 0.225]
    """
    flagged = np.asarray(outlier if outlier.ndim == 1 else outlier.any(axis=1))
    rows = np.flatnonzero(flagged)
    if not rows.size:
        return scores, AlarmState(state.quiet + len(flagged), state.outliers)
    quiet = np.diff(rows, prepend=rows[0]) - 1.0
    quiet[0] = rows[0] + state.quiet
    fresh = np.flatnonzero(quiet >= ALARM_QUIET_ROWS)
    number = np.arange(len(rows)) + (state.outliers if not fresh.size or fresh[0] else 0)
    begins = np.zeros(len(rows), int)
    begins[fresh] = number[fresh]
    age = number - np.maximum.accumulate(begins)
    factor = np.ones(len(flagged))
    factor[rows] = np.exp2(-np.minimum(age, 60.0))
    decayed = np.round(scores * (factor if scores.ndim == 1 else factor[:, None]), SCORE_DIGITS)
    return decayed, AlarmState(float(len(flagged) - 1 - rows[-1]), int(age[-1]) + 1)
