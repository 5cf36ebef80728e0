"""`wolf filter - --live`: rows of a pipe, each written out as soon as it has come.

Nothing can be fitted and nothing looked back at, so it is for a model that is named with all its variances, and one
value column. Whatever else is asked for is read to the end first, as a file is.
"""

import csv
import io
import math
import os
import stat
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from wolf.beliefs.density import deviations
from wolf.cleaning import retrospective
from wolf.cleaning.frames import KINDS, titles
from wolf.cleaning.options import AUTO
from wolf.cleaning.prepared_series import plain_kinds
from wolf.cli.commands import filter
from wolf.models.registry import parse
from wolf.online.bank.step import Stepped
from wolf_fleet.cli import stream
from wolf_fleet.streaming.reorder_buffer import newest_before
from wolf_fleet.streaming.row_parser import DELIMITERS, Columns, Parser
from wolf_fleet.streaming.sources import Source

BATCH = 10_000  # rows that are taken at once where they come faster than they can be filtered
PATIENCE = 3600.0  # seconds of one wait for a row
ONE = "wolf-series"  # key of all rows, and name of its column, where nothing tells series apart
WHOLE = (
    "no_header",
    "skip",
    "comment",
    "decimal",
    "day_first",
    "zone",
    "smooth",
    "patience",
    "longest_fault",
    "forecast",
)
MAGIC = ("PAR1", "ARROW1")


def suits(source: str, target: str, report: str | None, options: dict[str, Any]) -> bool:
    """Say whether rows can be written as they come: pipe to standard output, nothing to fit or to look back at."""
    if source != "-" or target != "-" or report is not None or not options["live"] or not _is_pipe():
        return False
    if (
        options["model"] == AUTO
        or len(options["values"]) != 1
        or any(options[name] not in (None, False, 0) for name in WHOLE)
    ):
        return False
    if len(options["time"]) > 1 or (len(options["time"]) == 1) != (options["step"] is not None):
        return False
    named, given = parse(options["model"]), filter.parse_settings(options["settings"])
    return all(name in named.given | given for name in named.parameters)


def _is_pipe() -> bool:
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)


