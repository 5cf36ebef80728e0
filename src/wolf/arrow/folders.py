"""A folder larger than memory, bucket by bucket, on all cores; after a kill the same call goes on.

`_wolf/manifest.json` in the output says what is being done, to which files. A chunk that was spread and a bucket that
was filtered are told by files that are written whole or not at all, so what is there is done.
"""

import dataclasses
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from wolf import checks, storage
from wolf.arrow import buckets, workers
from wolf.results import count

FORMAT, VERSION = "wolf-folder", 1
WORK = "_wolf"  # readers of datasets pass over names that begin so
BASE = 250 * 2**20  # bytes of a process before it has any rows: Python, JAX, pyarrow
LEAST = 16 * 2**20  # bytes of rows that a process must have room for
MOST = 2**28  # bytes of a chunk; beyond, nothing gets faster
COPIES = 6  # of the rows of a chunk, while it is spread
BUCKETS_EACH = 4  # at least, of a process, so that all have work to the end
SHARE = 0.5  # of the machine's memory, if nobody says
Told = Callable[[str, int, int], None]


class Work(Protocol):
    """What is done to the rows of a bucket; sent to other processes."""

    def room(self, row: float) -> float:
        """Say how many bytes a row takes while it is worked on, of one that takes `row` as it is."""
        ...

    def __call__(self, table: Any, write: Callable[[Any], None]) -> dict[str, int]:
        """Hand tables to `write`, in order; give counts to be summed."""
        ...


@dataclasses.dataclass(frozen=True)
class Foldered:
    """What was done to a folder, earlier starts included.

    Attributes:
        out: folder with a file `part-00000.parquet` for each bucket; all rows of a key are in one.
        rows: that were read.
        keys: number of series.
        outliers: rows that were called so.
        unused: rows that are null in the output, because their key had one of the same time, or its series failed.
        failed: series that could not be filtered.
    """

    out: Path
    rows: int
    keys: int
    outliers: int
    unused: int
    failed: int

    def __str__(self) -> str:
        """Tell it in a few lines."""
        told = [f"{count(self.rows, 'row')} of {count(self.keys, 'key')}, {count(self.outliers, 'outlier')}"]
        if self.unused:
            told.append(f"{count(self.unused, 'row')} not used")
        if self.failed:
            told.append(f"{self.failed:,} series could not be filtered")
        return "\n".join([*told, f"wrote {self.out}"])


COUNTS = ("rows", "keys", "outliers", "unused", "failed")


def run(
    source: Path,
    out: Path,
    key: str,
    work: Work,
    settings: dict[str, Any],
    *,
    memory: float | None = None,
    processes: int | None = None,
    told: Told | None = None,
) -> Foldered:
    """Work on all buckets of a folder that are not done yet.

    Args:
        source: folder of Parquet or Arrow files.
        out: folder, made if it is not there.
        key: column whose values say which rows belong together.
        work: done to each bucket.
        settings: that tell this work from another; an earlier start must have had the same.
        memory: bytes that all processes together may take; half of the machine's if None.
        processes: how many work at a time; as many as there are cores if None.
        told: called with what is being done, rows done since this start, and rows to do.
    """
    paths = buckets.list_files(source)
    if out.resolve().is_relative_to(source.resolve()):
        raise ValueError(f"{out} lies in {source}, which is read; choose another place to write")
    data = buckets.open_files(source, paths)
    if key not in data.schema.names:
        raise ValueError(f"there is no column {key!r}; there are {', '.join(map(repr, data.schema.names))}")
    processes = (os.cpu_count() or 1) if processes is None else checks.count("workers", processes)
    (out / WORK).mkdir(parents=True, exist_ok=True)
    held = storage.hold(out / WORK / "lock", f"another process is writing to {out}")
    try:
        manifest = _begin(source, paths, out, data, work, settings | {"key": key}, _room(memory, processes), processes)
        if "done" not in manifest:
            job = _Job(data.schema, key, out, manifest["buckets"])
            chunks = buckets.cut(data, manifest["chunk_rows"])
            _spread(job, chunks, processes, manifest["rows"], told or _silent)
            _filter(job, len(chunks), work, processes, manifest["rows"], told or _silent)
            manifest |= {"done": _finish(job)}
            _write_manifest(out, manifest)
            for left in (out / WORK).glob("*.arrow"):
                left.unlink()
        return Foldered(out, **manifest["done"])
    finally:
        if held is not None:
            os.close(held)


def _silent(words: str, done: int, total: int) -> None:
    pass


def _room(memory: float | None, processes: int) -> float:
    """Say how many bytes of rows a process may hold."""
    whole = SHARE * machine_memory() if memory is None else checks.positive_number("memory", memory)
    room = (whole - BASE) / processes - BASE  # the one that hands out the work takes memory too
    if room < LEAST:
        needed = ((BASE + LEAST) * processes + BASE) / 2**30
        raise ValueError(
            f"memory must be at least {needed:.1f} GB for {count(processes, 'process')}; got {whole / 2**30:.1f} GB. "
            "Give more, or fewer workers"
        )
    return room


