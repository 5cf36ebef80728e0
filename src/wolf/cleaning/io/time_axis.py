"""Time columns: numbers, dates in ISO 8601 or other formats, a date and a time of day in two columns."""

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wolf.cleaning.io import date_formats, number_formats
from wolf.cleaning.io.arrow_numpy import nulls, numbers
from wolf.cleaning.io.date_formats import DateFormat
from wolf.cleaning.io.number_formats import MIN_VALID_SHARE, MISSING_WORDS, is_absent, only
from wolf.cleaning.io.table import Table, pyarrow
from wolf.cleaning.io.typed_columns import SAMPLE, column_of, is_number, is_numeric, is_text, where

if TYPE_CHECKING:
    import pyarrow as pa

ISO_DATE = r"^\d{4}-\d{2}-\d{2}"
ZONES = (None, "UTC")  # dates without a time zone, and with one
HOUR = 3600.0  # seconds


class TimeAxis(NamedTuple):
    """Time stamps as numbers.

    Attributes:
        stamps: (rows,), in the unit of the file, or seconds since `origin` for dates; NaN where missing.
        origin: Unix time of the first date in nanoseconds; None for numbers.
        zoned: whether the dates have a time zone; they are then in UTC.
        template: first cell, whose format new dates follow.
        strftime: format of dates that are not in ISO 8601.
        zone: time zone of the dates in the file, if given.
    """

    stamps: np.ndarray
    origin: int | None
    zoned: bool = False
    template: str = ""
    strftime: str = ""
    zone: str | None = None

    def write(self, stamps: np.ndarray) -> list[str]:
        """Format times as in the file."""
        if self.origin is None:
            return [f"{stamp:.12g}" for stamp in stamps]
        if self.strftime or self.zone:
            return [self._write_one(stamp) for stamp in stamps]
        stamps_ns = np.datetime64(self.origin, "ns") + np.round(stamps * 1e9).astype("timedelta64[ns]")
        whole = bool(np.all(stamps_ns == stamps_ns.astype("datetime64[s]")))
        only_days = len(self.template) == len("2000-01-01") and bool(
            np.all(stamps_ns == stamps_ns.astype("datetime64[D]"))
        )
        unit = "D" if only_days else "s" if whole else "us"
        written = np.datetime_as_string(stamps_ns.astype(f"datetime64[{unit}]"))
        joined = [str(cell) if "T" in self.template else str(cell).replace("T", " ") for cell in written]
        return [cell + ("Z" if self.zoned else "") for cell in joined]

    def _write_one(self, stamp: float) -> str:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
            microseconds=round((self.origin or 0) / 1e3 + stamp * 1e6)
        )
        if self.zone:
            from zoneinfo import ZoneInfo

            moment = moment.astimezone(ZoneInfo(self.zone))
        default = "%Y-%m-%dT%H:%M:%S" if "T" in self.template else "%Y-%m-%d %H:%M:%S"
        return moment.strftime(self.strftime or default)


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
        clock: column with the time of day, if separate.
        day_first: order of dates such as 01/02/2024; None to infer it.
        zone: time zone of dates without one, such as Europe/Berlin.
        groups: series number of each row; daylight saving is resolved per series.
    """
    column = column_of(table, name)
    if clock is not None:
        column = _join_date_and_clock(column, column_of(table, clock))
    if is_text(column):
        axis = _text_axis(table, name, column, day_first)
    elif is_numeric(column):
        axis = TimeAxis(numbers(column, "float64", np.nan), None)
        date_format = _compact_format(column)
        if date_format is not None:
            axis = _parse_dates(table, name, column.cast(pyarrow().int64()).cast(pyarrow().string()), date_format)
    else:
        stamps = _to_timestamps(column)
        if stamps is None:
            raise ValueError(f"column {name!r} of {table.name} holds {column.type}, not times")
        axis = _axis(stamps, "", getattr(column.type, "tz", None) is not None)  # a date has none
    return in_zone(axis, zone, groups) if zone is not None else axis


def is_time(table: Table, name: str) -> bool:
    """Check whether a column holds dates."""
    column = column_of(table, name)
    if is_text(column):
        sample = column.slice(0, SAMPLE)
        if column.null_count == len(column):
            return False
        return _to_timestamps(sample) is not None or _mostly_dates(sample) or _has_format(sample)
    if is_numeric(column):
        return _compact_format(column) is not None
    return "timestamp" in str(column.type) or "date" in str(column.type)


def is_clock(table: Table, name: str) -> bool:
    """Check whether a column holds times of day, without a date."""
    column = column_of(table, name)
    if "time32" in str(column.type) or "time64" in str(column.type):
        return True
    cells = [cell.strip() for cell in column.slice(0, SAMPLE).to_pylist() if cell] if is_text(column) else []
    return bool(cells) and all(
        re.fullmatch(date_formats.CLOCK, cell) for cell in cells if cell.lower() not in MISSING_WORDS
    )


def is_date_alone(table: Table, name: str) -> bool:
    """Check whether a column holds dates without a time of day."""
    column = column_of(table, name)
    if not is_text(column):
        return "date" in str(column.type) or (is_numeric(column) and _compact_format(column) is not None)
    cells = [cell.strip() for cell in column.slice(0, SAMPLE).to_pylist() if cell and cell.strip()]
    return is_time(table, name) and not any(":" in cell or len(cell) > len("30 September 2024") for cell in cells)


def _join_date_and_clock(column: "pa.ChunkedArray", clock: "pa.ChunkedArray") -> "pa.ChunkedArray":
    from pyarrow import compute

    text = pyarrow().string()
    if "timestamp" in str(column.type):
        column = column.cast(pyarrow().date32())
    parts = [compute.utf8_trim_whitespace(part.cast(text)) for part in (column, clock)]
    return pyarrow().chunked_array(compute.binary_join_element_wise(*parts, " "))


def _text_axis(table: Table, name: str, column: "pa.ChunkedArray", day_first: bool | None) -> TimeAxis:
    sample = column.slice(0, SAMPLE)
    if _to_timestamps(sample) is not None or _mostly_dates(sample):  # no number is a valid date
        return _iso(table, name, column)
    try:
        date_format = date_formats.infer_format(sample.to_pylist(), day_first, column.combine_chunks())
    except LookupError as error:
        cell = next(cell for cell in sample.to_pylist() if cell and cell.strip())
        raise ValueError(f"{table.name}: {cell!r} in column {name!r} {error}") from error
    if date_format is not None:
        return _parse_dates(table, name, column, date_format)
    style = number_formats.infer_format(sample.to_pylist(), table.delimiter)
    parsed, bad = number_formats.parse(column, style)
    if not bad:
        return TimeAxis(numbers(parsed, "float64", np.nan), None)
    if is_number(table, name):
        cell = column[bad[0]].as_py()
        error_text = f"{cell!r} in column {name!r} is not a number, unlike the other times"
        raise ValueError(f"{table.name}, {where(table, bad[0])}: {error_text}")
    return _iso(table, name, column)


def _parse_dates(table: Table, name: str, column: "pa.ChunkedArray", date_format: DateFormat) -> TimeAxis:
    """Parse dates that are not in ISO 8601."""
    from pyarrow import compute

    whole = column.combine_chunks() if isinstance(column, pyarrow().ChunkedArray) else column
    stamps = date_formats.parse(whole, date_format.kind)
    absent = numbers(compute.cast(is_absent(compute.utf8_trim_whitespace(whole)), "int8"), "int64", 1) == 1
    wrong = np.isnat(stamps) & ~absent
    if wrong.any():
        row = int(np.argmax(wrong))
        error_text = (
            f"is not a date in the format of the others, such as {whole[int(np.argmax(~np.isnat(stamps)))].as_py()!r}"
        )
        raise ValueError(f"{table.name}, {where(table, row)}: {whole[row].as_py()!r} in column {name!r} {error_text}")
    known = ~np.isnat(stamps)
    if not known.any():
        raise ValueError("all cells of the time column are missing")
    origin = int(stamps[np.argmax(known)].astype(np.int64))
    seconds = np.where(known, (stamps.astype(np.int64) - origin) / 1e9, np.nan)
    return TimeAxis(seconds, origin, False, str(whole[int(np.argmax(known))].as_py()), date_format.strftime)


def _compact_format(column: "pa.ChunkedArray") -> DateFormat | None:
    """Infer the format of integers that are dates, such as 20240501."""
    if not pyarrow().types.is_integer(column.type):
        return None
    cells = column.slice(0, SAMPLE).to_pylist()
    return (
        date_formats.infer_format(cells)
        if all(cell is None or len(str(cell)) == len("20240501") for cell in cells)
        else None
    )


def _has_format(sample: "pa.ChunkedArray") -> bool:
    try:
        return date_formats.infer_format(sample.to_pylist()) is not None
    except LookupError:  # dates with an ambiguous order
        return True


def in_zone(axis: TimeAxis, zone: str, groups: np.ndarray | None) -> TimeAxis:
    """Interpret dates as local times of a zone; a repeated hour is resolved by the order of the rows."""
    from pyarrow import compute

    if axis.origin is None or axis.zoned:
        what = "have a time zone" if axis.zoned else "are numbers"
        raise ValueError(f"--zone {zone} is for dates without a time zone; those of the time column {what}")
    arrow, known = pyarrow(), np.isfinite(axis.stamps)
    local = np.where(known, axis.origin + np.round(np.nan_to_num(axis.stamps) * 1e9), axis.origin).astype(np.int64)
    array = arrow.Array.from_buffers(arrow.timestamp("ns"), len(local), [None, arrow.py_buffer(local)])
    try:
        early, late = (
            numbers(compute.assume_timezone(array, zone, ambiguous=which, nonexistent="latest"), "int64", 0)
            for which in ("earliest", "latest")
        )
    except arrow.ArrowInvalid as error:
        raise ValueError(f"there is no time zone {zone!r}; expected a name such as Europe/Berlin") from error
    stamps = np.where(_is_second_occurrence(local, early != late, groups), late, early)
    return axis._replace(stamps=np.where(known, (stamps - stamps[0]) / 1e9, np.nan), origin=int(stamps[0]), zone=zone)


def _is_second_occurrence(local: np.ndarray, twice: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Find rows in the second occurrence of a repeated hour: those after the clock went back."""
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


