"""Resumable job on a folder larger than memory, bucket by bucket, on all cores.

`_wolf/manifest.json` in the output records the settings and the input files. A shuffled chunk or a filtered bucket is
complete if its file exists, because files are written atomically; the same call after an interruption does the rest.
"""

import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from wolf.results import count
from wolf.runtime import files
from wolf_fleet.datasets import partitions, worker_process
from wolf_fleet.datasets.executors import Executor
from wolf_fleet.datasets.filesystem import Location

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import dataset

FORMAT, VERSION = "wolf-folder", 3
WORK_FOLDER, SUCCESS_FILE = "_wolf", "_SUCCESS"  # readers of datasets skip names that begin with an underscore
MAX_CHUNK_BYTES = 2**28  # larger chunks are not faster
CHUNK_COPIES = 6  # of the rows of a chunk in memory while it is shuffled
MIN_BUCKETS_PER_PROCESS = 4  # so that all processes stay busy to the end
SPARK_METADATA = b"org.apache.spark"  # prefix of Spark's schema in Parquet metadata: Spark would read its columns only
JsonObject = dict[str, Any]  # of a manifest: settings, files and counts
ProgressCallback = Callable[[str, int, int], None]


class Bucket(Protocol):
    """Rows of some keys; sent to other processes."""

    def read(self) -> "pa.Table":
        """Read the rows in the order of the source."""
        ...


class BucketJob(Protocol):
    """Job on the rows of a bucket; sent to other processes."""

    def bytes_per_row(self, row_bytes: float) -> float:
        """Estimate the memory that a row needs during the job, from its size as read."""
        ...

    def __call__(self, table: "pa.Table", write: Callable[["pa.Table"], None]) -> dict[str, int]:
        """Pass result tables to `write`, in order; return counts to be summed."""
        ...


@dataclasses.dataclass(frozen=True)
class DatasetSummary:
    """Counts of a job on a folder, earlier calls included.

    Attributes:
        out: folder with a file `part-00000.parquet` per bucket; all rows of a key are in one.
        rows: rows that were read.
        keys: number of series.
        outliers: rows that were flagged.
        unused: rows without results, because their key had a row of the same time, or its series failed.
        failed: series that could not be filtered.
        parts: the same counts per file, with its name.
    """

    out: Path | str
    rows: int
    keys: int
    outliers: int
    unused: int
    failed: int
    parts: tuple[JsonObject, ...] = dataclasses.field(default=(), repr=False)

    def __str__(self) -> str:
        """Format the counts as a few lines of text."""
        lines = [f"{count(self.rows, 'row')} of {count(self.keys, 'key')}, {count(self.outliers, 'outlier')}"]
        if self.unused:
            lines.append(f"{count(self.unused, 'row')} not used")
        if self.failed:
            lines.append(f"{self.failed:,} series could not be filtered")
        return "\n".join([*lines, f"wrote {self.out}"])


COUNTS = ("rows", "keys", "outliers", "unused", "failed")


def run(
    source: Location,
    out: Location,
    key: str,
    job: BucketJob,
    settings: JsonObject,
    executor: Executor,
    on_progress: ProgressCallback | None = None,
    overwrite: bool = False,
    whole_keys: bool = False,
) -> DatasetSummary:
    """Run a job on all buckets of a folder that are not complete.

    Args:
        source: folder of Parquet or Arrow files.
        out: folder for the output, created if missing.
        key: column whose values identify the series.
        job: to run on each bucket.
        settings: that identify the job; an earlier call must have had the same.
        executor: that runs it.
        on_progress: called with the name of the phase, the rows done in this call, and the rows to do.
        overwrite: delete the output of an earlier call instead of resuming.
        whole_keys: each file has all rows of its keys.
    """
    found = partitions.list_files(source)
    check_apart(source, out)
    data = partitions.open_files(source, [name for name, _, _ in found])
    if key not in data.schema.names:
        raise ValueError(f"there is no column {key!r}; there are {', '.join(map(repr, data.schema.names))}")
    if overwrite:
        _check_own(out)
    out.make()
    (out / WORK_FOLDER).make()
    lock = None
    if out.system is None:
        lock = files.hold(Path((out / WORK_FOLDER / "lock").path), f"another process is writing to {out}")
    try:
        if overwrite:
            _remove(out)
        settings = settings | {"key": key, "whole_keys": whole_keys}
        manifest = _begin(source, found, out, data, job, settings, executor)
        if "done" not in manifest:
            _run_all(_Run(data, key, out, manifest, job, executor, on_progress or _ignore_progress))
        folder = Path(out.given) if out.system is None else out.given
        return DatasetSummary(folder, **manifest["done"], parts=_part_counts(out))
    finally:
        files.release(lock)


