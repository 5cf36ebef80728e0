"""How a CSV file is written: delimiter, quotes, decimal mark, and text that a spreadsheet must not run as a formula."""

import re
from typing import TYPE_CHECKING, NamedTuple

from wolf.cleaning.io import number_formats
from wolf.cleaning.io.table import pyarrow
from wolf.cleaning.io.typed_columns import decoded, is_text

if TYPE_CHECKING:
    import pyarrow as pa

FORMULA = r"^[=+\-@\t\r]"  # first character of a cell that spreadsheet programs evaluate
HARMLESS = rf"^(?:\s*(?:{number_formats.CELL.pattern})\s*|[\-.]+)$"  # numbers, and dashes for missing ones


class CsvStyle(NamedTuple):
    """Style of a CSV file.

    Attributes:
        delimiter: between cells.
        quoted: whether text cells are quoted.
        decimal: decimal mark of columns of floating-point numbers.
        escape_formulas: whether text that a spreadsheet program would evaluate gets an apostrophe in front.
    """

    delimiter: str = ","
    quoted: bool = False
    decimal: str = "."
    escape_formulas: bool = False

    def convert(self, piece: "pa.Table") -> "pa.Table":
        """Convert columns to text where pyarrow would write them in another style."""
        arrow, columns = pyarrow(), []
        for column in piece.columns:
            if self.decimal != "." and arrow.types.is_floating(column.type):
                column = _with_mark(column, self.decimal)
            elif self.escape_formulas and is_text(decoded(column)):
                column = _escape(decoded(column))
            columns.append(column)
        return arrow.table(columns, names=self.names(piece.column_names))

    def names(self, names: list[str]) -> list[str]:
        """Return the column names as they are written."""
        return [_escape_name(name) if self.escape_formulas else name for name in names]


def _with_mark(column: "pa.ChunkedArray", decimal: str) -> "pa.ChunkedArray":
    from pyarrow import compute

    return compute.replace_substring(column.cast(pyarrow().string()), ".", decimal)


def _escape(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """Prepend an apostrophe to cells that begin like a formula and are no numbers."""
    from pyarrow import compute

    risky = compute.match_substring_regex(column, FORMULA)
    risky = compute.and_(risky, compute.invert(compute.match_substring_regex(column, HARMLESS)))
    return compute.if_else(risky, compute.replace_substring_regex(column, r"\A", "'"), column)


def _escape_name(name: str) -> str:
    return f"'{name}" if re.match(FORMULA, name) and not re.match(HARMLESS, name) else name
