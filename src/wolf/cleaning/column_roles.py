"""Inference of column roles: times, measurements, and numbers that are no measurements, such as row numbers."""

import re
from typing import NamedTuple, NoReturn

import numpy as np

from wolf.cleaning import io

TIME_NAMES = (
    *("time", "timestamp", "datetime", "date", "ts", "t", "ds", "time_stamp", "when", "epoch", "unixtime"),
    *("datum", "zeit", "zeitstempel", "fecha", "year"),
)
VALUE_NAMES = ("value", "values", "y", "reading", "measurement", "x")
CALENDAR = {  # columns of integers with these names, and the range of their values
    **{"year": (1000, 3000), "jahr": (1000, 3000), "month": (1, 12), "monat": (1, 12), "quarter": (1, 4)},
    **{"day": (1, 366), "tag": (1, 366), "doy": (1, 366), "dayofyear": (1, 366), "week": (1, 53), "weekday": (0, 7)},
    **{"dayofweek": (0, 7), "hour": (0, 24), "stunde": (0, 24), "minute": (0, 60), "second": (0, 60)},
}
PARTS = (("year", "jahr"), ("month", "monat"), ("day", "tag"), ("hour", "stunde"), ("minute",), ("second", "sekunde"))
IDENTIFIER = re.compile(r"(?:.*[_\s.-])?(id|ids|idx|index|nr|num|number|row|key|serial|code|zip|plz|uid|pk)|unnamed: 0")
CAMEL = re.compile(r".*[a-z](Id|ID|Index|Nr)")
LATITUDE = ("lat", "latitude", "breite", "position_lat", "gps_lat", "y_lat")
LONGITUDE = ("lon", "lng", "long", "longitude", "laenge", "länge", "position_long", "gps_lon", "gps_lng", "x_lon")
ALTITUDE = ("altitude", "alt", "ele", "elevation", "height", "hoehe", "höhe")
ACCURACY = ("accuracy", "horizontal_accuracy", "horizontalaccuracy", "hacc", "h_acc", "hdop", "pdop", "epe", "sigma")
PART_KINDS = ("calendar", "constant", "count")  # of a part of a date; all rows may be of one year
SAMPLE_ROWS = 1000  # from which the kind of a column is inferred
MIN_COUNT_ROWS = 5  # for an evenly rising column to be a count and not measurements
NOT_FILTERED = {  # kinds of columns that are not filtered unless named, and why
    "empty": "is empty",
    "constant": "is constant",
    "count": "rises evenly, as a row number or a time",
    "calendar": "is a part of a date",
    "identifier": "is an identifier",
    "flag": "is only 0 or 1",
}


class Column(NamedTuple):
    """A column and its inferred kind.

    Attributes:
        name: of the column.
        kind: "time", "clock", "text", "reading", "latitude", "longitude", or one of `NOT_FILTERED`.
        example: its first cell.
    """

    name: str
    kind: str
    example: str


def describe(table: io.Table, decimal: str | None = None) -> list[Column]:
    """Infer the kind of each column."""
    named = table.data.column_names
    return [Column(str(name), _kind(table, name, decimal), _example(table, name)) for name in named]


def _example(table: io.Table, name: str) -> str:
    cell = io.example(table, name)
    if cell or not table.data.num_rows:
        return cell
    try:
        cells = table.data.column(name).slice(0, SAMPLE_ROWS).to_pylist()
    except (OverflowError, ValueError):  # dates outside the range of Python's datetime
        return ""
    return next((str(cell) for cell in cells if cell is not None), "")


def _kind(table: io.Table, name: str, decimal: str | None) -> str:
    column = table.data.column(name)
    if column.null_count == len(column):
        return "empty"
    if io.is_time(table, name):
        return "time"
    if io.is_clock(table, name):
        return "clock"
    if not io.is_number(table, name, decimal):
        return "text" if _example(table, name) else "empty"
    part = table._replace(data=table.data.slice(0, SAMPLE_ROWS))
    values = io.number_column(part, name, "missing", decimal).values
    if len(np.unique(values[np.isfinite(values)])) < 2:  # in the sample; later rows may differ
        values = io.number_column(table, name, "missing", decimal).values
    return _kind_of_numbers(str(name).strip(), values[np.isfinite(values)])


def _kind_of_numbers(name: str, values: np.ndarray) -> str:
    lowered = name.lower()
    distinct = np.unique(values)
    if len(distinct) < 2:
        return "constant" if len(distinct) else "empty"
    whole = bool(np.all(values == np.round(values)))
    low, high = CALENDAR.get(lowered.replace("_", "").replace(" ", ""), (1, 0))
    if whole and low <= distinct[0] and distinct[-1] <= high:
        return "calendar"
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.diff(values)
        if len(values) >= MIN_COUNT_ROWS and steps[0] != 0 and np.ptp(steps) <= 1e-9 * np.abs(values).max():
            return "count"
    if lowered in LATITUDE and np.abs(values).max() <= 90:
        return "latitude"
    if lowered in LONGITUDE and np.abs(values).max() <= 360:
        return "longitude"
    if whole and (IDENTIFIER.fullmatch(lowered) or CAMEL.fullmatch(name)):
        return "identifier"
    return "flag" if set(distinct.tolist()) <= {0.0, 1.0} else "reading"


