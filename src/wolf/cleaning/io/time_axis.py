"""Columns as times: numbers, dates in ISO 8601 or as people write them, a date and a time of day in two columns."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np

from wolf.cleaning.io import date_formats as dates
from wolf.cleaning.io import number_formats
from wolf.cleaning.io.arrow_numpy import nulls, numbers
from wolf.cleaning.io.date_formats import Shape
from wolf.cleaning.io.number_formats import ABSENT, MOSTLY, is_absent, only
from wolf.cleaning.io.table import Table, pyarrow
from wolf.cleaning.io.typed_columns import SAMPLE, column_of, is_number, is_numeric, is_text, where

DATE = r"^\d{4}-\d{2}-\d{2}"  # how a date begins
ZONES = (None, "UTC")  # dates without a time zone, and with one
HOUR = 3600.0  # seconds that clocks are put back by


class TimeAxis(NamedTuple):
    """Time stamps as numbers.

    Attributes:
        stamps: (rows,), in the file's own unit, or seconds since `origin` for dates; NaN where there is none.
        origin: nanoseconds since 1970 of the first date; None for numbers.
        zoned: whether the dates have a time zone; they are then in UTC.
        template: first cell as written, whose style new dates follow.
        again: for `strftime`, of dates that are not in ISO 8601.
        zone: in which the file's dates are, if that was said.
    """

    stamps: np.ndarray
    origin: int | None
    zoned: bool = False
    template: str = ""
    again: str = ""
    zone: str | None = None

    def write(self, stamps: np.ndarray) -> list[str]:
        """Write times as the file writes them."""
        if self.origin is None:
            return [f"{stamp:.12g}" for stamp in stamps]
        if self.again or self.zone:
            return [self._write_one(stamp) for stamp in stamps]
        dates = np.datetime64(self.origin, "ns") + np.round(stamps * 1e9).astype("timedelta64[ns]")
        whole = bool(np.all(dates == dates.astype("datetime64[s]")))
        only_days = len(self.template) == len("2000-01-01") and bool(np.all(dates == dates.astype("datetime64[D]")))
        unit = "D" if only_days else "s" if whole else "us"
        written = np.datetime_as_string(dates.astype(f"datetime64[{unit}]"))
        joined = [str(cell) if "T" in self.template else str(cell).replace("T", " ") for cell in written]
        return [cell + ("Z" if self.zoned else "") for cell in joined]

    def _write_one(self, stamp: float) -> str:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
            microseconds=round((self.origin or 0) / 1e3 + stamp * 1e6)
        )
        if self.zone:
            from zoneinfo import ZoneInfo

            moment = moment.astimezone(ZoneInfo(self.zone))
        usual = "%Y-%m-%dT%H:%M:%S" if "T" in self.template else "%Y-%m-%d %H:%M:%S"
        return moment.strftime(self.again or usual)


def time_column(
    table: Table,
    name: str,
    clock: str | None = None,
    *,
    day_first: bool | None = None,
    zone: str | None = None,
    groups: np.ndarray | None = None,
) -> TimeAxis:
    """Read a column as times: numbers, or dates.

    Args:
        table: as read.
        name: of the column.
        clock: column with the time of day, if it stands in its own.
        day_first: of dates such as 01/02/2024, whether the day comes first; None to find out.
        zone: in which dates without one are, as Europe/Berlin.
        groups: number of the series of each row, whose clocks are put back one by one.
    """
    column = column_of(table, name)
    if clock is not None:
        column = _joined(column, column_of(table, clock))
    if is_text(column):
        axis = _text_axis(table, name, column, day_first)
    elif is_numeric(column):
        axis = TimeAxis(numbers(column, "float64", np.nan), None)
        shape = _compact(column)
        if shape is not None:
            axis = _shaped(table, name, column.cast(pyarrow().int64()).cast(pyarrow().string()), shape)
    else:
        stamps = _as_stamps(column)
        if stamps is None:
            raise ValueError(f"column {name!r} of {table.name} holds {column.type}, not times")
        axis = _axis(stamps, "", getattr(column.type, "tz", None) is not None)
    return in_zone(axis, zone, groups) if zone is not None else axis


def is_time(table: Table, name: str) -> bool:
    """Say whether a column holds dates."""
    column = column_of(table, name)
    if is_text(column):
        some = column.slice(0, SAMPLE)
        if column.null_count == len(column):
            return False
        return _as_stamps(some) is not None or _mostly_dates(some) or _has_shape(some)
    if is_numeric(column):
        return _compact(column) is not None
    return "timestamp" in str(column.type) or "date" in str(column.type)


def is_clock(table: Table, name: str) -> bool:
    """Say whether a column holds times of day, without a date."""
    column = column_of(table, name)
    if "time32" in str(column.type) or "time64" in str(column.type):
        return True
    cells = [cell.strip() for cell in column.slice(0, SAMPLE).to_pylist() if cell] if is_text(column) else []
    return bool(cells) and all(re.fullmatch(dates.CLOCK, cell) for cell in cells if cell.lower() not in ABSENT)


def is_date_alone(table: Table, name: str) -> bool:
    """Say whether a column holds dates without a time of day."""
    column = column_of(table, name)
    if not is_text(column):
        return "date" in str(column.type) or (is_numeric(column) and _compact(column) is not None)
    cells = [cell.strip() for cell in column.slice(0, SAMPLE).to_pylist() if cell and cell.strip()]
    return is_time(table, name) and not any(":" in cell or len(cell) > len("30 September 2024") for cell in cells)


def _joined(column: Any, clock: Any) -> Any:
    from pyarrow import compute

    text = pyarrow().string()
    if "timestamp" in str(column.type):
        column = column.cast(pyarrow().date32())
    parts = [compute.utf8_trim_whitespace(part.cast(text)) for part in (column, clock)]
    return pyarrow().chunked_array(compute.binary_join_element_wise(*parts, " "))


def _text_axis(table: Table, name: str, column: Any, day_first: bool | None) -> TimeAxis:
    some = column.slice(0, SAMPLE)
    if _as_stamps(some) is not None or _mostly_dates(some):  # no number looks like a date
        return _iso(table, name, column)
    try:
        shape = dates.find_shape(some.to_pylist(), day_first, column.combine_chunks())
    except LookupError as error:
        cell = next(cell for cell in some.to_pylist() if cell and cell.strip())
        raise ValueError(f"{table.name}: {cell!r} in column {name!r} {error}") from error
    if shape is not None:
        return _shaped(table, name, column, shape)
    style = number_formats.find_style(some.to_pylist(), table.delimiter)
    parsed, bad = number_formats.parse(column, style)
    if not bad:
        return TimeAxis(numbers(parsed, "float64", np.nan), None)
    if is_number(table, name):
        cell = column[bad[0]].as_py()
        words = f"{cell!r} in column {name!r} is not a number, as the other times are"
        raise ValueError(f"{table.name}, {where(table, bad[0])}: {words}")
    return _iso(table, name, column)


def _shaped(table: Table, name: str, column: Any, shape: Shape) -> TimeAxis:
    """Read dates that are not in ISO 8601."""
    from pyarrow import compute

    whole = column.combine_chunks() if hasattr(column, "chunks") else column
    stamps = dates.parse(whole, shape.kind)
    absent = numbers(compute.cast(is_absent(compute.utf8_trim_whitespace(whole)), "int8"), "int64", 1) == 1
    wrong = np.isnat(stamps) & ~absent
    if wrong.any():
        row = int(np.argmax(wrong))
        words = f"is not a date like the others, as {whole[int(np.argmax(~np.isnat(stamps)))].as_py()!r}"
        raise ValueError(f"{table.name}, {where(table, row)}: {whole[row].as_py()!r} in column {name!r} {words}")
    known = ~np.isnat(stamps)
    if not known.any():
        raise ValueError("there is no time stamp in the time column")
    origin = int(stamps[np.argmax(known)].astype(np.int64))
    seconds = np.where(known, (stamps.astype(np.int64) - origin) / 1e9, np.nan)
    return TimeAxis(seconds, origin, False, str(whole[int(np.argmax(known))].as_py()), shape.again)


def _compact(column: Any) -> Shape | None:
    """Say whether numbers are dates such as 20240501."""
    if not pyarrow().types.is_integer(column.type):
        return None
    cells = column.slice(0, SAMPLE).to_pylist()
    return dates.find_shape(cells) if all(cell is None or len(str(cell)) == len("20240501") for cell in cells) else None


def _has_shape(some: Any) -> bool:
    try:
        return dates.find_shape(some.to_pylist()) is not None
    except LookupError:  # dates, though in which order is not clear
        return True


def in_zone(axis: TimeAxis, zone: str, groups: np.ndarray | None) -> TimeAxis:
    """Take dates for the local time of a zone; an hour that comes twice is told by the order of the rows."""
    from pyarrow import compute

    if axis.origin is None or axis.zoned:
        what = "have a time zone of their own" if axis.zoned else "are numbers"
        raise ValueError(f"--zone {zone} is for dates without a time zone; those of the time column {what}")
    arrow, known = pyarrow(), np.isfinite(axis.stamps)
    local = np.where(known, axis.origin + np.round(np.nan_to_num(axis.stamps) * 1e9), axis.origin).astype(np.int64)
    held = arrow.Array.from_buffers(arrow.timestamp("ns"), len(local), [None, arrow.py_buffer(local)])
    try:
        early, late = (
            numbers(compute.assume_timezone(held, zone, ambiguous=which, nonexistent="latest"), "int64", 0)
            for which in ("earliest", "latest")
        )
    except arrow.ArrowInvalid as error:
        raise ValueError(f"there is no time zone {zone!r}; zones are written as Europe/Berlin") from error
    stamps = np.where(_second_time(local, early != late, groups), late, early)
    return axis._replace(stamps=np.where(known, (stamps - stamps[0]) / 1e9, np.nan), origin=int(stamps[0]), zone=zone)


def _second_time(local: np.ndarray, twice: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Say which rows of an hour that comes twice are of its second time: those after the clock went back."""
    second = np.zeros(len(local), bool)
    for group in [0] if groups is None else np.unique(groups[twice]):
        rows = np.flatnonzero(twice & ((groups == group) if groups is not None else True))
        back = False
        for before, row in zip([-1, *rows[:-1]], rows, strict=True):
            if before < 0 or local[row] - local[before] > 2 * HOUR * 1e9:  # another year
                back = False
            back = back or (before >= 0 and local[row] <= local[before])
            second[row] = back
    return second


