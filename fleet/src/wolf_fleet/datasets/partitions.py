"""Partitioning of a data set into buckets that fit into memory, each with all rows of its keys.

If files are laid out by key, a bucket is a range of keys, and the files and row groups to read follow from their
statistics. Otherwise rows are shuffled first: a chunk of the source is read, its rows are sorted by bucket, and it is
written as one Arrow file with a record batch per bucket, so that reading a bucket takes one seek per chunk.
"""

import dataclasses
from itertools import groupby, pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from wolf_fleet.datasets.filesystem import Location

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import dataset

FILE_FORMATS = {".parquet": "parquet", ".pq": "parquet", ".arrow": "ipc", ".feather": "ipc", ".ipc": "ipc"}
SAMPLE_ROWS = 10_000  # from which the memory per row is estimated
MAX_READ_RATIO = 2.0  # rows that key ranges may read, relative to all rows; shuffling costs less than reading more
MAX_COUNTING_SORT = 2**16  # below this NumPy sorts integers in one pass

Key = Any  # text, or an integer: sorted among its like


def list_files(source: Location) -> list[tuple[str, int, int]]:
    """List the data files of a folder and its subfolders; raise a `ValueError` if it is not a data set."""
    if not source.is_folder():
        raise ValueError(f"{source} is not a folder; expected a folder of Parquet or Arrow files")
    hidden = (".", "_")
    found = [each for each in source.list(deep=True) if not any(part.startswith(hidden) for part in each[0].split("/"))]
    suffixes = {suffix(name) for name, _, _ in found}
    if not suffixes:
        raise ValueError(f"{source} is empty: expected Parquet or Arrow files")
    if len({FILE_FORMATS.get(each) for each in suffixes}) > 1 or not suffixes <= FILE_FORMATS.keys():
        there = ", ".join(sorted(each or "no suffix" for each in suffixes))
        raise ValueError(f"expected only Parquet or only Arrow files; {source} has {there}")
    return found


def suffix(name: str) -> str:
    """Return the lower-case suffix of a file name, such as `.parquet`."""
    return PurePosixPath(name).suffix.lower()


def open_files(source: Location, names: list[str]) -> "dataset.Dataset":
    """Open files as one `pyarrow.dataset.Dataset`; folders named `id=7` become a column."""
    from pyarrow import ArrowException, dataset

    format = FILE_FORMATS[suffix(names[0])]
    paths = [(source / name).path for name in names]
    reader: str | dataset.FileFormat = format
    if format == "parquet":  # 96-bit times, as Spark writes them: Spark could not read them back in nanoseconds
        reader = dataset.ParquetFileFormat(coerce_int96_timestamp_unit="us")
    how: dict[str, object] = {"filesystem": source.files, "partitioning": "hive", "partition_base_dir": source.path}
    try:
        return dataset.dataset(paths, format=reader, **how)
    except (ArrowException, OSError) as error:
        raise ValueError(f"{source} cannot be read as {format} files: {error}") from error


def open_folder(source: Location) -> "dataset.Dataset":
    """Open all files of a folder as one dataset."""
    return open_files(source, [name for name, _, _ in list_files(source)])


def first_rows(data: "dataset.Dataset", rows: int = SAMPLE_ROWS) -> "pa.Table":
    """Read the first rows of a dataset without reading the following files."""
    first = next(iter(data.get_fragments()))
    scanner = first.scanner(schema=data.schema, batch_size=rows, batch_readahead=0, use_threads=False)
    return scanner.head(rows)


def row_size(data: "dataset.Dataset") -> float:
    """Estimate the bytes of a row in memory from the first rows."""
    head = first_rows(data)
    return max(head.nbytes / max(head.num_rows, 1), 1.0)


@dataclasses.dataclass(frozen=True)
class ReadUnit:
    """Smallest unit of reading: a row group of a Parquet file, or a whole file of another format.

    Attributes:
        fragment: file that contains it.
        group: number of the row group; None for the whole file.
        rows: number of rows.
    """

    fragment: "dataset.Fragment"
    group: int | None
    rows: int

    def key_range(self, key: str) -> tuple[Key, Key] | None:
        """Return the smallest and the largest key if file statistics or the folder name have them, else None."""
        from pyarrow import dataset

        named = dataset.get_partition_keys(self.fragment.partition_expression)
        if named.get(key) is not None:
            return named[key], named[key]
        statistics = self.fragment.row_groups[self.group].statistics if self.group is not None else None
        ends = (statistics or {}).get(key)
        return None if ends is None else (ends["min"], ends["max"])


