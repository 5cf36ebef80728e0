"""Stateful processor that Spark runs for each bucket of keys of a stream: pending rows and a bank, both as bytes."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow
from pyarrow import compute, ipc
from pyspark.sql.streaming import StatefulProcessor

from wolf.interfaces import Filter
from wolf.online.bank.arrow_batches import filter_batches
from wolf.online.bank.bank import Bank
from wolf.statespace import Model
from wolf_fleet.spark.workers import freeze

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues


class BucketProcessor(StatefulProcessor):
    """Holds the rows of a bucket until the watermark passes them, and filters them in the order of time.

    Args:
        model: of all keys.
        method: of the bank.
        columns: names of key, time in microseconds, and values.
        step: length of a model step, in seconds.
        level: probability of the intervals.
        names: of the output columns.
    """

    def __init__(
        self, model: Model, method: Filter, columns: tuple[str, ...], step: float, level: float, names: list[str]
    ):
        self.model, self.method, self.columns, self.step, self.level = model, method, columns, step, level
        self.names = names

    def init(self, handle: "StatefulProcessorHandle") -> None:
        """Declare the two state variables."""
        self.handle = handle
        self.pending = handle.getValueState("waiting", "rows binary")
        self.states = handle.getValueState("states", "bank binary")

    def handleInputRows(
        self, key: object, rows: "Iterator[pd.DataFrame]", timerValues: "TimerValues"
    ) -> "Iterator[pd.DataFrame]":
        """Insert the rows of a micro-batch; filter the rows that the watermark has passed."""
        arrived = [pyarrow.Table.from_pandas(frame[list(self.columns)], preserve_index=False) for frame in rows]
        yield from self._process(arrived, timerValues.getCurrentWatermarkInMs())
        freeze()

    def handleExpiredTimer(
        self, key: object, timerValues: "TimerValues", expiredTimerInfo: object
    ) -> "Iterator[pd.DataFrame]":
        """Filter the rows that the watermark has passed, in a bucket without new rows."""
        yield from self._process([], timerValues.getCurrentWatermarkInMs())

    def _process(self, arrived: list[pyarrow.Table], watermark: int) -> "Iterator[pd.DataFrame]":
        held = read(self.pending.get()) if self.pending.exists() else None
        tables = [table for table in (held, *arrived) if table is not None and table.num_rows]
        if not tables:
            return
        rows = pyarrow.concat_tables(tables, promote_options="permissive")
        micros = self.columns[1]
        due = compute.less_equal(rows[micros], watermark * 1000)
        left, released = rows.filter(compute.invert(due)), rows.filter(due)
        if not left.num_rows:
            self.pending.clear()
        elif arrived or released.num_rows:
            self.pending.update((write(left),))
        if left.num_rows:
            first = -(-compute.min(left[micros]).as_py() // 1000)  # in milliseconds, rounded up to when the row is due
            if first not in set(self.handle.listTimers()):
                self.handle.registerTimer(first)
        if released.num_rows:
            yield self._filter(released)

    def _filter(self, rows: pyarrow.Table) -> "pd.DataFrame":
        """Filter rows and store the states."""
        key, micros, *values = self.columns
        rows = rows.sort_by([(name, "ascending") for name in (micros, *values)])
        table = read(self.states.get()) if self.states.exists() else None
        bank = Bank(self.model, self.method) if table is None else Bank.from_arrow(table, self.model, self.method)
        at = rows.column_names.index(micros)
        timed = rows.set_column(at, micros, rows[micros].cast(pyarrow.timestamp("us")))
        named: Any = {"key": key, "values": values, "time": micros, "step": self.step, "level": self.level}
        out = filter_batches(timed.combine_chunks(), bank, **named).read_all()
        self.states.update((write(bank.to_arrow()),))
        out = out.set_column(at, micros, rows[micros])
        out = out.rename_columns([self.names[i] for i in range(out.num_columns)])
        frame = out.to_pandas()
        # As Python objects: Spark cannot convert the Arrow-backed text of pandas 3 if it has several chunks.
        return frame.astype({name: object for name in frame.columns if frame[name].dtype.kind not in "fib"})


def write(table: pyarrow.Table) -> bytes:
    """Serialise a table."""
    sink = pyarrow.BufferOutputStream()
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def read(state: tuple) -> pyarrow.Table:
    """Deserialise the table in a state variable."""
    return ipc.open_stream(bytes(state[0])).read_all()
