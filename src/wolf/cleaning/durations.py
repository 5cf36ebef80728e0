"""Durations as people say them, 2h or 30min or 12 rows, counted in rows."""

import re

UNITS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
WRITTEN = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*([a-z]*)\s*", re.IGNORECASE)


def check(name: str, told: str | float | None, least: int = 0) -> None:
    """Refuse what is no duration, or too few rows.

    Args:
        name: of the option.
        told: such as "2h", or a number of rows.
        least: how many rows it must be, where it is said in rows.
    """
    if told is None:
        return
    number, seconds = _read(name, told)
    if seconds is None and number < least:
        raise ValueError(f"{name} must be at least {least} rows; got {told!r}")


def rows_in(name: str, told: str | float, unit: float, dated: bool) -> float:
    """Count the rows that a duration takes, at least 1.

    Args:
        name: of the option.
        told: such as "2h", or a number of rows.
        unit: the typical step between rows, in seconds if `dated`.
        dated: whether times are those of a clock.

    Example:
        >>> rows_in("patience", "2h", 300.0, True), rows_in("patience", 12, 300.0, True)
        (24.0, 12.0)
    """
    number, seconds = _read(name, told)
    if seconds is None:
        return max(number, 1.0)
    if not dated:
        raise ValueError(f"{name} is said in time, {told!r}, but there is no column of dates: say it in rows, as 12")
    return max(number * seconds / unit, 1.0)


def _read(name: str, told: str | float) -> tuple[float, float | None]:
    if isinstance(told, int | float) and not isinstance(told, bool):
        number, word = float(told), ""
    else:
        found = WRITTEN.fullmatch(told) if isinstance(told, str) else None
        number, word = (float(found[1]), found[2].lower()) if found else (0.0, "")
    if not 0 < number < float("inf") or word not in {"", "rows", *UNITS}:
        raise ValueError(f"{name} must be a duration such as 2h, 30min or 90s, or a number of rows; got {told!r}")
    return number, UNITS.get(word)
