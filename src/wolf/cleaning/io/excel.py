"""Reader of the first sheet of an Excel file, through openpyxl (the extra `excel`)."""

import io
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from wolf.cleaning.io.table import Table, pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

MISSING_OPENPYXL = "is an Excel file, which needs openpyxl: pip install openpyxl, or convert it to CSV"


def read_excel(name: str, content: "pa.Buffer") -> Table:
    """Read the first sheet; the first complete row holds the column names.

    Args:
        name: for messages.
        content: a `pyarrow.Buffer`.
    """
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise ModuleNotFoundError(f"{name} {MISSING_OPENPYXL}", name="openpyxl") from error
    try:
        book = load_workbook(io.BytesIO(content.to_pybytes()), read_only=True, data_only=True)
    except Exception as error:  # a broken archive may raise any error
        raise ValueError(f"{name} is not an Excel file that can be read: {error}") from error
    rows = [row for row in book.worksheets[0].iter_rows(values_only=True) if any(cell is not None for cell in row)]
    width = max((sum(cell is not None for cell in row) for row in rows), default=0)
    first = next((i for i, row in enumerate(rows) if sum(cell is not None for cell in row) == width), 0)
    if not rows:
        raise ValueError(f"{name} is empty")
    names = [str(cell) for cell in rows[first] if cell is not None]
    places = [j for j, cell in enumerate(rows[first]) if cell is not None]
    body = rows[first + 1 :]
    data = pyarrow().table([_column([row[j] for row in body]) for j in places], names=names)
    notes = (f"the table starts in row {first + 1} of the sheet {book.worksheets[0].title!r}",) if first else ()
    return Table(name, data, "xlsx", ",", lambda: iter(data.to_batches()), notes=notes)


def _column(cells: list[Any]) -> "pa.Array":
    """Convert cells to numbers, dates or text."""
    arrow = pyarrow()
    present = [cell for cell in cells if cell is not None]
    if present and all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in present):
        return arrow.array([None if cell is None else float(cell) for cell in cells], arrow.float64())
    if present and all(isinstance(cell, date | datetime) for cell in present):
        return arrow.array(cells, arrow.timestamp("us"))
    return arrow.array([None if cell is None else str(cell) for cell in cells], arrow.string())
