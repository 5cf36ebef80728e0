"""`wolf.stream`: source, bank and output, committed together."""

import dataclasses
import math
import time as clocks
from collections.abc import Callable, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from wolf import arrow, checks
from wolf.belief.density import deviations
from wolf.online.bank import Bank, Stepped
from wolf.results import count
from wolf.streaming.commits import Commits
from wolf.streaming.reorder import Reorder
from wolf.streaming.rows import Arrived, Columns, Parser
from wolf.streaming.sources import Source

BATCH = 100_000  # rows of an epoch: a commit of 10⁵ states then costs less than the rows
EVERY = 5.0  # seconds after which rows are committed, if fewer have come
KINDS = ("parquet", "csv")


@dataclasses.dataclass
class Streamed:
    """What a stream has done since it began, earlier starts included.

    Attributes:
        rows: that could be read.
        used: that went through a filter and into the output; others may still wait.
        outliers: that were called so.
        late: not used, because they came too late.
        repeated: not used, because their key had a row of the same time.
        unreadable: lines that were no rows.
        example: the first of those since this start, with the reason.
        waiting: rows that are kept until nothing older is waited for.
        keys: number of filters.
        epoch: commits so far.
    """

    rows: int = 0
    used: int = 0
    outliers: int = 0
    late: int = 0
    repeated: int = 0
    unreadable: int = 0
    example: str = ""
    waiting: int = 0
    keys: int = 0
    epoch: int = 0

    def __str__(self) -> str:
        """Tell it in a few lines."""
        told = [f"{count(self.rows, 'row')} read, {self.used:,} filtered for {count(self.keys, 'key')}"]
        told += [f"{count(self.outliers, 'outlier')}, {self.late:,} late, {self.repeated:,} repeated"]
        if self.unreadable:
            told += [f"{count(self.unreadable, 'line')} could not be read" + (f": {self.example}" * bool(self.example))]
        if self.waiting:
            told += [f"{count(self.waiting, 'row')} kept until nothing older is waited for"]
        return "\n".join(told)


TOTALS = ("rows", "used", "outliers", "late", "repeated", "unreadable")


def stream(
    source: str | PathLike[str],
    bank: Bank,
    out: str | PathLike[str],
    *,
    state: str | PathLike[str],
    key: str,
    values: str | Sequence[str],
    time: str | None = None,
    lateness: float = 0.0,
    step: float = 1.0,
    batch: int = BATCH,
    every: float = EVERY,
    follow: bool = False,
    level: float = 0.95,
    kind: str = "parquet",
    told: Callable[[Streamed], None] | None = None,
) -> Streamed:
    """Filter rows as they come, exactly once: whatever happens to the process, call it again and it goes on.

    Output and states are those of a run that nothing disturbed, bit for bit, for a source that can be read again: a
    file. Of standard input, what was not committed is lost with the process; where the sender repeats it and rows have
    times, what was used before is recognised.

    Args:
        source: file of CSV with a header, or of JSON lines; "-" is standard input.
        bank: with the model and the method; its states are replaced by those of an earlier start.
        out: folder for the output, in files `part-00000001.parquet` and so on: key, time, values, then mean and
            interval of the signal, weight and outlier. Rows of a key are in the order of time.
        state: folder for the states and the place in the source. Its `manifest.json` tells what is done.
        key: name of the column that says whose a row is.
        values: name of the column that is filtered, or names.
        time: name of the column of times: numbers, or dates, which count as seconds. Rows are taken as they come
            without it.
        lateness: how much older than the newest row one may be and still be put in order, in the unit of the times.
        step: length of a step of the model, in that unit.
        batch: number of rows after which there is a commit.
        every: seconds after which there is a commit if some rows have come.
        follow: wait for more at the end of a file, for ever. Without it rows that wait are let go at the end.
        level: probability of the intervals.
        kind: "parquet" or "csv".
        told: called after each commit.
    """
    columns = _columns(bank, key, values, time)
    checks.choice("kind", kind, KINDS)
    checks.count("batch", batch)
    checks.positive_number("step", step)
    checks.positive_number("every", every)
    if checks.number("lateness", lateness) < 0 or not math.isfinite(lateness):
        raise ValueError(f"lateness must be at least 0; got {lateness}")
    if lateness and time is None:
        raise ValueError("lateness is about times: name their column with time=")
    checks.level(level)
    settings = {"key": key, "values": list(columns.values), "time": time, "lateness": lateness, "step": step}
    commits = Commits(Path(state), Path(out), kind, settings | {"level": level})
    try:
        return _Running(fspath(source), bank, commits, columns, lateness, step, level, follow, told).run(batch, every)
    finally:
        commits.close()


