"""States of a bank outside of it: what they say about themselves, in a file, in bytes, and as an Arrow table."""

import json
from collections.abc import Hashable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from wolf import validation
from wolf.execution import validate
from wolf.numerics.pytree import to_dict
from wolf.runtime import checkpoints
from wolf.runtime.hashing import fingerprint

FORMAT = "wolf-bank"
FORMAT_VERSION = 2
FIELDS = ("dtype", "method", "fingerprints")
HEADER = b"wolf"  # of the schema's metadata
STAMP = 16  # bytes


def stamp(model: Any, method: Any, dtype: str) -> bytes:
    """Tell banks apart, in few bytes: model, method, precision and version of the format."""
    told = fingerprint({"model": model, "method": method}) + f" {dtype} {FORMAT_VERSION}"
    return bytes.fromhex(fingerprint(np.frombuffer(told.encode(), np.uint8)))[:STAMP]


def header(model: Any, method: Any, dtype: str) -> dict[str, Any]:
    """Say what states are of."""
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "wolf": validate.package_version(),
        "dtype": dtype,
        "method": to_dict(method),
        "fingerprints": {"model": fingerprint(model), "method": fingerprint(method)},
    }


def check_header(where: Any, header: dict[str, Any], model: Any, method: Any, dtype: str) -> None:
    """Refuse states of another model, method or precision."""
    for name, mine in (("model", model), ("method", method)):
        if fingerprint(mine) != header["fingerprints"][name]:
            raise ValueError(f"{where} was saved with another {name}; load it with the {name} that it was made with")
    if header["dtype"] != dtype:
        raise ValueError(f"{where} holds states of another precision, {header['dtype']}; expected {dtype}")


def read(path: str | PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read the file of a bank."""
    validation.path("path", path)
    return checkpoints.read(Path(path), FORMAT, FORMAT_VERSION, FIELDS)


def pack(keys: list[Hashable], arrays: dict[str, np.ndarray], header: dict[str, Any]) -> Any:
    """Lay states out as a table; see `wolf.Bank.to_arrow`."""
    import pyarrow

    kinds = {type(key) for key in keys}
    if len(kinds) > 1:
        raise ValueError("a column holds text or integers, and this bank has keys of both kinds")
    named = pyarrow.array(keys, pyarrow.int64() if kinds == {int} else pyarrow.string())
    columns = {"key": named, "time": pyarrow.array(arrays["times"])}
    for name in ("numbers", "counts"):
        flat = pyarrow.array(arrays[name].ravel())
        columns[name] = pyarrow.FixedSizeListArray.from_arrays(flat, arrays[name].shape[1])
    return pyarrow.table(columns).replace_schema_metadata({HEADER: json.dumps(header, default=repr)})


def unpack(table: Any) -> tuple[list[Hashable], dict[str, Any], dict[str, np.ndarray]]:
    """Take states out of what `pack` made."""
    import pyarrow

    if not hasattr(table, "__arrow_c_stream__"):
        raise ValueError(f"table must be an Arrow table from Bank.to_arrow; got {validation.short_repr(table)}")
    table = pyarrow.table(table)
    header = json.loads((table.schema.metadata or {}).get(HEADER, b"{}"))
    if (header.get("format"), header.get("version")) != (FORMAT, FORMAT_VERSION):
        found = f"{header['format']} {header.get('version')}" if "format" in header else "none of a bank"
        raise ValueError(f"the table is {found}; this wolf reads {FORMAT} {FORMAT_VERSION}, as Bank.to_arrow makes it")
    arrays = {"times": np.asarray(table["time"], np.float64)}
    for name in ("numbers", "counts"):
        whole = table[name].combine_chunks()
        arrays[name] = np.asarray(whole.flatten()).reshape(len(whole), whole.type.list_size)
    return table["key"].to_pylist(), header, arrays
