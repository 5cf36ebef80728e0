"""Interpolated readings: series in which only every k-th reading was measured, and the others are on straight lines.

Interpolated readings carry no information. Their second difference y(t-1) - 2 y(t) + y(t+1) is 0 up to rounding, while
that of a measured reading is as large as the series and its noise make it.
"""

import numpy as np

MAX_INTERVAL = 12  # largest interval between measured readings
MAX_RELATIVE_BEND = 0.1  # second differences of interpolated readings, relative to those of measured ones
MIN_CONSISTENT_SHARE = (
    0.85  # share of the rows that must have the expected second difference; faults are among the rest
)
MIN_MEASURED = 20  # measured readings that are needed


def every_of(values: np.ndarray) -> int:
    """Return k if only every k-th reading was measured and the others are linearly interpolated; 1 otherwise.

    Args:
        values: series, (T,), NaN where missing, on a regular time grid.

    Example:
        >>> measured, hours = np.random.default_rng(0).normal(size=100), np.arange(298)
        >>> every_of(np.interp(hours, hours[::3], measured)), every_of(measured)
        (3, 1)
    """
    second_differences = np.abs(np.diff(values, 2))
    known = np.flatnonzero(np.isfinite(second_differences))
    best, best_share = 1, MIN_CONSISTENT_SHARE
    for every in range(2, min(MAX_INTERVAL, len(known) // MIN_MEASURED) + 1):
        phase, sizes = known % every, second_differences[known]
        for offset in range(every):
            share = _consistent_share(sizes, phase == offset)
            if share > best_share:
                best, best_share = every, share
    return best


def _consistent_share(second_differences: np.ndarray, measured: np.ndarray) -> float:
    """Compute the share of rows that bend where they were measured, and are straight elsewhere."""
    typical = float(np.median(second_differences[measured])) if measured.any() else 0.0
    if not typical > 0.0:
        return 0.0
    return float(np.mean((second_differences > MAX_RELATIVE_BEND * typical) == measured))
