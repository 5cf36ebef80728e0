"""A folder of Parquet that is larger than memory, cleaned as `wolf.filter_frame` cleans a frame."""

import dataclasses
from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np

from wolf import validation
from wolf.cleaning.frames import read_frame, spread_rows, titles, value_names
from wolf.cleaning.io import from_numpy
from wolf.cleaning.options import Options
from wolf.cleaning.pipeline import column_blocks, prepare
from wolf.results.views.data_frame import narwhals
from wolf.runtime.hashing import fingerprint
from wolf_fleet.datasets import dataset_job, executors, filesystem, partitions

COPIES, PER_ROW = 4, 400  # bytes of a row while it is cleaned, beside its own: results, and what a fit needs


def filter_folder(
    source: str | PathLike[str],
    out: str | PathLike[str],
    *,
    by: str,
    time: str | None = None,
    values: str | list[str] | None = None,
    memory: float | None = None,
    workers: int | None = None,
    told: Callable[[str, int, int], None] | None = None,
    **options: Any,
) -> dataset_job.Foldered:
    """Clean the readings in a folder of Parquet or Arrow files, series by series, on all cores.

    The numbers are those of `wolf.filter_frame` on all rows at once. After a kill the same call goes on where it was.

    Args:
        source: folder, with folders such as `day=2024-05-01` in it or not.
        out: folder for `part-00000.parquet` and so on: rows in the order of the source, all of a series in one file.
        by: column that tells series apart, of text or integers.
        time: column of times, numbers or dates; even steps in the order of files and rows without it.
        values: column of readings, or several. Default: the only column of numbers.
        memory: bytes that all processes together may take; half of the machine's if None. The rows of a series are in
            memory at once.
        workers: number of processes; as many as there are cores if None.
        told: called with what is being done, the rows done since this start and those to do.
        **options: model, method, parameters, smooth, level, live, patience and longest_fault, as in
            `wolf.filter_frame`.
    """
    unknown = options.keys() - {field.name for field in dataclasses.fields(Options)} | options.keys() & {"forecast"}
    if unknown:
        raise ValueError(f"filter_folder does not take {', '.join(sorted(unknown))}")
    given = options | {"parameters": validation.mapping("parameters", options.get("parameters"), "{'obs_var': 1.0}")}
    place = filesystem.find(source)
    head = partitions.first_rows(partitions.open_folder(place))
    names = value_names(narwhals().from_native(head, eager_only=True), time, values, by)
    blocks = column_blocks(Options(**given), names)
    work = Cleaned(by, time, tuple(names), tuple(map(tuple, blocks)), tuple(sorted(given.items())))
    settings = {"time": time, "values": names, "options": fingerprint(given)}
    return dataset_job.run(place, filesystem.find(out), by, work, settings, executors.Processes(workers, memory), told)


@dataclasses.dataclass(frozen=True)
class Cleaned:
    """The work of `filter_folder` on a bucket.

    Attributes:
        by: column that tells series apart.
        time: column of times.
        values: columns of readings.
        blocks: which of them are filtered together.
        options: of `filter_frame`.
    """

    by: str
    time: str | None
    values: tuple[str, ...]
    blocks: tuple[tuple[int, ...], ...]
    options: tuple[tuple[str, Any], ...]

    def room(self, row: float) -> float:
        """Say how many bytes a row takes while it is worked on."""
        return COPIES * row + PER_ROW * len(self.values)

    def __call__(self, table: Any, write: Callable[[Any], None]) -> dict[str, int]:
        """Clean a bucket."""
        wrapped = narwhals().from_native(table, eager_only=True)
        rows = read_frame(wrapped, self.time, list(self.values), self.by)
        options = Options(**dict(self.options), diagnostics=False, dated=rows.dated, origin=rows.origin)
        failed: dict[str, str] = {}
        named: Any = {"groups": rows.groups, "labels": rows.labels, "names": rows.names}
        done = []
        for each in prepare(rows.values, rows.times, options, **named, failed=failed.__setitem__):
            try:
                done.append(each.whole(lambda steps: None))
            except ValueError as error:
                failed[each.label] = str(error)
        results = spread_rows(done, rows.names, len(table), set(table.column_names))
        counts = {"keys": len(rows.labels or []), "failed": len(failed)}
        counts |= {"outliers": sum(each.flagged for each in done)}
        write(self._laid_out(table, results))
        return counts | {"unused": len(table) * len(self.blocks) - sum(len(each.values) for each in done)}

    def _laid_out(self, table: Any, results: dict[str, np.ndarray]) -> Any:
        """Put results into columns that are the same in every bucket, null where a series failed."""
        import pyarrow

        special = {"outlier": pyarrow.bool_(), "kind": pyarrow.string()}
        out = table
        for columns in self.blocks:
            for (kind, _), title in titles(list(self.values), columns, set(table.column_names)).items():
                if title in out.column_names:
                    continue
                wanted = special.get(kind, pyarrow.float64())
                blank = pyarrow.nulls(len(table), wanted)
                out = out.append_column(title, from_numpy(results[title]).cast(wanted) if title in results else blank)
        return out
