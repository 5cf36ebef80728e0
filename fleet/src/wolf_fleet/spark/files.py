"""A folder of Parquet through banks of filters on Spark, which hands out the work and never sees a row.

Each task reads its own piece of the folder and writes its own file, as the processes of
`wolf_fleet.datasets.filter_dataset` do,
with the same code. Spark says where a task runs, and repeats it if its executor dies.
"""

import dataclasses
import pickle
from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any

from wolf import validation
from wolf.interfaces import Filter
from wolf.online.bank.bank import Bank
from wolf.statespace import Model
from wolf_fleet.datasets import bank_job, dataset_job, executors, filesystem, worker_process
from wolf_fleet.spark import columns
from wolf_fleet.spark.workers import freeze

MODES = ("error", "resume", "overwrite")
MEMORY = 2**30  # bytes of a task, if nobody says


def filter_parquet(
    spark: Any,
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
    memory: float = MEMORY,
) -> dataset_job.Foldered:
    """Filter a folder of Parquet files into another one, each key by itself, in the order of time.

    The numbers are those of `wolf_fleet.datasets.filter_dataset` on one machine, bit for bit: of rows of one key and
    one time
    the first in the order of files and rows is used. Both folders must be seen by all machines under the same name: on
    a disk that they share, or by a URI that `pyarrow.fs` opens, with the same rights everywhere.

    Args:
        spark: a `SparkSession`.
        source: path or URI of a folder of Parquet or Arrow files; the rows of a key may lie in any of them.
        destination: path or URI of a folder, for `part-00000.parquet` and so on, each with all rows of its keys in
            order of key and time; `_SUCCESS` is there when all are.
        key: name of the column that says whose a row is, of text or integers.
        time: name of the column of times: time stamps, which count as seconds, or numbers. Without it rows of a key
            are taken in the order of files and rows.
        value: name of the column that is filtered, or names; null is missing.
        model: fixed in time.
        method: as in `wolf.filter`.
        step: length of a step of the model, in the unit of the times.
        level: probability of the intervals.
        shuffle: bring the rows of a key together. False where each file has all rows of its keys; nothing checks that.
        mode: what to do if the destination has something in it. "error": refuse; "resume": go on with what the same
            call has begun before its driver was killed; "overwrite": remove what an earlier call has written.
        tasks: that run at a time; as many as Spark has cores if None.
        memory: bytes that a task may take in Python, which is beside the memory of Java.

    Returns:
        Counts of rows, keys and outliers; `parts` has them for each file.
    """
    columns.need_spark()
    if not hasattr(spark, "range"):
        raise ValueError(f"spark must be a SparkSession; got {validation.told(spark)}")
    validation.choice("mode", mode, MODES)
    validation.flag("shuffle", shuffle)
    place, out = filesystem.find(source), filesystem.find(destination)
    bank = Bank(model, method)
    work, settings = bank_job.plan(place, bank, key=key, values=value, time=time, step=step, level=level)
    team = Executors(spark, _cores(spark) if tasks is None else validation.count("tasks", tasks), memory)
    if mode == "error" and out.exists() and (not out.is_folder() or out.list(deep=True)):
        raise ValueError(f'{out} is there already; choose another place, or say mode="overwrite" or mode="resume"')
    return dataset_job.run(place, out, key, work, settings, team, anew=mode == "overwrite", whole=not shuffle)


def _cores(spark: Any) -> int:
    """Ask how many tasks run at a time."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception as error:  # Spark Connect does not tell
        raise ValueError("this session does not tell how many cores it has; say tasks=") from error


class Executors:
    """Tasks of Spark.

    Args:
        spark: a session.
        count: how many run at a time.
        memory: bytes that each may take.
    """

    def __init__(self, spark: Any, count: int, memory: float) -> None:
        self.spark, self.count = spark, count
        self.room = executors.room_of(validation.positive_number("memory", memory), 1)

    def run(self, tasks: Sequence[worker_process.Task]) -> Iterator[int]:
        """Do tasks, a partition for each."""
        if not tasks:
            return
        from pyspark import cloudpickle

        packed = tuple(cloudpickle.dumps(task) for task in tasks)  # one by one: a worker unpacks the one that it does
        numbers = self.spark.range(0, len(tasks), 1, len(tasks))
        for row in numbers.mapInArrow(Tasks(packed), "piece long, rows long, error string").collect():
            if row["error"] is not None:
                raise ValueError(row["error"])
            yield row["rows"]


@dataclasses.dataclass(frozen=True)
class Tasks:
    """What an executor does with the numbers of tasks.

    Attributes:
        packed: functions and their arguments, as bytes.
    """

    packed: tuple[bytes, ...]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Do the tasks of a partition; what no repetition mends is told, and all else raised, for Spark to repeat."""
        import pyarrow

        for batch in batches:
            for piece in batch.column(0).to_pylist():
                rows, words = 0, None
                try:
                    function, arguments = pickle.loads(self.packed[piece])
                    rows = function(*arguments)
                except ValueError as error:
                    words = str(error)
                except FileNotFoundError as error:
                    words = f"an executor does not find a file: both folders must be seen by all machines ({error})"
                freeze()
                yield pyarrow.record_batch(
                    {"piece": [piece], "rows": [rows], "error": pyarrow.array([words], "string")}
                )
