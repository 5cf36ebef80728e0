"""Running medians and maxima, equal to those of `scipy.ndimage`.

Importing that takes a third of a second, longer than filtering a small file, so short series are handled by NumPy.
"""

from typing import Literal

import numpy as np

MAX_VALUES_FOR_NUMPY = 2_000_000  # values in all windows together up to which NumPy is faster than the import


def running_median(values: np.ndarray, size: int, beyond: Literal["nearest", "reflect"]) -> np.ndarray:
    """Compute the median of the `size` values around each value.

    Args:
        values: (T,), finite.
        size: odd.
        beyond: boundary condition: the last value repeated ("nearest") or the series reflected ("reflect").

    Example:
        >>> running_median(np.array([1.0, 9.0, 2.0, 3.0]), 3, "nearest").tolist()
        [1.0, 2.0, 3.0, 3.0]
    """
    if values.size * size > MAX_VALUES_FOR_NUMPY:
        from scipy.ndimage import median_filter

        return np.asarray(median_filter(values, size, mode=beyond))
    mode: Literal["edge", "symmetric"] = "edge" if beyond == "nearest" else "symmetric"
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(values, size // 2, mode=mode), size)
    return np.asarray(np.partition(windows, size // 2, axis=1)[:, size // 2])


def running_maximum(values: np.ndarray, size: int) -> np.ndarray:
    """Compute the maximum of the `size` values around each; an even window has one value more before than after.

    Example:
        >>> running_maximum(np.array([1.0, 9.0, 2.0, 3.0]), 2).tolist()
        [1.0, 9.0, 9.0, 3.0]
    """
    if values.size * size > MAX_VALUES_FOR_NUMPY:
        from scipy.ndimage import maximum_filter1d

        return np.asarray(maximum_filter1d(values, size))
    ends = (size // 2, size - 1 - size // 2)
    padded = np.pad(values, ends, constant_values=-np.inf)
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, size).max(1))
