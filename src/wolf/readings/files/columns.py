"""Columns as numbers, times and groups, with the row of a cell that is none of them."""

import re
from typing import Any, NamedTuple

import numpy as np

from wolf.readings.files.arrays import nulls, numbers
from wolf.readings.files.reading import Table, pyarrow

ABSENT = ("", "na", "n/a", "nan", "null", "none", "nil", "missing", "?", "-", "--", "#n/a")
NUMBER = r"^[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf|infinity|Inf|Infinity|INF)$"
SAMPLE = 1000  # cells that say what a column holds
DATE = r"^\d{4}-\d{2}-\d{2}"  # how a date begins
DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")
ZONES = (None, "UTC")  # dates without a time zone, and with one
MOSTLY = 0.5  # share of a column that must be numbers to be taken for a column of numbers with bad cells


class TimeAxis(NamedTuple):
    """Time stamps as numbers.

    Attributes:
        stamps: (rows,), in the file's own unit, or seconds since `origin` for dates; NaN where there is none.
        origin: nanoseconds since 1970 of the first date; None for numbers.
        zoned: whether the dates have a time zone; they are then in UTC.
        template: first cell as written, whose style new dates follow.
    """

    stamps: np.ndarray
    origin: int | None
    zoned: bool = False
    template: str = ""

    def write(self, stamps: np.ndarray) -> list[str]:
        """Write times as the file writes them."""
        if self.origin is None:
            return [f"{stamp:.12g}" for stamp in stamps]
        dates = np.datetime64(self.origin, "ns") + np.round(stamps * 1e9).astype("timedelta64[ns]")
        whole = bool(np.all(dates == dates.astype("datetime64[s]")))
        only_days = len(self.template) == len("2000-01-01") and bool(np.all(dates == dates.astype("datetime64[D]")))
        unit = "D" if only_days else "s" if whole else "us"
        written = np.datetime_as_string(dates.astype(f"datetime64[{unit}]"))
        joined = [str(cell) if "T" in self.template else str(cell).replace("T", " ") for cell in written]
        return [cell + ("Z" if self.zoned else "") for cell in joined]


def number_column(table: Table, name: str, on_bad: str = "error") -> tuple[np.ndarray, list[int]]:
    """Read a column as numbers; absent ones are NaN.

    Args:
        table: as read.
        name: of the column.
        on_bad: "error" to stop at a cell that is no number, "missing" to take it as absent.

    Returns:
        The numbers, and the rows (from 0) of cells that are none.
    """
    column = _column(table, name)
    bad: list[int] = []
    if _is_text(column):
        column, bad = _parse(column)
    elif not _is_numeric(column):
        raise ValueError(f"column {name!r} of {table.name} holds {column.type}, not numbers")
    if bad and on_bad == "error":
        cell = _column(table, name)[bad[0]].as_py()
        comma = " (a decimal comma? Write a point)" if DECIMAL_COMMA.fullmatch(cell) else ""
        more = f", and {len(bad) - 1} more cells are not" if len(bad) > 1 else ""
        raise ValueError(
            f"{table.name}, {_where(table, bad[0])}: {cell!r} in column {name!r} is not a number{comma}{more}. "
            "Use --on-bad-cell missing to take such cells as missing"
        )
    return numbers(column, "float64", np.nan), bad


def time_column(table: Table, name: str) -> TimeAxis:
    """Read a column as times: numbers, or dates in ISO 8601."""
    column = _column(table, name)
    if _is_text(column):
        if _as_stamps(column.slice(0, SAMPLE)) is None:  # no number looks like a date
            parsed, bad = _parse(column)
            if not bad:
                return TimeAxis(numbers(parsed, "float64", np.nan), None)
            if is_number(table, name):
                cell = column[bad[0]].as_py()
                words = f"{cell!r} in column {name!r} is not a number, as the other times are"
                raise ValueError(f"{table.name}, {_where(table, bad[0])}: {words}")
        return _dates(table, name, column)
    if _is_numeric(column):
        return TimeAxis(numbers(column, "float64", np.nan), None)
    stamps = _as_stamps(column)
    if stamps is None:
        raise ValueError(f"column {name!r} of {table.name} holds {column.type}, not times")
    return _axis(stamps, "", getattr(column.type, "tz", None) is not None)


def group_column(table: Table, name: str) -> tuple[np.ndarray, list[str], Any]:
    """Read a column as group numbers, with the labels in the order in which they come, and the cells that they are."""
    column, types = _column(table, name), pyarrow().types
    if types.is_nested(column.type):
        raise ValueError(f"column {name!r} of {table.name} holds {column.type}, which cannot tell series apart")
    if types.is_null(column.type):
        column = column.cast(pyarrow().string())
    coded = column.combine_chunks().dictionary_encode()
    labels = [str(label) for label in coded.dictionary.to_pylist()]
    codes = numbers(coded.indices, "int64", len(labels))
    if codes.size and codes.max() == len(labels):
        labels.append("(no name)")
    return codes, labels, table.data.column(name).take(np.unique(codes, return_index=True)[1].tolist())


