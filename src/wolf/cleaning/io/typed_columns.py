"""Columns as numbers and groups; errors name the row of a bad cell."""

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wolf.cleaning.io import number_formats
from wolf.cleaning.io.arrow_numpy import numbers
from wolf.cleaning.io.number_formats import MIN_VALID_SHARE, MISSING_WORDS, NumberFormat
from wolf.cleaning.io.table import Table, pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLE = 1000  # cells from which the type of a column is inferred


class Numbers(NamedTuple):
    """A column as numbers.

    Attributes:
        values: (rows,), NaN where absent.
        bad: rows (from 0) of cells that are no numbers.
        absent: count of each word that marks a missing cell.
        style: format of the numbers.
    """

    values: np.ndarray
    bad: list[int]
    absent: Counter[str]
    style: NumberFormat


def number_column(
    table: Table, name: str, on_bad: str = "error", decimal: str | None = None, missing: tuple[str, ...] = ()
) -> Numbers:
    """Read a column as numbers; missing ones are NaN.

    Args:
        table: as read.
        name: of the column.
        on_bad: "error" to raise an error for a cell that is no number, "missing" to treat it as missing.
        decimal: decimal mark "." or ",", if known.
        missing: further words that mark a missing cell.
    """
    column = column_of(table, name)
    if not is_text(column):
        if not is_numeric(column):
            raise ValueError(f"column {name!r} of {table.name} holds {column.type}, not numbers")
        return Numbers(numbers(column, "float64", np.nan), [], Counter(), NumberFormat())
    style = _style(table, column, decimal)
    parsed, bad = number_formats.parse(column, style)
    if bad and style.plain and decimal is None:  # the sample may be in plain format by chance
        other = _style(table, column.take(bad[:SAMPLE]), None, column)
        if not other.plain:
            again = number_formats.parse(column, other)
            style, parsed, bad = (other, *again) if len(again[1]) < len(bad) else (style, parsed, bad)
    marked = Counter(word for row in bad if (word := column[row].as_py().strip()) in missing) if missing else Counter()
    bad = [row for row in bad if column[row].as_py().strip() not in marked] if marked else bad
    if bad and on_bad == "error":
        cell = column[bad[0]].as_py()
        more = f", and {len(bad) - 1} more cells are not" if len(bad) > 1 else ""
        raise ValueError(
            f"{table.name}, {where(table, bad[0])}: {cell!r} in column {name!r} is not a number{more}. "
            "Use --on-bad-cell missing to treat such cells as missing" + _hint(bad[0], cell)
        )
    absent = _absent(column) if parsed.null_count > len(bad) else Counter()
    return Numbers(numbers(parsed, "float64", np.nan), bad, absent + marked, style)


def group_column(table: Table, name: str) -> tuple[np.ndarray, list[str], "pa.ChunkedArray"]:
    """Read a column as group numbers, with the labels in order of appearance, and their cells."""
    column, types = column_of(table, name), pyarrow().types
    if types.is_nested(column.type):
        raise ValueError(f"column {name!r} of {table.name} holds {column.type}, which cannot identify series")
    if types.is_null(column.type):
        column = column.cast(pyarrow().string())
    coded = column.combine_chunks().dictionary_encode()
    labels = [str(label) for label in coded.dictionary.to_pylist()]
    codes = numbers(coded.indices, "int64", len(labels))
    if codes.size and codes.max() == len(labels):
        labels.append("(no name)")
    return codes, labels, table.data.column(name).take(np.unique(codes, return_index=True)[1].tolist())


def is_number(table: Table, name: str, decimal: str | None = None) -> bool:
    """Check whether most cells of a column are numbers."""
    column = column_of(table, name)
    if not is_text(column):
        return bool(is_numeric(column))
    sample = column.slice(0, SAMPLE)
    parsed, bad = number_formats.parse(sample, _style(table, sample, decimal))
    good = len(sample) - parsed.null_count
    return bool(good > MIN_VALID_SHARE * (good + len(bad)))


def example(table: Table, name: str) -> str:
    """Return the first nonempty cell of a text column, for messages; empty for other columns.

    Args:
        table: as read.
        name: of the column.
    """
    column = column_of(table, name).slice(0, SAMPLE)
    if not is_text(column):
        return ""
    return next((cell for cell in column.to_pylist() if cell and cell.strip().lower() not in MISSING_WORDS), "")


def column_of(table: Table, name: str) -> "pa.ChunkedArray":
    """Return a column, with dictionaries and string views decoded."""
    return decoded(table.data.column(name))


def decoded(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """Return a column without dictionaries and string views."""
    types = pyarrow().types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pyarrow().string()) if types.is_string_view(column.type) else column


def is_text(column: "pa.ChunkedArray") -> bool:
    """Check whether a column holds text."""
    types = pyarrow().types
    return bool(types.is_string(column.type) or types.is_large_string(column.type))


def is_numeric(column: "pa.ChunkedArray") -> bool:
    """Check whether a column has a numeric type."""
    types = pyarrow().types
    return bool(types.is_integer(column.type) or types.is_floating(column.type) or types.is_decimal(column.type))


def where(table: Table, row: int) -> str:
    """Name a row, and its line in the file."""
    places = {
        "csv": f" (line {row + table.above + 1} of the file)",
        "xlsx": f" (row {row + table.above + 1} of the sheet)",
    }
    return f"row {row + 1}" + places.get(table.kind, "")


def _style(
    table: Table, column: "pa.ChunkedArray", decimal: str | None, more: "pa.ChunkedArray | None" = None
) -> NumberFormat:
    cells = column.slice(0, SAMPLE).to_pylist()
    if more is not None:
        cells += more.slice(0, SAMPLE).to_pylist()
    return number_formats.infer_format(cells, table.delimiter if table.kind == "csv" else ",", decimal)


def _absent(column: "pa.ChunkedArray") -> Counter[str]:
    """Count the words that mark a missing cell, except empty text."""
    from pyarrow import compute

    found: Counter[str] = Counter()
    for chunk in column.chunks:
        trimmed = compute.utf8_trim_whitespace(chunk)
        for pair in compute.value_counts(trimmed.filter(number_formats.is_absent(trimmed))).to_pylist():
            found[pair["values"]] += pair["counts"]
    del found[""]
    return found


def _hint(row: int, cell: str) -> str:
    """Suggest an option for a cell that is no number."""
    if number_formats.CELL.fullmatch(cell.strip()) and "," in cell:
        return ", or --decimal , if it is a decimal comma"
    return ", or --skip if the names are further below" if not row else ""