def _mostly_dates(some: Any) -> bool:
    """Say whether most cells begin as a date, though not all can be read: the others are then at fault."""
    from pyarrow import compute

    trimmed = compute.utf8_trim_whitespace(some)
    begun = compute.sum(compute.match_substring_regex(trimmed, DATE)).as_py() or 0
    absent = compute.sum(is_absent(trimmed)).as_py() or 0
    return bool(begun > MOSTLY * (len(some) - absent)) and not _has_shape(some)


def _as_stamps(column: Any) -> Any:
    """Turn text or dates into nanoseconds since 1970, piece by piece, or None if it is neither."""
    arrow = pyarrow()
    for zone in ZONES:
        kind = arrow.timestamp("ns", tz=zone)
        try:
            stamps = arrow.chunked_array([_stamps_of(chunk, kind) for chunk in column.chunks], kind)
        except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError):
            continue
        return None if is_text(column) and stamps.null_count == len(stamps) else stamps
    return None


def _stamps_of(chunk: Any, kind: Any) -> Any:
    from pyarrow import compute

    if is_text(chunk):
        trimmed = compute.utf8_trim_whitespace(chunk)
        chunk = only(compute.invert(is_absent(trimmed)), trimmed)
    return compute.cast(chunk, kind)


def _iso(table: Table, name: str, column: Any) -> TimeAxis:
    stamps = _as_stamps(column)
    if stamps is None:
        row = max(_reach(column, pyarrow().timestamp("ns", tz=zone)) for zone in ZONES)
        words = "is not a date like 2024-05-01 13:45:00 (ISO 8601), nor a number"
        if row and _as_stamps(column.slice(row, 1)) is not None:
            words = "and the cells before differ in whether they have a time zone; all need one, or none"
        raise ValueError(f"{table.name}, {where(table, row)}: {column[row].as_py()!r} in column {name!r} {words}")
    return _axis(stamps, str(column[0].as_py() or ""), stamps.type.tz is not None)


def _reach(column: Any, kind: Any) -> int:
    """Count the cells up to the first that is no date of a kind."""
    first = 0
    for chunk in column.chunks:
        size = len(chunk)
        try:
            _stamps_of(chunk, kind)
        except pyarrow().ArrowInvalid:
            if size == 1:
                return first
            halves = [chunk.slice(0, size // 2), chunk.slice(size // 2)]
            return first + _reach(pyarrow().chunked_array(halves), kind)
        first += size
    return first


def _axis(stamps: Any, template: str, zoned: bool) -> TimeAxis:
    from pyarrow import compute

    whole = compute.cast(stamps, pyarrow().timestamp("ns", tz=stamps.type.tz))
    missing = nulls(whole)
    if missing.all():
        raise ValueError("there is no time stamp in the time column")
    nanoseconds = numbers(whole, "int64", 0)
    origin = int(nanoseconds[np.argmin(missing)])
    nanoseconds -= origin
    seconds = nanoseconds / 1e9
    seconds[missing] = np.nan
    return TimeAxis(seconds, origin, zoned, template)
