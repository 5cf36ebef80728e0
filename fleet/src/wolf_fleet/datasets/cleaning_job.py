"""Cleaning of a folder of Parquet files that is larger than memory, with the results of `wolf.filter_frame`."""

import dataclasses
from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from wolf import validation
from wolf.cleaning.frames import read_frame, result_columns, result_names, value_names
from wolf.cleaning.io import from_numpy
from wolf.cleaning.options import CleaningOptions, Options
from wolf.cleaning.pipeline import column_blocks, prepare
from wolf.results.views.data_frame import narwhals
from wolf.runtime.hashing import fingerprint
from wolf_fleet.datasets import dataset_job, executors, filesystem, partitions

if TYPE_CHECKING:
    import pyarrow as pa

NUM_COPIES = 4  # of the rows of a bucket in memory
EXTRA_BYTES_PER_VALUE = 400  # for results and the fit


def filter_folder(
    source: str | PathLike[str],
    out: str | PathLike[str],
    *,
    by: str,
    time: str | None = None,
    values: str | list[str] | None = None,
    memory: float | None = None,
    workers: int | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
    **options: Any,
) -> dataset_job.DatasetSummary:
    """Clean the readings in a folder of Parquet or Arrow files, series by series, on all cores.

    The results are those of `wolf.filter_frame` on all rows at once. After an interruption, the same call resumes.

    Args:
        source: folder, with or without subfolders such as `day=2024-05-01`.
        out: folder for `part-00000.parquet` and so on: rows in the order of the source, all of a series in one file.
        by: column that identifies the series, text or integers.
        time: column of times, numbers or dates; without it, even steps in the order of files and rows.
        values: column of readings, or several. Default: the only numeric column.
        memory: bytes that all processes together may use; half of the machine's memory if None. The rows of one series
            must fit.
        workers: number of processes; one per core if None.
        on_progress: called with the name of the phase, the rows done in this call and the rows to do.
        **options: further options of `wolf.filter_frame` except `forecast` and `every`: model, method, parameters,
            smooth, level, and the options for online filtering and for the duration of faults.

    Returns:
        Counts of rows, series and outliers; `parts` has them per file.
    """
    unknown = options.keys() - CleaningOptions.__annotations__.keys() | options.keys() & {"forecast", "every"}
    if unknown:
        raise ValueError(f"filter_folder has no option {', '.join(sorted(unknown))}")
    given = options | {"parameters": validation.mapping("parameters", options.get("parameters"), "{'obs_var': 1.0}")}
    location = filesystem.locate(source)
    head = partitions.first_rows(partitions.open_folder(location))
    names = value_names(narwhals().from_native(head, eager_only=True), time, values, by)
    blocks = column_blocks(Options(**given), names)
    job = CleaningJob(by, time, tuple(names), tuple(map(tuple, blocks)), tuple(sorted(given.items())))
    settings = {"time": time, "values": names, "options": fingerprint(given)}
    executor = executors.ProcessExecutor(workers, memory)
    return dataset_job.run(location, filesystem.locate(out), by, job, settings, executor, on_progress)


@dataclasses.dataclass(frozen=True)
class CleaningJob:
    """Job of `filter_folder` for one bucket.

    Attributes:
        by: column that identifies the series.
        time: column of times.
        values: columns of readings.
        blocks: groups of them that are filtered jointly.
        options: of `filter_frame`.
    """

    by: str
    time: str | None
    values: tuple[str, ...]
    blocks: tuple[tuple[int, ...], ...]
    options: tuple[tuple[str, Any], ...]

    def bytes_per_row(self, row_bytes: float) -> float:
        """Estimate the memory that a row needs while it is cleaned."""
        return NUM_COPIES * row_bytes + EXTRA_BYTES_PER_VALUE * len(self.values)

    def __call__(self, table: "pa.Table", write: Callable[["pa.Table"], None]) -> dict[str, int]:
        """Clean a bucket."""
        wrapped = narwhals().from_native(table, eager_only=True)
        rows = read_frame(wrapped, self.time, list(self.values), self.by)
        options = Options(**dict(self.options), diagnostics=False, dated=rows.dated, origin=rows.origin)
        failed: dict[str, str] = {}
        done = []
        series = prepare(
            *(rows.values, rows.times, options),
            groups=rows.groups,
            labels=rows.labels,
            names=rows.names,
            on_failure=failed.__setitem__,
        )
        for each in series:
            try:
                done.append(each.clean(lambda steps: None))
            except ValueError as error:
                failed[each.label] = str(error)
        results = result_columns(done, rows.names, len(table), set(table.column_names))
        counts = {"keys": len(rows.labels or []), "failed": len(failed)}
        counts |= {"outliers": sum(each.num_outliers for each in done)}
        write(self._append_results(table, results))
        return counts | {"unused": len(table) * len(self.blocks) - sum(len(each.values) for each in done)}

    def _append_results(self, table: "pa.Table", results: dict[str, np.ndarray]) -> "pa.Table":
        """Append result columns with the same schema for every bucket; null where a series failed."""
        import pyarrow

        special = {"outlier": pyarrow.bool_(), "fault": pyarrow.string(), "qartod": pyarrow.int8()}
        out = table
        for columns in self.blocks:
            for (quantity, _), title in result_names(list(self.values), columns, set(table.column_names)).items():
                if title in out.column_names:
                    continue
                wanted = special.get(quantity, pyarrow.float64())
                blank = pyarrow.nulls(len(table), wanted)
                out = out.append_column(title, from_numpy(results[title]).cast(wanted) if title in results else blank)
        return out
