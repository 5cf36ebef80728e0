"""Dates of any library as `datetime64` of NumPy."""

from collections.abc import Iterable
from datetime import UTC, date, datetime

import numpy as np

NANOSECOND_YEARS = range(1678, 2262)  # whose times fit 64 bits as nanoseconds since 1970


def date_stamps(times: object) -> np.ndarray | None:
    """Convert dates to an array of `datetime64`, in UTC; None for other times.

    Args:
        times: a list of dates of Python, pandas or NumPy, or an array of any library.

    Example:
        >>> date_stamps([datetime(2026, 1, 1, 12), datetime(2026, 1, 2)])
        array(['2026-01-01T12:00:00.000000', '2026-01-02T00:00:00.000000'],
              dtype='datetime64[us]')
        >>> date_stamps([1.0, 2.0])
    """
    # Times may be a list or an array of any library: those with a dtype are tried as dates.
    typed = not np.ma.isMaskedArray(times) and getattr(times, "dtype", None) is not None
    if not typed and not (isinstance(times, list | tuple) and _are_dates(times)):
        return None
    stamps = without_zone(np.asarray(times))
    if stamps.dtype == object and _are_dates(stamps.flat):
        stamps = np.array([_without_nat(each) for each in stamps.flat], "datetime64[us]").reshape(stamps.shape)
    return stamps if np.issubdtype(stamps.dtype, np.datetime64) else None


def without_zone(dates: np.ndarray) -> np.ndarray:
    """Convert dates with a time zone, as returned by pandas, to UTC; return other values unchanged."""
    if dates.dtype != object or not _are_dates(dates.flat) or _zones(dates.flat) != {True}:
        return dates
    known = [_without_nat(each) for each in dates.flat]
    utc = [each.astimezone(UTC).replace(tzinfo=None) if isinstance(each, datetime) else each for each in known]
    fine = all(each.year in NANOSECOND_YEARS for each in utc if isinstance(each, datetime))
    return np.array(utc, "datetime64[ns]" if fine else "datetime64[us]").reshape(dates.shape)


def _are_dates(values: Iterable[object]) -> bool:
    """Return whether all values are dates, with time zones or without."""
    listed = list(values)
    dates = bool(listed) and all(isinstance(each, np.datetime64 | date) for each in listed)
    return dates and len(_zones(listed)) <= 1


def _zones(values: Iterable[object]) -> set[bool]:
    """Return whether dates have a time zone; both if some have; neither if all are NaT."""
    known = (each for each in values if isinstance(each, date) and each == each)
    return {isinstance(each, datetime) and each.tzinfo is not None for each in known}


def _without_nat(value: object) -> object:
    """Replace the NaT of pandas by that of NumPy."""
    return value if value == value else np.datetime64("NaT")
