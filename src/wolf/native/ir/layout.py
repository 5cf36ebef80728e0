"""Where the numbers of a compiled step come from and go to."""

import dataclasses
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np


class Slot(NamedTuple):
    """A number that comes from outside: which array it is in, and its place there."""

    group: str
    offset: int


class Place(NamedTuple):
    """A number of the state: its node, its kind, where it lies, and which entry of which leaf it is.

    Both halves of a covariance that stays symmetric are one number, that of the lower one.
    """

    node: int
    kind: str
    offset: int
    leaf: int
    entry: int


class StateShape(NamedTuple):
    """How the state of a kind is built, and how it lies in its vectors of numbers and of counts.

    Attributes:
        structure: of its pytree.
        shapes: of the leaves.
        dtypes: of the leaves.
        halves: of which leaves, square and symmetric, only the lower half lies there.
    """

    structure: Any
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype, ...]
    halves: tuple[bool, ...]


class Output(NamedTuple):
    """An array that a step gives out: its shape, its type in memory, its kind of number."""

    shape: tuple[int, ...]
    dtype: np.dtype
    kind: str

    @property
    def size(self) -> int:
        """Number of entries."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def memory(self) -> str:
        """LLVM's name of an integer of this type."""
        return f"i{8 * self.dtype.itemsize}"


@lru_cache(maxsize=256)
def entries(shape: tuple[int, ...], half: bool) -> np.ndarray:
    """List the entries of a leaf that lie in a vector, by their places in the flat leaf."""
    whole = np.arange(int(np.prod(shape, dtype=int)))
    return whole.reshape(shape)[np.tril_indices(shape[0])] if half else whole


@lru_cache(maxsize=256)
def spread_out(shape: tuple[int, ...]) -> np.ndarray:
    """Say for each entry of a symmetric leaf which of `entries` it is, as an array of this shape."""
    found = np.empty(shape, np.intp)
    rows, columns = np.tril_indices(shape[0])
    found[rows, columns] = found[columns, rows] = np.arange(len(rows))
    return found


@dataclasses.dataclass
class Layout:
    """Where everything is.

    Attributes:
        slots: for each input of the graph where it is.
        groups: names of the arrays that have a row for each step.
        kept: nodes that are made once for a model and kept for its steps.
        state: the numbers of the state.
        next_state: the nodes that they become.
        outputs: the arrays that a step gives out.
        results: the nodes of their entries, one array after the other.
        own_model: whether each series has a model of its own.
        ragged: whether series end at different steps.
    """

    slots: list[Slot]
    groups: list[str]
    kept: list[int]
    state: list[Place]
    next_state: list[int]
    outputs: list[Output]
    results: list[int]
    own_model: bool = False
    ragged: bool = False
