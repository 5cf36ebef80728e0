"""A table of Spark through banks of filters: all keys of a partition in one bank, rows as Arrow batches."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wolf import validation
from wolf.interfaces import Filter
from wolf.online.bank.arrow_batches import filter_batches, read_times
from wolf.online.bank.bank import Bank
from wolf.statespace import Model
from wolf_fleet.spark import columns
from wolf_fleet.spark.workers import freeze

BATCH = 65_536  # rows that go through a bank at once; Spark hands over 10,000


def filter(
    df: Any,
    *,
    key: str,
    time: str,
    value: str | Sequence[str],
    model: Model,
    method: str | Filter | None = None,
    step: float = 1.0,
    level: float = 0.95,
    shuffle: bool = True,
) -> Any:
    """Filter the rows of a table, each key by itself, in the order of time.

    The numbers are those of `wolf_fleet.datasets.filter_batches` on one machine, bit for bit. Rows of one key and one
    time are
    taken once: the one with the smallest value, so that a task that Spark repeats gives the same; a number comes
    before null.

    Args:
        df: a DataFrame that is no stream.
        key: name of the column that says whose a row is, of text or integers.
        time: name of the column of times: time stamps, which count as seconds, or numbers.
        value: name of the column that is filtered, or names; null is missing.
        model: fixed in time.
        method: as in `wolf.filter`.
        step: length of a step of the model, in the unit of the times.
        level: probability of the intervals.
        shuffle: bring the rows of a key together and sort them. False where each partition has all rows of its keys
            already, in the order of time: as one file for each group of keys, written so.

    Returns:
        A DataFrame with the columns of `df`, and mean, lower, upper, weight and outlier; null in rows that were not
        used.
    """
    names = columns.check(df, key, time, value, streaming=False)
    validation.positive_number("step", step)
    validation.flag("shuffle", shuffle)
    bank = Bank(model, method)
    schema = columns.result_schema(df, bank, key, time, names, validation.level(level))
    if shuffle:
        # By time alone, which Spark sorts by its bits; with the values beside it the sort takes as long as the shuffle.
        df = df.repartition(key).sortWithinPartitions(time)
    return df.mapInArrow(Partition(model, bank.method, key, names, time, step, level, shuffle), schema)


@dataclasses.dataclass(frozen=True)
class Partition:
    """What is done to a partition, in the executor; attributes as the arguments of `filter`.

    Attributes:
        shuffled: whether rows were brought together and sorted by time; those of one time are in any order then.
    """

    model: Any
    method: Any
    key: str
    values: tuple[str, ...]
    time: str
    step: float
    level: float
    shuffled: bool

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Filter the rows of a partition."""
        bank = Bank(self.model, self.method)
        named: Any = {"key": self.key, "values": self.values, "time": self.time, "step": self.step, "level": self.level}
        for table in join(batches, BATCH, self.time if self.shuffled else None):
            rows = settle(table, self.key, self.time, self.values) if self.shuffled else table
            yield from filter_batches(rows, bank, **named)
        freeze()


def join(batches: Iterator[Any], rows: int, time: str | None = None) -> Iterator[Any]:
    """Put record batches together until they have so many rows.

    Args:
        batches: of one schema.
        rows: that are wanted at least.
        time: name of the column of times, if rows of one time are to stay together; they come one after the other.
    """
    import pyarrow

    held: list[Any] = []
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


def _last_change(times: Any) -> int:
    """Find the first of the rows at the end that have the time of the last one."""
    from pyarrow import compute

    others = np.flatnonzero(np.asarray(compute.not_equal(times, times[-1])))
    return int(others[-1]) + 1 if len(others) else 0


def settle(table: Any, key: str, time: str, values: Sequence[str]) -> Any:
    """Put rows of one key and one time into an order that does not depend on how they came: smallest values first.

    Args:
        table: rows in the order of time.
        key: name of a column, as the others.
        time: likewise.
        values: likewise, in the order of their weight.
    """
    moment = np.cumsum(np.r_[False, np.diff(read_times(table[time], time)) != 0])
    whose = np.asarray(table[key].combine_chunks().dictionary_encode().indices)
    both = moment * (whose.max(initial=0) + 1) + whose
    if np.diff(np.sort(both)).all():
        return table
    numbers = [np.asarray(table[name].cast("float64").fill_null(np.nan)) for name in reversed(values)]
    return table.take(np.lexsort((*numbers, both)))
