"""Known events: maintenance intervals, and calibrations with the offset that they leave.

Readings inside of an interval are set aside. At a calibration, an event without an end, the level may step: the step is
estimated from the readings around it, and removed from the series before the search for faults, so that no shift, burst
or drift is found there; afterwards it is added to the estimates again. With a correction, the readings before a
calibration are corrected by the error that it found (Wagner et al. 2006, U.S. Geological Survey TM 1-D3): by the same
amount back to the calibration before ("offset"), or by an amount that grows linearly from 0 ("drift").
"""

import numpy as np

from wolf.cleaning.time_intervals import TimeInterval
from wolf.numerics.robust import MAD_TO_STD

STEP_ROWS = 8  # readings on either side of a calibration, whose medians are compared
MIN_STEP_ROWS = 3
MAX_REFERENCE_PLACES = 200  # of the series, at which the same difference of medians is taken for its usual size
MIN_STEP_DEVIATIONS = 4.0  # smallest step, in usual differences


def calibrations(events: list[TimeInterval]) -> list[TimeInterval]:
    """Return the events without an end."""
    return [each for each in events if each.start == each.end]


def step_at(values: np.ndarray, row: int, first: int, stop: int, usual: float) -> float:
    """Estimate the step of a series at a calibration; 0 if it is no larger than usual changes.

    Args:
        values: readings, (T,), NaN where missing.
        row: first row after the calibration.
        first: row after the calibration before.
        stop: first row after the next one.
        usual: size of such differences elsewhere.
    """
    step = _median_difference(values, row, first, stop)
    return step if abs(step) > MIN_STEP_DEVIATIONS * usual else 0.0


def _median_difference(values: np.ndarray, row: int, first: int, stop: int) -> float:
    before, after = values[first:row], values[row:stop]
    before, after = before[np.isfinite(before)][-STEP_ROWS:], after[np.isfinite(after)][:STEP_ROWS]
    if min(len(before), len(after)) < MIN_STEP_ROWS:
        return 0.0
    return float(np.median(after) - np.median(before))


def usual_difference(values: np.ndarray) -> float:
    """Estimate the standard deviation of the difference of medians on both sides of a row."""
    places = np.linspace(0, len(values), MAX_REFERENCE_PLACES + 2)[1:-1].astype(int)
    window = 4 * STEP_ROWS
    found = [_median_difference(values, row, max(row - window, 0), row + window) for row in np.unique(places).tolist()]
    return MAD_TO_STD * float(np.median(np.abs(found))) if found else 0.0


def steps(values: np.ndarray, rows: list[int]) -> np.ndarray:
    """Estimate the sum of the steps at calibrations up to each row, (T,).

    Args:
        values: readings, (T,), NaN where missing.
        rows: first row after each calibration, increasing.

    Example:
        >>> values = np.random.default_rng(0).normal(size=100)
        >>> values[60:] += 50.0
        >>> steps(values, [60])[[59, 60]].round().tolist()
        [0.0, 50.0]
    """
    total = np.zeros(len(values))
    usual = usual_difference(values)
    edges = [0, *rows, len(values)]
    for i, row in enumerate(rows):
        total[row:] += step_at(values, row, edges[i], edges[i + 2], usual)
    return total


def correction(
    values: np.ndarray,
    times: np.ndarray,
    events: list[TimeInterval],
    rows: list[int],
    kind: str,
    before: float = -np.inf,
) -> np.ndarray:
    """Compute what is subtracted from the readings between calibrations, (T,).

    Args:
        values: readings, (T,), NaN where missing.
        times: of the rows, (T,).
        events: calibrations, in the order of time.
        rows: first row after each.
        kind: "offset" or "drift".
        before: time of the last calibration before the series.

    Example:
        >>> values = np.random.default_rng(0).normal(size=100) + np.linspace(0.0, 50.0, 100) * (np.arange(100) < 60)
        >>> events = [TimeInterval(60.0, 60.0, error=30.0)]
        >>> correction(values, np.arange(100.0), events, [60], "drift")[[0, 30, 59, 60]].round(1).tolist()
        [0.0, 15.0, 29.5, 0.0]
    """
    total = np.zeros(len(values))
    usual = usual_difference(values)
    edges = [0, *rows, len(values)]
    for i, (event, row) in enumerate(zip(events, rows, strict=True)):
        error = event.error
        if np.isnan(error):
            error = -step_at(values, row, edges[i], edges[i + 2], usual)
        since = events[i - 1].start if i else before if np.isfinite(before) else float(times[0])
        share = np.clip((times[edges[i] : row] - since) / max(event.start - since, 1e-300), 0.0, 1.0)
        total[edges[i] : row] = error * (share if kind == "drift" else 1.0)
    return total
