"""Steps of whole months: even for the calendar, though not in days."""

from functools import cache

import numpy as np

DAY = 86_400.0
MONTH = 365.2425 / 12 * DAY  # the mean one of the Gregorian calendar, in seconds
CYCLE = 4_800  # months after which its leap years come again
SLACK = 1 / 12  # days by which a stamp may be off, for clocks that are put forward and back
NEXT = np.timedelta64(1, "M")
FIRST = 24  # stamps that tell nearly all months apart at which a series may begin


@cache
def _starts() -> np.ndarray:
    """Days at which months begin, over two cycles."""
    months = np.arange("2000-01", "2800-01", dtype="datetime64[M]")
    return (months.astype("datetime64[D]") - np.datetime64("2000-01-01")).astype(int)


def months_since_first(times: np.ndarray) -> np.ndarray | None:
    """Count the months from the first stamp to each; None if they do not keep to the calendar.

    They do if each stands at the same place of its month, counted from the beginning or from the end.

    Args:
        times: (T,), in seconds, sorted.

    Example:
        >>> days = np.array(["2024-01-31", "2024-02-29", "2024-03-31", "2024-05-31"], "datetime64[s]").astype(float)
        >>> months_since_first(days).tolist(), months_since_first(86400.0 * np.array([0.0, 30.0, 60.0, 90.0]))
        ([0, 1, 2, 4], None)
    """
    exact, starts = (times - times[0]) / DAY, _starts()
    # Another count of days in each step than the shortest month has, or more than a cycle: no months.
    if len(times) < 3 or np.diff(exact).min() < 28 - SLACK or not exact[-1] < starts[CYCLE] - 1:
        return None
    days = np.rint(exact).astype(int)
    if np.abs(exact - days).max() > SLACK:
        return None
    begins = np.zeros(starts[-1] + 1, bool)
    begins[starts] = True
    possible = np.flatnonzero(begins[starts[:CYCLE, None] + days[:FIRST]].all(1))
    for first in possible:
        if begins[starts[first] + days].all():
            return np.asarray(np.searchsorted(starts, starts[first] + days) - first)
    return None


def add_months(time: float, months: int, steps: int) -> np.ndarray:
    """List the stamps that come each so many months after a stamp; one on the last day of a month stays there.

    Args:
        time: in seconds since 1970.
        months: in a step.
        steps: how many.

    Example:
        >>> last = np.datetime64("2023-12-31T06:00").astype("datetime64[s]").astype(float)
        >>> add_months(last, 1, 2).astype("datetime64[s]").astype(str).tolist()
        ['2024-01-31T06:00:00', '2024-02-29T06:00:00']
    """
    stamp = np.datetime64(0, "us") + np.timedelta64(round(1e6 * time), "us")
    month, day = stamp.astype("datetime64[M]"), stamp.astype("datetime64[D]")
    onward = month + (months * np.arange(1, steps + 1)).astype("timedelta64[M]")
    within = (day - month.astype("datetime64[D]")).astype(int)
    lengths = ((onward + NEXT).astype("datetime64[D]") - onward.astype("datetime64[D]")).astype(int)
    last = (month + NEXT).astype("datetime64[D]") - day == np.timedelta64(1, "D")
    place = lengths - 1 if last else np.minimum(within, lengths - 1)
    found = (onward.astype("datetime64[D]") + place.astype("timedelta64[D]")).astype("datetime64[us]") + (stamp - day)
    return np.asarray(found.astype("datetime64[us]").astype(np.int64) / 1e6)