class _Running:
    """A stream under way."""

    def __init__(
        self,
        path: str,
        bank: Bank,
        commits: Commits,
        columns: Columns,
        lateness: float,
        step: float,
        level: float,
        follow: bool,
        told: Callable[[Streamed], None] | None,
    ):
        self.bank, self.commits, self.columns, self.step, self.told = bank, commits, columns, step, told
        self.reach, done = deviations(level), commits.manifest
        self.reorder = Reorder(lateness, len(columns.values), step)
        waiting = commits.restore(bank, len(columns.values))
        if waiting is not None:
            self.reorder.pending = waiting
            self.reorder.latest = -math.inf if done["latest"] is None else done["latest"]
        self.count = Streamed(epoch=done["epoch"], **{name: done.get(name, 0) for name in TOTALS})
        self.source = Source(path, 0 if path == "-" else done.get("place", 0), follow)
        if done.get("head", "") not in ("", self.source.head(done.get("place", 0))) and path != "-":
            raise ValueError(f"{path} does not begin as the file that was read before: it was replaced. {ANEW}")
        self.dated = done.get("dated")

    def run(self, batch: int, every: float) -> Streamed:
        try:
            head = self.source.first_line()
            if not head and not self.source.follow:
                raise ValueError(f"{self.source.name} is empty: expected a header, or JSON lines")
            self.parser = Parser(head, self.columns, self.source.name)
            self.parser.dated = self.dated
            if self.parser.skips_head and self.source.place == 0:
                self.source.take(1, every)
            while not self.source.over:
                self._epoch(batch, every)
        finally:
            self.source.close()
        return self._counted()

    def _epoch(self, batch: int, every: float) -> None:
        """Read until there are enough rows, or time is up, and commit."""
        begun, lines, tables = clocks.monotonic(), 0, []
        while lines < batch:
            left = every - (clocks.monotonic() - begun)
            some = self.source.take(batch - lines, max(left, 0.0))
            lines += len(some)
            if some:
                tables.append(self._take(some))
            if self.source.over or left <= 0:
                break
        if self.source.over and len(self.reorder.pending.keys):
            tables.append(self._filter(self.reorder.flush()))
        if lines or tables:
            self._commit(tables)

    def _take(self, lines: list[str]) -> Any:
        rows, unreadable = self.parser.parse(lines)
        self.count.rows += len(rows.keys)
        self.count.unreadable += unreadable
        self.count.example = self.parser.example
        if self.columns.time is None:
            return self._filter(rows)
        released, late = self.reorder.push(rows, self.bank.last_times)
        self.count.late += late
        return self._filter(released)

    def _filter(self, rows: Arrived) -> Any:
        """Filter rows, and lay out those that were used as a table; None if there are none."""
        if not len(rows.keys):
            return None
        late, repeated = self.bank.late, self.bank.repeated
        times = None if self.columns.time is None else rows.times / self.step
        stepped = self.bank.step(rows.keys, rows.values, times)
        self.count.late += self.bank.late - late
        self.count.repeated += self.bank.repeated - repeated
        self.count.used += int(stepped.used.sum())
        outlier = stepped.outlier[stepped.used]
        self.count.outliers += int(outlier.any(axis=1).sum() if outlier.ndim == 2 else outlier.sum())
        return _table(self.columns, rows, stepped, self.reach, bool(self.parser.dated))

    def _commit(self, tables: list[Any]) -> None:
        import pyarrow

        made = [table for table in tables if table is not None and table.num_rows]
        table = pyarrow.concat_tables(made) if made else None
        latest = None if math.isinf(self.reorder.latest) else self.reorder.latest
        place = self.source.place
        facts = {"place": place, "head": self.source.head(place), "latest": latest, "dated": self.parser.dated}
        totals = {name: getattr(self.count, name) for name in TOTALS}
        self.commits.commit(self.bank, self.reorder.pending, table, facts | totals)
        if self.told is not None:
            self.told(self._counted())

    def _counted(self) -> Streamed:
        waiting, keys = len(self.reorder.pending.keys), len(self.bank)
        return dataclasses.replace(self.count, waiting=waiting, keys=keys, epoch=self.commits.manifest["epoch"])


ANEW = "Give the file as it was, or begin anew with another state folder"


def _columns(bank: Bank, key: str, values: str | Sequence[str], time: str | None) -> Columns:
    """Check which columns are asked for."""
    if not isinstance(bank, Bank):
        raise ValueError(f"bank must be a wolf.Bank; got {checks.told(bank)}")
    names = (values,) if isinstance(values, str) else tuple(values)
    columns = Columns(key, names, time)
    for name in columns.named:
        if not isinstance(name, str) or not name:
            raise ValueError(f"key, values and time are names of columns; got {checks.told(name)}")
    if len(set(columns.named)) < len(columns.named):
        raise ValueError(f"key, values and time must be different columns; got {', '.join(columns.named)}")
    if len(names) != bank.model.obs_dim:
        raise ValueError(f"the model measures {count(bank.model.obs_dim, 'thing')}; values names {len(names)}")
    if time is not None:  # a model that knows no steps of other lengths is refused now, not with the first row
        bank.step([], np.empty((0, len(names))), np.empty(0))
    return columns


def _table(columns: Columns, rows: Arrived, stepped: Stepped, reach: float, dated: bool) -> Any:
    """Put the rows that were used beside what they came to."""
    import pyarrow

    used = np.flatnonzero(stepped.used)
    rows = rows.take(used)
    cells: dict[str, Any] = {columns.key: pyarrow.array(rows.keys, pyarrow.string())}
    if columns.time is not None:
        stamps = np.round(rows.times * 1e6).astype("datetime64[us]") if dated else rows.times
        cells[columns.time] = pyarrow.array(stamps, pyarrow.timestamp("us", "UTC") if dated else pyarrow.float64())
    cells |= {name: rows.values[:, j] for j, name in enumerate(columns.values)}
    results = arrow.name_results(stepped, columns.values, reach, set(cells))
    return pyarrow.table(cells | {title: array[used] for title, array in results.items()})
