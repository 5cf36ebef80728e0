"""Dates with year, month, day and so on in separate columns."""

from datetime import UTC, datetime, timedelta

import numpy as np

from wolf.cleaning.io.table import Table
from wolf.cleaning.io.time_axis import TimeAxis, in_zone
from wolf.cleaning.io.typed_columns import number_column, where

UNITS = ("year", "month", "day", "hour", "minute", "second")
UNIT_SECONDS = (86_400, 3_600, 60, 1)  # of a day, an hour, a minute, a second
YEAR_RANGE = (1678, 2261)  # of datetime64[ns]


def parts_axis(
    table: Table, names: tuple[str, ...], zone: str | None = None, groups: np.ndarray | None = None
) -> TimeAxis:
    """Combine the parts of dates to a time axis.

    Args:
        table: as read.
        names: of the columns with year, month, and optionally day, hour, minute, second.
        zone: time zone of the dates, such as Europe/Berlin.
        groups: series number of each row.
    """
    columns = [number_column(table, name, "missing").values for name in names]
    known = np.isfinite(columns).all(0)
    parts = [np.where(known, column, first) for column, first in zip(columns, (1970, 1, 1, 0, 0, 0), strict=False)]
    bad = known & _invalid_rows(parts)
    if bad.any():
        row = int(np.argmax(bad))
        listed = ", ".join(f"{name} {column[row]:g}" for name, column in zip(names, columns, strict=True))
        raise ValueError(f"{table.name}, {where(table, row)}: there is no such date: {listed}")
    if not known.any():
        raise ValueError(f"there is no date in the columns {', '.join(map(repr, names))}")
    moments = _microseconds(parts)
    origin = int(moments[np.argmax(known)])
    axis = TimeAxis(np.where(known, (moments - origin) / 1e6, np.nan), 1000 * origin)
    return axis if zone is None else in_zone(axis, zone, groups)


def _invalid_rows(parts: list[np.ndarray]) -> np.ndarray:
    """Find rows with invalid dates, such as 31 February."""
    year, month = parts[:2]
    bad = (
        (year < YEAR_RANGE[0])
        | (year > YEAR_RANGE[1])
        | (month < 1)
        | (month > 12)
        | (month % 1 != 0)
        | (year % 1 != 0)
    )
    if len(parts) > 2:
        first = _months(np.where(bad, 1970, year), np.where(bad, 1, month))
        length = (first + np.timedelta64(1, "M")).astype("datetime64[D]") - first.astype("datetime64[D]")
        bad |= (parts[2] < 1) | (parts[2] >= length.astype(int) + 1)
    for part, most in zip(parts[3:], (24, 59, 60), strict=False):
        bad |= (part < 0) | (part > most)
    return np.asarray(bad)


def _months(year: np.ndarray, month: np.ndarray) -> np.ndarray:
    return ((year - 1970) * 12 + month - 1).astype(int).astype("datetime64[M]")


def _microseconds(parts: list[np.ndarray]) -> np.ndarray:
    moments = _months(*parts[:2]).astype("datetime64[us]").astype(np.int64)
    for unit, part in enumerate(parts[2:]):
        since = part - 1 if unit == 0 else part  # days start at 1
        moments = moments + np.round(since * UNIT_SECONDS[unit] * 1e6).astype(np.int64)
    return np.asarray(moments)


def write_parts(axis: TimeAxis, stamps: np.ndarray, names: tuple[str, ...]) -> dict[str, list[float]]:
    """Split times into their parts, a column for each name."""
    from zoneinfo import ZoneInfo

    moments = []
    for stamp in stamps.tolist():
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
            microseconds=(axis.origin or 0) // 1000 + round(stamp * 1e6)
        )
        moments.append(moment.astimezone(ZoneInfo(axis.zone)) if axis.zone else moment)
    return {name: [getattr(each, unit) for each in moments] for name, unit in zip(names, UNITS, strict=False)}
