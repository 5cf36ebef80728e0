"""Where a table lies in a text: its encoding, what stands above and below it, its delimiter and its names."""

import csv
import re
from collections import Counter
from typing import Any, NamedTuple

DELIMITERS = (";", "\t", "|", ",")  # of two that fit equally, the first: a comma may also stand inside a number
SPACES = " "  # columns apart by blanks, which are made tabs before the table is read
MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}  # that some programs put in front
COMMENT = "#"  # begins a line that is no row, where lines above the table begin so
HEAD = 1 << 16  # bytes that say how a file is laid out
LINES = 200  # and lines
SAME = 0.7  # share of the lines that must have as many cells, for what is above them to be told from them
DATA = re.compile(r"\s*[+\-−]?\s*[$€£¥₹]?\s*[.,]?\d.*", re.S)  # how a number or a date begins
FOREIGN = {  # how files begin that are often taken for CSV
    rb"\{|\[\s*[\[{\"\d]": "JSON",
    rb"(?i)<(!doctype|html|\?xml)": "HTML or XML",
    rb"PK\x03\x04|\xd0\xcf\x11\xe0": "an Excel file or an archive",
    rb"\x1f\x8b": "compressed by gzip; its name should end in .gz",
}
EXCEL = re.compile(r"(?i)sep=.\s*")  # a first line that tells Excel the delimiter
BINARY = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]")


class Placement(NamedTuple):
    """How a text holds a table.

    Attributes:
        delimiter: between cells; a blank for any number of them.
        names: of the columns.
        start: byte at which the first row begins.
        above: lines above the first row.
        comment: how lines begin that are no rows; nothing where there are none.
        notes: what was left out, for people.
    """

    delimiter: str
    names: list[str]
    start: int
    above: int
    comment: str
    notes: list[str]


def check_text(name: str, content: Any) -> None:
    """Say of a file that is no text what it is instead."""
    head = _bare(content.slice(0, min(content.size, HEAD)).to_pybytes())
    if not head.strip() and content.size <= HEAD:
        raise ValueError(f"{name} is empty")
    for start, what in FOREIGN.items():
        if re.match(start, head.lstrip()):
            raise ValueError(f"{name} looks like {what}, not like a table of CSV, Parquet or Arrow; save it as one")
    if not head.startswith((b"\xff\xfe", b"\xfe\xff")) and BINARY.search(head):
        raise ValueError(f"{name} is not a csv table that can be read: it holds bytes that are no text")


def to_utf8(content: Any) -> tuple[bytes, str]:
    """Write a text anew in UTF-8; its encoding is told by its mark, and is otherwise that of Windows in the West.

    Returns:
        The text, and the name of the encoding.
    """
    held = content.to_pybytes()
    for encoding in ("utf-8", *(each for mark, each in MARKS.items() if held.startswith(mark)), "cp1252", "latin-1"):
        try:
            return held.decode(encoding).encode(), encoding
        except UnicodeDecodeError:
            continue
    raise AssertionError("latin-1 takes every byte")


def find(name: str, content: Any, header: bool, skip: int | None, comment: str | None) -> Placement:
    """Find the table in a text in UTF-8.

    Args:
        name: of the file, for messages.
        content: a `pyarrow.Buffer`.
        header: whether the first line of the table holds names.
        skip: lines above it; None to find them.
        comment: how lines begin that are no rows; None to find out.
    """
    lines, complete = _lines(content)
    if skip is not None and skip >= len(lines) and complete:
        raise ValueError(f"--skip {skip} leaves nothing of {name}, which has {len(lines)} lines")
    marks = COMMENT if comment is None else comment
    first = next((i for i, line in enumerate(lines) if line.text.strip() and not _starts(line.text, marks)), len(lines))
    first += int(first < len(lines) and EXCEL.fullmatch(lines[first].text) is not None)
    first = first if skip is None else skip
    body = [line.text for line in lines[first:] if line.text.strip() and not _starts(line.text, marks)][:LINES]
    delimiter, width = _delimiter(body)
    notes: list[str] = []
    if skip is None and header:
        first += _preamble(lines[first:], delimiter, width)
    above = [line.text for line in lines[:first] if line.text.strip()]
    commented = any(_starts(text, marks) for text in above)
    names, top = _names(name, lines, first, above, delimiter, header, marks)
    if top < len(lines) and header and _is_units(lines[top:], delimiter, len(names)):
        notes.append(f"line {top + 1} holds units and not readings: left out ({lines[top].text.strip()})")
        top += 1
    left = len(above) - int(first == top and header)  # names may stand in the last comment
    if left > 0 and skip is None:
        notes.append(f"the table begins in line {first + 1}: {_some(left, 'line')} above it left out")
    start = lines[top].start if top < len(lines) else content.size
    if header and complete and not any(line.text.strip() for line in lines[top:]):
        raise ValueError(f"{name} has column names but no rows")
    return Placement(delimiter, names, start, top, marks if commented or comment else "", notes)


