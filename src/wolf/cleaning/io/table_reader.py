"""Reading of a table from a file of any supported format."""

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from wolf.cleaning.io import csv_reader, gpx_nmea
from wolf.cleaning.io.excel import read_excel
from wolf.cleaning.io.table import Table, check_names, pyarrow
from wolf.runtime.checkpoints import is_special

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = {".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow"}
MAGIC = {b"PAR1": "parquet", b"ARRO": "arrow"}
HEAD_BYTES = 4096  # from which a track is recognised
COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}


def read_table(
    source: str,
    header: bool = True,
    *,
    skip: int | None = None,
    comment: str | None = None,
    ragged: str = "error",
) -> Table:
    """Read a file, or standard input.

    Args:
        source: path, or "-".
        header: whether the first line of a CSV file holds names; otherwise columns are named column1, column2, ...
        skip: number of lines above the table in a CSV file; None to detect it.
        comment: prefix of comment lines; None to detect it.
        ragged: "error" to raise an error for a row with too many or too few cells, "missing" to skip it.
    """
    arrow = pyarrow()
    if source == "-":
        if sys.stdin is None or sys.stdin.closed:
            raise ValueError("standard input is closed; name a file, or pipe one in")
        name, content = "standard input", arrow.py_buffer(sys.stdin.buffer.read())
    else:
        name, content = source, _read_file(arrow, Path(source))
    if not content.size:
        raise ValueError(f"{name} is empty")
    ending = Path(source).suffix.lower()
    kind = SUFFIXES.get(ending) or MAGIC.get(content.slice(0, min(4, content.size)).to_pybytes(), "csv")
    rereadable = source != "-" and not is_special(source) and ending not in COMPRESSED
    try:
        start = content.slice(0, min(content.size, HEAD_BYTES)).to_pybytes()
        if kind == "csv" and (ending == ".gpx" or re.search(rb"<gpx[\s>]", start)):
            table = gpx_nmea.read_gpx(name, content)
        elif kind == "csv" and gpx_nmea.NMEA.match(start.lstrip()):
            table = gpx_nmea.read_nmea(name, content)
        elif ending in (".xlsx", ".xlsm") and kind == "csv":
            table = read_excel(name, content)
        elif kind == "csv":
            table = csv_reader.read_text(name, content, source if rereadable else None, (header, skip, comment), ragged)
        else:
            table = _read_binary(name, content, kind)
    except (arrow.ArrowException, UnicodeDecodeError) as error:
        raise ValueError(f"{name} is not a {kind} table that can be read: {error}") from error
    check_names(name, table.data.column_names)
    if not table.data.num_rows:
        raise ValueError(f"{name} has column names but no rows")
    return table


def _read_file(arrow: ModuleType, path: Path) -> "pa.Buffer":
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, not a file")
    if is_special(path) or not path.stat().st_size:  # a pipe has no size, nor have special files
        return _unpack(arrow, path, arrow.py_buffer(path.read_bytes()))
    if path.suffix.lower() in COMPRESSED:
        with arrow.input_stream(str(path), compression="detect") as stream:
            return stream.read_buffer()
    # Not mapped into memory: a mapped file that is truncated while it is read kills the process by SIGBUS.
    with arrow.OSFile(str(path)) as stream:
        return stream.read_buffer()


def _unpack(arrow: ModuleType, path: Path, content: "pa.Buffer") -> "pa.Buffer":
    if path.suffix.lower() not in COMPRESSED or not content.size:
        return content
    kind = COMPRESSED[path.suffix.lower()]
    with arrow.input_stream(arrow.BufferReader(content), compression=kind) as stream:
        return stream.read_buffer()


def _read_binary(name: str, content: "pa.Buffer", kind: str) -> Table:
    reader = pyarrow().BufferReader(content)
    if kind == "parquet":
        from pyarrow import parquet

        file = parquet.ParquetFile(reader)
        check_names(name, file.schema_arrow.names)
        data = file.read()
    else:
        from pyarrow import feather

        data = feather.read_table(reader)
    return Table(name, data, kind, ",", lambda: iter(data.to_batches()))
