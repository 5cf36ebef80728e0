"""Detection of a CSV dialect: encoding, lines above and below the table, delimiter and column names."""

import csv
import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

DELIMITERS = (";", "\t", "|", ",")  # in order of preference: a comma may also be part of a number
SPACES = " "  # columns separated by spaces, which are replaced by tabs before parsing
BYTE_ORDER_MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
DEFAULT_COMMENT = "#"  # prefix of comment lines, if lines above the table have it
HEAD_BYTES = 1 << 16  # from which the dialect is inferred
MAX_LINES = 200  # of these
MIN_ROW_SHARE = 0.7  # of lines with the same number of cells, for the lines above them to be a preamble
DATA = re.compile(r"\s*[+\-−]?\s*[$€£¥₹]?\s*[.,]?\d.*", re.S)  # start of a number or a date
OTHER_FORMATS = {  # start of files that are often mistaken for CSV
    rb"\{|\[\s*[\[{\"\d]": "JSON",
    rb"(?i)<(!doctype|html|\?xml)": "HTML or XML",
    rb"PK\x03\x04|\xd0\xcf\x11\xe0": "an Excel file or an archive",
    rb"\x1f\x8b": "compressed by gzip; its name should end in .gz",
}
EXCEL = re.compile(r"(?i)sep=.\s*")  # first line that names the delimiter for Excel
BINARY = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]")


class Dialect(NamedTuple):
    """Layout of a table in a text file.

    Attributes:
        delimiter: between cells; a space stands for one or more.
        names: of the columns.
        start: byte offset of the first row.
        above: number of lines above the first row.
        comment: prefix of comment lines; empty if there are none.
        notes: remarks on what was left out.
    """

    delimiter: str
    names: list[str]
    start: int
    above: int
    comment: str
    notes: list[str]


def check_text(name: str, content: "pa.Buffer") -> None:
    """Raise an error for a file of another format, or a binary file."""
    head = _without_mark(content.slice(0, min(content.size, HEAD_BYTES)).to_pybytes())
    if not head.strip() and content.size <= HEAD_BYTES:
        raise ValueError(f"{name} is empty")
    for start, what in OTHER_FORMATS.items():
        if re.match(start, head.lstrip()):
            raise ValueError(
                f"{name} looks like {what}, not like a table in CSV, Parquet or Arrow format; convert it first"
            )
    if not head.startswith((b"\xff\xfe", b"\xfe\xff")) and BINARY.search(head):
        raise ValueError(f"{name} is not a csv table that can be read: it contains bytes that are no text")


def to_utf8(content: "pa.Buffer") -> tuple[bytes, str]:
    """Convert a text to UTF-8, from the encoding of its byte order mark, or else from Windows-1252.

    Returns:
        The text, and the name of its encoding.
    """
    text = content.to_pybytes()
    for encoding in (
        "utf-8",
        *(each for mark, each in BYTE_ORDER_MARKS.items() if text.startswith(mark)),
        "cp1252",
        "latin-1",
    ):
        try:
            return text.decode(encoding).encode(), encoding
        except UnicodeDecodeError:
            continue
    raise AssertionError("latin-1 decodes every byte")


def detect(name: str, content: "pa.Buffer", header: bool, skip: int | None, comment: str | None) -> Dialect:
    """Detect the dialect of a UTF-8 text.

    Args:
        name: of the file, for messages.
        content: a `pyarrow.Buffer`.
        header: whether the first line of the table holds names.
        skip: number of lines above it; None to detect it.
        comment: prefix of comment lines; None to detect it.
    """
    lines, complete = _lines(content)
    if skip is not None and skip >= len(lines) and complete:
        raise ValueError(f"--skip {skip} skips all of {name}, which has {len(lines)} lines")
    mark = DEFAULT_COMMENT if comment is None else comment
    first = next((i for i, line in enumerate(lines) if line.text.strip() and not _starts(line.text, mark)), len(lines))
    first += int(first < len(lines) and EXCEL.fullmatch(lines[first].text) is not None)
    first = first if skip is None else skip
    body = [line.text for line in lines[first:] if line.text.strip() and not _starts(line.text, mark)][:MAX_LINES]
    delimiter, width = _delimiter(body)
    notes: list[str] = []
    if skip is None and header:
        first += _preamble(lines[first:], delimiter, width)
    above = [line.text for line in lines[:first] if line.text.strip()]
    commented = any(_starts(text, mark) for text in above)
    names, top = _names(name, lines, first, above, delimiter, header, mark)
    if top < len(lines) and header and _is_units(lines[top:], delimiter, len(names)):
        notes.append(f"line {top + 1} holds units and is left out ({lines[top].text.strip()})")
        top += 1
    num_above = len(above) - int(first == top and header)  # the last comment may hold the names
    if num_above > 0 and skip is None:
        notes.append(f"the table starts in line {first + 1}: {_count(num_above, 'line')} above it left out")
    start = lines[top].start if top < len(lines) else content.size
    if header and complete and not any(line.text.strip() for line in lines[top:]):
        raise ValueError(f"{name} has column names but no rows")
    return Dialect(delimiter, names, start, top, mark if commented or comment else "", notes)