def find_time(table: io.Table, columns: list[Column], taken: set[str | None], notes: list[str]) -> str | None:
    """Find the time column: a usual name, else a column of dates; note a usual name with other contents."""
    free = [column for column in columns if column.name not in taken]
    usable = {column.name for column in free if column.kind not in ("text", "clock", "empty")}
    for usual in TIME_NAMES:
        for column in free:
            if column.name.strip().lower() == usual and column.name in usable and _is_increasing(table, column):
                return column.name
    found = next((column.name for column in free if column.kind == "time"), None)
    for column in free:
        if column.name.strip().lower() in TIME_NAMES and column.kind == "text" and column.name != found:
            notes.append(
                f"{column.name!r} is not used as time: {column.example!r} is neither a date such as "
                "2024-05-01 13:45:00 nor a number"
            )
    return found


def _is_increasing(table: io.Table, column: Column) -> bool:
    """Check that a column of years is increasing, so that it can be the time column by itself."""
    if column.name.strip().lower() != "year" or column.kind == "time":
        return True
    return bool(np.all(np.diff(io.number_column(table, column.name, "missing").values) > 0))


def find_clock(table: io.Table, columns: list[Column], time: str | None, taken: set[str | None]) -> str | None:
    """Find a column of times of day, next to a column of dates."""
    if time is None or not io.is_date_alone(table, time):
        return None
    clocks = [column.name for column in columns if column.kind == "clock" and column.name not in taken]
    return clocks[0] if len(clocks) == 1 else None


def find_parts(columns: list[Column], taken: set[str | None]) -> tuple[str, ...]:
    """Find the columns of a date in parts: year, month, and optionally day, hour, minute, second."""
    whole = {c.name.strip().lower(): c.name for c in columns if c.kind in PART_KINDS and c.name not in taken}
    found: list[str] = []
    for usual in PARTS:
        named = [whole[name] for name in usual if name in whole]
        if not named:
            break
        found.append(named[0])
    return tuple(found) if len(found) > 1 else ()


def are_parts(names: tuple[str, ...]) -> bool:
    """Check whether names are those of the parts of a date, the year first."""
    each = zip(names, PARTS, strict=False)
    return 2 <= len(names) <= len(PARTS) and all(name.strip().lower() in usual for name, usual in each)


def find_place(columns: list[Column], values: tuple[str, ...]) -> dict[str, str]:
    """Find the columns of positions: latitude, longitude, altitude, accuracy; none if other values are requested."""
    named: dict[str, str] = {
        kind: column.name for column in columns for kind in ("latitude", "longitude") if column.kind == kind
    }
    if len(named) < 2 or (values and set(values) != set(named.values())):
        return {}
    for kind, usual in (("altitude", ALTITUDE), ("accuracy", ACCURACY)):
        known = [column.name for name in usual for column in columns if column.name.strip().lower() == name]
        fitting = [c.name for c in columns if c.name in known and c.kind in ("reading", "constant", "count")]
        named |= {kind: fitting[0]} if fitting else {}
    return named


def find_value(table: io.Table, columns: list[Column], taken: set[str | None], notes: list[str]) -> str:
    """Select the column to filter; identifiers, constants and parts of dates only if there is nothing else."""
    free = [column for column in columns if column.name not in taken]
    numbers = [column for column in free if column.kind in ("reading", "latitude", "longitude")]
    named = [c for c in free if c.name.strip().lower() in VALUE_NAMES and c.kind in ("reading", "flag", "count")]
    others = [column for column in free if column.kind in NOT_FILTERED and column.kind != "empty"]
    if not numbers and not named:
        alone = ("flag", "constant") if len(free) == 1 else ("flag",)  # for a constant the fit raises the error
        numbers = [column for column in others if column.kind in alone]
    if not numbers and not named:
        _raise_no_values(table, free)
    chosen = (named or numbers)[0].name
    rest = [repr(column.name) for column in numbers if column.name != chosen]
    if rest:
        notes.append(f"filtered {chosen!r}; other columns of numbers are {', '.join(rest)} (select with --value)")
    left = [f"{column.name!r}, which {NOT_FILTERED[column.kind]}" for column in others if column.name != chosen]
    if left and not named:
        notes.append(f"not filtered: {'; '.join(left)}")
    return chosen


def _raise_no_values(table: io.Table, free: list[Column]) -> NoReturn:
    """Raise an error that lists the columns instead of measurements."""
    numbers = [column for column in free if column.kind in NOT_FILTERED and column.kind != "empty"]
    if numbers:
        described = "; ".join(f"{column.name!r} {NOT_FILTERED[column.kind]}" for column in numbers)
        raise ValueError(
            f"{table.name} has no column of measurements: {described}. Name one with --value to filter it anyway"
        )
    described = ", ".join(
        f"{column.name!r}" + (f" (as {column.example!r})" if column.example else "") for column in free
    )
    raise ValueError(f"{table.name} has no column of numbers besides the time; its columns are {described or 'none'}")