def _check_own(out: Location) -> None:
    """Raise a `ValueError` if a folder to overwrite was not written by an earlier call."""
    ours = (out / WORK_FOLDER / "manifest.json").exists()
    if out.exists() and not ours and (not out.is_folder() or out.list(deep=True)):
        raise ValueError(f"{out} was not written by wolf and is not overwritten; choose another folder")


def _remove(out: Location) -> None:
    """Delete the output of an earlier call."""
    for place in (out, out / WORK_FOLDER):
        own = ("part-", ".part-", SUCCESS_FILE) if place is out else ("part-", ".", "rows-", "manifest")
        for name in sorted(name for name, _, _ in place.list() if name.startswith(own)):
            (place / name).remove()


def check_apart(source: Location, out: Location) -> None:
    """Raise a `ValueError` if one of the two folders contains the other."""
    if source.system != out.system:
        return
    place, other = (Path(each.path).resolve() if each.system is None else Path(each.path) for each in (source, out))
    if other.is_relative_to(place):
        raise ValueError(f"the output {out} lies in the input {source}; choose another folder")
    if place.is_relative_to(other):
        raise ValueError(f"the input {source} lies in the output {out}; choose another folder")


def _ignore_progress(phase: str, done: int, total: int) -> None:
    pass


def _begin(
    source: Location,
    found: list[tuple[str, int, int]],
    out: Location,
    data: "dataset.Dataset",
    job: BucketJob,
    settings: JsonObject,
    executor: Executor,
) -> JsonObject:
    """Read the manifest of an earlier call, or write one with the number of buckets and the size of a chunk."""
    about = {"settings": settings, "files": found}
    about = json.loads(json.dumps({"format": FORMAT, "version": VERSION} | about))
    path = out / WORK_FOLDER / "manifest.json"
    if path.exists():
        manifest = dict(json.loads(path.read()))
        for name, mine in about.items():
            if manifest.get(name) != mine:
                what = {"settings": "other settings", "files": "other input files, or they have changed"}
                words = what.get(name, "another version of wolf")
                raise ValueError(f"{out} was started with {words}; use the same, or choose another folder")
        return manifest
    if any(name.endswith(".parquet") for name, _, _ in out.list()):
        raise ValueError(f"{out} contains other Parquet files; give an empty folder, or one to resume")
    rows, size = data.count_rows(), partitions.row_size(data)
    if not rows:
        raise ValueError(f"{source} has no rows")
    wanted = math.ceil(rows * job.bytes_per_row(size) / executor.row_memory)
    chunk_rows = min(min(executor.row_memory / CHUNK_COPIES, MAX_CHUNK_BYTES) / size, rows / executor.count)
    plan = {"rows": rows, "buckets": max(wanted, MIN_BUCKETS_PER_PROCESS * executor.count)}
    plan |= {"chunk_rows": math.ceil(chunk_rows)}
    plan |= {"max_rows": math.floor(executor.row_memory / job.bytes_per_row(size))}
    # Key ranges are coarser than hash buckets, but all processes need work, and a kill should lose little of it.
    plan |= {"max_range_rows": min(plan["max_rows"], math.ceil(rows / executor.count / 2))}
    _write(path, about | plan)
    return about | plan


def _write(path: Location, facts: JsonObject) -> None:
    with path.writing() as file:
        file.write(json.dumps(facts, indent=1).encode())


@dataclasses.dataclass(frozen=True)
class _Run:
    """Arguments of `run` together with the manifest."""

    data: "dataset.Dataset"
    key: str
    out: Location
    manifest: JsonObject
    job: BucketJob
    executor: Executor
    on_progress: ProgressCallback

    def part(self, bucket: int) -> Location:
        return self.out / f"part-{bucket:05d}.parquet"

    def counts(self, bucket: int) -> Location:
        return self.out / WORK_FOLDER / f"part-{bucket:05d}.json"


