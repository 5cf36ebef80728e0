"""Readings that were filled in by straight lines: hourly rows of a series that was measured every three hours.

Between two readings on a line a third tells nothing. Its second difference y(t-1) - 2 y(t) + y(t+1) is 0, or what
rounding leaves of it; that of a reading which was measured is as large as the series and its noise make it.
"""

import numpy as np

MOST = 12  # rows from one measured reading to the next, that are looked for
FLAT = 0.1  # size of the second differences on a line, beside those of measured readings
SURE = 0.85  # share of the rows that must be on a line, or not, as their place says: faults are some of the rest
FEWEST = 20  # measured readings, to tell


def every_of(values: np.ndarray) -> int:
    """Say that every so manyth reading was measured, and those between them lie on straight lines; 1 if none do.

    Args:
        values: (T,), NaN where missing, on even steps.

    Example:
        >>> measured, hours = np.random.default_rng(0).normal(size=100), np.arange(298)
        >>> every_of(np.interp(hours, hours[::3], measured)), every_of(measured)
        (3, 1)
    """
    bends = np.abs(np.diff(values, 2))
    known = np.flatnonzero(np.isfinite(bends))
    best, sure = 1, SURE
    for every in range(2, min(MOST, len(known) // FEWEST) + 1):
        phase, sizes = known % every, bends[known]
        for place in range(every):
            share = _as_told(sizes, phase == place)
            if share > sure:
                best, sure = every, share
    return best


def _as_told(bends: np.ndarray, measured: np.ndarray) -> float:
    """Give the share of rows that are bent where they were measured, and straight elsewhere."""
    usual = float(np.median(bends[measured])) if measured.any() else 0.0
    if not usual > 0.0:
        return 0.0
    return float(np.mean((bends > FLAT * usual) == measured))