def _mostly_dates(sample: "pa.ChunkedArray") -> bool:
    """Check whether most cells start with a date although not all are valid: the others are then bad cells."""
    from pyarrow import compute

    trimmed = compute.utf8_trim_whitespace(sample)
    num_dates = compute.sum(compute.match_substring_regex(trimmed, ISO_DATE)).as_py() or 0
    absent = compute.sum(is_absent(trimmed)).as_py() or 0
    return bool(num_dates > MIN_VALID_SHARE * (len(sample) - absent)) and not _has_format(sample)


def _to_timestamps(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """Convert text or dates to timestamps in nanoseconds; None if that is impossible."""
    arrow = pyarrow()
    for zone in ZONES:
        kind = arrow.timestamp("ns", tz=zone)
        try:
            stamps = arrow.chunked_array([_stamps_of(chunk, kind) for chunk in column.chunks], kind)
        except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError):
            continue
        return None if is_text(column) and stamps.null_count == len(stamps) else stamps
    return None


def _stamps_of(chunk: "pa.Array", kind: "pa.DataType") -> "pa.Array":
    from pyarrow import compute

    if is_text(chunk):
        trimmed = compute.utf8_trim_whitespace(chunk)
        chunk = only(compute.invert(is_absent(trimmed)), trimmed)
    return compute.cast(chunk, kind)


