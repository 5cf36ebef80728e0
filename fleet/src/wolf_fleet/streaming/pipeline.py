"""Pipeline of streams and services: rows pass a reorder buffer and a bank of filters, and are counted."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wolf import validation
from wolf.beliefs.density import deviations
from wolf.online.bank.arrow_batches import name_results
from wolf.online.bank.bank import Bank
from wolf.online.bank.step import BankStep
from wolf.results import count
from wolf_fleet.streaming import future_rows
from wolf_fleet.streaming.key_models import ModelLearner
from wolf_fleet.streaming.reorder_buffer import ReorderBuffer, newest_before
from wolf_fleet.streaming.row_parser import Columns, JsonObject, RowBatch
from wolf_fleet.streaming.warm_up_buffer import WarmUpBuffer

if TYPE_CHECKING:
    import pyarrow as pa

TOTALS = ("rows", "used", "outliers", "late", "repeated", "ahead", "unreadable")


@dataclasses.dataclass
class StreamSummary:
    """Counts of a stream since its state was created, earlier runs included.

    Attributes:
        rows: rows that could be parsed.
        used: rows that were filtered and written; further rows may be pending.
        outliers: rows that were flagged.
        late: rows that were discarded because they arrived too late.
        repeated: rows that were discarded because their key already had a row of the same time.
        ahead: rows that were discarded because their time is too far in the future.
        unreadable: lines that could not be parsed.
        example: the first of these in this run, with the reason.
        waiting: rows held in the reorder buffer, and rows of keys whose model is not learned yet.
        keys: number of filters.
        epoch: number of commits.
    """

    rows: int = 0
    used: int = 0
    outliers: int = 0
    late: int = 0
    repeated: int = 0
    ahead: int = 0
    unreadable: int = 0
    example: str = ""
    waiting: int = 0
    keys: int = 0
    epoch: int = 0

    def __str__(self) -> str:
        """Format the counts as a few lines of text."""
        lines = [f"{count(self.rows, 'row')} read, {self.used:,} filtered for {count(self.keys, 'key')}"]
        lines += [f"{count(self.outliers, 'outlier')}, {self.late:,} late, {self.repeated:,} repeated"]
        if self.ahead:
            lines += [f"{count(self.ahead, 'row')} too far in the future: check the unit of the times"]
        if self.unreadable:
            example = f": {self.example}" if self.example else ""
            lines += [f"{count(self.unreadable, 'line')} could not be read{example}"]
        if self.waiting:
            lines += [f"{count(self.waiting, 'row')} waiting"]
        return "\n".join(lines)


class FilteredRows(NamedTuple):
    """Rows that were filtered, with the result of each."""

    rows: RowBatch
    stepped: BankStep

    def join(self, others: "list[FilteredRows]") -> "FilteredRows":
        """Append other rows."""
        rows, stepped = self
        for other in others:
            rows = rows.join(other.rows)
        if not others:
            return self
        whole = zip(stepped, *(other.stepped for other in others), strict=True)
        return FilteredRows(rows, BankStep._make(None if some[0] is None else np.concatenate(some) for some in whole))


class Pipeline:
    """Reorder buffer in front of a bank of filters.

    Args:
        bank: with the model and the method; or a `WarmUp`, which learns the model of each key.
        columns: names of the columns of the rows.
        allowed_lateness: how much older than the newest row a row may be, in the unit of the times.
        step: length of a model step, in that unit.
        level: probability of the intervals.
        idle_timeout: a key without rows for longer than this is forgotten, in the unit of the times; None for never.
        max_ahead: a row whose time is further ahead than this is discarded: ahead of the clock where times are dates
            or seconds since 1970 (default: a day), otherwise ahead of the newest row (default: no limit).
    """

    def __init__(
        self,
        bank: Bank | ModelLearner,
        columns: Columns,
        allowed_lateness: float,
        step: float,
        level: float,
        idle_timeout: float | None = None,
        max_ahead: float | None = None,
    ):
        if max_ahead is not None:
            validation.positive_number("max_ahead", max_ahead)
        self.warm_up: WarmUpBuffer | None = None
        if isinstance(bank, ModelLearner):
            warm_up, bank = bank, bank.make_bank(len(columns.values))
            self.warm_up = WarmUpBuffer(warm_up, bank, len(columns.values), step, columns.time is not None)
        check(bank, columns, allowed_lateness, step, idle_timeout)
        self.bank, self.columns, self.step, self.idle_timeout = bank, columns, step, idle_timeout
        self.max_ahead = max_ahead
        self.num_deviations = deviations(validation.confidence_level(level))
        self.buffer = ReorderBuffer(allowed_lateness, len(columns.values), step, idle_timeout)
        self.counts = StreamSummary()
        self.dated: bool | None = None  # whether times are dates; known from the first row on

    @property
    def facts(self) -> dict[str, object]:
        """Counts and clock to store with a checkpoint, besides the states and the pending rows."""
        latest = None if math.isinf(self.buffer.latest) else self.buffer.latest
        facts = {"latest": latest, "dated": self.dated} | {name: vars(self.counts)[name] for name in TOTALS}
        if self.warm_up is None:
            return facts
        return facts | {"warming_rows": len(self.warm_up), "learned_models": self.warm_up.learned}

    @property
    def waiting(self) -> RowBatch:
        """Rows to store with a checkpoint: those of keys whose model is not learned yet, and the reorder buffer."""
        return self.buffer.pending if self.warm_up is None else self.warm_up.rows.join(self.buffer.pending)

    @property
    def num_waiting(self) -> int:
        """Number of rows that wait."""
        return len(self.buffer.pending.keys) + (0 if self.warm_up is None else len(self.warm_up))

    @property
    def waiting_keys(self) -> set[str]:
        """Keys of the rows that wait."""
        return set(self.buffer.pending.keys) | (set() if self.warm_up is None else self.warm_up.keys)

    def add_learned_models(self, facts: JsonObject) -> None:
        """Add the models that an earlier run learned, before states are loaded."""
        if self.warm_up is not None:
            self.warm_up.add_learned(facts.get("learned_models", {}))

    def resume(self, pending: RowBatch | None, facts: JsonObject) -> None:
        """Continue after an earlier run.

        Args:
            pending: rows that waited, or None if nothing was committed.
            facts: as in `facts`, from the last commit.
        """
        if pending is not None:
            size = facts.get("warming_rows", 0) if self.warm_up is not None else 0
            if self.warm_up is not None:
                self.warm_up.resume(pending.take(np.arange(min(size, len(pending.keys)))))
            self.buffer.pending = pending.take(np.arange(size, len(pending.keys)))
            self.buffer.latest = -math.inf if facts["latest"] is None else facts["latest"]
        self.dated = facts.get("dated")
        self.counts = StreamSummary(**{name: facts.get(name, 0) for name in TOTALS})

    def process(self, rows: RowBatch, clock: float) -> FilteredRows | None:
        """Insert rows in order of arrival.

        Args:
            rows: any number of rows.
            clock: time of arrival, in seconds since 1970.

        Returns:
            The rows that were filtered; None if there are none.
        """
        self.counts.rows += len(rows.keys)
        if self.columns.time is None:
            return self._filter(rows)
        first = self._unit_ends(rows, clock)
        if first is None:
            return self._insert(rows, clock)
        before = self._insert(rows.take(np.arange(first)), clock)
        if future_rows.first_in_seconds(rows.times[first:], self.buffer.latest * self.step, clock) == 0:
            self.buffer.latest = -math.inf  # rows before were in another unit by mistake: the clock starts again
        self.counts.rows -= len(rows.keys) - first
        after = self.process(rows.take(np.arange(first, len(rows.keys))), clock)
        return after if before is None else before if after is None else before.join([after])

    def _unit_ends(self, rows: RowBatch, clock: float) -> int | None:
        """Return how many rows go before the unit of the times is judged again; None for all.

        The first row shows the unit. If it came from a single key in a smaller unit than seconds, it is wrong.
        """
        if self.dated or len(rows.keys) < 1:
            return None
        if math.isinf(self.buffer.latest):
            return 1 if len(rows.keys) > 1 else None
        if len(self.bank) + len(self.waiting_keys) > 1:
            return None
        return future_rows.first_in_seconds(rows.times, self.buffer.latest * self.step, clock)

    def _insert(self, rows: RowBatch, clock: float) -> FilteredRows | None:
        """Insert rows in one unit of time."""
        ahead = future_rows.find(rows.times, self.buffer.latest * self.step, clock, self.dated, self.max_ahead)
        if ahead is not None:
            self.counts.ahead += int(ahead.sum())
            rows = rows.take(np.flatnonzero(~ahead))
        released, num_late, expiry = self.buffer.push(rows, self.bank.last_times)
        self.counts.late += num_late
        return self._filter(released, expiry)

    def flush(self) -> FilteredRows | None:
        """Filter all rows that wait; models are learned from what there is."""
        filtered = self._filter(self.buffer.flush())
        if self.warm_up is None:
            return filtered
        rest = self._filter_known(self.warm_up.flush())
        return rest if filtered is None else filtered if rest is None else filtered.join([rest])

    def _filter(self, rows: RowBatch, expiry: np.ndarray | float = -math.inf) -> FilteredRows | None:
        if self.warm_up is None or not len(rows.keys):
            return self._filter_known(rows, expiry)
        ready, where = self.warm_up.push(rows)
        if isinstance(expiry, np.ndarray):
            expiry = np.where(where < 0, -math.inf, expiry[where])
        return self._filter_known(ready, expiry)

    def _filter_known(self, rows: RowBatch, expiry: np.ndarray | float = -math.inf) -> FilteredRows | None:
        """Filter rows whose model is known."""
        if not len(rows.keys):
            return None
        if self.idle_timeout is None:
            return self._step(rows)
        some = [self._step(rows.take(piece)) for piece in self._pieces(rows, expiry)]
        filtered = [each for each in some if each is not None]
        return filtered[0].join(filtered[1:]) if filtered else None

    def _pieces(self, rows: RowBatch, expiry: np.ndarray | float) -> Iterator[np.ndarray]:
        """Split rows before each one whose key has expired, and forget that key, so that batching has no effect."""
        clock = rows.times / self.step
        newest = newest_before(rows.keys, clock, self.bank.last_times)
        expired = (clock - newest > self.buffer.idle_timeout) | (newest < expiry)
        stale = np.flatnonzero(np.isfinite(newest) & expired)
        first_row = {key: i for i, key in reversed(list(enumerate(rows.keys)))} if len(stale) else {}
        self.bank.forget(
            rows.keys[i] for i in stale.tolist() if first_row[rows.keys[i]] == i
        )  # before any row of the batch
        first = 0
        for i in [*(i for i in stale.tolist() if first_row[rows.keys[i]] != i), len(rows.keys)]:
            yield np.arange(first, i)
            if i < len(rows.keys):
                self.bank.forget([rows.keys[i]])
            first = i

    def drop_expired(self) -> list[str]:
        """Remove expired keys from the bank, and return them."""
        limit = self.buffer.expiry_time
        if math.isinf(limit):
            return []
        keys = [str(key) for key in self.bank]
        expired = [key for key, time in zip(keys, self.bank.last_times(keys).tolist(), strict=True) if time < limit]
        self.bank.forget(expired)
        return expired

    def _step(self, rows: RowBatch) -> FilteredRows | None:
        if not len(rows.keys):
            return None
        late, repeated = self.bank.late, self.bank.repeated
        times = None if self.columns.time is None else rows.times / self.step
        stepped = self.bank.step(rows.keys, rows.values, times)
        self.counts.late += self.bank.late - late
        self.counts.repeated += self.bank.repeated - repeated
        if not stepped.used.all():
            used = np.flatnonzero(stepped.used)
            rows, stepped = rows.take(used), take(stepped, used)
        self.counts.used += len(rows.keys)
        outlier = stepped.outlier
        self.counts.outliers += int(outlier.any(axis=1).sum() if outlier.ndim == 2 else outlier.sum())
        return FilteredRows(rows, stepped) if len(rows.keys) else None

    def table(self, filtered: FilteredRows) -> "pa.Table":
        """Combine filtered rows and their results into a pyarrow table."""
        import pyarrow

        rows, columns, dated = filtered.rows, self.columns, bool(self.dated)
        cells: dict[str, object] = {columns.key: pyarrow.array(rows.keys, pyarrow.string())}
        if columns.time is not None:
            stamps = np.round(rows.times * 1e6).astype("datetime64[us]") if dated else rows.times
            cells[columns.time] = pyarrow.array(stamps, pyarrow.timestamp("us", "UTC") if dated else pyarrow.float64())
        cells |= {name: rows.values[:, j] for j, name in enumerate(columns.values)}
        return pyarrow.table(cells | name_results(filtered.stepped, columns.values, self.num_deviations, set(cells)))

    def summary(self, epoch: int) -> StreamSummary:
        """Return the counts so far.

        Args:
            epoch: number of commits.
        """
        return dataclasses.replace(self.counts, waiting=self.num_waiting, keys=len(self.bank), epoch=epoch)


def take(stepped: BankStep, index: np.ndarray) -> BankStep:
    """Select rows of a result by position."""
    return BankStep._make(None if each is None else each[index] for each in stepped)


def make_columns(key: str, values: str | Sequence[str], time: str | None) -> Columns:
    """Validate column names."""
    columns = Columns(key, (values,) if isinstance(values, str) else tuple(values), time)
    for name in columns.names:
        if not isinstance(name, str) or not name:
            raise ValueError(f"key, values and time must be names of columns; got {validation.short_repr(name)}")
    if len(set(columns.names)) < len(columns.names):
        raise ValueError(f"key, values and time must be different columns; got {', '.join(columns.names)}")
    return columns


def warm_up_settings(bank: Bank | ModelLearner) -> JsonObject:
    """Return the settings of a warm-up that a later run must have too; none for a bank."""
    return {"warm_up": bank.settings if isinstance(bank, ModelLearner) else None}


def check(bank: Bank, columns: Columns, allowed_lateness: float, step: float, idle_timeout: float | None) -> None:
    """Raise a `ValueError` if the arguments of a pipeline are invalid or inconsistent."""
    if not isinstance(bank, Bank):
        raise ValueError(f"bank must be a wolf.Bank or a wolf_fleet.WarmUp; got {validation.short_repr(bank)}")
    names = columns.values
    if len(names) != bank.model.obs_dim:
        expected = count(bank.model.obs_dim, "column")
        raise ValueError(f"values must name {expected}, as many as the model measures; got {len(names)}")
    validation.positive_number("step", step)
    if validation.number("allowed_lateness", allowed_lateness) < 0 or not math.isfinite(allowed_lateness):
        raise ValueError(f"allowed_lateness must be finite and at least 0; got {allowed_lateness}")
    if allowed_lateness and columns.time is None:
        raise ValueError("allowed_lateness needs times: name their column with time=")
    if idle_timeout is not None:
        validation.positive_number("idle_timeout", idle_timeout)
        if columns.time is None:
            raise ValueError("idle_timeout needs times: name their column with time=")
    if columns.time is not None:  # reject a model without steps of other lengths now, not at the first row
        bank.step([], np.empty((0, len(names))), np.empty(0))
