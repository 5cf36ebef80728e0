"""Write a table whole or not at all."""

import csv
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from wolf.files.reading import SUFFIXES, pyarrow


@contextmanager
def atomic(path: Path) -> Iterator[BinaryIO]:
    """Open a file beside the target and rename it when all is written; nobody ever sees half of it.

    Args:
        path: of the target.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with beside.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


def check_target(path: str) -> None:
    """Say before any work is done that a result could not be written."""
    if path == "-":
        return
    folder = Path(path).parent
    if not folder.is_dir():
        raise ValueError(f"the folder {folder} does not exist; make it first, or choose another place to write")
    if Path(path).is_dir():
        raise ValueError(f"{path} is a folder; give the name of a file to write")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"there is no permission to write in {folder}")


def write_table(path: str, data: Any, kind: str | None = None, delimiter: str = ",") -> None:
    """Write a table as CSV, Parquet or Arrow.

    Args:
        path: of the file, or "-" for standard output. Its ending says which kind.
        data: a `pyarrow.Table`.
        kind: for standard output and endings that say nothing; CSV unless told.
        delimiter: of a CSV file.
    """
    kind = SUFFIXES.get(Path(path).suffix.lower()) or (kind if path == "-" and kind else "csv")
    if path == "-":
        _write(sys.stdout.buffer, data, kind, delimiter)
        sys.stdout.buffer.flush()
        return
    with atomic(Path(path)) as file:
        _write(file, data, kind, delimiter)


def _write(file: Any, data: Any, kind: str, delimiter: str) -> None:
    if kind == "parquet":
        from pyarrow import parquet

        parquet.write_table(data, pyarrow().PythonFile(file, mode="w"))
    elif kind == "arrow":
        from pyarrow import feather

        feather.write_feather(data, pyarrow().PythonFile(file, mode="w"))
    else:
        _write_csv(file, data, delimiter)


def _write_csv(file: Any, data: Any, delimiter: str) -> None:
    """Write the header ourselves and quote only where it must be: pyarrow would put every text in quotes."""
    from pyarrow import csv as arrow_csv

    arrow = pyarrow()
    header = _Lines()
    csv.writer(header, delimiter=delimiter, lineterminator="\n").writerow(data.column_names)
    file.write(header.text.encode())
    style = "needed" if any(_needs_quotes(column, delimiter) for column in data.columns) else "none"
    options = arrow_csv.WriteOptions(include_header=False, delimiter=delimiter, quoting_style=style)
    sink = arrow.PythonFile(file, mode="w")
    arrow_csv.write_csv(data, sink, options)


class _Lines:
    """A place for the csv module to write to."""

    text = ""

    def write(self, line: str) -> None:
        self.text += line


def _needs_quotes(column: Any, delimiter: str) -> bool:
    from pyarrow import compute

    types = pyarrow().types
    if not (types.is_string(column.type) or types.is_large_string(column.type)):
        return False
    return bool(compute.any(compute.match_substring_regex(column, f'["\n\r{delimiter}]')).as_py())