def _iso(table: Table, name: str, column: "pa.ChunkedArray") -> TimeAxis:
    stamps = _to_timestamps(column)
    if stamps is None:
        row = max(_count_convertible(column, pyarrow().timestamp("ns", tz=zone)) for zone in ZONES)
        error_text = "is neither a date such as 2024-05-01 13:45:00 (ISO 8601) nor a number"
        if row and _to_timestamps(column.slice(row, 1)) is not None:
            error_text = "differs from the cells before in whether it has a time zone; all need one, or none"
        raise ValueError(f"{table.name}, {where(table, row)}: {column[row].as_py()!r} in column {name!r} {error_text}")
    return _axis(stamps, str(column[0].as_py() or ""), stamps.type.tz is not None)


def _count_convertible(column: "pa.ChunkedArray", kind: "pa.DataType") -> int:
    """Count the cells before the first that cannot be converted to a type."""
    first = 0
    for chunk in column.chunks:
        size = len(chunk)
        try:
            _stamps_of(chunk, kind)
        except pyarrow().ArrowInvalid:
            if size == 1:
                return first
            halves = [chunk.slice(0, size // 2), chunk.slice(size // 2)]
            return first + _count_convertible(pyarrow().chunked_array(halves), kind)
        first += size
    return first


def _axis(stamps: "pa.ChunkedArray", template: str, zoned: bool) -> TimeAxis:
    from pyarrow import compute

    whole = compute.cast(stamps, pyarrow().timestamp("ns", tz=stamps.type.tz))
    missing = nulls(whole)
    if missing.all():
        raise ValueError("all cells of the time column are missing")
    nanoseconds = numbers(whole, "int64", 0)
    origin = int(nanoseconds[np.argmin(missing)])
    nanoseconds -= origin
    seconds = nanoseconds / 1e9
    seconds[missing] = np.nan
    return TimeAxis(seconds, origin, zoned, template)
