"""Arrays of node numbers, which stand for the arrays of a program while it is translated."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from wolf.native.ir.graph import Graph, Kind
from wolf.numerics.jaxpr import ClosedJaxpr

Ids = np.ndarray  # node numbers, in the shape of the array
TranslateInner = Callable[[Graph, ClosedJaxpr, Sequence[Ids]], list[Ids]]  # translates an inner program


class UnsupportedOperationError(Exception):
    """A function has no form as straight-line code; the message gives the reason."""


def constants(graph: Graph, value: npt.ArrayLike) -> Ids:
    """Create constant nodes."""
    array = np.asarray(value)
    kind = number_kind(array.dtype)
    ids = [graph.constant(entry, kind) for entry in array.ravel().tolist()]
    return np.array(ids, np.int64).reshape(array.shape)


def number_kind(dtype: npt.DTypeLike) -> Kind:
    """Return the kind of number that represents a dtype."""
    dtype = np.dtype(dtype)
    if dtype == np.uint32:  # of positions, in derivatives of a sort
        return "i"
    if dtype.kind not in "fib":
        raise UnsupportedOperationError(f"numbers of type {dtype}")
    return dtype.kind


def values_of(graph: Graph, ids: Ids, dtype: npt.DTypeLike) -> np.ndarray | None:
    """Return the values of nodes; None if one is not a constant."""
    found = [graph.value(number) for number in ids.ravel().tolist()]
    if any(value is None for value in found):
        return None
    return np.array(found, dtype).reshape(ids.shape)


def each(make: Callable[..., int], inputs: list[Ids], shape: tuple[int, ...]) -> Ids:
    """Create one node per entry."""
    spread = [np.broadcast_to(ids, shape).ravel().tolist() for ids in inputs]
    return np.array([make(*entry) for entry in zip(*spread, strict=True)], np.int64).reshape(shape)


def reduce(graph: Graph, op: str, ids: Ids, axes: Sequence[int], shape: tuple[int, ...]) -> Ids:
    """Reduce the entries along some axes."""
    rest = [axis for axis in range(ids.ndim) if axis not in axes]
    rows = ids.transpose(*rest, *axes).reshape(math.prod(shape), -1).tolist()
    return np.array([fold(graph, op, row) for row in rows], np.int64).reshape(shape)


def fold(graph: Graph, op: str, row: Sequence[int]) -> int:
    """Combine numbers sequentially, from left to right."""
    whole = row[0]
    for number in row[1:]:
        whole = graph.apply(op, whole, number)
    return whole
