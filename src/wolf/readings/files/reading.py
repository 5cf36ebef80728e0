"""Read a table, whatever kind of file it is in."""

import csv
import io
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from wolf.storage import is_special

DELIMITERS = (",", ";", "\t", "|")
SUFFIXES = {".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow"}
MAGIC = {b"PAR1": "parquet", b"ARRO": "arrow"}
BLOCK = 1 << 17  # bytes that a table is read again by; pyarrow reads up to 32 of them ahead
COMPRESSED = (".gz", ".bz2", ".zst")
MARK = b"\xef\xbb\xbf"  # that some programs put before UTF-8
HEAD = 1 << 16  # bytes that the names are among
FOREIGN = {  # how files begin that are often taken for CSV
    rb"\{|\[\s*[\[{\"\d]": "JSON",
    rb"(?i)<(!doctype|html|\?xml)": "HTML or XML",
    rb"PK\x03\x04|\xd0\xcf\x11\xe0": "an Excel file or an archive",
    rb"\x1f\x8b": "compressed by gzip; its name should end in .gz",
}
NOT_UTF8 = "its text is not in UTF-8; save it so, for instance by `iconv -f latin1 -t utf-8`"
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
    """

    name: str
    data: Any
    kind: str
    delimiter: str
    again: Callable[[], Iterator[Any]]

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


def read_table(source: str, header: bool = True) -> Table:
    """Read a file, or standard input.

    Args:
        source: path, or "-".
        header: whether the first line of a CSV file holds names; without, columns are called column1, column2, ...
    """
    arrow = pyarrow()
    if source == "-":
        if sys.stdin is None or sys.stdin.closed:
            raise ValueError("standard input is closed; name a file, or pipe one in")
        name, content = "standard input", arrow.py_buffer(sys.stdin.buffer.read())
    else:
        name, content = source, _map(arrow, Path(source))
    if not content.size:
        raise ValueError(f"{name} is empty")
    kind = SUFFIXES.get(Path(source).suffix.lower()) or MAGIC.get(
        content.slice(0, min(4, content.size)).to_pybytes(), "csv"
    )
    try:
        table = _read_csv(source, name, content, header) if kind == "csv" else _read_binary(name, content, kind)
    except (arrow.ArrowException, UnicodeDecodeError) as error:
        foreign = isinstance(error, UnicodeDecodeError) or "invalid UTF8" in str(error)
        raise ValueError(f"{name} is not a {kind} table that can be read: {NOT_UTF8 if foreign else error}") from error
    _check_names(name, table.data.column_names)
    if not table.data.num_rows:
        raise ValueError(f"{name} has column names but no rows")
    return table


def _map(arrow: Any, path: Path) -> Any:
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, not a file")
    if is_special(path) or not path.stat().st_size:  # a pipe has no size, nor have files of the system
        return _unpack(arrow, path, arrow.py_buffer(path.read_bytes()))
    if path.suffix.lower() in COMPRESSED:
        with arrow.input_stream(str(path), compression="detect") as stream:
            return stream.read_buffer()
    with arrow.memory_map(str(path)) as stream:
        return stream.read_buffer()


def _unpack(arrow: Any, path: Path, content: Any) -> Any:
    if path.suffix.lower() not in COMPRESSED or not content.size:
        return content
    kind = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}[path.suffix.lower()]
    with arrow.input_stream(arrow.BufferReader(content), compression=kind) as stream:
        return stream.read_buffer()


def _read_binary(name: str, content: Any, kind: str) -> Table:
    reader = pyarrow().BufferReader(content)
    if kind == "parquet":
        from pyarrow import parquet

        file = parquet.ParquetFile(reader)
        _check_names(name, file.schema_arrow.names)
        data = file.read()
    else:
        from pyarrow import feather

        data = feather.read_table(reader)
    return Table(name, data, kind, ",", lambda: iter(data.to_batches()))


def _read_csv(source: str, name: str, content: Any, header: bool) -> Table:
    from pyarrow import csv as arrow_csv

    first, alone = _first_line(name, content)
    delimiter = max(DELIMITERS, key=first.count) if any(d in first for d in DELIMITERS) else ","
    names = next(csv.reader([first], delimiter=delimiter), [])
    if not header:
        names = [f"column{i + 1}" for i in range(len(names))]
    elif not first.strip():
        raise ValueError(f"the first line of {name} is empty; it must hold the names of the columns")
    elif all(_is_numeral(cell) for cell in names):
        raise ValueError(f"the first line of {name} holds numbers, not column names; if it is data, add --no-header")
    elif alone:
        raise ValueError(f"{name} has column names but no rows")
    _check_names(name, names)
    types = dict.fromkeys(names, pyarrow().string())
    # One thread: parsing is a small part of a run, and threads hold many blocks at once.
    reading = {"column_names": names, "skip_rows": 1 if header else 0, "use_threads": False}
    parsing = {"delimiter": delimiter, "ignore_empty_lines": len(names) > 1}
    lines = re.search(b'"', content) is not None  # a text in quotes may go over several lines, and over a block's end
    options: dict[str, Any] = {
        "parse_options": arrow_csv.ParseOptions(**parsing, newlines_in_values=lines),
        "convert_options": arrow_csv.ConvertOptions(column_types=types, strings_can_be_null=False),
    }
    whole = arrow_csv.ReadOptions(**reading)
    data = arrow_csv.read_csv(pyarrow().BufferReader(content), read_options=whole, **options)
    options["read_options"] = arrow_csv.ReadOptions(**reading, block_size=max(BLOCK, _longest(data)))
    _check_quotes(name, content, data)
    if source == "-" or is_special(source) or Path(source).suffix.lower() in COMPRESSED:
        again = partial(_pieces, partial(pyarrow().BufferReader, content), options)
    else:
        again = partial(_pieces, partial(_Unchanged, source, content.size, crc32(content)), options)
    return Table(name, data, "csv", delimiter, again)


def _longest(data: Any) -> int:
    """Bound the bytes of a row, its quotes doubled: a block must hold one."""
    from pyarrow import compute

    return sum(2 * (compute.max(compute.binary_length(column)).as_py() or 0) + 4 for column in data.columns)


def _pieces(opened: Callable[[], Any], options: dict[str, Any]) -> Iterator[Any]:
    """Read a CSV file in pieces."""
    from pyarrow import csv as arrow_csv

    with opened() as file, arrow_csv.open_csv(file, **options) as reader:
        yield from reader


class _Unchanged(io.FileIO):
    """A file that is read once more: what was there then, and not what may have been added.

    Args:
        name: of the file.
        size: in bytes, then.
        sum: of those bytes, by CRC-32.
    """

    def __init__(self, name: str, size: int, sum: int):
        super().__init__(name)
        self.left, self.sum, self.seen = size, sum, 0

    def read(self, count: int | None = -1) -> bytes:
        """Read some bytes; the last ones only if all were as they are remembered."""
        block = super().read(self.left if count is None or count < 0 else min(count, self.left)) or b""
        self.left, self.seen = self.left - len(block), crc32(block, self.seen)
        if (self.left and not block) or (not self.left and self.seen != self.sum):
            raise ValueError(f"{self.name} was changed while it was filtered; run again")
        return block


def _first_line(name: str, content: Any) -> tuple[str, bool]:
    """Read the first line and say whether it is the only one; or what the file is instead of a table."""
    head = content.slice(0, min(content.size, HEAD)).to_pybytes()
    bare = head.removeprefix(MARK)
    if not bare.strip() and content.size <= HEAD:
        raise ValueError(f"{name} is empty")
    for start, what in FOREIGN.items():
        if re.match(start, bare.lstrip()):
            raise ValueError(f"{name} looks like {what}, not like a table of CSV, Parquet or Arrow; save it as one")
    line, *rest = re.split(rb"[\r\n]", bare, maxsplit=1)
    text = line.decode()
    if "\0" in text:
        raise ValueError(f"{name} is not a csv table that can be read: it holds zero bytes")
    return text, content.size <= HEAD and not b"".join(rest).strip()


def _check_names(name: str, names: list[str]) -> None:
    twice = [each for each in names if names.count(each) > 1]
    if twice:
        raise ValueError(f"{name} has two columns called {twice[0]!r}; column names must differ")


def _check_quotes(name: str, content: Any, data: Any) -> None:
    """Refuse a last cell over several lines in a file with an odd number of quotes: one was never closed."""
    last = [column[-1].as_py() for column in data.columns] if data.num_rows else []
    if any("\n" in cell or "\r" in cell for cell in last) and len(re.findall(b'"', content)) % 2:
        raise ValueError(f"{name} opens a quote that is never closed, in or before {last[0]!r} of its last row")


def _is_numeral(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