class Lines:
    """Rows as they come, with what they come to behind them.

    Args:
        head: first line of the table.
        options: of the command.
        method: with its options, or None.
    """

    def __init__(self, head: str, options: dict[str, Any], method: str | None):
        (value,), times, by = options["values"], options["time"], options["by"]
        if head.startswith(MAGIC):
            raise ValueError("standard input is Parquet or Arrow, which has no rows before its end; save it to a file")
        if head.lstrip().startswith("{"):
            raise ValueError("expected CSV with a header on standard input; got JSON: `wolf stream -` reads it")
        self.columns = Columns(by or ONE, (value,), times[0] if times else None)
        wanted = {name for name in self.columns.named if name != ONE}
        self.mark = next((mark for mark in DELIMITERS if wanted <= set(_split(head, mark))), ",")
        self.before = "" if by else ONE + self.mark  # a column for the key, where nothing tells series apart
        self.parser = Parser(self.before + head, self.columns, "standard input")
        self.step = options["step"] or 1.0
        self.skipped, self.codes = options["on_bad_cell"] == "missing", [float(code) for code in options["missing"]]
        self.bank = stream.make_bank(options["model"], options["settings"], method, 1)
        self.reach = deviations(options["level"])
        self.noise = float(np.asarray(self.bank.model.obs_cov)[0, 0])
        self.titles = titles([value], (0,), set(_split(head, self.mark)))
        self.rows = self.outliers = self.bad = self.late = 0
        self._filter([], np.empty((0, 1)), np.empty(0))  # what has to be compiled is, before the first row

    @property
    def head(self) -> str:
        """Names of the columns that are added."""
        return self._join([self.titles[kind, 0] for kind in KINDS])

    def take(self, lines: list[str]) -> Iterator[list[str]]:
        """Filter rows; give each with its results behind it, some after the other."""
        lines = [line for line in lines if line and not line.isspace()]
        rows, unreadable = self.parser.parse([self.before + line for line in lines])
        if unreadable and len(lines) > 1:
            for line in lines:
                yield from self.take([line])
        elif unreadable and not self.skipped:
            raise ValueError(f"the row {lines[0]!r} cannot be read; --on-bad-cell missing passes over such rows")
        elif unreadable:
            self.bad += 1
            yield [lines[0] + self._join([""] * len(KINDS))]
        elif lines:
            self.rows += len(lines)
            cells = self._filter(rows.keys, rows.values, rows.times)
            yield [line + self._join(list(map(_cell, some))) for line, some in zip(lines, cells, strict=True)]

    def _filter(self, keys: list[str], read: np.ndarray, times: np.ndarray) -> Iterator[tuple[Any, ...]]:
        """Give of each row the cells of `KINDS`."""
        values = np.where(np.isin(read, self.codes), np.nan, read)
        stepped = self._step(keys, values, times / self.step)
        mean, variance = stepped.signal, stepped.signal_variances
        assert mean is not None  # models by name are linear
        assert variance is not None
        m, half, around = mean[:, 0], np.sqrt(variance[:, 0]), np.sqrt(variance[:, 0] + self.noise)
        ends = (m - self.reach * half, m + self.reach * half, m - self.reach * around, m + self.reach * around)
        self.outliers += int(stepped.outlier.sum())
        repaired = np.where(stepped.outlier | ~np.isfinite(values[:, 0]), m, values[:, 0])
        kinds = np.array(retrospective.KINDS)[plain_kinds(stepped.outlier, values)]
        return zip(m, *ends, stepped.weight, stepped.outlier, kinds, repaired, strict=True)

    def _step(self, keys: list[str], values: np.ndarray, clock: np.ndarray) -> Stepped:
        """Step the bank; what is older than a row of its key before it is late, in one batch with it or not."""
        if self.columns.time is None:
            return self.bank.step(keys, values)
        late = clock < newest_before(keys, clock, self.bank.last_times)
        self.late += int(late.sum())
        fine = np.flatnonzero(~late)
        stepped = self.bank.step([keys[i] for i in fine.tolist()], values[fine], clock[fine])
        if len(fine) == len(keys):
            return stepped
        whole = []
        for each in stepped:
            assert each is not None
            array = np.full((len(keys), *each.shape[1:]), np.nan if each.dtype.kind == "f" else False, each.dtype)
            array[fine] = each
            whole.append(array)
        return Stepped._make(whole)

    def _join(self, cells: list[str]) -> str:
        text = io.StringIO()
        csv.writer(text, delimiter=self.mark, lineterminator="").writerow(["", *cells])
        return text.getvalue()


def _split(line: str, mark: str) -> list[str]:
    return [name.strip() for name in next(csv.reader([line], delimiter=mark), [])]


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, np.bool_):
        return "true" if value else "false"
    return "" if math.isnan(value) else repr(float(value))


def run(options: dict[str, Any], method: str | None) -> tuple[str, dict[str, Any]]:
    """Filter standard input to standard output, row by row, until it ends.

    Returns:
        What was done, in words and as facts.
    """
    source = Source("-")
    head = source.first_line()
    if not head:
        raise ValueError("standard input is empty")
    lines = Lines(head, options, method)
    source.take(1, PATIENCE)
    print(head + lines.head, flush=True)
    while not source.over:
        for made in lines.take(source.take(BATCH, PATIENCE)):
            print("\n".join(made), flush=True)
    late, repeated = lines.late, lines.bank.repeated
    facts = {
        "rows": lines.rows,
        "outliers": lines.outliers,
        "late": late,
        "repeated": repeated,
        "unreadable": lines.bad,
    }
    words = f"standard input: {lines.rows:,} rows as they came, {lines.outliers:,} outliers"
    more = {"late": late, "repeated": repeated, "unreadable": lines.bad}
    return ", ".join([words, *(f"{count:,} {name}" for name, count in more.items() if count)]), facts
