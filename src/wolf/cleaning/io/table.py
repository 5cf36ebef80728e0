"""A table as it was read, and its rows once more."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

MISSING_PYARROW = (
    'Files and tables need pyarrow: pip install "wolf-filter[frames]" (in a clone of wolf: pip install ".[frames]")'
)


class Table(NamedTuple):
    """A table as read.

    Attributes:
        name: of the file, for messages.
        data: a `pyarrow.Table`; of a CSV file, all text.
        kind: "csv", "parquet" or "arrow".
        delimiter: of a CSV file.
        again: reads the rows once more, as record batches, without the whole of a CSV file in memory.
        above: lines of a CSV file above its first row.
        encoding: of a CSV file.
        notes: what was left out or changed when it was read, for people.
    """

    name: str
    data: Any
    kind: str
    delimiter: str
    again: Callable[[], Iterator[Any]]
    above: int = 1
    encoding: str = "utf-8"
    notes: tuple[str, ...] = ()

    def without_rows(self) -> "Table":
        """Let go of the rows; `again` still reads them."""
        return self._replace(data=pyarrow().Table.from_batches([], self.data.schema))


class Rows:
    """The rows of a table once more, as many at a time as are asked for.

    Args:
        table: whose rows may have been let go.
    """

    def __init__(self, table: Table):
        self.name, self.batches, self.rest = table.name, table.again(), None

    def take(self, count: int) -> Any:
        """Take the next rows, as a `pyarrow.Table`."""
        taken: list[Any] = []
        while count:
            if not self.rest:
                self.rest = next(self.batches, None)
            if self.rest is None:
                raise ValueError(f"{self.name} was changed while it was filtered; run again")
            taken.append(self.rest.slice(0, count))
            self.rest = self.rest.slice(len(taken[-1]))
            count -= len(taken[-1])
        return pyarrow().Table.from_batches(taken)


def pyarrow() -> Any:
    """Import pyarrow, or name the extra that brings it."""
    try:
        import pyarrow
    except ImportError as error:
        raise ModuleNotFoundError(MISSING_PYARROW, name="pyarrow") from error
    return pyarrow


def check_names(name: str, names: list[str]) -> None:
    """Refuse two columns of one name."""
    twice = [each for each in names if names.count(each) > 1]
    if twice:
        raise ValueError(f"{name} has two columns called {twice[0]!r}; column names must differ")
