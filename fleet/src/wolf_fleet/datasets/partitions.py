"""Rows of many keys in buckets: all rows of a key are in one, and a bucket fits into memory.

Where files are laid out by key, a bucket is a range of keys, and what it reads is found by the ranges that the files
tell. Else rows are spread first: a chunk of the source is read, its rows are put in the order of their buckets, and it
is written as one Arrow file with a record batch for each bucket. To read a bucket is then one jump into each of these.
"""

import dataclasses
from itertools import groupby, pairwise
from pathlib import PurePosixPath
from typing import Any
from zlib import crc32

import numpy as np

from wolf_fleet.datasets.filesystem import Location

KINDS = {".parquet": "parquet", ".pq": "parquet", ".arrow": "ipc", ".feather": "ipc", ".ipc": "ipc"}
SAMPLE = 10_000  # rows that tell how much room a row takes
READ_AGAIN = 2.0  # times all rows that ranges of keys may read; to spread rows costs more than that


def list_files(source: Location) -> list[tuple[str, int, int]]:
    """List the files of a folder and its folders, but for hidden ones; refuse what is no dataset."""
    if not source.is_folder():
        raise ValueError(f"{source} is no folder; give one with Parquet or Arrow files")
    hidden = (".", "_")
    found = [each for each in source.list(deep=True) if not any(part.startswith(hidden) for part in each[0].split("/"))]
    endings = {ending(name) for name, _, _ in found}
    if not endings:
        raise ValueError(f"{source} is empty: expected Parquet or Arrow files")
    if len({KINDS.get(each) for each in endings}) > 1 or not endings <= KINDS.keys():
        told = ", ".join(sorted(each or "no ending" for each in endings))
        raise ValueError(f"a dataset is all Parquet or all Arrow files; {source} has {told}")
    return found


def ending(name: str) -> str:
    """Give the ending of a file's name, as `.parquet`."""
    return PurePosixPath(name).suffix.lower()


def open_files(source: Location, names: list[str]) -> Any:
    """Open files as one `pyarrow.dataset.Dataset`; folders named `id=7` are a column."""
    from pyarrow import ArrowException, dataset

    kind = KINDS[ending(names[0])]
    paths = [(source / name).path for name in names]
    read: Any = kind
    if kind == "parquet":  # times of 96 bits, as Spark writes them: in nanoseconds Spark could not read them again
        read = dataset.ParquetFileFormat(coerce_int96_timestamp_unit="us")
    how: Any = {"filesystem": source.files, "partitioning": "hive", "partition_base_dir": source.path}
    try:
        return dataset.dataset(paths, format=read, **how)
    except (ArrowException, OSError) as error:
        raise ValueError(f"{source} cannot be read as {kind} files: {error}") from error


def open_folder(source: Location) -> Any:
    """Open all files of a folder as one dataset."""
    return open_files(source, [name for name, _, _ in list_files(source)])


def first_rows(data: Any, rows: int = SAMPLE) -> Any:
    """Read the first rows of a dataset, and not the files behind them."""
    first = next(iter(data.get_fragments()))
    scanner = first.scanner(schema=data.schema, batch_size=rows, batch_readahead=0, use_threads=False)
    return scanner.head(rows)


def row_size(data: Any) -> float:
    """Measure how many bytes a row takes in memory, on the first ones."""
    head = first_rows(data)
    return max(head.nbytes / max(head.num_rows, 1), 1.0)


@dataclasses.dataclass(frozen=True)
class Unit:
    """The least that is read at once: a group of rows of a Parquet file, or another file whole.

    Attributes:
        fragment: file that it is in.
        group: its number there; None is the whole file.
        rows: how many it has.
    """

    fragment: Any
    group: int | None
    rows: int

    def ends(self, key: str) -> tuple[Any, Any] | None:
        """Give the smallest and the largest key, if the file or the name of its folder tells them."""
        from pyarrow import dataset

        named = dataset.get_partition_keys(self.fragment.partition_expression)
        if named.get(key) is not None:
            return named[key], named[key]
        told = self.fragment.row_groups[self.group].statistics if self.group is not None else None
        ends = (told or {}).get(key)
        return None if ends is None else (ends["min"], ends["max"])


