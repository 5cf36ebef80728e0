"""Conversion between pyarrow and NumPy arrays without importing pandas.

`pyarrow.array`, `pyarrow.scalar` and `to_numpy` import pandas where it is installed, to check for its types. That takes
longer than filtering a hundred thousand rows, and 30 MB.
"""

from typing import TYPE_CHECKING

import numpy as np

from wolf.cleaning.io.table import pyarrow

if TYPE_CHECKING:
    import pyarrow as pa


def numbers(column: "pa.Array | pa.ChunkedArray", kind: str, blank: float) -> np.ndarray:
    """Convert a column to an array, chunk by chunk, so that a long one is never in memory twice.

    Args:
        column: of numbers, or of a type that pyarrow casts to numbers.
        kind: "float64" or "int64".
        blank: replacement of null.

    Example:
        >>> import pyarrow
        >>> numbers(pyarrow.array([1.5, None, 3.5]), "float64", np.nan)
        array([1.5, nan, 3.5])
    """
    from pyarrow import compute

    whole, first = np.empty(len(column), kind), 0
    for chunk in _chunks(column):
        place = whole[first : first + len(chunk)]
        cast = compute.cast(
            chunk, pyarrow().type_for_alias(kind), safe=kind != "float64"
        )  # 2**60 is rounded, as in text
        if len(chunk) > cast.null_count:
            place[:] = np.frombuffer(cast.buffers()[1], kind, len(cast), cast.offset * place.itemsize)
        if cast.null_count:
            place[nulls(cast)] = blank
        first += len(chunk)
    return whole


def nulls(column: "pa.Array | pa.ChunkedArray") -> np.ndarray:
    """Find the null entries of a column.

    Example:
        >>> import pyarrow
        >>> nulls(pyarrow.array([1.5, None, 3.5]))
        array([False,  True, False])
    """
    found = [np.zeros(0, bool)]
    for chunk in _chunks(column):
        null = chunk.is_null()
        bits = np.unpackbits(np.frombuffer(null.buffers()[1], np.uint8), bitorder="little") if len(null) else found[0]
        found.append(bits[null.offset : null.offset + len(null)].astype(bool))
    return np.concatenate(found)


def from_numpy(array: np.ndarray) -> "pa.Array":
    """Convert an array of floats, booleans or ASCII text, (rows,), to pyarrow; NaN becomes null.

    Example:
        >>> from_numpy(np.array([1.5, np.nan])).to_pylist(), from_numpy(np.array([True, False])).to_pylist()
        ([1.5, None], [True, False])
    """
    arrow = pyarrow()
    if array.dtype == bool:
        return arrow.Array.from_buffers(arrow.bool_(), len(array), [None, _bits(array)])
    if array.dtype.kind == "U":
        return _ascii_text(array)
    absent = np.isnan(array)
    present = _bits(~absent) if absent.any() else None
    floats = np.ascontiguousarray(array, np.float64)
    return arrow.Array.from_buffers(arrow.float64(), len(array), [present, arrow.py_buffer(floats)])


def _ascii_text(array: np.ndarray) -> "pa.Array":
    """Convert ASCII text byte by byte."""
    arrow = pyarrow()
    ends = np.concatenate([[0], np.cumsum(np.char.str_len(array))]).astype(np.int32)
    letters = array.astype("S").tobytes().replace(b"\0", b"")
    return arrow.Array.from_buffers(arrow.string(), len(array), [None, arrow.py_buffer(ends), arrow.py_buffer(letters)])


def _chunks(column: "pa.Array | pa.ChunkedArray") -> list["pa.Array"]:
    return column.chunks if isinstance(column, pyarrow().ChunkedArray) else [column]


def _bits(booleans: np.ndarray) -> "pa.Buffer":
    return pyarrow().py_buffer(np.packbits(booleans, bitorder="little"))
