"""Implementation of `wolf pipe`: rows of standard input are filtered and written one by one as they arrive.

No variance can be estimated and no row revised, so the model must have all its variances; there is one value column.
"""

import csv
import io
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from wolf.beliefs.density import deviations
from wolf.cleaning import retrospective
from wolf.cleaning.frames import RESULT_COLUMNS, result_names
from wolf.cleaning.prepared_series import faults_from_outliers
from wolf.cleaning.quality_flags import AlarmState, anomaly_scores, decay, qartod_flags
from wolf.cleaning.result import replace_outliers
from wolf.online.bank.step import BankStep
from wolf_fleet.cli import stream
from wolf_fleet.streaming.reorder_buffer import newest_before
from wolf_fleet.streaming.row_parser import DELIMITERS, Cell, Columns, RowParser
from wolf_fleet.streaming.sources import Source

MAX_ROWS_PER_BATCH = 10_000  # filtered together if rows arrive faster than they are filtered
WAIT_SECONDS = 3600.0  # of one wait for a row
SINGLE_KEY = "wolf-series"  # key of all rows, and name of its column, if no column identifies series
BINARY_MAGIC = ("PAR1", "ARROW1")


class PipeFilter:
    """Filter of CSV lines that returns each line with its results appended.

    Args:
        head: header line.
        options: of the command.
        method: name with options, or None.
    """

    def __init__(self, head: str, options: dict[str, Any], method: str | None):
        value, time, by = options["value"], options["time"], options["by"]
        if head.startswith(BINARY_MAGIC):
            raise ValueError(
                "expected CSV on standard input; got Parquet or Arrow, which cannot be read row by row: "
                "save it to a file and use `wolf filter`"
            )
        if head.lstrip().startswith("{"):
            raise ValueError("expected CSV with a header on standard input; got JSON, which `wolf stream -` reads")
        if options["step"] is not None and time is None:
            raise ValueError("--step needs the times of the rows: name their column with --time, or remove --step")
        self.columns = Columns(by or SINGLE_KEY, (value,), time)
        wanted = {name for name in self.columns.names if name != SINGLE_KEY}
        self.delimiter = next((mark for mark in DELIMITERS if wanted <= set(_split(head, mark))), ",")
        self.prefix = "" if by else SINGLE_KEY + self.delimiter  # a key column, if there is none
        self.parser = RowParser(self.prefix + head, self.columns, "standard input")
        self.step = 1.0 if options["step"] is None else options["step"]
        self.skip_bad_rows = options["on_bad_cell"] == "missing"
        self.missing_codes = [_missing_code(code) for code in options["missing"]]
        self.bank = stream.make_bank(options["model"], options["settings"], method, 1)
        self.num_deviations = deviations(options["level"])
        self.obs_var = float(np.asarray(self.bank.model.obs_cov)[0, 0])
        self.names = result_names([value], (0,), set(_split(head, self.delimiter)))
        self.alarms: dict[str, AlarmState] = {}  # by key
        self.rows = self.outliers = self.unreadable = self.late = 0
        self._filter([], np.empty((0, 1)), np.empty(0))  # compiles before the first row arrives

    @property
    def head(self) -> str:
        """Header cells of the result columns, to be appended to the header line."""
        return self._join([self.names[quantity, 0] for quantity in RESULT_COLUMNS])

    def process(self, lines: list[str]) -> Iterator[list[str]]:
        """Filter lines, and yield them with their results appended, in one or more groups."""
        lines = [line for line in lines if line and not line.isspace()]
        rows, unreadable = self.parser.parse([self.prefix + line for line in lines])
        if unreadable and len(lines) > 1:
            for line in lines:
                yield from self.process([line])
        elif unreadable and not self.skip_bad_rows:
            raise ValueError(f"the row {lines[0]!r} cannot be read; --on-bad-cell missing skips such rows")
        elif unreadable:
            self.unreadable += 1
            yield [lines[0] + self._join([""] * len(RESULT_COLUMNS))]
        elif lines:
            self.rows += len(lines)
            cells = self._filter(rows.keys, rows.values, rows.times)
            yield [line + self._join(list(map(_cell, some))) for line, some in zip(lines, cells, strict=True)]

    def _filter(self, keys: list[str], values: np.ndarray, times: np.ndarray) -> Iterator[tuple[Cell, ...]]:
        """Compute the result cells of each row, in the order of `RESULT_COLUMNS`."""
        values = np.where(np.isin(values, self.missing_codes), np.nan, values)
        stepped = self._step(keys, values, times / self.step)
        mean, variance = stepped.signal, stepped.signal_variances
        assert mean is not None  # named models are linear
        assert variance is not None
        m, half = mean[:, 0], self.num_deviations * np.sqrt(variance[:, 0])
        half_prediction = self.num_deviations * np.sqrt(variance[:, 0] + self.obs_var)
        ends = (m - half, m + half, m - half_prediction, m + half_prediction)
        self.outliers += int(stepped.outlier.sum())
        cleaned = replace_outliers(values, stepped.outlier, mean)[:, 0]
        faults = np.array(retrospective.FAULTS)[faults_from_outliers(stepped.outlier, values)]
        scores = self._scores(keys, values, mean, half_prediction[:, None], stepped.outlier, faults)
        flags = qartod_flags(values, stepped.outlier, stepped.weight, faults)
        return zip(m, *ends, stepped.weight, stepped.outlier, faults, cleaned, scores, flags, strict=True)

    def _scores(self, keys: list[str], *row_arrays: np.ndarray) -> np.ndarray:
        """Compute anomaly scores, which decay over the alarms of each key; arguments as `anomaly_scores`."""
        scores, outlier = anomaly_scores(*row_arrays), row_arrays[3]
        names = np.asarray(keys)
        for key in dict.fromkeys(keys):
            rows = names == key
            scores[rows], self.alarms[key] = decay(scores[rows], outlier[rows], self.alarms.get(key, AlarmState()))
        return scores

    def _step(self, keys: list[str], values: np.ndarray, clock: np.ndarray) -> BankStep:
        """Step the bank without late rows: those older than an earlier row of their key, whatever the batches."""
        if self.columns.time is None:
            return self.bank.step(keys, values)
        late = clock < newest_before(keys, clock, self.bank.last_times)
        self.late += int(late.sum())
        used = np.flatnonzero(~late)
        stepped = self.bank.step([keys[i] for i in used.tolist()], values[used], clock[used])
        if len(used) == len(keys):
            return stepped
        whole: list[np.ndarray | None] = []
        for each in stepped:
            if each is None:
                whole.append(None)
                continue
            array = np.full((len(keys), *each.shape[1:]), np.nan if each.dtype.kind == "f" else False, each.dtype)
            array[used] = each
            whole.append(array)
        return BankStep._make(whole)

    def _join(self, cells: list[str]) -> str:
        text = io.StringIO()
        csv.writer(text, delimiter=self.delimiter, lineterminator="").writerow(["", *cells])
        return text.getvalue()

    def facts(self) -> dict[str, int]:
        """Return the counts by name."""
        counts = {"rows": self.rows, "outliers": self.outliers, "late": self.late}
        return counts | {"repeated": self.bank.repeated, "unreadable": self.unreadable}


