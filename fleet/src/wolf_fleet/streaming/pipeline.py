"""Rows through the reorder buffer and the bank, counted: what streams and services share."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from wolf import validation
from wolf.beliefs.density import deviations
from wolf.online.bank.arrow_batches import name_results
from wolf.online.bank.bank import Bank
from wolf.online.bank.step import Stepped
from wolf.results import count
from wolf_fleet.streaming.reorder_buffer import Reorder, newest_before
from wolf_fleet.streaming.row_parser import Arrived, Columns

TOTALS = ("rows", "used", "outliers", "late", "repeated", "unreadable")


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


class Passed(NamedTuple):
    """Rows that went through their filters, and what they came to, row by row."""

    rows: Arrived
    stepped: Stepped

    def join(self, others: "list[Passed]") -> "Passed":
        """Put others behind these."""
        rows, stepped = self
        for other in others:
            rows = rows.join(other.rows)
        if not others:
            return self
        whole = zip(stepped, *(other.stepped for other in others), strict=True)
        return Passed(rows, Stepped._make(None if some[0] is None else np.concatenate(some) for some in whole))


class Flow:
    """A reorder buffer before a bank.

    Args:
        bank: with the model and the method.
        columns: what the rows are.
        lateness: how much older than the newest row one may be, in the unit of the times.
        step: length of a step of the model, in that unit.
        level: probability of the intervals.
        forget: a key that was silent for longer than this is forgotten, in the unit of the times; None for never.
    """

    def __init__(
        self, bank: Bank, columns: Columns, lateness: float, step: float, level: float, forget: float | None = None
    ):
        check(bank, columns, lateness, step, forget)
        self.bank, self.columns, self.step, self.forget = bank, columns, step, forget
        self.reach = deviations(validation.level(level))
        self.reorder = Reorder(lateness, len(columns.values), step, forget)
        self.count = Streamed()
        self.dated: bool | None = None  # known from the first row on

    @property
    def facts(self) -> dict[str, Any]:
        """What a later start has to know besides states and waiting rows."""
        latest = None if math.isinf(self.reorder.latest) else self.reorder.latest
        return {"latest": latest, "dated": self.dated} | {name: getattr(self.count, name) for name in TOTALS}

    def resume(self, waiting: Arrived | None, facts: dict[str, Any]) -> None:
        """Go on after an earlier start; `facts` are those that were committed.

        Args:
            waiting: rows that waited, or None at the very beginning.
            facts: from `facts`.
        """
        if waiting is not None:
            self.reorder.pending = waiting
            self.reorder.latest = -math.inf if facts["latest"] is None else facts["latest"]
        self.dated = facts.get("dated")
        self.count = Streamed(**{name: facts.get(name, 0) for name in TOTALS})

    def take(self, rows: Arrived) -> Passed | None:
        """Take rows in as they came; give those that passed, None if there are none."""
        self.count.rows += len(rows.keys)
        if self.columns.time is None:
            return self._pass(rows)
        released, late, behind = self.reorder.push(rows, self.bank.last_times)
        self.count.late += late
        return self._pass(released, behind)

    def flush(self) -> Passed | None:
        """Let everything go that waits."""
        return self._pass(self.reorder.flush())

    def _pass(self, rows: Arrived, behind: np.ndarray | float = -math.inf) -> Passed | None:
        if not len(rows.keys):
            return None
        if self.forget is None:
            return self._step(rows)
        some = [self._step(rows.take(piece)) for piece in self._pieces(rows, behind)]
        passed = [each for each in some if each is not None]
        return passed[0].join(passed[1:]) if passed else None

    def _pieces(self, rows: Arrived, behind: np.ndarray | float) -> Iterator[np.ndarray]:
        """Cut rows before each that finds its key forgotten, so that it starts anew whatever the batches are."""
        clock = rows.times / self.step
        newest = newest_before(rows.keys, clock, self.bank.last_times)
        forgotten = (clock - newest > self.reorder.forget) | (newest < behind)
        stale = np.flatnonzero(np.isfinite(newest) & forgotten)
        begun = {key: i for i, key in reversed(list(enumerate(rows.keys)))} if len(stale) else {}
        self.bank.forget(
            rows.keys[i] for i in stale.tolist() if begun[rows.keys[i]] == i
        )  # before any row of the batch
        first = 0
        for i in [*(i for i in stale.tolist() if begun[rows.keys[i]] != i), len(rows.keys)]:
            yield np.arange(first, i)
            if i < len(rows.keys):
                self.bank.forget([rows.keys[i]])
            first = i

    def tidy(self) -> list[str]:
        """Drop keys that are forgotten already; give them."""
        limit = self.reorder.forgotten
        if math.isinf(limit):
            return []
        keys = [str(key) for key in self.bank]
        gone = [key for key, time in zip(keys, self.bank.last_times(keys).tolist(), strict=True) if time < limit]
        self.bank.forget(gone)
        return gone

    def _step(self, rows: Arrived) -> Passed | None:
        if not len(rows.keys):
            return None
        late, repeated = self.bank.late, self.bank.repeated
        times = None if self.columns.time is None else rows.times / self.step
        stepped = self.bank.step(rows.keys, rows.values, times)
        self.count.late += self.bank.late - late
        self.count.repeated += self.bank.repeated - repeated
        if not stepped.used.all():
            used = np.flatnonzero(stepped.used)
            rows, stepped = rows.take(used), take(stepped, used)
        self.count.used += len(rows.keys)
        outlier = stepped.outlier
        self.count.outliers += int(outlier.any(axis=1).sum() if outlier.ndim == 2 else outlier.sum())
        return Passed(rows, stepped) if len(rows.keys) else None

    def table(self, passed: Passed) -> Any:
        """Put rows beside what they came to, as a pyarrow table."""
        import pyarrow

        rows, columns, dated = passed.rows, self.columns, bool(self.dated)
        cells: dict[str, Any] = {columns.key: pyarrow.array(rows.keys, pyarrow.string())}
        if columns.time is not None:
            stamps = np.round(rows.times * 1e6).astype("datetime64[us]") if dated else rows.times
            cells[columns.time] = pyarrow.array(stamps, pyarrow.timestamp("us", "UTC") if dated else pyarrow.float64())
        cells |= {name: rows.values[:, j] for j, name in enumerate(columns.values)}
        return pyarrow.table(cells | name_results(passed.stepped, columns.values, self.reach, set(cells)))

    def counted(self, epoch: int) -> Streamed:
        """Give the counts so far."""
        waiting, keys = len(self.reorder.pending.keys), len(self.bank)
        return dataclasses.replace(self.count, waiting=waiting, keys=keys, epoch=epoch)


def take(stepped: Stepped, index: np.ndarray) -> Stepped:
    """Pick rows by their positions."""
    return Stepped._make(None if each is None else each[index] for each in stepped)


def name_columns(key: str, values: str | Sequence[str], time: str | None) -> Columns:
    """Check names of columns."""
    columns = Columns(key, (values,) if isinstance(values, str) else tuple(values), time)
    for name in columns.named:
        if not isinstance(name, str) or not name:
            raise ValueError(f"key, values and time are names of columns; got {validation.told(name)}")
    if len(set(columns.named)) < len(columns.named):
        raise ValueError(f"key, values and time must be different columns; got {', '.join(columns.named)}")
    return columns


def check(bank: Bank, columns: Columns, lateness: float, step: float, forget: float | None) -> None:
    """Refuse what does not go together."""
    if not isinstance(bank, Bank):
        raise ValueError(f"bank must be a wolf.Bank; got {validation.told(bank)}")
    names = columns.values
    if len(names) != bank.model.obs_dim:
        raise ValueError(f"the model measures {count(bank.model.obs_dim, 'thing')}; values names {len(names)}")
    validation.positive_number("step", step)
    if validation.number("lateness", lateness) < 0 or not math.isfinite(lateness):
        raise ValueError(f"lateness must be at least 0; got {lateness}")
    if lateness and columns.time is None:
        raise ValueError("lateness is about times: name their column with time=")
    if forget is not None:
        validation.positive_number("forget", forget)
        if columns.time is None:
            raise ValueError("forget is about times: name their column with time=")
    if columns.time is not None:  # a model that knows no steps of other lengths is refused now, not with the first row
        bank.step([], np.empty((0, len(names))), np.empty(0))
