"""What Spark calls for each bucket of a stream's keys: rows that wait, and a bank of states, both as bytes."""

from collections.abc import Iterator
from typing import Any

import pyarrow
from pyarrow import compute, ipc
from pyspark.sql.streaming import StatefulProcessor

from wolf.online.bank.arrow_batches import filter_batches
from wolf.online.bank.bank import Bank
from wolf_fleet.spark.workers import freeze


class BucketProcessor(StatefulProcessor):
    """Keeps the rows of a bucket until the watermark has passed them, and filters them in the order of time.

    Args:
        model: of all keys.
        method: of the bank.
        columns: names of key, time in microseconds, and values.
        step: length of a step of the model, in seconds.
        level: probability of the intervals.
        names: of the columns that go out.
    """

    def __init__(self, model: Any, method: Any, columns: tuple[str, ...], step: float, level: float, names: list[str]):
        self.model, self.method, self.columns, self.step, self.level = model, method, columns, step, level
        self.names = names

    def init(self, handle: Any) -> None:
        """Name the two states."""
        self.handle = handle
        self.waiting = handle.getValueState("waiting", "rows binary")
        self.states = handle.getValueState("states", "bank binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Take in the rows of a micro-batch; let go what the watermark has passed."""
        came = [pyarrow.Table.from_pandas(frame[list(self.columns)], preserve_index=False) for frame in rows]
        yield from self._pass(came, timerValues.getCurrentWatermarkInMs())
        freeze()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        """Let go what the watermark has passed, of a bucket that no row came for."""
        yield from self._pass([], timerValues.getCurrentWatermarkInMs())

    def _pass(self, came: list[Any], watermark: int) -> Iterator[Any]:
        held = read(self.waiting.get()) if self.waiting.exists() else None
        tables = [table for table in (held, *came) if table is not None and table.num_rows]
        if not tables:
            return
        rows = pyarrow.concat_tables(tables, promote_options="permissive")
        micros = self.columns[1]
        due = compute.less_equal(rows[micros], watermark * 1000)
        left, gone = rows.filter(compute.invert(due)), rows.filter(due)
        if not left.num_rows:
            self.waiting.clear()
        elif came or gone.num_rows:
            self.waiting.update((write(left),))
        if left.num_rows:
            first = -(-compute.min(left[micros]).as_py() // 1000)  # in milliseconds: not before the row is due
            if first not in set(self.handle.listTimers()):
                self.handle.registerTimer(first)
        if gone.num_rows:
            yield self._filter(gone)

    def _filter(self, rows: Any) -> Any:
        """Filter rows that are due, and keep the states after them."""
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
        # Plain objects: Spark cannot take the text of pandas 3, which is Arrow's, in several chunks.
        return frame.astype({name: object for name in frame.columns if frame[name].dtype.kind not in "fib"})


def write(table: Any) -> bytes:
    """Turn a table into bytes."""
    sink = pyarrow.BufferOutputStream()
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def read(state: Any) -> Any:
    """Turn the value of a state back into a table."""
    return ipc.open_stream(bytes(state[0])).read_all()