def read_units(data: "dataset.Dataset") -> list[ReadUnit]:
    """List the read units of a dataset, in the order of files and rows."""
    found = []
    for fragment in data.get_fragments():
        if hasattr(fragment, "row_groups"):  # pyarrow: of Parquet files alone
            found += [ReadUnit(fragment, i, group.num_rows) for i, group in enumerate(fragment.row_groups)]
        else:
            found.append(ReadUnit(fragment, None, fragment.count_rows()))
    return found


def join(units: list[ReadUnit]) -> list["dataset.Fragment"]:
    """Merge units of the same file into one fragment, since opening a file takes time."""
    joined = []
    for _, each in groupby(units, lambda unit: id(unit.fragment)):
        same = list(each)
        whole = same[0].group is None
        joined.append(same[0].fragment if whole else same[0].fragment.subset(row_group_ids=[u.group for u in same]))
    return joined


def cut(units: list[ReadUnit], rows: int) -> list[list["dataset.Fragment"]]:
    """Split a dataset into chunks of about `rows` rows, each a list of fragments, in the order of files and rows."""
    chunks: list[list[ReadUnit]] = []
    held = rows
    for unit in units:
        if held + unit.rows > rows:
            chunks.append([])
            held = 0
        chunks[-1].append(unit)
        held += unit.rows
    return [join(chunk) for chunk in chunks]


@dataclasses.dataclass(frozen=True)
class KeyRange:
    """A bucket with all keys of a range, read from the files that contain some of them.

    Attributes:
        fragments: to read.
        schema: of the dataset.
        key: name of the key column.
        ends: first key, and first key of the next bucket; None if the fragments contain no other keys.
    """

    fragments: list["dataset.Fragment"]
    schema: "pa.Schema"
    key: str
    ends: tuple[Key, Key | None] | None

    def read(self) -> "pa.Table":
        """Read the rows in the order of the source, as a `pyarrow.Table`."""
        import pyarrow
        from pyarrow import dataset

        selection = None
        if self.ends is not None:
            column, (first, end) = dataset.field(self.key), self.ends
            selection = column >= first if end is None else (column >= first) & (column < end)
            selection = selection | column.is_null()  # so that `encode` rejects them
        tables = [each.to_table(schema=self.schema, filter=selection) for each in self.fragments]
        return pyarrow.concat_tables(tables)


def whole_files(units: list[ReadUnit], schema: "pa.Schema", key: str, rows: int, max_rows: int) -> list[KeyRange]:
    """Group files into buckets of about `rows` rows, for a data set whose files have all rows of their keys."""
    groups = [list(each) for _, each in groupby(units, lambda unit: id(unit.fragment))]
    files = [ReadUnit(each[0].fragment, None, sum(unit.rows for unit in each)) for each in groups]
    if (largest := max(unit.rows for unit in files)) > max_rows:
        raise ValueError(f"a file of {largest:,} rows does not fit into memory; increase memory, or use shuffle=True")
    return [KeyRange(fragments, schema, key, None) for fragments in cut(files, rows)]


def key_ranges(units: list[ReadUnit], schema: "pa.Schema", key: str, rows: int, max_rows: int) -> list[KeyRange] | None:
    """Split a dataset into key ranges of about `rows` rows.

    Args:
        units: of the dataset.
        schema: of the dataset.
        key: name of the key column.
        rows: approximate number of rows per range.
        max_rows: largest number of rows per range.

    Returns:
        The ranges; None if the key ranges of files are unknown, or overlap so much that rows would be read repeatedly.
    """
    ends = [unit.key_range(key) for unit in units]
    known = [each for each in ends if each is not None]
    if len(known) < len(ends) or not known:
        return None
    order = sorted(range(len(units)), key=lambda i: known[i][0])
    firsts, held = [known[order[0]][0]], 0
    for i in order:
        if held >= rows and known[i][0] > firsts[-1]:
            firsts.append(known[i][0])
            held = 0
        held += units[i].rows
    names = {name: i for i, name in enumerate(sorted({*firsts, *(end for pair in known for end in pair)}))}
    low, high = (np.array([names[pair[side]] for pair in known]) for side in (0, 1))
    sizes = np.array([unit.rows for unit in units])
    found, num_read = [], 0
    for first, end in pairwise([*firsts, None]):
        below = low < (len(names) if end is None else names[end])
        selected = np.flatnonzero(below & (high >= names[first]))
        num_read += (size := int(sizes[selected].sum()))
        if size > max_rows or num_read > MAX_READ_RATIO * sizes.sum():
            return None
        alone = low[selected].min() >= names[first] and (end is None or high[selected].max() < names[end])
        found.append(KeyRange(join([units[i] for i in selected]), schema, key, None if alone else (first, end)))
    return found


