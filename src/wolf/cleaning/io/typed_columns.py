"""Columns as numbers and groups, with the row of a cell that is neither."""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from wolf.cleaning.io import number_formats
from wolf.cleaning.io.arrow_numpy import numbers
from wolf.cleaning.io.number_formats import ABSENT, MOSTLY, Style
from wolf.cleaning.io.table import Table, pyarrow

SAMPLE = 1000  # cells that say what a column holds


class Numbers(NamedTuple):
    """A column as numbers.

    Attributes:
        values: (rows,), NaN where absent.
        bad: rows (from 0) of cells that are no numbers.
        absent: how often each word for an empty cell stands there.
        style: how the numbers are written.
    """

    values: np.ndarray
    bad: list[int]
    absent: Counter[str]
    style: Style


def number_column(
    table: Table, name: str, on_bad: str = "error", decimal: str | None = None, missing: tuple[str, ...] = ()
) -> Numbers:
    """Read a column as numbers; absent ones are NaN.

    Args:
        table: as read.
        name: of the column.
        on_bad: "error" to stop at a cell that is no number, "missing" to take it as absent.
        decimal: mark "." or ",", if it is known.
        missing: words for an empty cell, besides the usual ones.
    """
    column = column_of(table, name)
    if not is_text(column):
        if not is_numeric(column):
            raise ValueError(f"column {name!r} of {table.name} holds {column.type}, not numbers")
        return Numbers(numbers(column, "float64", np.nan), [], Counter(), Style())
    style = _style(table, column, decimal)
    parsed, bad = number_formats.parse(column, style)
    if bad and style.plain and decimal is None:  # the first cells may all be short
        other = _style(table, column.take(bad[:SAMPLE]), None, column)
        if not other.plain:
            again = number_formats.parse(column, other)
            style, parsed, bad = (other, *again) if len(again[1]) < len(bad) else (style, parsed, bad)
    told = Counter(word for row in bad if (word := column[row].as_py().strip()) in missing) if missing else Counter()
    bad = [row for row in bad if column[row].as_py().strip() not in told] if told else bad
    if bad and on_bad == "error":
        cell = column[bad[0]].as_py()
        more = f", and {len(bad) - 1} more cells are not" if len(bad) > 1 else ""
        raise ValueError(
            f"{table.name}, {where(table, bad[0])}: {cell!r} in column {name!r} is not a number{more}. "
            "Use --on-bad-cell missing to take such cells as missing" + _hint(bad[0], cell)
        )
    absent = _absent(column) if parsed.null_count > len(bad) else Counter()
    return Numbers(numbers(parsed, "float64", np.nan), bad, absent + told, style)


def group_column(table: Table, name: str) -> tuple[np.ndarray, list[str], Any]:
    """Read a column as group numbers, with the labels in the order in which they come, and the cells that they are."""
    column, types = column_of(table, name), pyarrow().types
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


def is_number(table: Table, name: str, decimal: str | None = None) -> bool:
    """Say whether a column holds numbers, mostly."""
    column = column_of(table, name)
    if not is_text(column):
        return bool(is_numeric(column))
    some = column.slice(0, SAMPLE)
    parsed, bad = number_formats.parse(some, _style(table, some, decimal))
    good = len(some) - parsed.null_count
    return bool(good > MOSTLY * (good + len(bad)))


def example(table: Table, name: str) -> str:
    """Show the first cell of a column that is not empty, for messages; nothing if it is not a text.

    Args:
        table: as read.
        name: of the column.
    """
    column = column_of(table, name).slice(0, SAMPLE)
    if not is_text(column):
        return ""
    return next((cell for cell in column.to_pylist() if cell and cell.strip().lower() not in ABSENT), "")


def column_of(table: Table, name: str) -> Any:
    """Find a column; what is kept by reference, as texts often are, is written out."""
    column, types = table.data.column(name), pyarrow().types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pyarrow().string()) if types.is_string_view(column.type) else column


def is_text(column: Any) -> bool:
    """Say whether a column holds text."""
    types = pyarrow().types
    return bool(types.is_string(column.type) or types.is_large_string(column.type))


def is_numeric(column: Any) -> bool:
    """Say whether a column holds numbers, and not text for them."""
    types = pyarrow().types
    return bool(types.is_integer(column.type) or types.is_floating(column.type) or types.is_decimal(column.type))


def where(table: Table, row: int) -> str:
    """Name a row, and where to find it in the file."""
    told = {
        "csv": f" (line {row + table.above + 1} of the file)",
        "xlsx": f" (row {row + table.above + 1} of the sheet)",
    }
    return f"row {row + 1}" + told.get(table.kind, "")


def _style(table: Table, column: Any, decimal: str | None, more: Any = None) -> Style:
    cells = column.slice(0, SAMPLE).to_pylist()
    if more is not None:
        cells += more.slice(0, SAMPLE).to_pylist()
    return number_formats.find_style(cells, table.delimiter if table.kind == "csv" else ",", decimal)


def _absent(column: Any) -> Counter[str]:
    """Count the words for an empty cell, other than nothing at all."""
    from pyarrow import compute

    found: Counter[str] = Counter()
    for chunk in column.chunks:
        trimmed = compute.utf8_trim_whitespace(chunk)
        for pair in compute.value_counts(trimmed.filter(number_formats.is_absent(trimmed))).to_pylist():
            found[pair["values"]] += pair["counts"]
    del found[""]
    return found


def _hint(row: int, cell: str) -> str:
    """Say what else may be meant by a cell that is no number."""
    if number_formats.CELL.fullmatch(cell.strip()) and "," in cell:
        return ", or --decimal , if it is a decimal comma"
    return ", or --skip if the names stand further below" if not row else ""
