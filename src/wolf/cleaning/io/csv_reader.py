"""Read a CSV file, as people and loggers write it; its cells stay text."""

import io
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from zlib import crc32

from wolf.cleaning.io import csv_dialect
from wolf.cleaning.io.csv_dialect import Placement
from wolf.cleaning.io.table import Table, check_names, pyarrow

BLOCK = 1 << 17  # bytes that a table is read again by; pyarrow reads up to 32 of them ahead
FOOTER = 20  # lines below a table, at most
TAIL = 1 << 14  # bytes that they are among
SHOWN = 60  # letters of a row that a message shows


def read_text(name: str, content: Any, lasting: str | None, where: tuple[Any, ...], ragged: str) -> Table:
    """Read a CSV file.

    Args:
        name: for messages.
        content: a `pyarrow.Buffer`.
        lasting: the file that can be read once more; None for what is kept in memory instead.
        where: the table is: header, skip and comment of `layout.find`.
        ragged: "error", or "missing" to leave out rows of too many or too few cells.
    """
    csv_dialect.check_text(name, content)
    if content.slice(0, min(2, content.size)).to_pybytes() in csv_dialect.MARKS:
        return _read_changed(name, content, where, ragged)
    try:
        found = csv_dialect.find(name, content, *where)
        return _read(name, content, lasting, found, ragged)
    except (UnicodeDecodeError, pyarrow().ArrowInvalid) as error:
        if isinstance(error, UnicodeDecodeError) or "UTF8" in str(error):
            return _read_changed(name, content, where, ragged)
        raise


def _read_changed(name: str, content: Any, where: tuple[Any, ...], ragged: str) -> Table:
    """Read a text that is not in UTF-8."""
    text, encoding = csv_dialect.to_utf8(content)
    content = pyarrow().py_buffer(text)
    csv_dialect.check_text(name, content)
    table = _read(name, content, None, csv_dialect.find(name, content, *where), ragged)
    told = f"{name} is not in UTF-8: read as {encoding}, written in UTF-8"
    return table._replace(encoding=encoding, notes=(told, *table.notes))


def _read(name: str, content: Any, lasting: str | None, found: Placement, ragged: str) -> Table:
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
        rows, lasting = arrow.py_buffer(changed), None
    delimiter = "\t" if found.delimiter == csv_dialect.SPACES else found.delimiter
    options, odd = _options(found.names, delimiter, re.search(b'"', rows) is not None)
    reading = {"column_names": found.names, "use_threads": False}  # threads hold many blocks at once
    if not rows.size:
        raise ValueError(f"{name} has column names but no rows")
    data = arrow_csv.read_csv(arrow.BufferReader(rows), read_options=arrow_csv.ReadOptions(**reading), **options)
    notes += _judge_odd(name, odd, rows, found, ragged)
    options["read_options"] = arrow_csv.ReadOptions(**reading, block_size=max(BLOCK, _longest(data)))
    _check_quotes(name, rows, data)
    opened = partial(arrow.BufferReader, rows)
    if lasting is not None:
        opened = partial(_Unchanged, lasting, found.start, rows.size, crc32(rows))
    return Table(name, data, "csv", delimiter, partial(_pieces, opened, options), found.above, notes=tuple(notes))


def _options(names: list[str], delimiter: str, lines: bool) -> tuple[dict[str, Any], list[Any]]:
    """Say how pyarrow shall read, and make a list for the rows that have another number of cells: left out for now."""
    from pyarrow import csv as arrow_csv

    odd: list[Any] = []

    def keep(row: Any) -> str:
        odd.append(row)
        return "skip"

    # A text in quotes may go over several lines, and over a block's end.
    parsing: dict[str, Any] = {"delimiter": delimiter, "newlines_in_values": lines}
    parsing |= {"ignore_empty_lines": len(names) > 1, "invalid_row_handler": keep}
    types = dict.fromkeys(names, pyarrow().string())
    convert = arrow_csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    return {"parse_options": arrow_csv.ParseOptions(**parsing), "convert_options": convert}, odd


def _without_comments(rows: Any, mark: str, notes: list[str]) -> bytes | None:
    """Leave out lines that begin with a mark; None if there are none."""
    if not mark:
        return None
    line = re.compile(rb"(?m)^[ \t]*" + re.escape(mark.encode()) + rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")
    if not line.search(rows):
        return None
    text, count = line.subn(b"", bytes(rows))
    notes.append(f"{count} lines that begin with {mark} left out")
    return text


def _judge_odd(name: str, odd: list[Any], rows: Any, found: Placement, ragged: str) -> list[str]:
    """Tell lines below the table, and comments, from rows with too many or too few cells."""
    rest = [row for row in odd if not row.text.lstrip().startswith(csv_dialect.COMMENT)]
    tail = rows.slice(max(0, rows.size - TAIL)).to_pybytes().decode(errors="replace")
    last = [line.strip() for line in re.split(r"[\r\n]+", tail) if line.strip()]
    below = 0
    while below < min(len(rest), FOOTER) and rest[-1 - below].text.strip() == last[-1 - below]:
        below += 1
    words = [row for row in rest[len(rest) - below :] if not csv_dialect.DATA.fullmatch(row.text)]
    astray = [row for row in rest if row not in words]
    notes = [f"{len(odd) - len(rest)} comments among the rows left out"] if len(odd) > len(rest) else []
    if words:
        notes.append(f"{len(words)} lines below the table left out, as {words[0].text.strip()[:SHOWN]!r}")
    if astray and ragged == "error":
        first = astray[0]
        place = f"line {first.number + found.above}" if first.number is not None else "a row"
        raise ValueError(
            f"{name} is not a csv table that can be read: {place}: Expected {first.expected_columns} columns, got "
            f"{first.actual_columns}, in {first.text[:SHOWN]!r}. Use --on-bad-cell missing to leave such rows out"
        )
    if astray:
        notes.append(f"{len(astray)} rows with too many or too few cells left out, as {astray[0].text[:SHOWN]!r}")
    return notes


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
        start: byte at which its rows begin.
        size: in bytes from there, then.
        sum: of those bytes, by CRC-32.
    """

    def __init__(self, name: str, start: int, size: int, sum: int):
        super().__init__(name)
        self.seek(start)
        self.left, self.sum, self.seen = size, sum, 0

    def read(self, count: int | None = -1) -> bytes:
        """Read some bytes; the last ones only if all were as they are remembered."""
        block = super().read(self.left if count is None or count < 0 else min(count, self.left)) or b""
        self.left, self.seen = self.left - len(block), crc32(block, self.seen)
        if (self.left and not block) or (not self.left and self.seen != self.sum):
            raise ValueError(f"{self.name} was changed while it was being filtered; run again")
        return block


def _check_quotes(name: str, content: Any, data: Any) -> None:
    """Refuse a last cell over several lines in a file with an odd number of quotes: one was never closed."""
    last = [column[-1].as_py() for column in data.columns] if data.num_rows else []
    if any("\n" in cell or "\r" in cell for cell in last) and len(re.findall(b'"', content)) % 2:
        raise ValueError(f"{name} opens a quote that is never closed, in or before {last[0]!r} of its last row")