def units(data: Any) -> list[Unit]:
    """List what a dataset is read in, in the order of files and rows."""
    found = []
    for fragment in data.get_fragments():
        if hasattr(fragment, "row_groups"):
            found += [Unit(fragment, i, group.num_rows) for i, group in enumerate(fragment.row_groups)]
        else:
            found.append(Unit(fragment, None, fragment.count_rows()))
    return found


def join(some: list[Unit]) -> list[Any]:
    """Put units of one file together: to open it takes time."""
    joined = []
    for _, each in groupby(some, lambda unit: id(unit.fragment)):
        same = list(each)
        whole = same[0].group is None
        joined.append(same[0].fragment if whole else same[0].fragment.subset(row_group_ids=[u.group for u in same]))
    return joined


def cut(every: list[Unit], rows: int) -> list[list[Any]]:
    """Cut a dataset into chunks of about so many rows, each a list of fragments, in the order of files and rows."""
    chunks: list[list[Unit]] = []
    held = rows
    for unit in every:
        if held + unit.rows > rows:
            chunks.append([])
            held = 0
        chunks[-1].append(unit)
        held += unit.rows
    return [join(chunk) for chunk in chunks]


@dataclasses.dataclass(frozen=True)
class Range:
    """A bucket of all keys of a range, read from the files that have some of them.

    Attributes:
        fragments: to read.
        schema: of the dataset.
        key: name of a column.
        ends: first key, and the first one that is of the next bucket; None where the fragments have no other keys.
    """

    fragments: list[Any]
    schema: Any
    key: str
    ends: tuple[Any, Any] | None

    def read(self) -> Any:
        """Read the rows, in the order of the source, as a `pyarrow.Table`."""
        import pyarrow
        from pyarrow import dataset

        mine = None
        if self.ends is not None:
            column, (first, end) = dataset.field(self.key), self.ends
            mine = column >= first if end is None else (column >= first) & (column < end)
            mine = mine | column.is_null()  # to be refused
        tables = [each.to_table(schema=self.schema, filter=mine) for each in self.fragments]
        return pyarrow.concat_tables(tables)


def whole_files(every: list[Unit], schema: Any, key: str, rows: int, most: int) -> list[Range]:
    """Put files together until they have so many rows, where each is known to have all rows of its keys."""
    files = [list(each) for _, each in groupby(every, lambda unit: id(unit.fragment))]
    units = [Unit(each[0].fragment, None, sum(unit.rows for unit in each)) for each in files]
    if (largest := max(unit.rows for unit in units)) > most:
        raise ValueError(f"a file of {largest:,} rows does not fit into memory; give more, or let rows be shuffled")
    return [Range(fragments, schema, key, None) for fragments in cut(units, rows)]


def ranges(every: list[Unit], schema: Any, key: str, rows: int, most: int) -> list[Range] | None:
    """Cut a dataset into ranges of keys of about so many rows.

    Args:
        every: unit of the dataset.
        schema: of the dataset.
        key: name of the column.
        rows: of a range, about.
        most: rows of a range at most.

    Returns:
        None where files do not tell their keys, or are not laid out by them, so that most would be read many times.
    """
    told = [unit.ends(key) for unit in every]
    known = [each for each in told if each is not None]
    if len(known) < len(told) or not known:
        return None
    order = sorted(range(len(every)), key=lambda i: known[i][0])
    firsts, held = [known[order[0]][0]], 0
    for i in order:
        if held >= rows and known[i][0] > firsts[-1]:
            firsts.append(known[i][0])
            held = 0
        held += every[i].rows
    names = {name: i for i, name in enumerate(sorted({*firsts, *(end for ends in known for end in ends)}))}
    low, high = (np.array([names[ends[side]] for ends in known]) for side in (0, 1))
    sizes = np.array([unit.rows for unit in every])
    found, read = [], 0
    for first, end in pairwise([*firsts, None]):
        below = low < (len(names) if end is None else names[end])
        mine = np.flatnonzero(below & (high >= names[first]))
        read += (size := int(sizes[mine].sum()))
        if size > most or read > READ_AGAIN * sizes.sum():
            return None
        alone = low[mine].min() >= names[first] and (end is None or high[mine].max() < names[end])
        found.append(Range(join([every[i] for i in mine]), schema, key, None if alone else (first, end)))
    return found


