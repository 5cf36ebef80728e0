"""Rows from the future: a time in another unit, or of a wrong clock, must not make the rows of all other keys late."""

import numpy as np

MAX_AHEAD_SECONDS = 86_400.0  # of the clock, where times are dates or seconds since 1970: a wrong time zone passes
UNIX_TIME_SECONDS = 10 * 365 * 86_400.0  # numbers as close to the clock count as seconds since 1970


UNITS_PER_SECOND = (1e3, 1e6, 1e9)  # milli-, micro- and nanoseconds since 1970


def _since_1970(times: np.ndarray | float, unit: float, clock: float) -> np.ndarray:
    """Return whether times are near the clock if they count in a unit of which there are so many in a second."""
    return np.abs(np.asarray(times) / unit - clock) < min(UNIX_TIME_SECONDS, clock / 2)


def is_unix_time(time: float, clock: float, dated: bool | None) -> bool:
    """Return whether a time is a date or counts seconds since 1970.

    Args:
        time: of a row.
        clock: time of its arrival, in seconds since 1970.
        dated: whether times are dates.
    """
    return bool(dated) or bool(abs(time - clock) < UNIX_TIME_SECONDS)


def first_in_seconds(times: np.ndarray, latest: float, clock: float) -> int | None:
    """Find the first row in seconds since 1970 after rows in a smaller unit, which were a mistake.

    If the first rows of a stream came from a sensor that counts milliseconds, the rows of all others would be late.

    Args:
        times: of the rows in order of arrival, (n,).
        latest: newest time that was accepted; -inf for none.
        clock: time of arrival, in seconds since 1970.

    Returns:
        Its position; None if there is none, or if the newest time is not in a smaller unit.
    """
    if not any(_since_1970(latest, unit, clock) for unit in UNITS_PER_SECOND):
        return None
    seconds = np.flatnonzero(_since_1970(times, 1.0, clock))
    return int(seconds[0]) if len(seconds) else None


def find(
    times: np.ndarray, latest: float, clock: float, dated: bool | None, max_ahead: float | None
) -> np.ndarray | None:
    """Find rows whose time is too far ahead.

    Dates and seconds since 1970 are compared with the clock. Other numbers are compared with the newest accepted row
    before, if a limit is given; without one a number is too far ahead if it is a time since 1970 in any unit, and the
    rows before it are not.

    Args:
        times: of the rows in order of arrival, (n,).
        latest: newest time that was accepted; -inf for none.
        clock: time of arrival, in seconds since 1970.
        dated: whether times are dates.
        max_ahead: limit, in the unit of the times; None for a day where the times are compared with the clock.

    Returns:
        Whether each row is too far ahead, (n,); None if none is.
    """
    if is_unix_time(latest, clock, dated):
        limit = max(clock, latest) + (MAX_AHEAD_SECONDS if max_ahead is None else max_ahead)
        ahead = times > limit
    elif max_ahead is None:
        units = (1.0, *UNITS_PER_SECOND)
        if latest == -np.inf or any(_since_1970(latest, unit, clock) for unit in units):
            return None
        ahead = (times > latest) & np.any([_since_1970(times, unit, clock) for unit in units], axis=0)
    else:
        ahead = _ahead_of_rows(times, latest, max_ahead)
    return ahead if ahead.any() else None


def _ahead_of_rows(times: np.ndarray, latest: float, max_ahead: float) -> np.ndarray:
    """Compare each row with the newest accepted row before it."""
    newest = np.maximum.accumulate(np.r_[latest, times])[:-1]
    ahead = (times > newest + max_ahead) & np.isfinite(newest)
    if not ahead.any():
        return ahead
    for i, time in enumerate(times.tolist()):  # what is refused does not count as newest
        ahead[i] = latest > -np.inf and time > latest + max_ahead
        latest = latest if ahead[i] else max(latest, time)
    return ahead
