"""Parsing of stream rows: key, time and values from CSV lines, JSON lines or JSON objects."""

import csv
import json
import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

import numpy as np

Cell = Any  # of a CSV line or a JSON object, before it is checked
JsonObject = dict[str, Any]  # decoded
LineT = TypeVar("LineT")  # a line of text, or a decoded JSON object

DELIMITERS = ",;\t|"
MIN_LINES_FOR_ARROW = 200  # below this the fixed cost of Arrow's CSV reader exceeds the gain
# Bytes for which Arrow and Python agree: no quotes, and no characters that only one of them treats as white space.
PLAIN_BYTES = bytes(set(range(0x21, 0x7F)) - {ord('"')} | {ord("\n")})
REPLACEMENT_CHARACTER = "\ufffd"  # decoded from bytes that are not UTF-8
UNSUITABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")  # in keys: neither stored nor shown by every tool
MAX_EXAMPLE_LENGTH = 80  # characters of an unreadable line, or of its error, in messages


class RowBatch(NamedTuple):
    """Rows of a stream: keys (n,), times (n,) as numbers or seconds since 1970, values (n, M)."""

    keys: list[str]
    times: np.ndarray
    values: np.ndarray

    def take(self, index: np.ndarray) -> "RowBatch":
        """Select rows by position."""
        return RowBatch([self.keys[i] for i in index.tolist()], self.times[index], self.values[index])

    def join(self, other: "RowBatch") -> "RowBatch":
        """Append the rows of another batch."""
        joined = (np.concatenate(pair) for pair in zip(self[1:], other[1:], strict=True))
        return RowBatch(self.keys + other.keys, *joined)


def empty_batch(num_values: int) -> RowBatch:
    """Create a batch without rows, for `num_values` values per row."""
    return RowBatch([], np.empty(0), np.empty((0, num_values)))


class Columns(NamedTuple):
    """Names of the columns that are read: key, values, and time or None."""

    key: str
    values: tuple[str, ...]
    time: str | None

    @property
    def names(self) -> list[str]:
        """All names: key, time if there is one, values."""
        return [self.key, *([] if self.time is None else [self.time]), *self.values]


