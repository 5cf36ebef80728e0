"""Online filtering of a data set with many keys by banks of filters, on all cores, within a memory limit."""

import dataclasses
from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from wolf import validation
from wolf.interfaces import Filter
from wolf.online.bank.arrow_batches import check_columns, filter_batches, read_times
from wolf.online.bank.bank import Bank
from wolf.runtime.hashing import fingerprint
from wolf.statespace import Model
from wolf_fleet.datasets import dataset_job, executors, filesystem, partitions

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 65_536  # rows per call of the bank, and per row group of the output; larger batches leave the CPU cache
NUM_COPIES = 3  # of the rows of a bucket in memory: as read, sorted, as written
EXTRA_BYTES_PER_ROW = 100  # for order, times and states


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
    on_progress: Callable[[str, int, int], None] | None = None,
) -> dataset_job.DatasetSummary:
    """Filter a folder of Parquet or Arrow files that may be larger than memory, each key by its own filter.

    The results are those of `wolf.online.filter_batches`, with the rows of each key in the order of time. After an
    interruption, the same call resumes.

    Args:
        source: folder, with or without subfolders such as `day=2024-05-01`.
        out: folder for `part-00000.parquet` and so on. All rows of a key are in one file, in order of key and time.
        model: time-invariant model.
        method: as in `wolf.filter`.
        key: name of the column that identifies the series of a row, text or integers.
        values: name of the column to filter, or names; null is missing.
        time: name of the column of times: numbers, or time stamps, which count as seconds. Without it the rows of a
            key are filtered in the order of files and rows.
        step: length of a model step, in the unit of the times.
        level: probability of the intervals.
        memory: bytes that all processes together may use; half of the machine's memory if None.
        workers: number of processes; one per core if None.
        on_progress: called with the name of the phase, the rows done in this call and the rows to do.

    Returns:
        Counts of rows, keys and outliers; `parts` has them per file.
    """
    location, bank = filesystem.locate(source), Bank(model, method)
    job, settings = plan(location, bank, key=key, values=values, time=time, step=step, level=level)
    executor = executors.ProcessExecutor(workers, memory)
    return dataset_job.run(location, filesystem.locate(out), key, job, settings, executor, on_progress)


def plan(
    source: filesystem.Location,
    bank: Bank,
    *,
    key: str,
    values: str | Sequence[str],
    time: str | None,
    step: float,
    level: float,
) -> tuple["BankJob", dict[str, object]]:
    """Validate the arguments of `filter_dataset`; return the job, and the settings that identify it."""
    names = (values,) if isinstance(values, str) else tuple(values)
    check_columns(partitions.open_folder(source).schema, bank, key, names, time)
    validation.positive_number("step", step)
    job = BankJob(bank.model, bank.method, key, names, time, step, validation.confidence_level(level))
    settings: dict[str, object] = {"model": fingerprint(bank.model), "method": fingerprint(bank.method)}
    return job, settings | {"values": list(names), "time": time, "step": step, "level": level}


@dataclasses.dataclass(frozen=True)
class BankJob:
    """Job of `filter_dataset` for one bucket; attributes are its arguments."""

    model: Model
    method: Filter
    key: str
    values: tuple[str, ...]
    time: str | None
    step: float
    level: float

    def bytes_per_row(self, row_bytes: float) -> float:
        """Estimate the memory that a row needs while it is filtered."""
        return NUM_COPIES * row_bytes + EXTRA_BYTES_PER_ROW

    def __call__(self, table: "pa.Table", write: Callable[["pa.Table"], None]) -> dict[str, int]:
        """Filter a bucket."""
        import pyarrow

        rank = partitions.rank(table[self.key], self.key)
        times = None if self.time is None else read_times(table[self.time].combine_chunks(), self.time)
        mixed = times is not None and (times[1:] < times[:-1]).any()
        table = table.take(np.lexsort((np.asarray(times), rank)) if mixed else partitions.argsort(rank))
        bank, counts = Bank(self.model, self.method), {"outliers": 0, "unused": 0}
        out = filter_batches(
            *(table.to_reader(BATCH_ROWS), bank),
            key=self.key,
            values=self.values,
            time=self.time,
            step=self.step,
            level=self.level,
        )
        for batch in out:
            results = [batch.column(name) for name in out.schema.names[table.num_columns :]]
            flags = [column.fill_null(False) for column in results if pyarrow.types.is_boolean(column.type)]
            counts["outliers"] += int(np.any(flags, axis=0).sum())
            counts["unused"] += results[0].null_count
            write(pyarrow.Table.from_batches([batch]))
        return counts | {"keys": len(bank)}