def is_number(table: Table, name: str) -> bool:
    """Say whether a column holds numbers, mostly."""
    column = _column(table, name)
    if not _is_text(column):
        return bool(_is_numeric(column))
    some = column.slice(0, SAMPLE)
    parsed, bad = _parse(some)
    good = len(some) - parsed.null_count
    return bool(good > MOSTLY * (good + len(bad)))


def is_time(table: Table, name: str) -> bool:
    """Say whether a column holds dates."""
    column = _column(table, name)
    if _is_text(column):
        some = column.slice(0, SAMPLE)
        return column.null_count < len(column) and (_as_stamps(some) is not None or _mostly_dates(some))
    return "timestamp" in str(column.type) or "date" in str(column.type)


def example(table: Table, name: str) -> str:
    """Show the first cell of a column that is not empty, for messages; nothing if it is not a text.

    Args:
        table: as read.
        name: of the column.
    """
    column = _column(table, name).slice(0, SAMPLE)
    if not _is_text(column):
        return ""
    return next((cell for cell in column.to_pylist() if cell and cell.strip().lower() not in ABSENT), "")


def _column(table: Table, name: str) -> Any:
    """Find a column; what is kept by reference, as texts often are, is written out."""
    column, types = table.data.column(name), pyarrow().types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pyarrow().string()) if types.is_string_view(column.type) else column


def _mostly_dates(some: Any) -> bool:
    """Say whether most cells begin as a date, though not all can be read: the others are then at fault."""
    from pyarrow import compute

    trimmed = compute.utf8_trim_whitespace(some)
    dates = compute.sum(compute.match_substring_regex(trimmed, DATE)).as_py() or 0
    absent = compute.sum(_is_absent(trimmed)).as_py() or 0
    return bool(dates > MOSTLY * (len(some) - absent))


def _is_text(column: Any) -> bool:
    types = pyarrow().types
    return bool(types.is_string(column.type) or types.is_large_string(column.type))


def _is_numeric(column: Any) -> bool:
    types = pyarrow().types
    return bool(types.is_integer(column.type) or types.is_floating(column.type) or types.is_decimal(column.type))


def _parse(column: Any) -> tuple[Any, list[int]]:
    """Turn text into numbers, piece by piece; what is no number is null, and its rows are told."""
    parsed, bad, first = [], [], 0
    for chunk in column.chunks:
        some, rows = _parse_chunk(chunk)
        parsed.append(some)
        bad += [first + row for row in rows]
        first += len(chunk)
    return pyarrow().chunked_array(parsed, pyarrow().float64()), bad


def _parse_chunk(chunk: Any) -> tuple[Any, list[int]]:
    from pyarrow import compute

    arrow = pyarrow()
    try:
        return compute.cast(chunk, arrow.float64()), []
    except arrow.ArrowInvalid:  # not all of it is plain numbers: look at each cell
        pass
    trimmed = compute.utf8_trim_whitespace(chunk)
    good = compute.match_substring_regex(trimmed, NUMBER)
    parsed = compute.cast(_only(good, trimmed), arrow.float64())
    bad = compute.and_(compute.invert(good), compute.invert(_is_absent(trimmed)))
    return parsed, compute.indices_nonzero(bad).to_pylist()


def _is_absent(trimmed: Any) -> Any:
    """Say which cells are written as being empty."""
    from pyarrow import compute

    words = "|".join(map(re.escape, ABSENT))
    return compute.match_substring_regex(trimmed, f"^(?:{words})$", ignore_case=True)


def _only(chosen: Any, column: Any) -> Any:
    """Keep the chosen cells; the others become null."""
    from pyarrow import compute

    return compute.if_else(chosen, column, pyarrow().nulls(len(column), column.type))


def _as_stamps(column: Any) -> Any:
    """Turn text or dates into nanoseconds since 1970, piece by piece, or None if it is neither."""
    arrow = pyarrow()
    for zone in ZONES:
        kind = arrow.timestamp("ns", tz=zone)
        try:
            stamps = arrow.chunked_array([_stamps_of(chunk, kind) for chunk in column.chunks], kind)
        except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError):
            continue
        return None if _is_text(column) and stamps.null_count == len(stamps) else stamps
    return None


def _stamps_of(chunk: Any, kind: Any) -> Any:
    from pyarrow import compute

    if _is_text(chunk):
        trimmed = compute.utf8_trim_whitespace(chunk)
        chunk = _only(compute.invert(_is_absent(trimmed)), trimmed)
    return compute.cast(chunk, kind)


def _dates(table: Table, name: str, column: Any) -> TimeAxis:
    stamps = _as_stamps(column)
    if stamps is None:
        row = max(_reach(column, pyarrow().timestamp("ns", tz=zone)) for zone in ZONES)
        words = "is not a date like 2024-05-01 13:45:00 (ISO 8601), nor a number"
        if row and _as_stamps(column.slice(row, 1)) is not None:
            words = "and the cells before differ in whether they have a time zone; all need one, or none"
        raise ValueError(f"{table.name}, {_where(table, row)}: {column[row].as_py()!r} in column {name!r} {words}")
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


def _where(table: Table, row: int) -> str:
    return f"row {row + 1} (line {row + 2} of the file)" if table.kind == "csv" else f"row {row + 1}"
