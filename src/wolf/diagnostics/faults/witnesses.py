"""Other columns as witnesses: what several sensors show at the same time is weather, not the fault of one.

How much a column moves is its bridging residual: the distance of L readings from the line through the readings before
and after them, relative to the 95 % quantile of that length in the whole column. Beside quiet columns a deviation is
the fault of one sensor; beside moderately active ones it is more often the weather; beside gross activity the whole
instrument failed.
"""

import numpy as np

from wolf.diagnostics.faults.false_alarms import LENGTHS

USUAL_QUANTILE = 0.95  # of the bridging residuals of a column, the unit of its activity
MODERATE_ACTIVITY = (1.5, 20.0)  # of another column, from and below which a deviation is more often the weather
WEATHER_FACTOR = 0.6  # on the statistic of a deviation beside moderately active columns
MARGIN_ROWS = 2  # rows around a run in which other columns count


def activity(column: np.ndarray) -> np.ndarray:
    """Compute the largest bridging residual at each row, in units of the usual one of its length, (T,).

    Args:
        column: measurements, (T,), NaN where missing.

    Example:
        >>> column = np.sin(np.arange(400.0))
        >>> column[200] += 50.0
        >>> active = activity(column)
        >>> int(np.argmax(active)), bool(np.median(active) < 2.0)
        (200, True)
    """
    known = np.isfinite(column)
    active = np.zeros(len(column))
    if known.sum() <= LENGTHS[-1] + 2:
        return active
    rows = np.arange(len(column))
    filled = np.interp(rows, rows[known], column[known])
    for length in LENGTHS:
        count = len(filled) - length - 1
        before, after = filled[:count], filled[length + 1 :]
        farthest = np.zeros(count)
        for k in range(1, length + 1):
            line = before + (after - before) * (k / (length + 1))
            np.maximum(farthest, np.abs(filled[k : k + count] - line), out=farthest)
        usual = float(np.quantile(farthest, USUAL_QUANTILE))
        if usual > 0.0:
            np.maximum(active[1 : count + 1], farthest / usual, out=active[1 : count + 1])
    return active


def weather_factor(active: np.ndarray, first: int, stop: int) -> float:
    """Compute the factor on the statistic of a run, from the activity of other columns.

    Args:
        active: largest activity of the other columns, (T,).
        first: first row of the run.
        stop: row after its last.

    Example:
        >>> active = np.array([0.5, 0.5, 4.0, 0.5, 0.5, 0.5, 0.5, 0.5])
        >>> weather_factor(active, 2, 3), weather_factor(active, 6, 7)
        (0.6, 1.0)
    """
    largest = float(active[max(first - MARGIN_ROWS, 0) : stop + MARGIN_ROWS].max())
    return WEATHER_FACTOR if MODERATE_ACTIVITY[0] <= largest < MODERATE_ACTIVITY[1] else 1.0
