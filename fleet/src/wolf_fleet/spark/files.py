"""Filtering of a Parquet folder on Spark: Spark schedules the tasks, and rows do not pass through it.

Each task reads its own part of the folder and writes its own file, with the code of `wolf_fleet.filter_dataset`. Spark
chooses where a task runs, and repeats it if its executor dies.
"""

import dataclasses
import pickle
from collections.abc import Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING

from wolf import validation
from wolf.interfaces import Filter
from wolf.online.bank.bank import Bank
from wolf.statespace import Model
from wolf_fleet.datasets import bank_job, dataset_job, executors, filesystem, worker_process
from wolf_fleet.spark import columns
from wolf_fleet.spark.workers import freeze

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

MODES = ("error", "resume", "overwrite")
TASK_MEMORY_BYTES = 2**30


def filter_parquet(
    spark: "SparkSession",
    source: str | PathLike[str],
    destination: str | PathLike[str],
    *,
    key: str,
    time: str | None = None,
    value: str | Sequence[str],
    model: Model,
    method: str | Filter | None = None,
    step: float = 1.0,
    level: float = 0.95,
    shuffle: bool = True,
    mode: str = "error",
    tasks: int | None = None,
    memory: float = TASK_MEMORY_BYTES,
) -> dataset_job.DatasetSummary:
    """Filter a folder of Parquet files into another one, each key by its own filter, in the order of time.

    The results are those of `wolf_fleet.filter_dataset` on one machine, bit for bit: of several rows with the same key
    and time, the first in the order of files and rows is used. All machines must reach both folders under the same
    name: on a shared disk, or by a URI that `pyarrow.fs` opens, with the same permissions everywhere.

    Args:
        spark: a `SparkSession`.
        source: path or URI of a folder of Parquet or Arrow files; the rows of a key may be in any of them.
        destination: path or URI of a folder for `part-00000.parquet` and so on, each with all rows of its keys in
            order of key and time; `_SUCCESS` is written last.
        key: name of the column that identifies the series of a row, text or integers.
        time: name of the column of times: time stamps, which count as seconds, or numbers. Without it the rows of a
            key are filtered in the order of files and rows.
        value: name of the column to filter, or names; null is missing.
        model: time-invariant model.
        method: as in `wolf.filter`.
        step: length of a model step, in the unit of the times.
        level: probability of the intervals.
        shuffle: collect the rows of each key. False if each file has all rows of its keys, which is not checked.
        mode: what to do if the destination is not empty. "error": raise; "resume": continue the same call after its
            driver was killed; "overwrite": delete the output of an earlier call.
        tasks: number of tasks that run at the same time; the number of cores of Spark if None.
        memory: bytes that a task may use in Python, in addition to the memory of Java.

    Returns:
        Counts of rows, keys and outliers; `parts` has them per file.
    """
    columns.require_spark()
    if not hasattr(spark, "range"):  # a session of Spark or of Spark Connect: they share no class
        raise ValueError(f"spark must be a SparkSession; got {validation.short_repr(spark)}")
    validation.choice("mode", mode, MODES)
    validation.boolean("shuffle", shuffle)
    location, out = filesystem.locate(source), filesystem.locate(destination)
    bank = Bank(model, method)
    job, settings = bank_job.plan(location, bank, key=key, values=value, time=time, step=step, level=level)
    num_tasks = _num_cores(spark) if tasks is None else validation.count("tasks", tasks)
    executor = SparkExecutor(spark, num_tasks, memory)
    if mode == "error" and out.exists() and (not out.is_folder() or out.list(deep=True)):
        raise ValueError(f'{out} exists; choose another folder, or use mode="overwrite" or mode="resume"')
    overwrite = mode == "overwrite"
    return dataset_job.run(*(location, out, key, job, settings, executor), overwrite=overwrite, whole_keys=not shuffle)


def _num_cores(spark: "SparkSession") -> int:
    """Return the number of tasks that a session runs at the same time."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception as error:  # Spark Connect does not report it
        raise ValueError("this session does not report its number of cores; give tasks=") from error


class SparkExecutor:
    """Executor on the machines of a Spark cluster.

    Args:
        spark: a session.
        count: number of tasks that run at the same time.
        memory: bytes that each may use.
    """

    def __init__(self, spark: "SparkSession", count: int, memory: float) -> None:
        self.spark, self.count = spark, count
        self.row_memory = executors.row_memory(validation.positive_number("memory", memory), 1)

    def run(self, tasks: Sequence[worker_process.Task]) -> Iterator[int]:
        """Run tasks, one per partition, and yield the number of rows of each."""
        if not tasks:
            return
        from pyspark import cloudpickle

        packed = tuple(cloudpickle.dumps(task) for task in tasks)  # separately: a worker unpacks only its own
        numbers = self.spark.range(0, len(tasks), 1, len(tasks))
        for row in numbers.mapInArrow(TaskRunner(packed), "task long, rows long, error string").collect():
            if row["error"] is not None:
                raise ValueError(row["error"])
            yield row["rows"]


@dataclasses.dataclass(frozen=True)
class TaskRunner:
    """Runs tasks by their numbers, in the executor.

    Attributes:
        packed: pickled functions with their arguments.
    """

    packed: tuple[bytes, ...]

    def __call__(self, batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        """Run tasks; return permanent errors as text, and raise others so that Spark repeats the task."""
        import pyarrow

        for batch in batches:
            for number in batch.column(0).to_pylist():
                rows, words = 0, None
                try:
                    function, arguments = pickle.loads(self.packed[number])
                    rows = function(*arguments)
                except ValueError as error:
                    words = str(error)
                except FileNotFoundError as error:
                    words = f"a file is missing on an executor: all machines must share both folders ({error})"
                freeze()
                yield pyarrow.record_batch(
                    {"task": [number], "rows": [rows], "error": pyarrow.array([words], "string")}
                )
