"""Time steps of whole months: regular in the calendar, irregular in days."""

from functools import cache

import numpy as np

DAY = 86_400.0
MONTH = 365.2425 / 12 * DAY  # mean month of the Gregorian calendar, in seconds
MONTHS_PER_CYCLE = 4_800  # months after which the leap years repeat
TOLERANCE_DAYS = 1 / 12  # days by which a stamp may deviate, for daylight saving time
ONE_MONTH = np.timedelta64(1, "M")
NUM_IDENTIFYING_STAMPS = 24  # stamps that identify nearly every month in which a series may begin


@cache
def _starts() -> np.ndarray:
    """Compute the days on which months begin, over two leap-year cycles."""
    months = np.arange("2000-01", "2800-01", dtype="datetime64[M]")
    return (months.astype("datetime64[D]") - np.datetime64("2000-01-01")).astype(int)


def months_since_first(times: np.ndarray) -> np.ndarray | None:
    """Count the months from the first time stamp to each; None if the stamps are not monthly.

    Stamps are monthly if each is at the same position in its month, counted from the beginning or from the end.

    Args:
        times: (T,), in seconds, sorted.

    Example:
        >>> days = np.array(["2024-01-31", "2024-02-29", "2024-03-31", "2024-05-31"], "datetime64[s]").astype(float)
        >>> months_since_first(days).tolist(), months_since_first(86400.0 * np.array([0.0, 30.0, 60.0, 90.0]))
        ([0, 1, 2, 4], None)
    """
    exact, starts = (times - times[0]) / DAY, _starts()
    # Steps shorter than the shortest month, or a series longer than a cycle, are not monthly.
    if len(times) < 3 or np.diff(exact).min() < 28 - TOLERANCE_DAYS or not exact[-1] < starts[MONTHS_PER_CYCLE] - 1:
        return None
    days = np.rint(exact).astype(int)
    if np.abs(exact - days).max() > TOLERANCE_DAYS:
        return None
    begins = np.zeros(starts[-1] + 1, bool)
    begins[starts] = True
    possible = np.flatnonzero(begins[starts[:MONTHS_PER_CYCLE, None] + days[:NUM_IDENTIFYING_STAMPS]].all(1))
    for first in possible:
        if begins[starts[first] + days].all():
            return np.asarray(np.searchsorted(starts, starts[first] + days) - first)
    return None


def add_months(time: float, months: int, steps: int) -> np.ndarray:
    """List the time stamps that follow a stamp in steps of whole months; the last day of a month stays the last.

    Args:
        time: in seconds since 1970.
        months: number of months in a step.
        steps: number of stamps.

    Example:
        >>> last = np.datetime64("2023-12-31T06:00").astype("datetime64[s]").astype(float)
        >>> add_months(last, 1, 2).astype("datetime64[s]").astype(str).tolist()
        ['2024-01-31T06:00:00', '2024-02-29T06:00:00']
    """
    stamp = np.datetime64(0, "us") + np.timedelta64(round(1e6 * time), "us")
    month, day = stamp.astype("datetime64[M]"), stamp.astype("datetime64[D]")
    onward = month + (months * np.arange(1, steps + 1)).astype("timedelta64[M]")
    within = (day - month.astype("datetime64[D]")).astype(int)
    lengths = ((onward + ONE_MONTH).astype("datetime64[D]") - onward.astype("datetime64[D]")).astype(int)
    last = (month + ONE_MONTH).astype("datetime64[D]") - day == np.timedelta64(1, "D")
    place = lengths - 1 if last else np.minimum(within, lengths - 1)
    found = (onward.astype("datetime64[D]") + place.astype("timedelta64[D]")).astype("datetime64[us]") + (stamp - day)
    return np.asarray(found.astype("datetime64[us]").astype(np.int64) / 1e6)
