"""CSV reader: detects the dialect, and keeps the cells as text."""

import io
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any
from zlib import crc32

from wolf.cleaning.io import csv_dialect
from wolf.cleaning.io.csv_dialect import Dialect
from wolf.cleaning.io.table import Table, check_names, pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_BYTES = 1 << 17  # of one piece of the second pass; pyarrow reads up to 32 pieces ahead
MAX_FOOTER_LINES = 20  # below a table
TAIL_BYTES = 1 << 14  # in which footer lines are searched
MAX_SHOWN_CHARS = 60  # of a row in a message


def read_text(
    name: str, content: "pa.Buffer", path: str | None, where: tuple[bool, int | None, str | None], ragged: str
) -> Table:
    """Read a CSV file.

    Args:
        name: for messages.
        content: a `pyarrow.Buffer`.
        path: of the file, if it can be read again; None to keep the content in memory.
        where: header, skip and comment of `csv_dialect.detect`.
        ragged: "error", or "missing" to skip rows with too many or too few cells.
    """
    csv_dialect.check_text(name, content)
    if content.slice(0, min(2, content.size)).to_pybytes() in csv_dialect.BYTE_ORDER_MARKS:
        return _read_other_encoding(name, content, where, ragged)
    try:
        found = csv_dialect.detect(name, content, *where)
        return _read(name, content, path, found, ragged)
    except (UnicodeDecodeError, pyarrow().ArrowInvalid) as error:
        if isinstance(error, UnicodeDecodeError) or "UTF8" in str(error):
            return _read_other_encoding(name, content, where, ragged)
        raise


def _read_other_encoding(
    name: str, content: "pa.Buffer", where: tuple[bool, int | None, str | None], ragged: str
) -> Table:
    """Read a text that is not in UTF-8."""
    text, encoding = csv_dialect.to_utf8(content)
    content = pyarrow().py_buffer(text)
    csv_dialect.check_text(name, content)
    table = _read(name, content, None, csv_dialect.detect(name, content, *where), ragged)
    note = f"{name} is not in UTF-8: read as {encoding}, written in UTF-8"
    return table._replace(encoding=encoding, notes=(note, *table.notes))


def _read(name: str, content: "pa.Buffer", path: str | None, found: Dialect, ragged: str) -> Table:
    from pyarrow import csv as arrow_csv

    arrow = pyarrow()
    check_names(name, found.names)
    rows = content.slice(found.start)
    notes = [*found.notes]
    changed = _without_comments(rows, found.comment, notes)
    if found.delimiter == csv_dialect.SPACES:
        changed = re.sub(rb"(?m)^ +| +$", b"", bytes(rows if changed is None else changed))
        changed = re.sub(rb" +", b"\t", changed)
    if changed is not None:
        rows, path = arrow.py_buffer(changed), None
    delimiter = "\t" if found.delimiter == csv_dialect.SPACES else found.delimiter
    options, ragged_rows = _options(found.names, delimiter, re.search(b'"', rows) is not None)
    reading = {"column_names": found.names, "use_threads": False}  # threads would keep many blocks in memory
    if not rows.size:
        raise ValueError(f"{name} has column names but no rows")
    data = arrow_csv.read_csv(arrow.BufferReader(rows), read_options=arrow_csv.ReadOptions(**reading), **options)
    notes += _check_ragged(name, ragged_rows, rows, found, ragged)
    options["read_options"] = arrow_csv.ReadOptions(**reading, block_size=max(BLOCK_BYTES, _longest(data)))
    _check_quotes(name, rows, data)
    open_rows = partial(arrow.BufferReader, rows)
    if path is not None:
        open_rows = partial(_VerifiedFile, path, found.start, rows.size, crc32(rows))
    return Table(name, data, "csv", delimiter, partial(_pieces, open_rows, options), found.above, notes=tuple(notes))


def _options(names: list[str], delimiter: str, lines: bool) -> tuple[dict[str, Any], list["pa.csv.InvalidRow"]]:
    """Build the options of pyarrow, and the list that collects rows with a wrong number of cells."""
    from pyarrow import csv as arrow_csv

    ragged: list[pa.csv.InvalidRow] = []

    def keep(row: "pa.csv.InvalidRow") -> str:
        ragged.append(row)
        return "skip"

    # A quoted text may span several lines, and the end of a block.
    parsing: dict[str, Any] = {"delimiter": delimiter, "newlines_in_values": lines}
    parsing |= {"ignore_empty_lines": len(names) > 1, "invalid_row_handler": keep}
    types = dict.fromkeys(names, pyarrow().string())
    convert = arrow_csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    return {"parse_options": arrow_csv.ParseOptions(**parsing), "convert_options": convert}, ragged


