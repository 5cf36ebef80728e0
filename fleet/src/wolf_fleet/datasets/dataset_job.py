"""A folder larger than memory, bucket by bucket, on all cores; after a kill the same call goes on.

`_wolf/manifest.json` in the output says what is being done, to which files. A chunk that was spread and a bucket that
was filtered are told by files that are written whole or not at all, so what is there is done.
"""

import dataclasses
import json
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from wolf.results import count
from wolf.runtime import checkpoints
from wolf_fleet.datasets import partitions, worker_process
from wolf_fleet.datasets.executors import Team
from wolf_fleet.datasets.filesystem import Location

FORMAT, VERSION = "wolf-folder", 2
WORK, SUCCESS = "_wolf", "_SUCCESS"  # readers of datasets pass over names that begin so
MOST = 2**28  # bytes of a chunk; beyond, nothing gets faster
COPIES = 6  # of the rows of a chunk, while it is spread
BUCKETS_EACH = 4  # at least, of a process, so that all have work to the end
SPARKS = (
    b"org.apache.spark"  # how Spark's own notes in a file begin: it would read the columns that they name, and no more
)
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
        parts: the same for each file, with its name.
    """

    out: Path | str
    rows: int
    keys: int
    outliers: int
    unused: int
    failed: int
    parts: tuple[dict[str, Any], ...] = dataclasses.field(default=(), repr=False)

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
    source: Location,
    out: Location,
    key: str,
    work: Work,
    settings: dict[str, Any],
    team: Team,
    told: Told | None = None,
    anew: bool = False,
    whole: bool = False,
) -> Foldered:
    """Work on all buckets of a folder that are not done yet.

    Args:
        source: folder of Parquet or Arrow files.
        out: folder, made if it is not there.
        key: column whose values say which rows belong together.
        work: done to each bucket.
        settings: that tell this work from another; an earlier start must have had the same.
        team: that does it.
        told: called with what is being done, rows done since this start, and rows to do.
        anew: remove what an earlier run has written, in place of going on with it.
        whole: each file has all rows of its keys.
    """
    found = partitions.list_files(source)
    check_apart(source, out)
    data = partitions.open_files(source, [name for name, _, _ in found])
    if key not in data.schema.names:
        raise ValueError(f"there is no column {key!r}; there are {', '.join(map(repr, data.schema.names))}")
    if anew:
        _check_own(out)
    out.make()
    (out / WORK).make()
    held = None
    if out.system is None:
        held = checkpoints.hold(Path((out / WORK / "lock").path), f"another process is writing to {out}")
    try:
        if anew:
            _remove(out)
        manifest = _begin(source, found, out, data, work, settings | {"key": key, "whole": whole}, team)
        if "done" not in manifest:
            _do(_Job(data, key, out, manifest, work, team, told or _silent))
        return Foldered(Path(out.given) if out.system is None else out.given, **manifest["done"], parts=_parts(out))
    finally:
        if held is not None:
            os.close(held)


def _check_own(out: Location) -> None:
    """Refuse to write over what is not of an earlier run."""
    ours = (out / WORK / "manifest.json").exists()
    if out.exists() and not ours and (not out.is_folder() or out.list(deep=True)):
        raise ValueError(f"{out} was not written by wolf, and is not removed; choose another place")


def _remove(out: Location) -> None:
    """Remove what an earlier run has written."""
    for place in (out, out / WORK):
        own = ("part-", ".part-", SUCCESS) if place is out else ("part-", ".", "rows-", "manifest")
        for name in sorted(name for name, _, _ in place.list() if name.startswith(own)):
            (place / name).remove()


def check_apart(source: Location, out: Location) -> None:
    """Refuse to write into what is read, or around it."""
    if source.system != out.system:
        return
    place, other = (Path(each.path).resolve() if each.system is None else Path(each.path) for each in (source, out))
    if other.is_relative_to(place):
        raise ValueError(f"{out} lies in {source}, which is read; choose another place to write")
    if place.is_relative_to(other):
        raise ValueError(f"{source}, which is read, lies in {out}; choose another place to write")


def _silent(words: str, done: int, total: int) -> None:
    pass


def _begin(
    source: Location,
    found: list[tuple[str, int, int]],
    out: Location,
    data: Any,
    work: Work,
    settings: dict[str, Any],
    team: Team,
) -> dict[str, Any]:
    """Read what an earlier start has settled, or settle it: how many buckets, how large a chunk."""
    about = {"settings": settings, "files": found}
    about = json.loads(json.dumps({"format": FORMAT, "version": VERSION} | about))
    path = out / WORK / "manifest.json"
    if path.exists():
        manifest = dict(json.loads(path.read()))
        for name, mine in about.items():
            if manifest.get(name) != mine:
                what = {"settings": "other settings", "files": "other files, or they have changed since"}
                words = what.get(name, "another version of wolf")
                raise ValueError(f"{out} was begun with {words}; go on with the same, or choose another folder")
        return manifest
    if any(name.endswith(".parquet") for name, _, _ in out.list()):
        raise ValueError(f"{out} holds files of something else; give an empty folder, or one to go on with")
    rows, size = data.count_rows(), partitions.row_size(data)
    if not rows:
        raise ValueError(f"{source} has no rows")
    wanted = math.ceil(rows * work.room(size) / team.room)
    chunk_rows = min(min(team.room / COPIES, MOST) / size, rows / team.count)
    settled = {"rows": rows, "buckets": max(wanted, BUCKETS_EACH * team.count), "chunk_rows": math.ceil(chunk_rows)}
    settled |= {"room_rows": math.floor(team.room / work.room(size))}
    # A range of keys cannot be cut as finely as by a hash, but there must be work for all, and a kill cost little.
    settled |= {"most_rows": min(settled["room_rows"], math.ceil(rows / team.count / 2))}
    _write(path, about | settled)
    return about | settled


def _write(path: Location, facts: dict[str, Any]) -> None:
    with path.writing() as file:
        file.write(json.dumps(facts, indent=1).encode())


@dataclasses.dataclass(frozen=True)
class _Job:
    """What is to be done, as `run` was told, with what was settled."""

    data: Any
    key: str
    out: Location
    manifest: dict[str, Any]
    work: Work
    team: Team
    told: Told

    def part(self, bucket: int) -> Location:
        return self.out / f"part-{bucket:05d}.parquet"

    def facts(self, bucket: int) -> Location:
        return self.out / WORK / f"part-{bucket:05d}.json"


def _do(job: _Job) -> None:
    """Do what is not done, and tell that it is."""
    rows, count = job.manifest["rows"], job.manifest["buckets"]
    every = partitions.units(job.data)
    how = every, job.data.schema, job.key, math.ceil(rows / count)
    sources: Sequence[Any] | None
    if job.manifest["settings"]["whole"]:
        sources = partitions.whole_files(*how, job.manifest["room_rows"])
    else:
        sources = partitions.ranges(*how, job.manifest["most_rows"])
    sources = _spread(job, every) if sources is None else sources
    _filter(job, sources)
    there = {name for name, _, _ in (job.out / WORK).list()}
    if len([name for name in there if name.startswith("part-")]) < len(sources):
        raise ValueError(f"what tasks have written is not in {job.out}: it must be a folder that all machines see")
    facts = [json.loads(job.facts(i).read()) for i in range(len(sources))]
    done = {name: int(np.sum([each.get(name, 0) for each in facts])) for name in COUNTS}
    if done["rows"] != rows:
        raise ValueError(f"{done['rows']:,} rows were read of {rows:,}: the files changed meanwhile; begin anew")
    job.manifest["done"] = done
    for place in (job.out, job.out / WORK):
        for name, _, _ in place.list():
            if name.endswith((".arrow", ".part")):  # rows that were spread, and what a kill has left
                (place / name).remove()
    _write(job.out / SUCCESS, {})
    _write(job.out / WORK / "manifest.json", job.manifest)


def _spread(job: _Job, every: list[partitions.Unit]) -> list[partitions.SpreadRows]:
    """SpreadRows the chunks that are not."""
    rows, count = job.manifest["rows"], job.manifest["buckets"]
    chunks = partitions.cut(every, job.manifest["chunk_rows"])
    locations = [job.out / WORK / f"rows-{i:05d}.arrow" for i in range(len(chunks))]
    there = {name for name, _, _ in (job.out / WORK).list()}
    left = [i for i in range(len(chunks)) if f"rows-{i:05d}.arrow" not in there]
    same = job.data.schema, job.key, count
    tasks: list[worker_process.Task] = [(partitions.spread, (chunks[i], *same, locations[i])) for i in left]
    total, done = round(rows * len(left) / max(len(chunks), 1)), 0
    for some in job.team.run(tasks):
        done += some
        job.told(f"Spreading rows over {count} buckets", done, total)
    return [partitions.SpreadRows(locations, i) for i in range(count)]


def _filter(job: _Job, sources: Sequence[Any]) -> None:
    """Filter the buckets that are not."""
    there = {name for name, _, _ in (job.out / WORK).list()}
    left = [i for i in range(len(sources)) if f"part-{i:05d}.json" not in there]
    tasks: list[worker_process.Task] = [
        (filter_bucket, (sources[i], job.work, job.part(i), job.facts(i))) for i in left
    ]
    total, done = round(job.manifest["rows"] * len(left) / len(sources)), 0
    for some in job.team.run(tasks):
        done += some
        job.told("Filtering", done, total)


def filter_bucket(source: Any, work: Work, part: Location, facts: Location) -> int:
    """Work on one bucket, and write what comes of it; give the number of rows.

    It may be done twice, also at the same time: both write the same, under the same names.
    """
    from pyarrow import parquet

    table = source.read()
    about = {name: text for name, text in (table.schema.metadata or {}).items() if not name.startswith(SPARKS)}
    table = table.replace_schema_metadata(about)
    rows, counts = table.num_rows, {}
    if rows:
        with part.writing() as file:
            writers: list[Any] = []

            def write(some: Any) -> None:
                if not writers:
                    coded = worth_coding(some.schema, table.column_names)
                    writers.append(parquet.ParquetWriter(file, some.schema, use_dictionary=coded))
                writers[0].write_table(some)

            counts = work(table, write)
            for writer in writers:
                writer.close()
    _write(facts, counts | {"rows": rows})  # after the part: what is counted is there
    return rows


def worth_coding(schema: Any, given: Sequence[str]) -> list[str]:
    """Name the columns that may repeat themselves, for Parquet to look for it; numbers of a filter do not.

    To look takes more than the filter, and more room than it saves.

    Args:
        schema: of what is written.
        given: columns that were read.
    """
    from pyarrow import types

    return [field.name for field in schema if field.name in given or not types.is_floating(field.type)]


def _parts(out: Location) -> tuple[dict[str, Any], ...]:
    """Tell what became of each file."""
    names = [name for name, _, _ in (out / WORK).list() if name.startswith("part-")]
    every = {name.replace(".json", ".parquet"): json.loads((out / WORK / name).read()) for name in names}
    blank = dict.fromkeys(COUNTS, 0)
    return tuple({"file": name} | blank | facts for name, facts in every.items() if facts["rows"])
