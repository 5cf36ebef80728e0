"""The table of cases, and how their files are made: of text, bytes, a table, or a special file."""

import gzip
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import feather, parquet

ROWS = 30
LEVEL = [round(20.0 + ((7 * i) % 11) / 10, 1) for i in range(ROWS)]
KNOWN = ["--set", "level_var=0.1", "--set", "obs_var=1"]  # nothing is fitted


class Case(NamedTuple):
    """One case.

    Attributes:
        files: name -> content, as `make` takes it.
        arguments: of `wolf`.
        code: exit code that is right.
        words: of the error, or of what is printed.
        written: files that a success must leave, beside those that were there.
        stdin: bytes.
    """

    files: dict
    arguments: list
    code: int = 0
    words: str = ""
    written: tuple = ()
    stdin: bytes = b""


def make(files):
    for name, content in files.items():
        path = Path(name)
        if callable(content):
            content(path)
        elif isinstance(content, str):
            path.write_bytes(content.encode())
        elif isinstance(content, bytes):
            path.write_bytes(content)
        elif path.suffix in (".parquet", ".pq"):
            parquet.write_table(content, path)
        else:
            feather.write_feather(content, str(path), compression="uncompressed")


def link(target):
    return lambda path: os.symlink(target, path)


def hard(target):
    return lambda path: os.link(target, path)


def fifo(path):
    os.mkfifo(path)


def folder(path):
    path.mkdir()


def text(rows=None, header="time,value", end="\n"):
    rows = [f"{i},{y}" for i, y in enumerate(LEVEL)] if rows is None else rows
    return end.join([header, *rows]) + end


def one(at, cell, column=1):
    """A table of text with one other cell."""
    rows = [[str(i), str(y)] for i, y in enumerate(LEVEL)]
    rows[at][column] = cell
    return text([",".join(row) for row in rows])


def dated(at=None, cell="", stamp="2024-05-{:02d}"):
    """A table of text with dates, one of them another."""
    stamps = [stamp.format(i % 30 + 1) for i in range(ROWS)]
    if at is not None:
        stamps[at] = cell
    return text([f"{stamp},{y}" for stamp, y in zip(stamps, LEVEL, strict=True)])


def table(value=None, **columns):
    value = pa.array(LEVEL) if value is None else value
    return pa.table({"time": pa.array(range(ROWS)), "value": value} | columns)


def twice():
    return pa.table([pa.array(LEVEL), pa.array(LEVEL)], names=["value", "value"])


def packed(content):
    return gzip.compress(content.encode())


def finite(path):
    """Check that all means of a written table are finite."""
    from pyarrow import csv as arrow_csv

    kind = Path(path).suffix.lower()
    reader = {".parquet": parquet.read_table, ".arrow": feather.read_table}.get(kind, arrow_csv.read_csv)
    data = reader(str(path))
    means = [name for name in data.column_names if name.endswith(("mean", "lower", "upper", "weight"))]
    return bool(means) and all(np.isfinite(np.asarray(data[name].drop_null(), float)).all() for name in means)


GOOD = text()
IN = {"in.csv": GOOD}
CASES: dict[str, Case] = {}


def run(name, there, *options, code=2, words="", written=(), stdin=b"", known=True):
    """Add a case of `wolf filter`; the first file is its input."""
    source = next(iter(there), "-")
    arguments = ["filter", source, *(KNOWN if known else []), *options]
    assert name not in CASES
    CASES[name] = Case(there, arguments, code, words, written, stdin)


def add(name, there, *arguments, code=2, words="", written=()):
    """Add a case of another command."""
    assert name not in CASES
    CASES[name] = Case(there, list(arguments), code, words, written)