def _run_all(run: _Run) -> None:
    """Complete all buckets, delete temporary files and mark the output as complete."""
    rows, num_buckets = run.manifest["rows"], run.manifest["buckets"]
    units = partitions.read_units(run.data)
    how = units, run.data.schema, run.key, math.ceil(rows / num_buckets)
    buckets: Sequence[Bucket] | None
    if run.manifest["settings"]["whole_keys"]:
        buckets = partitions.whole_files(*how, run.manifest["max_rows"])
    else:
        buckets = partitions.key_ranges(*how, run.manifest["max_range_rows"])
    buckets = _shuffle(run, units) if buckets is None else buckets
    _filter(run, buckets)
    there = {name for name, _, _ in (run.out / WORK_FOLDER).list()}
    if len([name for name in there if name.startswith("part-")]) < len(buckets):
        raise ValueError(f"the files written by the tasks are not in {run.out}: all machines must share this folder")
    counts = [json.loads(run.counts(i).read()) for i in range(len(buckets))]
    done = {name: int(np.sum([each.get(name, 0) for each in counts])) for name in COUNTS}
    if done["rows"] != rows:
        raise ValueError(
            f"{done['rows']:,} rows were read instead of {rows:,}: the input files changed meanwhile; "
            "start again with an empty output folder"
        )
    run.manifest["done"] = done
    for place in (run.out, run.out / WORK_FOLDER):
        for name, _, _ in place.list():
            if name.endswith((".arrow", ".part")):  # shuffled rows, and unfinished files of an interrupted call
                (place / name).remove()
    _write(run.out / SUCCESS_FILE, {})
    _write(run.out / WORK_FOLDER / "manifest.json", run.manifest)


def _shuffle(run: _Run, units: list[partitions.ReadUnit]) -> list[partitions.HashBucket]:
    """Write the remaining chunks, sorted by bucket."""
    rows, num_buckets = run.manifest["rows"], run.manifest["buckets"]
    chunks = partitions.cut(units, run.manifest["chunk_rows"])
    locations = [run.out / WORK_FOLDER / f"rows-{i:05d}.arrow" for i in range(len(chunks))]
    there = {name for name, _, _ in (run.out / WORK_FOLDER).list()}
    left = [i for i in range(len(chunks)) if f"rows-{i:05d}.arrow" not in there]
    same = run.data.schema, run.key, num_buckets
    tasks: list[worker_process.Task] = [(partitions.write_buckets, (chunks[i], *same, locations[i])) for i in left]
    total, done = round(rows * len(left) / max(len(chunks), 1)), 0
    for num_rows in run.executor.run(tasks):
        done += num_rows
        run.on_progress(f"Shuffling rows into {num_buckets} buckets", done, total)
    return [partitions.HashBucket(locations, i) for i in range(num_buckets)]


def _filter(run: _Run, buckets: Sequence[Bucket]) -> None:
    """Filter the remaining buckets."""
    there = {name for name, _, _ in (run.out / WORK_FOLDER).list()}
    left = [i for i in range(len(buckets)) if f"part-{i:05d}.json" not in there]
    tasks: list[worker_process.Task] = [
        (filter_bucket, (buckets[i], run.job, run.part(i), run.counts(i))) for i in left
    ]
    total, done = round(run.manifest["rows"] * len(left) / len(buckets)), 0
    for num_rows in run.executor.run(tasks):
        done += num_rows
        run.on_progress("Filtering", done, total)


def filter_bucket(bucket: Bucket, job: BucketJob, part: Location, counts_file: Location) -> int:
    """Run a job on one bucket and write the results; return the number of rows.

    Running it twice, also at the same time, is harmless: both write the same content under the same names.
    """
    from pyarrow import parquet

    table = bucket.read()
    metadata = {
        name: text for name, text in (table.schema.metadata or {}).items() if not name.startswith(SPARK_METADATA)
    }
    table = table.replace_schema_metadata(metadata)
    rows, counts = table.num_rows, {}
    if rows:
        with part.writing() as file:
            writers: list[parquet.ParquetWriter] = []

            def write(some: "pa.Table") -> None:
                if not writers:
                    coded = dictionary_columns(some.schema, table.column_names)
                    writers.append(parquet.ParquetWriter(file, some.schema, use_dictionary=coded))
                writers[0].write_table(some)

            counts = job(table, write)
            for writer in writers:
                writer.close()
    _write(counts_file, counts | {"rows": rows})  # after the part: if the counts exist, so does the part
    return rows


def dictionary_columns(schema: "pa.Schema", given: Sequence[str]) -> list[str]:
    """List the columns to dictionary-encode in Parquet: those of the input, and results that are not floating point.

    For floating-point results the search for repeated values would take longer than the filter and save nothing.

    Args:
        schema: of the output.
        given: columns of the input.
    """
    from pyarrow import types

    return [field.name for field in schema if field.name in given or not types.is_floating(field.type)]


def _part_counts(out: Location) -> tuple[JsonObject, ...]:
    """Read the counts of each output file."""
    names = [name for name, _, _ in (out / WORK_FOLDER).list() if name.startswith("part-")]
    found = {name.replace(".json", ".parquet"): json.loads((out / WORK_FOLDER / name).read()) for name in names}
    blank = dict.fromkeys(COUNTS, 0)
    return tuple({"file": name} | blank | counts for name, counts in found.items() if counts["rows"])
