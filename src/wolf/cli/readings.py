"""From a file to numbers: which column is what, and what a person should know about it."""

from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np

from wolf.readings import files

TIME_NAMES = ("time", "timestamp", "datetime", "date", "ts", "t", "ds", "time_stamp", "when")
VALUE_NAMES = ("value", "values", "y", "reading", "measurement", "x")


class Readings(NamedTuple):
    """Readings of one or many sensors.

    Attributes:
        table: as read, without its rows: they are text, take more room than all else, and can be read again.
        quoted: whether a text in it needs quotes.
        time: name of the time column; None for a count.
        axis: its times; None for a count.
        names: of the value columns.
        values: (rows, M).
        by: name of the column that tells series apart.
        groups: number of the series of each row.
        labels: of the series.
        keys: as the column has them, a `pyarrow.ChunkedArray`.
        notes: what a person should know.
    """

    table: files.Table
    quoted: bool
    time: str | None
    axis: files.TimeAxis | None
    names: list[str]
    values: np.ndarray
    by: str | None
    groups: np.ndarray | None
    labels: list[str] | None
    keys: Any
    notes: list[str]

    @property
    def times(self) -> np.ndarray | None:
        """Time stamps as numbers."""
        return None if self.axis is None else self.axis.stamps


def load(
    source: str,
    time: str | None = None,
    values: tuple[str, ...] = (),
    by: str | None = None,
    on_bad_cell: str = "error",
    header: bool = True,
) -> Readings:
    """Read a file and find its columns.

    Args:
        source: path, or "-".
        time: name of the time column; default: found by itself, or none.
        values: names of the value columns; default: found by themselves.
        by: name of the column that tells series apart.
        on_bad_cell: "error" or "missing", for cells that are no numbers.
        header: whether a CSV file starts with names.
    """
    table = files.read_table(source, header)
    notes: list[str] = []
    for name in filter(None, [time, by, *values]):
        _check_name(table, name)
    _check_parts(time, by, values)
    time = time or _find_time(table, {by, *values}, notes)
    names = list(dict.fromkeys(values)) or [_find_value(table, {time, by}, notes)]
    columns = []
    for name in names:
        numbers, bad = files.number_column(table, name, on_bad_cell)
        columns.append(numbers)
        if bad:
            rows = ", ".join(str(row + 1) for row in bad[:5]) + (", ..." if len(bad) > 5 else "")
            notes.append(f"{len(bad)} cells of {name!r} are no numbers, taken as missing (rows {rows})")
    axis = None if time is None else files.time_column(table, time)
    groups, labels, keys = (None, None, None) if by is None else files.group_column(table, by)
    stacked = np.stack(columns, axis=1) if len(columns) > 1 else columns[0][:, None]
    quoted = files.needs_quotes(table.data, table.delimiter)
    return Readings(table.without_rows(), quoted, time, axis, names, stacked, by, groups, labels, keys, notes)


def _check_name(table: files.Table, name: str) -> None:
    names = table.data.column_names
    if name in names:
        return
    close = get_close_matches(name.lower(), [known.lower() for known in names], n=1, cutoff=0.4)
    near = [known for known in names if close and known.lower() == close[0]]
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{table.name} has no column {name!r}.{hint} Its columns are {', '.join(map(repr, names))}")


def _check_parts(time: str | None, by: str | None, values: tuple[str, ...]) -> None:
    """Refuse one column for two things."""
    given = {"--time": [time], "--by": [by], "--value": values}
    for name in filter(None, {time, by, *values}):
        options = [option for option, names in given.items() if name in names]
        if len(options) > 1:
            raise ValueError(f"column {name!r} cannot be both {' and '.join(options)}")


def _find_time(table: files.Table, taken: set[Any], notes: list[str]) -> str | None:
    """Look for a usual name, then for a column of dates; say so of a usual name with something else below it."""
    names = [name for name in table.data.column_names if name not in taken]
    for usual in TIME_NAMES:
        for name in names:
            if name.strip().lower() == usual and (files.is_time(table, name) or files.is_number(table, name)):
                return str(name)
    for name in names:
        cell = files.example(table, name) if name.strip().lower() in TIME_NAMES else ""
        if cell:
            notes.append(
                f"{name!r} was not taken for the time: {cell!r} is no date like 2024-05-01 13:45:00, nor a number"
            )
    return next((str(name) for name in names if files.is_time(table, name)), None)


def _find_value(table: files.Table, taken: set[Any], notes: list[str]) -> str:
    names = [name for name in table.data.column_names if name not in taken and files.is_number(table, name)]
    if not names:
        cells = {name: files.example(table, name) for name in table.data.column_names if name not in taken}
        named = ", ".join(f"{name!r}" + (f" (as {cell!r})" if cell else "") for name, cell in cells.items())
        comma = any(files.DECIMAL_COMMA.fullmatch(cell) for cell in cells.values())
        words = "; a decimal comma cannot be read: write a point" if comma else ""
        raise ValueError(f"{table.name} has no column of numbers besides the time; there are {named or 'none'}{words}")
    usual = [name for name in names if name.strip().lower() in VALUE_NAMES]
    chosen = str((usual or names)[0])
    if len(names) > 1:
        others = ", ".join(repr(name) for name in names if name != chosen)
        notes.append(f"filtered {chosen!r}; other columns of numbers are {others} (choose with --value)")
    return chosen