def _split(line: str, delimiter: str) -> list[str]:
    return [name.strip() for name in next(csv.reader([line], delimiter=delimiter), [])]


def _missing_code(code: str) -> float:
    try:
        return float(code)
    except ValueError:
        raise ValueError(f"--missing must be a number, such as -999; got {code!r}") from None


def _cell(value: Cell) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, np.bool_):
        return "true" if value else "false"
    return "" if math.isnan(value) else repr(float(value))


def run(options: dict[str, Any], method: str | None) -> tuple[str, dict[str, int]]:
    """Filter standard input to standard output, row by row, until it ends.

    Args:
        options: of the command.
        method: name with options, or None.

    Returns:
        The summary as text, and the counts by name.
    """
    source = Source("-")
    head = source.first_line()
    if not head:
        raise ValueError("standard input is empty; expected CSV with a header")
    pipe = PipeFilter(head, options, method)
    source.take(1, WAIT_SECONDS)
    print(head + pipe.head, flush=True)
    while not source.exhausted:
        for lines in pipe.process(source.take(MAX_ROWS_PER_BATCH, WAIT_SECONDS)):
            print("\n".join(lines), flush=True)
    facts = pipe.facts()
    words = f"standard input: {facts['rows']:,} rows, {facts['outliers']:,} outliers"
    more = (f"{facts[name]:,} {name}" for name in ("late", "repeated", "unreadable") if facts[name])
    return ", ".join([words, *more]), facts