class _Line(NamedTuple):
    text: str
    start: int


def _bare(head: bytes) -> bytes:
    return head.removeprefix(b"\xef\xbb\xbf")


def _lines(content: Any) -> tuple[list[_Line], bool]:
    """Cut the head of a text into lines, with the byte at which each begins, and say whether that is all of it."""
    head = content.slice(0, min(content.size, HEAD)).to_pybytes()
    complete = content.size <= HEAD
    start = len(head) - len(_bare(head))
    lines = []
    for match in re.finditer(rb"([^\r\n]*)(\r\n|\r|\n|$)", head[start:]):
        if match.end() > match.start():
            lines.append(_Line(match[1].decode(errors="strict" if complete else "replace"), start + match.start()))
    return (lines if complete or len(lines) < 2 else lines[:-1]), complete


def _starts(text: str, mark: str) -> bool:
    return bool(mark) and text.lstrip().startswith(mark)


def cells_of(text: str, delimiter: str) -> list[str]:
    """Cut a line into cells.

    Example:
        >>> cells_of('1;"a;b"', ";"), cells_of(" 1   2", " ")
        (['1', 'a;b'], ['1', '2'])
    """
    return text.split() if delimiter == SPACES else next(csv.reader([text], delimiter=delimiter), [])


def _delimiter(body: list[str]) -> tuple[str, int]:
    """Choose what most lines are cut by into as many cells, more than one, and say how many that are."""
    best, found = (0.0, 0.0), (",", 1)
    for delimiter in (*DELIMITERS, SPACES):
        widths = Counter(len(cells_of(text, delimiter)) for text in body)
        width, count = max(widths.items(), key=lambda pair: (pair[0] > 1, pair[1]), default=(1, 0))
        share = count / max(len(body), 1)
        if width > 1 and (delimiter != SPACES or (share == 1.0 and best == (0.0, 0.0) and _numerous(body))):
            named = float(len(cells_of(body[0], delimiter)) == width)
            if (share, named) > best:
                best, found = (share, named), (delimiter, width)
    return found


def _numerous(body: list[str]) -> bool:
    """Say whether lines hold numbers with blanks between them, not texts nor dates with a time."""
    cells = [cell for text in body[1:] for cell in text.split()]
    return bool(cells) and all(re.fullmatch(r"[+-]?[\d.]+([eE][+-]?\d+)?|(?i:nan|na)", cell) for cell in cells)


def _preamble(lines: list[_Line], delimiter: str, width: int) -> int:
    """Count the lines above the names, which stand directly above a row, have as many cells, and hold no number."""
    widths = [len(cells_of(line.text, delimiter)) if line.text.strip() else 0 for line in lines[:LINES]]
    if width < 2 or not widths or widths[0] == width:
        return 0
    fits = (i for i in range(1, len(widths) - 1) if widths[i] == widths[i + 1] == width)
    first = next((i for i in fits if not any(map(DATA.fullmatch, cells_of(lines[i].text, delimiter)))), 0)
    below = [cells for cells in widths[first:] if cells]
    return first if below.count(width) >= SAME * len(below) else 0


def _names(
    name: str, lines: list[_Line], first: int, above: list[str], delimiter: str, header: bool, marks: str
) -> tuple[list[str], int]:
    """Read the names of the columns; return them and the line of the first row."""
    if first >= len(lines):
        raise ValueError(f"{name} holds comments and no table")
    cells = cells_of(lines[first].text, delimiter)
    if not header:
        return [f"column{i + 1}" for i in range(len(cells))], first
    if all(DATA.fullmatch(cell) for cell in cells):
        told = [cell.strip() for cell in cells_of(above[-1].lstrip(marks), delimiter)] if above and marks else []
        if len(told) == len(cells) and _starts(above[-1], marks) and not all(map(DATA.fullmatch, told)):
            return told, first
        raise ValueError(
            f"the first line of {name} holds numbers, not column names; if it is data, add --no-header, and --skip "
            "leaves out lines above the names"
        )
    return cells, first + 1


def _is_units(lines: list[_Line], delimiter: str, width: int) -> bool:
    """Say whether a line below the names holds no number while the next ones do."""
    rows = [cells_of(line.text, delimiter) for line in lines[:4] if line.text.strip()]
    if len(rows) < 3 or any(len(row) != width for row in rows):
        return False
    numbers = [[bool(DATA.fullmatch(cell)) for cell in row] for row in rows]
    words = [cell.strip() for cell in rows[0] if cell.strip()]
    unit = all(
        len(cell) <= 12 and cell.lower() not in ("na", "nan", "n/a", "null", "none", "-", "--") for cell in words
    )
    repeated = any(rows[0][j].strip() and rows[0][j] in (row[j] for row in rows[1:]) for j in range(width))
    return bool(words) and unit and not repeated and not any(numbers[0]) and all(map(any, numbers[1:])) and width > 1


def _some(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