class RowParser:
    """Parser of lines: CSV below a header, or one JSON object per line.

    A line that cannot be parsed is counted and skipped. Raising would not help: the stream would meet the same line
    again after each restart.

    Args:
        head: the first line of the source.
        columns: names of the columns to read.
        source: name of the source, for error messages.
    """

    def __init__(self, head: str, columns: Columns, source: str):
        self.columns = columns
        self.dated: bool | None = None  # whether times are dates; known from the first row on
        self.example = ""
        self.csv_layout: tuple[str, list[int], int] | None = None  # delimiter, positions of the columns, cells per line
        self.has_header = not head.lstrip().startswith("{")
        self.cells: Callable[[str], Sequence[Cell]] = self._csv(head, source) if self.has_header else self._json

    def _csv(self, head: str, source: str) -> Callable[[str], Sequence[Cell]]:
        found: list[str] = []
        for delimiter in DELIMITERS:
            try:
                names = [name.strip() for name in next(csv.reader([head], delimiter=delimiter), [])]
            except csv.Error as error:
                raise ValueError(f"the first line of {source} is not CSV: {error}") from None
            found = max(found, names, key=len)
            if set(self.columns.names) <= set(names):
                positions, width = [names.index(name) for name in self.columns.names], len(names)
                break
        else:
            absent = [name for name in self.columns.names if name not in found]
            there = ", ".join(map(repr, found[:20])) or "nothing"
            raise ValueError(f"{source} has no column {absent[0]!r}; its first line has {there}")

        self.csv_layout = delimiter, positions, width

        def cells(line: str) -> list[str]:
            split = line.split(delimiter) if '"' not in line else next(csv.reader([line], delimiter=delimiter))
            if len(split) != width:
                raise ValueError(f"expected {width} cells, got {len(split)}")
            return [split[position] for position in positions]

        return cells

    def _json(self, line: str) -> list[Cell]:
        return self._object(json.loads(line))

    def _object(self, read: JsonObject) -> list[Cell]:
        return [read[name] if name == self.columns.key else read.get(name) for name in self.columns.names]

    def parse(self, lines: list[str]) -> tuple[RowBatch, int]:
        """Parse lines.

        Returns:
            The rows, and the number of lines that could not be parsed.
        """
        batch = self._parse_plain(lines)
        if batch is not None:
            return batch, 0
        return self._parse_each([line for line in lines if line and not line.isspace()], self.cells)

    def parse_objects(self, objects: list[JsonObject]) -> tuple[RowBatch, int]:
        """Parse decoded JSON objects; returns the same as `parse`."""
        return self._parse_each(objects, self._object)

    def _parse_each(self, lines: Sequence[LineT], read: Callable[[LineT], Sequence[Cell]]) -> tuple[RowBatch, int]:
        keys, times, values = [], [], []
        unreadable = 0
        first = 1 if self.columns.time is None else 2
        for line in lines:
            try:
                cells = read(line)
                key, value = _key(cells[0]), [_number(cell) for cell in cells[first:]]
                times.append(0.0 if first == 1 else self._time(cells[1]))
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError, csv.Error, RecursionError) as error:
                unreadable += 1
                reason = f"{type(error).__name__}: {str(error)[:MAX_EXAMPLE_LENGTH]}"
                self.example = self.example or f"{str(line)[:MAX_EXAMPLE_LENGTH]!r} ({reason})"
                continue
            keys.append(key)
            values.append(value)
        width = len(self.columns.values)
        return RowBatch(keys, np.array(times, float), np.array(values, float).reshape(len(keys), width)), unreadable

    def _parse_plain(self, lines: list[str]) -> RowBatch | None:
        """Parse plain CSV lines column by column, in a third of the time; None if a line needs the general parser."""
        if self.csv_layout is None or self.dated or not lines:
            return None
        delimiter, positions, width = self.csv_layout
        if len(lines) > MIN_LINES_FOR_ARROW:
            batch = self._parse_with_arrow("\n".join(lines))
            if batch is not None:
                return batch
        text = delimiter.join(lines)
        if '"' in text or REPLACEMENT_CHARACTER in text or {line.count(delimiter) for line in lines} != {width - 1}:
            return None
        cells = text.split(delimiter)  # one list for all rows: a list per row would keep the garbage collector busy
        keys = [key.strip() for key in cells[positions[0] :: width]]
        if any(map(UNSUITABLE.search, keys)):
            return None
        try:
            read = [
                [float(cell) if cell else math.nan for cell in cells[position::width]] for position in positions[1:]
            ]
        except ValueError:
            return None
        times = np.zeros(len(lines)) if self.columns.time is None else np.array(read.pop(0))
        if not all(keys) or not np.isfinite(times).all():
            return None
        self.dated = False if self.columns.time is not None else self.dated
        return RowBatch(keys, times, np.array(read).T.copy())

    def _parse_with_arrow(self, text: str) -> RowBatch | None:
        """Parse many lines with Arrow; None where Arrow could read numbers or white space differently from Python."""
        from pyarrow import ArrowInvalid, csv, float64, py_buffer, string

        assert self.csv_layout is not None
        delimiter, positions, width = self.csv_layout
        data = text.encode()
        if data.translate(None, PLAIN_BYTES):
            return None
        names = [str(i) for i in range(width)]
        wanted = [names[position] for position in positions]
        types = dict.fromkeys(wanted, float64()) | {wanted[0]: string()}
        try:
            table = csv.read_csv(
                py_buffer(data),
                csv.ReadOptions(use_threads=False, column_names=names, block_size=len(data) + 1),
                csv.ParseOptions(delimiter=delimiter, quote_char=False),
                csv.ConvertOptions(
                    column_types=types, include_columns=wanted, null_values=[""], strings_can_be_null=False
                ),
            )
        except ArrowInvalid:
            return None
        keys = table.column(0).to_numpy().tolist()
        read = [column.fill_null(math.nan).to_numpy() for column in table.columns[1:]]
        times = np.zeros(len(keys)) if self.columns.time is None else read.pop(0)
        if not all(keys) or not np.isfinite(times).all():
            return None
        self.dated = False if self.columns.time is not None else self.dated
        return RowBatch(keys, times, np.column_stack(read))

    def _time(self, cell: Cell) -> float:
        """Parse a number, or an ISO 8601 date as seconds since 1970 (UTC without a zone); all must be of one kind."""
        try:
            time, dated = float(cell), False
        except ValueError:
            stamp = datetime.fromisoformat(cell.strip())
            time, dated = (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp(), True
        if not math.isfinite(time):
            raise ValueError("the time is not finite")
        if self.dated not in (None, dated):
            raise ValueError(f"expected {'a date' if self.dated else 'a number'} as time, as in earlier rows")
        self.dated = dated
        return time


def _key(cell: Cell) -> str:
    if type(cell) not in (str, int) or not (text := str(cell).strip()) or REPLACEMENT_CHARACTER in text:
        raise ValueError("the key is not text")
    if UNSUITABLE.search(text):
        raise ValueError("the key has control characters or is not valid Unicode")
    return text


def _number(cell: Cell) -> float:
    """Parse a number; empty, null and NaN are missing."""
    if cell is None or cell == "":
        return math.nan
    if isinstance(cell, bool):
        raise ValueError("a value is true or false")
    return float(cell)
