"""Rows of many keys in buckets: all rows of a key are in one, and a bucket fits into memory.

A chunk of the source is read, its rows are put in the order of their buckets, and it is written as one Arrow file with
a record batch for each bucket. To read a bucket is then one jump into each of these files.
"""

import os
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from wolf import storage

KINDS = {".parquet": "parquet", ".pq": "parquet", ".arrow": "ipc", ".feather": "ipc", ".ipc": "ipc"}
SAMPLE = 10_000  # rows that tell how much room a row takes


def list_files(source: Path) -> list[Path]:
    """List the files of a folder and its folders, but for hidden ones; refuse what is no dataset."""
    if not source.is_dir():
        raise ValueError(f"{source} is no folder; give one with Parquet or Arrow files")
    found = []
    for folder, folders, names in os.walk(source):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        found += [Path(folder) / name for name in sorted(names) if not name.startswith((".", "_"))]
    endings = {path.suffix.lower() for path in found}
    if not endings:
        raise ValueError(f"{source} is empty: expected Parquet or Arrow files")
    if len({KINDS.get(ending) for ending in endings}) > 1 or not endings <= KINDS.keys():
        told = ", ".join(sorted(ending or "no ending" for ending in endings))
        raise ValueError(f"a dataset is all Parquet or all Arrow files; {source} has {told}")
    return sorted(found)


def open_files(source: Path, paths: list[Path]) -> Any:
    """Open files as one `pyarrow.dataset.Dataset`; folders named `id=7` are a column."""
    from pyarrow import ArrowException, dataset

    names = [str(path) for path in paths]
    kind = KINDS[paths[0].suffix.lower()]
    try:
        return dataset.dataset(names, format=kind, partitioning="hive", partition_base_dir=str(source))
    except (ArrowException, OSError) as error:
        raise ValueError(f"{source} cannot be read as {kind} files: {error}") from error


def first_rows(data: Any, rows: int = SAMPLE) -> Any:
    """Read the first rows of a dataset, and not the files behind them."""
    first = next(iter(data.get_fragments()))
    scanner = first.scanner(schema=data.schema, batch_size=rows, batch_readahead=0, use_threads=False)
    return scanner.head(rows)


def row_size(data: Any) -> float:
    """Measure how many bytes a row takes in memory, on the first ones."""
    head = first_rows(data)
    return max(head.nbytes / max(head.num_rows, 1), 1.0)


def cut(data: Any, rows: int) -> list[list[Any]]:
    """Cut a dataset into chunks of about so many rows, each a list of fragments, in the order of files and rows."""
    chunks: list[list[Any]] = []
    held = rows
    for fragment in data.get_fragments():
        split = hasattr(fragment, "split_by_row_group")
        for piece in fragment.split_by_row_group() if split else [fragment]:
            size = sum(group.num_rows for group in piece.row_groups) if split else piece.count_rows()
            if held + size > rows:
                chunks.append([])
                held = 0
            chunks[-1].append(piece)
            held += size
    return chunks


def number(keys: Any, name: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Say in which bucket each row is, and number the keys.

    Args:
        keys: a `pyarrow.ChunkedArray` of text or integers.
        name: of the column.
        count: of buckets.

    Returns:
        Bucket of each row, and the rank of its key among those that are there.
    """
    import pyarrow

    if keys.null_count:
        raise ValueError(f"a row has no key: {name!r} holds a null; fill it, or leave such rows out")
    if pyarrow.types.is_dictionary(keys.type):
        keys = keys.cast(keys.type.value_type)
    coded = keys.combine_chunks().dictionary_encode()
    coded = coded.combine_chunks() if isinstance(coded, pyarrow.ChunkedArray) else coded
    names = coded.dictionary.to_pylist()
    # The text of a key, not Python's hash of it, which is another one in each process.
    buckets = np.array([crc32(str(name).encode()) % count for name in names], np.int64)
    rank = np.empty(len(names), np.int64)
    rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    codes = np.asarray(coded.indices)
    return buckets[codes], rank[codes]


def spread(fragments: list[Any], schema: Any, key: str, count: int, path: Path) -> int:
    """Write the rows of a chunk to one file, with a record batch for each bucket; give their number."""
    import pyarrow
    from pyarrow import ipc

    table = pyarrow.concat_tables([fragment.to_table(schema=schema) for fragment in fragments])
    buckets, _ = number(table[key], key, count)
    order = np.argsort(buckets, kind="stable")
    ends = np.searchsorted(buckets[order], np.arange(count + 1))
    table = table.unify_dictionaries().combine_chunks()
    small = ipc.IpcWriteOptions(compression="lz4" if pyarrow.Codec.is_available("lz4_frame") else None)
    with storage.atomic(path) as file, ipc.new_file(file, schema, options=small) as writer:
        for first, last in pairwise(ends):
            writer.write_batch(_one_batch(table.take(order[first:last]), schema))
    return table.num_rows


def _one_batch(table: Any, schema: Any) -> Any:
    import pyarrow

    whole = [column.combine_chunks() for column in table.columns]
    flat = [column.chunk(0) if isinstance(column, pyarrow.ChunkedArray) else column for column in whole]
    return pyarrow.record_batch(flat, schema=schema)


def gather(paths: list[Path], bucket: int) -> Any:
    """Read the rows of a bucket, in the order of the source, as a `pyarrow.Table`."""
    import pyarrow
    from pyarrow import ipc

    batches = []
    for path in paths:
        with pyarrow.OSFile(str(path)) as source:
            batches.append(ipc.open_file(source).get_batch(bucket))
    return pyarrow.Table.from_batches(batches)
