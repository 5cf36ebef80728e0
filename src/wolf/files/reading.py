"""Read a table, whatever kind of file it is in."""

import csv
import io
import sys
from pathlib import Path
from typing import Any, NamedTuple

DELIMITERS = (",", ";", "\t", "|")
SUFFIXES = {".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow"}
MAGIC = {b"PAR1": "parquet", b"ARRO": "arrow"}
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
    """

    name: str
    data: Any
    kind: str
    delimiter: str = ","


def pyarrow() -> Any:
    """Import pyarrow, or name the extra that brings it."""
    try:
        import pyarrow
    except ImportError as error:
        raise ModuleNotFoundError(MISSING_PYARROW, name="pyarrow") from error
    return pyarrow


def read_table(source: str, header: bool = True) -> Table:
    """Read a file, or standard input.

    Args:
        source: path, or "-".
        header: whether the first line of a CSV file holds names; without, columns are called column1, column2, ...
    """
    arrow = pyarrow()
    if source == "-":
        name, content = "standard input", arrow.py_buffer(sys.stdin.buffer.read())
    else:
        name, content = source, _map(arrow, Path(source))
    if not content.size:
        raise ValueError(f"{name} is empty")
    kind = SUFFIXES.get(Path(source).suffix.lower()) or MAGIC.get(content.slice(0, 4).to_pybytes(), "csv")
    try:
        table = _read_csv(name, content, header) if kind == "csv" else Table(name, _read_binary(content, kind), kind)
    except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError, UnicodeDecodeError) as error:
        raise ValueError(f"{name} is not a {kind} table that can be read: {error}") from error
    if not table.data.num_rows:
        raise ValueError(f"{name} has column names but no rows")
    return table


def _map(arrow: Any, path: Path) -> Any:
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, not a file")
    if not path.stat().st_size:
        return arrow.py_buffer(b"")
    if path.suffix.lower() in (".gz", ".bz2", ".zst"):
        with arrow.input_stream(str(path), compression="detect") as stream:
            return stream.read_buffer()
    with arrow.memory_map(str(path)) as stream:
        return stream.read_buffer()


def _read_binary(content: Any, kind: str) -> Any:
    reader = pyarrow().BufferReader(content)
    if kind == "parquet":
        from pyarrow import parquet

        return parquet.read_table(reader)
    from pyarrow import feather

    return feather.read_table(reader)


def _read_csv(name: str, content: Any, header: bool) -> Table:
    from pyarrow import csv as arrow_csv

    first = _first_line(content)
    delimiter = max(DELIMITERS, key=first.count) if any(d in first for d in DELIMITERS) else ","
    names = next(csv.reader([first], delimiter=delimiter), [])
    if not header:
        names = [f"column{i + 1}" for i in range(len(names))]
    elif names and all(_is_numeral(cell) for cell in names):
        raise ValueError(f"the first line of {name} holds numbers, not column names; if it is data, add --no-header")
    twice = [cell for cell in names if names.count(cell) > 1]
    if twice:
        raise ValueError(f"{name} has two columns called {twice[0]!r}; column names must differ")
    text = pyarrow().string()
    data = arrow_csv.read_csv(
        pyarrow().BufferReader(content),
        # One thread: parsing is a small part of a run, and threads hold many blocks at once.
        read_options=arrow_csv.ReadOptions(column_names=names, skip_rows=1 if header else 0, use_threads=False),
        parse_options=arrow_csv.ParseOptions(delimiter=delimiter, ignore_empty_lines=len(names) > 1),
        convert_options=arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, text), strings_can_be_null=False),
    )
    return Table(name, data, "csv", delimiter)


def _first_line(content: Any) -> str:
    line = io.BytesIO(content.slice(0, min(content.size, 1 << 16)).to_pybytes()).readline()
    return line.decode("utf-8-sig").rstrip("\r\n")


def _is_numeral(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
