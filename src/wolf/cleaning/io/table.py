"""A table as read from a file, and a second pass over its rows."""

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

MISSING_PYARROW = "Files and tables need pyarrow, a dependency of wolf-filter that is missing here: pip install pyarrow"


class Table(NamedTuple):
    """A table as read.

    Attributes:
        name: of the file, for messages.
        data: a `pyarrow.Table`; of a CSV file, all text.
        kind: "csv", "parquet", "arrow", "xlsx", "gpx" or "nmea".
        delimiter: of a CSV file.
        reread: reads the rows again, as record batches, without the whole CSV file in memory.
        above: lines of a CSV file above its first row.
        encoding: of a CSV file.
        notes: remarks on what was left out or changed while reading.
    """

    name: str
    data: "pa.Table"
    kind: str
    delimiter: str
    reread: Callable[[], Iterator["pa.RecordBatch"]]
    above: int = 1
    encoding: str = "utf-8"
    notes: tuple[str, ...] = ()

    def without_rows(self) -> "Table":
        """Release the rows; `reread` still reads them."""
        return self._replace(data=pyarrow().Table.from_batches([], self.data.schema))


class RowReader:
    """Second pass over the rows of a table, in pieces of requested length.

    Args:
        table: whose rows may have been released.
    """

    def __init__(self, table: Table):
        self.name, self.batches, self.rest = table.name, table.reread(), None

    def read(self, count: int) -> "pa.Table":
        """Read the next rows, as a `pyarrow.Table`."""
        pieces: list[pa.Table] = []
        while count:
            if not self.rest:
                self.rest = next(self.batches, None)
            if self.rest is None:
                raise ValueError(f"{self.name} was changed while it was being filtered; run again")
            pieces.append(self.rest.slice(0, count))
            self.rest = self.rest.slice(len(pieces[-1]))
            count -= len(pieces[-1])
        return pyarrow().Table.from_batches(pieces)


def pyarrow() -> ModuleType:
    """Import pyarrow, or raise an error that names the package."""
    try:
        import pyarrow
    except ImportError as error:
        raise ModuleNotFoundError(MISSING_PYARROW, name="pyarrow") from error
    return pyarrow


def check_names(name: str, names: list[str]) -> None:
    """Raise an error for two columns with the same name."""
    twice = [each for each in names if names.count(each) > 1]
    if twice:
        raise ValueError(f"{name} has two columns called {twice[0]!r}; column names must differ")
