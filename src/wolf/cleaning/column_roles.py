"""Which column is what: times, readings, and numbers that are no readings, such as row numbers and years."""

import re
from typing import Any, NamedTuple

import numpy as np

from wolf.cleaning import io

TIME_NAMES = (
    *("time", "timestamp", "datetime", "date", "ts", "t", "ds", "time_stamp", "when", "epoch", "unixtime"),
    *("datum", "zeit", "zeitstempel", "fecha", "year"),
)
VALUE_NAMES = ("value", "values", "y", "reading", "measurement", "x")
CALENDAR = {  # whole numbers by these names, between these limits
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
SAMPLE = 1000  # rows that tell what a column holds
FEW = 5  # rows that must be there for a count to be told from readings
WORDS = {  # what is not filtered by itself, and why
    "empty": "holds nothing",
    "constant": "is always the same",
    "count": "rises evenly, as a row number or a time",
    "calendar": "is a part of a date",
    "identifier": "is an identifier",
    "flag": "is only 0 or 1",
}


class Column(NamedTuple):
    """A column and what it seems to hold.

    Attributes:
        name: of it.
        kind: "time", "clock", "text", "reading", "latitude", "longitude", or one of `WORDS`.
        example: its first cell.
    """

    name: str
    kind: str
    example: str


def describe(table: io.Table, decimal: str | None = None) -> list[Column]:
    """Say of each column what it seems to hold."""
    named = table.data.column_names
    return [Column(str(name), _kind(table, name, decimal), _example(table, name)) for name in named]


def _example(table: io.Table, name: str) -> str:
    cell = io.example(table, name)
    if cell or not table.data.num_rows:
        return cell
    try:
        cells = table.data.column(name).slice(0, SAMPLE).to_pylist()
    except (OverflowError, ValueError):  # dates that Python does not know
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
    part = table._replace(data=table.data.slice(0, SAMPLE))
    some = io.number_column(part, name, "missing", decimal).values
    if len(np.unique(some[np.isfinite(some)])) < 2:  # so far: what comes later may differ
        some = io.number_column(table, name, "missing", decimal).values
    return _kind_of_numbers(str(name).strip(), some[np.isfinite(some)])


def _kind_of_numbers(name: str, some: np.ndarray) -> str:
    lowered = name.lower()
    distinct = np.unique(some)
    if len(distinct) < 2:
        return "constant" if len(distinct) else "empty"
    whole = bool(np.all(some == np.round(some)))
    low, high = CALENDAR.get(lowered.replace("_", "").replace(" ", ""), (1, 0))
    if whole and low <= distinct[0] and distinct[-1] <= high:
        return "calendar"
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.diff(some)
        if len(some) >= FEW and steps[0] != 0 and np.ptp(steps) <= 1e-9 * np.abs(some).max():
            return "count"
    if lowered in LATITUDE and np.abs(some).max() <= 90:
        return "latitude"
    if lowered in LONGITUDE and np.abs(some).max() <= 360:
        return "longitude"
    if whole and (IDENTIFIER.fullmatch(lowered) or CAMEL.fullmatch(name)):
        return "identifier"
    return "flag" if set(distinct.tolist()) <= {0.0, 1.0} else "reading"


def find_time(table: io.Table, columns: list[Column], taken: set[Any], notes: list[str]) -> str | None:
    """Look for a usual name, then for a column of dates; say so of a usual name with something else below it."""
    free = [column for column in columns if column.name not in taken]
    usable = {column.name for column in free if column.kind not in ("text", "clock", "empty")}
    for usual in TIME_NAMES:
        for column in free:
            if column.name.strip().lower() == usual and column.name in usable and _rises(table, column):
                return column.name
    found = next((column.name for column in free if column.kind == "time"), None)
    for column in free:
        if column.name.strip().lower() in TIME_NAMES and column.kind == "text" and column.name != found:
            notes.append(
                f"{column.name!r} was not taken for the time: {column.example!r} is no date like 2024-05-01 13:45:00, "
                "nor a number"
            )
    return found


def _rises(table: io.Table, column: Column) -> bool:
    """Say of years whether they can be the time by themselves: each later than the one before."""
    if column.name.strip().lower() != "year" or column.kind == "time":
        return True
    return bool(np.all(np.diff(io.number_column(table, column.name, "missing").values) > 0))


def find_clock(table: io.Table, columns: list[Column], time: str | None, taken: set[Any]) -> str | None:
    """Look for the time of day in a column of its own, beside one of dates."""
    if time is None or not io.is_date_alone(table, time):
        return None
    clocks = [column.name for column in columns if column.kind == "clock" and column.name not in taken]
    return clocks[0] if len(clocks) == 1 else None


def find_parts(columns: list[Column], taken: set[Any]) -> tuple[str, ...]:
    """Look for a date in columns of its own: year and month, and as there are day, hour, minute, second."""
    whole = {c.name.strip().lower(): c.name for c in columns if c.kind in PART_KINDS and c.name not in taken}
    found: list[str] = []
    for usual in PARTS:
        named = [whole[name] for name in usual if name in whole]
        if not named:
            break
        found.append(named[0])
    return tuple(found) if len(found) > 1 else ()


def are_parts(names: tuple[str, ...]) -> bool:
    """Say whether names are those of the parts of a date, the year first."""
    each = zip(names, PARTS, strict=False)
    return 2 <= len(names) <= len(PARTS) and all(name.strip().lower() in usual for name, usual in each)


def find_place(columns: list[Column], values: tuple[str, ...]) -> dict[str, str]:
    """Look for positions on the globe: what is the latitude, the longitude, the altitude, the accuracy.

    Nothing is found where other columns were asked for.
    """
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


def find_value(table: io.Table, columns: list[Column], taken: set[Any], notes: list[str]) -> str:
    """Choose the column to filter: never an identifier, a constant or a part of a date, if there is anything else."""
    free = [column for column in columns if column.name not in taken]
    numbers = [column for column in free if column.kind in ("reading", "latitude", "longitude")]
    named = [c for c in free if c.name.strip().lower() in VALUE_NAMES and c.kind in ("reading", "flag", "count")]
    others = [column for column in free if column.kind in WORDS and column.kind != "empty"]
    if not numbers and not named:
        alone = ("flag", "constant") if len(free) == 1 else ("flag",)  # of a constant the fit says why not
        numbers = [column for column in others if column.kind in alone]
    if not numbers and not named:
        _refuse(table, free)
    chosen = (named or numbers)[0].name
    rest = [repr(column.name) for column in numbers if column.name != chosen]
    if rest:
        notes.append(f"filtered {chosen!r}; other columns of numbers are {', '.join(rest)} (choose with --value)")
    left = [f"{column.name!r}, which {WORDS[column.kind]}" for column in others if column.name != chosen]
    if left and not named:
        notes.append(f"not filtered: {'; '.join(left)}")
    return chosen


def _refuse(table: io.Table, free: list[Column]) -> None:
    """Say that there is nothing to filter, and what there is instead."""
    numbers = [column for column in free if column.kind in WORDS and column.kind != "empty"]
    if numbers:
        told = "; ".join(f"{column.name!r} {WORDS[column.kind]}" for column in numbers)
        raise ValueError(f"{table.name} has no column of readings: {told}. Name one with --value to filter it anyway")
    told = ", ".join(f"{column.name!r}" + (f" (as {column.example!r})" if column.example else "") for column in free)
    raise ValueError(f"{table.name} has no column of numbers besides the time; there are {told or 'none'}")