def encode(keys: Any, name: str) -> tuple[list[Any], np.ndarray]:
    """Write the keys of rows as a list without repetitions, and for each row where its key stands there.

    Args:
        keys: a `pyarrow.ChunkedArray` of text or integers.
        name: of the column.
    """
    import pyarrow

    if keys.null_count:
        raise ValueError(f"a row has no key: {name!r} holds a null; fill it, or leave such rows out")
    if pyarrow.types.is_dictionary(keys.type):
        keys = keys.cast(keys.type.value_type)
    coded = keys.combine_chunks().dictionary_encode()
    coded = coded.combine_chunks() if isinstance(coded, pyarrow.ChunkedArray) else coded
    return coded.dictionary.to_pylist(), np.asarray(coded.indices)


def rank(keys: Any, name: str) -> np.ndarray:
    """Number the keys of rows by their order."""
    names, codes = encode(keys, name)
    ranks = np.empty(len(names), np.int64)
    ranks[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return ranks[codes]


def sort(numbers: np.ndarray) -> np.ndarray:
    """Say in which order whole numbers that are not negative rise, equal ones as they come."""
    small = numbers.astype(np.uint16) if numbers.max(initial=0) < 2**16 else numbers  # NumPy counts these, in one pass
    return np.argsort(small, kind="stable")


def spread(fragments: list[Any], schema: Any, key: str, count: int, path: Location) -> int:
    """Write the rows of a chunk to one file, with a record batch for each bucket; give their number."""
    import pyarrow
    from pyarrow import ipc

    table = pyarrow.concat_tables([fragment.to_table(schema=schema) for fragment in fragments])
    names, codes = encode(table[key], key)
    # The text of a key, not Python's hash of it, which is another one in each process.
    buckets = np.array([crc32(str(name).encode()) % count for name in names], np.int64)[codes]
    order = sort(buckets)
    ends = np.searchsorted(buckets[order], np.arange(count + 1))
    table = table.unify_dictionaries().combine_chunks()
    small = ipc.IpcWriteOptions(compression="lz4" if pyarrow.Codec.is_available("lz4_frame") else None)
    with path.writing() as file, ipc.new_file(file, schema, options=small) as writer:
        for first, last in pairwise(ends):
            writer.write_batch(_one_batch(table.take(order[first:last]), schema))
    return table.num_rows


def _one_batch(table: Any, schema: Any) -> Any:
    import pyarrow

    whole = [column.combine_chunks() for column in table.columns]
    flat = [column.chunk(0) if isinstance(column, pyarrow.ChunkedArray) else column for column in whole]
    return pyarrow.record_batch(flat, schema=schema)


@dataclasses.dataclass(frozen=True)
class SpreadRows:
    """A bucket of keys by their hash, whose rows were spread.

    Attributes:
        paths: files of the chunks.
        bucket: its number.
    """

    paths: list[Location]
    bucket: int

    def read(self) -> Any:
        """Read the rows, in the order of the source, as a `pyarrow.Table`."""
        import pyarrow
        from pyarrow import ipc

        batches = []
        for path in self.paths:
            with path.files.open_input_file(path.path) as source:
                batches.append(ipc.open_file(source).get_batch(self.bucket))
        return pyarrow.Table.from_batches(batches)
