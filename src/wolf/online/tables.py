"""States of many keys as an Arrow table, and back."""

import json
from collections.abc import Hashable
from typing import Any

import numpy as np

from wolf import checks

HEADER = b"wolf"  # of the schema's metadata


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


def unpack(table: Any, kind: str, version: int) -> tuple[list[Hashable], dict[str, Any], dict[str, np.ndarray]]:
    """Take states out of what `pack` made."""
    import pyarrow

    if not hasattr(table, "__arrow_c_stream__"):
        raise ValueError(f"table must be an Arrow table from Bank.to_arrow; got {checks.told(table)}")
    table = pyarrow.table(table)
    header = json.loads((table.schema.metadata or {}).get(HEADER, b"{}"))
    if (header.get("format"), header.get("version")) != (kind, version):
        found = f"{header['format']} {header.get('version')}" if "format" in header else "none of a bank"
        raise ValueError(f"the table is {found}; this wolf reads {kind} {version}, as Bank.to_arrow makes it")
    arrays = {"times": np.asarray(table["time"], np.float64)}
    for name in ("numbers", "counts"):
        whole = table[name].combine_chunks()
        arrays[name] = np.asarray(whole.flatten()).reshape(len(whole), whole.type.list_size)
    return table["key"].to_pylist(), header, arrays
