"""Write a table whole or not at all."""

import csv
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from wolf.cleaning.io.table import pyarrow
from wolf.cleaning.io.table_reader import SUFFIXES
from wolf.runtime.checkpoints import atomic, is_special

TABLES = (".csv", ".tsv", ".txt", *SUFFIXES, ".gpx")  # endings that say how a table is written
ROW_GROUP = 131_072  # rows of a Parquet file that are written at once


def check_target(path: str) -> None:
    """Say before any work is done that a result could not be written."""
    if path == "-" or is_special(path):
        return
    if not path:
        raise ValueError("give the name of a file to write; got an empty one")
    with suppress(FileNotFoundError, NotADirectoryError):
        os.stat(path)  # a circle of links, a name that is too long: told by the system
    folder = Path(path).parent
    if not folder.is_dir():
        raise ValueError(f"the folder {folder} does not exist; make it first, or choose another place to write")
    if Path(path).is_dir():
        raise ValueError(f"{path} is a folder; give the name of a file to write")
    folder = Path(os.path.realpath(path)).parent
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"there is no permission to write in {folder}")


def check_table(path: str) -> None:
    """Say before any work is done that a table could not be written so: by the place, or by its ending."""
    check_target(path)
    ending = Path(path).suffix.lower() or ("." if path.endswith(".") else "")
    if ending and ending not in TABLES and not is_special(path):
        raise ValueError(f"a table is written as {', '.join(TABLES)}; got the ending {ending} of {path}")


def write_table(path: str, data: Any, kind: str | None = None, delimiter: str = ",") -> None:
    """Write a table as CSV, Parquet or Arrow; as `write_pieces`, with a `pyarrow.Table`."""
    write_pieces(path, data.schema, iter([data]), kind, delimiter, needs_quotes(data, delimiter))


def write_pieces(path: str, schema: Any, pieces: Iterator[Any], kind: str | None, delimiter: str, quoted: bool) -> None:
    """Write a table as CSV, Parquet or Arrow, while its pieces are made.

    Args:
        path: of the file, or "-" for standard output. Its ending says which kind.
        schema: of all pieces.
        pieces: each a `pyarrow.Table`.
        kind: for standard output and endings that say nothing; default: CSV.
        delimiter: of a CSV file.
        quoted: put the texts of a CSV file in quotes.
    """
    stream = path == "-" or is_special(path)
    own = kind if kind is not None and stream and kind in SUFFIXES.values() else "csv"
    kind = SUFFIXES.get(Path(path).suffix.lower()) or own
    if path == "-":
        if sys.stdout is None:
            raise ValueError("standard output is closed; name a file with --out")
        _write(sys.stdout.buffer, schema, pieces, kind, delimiter, quoted)
        sys.stdout.buffer.flush()
        return
    with atomic(Path(path)) as file:
        _write(file, schema, pieces, kind, delimiter, quoted)


def needs_quotes(data: Any, delimiter: str) -> bool:
    """Say whether a cell cannot be told from its neighbours without quotes."""
    from pyarrow import compute

    texts = [column for column in data.columns if pyarrow().types.is_string(column.type)]
    texts += [column for column in data.columns if pyarrow().types.is_large_string(column.type)]
    return any(compute.any(compute.match_substring_regex(text, f'["\n\r{delimiter}]')).as_py() for text in texts)


def _write(file: Any, schema: Any, pieces: Iterator[Any], kind: str, delimiter: str, quoted: bool) -> None:
    arrow = pyarrow()
    if kind == "csv":
        file.write(_header(schema.names, delimiter))
    if kind == "parquet":
        pieces = _gather(pieces)
    if any(arrow.types.is_dictionary(field.type) for field in schema):  # of which an Arrow file has one for all pieces
        pieces = iter([arrow.concat_tables(pieces).unify_dictionaries()])
    with _writer(arrow.PythonFile(file, mode="w"), schema, kind, delimiter, quoted) as writer:
        for piece in pieces:
            writer.write_table(piece)


def _gather(pieces: Iterator[Any]) -> Iterator[Any]:
    """Put pieces together: each becomes a row group, which is slow to read if it is small."""
    held, rows = [], 0
    for piece in pieces:
        held.append(piece)
        rows += piece.num_rows
        if rows >= ROW_GROUP:
            yield pyarrow().concat_tables(held)
            held, rows = [], 0
    if held:
        yield pyarrow().concat_tables(held)


def _writer(sink: Any, schema: Any, kind: str, delimiter: str, quoted: bool) -> Any:
    if kind == "parquet":
        from pyarrow import parquet

        return parquet.ParquetWriter(sink, schema)
    if kind == "arrow":
        from pyarrow import ipc

        small = "lz4" if pyarrow().Codec.is_available("lz4_frame") else None
        return ipc.new_file(sink, schema, options=ipc.IpcWriteOptions(compression=small))
    from pyarrow import csv as arrow_csv

    # pyarrow puts all texts in quotes or none, and names always: we write those.
    style = "needed" if quoted else "none"
    options = arrow_csv.WriteOptions(include_header=False, delimiter=delimiter, quoting_style=style)
    return arrow_csv.CSVWriter(sink, schema, write_options=options)


def _header(names: list[str], delimiter: str) -> bytes:
    """Write the names, in quotes only where they must be."""
    lines = _Lines()
    csv.writer(lines, delimiter=delimiter, lineterminator="\n").writerow(names)
    return lines.text.encode()


class _Lines:
    """A place for the csv module to write to."""

    text = ""

    def write(self, line: str) -> None:
        self.text += line
