"""A table of Spark through banks of filters: all keys of a partition in one bank, rows as Arrow batches."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from wolf import checks
from wolf.arrow.batches import filter_batches
from wolf.online.bank import Bank
from wolf.protocols import Filter
from wolf.spark import columns
from wolf.statespace import Model

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

    The numbers are those of `wolf.arrow.filter_batches` on one machine, bit for bit. Rows of one key and one time are
    taken once: the one with the smallest value, so that a task that Spark repeats gives the same.

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
    checks.positive_number("step", step)
    checks.flag("shuffle", shuffle)
    bank = Bank(model, method)
    schema = columns.result_schema(df, bank, key, time, names, checks.level(level))
    if shuffle:
        df = df.repartition(key).sortWithinPartitions(time, *names)
    return df.mapInArrow(Partition(model, bank.method, key, names, time, step, level), schema)


@dataclasses.dataclass(frozen=True)
class Partition:
    """What is done to a partition, in the executor; attributes as the arguments of `filter`."""

    model: Any
    method: Any
    key: str
    values: tuple[str, ...]
    time: str
    step: float
    level: float

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Filter the rows of a partition."""
        bank = Bank(self.model, self.method)
        named: Any = {"key": self.key, "values": self.values, "time": self.time, "step": self.step, "level": self.level}
        for batch in join(batches, BATCH):
            yield from filter_batches(batch, bank, **named)


def join(batches: Iterator[Any], rows: int) -> Iterator[Any]:
    """Put record batches together until they have so many rows."""
    import pyarrow

    held: list[Any] = []
    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) >= rows:
            yield pyarrow.Table.from_batches(held).combine_chunks()
            held = []
    if held:
        yield pyarrow.Table.from_batches(held).combine_chunks()