def machine_memory() -> float:
    """Give the memory of this machine, or of the container that this is, in bytes."""
    limits = [8 * 2**30]  # where nobody tells
    if hasattr(os, "sysconf"):
        limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    group = Path("/sys/fs/cgroup/memory.max")
    if group.exists() and (text := group.read_text().strip()).isdigit():
        limits.append(int(text))
    return float(min(limits))


def _begin(
    source: Path,
    paths: list[Path],
    out: Path,
    data: Any,
    work: Work,
    settings: dict[str, Any],
    room: float,
    processes: int,
) -> dict[str, Any]:
    """Read what an earlier start has settled, or settle it: how many buckets, how large a chunk."""
    stats = [(str(path.relative_to(source)), path.stat()) for path in paths]
    about = {"settings": settings, "files": [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]}
    about = json.loads(json.dumps({"format": FORMAT, "version": VERSION} | about))
    path = out / WORK / "manifest.json"
    if path.exists():
        manifest = dict(json.loads(path.read_text()))
        for name, mine in about.items():
            if manifest.get(name) != mine:
                what = {"settings": "other settings", "files": "other files, or they have changed since"}
                words = what.get(name, "another version of wolf")
                raise ValueError(f"{out} was begun with {words}; go on with the same, or choose another folder")
        return manifest
    if any(out.glob("*.parquet")):
        raise ValueError(f"{out} holds files of something else; give an empty folder, or one to go on with")
    rows, size = data.count_rows(), buckets.row_size(data)
    if not rows:
        raise ValueError(f"{source} has no rows")
    wanted = math.ceil(rows * work.room(size) / room)
    chunk_rows = max(1, int(min(room / COPIES, MOST) / size))
    settled = {"rows": rows, "buckets": max(wanted, BUCKETS_EACH * processes), "chunk_rows": chunk_rows}
    _write_manifest(out, about | settled)
    return about | settled


def _write_manifest(out: Path, manifest: dict[str, Any]) -> None:
    with storage.atomic(out / WORK / "manifest.json") as file:
        file.write(json.dumps(manifest, indent=1).encode())


@dataclasses.dataclass(frozen=True)
class _Job:
    schema: Any
    key: str
    out: Path
    count: int

    def chunk(self, index: int) -> Path:
        return self.out / WORK / f"rows-{index:05d}.arrow"

    def part(self, bucket: int) -> Path:
        return self.out / f"part-{bucket:05d}.parquet"

    def facts(self, bucket: int) -> Path:
        return self.out / WORK / f"part-{bucket:05d}.json"


def _spread(job: _Job, chunks: list[list[Any]], processes: int, rows: int, told: Told) -> None:
    """Spread the chunks that are not."""
    left = [i for i in range(len(chunks)) if not job.chunk(i).exists()]
    same = job.schema, job.key, job.count
    tasks: list[workers.Task] = [(buckets.spread, (chunks[i], *same, job.chunk(i))) for i in left]
    total, done = round(rows * len(left) / max(len(chunks), 1)), 0
    for some in workers.run(tasks, processes):
        done += some
        told(f"Spreading rows over {job.count} buckets", done, total)


def _filter(job: _Job, chunks: int, work: Work, processes: int, rows: int, told: Told) -> None:
    """Filter the buckets that are not."""
    spread = [job.chunk(i) for i in range(chunks)]
    left = [i for i in range(job.count) if not job.facts(i).exists()]
    tasks: list[workers.Task] = [(filter_bucket, (spread, i, work, job.part(i), job.facts(i))) for i in left]
    total, done = round(rows * len(left) / job.count), 0
    for some in workers.run(tasks, processes):
        done += some
        told("Filtering", done, total)


def filter_bucket(spread: list[Path], bucket: int, work: Work, part: Path, facts: Path) -> int:
    """Work on one bucket, and write what comes of it; give the number of rows."""
    from pyarrow import parquet

    table = buckets.gather(spread, bucket)
    rows, counts = table.num_rows, {}
    if rows:
        with storage.atomic(part) as file:
            writers: list[Any] = []

            def write(some: Any) -> None:
                if not writers:
                    writers.append(parquet.ParquetWriter(file, some.schema))
                writers[0].write_table(some)

            counts = work(table, write)
            for writer in writers:
                writer.close()
    with storage.atomic(facts) as file:  # after the part: what is counted is there
        file.write(json.dumps(counts | {"rows": rows}).encode())
    return rows


def _finish(job: _Job) -> dict[str, int]:
    """Sum the counts of all buckets."""
    every = [json.loads(job.facts(i).read_text()) for i in range(job.count)]
    return {name: int(np.sum([each.get(name, 0) for each in every])) for name in COUNTS}
