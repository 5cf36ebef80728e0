"""Durations written as 2h, 30min or 12 rows, converted to rows."""

import re

UNITS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
PATTERN = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*([a-z]*)\s*", re.IGNORECASE)


def check(name: str, duration: str | float | None, min_rows: int = 0) -> None:
    """Raise an error for a value that is no duration, or for too few rows.

    Args:
        name: of the option.
        duration: such as "2h", or a number of rows.
        min_rows: smallest number of rows; not applied to a duration in time.
    """
    if duration is None:
        return
    number, seconds = _parse(name, duration)
    if seconds is None and number < min_rows:
        raise ValueError(f"{name} must be at least {min_rows} rows; got {duration!r}")


def rows_in(name: str, duration: str | float, unit: float, dated: bool) -> float:
    """Convert a duration to a number of rows, at least 1.

    Args:
        name: of the option.
        duration: such as "2h", or a number of rows.
        unit: typical step between rows, in seconds if `dated`.
        dated: whether times are those of a clock.

    Example:
        >>> rows_in("patience", "2h", 300.0, True), rows_in("patience", 12, 300.0, True)
        (24.0, 12.0)
    """
    return max(steps_in(name, duration, unit, dated), 1.0)


def steps_in(name: str, duration: str | float, unit: float, dated: bool) -> float:
    """Convert a duration to typical steps, which may be less than one; arguments as in `rows_in`."""
    number, seconds = _parse(name, duration)
    if seconds is None:
        return number
    if not dated:
        raise ValueError(f"{name} is {duration!r}, but there is no column of dates: give a number of rows, such as 12")
    return number * seconds / unit


def is_rows(name: str, duration: str | float) -> bool:
    """Return whether a duration is a number of rows."""
    return _parse(name, duration)[1] is None


def _parse(name: str, duration: str | float) -> tuple[float, float | None]:
    if isinstance(duration, int | float) and not isinstance(duration, bool):
        number, word = float(duration), ""
    else:
        found = PATTERN.fullmatch(duration) if isinstance(duration, str) else None
        number, word = (float(found[1]), found[2].lower()) if found else (0.0, "")
    if not 0 < number < float("inf") or word not in {"", "rows", *UNITS}:
        raise ValueError(f"{name} must be a duration such as 2h, 30min or 90s, or a number of rows; got {duration!r}")
    return number, UNITS.get(word)