def _without_comments(rows: "pa.Buffer", mark: str, notes: list[str]) -> bytes | None:
    """Remove comment lines; None if there are none."""
    if not mark:
        return None
    line = re.compile(rb"(?m)^[ \t]*" + re.escape(mark.encode()) + rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")
    if not line.search(rows):
        return None
    text, count = line.subn(b"", bytes(rows))
    notes.append(f"{count} comment lines ({mark}) left out")
    return text


def _check_ragged(
    name: str, ragged_rows: list["pa.csv.InvalidRow"], rows: "pa.Buffer", found: Dialect, ragged: str
) -> list[str]:
    """Separate footer lines and comments from rows with a wrong number of cells; an error for the latter."""
    rest = [row for row in ragged_rows if not row.text.lstrip().startswith(csv_dialect.DEFAULT_COMMENT)]
    tail = rows.slice(max(0, rows.size - TAIL_BYTES)).to_pybytes().decode(errors="replace")
    last = [line.strip() for line in re.split(r"[\r\n]+", tail) if line.strip()]
    below = 0
    while below < min(len(rest), MAX_FOOTER_LINES) and rest[-1 - below].text.strip() == last[-1 - below]:
        below += 1
    words = [row for row in rest[len(rest) - below :] if not csv_dialect.DATA.fullmatch(row.text)]
    wrong = [row for row in rest if row not in words]
    num_comments = len(ragged_rows) - len(rest)
    notes = [f"{num_comments} comments among the rows left out"] if num_comments else []
    if words:
        notes.append(
            f"{len(words)} lines below the table left out, such as {words[0].text.strip()[:MAX_SHOWN_CHARS]!r}"
        )
    if wrong and ragged == "error":
        first = wrong[0]
        place = f"line {first.number + found.above}" if first.number is not None else "a row"
        raise ValueError(
            f"{name} is not a csv table that can be read: {place}: Expected {first.expected_columns} columns, got "
            f"{first.actual_columns}, in {first.text[:MAX_SHOWN_CHARS]!r}. Use --on-bad-cell missing to skip such "
            "rows"
        )
    if wrong:
        shown = wrong[0].text[:MAX_SHOWN_CHARS]
        notes.append(f"{len(wrong)} rows with too many or too few cells left out, such as {shown!r}")
    return notes


def _longest(data: "pa.Table") -> int:
    """Bound the bytes of a row with doubled quotes: a block must contain a whole row."""
    from pyarrow import compute

    return sum(2 * (compute.max(compute.binary_length(column)).as_py() or 0) + 4 for column in data.columns)


def _pieces(open_rows: Callable[[], "pa.NativeFile"], options: dict[str, Any]) -> Iterator["pa.RecordBatch"]:
    """Read a CSV file in pieces."""
    from pyarrow import csv as arrow_csv

    with open_rows() as file, arrow_csv.open_csv(file, **options) as reader:
        yield from reader


class _VerifiedFile(io.FileIO):
    """Second pass over a file: the bytes of the first pass, verified by a checksum; appended bytes are ignored.

    Args:
        name: of the file.
        start: byte offset of its rows.
        size: number of bytes of the first pass.
        checksum: CRC-32 of these bytes.
    """

    def __init__(self, name: str, start: int, size: int, checksum: int):
        super().__init__(name)
        self.seek(start)
        self.left, self.checksum, self.current = size, checksum, 0

    def read(self, count: int | None = -1) -> bytes:
        """Read bytes; raises an error at the end if the checksum differs."""
        block = super().read(self.left if count is None or count < 0 else min(count, self.left)) or b""
        self.left, self.current = self.left - len(block), crc32(block, self.current)
        if (self.left and not block) or (not self.left and self.current != self.checksum):
            raise ValueError(f"{self.name} was changed while it was being filtered; run again")
        return block


def _check_quotes(name: str, content: "pa.Buffer", data: "pa.Table") -> None:
    """Raise an error for an unclosed quote: an odd number of quotes, and a last cell that spans several lines."""
    last = [column[-1].as_py() for column in data.columns] if data.num_rows else []
    if any("\n" in cell or "\r" in cell for cell in last) and len(re.findall(b'"', content)) % 2:
        raise ValueError(f"{name} has an unclosed quote in or before {last[0]!r} of its last row")
