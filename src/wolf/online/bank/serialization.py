"""States of a bank in bytes, in a file and as an Arrow table."""

import dataclasses
import json
from collections.abc import Hashable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from wolf import validation
from wolf.interfaces import Filter
from wolf.numerics.pytree import to_dict
from wolf.results.conformal import ConformalIntervals, calibration_of
from wolf.runtime import checkpoints
from wolf.runtime.hashing import fingerprint

if TYPE_CHECKING:
    import pyarrow

FORMAT = "wolf-bank"
FORMAT_VERSION = 3
METADATA_KEY = b"wolf"  # of the schema
PREFIX_BYTES = 16
CHECKSUM_BYTES = 4  # CRC-32: any one or two flipped bits change it


def make_prefix(model: object, method: Filter, dtype: str, intervals: ConformalIntervals | None) -> bytes:
    """Hash model, method, precision and format to the few bytes that precede a single state."""
    identity = {"model": model, "method": method, "dtype": dtype, "version": FORMAT_VERSION} | _settings(intervals)
    return bytes.fromhex(fingerprint(identity))[:PREFIX_BYTES]


def seal(prefix: bytes, state: bytes) -> bytes:
    """Prepend the prefix and a checksum to the bytes of a single state."""
    return prefix + crc32(state).to_bytes(CHECKSUM_BYTES, "little") + state


def unseal(prefix: bytes, sealed: bytes, size: int) -> bytes:
    """Return the bytes of a single state; raise a ValueError if they are damaged or not from the same filter.

    Args:
        prefix: of the bank.
        sealed: from `seal`.
        size: of a state of the bank.
    """
    start = PREFIX_BYTES + CHECKSUM_BYTES
    sealed = bytes(sealed) if isinstance(sealed, bytes | bytearray | memoryview) else b""
    if not sealed.startswith(prefix) or len(sealed) != start + size:
        raise ValueError("these bytes are the state of another model, method or version, or they are damaged")
    state = sealed[start:]
    if sealed != seal(prefix, state):
        raise ValueError("these bytes are damaged: their checksum does not match; use an older copy")
    return state


def make_header(model: object, method: Filter, dtype: str, intervals: ConformalIntervals | None) -> dict[str, Any]:
    """Describe what the states of a bank are states of."""
    settings = {"dtype": dtype, "method": to_dict(method)} | _settings(intervals)
    return checkpoints.make_header(FORMAT, FORMAT_VERSION, model, method, settings)


def _settings(intervals: ConformalIntervals | None) -> dict[str, object]:
    return {} if intervals is None else {"calibrate": dataclasses.asdict(intervals)}


def check_header(
    where: str | PathLike[str],
    header: dict[str, object],
    model: object,
    method: Filter,
    dtype: str,
    intervals: ConformalIntervals | None,
) -> None:
    """Raise a ValueError for states of another model, method, precision or calibration."""
    checkpoints.check_identity(where, header, model, method)
    if header["dtype"] != dtype:
        raise ValueError(f"{where} holds states of another precision, {header['dtype']}; expected {dtype}")
    if calibration_of(header) != intervals:
        raise ValueError(f"{where} holds states with calibrate={calibration_of(header)!r}; expected {intervals!r}")


def check_arrays(where: str | PathLike[str], arrays: dict[str, np.ndarray], widths: tuple[int, int]) -> None:
    """Raise a ValueError for arrays that are not the states of as many keys.

    Args:
        where: the path or the argument that the arrays were read from.
        arrays: with the keys as `key_index.pack` encodes them.
        widths: of the rows of numbers and of counts.
    """
    count = len(arrays.get("key_integers", ()))
    shapes = {"numbers": (count, widths[0]), "counts": (count, widths[1]), "times": (count,), "key_ends": (count + 1,)}
    if any(name not in arrays or arrays[name].shape != shape for name, shape in shapes.items()):
        raise ValueError(f"{where} holds states of another shape, or is damaged")


def read(path: str | PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read the file of a bank."""
    validation.path("path", path)
    return checkpoints.read(Path(path), FORMAT, FORMAT_VERSION, checkpoints.HEADER_FIELDS)


def to_table(keys: list[Hashable], arrays: dict[str, np.ndarray], header: dict[str, object]) -> "pyarrow.Table":
    """Write states into an Arrow table, as `wolf.Bank.to_arrow` describes it."""
    import pyarrow

    kinds = {type(key) for key in keys}
    if len(kinds) > 1:
        raise ValueError("a column holds text or integers, and this bank has keys of both kinds")
    key_column = pyarrow.array(keys, pyarrow.int64() if kinds == {int} else pyarrow.string())
    columns = {"key": key_column, "time": pyarrow.array(arrays["times"])}
    for name in ("numbers", "counts"):
        flat = pyarrow.array(arrays[name].ravel())
        columns[name] = pyarrow.FixedSizeListArray.from_arrays(flat, arrays[name].shape[1])
    return pyarrow.table(columns).replace_schema_metadata({METADATA_KEY: json.dumps(header, default=repr)})


def is_arrow_stream(value: object) -> bool:
    """Return whether a value supports the protocol by which any library hands over Arrow data."""
    return hasattr(value, "__arrow_c_stream__")


def from_table(table: object) -> tuple[list[Hashable], dict[str, Any], dict[str, np.ndarray]]:
    """Read states from a table that `to_table` wrote."""
    import pyarrow

    if not is_arrow_stream(table):
        raise ValueError(f"table must be an Arrow table from Bank.to_arrow; got {validation.short_repr(table)}")
    whole_table = pyarrow.table(table)
    header = json.loads((whole_table.schema.metadata or {}).get(METADATA_KEY, b"{}"))
    if (header.get("format"), header.get("version")) != (FORMAT, FORMAT_VERSION):
        found = f"{header['format']} {header.get('version')}" if "format" in header else "none of a bank"
        raise ValueError(f"the table is {found}; this wolf reads {FORMAT} {FORMAT_VERSION}, as Bank.to_arrow makes it")
    arrays = {"times": np.asarray(whole_table["time"], np.float64)}
    for name in ("numbers", "counts"):
        whole = whole_table[name].combine_chunks()
        arrays[name] = np.asarray(whole.flatten()).reshape(len(whole), whole.type.list_size)
    return whole_table["key"].to_pylist(), header, arrays
