"""Rows from the future: a time in another unit, or of a wrong clock, must not make the rows of all other keys late."""

import numpy as np

MAX_AHEAD_SECONDS = 86_400.0  # of the clock, where times are dates or seconds since 1970: a wrong time zone passes
UNIX_TIME_SECONDS = 10 * 365 * 86_400.0  # numbers as close to the clock count as seconds since 1970


def find(
    times: np.ndarray, latest: float, clock: float, dated: bool | None, max_ahead: float | None
) -> np.ndarray | None:
    """Find rows whose time is too far ahead.

    Dates and seconds since 1970 are compared with the clock; other numbers with the newest accepted row before, if a
    limit is given.

    Args:
        times: of the rows in order of arrival, (n,).
        latest: newest time that was accepted; -inf for none.
        clock: time of arrival, in seconds since 1970.
        dated: whether times are dates.
        max_ahead: limit, in the unit of the times; None for a day where the times are compared with the clock.

    Returns:
        Whether each row is too far ahead, (n,); None if none is.
    """
    unix = bool(dated) or abs(latest - clock) < UNIX_TIME_SECONDS
    if unix:
        limit = max(clock, latest) + (MAX_AHEAD_SECONDS if max_ahead is None else max_ahead)
        ahead = times > limit
    elif max_ahead is None:
        return None
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