def encode(keys: "pa.ChunkedArray", name: str) -> tuple[list[Key], np.ndarray]:
    """Dictionary-encode keys.

    Args:
        keys: a `pyarrow.ChunkedArray` of text or integers.
        name: of the column, for the error message.

    Returns:
        The distinct keys, and per row the index of its key.
    """
    import pyarrow

    if keys.null_count:
        raise ValueError(f"a row has no key: {name!r} contains a null; fill it or remove the row")
    if pyarrow.types.is_dictionary(keys.type):
        keys = keys.cast(keys.type.value_type)
    coded = keys.combine_chunks().dictionary_encode()
    coded = coded.combine_chunks() if isinstance(coded, pyarrow.ChunkedArray) else coded
    return coded.dictionary.to_pylist(), np.asarray(coded.indices)


def rank(keys: "pa.ChunkedArray", name: str) -> np.ndarray:
    """Compute, per row, the rank of its key among the sorted keys."""
    names, codes = encode(keys, name)
    ranks = np.empty(len(names), np.int64)
    ranks[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return ranks[codes]


def argsort(numbers: np.ndarray) -> np.ndarray:
    """Compute the stable sorting permutation of non-negative integers."""
    small = numbers.astype(np.uint16) if numbers.max(initial=0) < MAX_COUNTING_SORT else numbers
    return np.argsort(small, kind="stable")


def write_buckets(
    fragments: list["dataset.Fragment"], schema: "pa.Schema", key: str, num_buckets: int, path: Location
) -> int:
    """Write the rows of a chunk to one Arrow file with a record batch per bucket; return the number of rows."""
    import pyarrow
    from pyarrow import ipc

    table = pyarrow.concat_tables([fragment.to_table(schema=schema) for fragment in fragments])
    names, codes = encode(table[key], key)
    # Hash the text of a key: Python's own hash differs between processes.
    buckets = np.array([crc32(str(name).encode()) % num_buckets for name in names], np.int64)[codes]
    order = argsort(buckets)
    ends = np.searchsorted(buckets[order], np.arange(num_buckets + 1))
    table = table.unify_dictionaries().combine_chunks()
    small = ipc.IpcWriteOptions(compression="lz4" if pyarrow.Codec.is_available("lz4_frame") else None)
    with path.writing() as file, ipc.new_file(file, schema, options=small) as writer:
        for first, last in pairwise(ends):
            writer.write_batch(_one_batch(table.take(order[first:last]), schema))
    return table.num_rows


def _one_batch(table: "pa.Table", schema: "pa.Schema") -> "pa.RecordBatch":
    import pyarrow

    whole = [column.combine_chunks() for column in table.columns]
    flat = [column.chunk(0) if isinstance(column, pyarrow.ChunkedArray) else column for column in whole]
    return pyarrow.record_batch(flat, schema=schema)


@dataclasses.dataclass(frozen=True)
class HashBucket:
    """A bucket of keys by their hash, read from shuffled chunks.

    Attributes:
        paths: Arrow files of the chunks, from `write_buckets`.
        bucket: number of the bucket.
    """

    paths: list[Location]
    bucket: int

    def read(self) -> "pa.Table":
        """Read the rows in the order of the source, as a `pyarrow.Table`."""
        import pyarrow
        from pyarrow import ipc

        batches = []
        for path in self.paths:
            with path.files.open_input_file(path.path) as source:
                batches.append(ipc.open_file(source).get_batch(self.bucket))
        return pyarrow.Table.from_batches(batches)
