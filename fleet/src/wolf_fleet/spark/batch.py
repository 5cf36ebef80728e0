"""Filtering of a Spark table by banks of filters: one bank per partition, rows as Arrow batches."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wolf import validation
from wolf.interfaces import Filter
from wolf.online.bank.arrow_batches import filter_batches, read_times
from wolf.online.bank.bank import Bank
from wolf.statespace import Model
from wolf_fleet.spark import columns
from wolf_fleet.spark.workers import freeze

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

BATCH_ROWS = 65_536  # rows per call of the bank; the record batches of Spark have 10,000


def filter(
    df: "DataFrame",
    *,
    key: str,
    time: str,
    value: str | Sequence[str],
    model: Model,
    method: str | Filter | None = None,
    step: float = 1.0,
    level: float = 0.95,
    shuffle: bool = True,
) -> "DataFrame":
    """Filter the rows of a table, each key by its own filter, in the order of time.

    The results are those of `wolf.online.filter_batches` on one machine, bit for bit. Of several rows with the same key
    and time, the one with the smallest value is used (a number before null), so that a repeated task gives the same
    results.

    Args:
        df: a DataFrame that is not a stream.
        key: name of the column that identifies the series of a row, text or integers.
        time: name of the column of times: time stamps, which count as seconds, or numbers.
        value: name of the column to filter, or names; null is missing.
        model: time-invariant model.
        method: as in `wolf.filter`.
        step: length of a model step, in the unit of the times.
        level: probability of the intervals.
        shuffle: collect the rows of each key in one partition and sort them. False if each partition already has all
            rows of its keys, in the order of time.

    Returns:
        A DataFrame with the columns of `df`, and mean, lower, upper, weight and outlier; null in rows that were not
        used.
    """
    names = columns.check(df, key, time, value, streaming=False)
    validation.positive_number("step", step)
    validation.boolean("shuffle", shuffle)
    bank = Bank(model, method)
    schema = columns.result_schema(df, bank, key, time, names, validation.confidence_level(level))
    if shuffle:
        # By time alone, for which Spark uses a radix sort; sorting by values too would take as long as the shuffle.
        df = df.repartition(key).sortWithinPartitions(time)
    return df.mapInArrow(PartitionFilter(model, bank.method, key, names, time, step, level, shuffle), schema)


@dataclasses.dataclass(frozen=True)
class PartitionFilter:
    """Filter of a partition, run in the executor; attributes are the arguments of `filter`.

    Attributes:
        shuffled: whether rows were shuffled and sorted by time, so that rows of the same time are in any order.
    """

    model: Model
    method: Filter
    key: str
    values: tuple[str, ...]
    time: str
    step: float
    level: float
    shuffled: bool

    def __call__(self, batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        """Filter the rows of a partition."""
        bank = Bank(self.model, self.method)
        named: Any = {"key": self.key, "values": self.values, "time": self.time, "step": self.step, "level": self.level}
        for table in join(batches, BATCH_ROWS, self.time if self.shuffled else None):
            rows = sort_ties(table, self.key, self.time, self.values) if self.shuffled else table
            yield from filter_batches(rows, bank, **named)
        freeze()


def join(batches: Iterator["pa.RecordBatch"], rows: int, time: str | None = None) -> Iterator["pa.Table"]:
    """Merge record batches into tables of at least `rows` rows.

    Args:
        batches: of one schema.
        rows: smallest number of rows.
        time: name of the column of times if rows of the same time must not be separated; rows are in order of time.
    """
    import pyarrow

    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) < rows:
            continue
        table = pyarrow.Table.from_batches(held).combine_chunks()
        stop = table.num_rows if time is None else _last_change(table[time])
        if stop:
            yield table.slice(0, stop)
            held = table.slice(stop).to_batches()
    if held:
        yield pyarrow.Table.from_batches(held).combine_chunks()


def _last_change(times: "pa.ChunkedArray") -> int:
    """Find the first of the trailing rows that have the time of the last one."""
    from pyarrow import compute

    others = np.flatnonzero(np.asarray(compute.not_equal(times, times[-1])))
    return int(others[-1]) + 1 if len(others) else 0


def sort_ties(table: "pa.Table", key: str, time: str, values: Sequence[str]) -> "pa.Table":
    """Sort rows with the same key and time by their values, so that their order does not depend on that of arrival.

    Args:
        table: rows in the order of time.
        key: name of the key column.
        time: name of the time column.
        values: names of the value columns; the first is compared first.
    """
    moment = np.cumsum(np.r_[False, np.diff(read_times(table[time], time)) != 0])
    codes = np.asarray(table[key].combine_chunks().dictionary_encode().indices)
    both = moment * (codes.max(initial=0) + 1) + codes
    if np.diff(np.sort(both)).all():
        return table
    numbers = [np.asarray(table[name].cast("float64").fill_null(np.nan)) for name in reversed(values)]
    return table.take(np.lexsort((*numbers, both)))
