"""Atomic writing of tables."""

import csv
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from wolf.cleaning.io.csv_style import CsvStyle
from wolf.cleaning.io.table import pyarrow
from wolf.cleaning.io.table_reader import SUFFIXES
from wolf.runtime.checkpoints import atomic, is_special

if TYPE_CHECKING:
    import pyarrow as pa

TABLES = (".csv", ".tsv", ".txt", *SUFFIXES, ".gpx")  # suffixes of output files
ROW_GROUP_ROWS = 131_072  # of a Parquet file


def check_target(path: str) -> None:
    """Check, before any work, that a file can be written."""
    if path == "-" or is_special(path):
        return
    if not path:
        raise ValueError("the name of an output file must not be empty")
    with suppress(FileNotFoundError, NotADirectoryError):
        os.stat(path)  # raises an error for circular links and names that are too long
    folder = Path(path).parent
    if not folder.is_dir():
        raise ValueError(f"the folder {folder} does not exist; create it first, or choose another output file")
    if Path(path).is_dir():
        raise ValueError(f"{path} is a folder; give the name of a file to write")
    folder = Path(os.path.realpath(path)).parent
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"no permission to write in {folder}")


def check_table(path: str) -> None:
    """Check, before any work, that a table can be written: folder and suffix."""
    check_target(path)
    ending = Path(path).suffix.lower() or ("." if path.endswith(".") else "")
    if ending and ending not in TABLES and not is_special(path):
        raise ValueError(f"the suffix of a table must be one of {', '.join(TABLES)}; got {ending} of {path}")


def write_table(path: str, data: "pa.Table", kind: str | None = None, style: CsvStyle = CsvStyle()) -> None:
    """Write a table as CSV, Parquet or Arrow; as `write_pieces`, with a `pyarrow.Table`."""
    style = style._replace(quoted=needs_quotes(data, style.delimiter))
    write_pieces(path, data.schema, iter([data]), kind, style)


def write_pieces(
    path: str, schema: "pa.Schema", pieces: Iterator["pa.Table"], kind: str | None, style: CsvStyle
) -> None:
    """Write a table as CSV, Parquet or Arrow, piece by piece.

    Args:
        path: of the file, or "-" for standard output. Its suffix selects the format.
        schema: of all pieces.
        pieces: each a `pyarrow.Table`.
        kind: format for standard output and unknown suffixes. Default: CSV.
        style: of a CSV file.
    """
    stream = path == "-" or is_special(path)
    own = kind if kind is not None and stream and kind in SUFFIXES.values() else "csv"
    kind = SUFFIXES.get(Path(path).suffix.lower()) or own
    if path == "-":
        if sys.stdout is None:
            raise ValueError("standard output is closed; name a file with --out")
        _write(sys.stdout.buffer, schema, pieces, kind, style)
        sys.stdout.buffer.flush()
        return
    with atomic(Path(path)) as file:
        _write(file, schema, pieces, kind, style)


def needs_quotes(data: "pa.Table", delimiter: str) -> bool:
    """Check whether a text cell contains a delimiter, a quote or a line break."""
    from pyarrow import compute

    texts = [column for column in data.columns if pyarrow().types.is_string(column.type)]
    texts += [column for column in data.columns if pyarrow().types.is_large_string(column.type)]
    return any(compute.any(compute.match_substring_regex(text, f'["\n\r{delimiter}]')).as_py() for text in texts)


def _write(file: BinaryIO, schema: "pa.Schema", pieces: Iterator["pa.Table"], kind: str, style: CsvStyle) -> None:
    arrow = pyarrow()
    if kind == "csv":
        file.write(_header(style.names(schema.names), style.delimiter))
        empty = arrow.Table.from_batches([], schema)  # `schema.empty_table` would import pandas
        schema, pieces = style.convert(empty).schema, map(style.convert, pieces)
    if kind == "parquet":
        pieces = _merge_small(pieces)
    if any(
        arrow.types.is_dictionary(field.type) for field in schema
    ):  # an Arrow file has one dictionary for all pieces
        pieces = iter([arrow.concat_tables(pieces).unify_dictionaries()])
    with _writer(arrow.PythonFile(file, mode="w"), schema, kind, style) as writer:
        for piece in pieces:
            writer.write_table(piece)


def _merge_small(pieces: Iterator["pa.Table"]) -> Iterator["pa.Table"]:
    """Merge pieces, since each becomes a row group, and small ones are slow to read."""
    waiting, rows = [], 0
    for piece in pieces:
        waiting.append(piece)
        rows += piece.num_rows
        if rows >= ROW_GROUP_ROWS:
            yield pyarrow().concat_tables(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pyarrow().concat_tables(waiting)


def _writer(sink: BinaryIO, schema: "pa.Schema", kind: str, style: CsvStyle) -> Any:
    if kind == "parquet":
        from pyarrow import parquet

        return parquet.ParquetWriter(sink, schema)
    if kind == "arrow":
        from pyarrow import ipc

        small = "lz4" if pyarrow().Codec.is_available("lz4_frame") else None
        return ipc.new_file(sink, schema, options=ipc.IpcWriteOptions(compression=small))
    from pyarrow import csv as arrow_csv

    # pyarrow quotes all texts or none, and always the names, which are therefore written here.
    quotes = "needed" if style.quoted or style.decimal == style.delimiter else "none"
    options = arrow_csv.WriteOptions(include_header=False, delimiter=style.delimiter, quoting_style=quotes)
    return arrow_csv.CSVWriter(sink, schema, write_options=options)


def _header(names: list[str], delimiter: str) -> bytes:
    """Format the names, with quotes only where needed."""
    buffer = _TextBuffer()
    csv.writer(buffer, delimiter=delimiter, lineterminator="\n").writerow(names)
    return buffer.text.encode()


class _TextBuffer:
    """Buffer for the csv module."""

    text = ""

    def write(self, line: str) -> None:
        self.text += line
