"""Tables of time intervals: labels set by hand, and known events such as maintenance.

A table has the columns `start` (or `time`) and `end`, both inclusive; an empty end is the start. `column` and `series`
limit an interval to one of them. Labels have the column `label` (`fault` or `good`), events `note` and `error` (reading
minus reference, as found at a calibration). Times are those of the series: dates, numbers, or row numbers from 1 if the
series has no times.

    start,end,column,label
    2024-05-01 13:00,2024-05-01 14:30,temperature,fault
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from wolf import validation
from wolf.cleaning import io

FIELDS = ("start", "end", "column", "series", "label", "note", "error")
EXPECTED = "a table with the columns start (or time) and end: a file, a data frame, or a list of mappings"


class TimeInterval(NamedTuple):
    """An interval of a table.

    Attributes:
        start: first time, in the unit of the series.
        end: last time.
        column: of the readings; "" for every one.
        series: label of the series; "" for every one.
        label: of readings labelled by hand.
        note: description of an event.
        error: reading minus reference at a calibration; NaN if unknown.
    """

    start: float
    end: float
    column: str = ""
    series: str = ""
    label: str = ""
    note: str = ""
    error: float = np.nan

    def applies(self, column: str, series: str) -> bool:
        """Return whether the interval is about a column of a series."""
        return self.column in ("", column) and self.series in ("", series)


def read(name: str, source: Any, dated: bool, origin: float, zone: str | None = None) -> list[TimeInterval]:
    """Read a table of intervals, sorted by their starts.

    Args:
        name: of the option.
        source: path of a file, data frame, list of mappings, or list of times.
        dated: whether the series has dates; times are then seconds since `origin`.
        origin: Unix time in seconds at which the times of the series are 0.
        zone: time zone of dates in a file that have none.

    Example:
        >>> read("labels", [{"start": 3, "end": 5, "label": "fault"}], False, 0.0)
        [TimeInterval(start=3.0, end=5.0, column='', series='', label='fault', note='', error=nan)]
    """
    if source is None:
        return []
    if isinstance(source, str | PathLike):
        cells = _file_cells(name, str(source), dated, zone)
    else:
        rows = [each if isinstance(each, Mapping) else {"start": each} for each in _rows(name, source)]
        cells = {
            field: [row.get(field) for row in rows] for field in _fields(name, {key for row in rows for key in row})
        }
        cells |= {field: [_time(name, cell, dated) for cell in cells[field]] for field in cells if field in TIMES}
    start = np.array(cells.pop("time", None) or cells["start"], float)
    end = np.array(cells.get("end", start), float)
    start, end = (start - origin, end - origin) if dated else (start, end)
    end = np.where(np.isnan(end), start, end)
    wrong = np.flatnonzero(~(start <= end))
    if wrong.size:
        raise ValueError(f"{name}: row {wrong[0] + 1} has no start, or ends before it starts")
    texts = {field: [_text(cell) for cell in cells.get(field, [])] or [""] * len(start) for field in FIELDS[2:6]}
    errors = [_error(name, cell) for cell in cells.get("error", [None] * len(start))]
    found = zip(start.tolist(), end.tolist(), *texts.values(), errors, strict=True)
    return sorted((TimeInterval(*row) for row in found), key=lambda each: (each.start, each.end))


TIMES = ("start", "time", "end")


def _fields(name: str, given: set[str]) -> list[str]:
    """Check the names of the columns."""
    if not given & {"start", "time"} and given:
        raise ValueError(f"{name} has the columns {', '.join(sorted(given))}; expected {EXPECTED}")
    return [field for field in (*FIELDS, "time") if field in given] or ["start"]


def _rows(name: str, source: Any) -> list[Any]:
    if isinstance(source, list | tuple | np.ndarray):
        return list(source)
    from wolf.results.views.data_frame import narwhals

    try:
        return list(narwhals().from_native(source, eager_only=True).rows(named=True))
    except TypeError as error:
        raise ValueError(f"{name} must be {EXPECTED}; got {validation.short_repr(source)}") from error


def _file_cells(name: str, path: str, dated: bool, zone: str | None) -> dict[str, list[Any]]:
    """Read the columns of a file; times as Unix seconds or numbers."""
    table = io.read_table(path)
    cells: dict[str, list[Any]] = {}
    for field in _fields(f"{name} {path}", set(table.data.column_names)):
        column = table.data.column(field)
        if field not in TIMES:
            cells[field] = column.to_pylist()
            continue
        if all(_text(cell) == "" for cell in column.to_pylist()):
            cells[field] = [np.nan] * len(column)
            continue
        axis = io.time_column(table, field)
        if axis.origin is not None and zone is not None and not axis.zoned:
            axis = io.time_column(table, field, zone=zone)
        if dated != (axis.origin is not None):
            raise ValueError(_mismatch(name, f"{path}, column {field!r},", dated))
        cells[field] = (axis.stamps + (axis.origin or 0) / 1e9).tolist()
    return cells


def _mismatch(name: str, what: str, dated: bool) -> str:
    kinds = ("numbers", "dates") if dated else ("dates", "numbers, or no times: row numbers from 1 are then expected")
    return f"{name}: {what} holds {kinds[0]}, but the series has {kinds[1]}"


def _time(name: str, cell: Any, dated: bool) -> float:
    """Convert one time to Unix seconds, or to a number."""
    if cell is None or cell is np.nan or _text(cell) in ("", "NaT", "nan"):
        return float("nan")
    if not dated:
        try:
            return float(cell)
        except (TypeError, ValueError):
            raise ValueError(_mismatch(name, validation.short_repr(cell), dated)) from None
    try:
        if isinstance(cell, str):
            cell = datetime.fromisoformat(cell)
        if isinstance(cell, datetime):
            cell = cell.astimezone(UTC).replace(tzinfo=None) if cell.tzinfo else cell
        elif not isinstance(cell, date | np.datetime64):
            raise ValueError
        return float(np.datetime64(cell, "ns").astype(np.int64)) / 1e9
    except ValueError:
        shown = validation.short_repr(cell)
        raise ValueError(f"{name}: expected a date such as 2024-05-01 13:45, as in the series; got {shown}") from None


def _text(cell: Any) -> str:
    return "" if cell is None or cell != cell else str(cell).strip()


def _error(name: str, cell: Any) -> float:
    try:
        return float(cell) if _text(cell) else float("nan")
    except ValueError:
        raise ValueError(f"{name}: the column error must hold numbers; got {cell!r}") from None
