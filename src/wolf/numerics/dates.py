"""Dates of any library as `datetime64` of NumPy."""

from datetime import UTC, datetime

import numpy as np


def date_stamps(times: object) -> np.ndarray | None:
    """Convert dates to an array of `datetime64`, in UTC; None for other times."""
    # Times may be a list or an array of any library: those with a dtype are tried as dates.
    typed = not np.ma.isMaskedArray(times) and getattr(times, "dtype", None) is not None
    stamps = without_zone(np.asarray(times)) if typed or _all_dates(times) else None
    return None if stamps is None or not np.issubdtype(stamps.dtype, np.datetime64) else stamps


def without_zone(dates: np.ndarray) -> np.ndarray:
    """Convert dates with a time zone, as returned by pandas, to UTC; return other values unchanged."""
    first = dates.flat[0] if dates.dtype == object and dates.size else None
    if not isinstance(first, datetime) or first.tzinfo is None:
        return dates
    return np.array([each.astimezone(UTC).replace(tzinfo=None) for each in dates], "datetime64[ns]")


def _all_dates(times: object) -> bool:
    return isinstance(times, list | tuple) and len(times) > 0 and all(isinstance(t, np.datetime64) for t in times)
