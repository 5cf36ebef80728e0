"""Rows of a stream: whose they are, when, and what was measured; and how they are read from lines."""

import csv
import json
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

DELIMITERS = ",;\t|"
FEW = 200  # lines for which Arrow is not worth its start
# What plain lines are made of: no quotes, and nothing that may be space to one reader and not to another.
PLAIN = bytes(set(range(0x21, 0x7F)) - {ord('"')} | {ord("\n")})
LOST = "\ufffd"  # what stands for bytes that are no text


class Arrived(NamedTuple):
    """Some rows: keys (n,), times (n,) as numbers or seconds since 1970, values (n, M)."""

    keys: list[str]
    times: np.ndarray
    values: np.ndarray

    def take(self, index: np.ndarray) -> "Arrived":
        """Pick rows by their positions."""
        return Arrived([self.keys[i] for i in index.tolist()], self.times[index], self.values[index])

    def join(self, other: "Arrived") -> "Arrived":
        """Put others behind these."""
        joined = (np.concatenate(pair) for pair in zip(self[1:], other[1:], strict=True))
        return Arrived(self.keys + other.keys, *joined)


def no_rows(width: int) -> Arrived:
    """Make an empty one for so many values a row."""
    return Arrived([], np.empty(0), np.empty((0, width)))


class Columns(NamedTuple):
    """Which columns of a source are read: names of the key, of the values, and of the time, if there is one."""

    key: str
    values: tuple[str, ...]
    time: str | None

    @property
    def named(self) -> list[str]:
        """All of them, the key first, then the time, then values."""
        return [self.key, *([] if self.time is None else [self.time]), *self.values]


class Parser:
    """Reads lines: CSV below a header, or a JSON object on each.

    A line that cannot be read is counted and passed over: a stream goes on, and would meet it again after each start.

    Args:
        head: the first line of the source.
        columns: to be read.
        source: its name, for errors.
    """

    def __init__(self, head: str, columns: Columns, source: str):
        self.columns = columns
        self.dated: bool | None = None  # known from the first row on
        self.example = ""
        self.plain: tuple[str, list[int], int] | None = None  # how cells without quotes are found
        self.skips_head = not head.lstrip().startswith("{")
        self.cells: Callable[[str], Sequence[Any]] = self._json if not self.skips_head else self._csv(head, source)

    def _csv(self, head: str, source: str) -> Callable[[str], Sequence[Any]]:
        found: list[str] = []
        for mark in DELIMITERS:
            names = [name.strip() for name in next(csv.reader([head], delimiter=mark), [])]
            found = max(found, names, key=len)
            if set(self.columns.named) <= set(names):
                places, width = [names.index(name) for name in self.columns.named], len(names)
                break
        else:
            absent = [name for name in self.columns.named if name not in found]
            there = ", ".join(map(repr, found[:20])) or "nothing"
            raise ValueError(f"{source} has no column {absent[0]!r}; its first line has {there}")

        self.plain = mark, places, width

        def cells(line: str) -> list[str]:
            split = line.split(mark) if '"' not in line else next(csv.reader([line], delimiter=mark))
            if len(split) != width:
                raise ValueError(f"{len(split)} cells, not {width}")
            return [split[place] for place in places]

        return cells

    def _json(self, line: str) -> list[Any]:
        return self._object(json.loads(line))

    def _object(self, read: dict[str, Any]) -> list[Any]:
        return [read[name] if name == self.columns.key else read.get(name) for name in self.columns.named]

    def parse(self, lines: list[str]) -> tuple[Arrived, int]:
        """Read lines.

        Returns:
            The rows, and how many lines were no rows.
        """
        quick = self._parse_plain(lines)
        if quick is not None:
            return quick, 0
        return self._parse_each([line for line in lines if line and not line.isspace()], self.cells)

    def parse_objects(self, objects: list[Any]) -> tuple[Arrived, int]:
        """Read what was JSON, as `parse` does."""
        return self._parse_each(objects, self._object)

    def _parse_each(self, lines: list[Any], read: Callable[[Any], Sequence[Any]]) -> tuple[Arrived, int]:
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
                self.example = self.example or f"{str(line)[:80]!r} ({type(error).__name__}: {str(error)[:80]})"
                continue
            keys.append(key)
            values.append(value)
        width = len(self.columns.values)
        return Arrived(keys, np.array(times, float), np.array(values, float).reshape(len(keys), width)), unreadable

    def _parse_plain(self, lines: list[str]) -> Arrived | None:
        """Read many lines column by column, if there is nothing about them: a third of the time of one by one."""
        if self.plain is None or self.dated or not lines:
            return None
        mark, places, width = self.plain
        if len(lines) > FEW:
            many = self._parse_many("\n".join(lines))
            if many is not None:
                return many
        text = mark.join(lines)
        if '"' in text or LOST in text or {line.count(mark) for line in lines} != {width - 1}:
            return None
        cells = text.split(mark)  # all in one list: one for each row would keep the garbage collector busy
        keys = [key.strip() for key in cells[places[0] :: width]]
        try:
            read = [[float(cell) if cell else math.nan for cell in cells[place::width]] for place in places[1:]]
        except ValueError:
            return None
        times = np.zeros(len(lines)) if self.columns.time is None else np.array(read.pop(0))
        if not all(keys) or not np.isfinite(times).all():
            return None
        self.dated = False if self.columns.time is not None else self.dated
        return Arrived(keys, times, np.array(read).T.copy())

    def _parse_many(self, text: str) -> Arrived | None:
        """Read very many lines by Arrow, if what it takes for a number and for space is what Python does."""
        from pyarrow import ArrowInvalid, csv, float64, py_buffer, string

        assert self.plain is not None
        mark, places, width = self.plain
        data = text.encode()
        if data.translate(None, PLAIN):
            return None
        names = [str(i) for i in range(width)]
        wanted = [names[place] for place in places]
        types = dict.fromkeys(wanted, float64()) | {wanted[0]: string()}
        try:
            table = csv.read_csv(
                py_buffer(data),
                csv.ReadOptions(use_threads=False, column_names=names, block_size=len(data) + 1),
                csv.ParseOptions(delimiter=mark, quote_char=False),
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
        return Arrived(keys, times, np.column_stack(read))

    def _time(self, cell: Any) -> float:
        """Read a number, or a date as seconds since 1970 (of Greenwich if it says no zone); all are of one kind."""
        try:
            time, dated = float(cell), False
        except ValueError:
            stamp = datetime.fromisoformat(cell.strip())
            time, dated = (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp(), True
        if not math.isfinite(time):
            raise ValueError("no finite time")
        if self.dated not in (None, dated):
            raise ValueError(f"times are {'dates' if self.dated else 'numbers'} here")
        self.dated = dated
        return time


def _key(cell: Any) -> str:
    if type(cell) not in (str, int) or not (text := str(cell).strip()) or LOST in text:
        raise ValueError("the key is no text")
    return text


def _number(cell: Any) -> float:
    """Read a number; nothing, null and NaN are missing."""
    if cell is None or cell == "":
        return math.nan
    if isinstance(cell, bool):
        raise ValueError("a value is true or false")
    return float(cell)
