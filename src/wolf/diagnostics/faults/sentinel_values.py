"""Values that may not be what they seem: codes for "nothing came", and readings at the limit of a sensor."""

import numpy as np

CODES = (  # that programs write where nothing came
    *(-99.0, -999.0, -9999.0, -99999.0, -99.9, -999.9, -999.99, 99.9, 999.0, 999.9, 9999.0, 99999.0, 999999.0, -888.0),
    *(-32768.0, 32767.0, 65535.0, -2147483648.0, 2147483647.0, -1e30, 1e30, 1e20, 1e36),
)
LEAST = 2  # times that a code must stand there; one alone is an outlier
OFTEN = 5  # times that another number must, to be taken for one
FAR = 5.0  # quartile distances beyond the quartiles of all else
SHARE = 0.01  # of the readings that must stand at a limit
STEEP = 4.0  # times as often as the values next to it
NEXT = 5  # of those
DISTINCT = 20  # values that a series must have to have a limit


def codes(values: np.ndarray) -> dict[float, int]:
    """Find numbers that may mean that nothing came, and count them.

    Args:
        values: (T,), NaN where missing.

    Example:
        >>> codes(np.array([20.0, 21.0, -999.0, 20.5, -999.0, 21.5]))
        {-999.0: 2}
    """
    known = values[np.isfinite(values)]
    plain = known[~np.isin(known, CODES)]
    if not plain.size:
        return {}
    low, high = np.quantile(plain, [0.25, 0.75])
    room = 2 * (0.5 * high - 0.5 * low)
    with np.errstate(over="ignore"):
        far = (known < low - FAR * room) | (known > high + FAR * room)
    present, counts = np.unique(known[far], return_counts=True)
    usual = np.isin(present, CODES) & (counts >= LEAST)
    often = usual | ((counts >= OFTEN) & (room > 0))
    near = known[~far]  # of these only the outermost can be next to what is far
    others = np.concatenate([present[~often], [near.min(), near.max()] if near.size else []])
    found = {}
    for value, count in zip(present[often].tolist(), counts[often].tolist(), strict=True):
        if not others.size or np.abs(others - value).min() > room:  # alone, and not the end of a long tail
            found[value] = count
    return found


def without_codes(values: np.ndarray) -> np.ndarray:
    """Blank what programs write where nothing came, if it lies far from all else: no reading, whatever the model.

    Args:
        values: (T,) or (T, M), NaN where missing.

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
    """Find the largest or smallest reading if it comes far more often than those next to it: the sensor's limit.

    A smallest reading of 0 is usual, for rain or counts, and not told.

    Args:
        values: (T,), NaN where missing.

    Example:
        >>> rising = np.arange(100.0) / 7
        >>> limits(np.minimum(rising, 10.0))
        {10.0: 30}
    """
    present, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    if len(present) < DISTINCT:
        return {}
    found = {}
    for place, beside in ((-1, slice(-1 - NEXT, -1)), (0, slice(1, 1 + NEXT))):
        often = counts[place] >= max(LEAST + 1, SHARE * counts.sum())
        if often and counts[place] >= STEEP * counts[beside].mean() and (place == -1 or present[0] != 0):
            found[float(present[place])] = int(counts[place])
    return found
