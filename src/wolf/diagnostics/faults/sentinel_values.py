"""Sentinel values: codes for a missing reading such as -999, and readings at the limit of a sensor."""

import numpy as np

CODES = (  # that software writes for missing readings
    *(-99.0, -999.0, -9999.0, -99999.0, -99.9, -999.9, -999.99, 99.9, 999.0, 999.9, 9999.0, 99999.0, 999999.0, -888.0),
    *(-32768.0, 32767.0, 65535.0, -2147483648.0, 2147483647.0, -1e30, 1e30, 1e20, 1e36),
)
MIN_CODE_COUNT = 2  # occurrences of a known code; a single one is an outlier
MIN_OTHER_COUNT = 5  # occurrences of another value that count as a code
MIN_QUARTILE_DISTANCES = 5.0  # distance from the quartiles of all other values, in interquartile ranges
MIN_LIMIT_SHARE = 0.01  # share of the readings at a limit
MIN_LIMIT_RATIO = 4.0  # frequency relative to adjacent values
NUM_ADJACENT_VALUES = 5  # number of those
MIN_DISTINCT_VALUES = 20  # distinct values of a series that may have a limit


def codes(values: np.ndarray) -> dict[float, int]:
    """Find values that probably encode a missing reading, with their counts.

    Args:
        values: readings, (T,), NaN where missing.

    Example:
        >>> codes(np.array([20.0, 21.0, -999.0, 20.5, -999.0, 21.5]))
        {-999.0: 2}
    """
    known = values[np.isfinite(values)]
    plain = known[~np.isin(known, CODES)]
    if not plain.size:
        return {}
    low, high = np.quantile(plain, [0.25, 0.75])
    quartile_distance = 2 * (0.5 * high - 0.5 * low)
    with np.errstate(over="ignore"):
        is_far = (known < low - MIN_QUARTILE_DISTANCES * quartile_distance) | (
            known > high + MIN_QUARTILE_DISTANCES * quartile_distance
        )
    present, counts = np.unique(known[is_far], return_counts=True)
    is_code = np.isin(present, CODES) & (counts >= MIN_CODE_COUNT)
    is_frequent = is_code | ((counts >= MIN_OTHER_COUNT) & (quartile_distance > 0))
    others_near = known[~is_far]  # only the outermost of these can be adjacent to a far value
    others = np.concatenate([present[~is_frequent], [others_near.min(), others_near.max()] if others_near.size else []])
    found = {}
    for value, count in zip(present[is_frequent].tolist(), counts[is_frequent].tolist(), strict=True):
        if (
            not others.size or np.abs(others - value).min() > quartile_distance
        ):  # isolated, and not the end of a long tail
            found[value] = count
    return found


def without_codes(values: np.ndarray) -> np.ndarray:
    """Replace known codes for a missing reading by NaN, if they are far from all other values.

    Args:
        values: readings, (T,) or (T, M), NaN where missing.

    Example:
        >>> without_codes(np.array([20.0, 21.0, -999.0, 20.5, -999.0, 21.5]))
        array([20. , 21. ,  nan, 20.5,  nan, 21.5])
    """
    if not np.isin(values, CODES).any():
        return values
    if values.ndim == 2:
        return np.stack([without_codes(column) for column in values.T], axis=1)
    return np.where(np.isin(values, [code for code in codes(values) if code in CODES]), np.nan, values)


def limits(values: np.ndarray) -> dict[float, int]:
    """Find a limit of the sensor: the largest or smallest reading, if it is far more frequent than adjacent values.

    A smallest reading of 0 is normal, for rain or counts, and not reported.

    Args:
        values: readings, (T,), NaN where missing.

    Example:
        >>> rising = np.arange(100.0) / 7
        >>> limits(np.minimum(rising, 10.0))
        {10.0: 30}
    """
    present, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    if len(present) < MIN_DISTINCT_VALUES:
        return {}
    found = {}
    for place, adjacent in ((-1, slice(-1 - NUM_ADJACENT_VALUES, -1)), (0, slice(1, 1 + NUM_ADJACENT_VALUES))):
        is_frequent = counts[place] >= max(MIN_CODE_COUNT + 1, MIN_LIMIT_SHARE * counts.sum())
        if (
            is_frequent
            and counts[place] >= MIN_LIMIT_RATIO * counts[adjacent].mean()
            and (place == -1 or present[0] != 0)
        ):
            found[float(present[place])] = int(counts[place])
    return found