class _Line(NamedTuple):
    """A line and its byte offset."""

    text: str
    start: int


def _without_mark(head: bytes) -> bytes:
    return head.removeprefix(b"\xef\xbb\xbf")


def _lines(content: "pa.Buffer") -> tuple[list[_Line], bool]:
    """Split the head of a text into lines with byte offsets; and whether the head is the whole text."""
    head = content.slice(0, min(content.size, HEAD_BYTES)).to_pybytes()
    complete = content.size <= HEAD_BYTES
    start = len(head) - len(_without_mark(head))
    lines = []
    for match in re.finditer(rb"([^\r\n]*)(\r\n|\r|\n|$)", head[start:]):
        if match.end() > match.start():
            lines.append(_Line(match[1].decode(errors="strict" if complete else "replace"), start + match.start()))
    return (lines if complete or len(lines) < 2 else lines[:-1]), complete


def _starts(text: str, mark: str) -> bool:
    return bool(mark) and text.lstrip().startswith(mark)


def cells_of(text: str, delimiter: str) -> list[str]:
    """Split a line into cells.

    Example:
        >>> cells_of('1;"a;b"', ";"), cells_of(" 1   2", " ")
        (['1', 'a;b'], ['1', '2'])
    """
    return text.split() if delimiter == SPACES else next(csv.reader([text], delimiter=delimiter), [])


def _delimiter(body: list[str]) -> tuple[str, int]:
    """Select the delimiter that splits most lines into the same number of cells, more than one; and that number."""
    best, found = (0.0, 0.0), (",", 1)
    for delimiter in (*DELIMITERS, SPACES):
        widths = Counter(len(cells_of(text, delimiter)) for text in body)
        width, count = max(widths.items(), key=lambda pair: (pair[0] > 1, pair[1]), default=(1, 0))
        share = count / max(len(body), 1)
        if width > 1 and (delimiter != SPACES or (share == 1.0 and best == (0.0, 0.0) and _is_numeric(body))):
            named = float(len(cells_of(body[0], delimiter)) == width)
            if (share, named) > best:
                best, found = (share, named), (delimiter, width)
    return found


def _is_numeric(body: list[str]) -> bool:
    """Check whether lines hold numbers separated by spaces, and no text or dates with times."""
    cells = [cell for text in body[1:] for cell in text.split()]
    return bool(cells) and all(re.fullmatch(r"[+-]?[\d.]+([eE][+-]?\d+)?|(?i:nan|na)", cell) for cell in cells)


def _preamble(lines: list[_Line], delimiter: str, width: int) -> int:
    """Count the lines above the header, which is directly above a row of as many cells and holds no number."""
    widths = [len(cells_of(line.text, delimiter)) if line.text.strip() else 0 for line in lines[:MAX_LINES]]
    if width < 2 or not widths or widths[0] == width:
        return 0
    fits = (i for i in range(1, len(widths) - 1) if widths[i] == widths[i + 1] == width)
    first = next((i for i in fits if not any(map(DATA.fullmatch, cells_of(lines[i].text, delimiter)))), 0)
    below = [cells for cells in widths[first:] if cells]
    return first if below.count(width) >= MIN_ROW_SHARE * len(below) else 0


def _names(
    name: str, lines: list[_Line], first: int, above: list[str], delimiter: str, header: bool, mark: str
) -> tuple[list[str], int]:
    """Read the column names; return them and the line number of the first row."""
    if first >= len(lines):
        raise ValueError(f"{name} contains comments but no table")
    cells = cells_of(lines[first].text, delimiter)
    if not header:
        return [f"column{i + 1}" for i in range(len(cells))], first
    if all(DATA.fullmatch(cell) for cell in cells):
        comment = [cell.strip() for cell in cells_of(above[-1].lstrip(mark), delimiter)] if above and mark else []
        if len(comment) == len(cells) and _starts(above[-1], mark) and not all(map(DATA.fullmatch, comment)):
            return comment, first
        raise ValueError(
            f"the first line of {name} holds numbers, not column names; add --no-header if it is data, or --skip if "
            "the names are below"
        )
    return cells, first + 1


def _is_units(lines: list[_Line], delimiter: str, width: int) -> bool:
    """Check whether a line below the names holds units: no number, unlike the next lines."""
    rows = [cells_of(line.text, delimiter) for line in lines[:4] if line.text.strip()]
    if len(rows) < 3 or any(len(row) != width for row in rows):
        return False
    numbers = [[bool(DATA.fullmatch(cell)) for cell in row] for row in rows]
    words = [cell.strip() for cell in rows[0] if cell.strip()]
    short = all(
        len(cell) <= 12 and cell.lower() not in ("na", "nan", "n/a", "null", "none", "-", "--") for cell in words
    )
    repeated = any(rows[0][j].strip() and rows[0][j] in (row[j] for row in rows[1:]) for j in range(width))
    return bool(words) and short and not repeated and not any(numbers[0]) and all(map(any, numbers[1:])) and width > 1


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
