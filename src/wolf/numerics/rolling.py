"""Medians and maxima of a window that runs over a series, as `scipy.ndimage` has them.

To import that takes a third of a second, longer than to filter a small file, so short series do without it.
"""

from typing import Literal

import numpy as np

FEW = 2_000_000  # values in all windows together, up to which NumPy takes less time than the import


def running_median(values: np.ndarray, size: int, beyond: Literal["nearest", "reflect"]) -> np.ndarray:
    """Give the median of the `size` values around each.

    Args:
        values: (T,), finite.
        size: odd.
        beyond: what lies beyond the ends: the last value again and again, or the series backwards.

    Example:
        >>> running_median(np.array([1.0, 9.0, 2.0, 3.0]), 3, "nearest").tolist()
        [1.0, 2.0, 3.0, 3.0]
    """
    if values.size * size > FEW:
        from scipy.ndimage import median_filter

        return np.asarray(median_filter(values, size, mode=beyond))
    mode: Literal["edge", "symmetric"] = "edge" if beyond == "nearest" else "symmetric"
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(values, size // 2, mode=mode), size)
    return np.asarray(np.partition(windows, size // 2, axis=1)[:, size // 2])


def running_maximum(values: np.ndarray, size: int) -> np.ndarray:
    """Give the largest of the `size` values around each; of an even number, one more before than after it.

    Example:
        >>> running_maximum(np.array([1.0, 9.0, 2.0, 3.0]), 2).tolist()
        [1.0, 9.0, 9.0, 3.0]
    """
    if values.size * size > FEW:
        from scipy.ndimage import maximum_filter1d

        return np.asarray(maximum_filter1d(values, size))
    ends = (size // 2, size - 1 - size // 2)
    padded = np.pad(values, ends, constant_values=-np.inf)
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, size).max(1))
