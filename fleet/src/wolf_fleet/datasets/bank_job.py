"""A dataset of many keys through banks of filters, on all cores, within a bound of memory."""

import dataclasses
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import numpy as np

from wolf import validation
from wolf.interfaces import Filter
from wolf.online.bank.arrow_batches import check_columns, filter_batches, read_times
from wolf.online.bank.bank import Bank
from wolf.runtime.hashing import fingerprint
from wolf.statespace import Model
from wolf_fleet.datasets import dataset_job, executors, filesystem, partitions

BATCH = 65_536  # rows that go through a bank at once, and of a row group that is written; more leave the cache
COPIES, PER_ROW = 3, 100  # of the rows of a bucket: read, sorted, written; order, times, states


def filter_dataset(
    source: str | PathLike[str],
    out: str | PathLike[str],
    model: Model,
    method: str | Filter | None = None,
    *,
    key: str,
    values: str | Sequence[str],
    time: str | None = None,
    step: float = 1.0,
    level: float = 0.95,
    memory: float | None = None,
    workers: int | None = None,
    told: Callable[[str, int, int], None] | None = None,
) -> dataset_job.Foldered:
    """Filter a folder of Parquet or Arrow files that may be larger than memory, each key by itself.

    The numbers are those of `filter_batches`, with the rows of each key in the order of time. After a kill the same
    call goes on where it was.

    Args:
        source: folder, with folders such as `day=2024-05-01` in it or not.
        out: folder for `part-00000.parquet` and so on. All rows of a key are in one of them, in order of key and time.
        model: fixed in time.
        method: as in `wolf.filter`.
        key: name of the column that says whose a row is, of text or integers.
        values: name of the column that is filtered, or names; null is missing.
        time: name of the column of times: numbers, or time stamps, which count as seconds. Without it rows of a key
            are taken in the order of files and rows.
        step: length of a step of the model, in the unit of the times.
        level: probability of the intervals.
        memory: bytes that all processes together may take; half of the machine's if None.
        workers: number of processes; as many as there are cores if None.
        told: called with what is being done, the rows done since this start and those to do.
    """
    place, bank = filesystem.find(source), Bank(model, method)
    work, settings = plan(place, bank, key=key, values=values, time=time, step=step, level=level)
    team = executors.Processes(workers, memory)
    return dataset_job.run(place, filesystem.find(out), key, work, settings, team, told)


def plan(
    source: filesystem.Location,
    bank: Bank,
    *,
    key: str,
    values: str | Sequence[str],
    time: str | None,
    step: float,
    level: float,
) -> tuple["Banked", dict[str, Any]]:
    """Check what `filter_dataset` was asked; give the work, and what tells it from another."""
    names = (values,) if isinstance(values, str) else tuple(values)
    check_columns(partitions.open_folder(source).schema, bank, key, names, time)
    validation.positive_number("step", step)
    work = Banked(bank.model, bank.method, key, names, time, step, validation.level(level))
    settings: dict[str, Any] = {"model": fingerprint(bank.model), "method": fingerprint(bank.method)}
    return work, settings | {"values": list(names), "time": time, "step": step, "level": level}


@dataclasses.dataclass(frozen=True)
class Banked:
    """The work of `filter_dataset` on a bucket; attributes as its arguments."""

    model: Any
    method: Any
    key: str
    values: tuple[str, ...]
    time: str | None
    step: float
    level: float

    def room(self, row: float) -> float:
        """Say how many bytes a row takes while it is worked on."""
        return COPIES * row + PER_ROW

    def __call__(self, table: Any, write: Callable[[Any], None]) -> dict[str, int]:
        """Filter a bucket."""
        import pyarrow

        rank = partitions.rank(table[self.key], self.key)
        times = None if self.time is None else read_times(table[self.time].combine_chunks(), self.time)
        mixed = times is not None and (times[1:] < times[:-1]).any()
        table = table.take(np.lexsort((np.asarray(times), rank)) if mixed else partitions.sort(rank))
        bank, counts = Bank(self.model, self.method), {"outliers": 0, "unused": 0}
        named: Any = {"key": self.key, "values": self.values, "time": self.time, "step": self.step, "level": self.level}
        out = filter_batches(table.to_reader(BATCH), bank, **named)
        for batch in out:
            results = [batch.column(name) for name in out.schema.names[table.num_columns :]]
            flags = [column.fill_null(False) for column in results if pyarrow.types.is_boolean(column.type)]
            counts["outliers"] += int(np.any(flags, axis=0).sum())
            counts["unused"] += results[0].null_count
            write(pyarrow.Table.from_batches([batch]))
        return counts | {"keys": len(bank)}
