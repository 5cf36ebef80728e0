"""The layout of a compiled step: where its numbers are read from and written to."""

import dataclasses
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef


class Slot(NamedTuple):
    """An input number: the array that contains it, and its offset there."""

    group: str
    offset: int


class Place(NamedTuple):
    """A number of the state: its node, its kind, its offset, and which entry of which leaf it is.

    Both halves of a covariance that stays symmetric are one number, that of the lower half.
    """

    node: int
    kind: str
    offset: int
    leaf: int
    entry: int


class StateShape(NamedTuple):
    """Structure of the state of a signature, and its layout in a vector of numbers and one of counts.

    Attributes:
        structure: of its pytree.
        shapes: of the leaves.
        dtypes: of the leaves.
        halves: of which square, symmetric leaves only the lower half is stored.
    """

    structure: "PyTreeDef"
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype, ...]
    halves: tuple[bool, ...]


class Output(NamedTuple):
    """An array that a step returns: its shape, its type in memory, its kind of number."""

    shape: tuple[int, ...]
    dtype: np.dtype
    kind: str

    @property
    def size(self) -> int:
        """Number of entries."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def memory(self) -> str:
        """LLVM integer type of this size."""
        return f"i{8 * self.dtype.itemsize}"


@lru_cache(maxsize=256)
def entries(shape: tuple[int, ...], half: bool) -> np.ndarray:
    """List the stored entries of a leaf, by their positions in the flattened leaf."""
    whole = np.arange(int(np.prod(shape, dtype=int)))
    return whole.reshape(shape)[np.tril_indices(shape[0])] if half else whole


@lru_cache(maxsize=256)
def full_index(shape: tuple[int, ...]) -> np.ndarray:
    """Compute the index into the stored `entries` for each entry of a symmetric leaf, in the shape of the leaf."""
    found = np.empty(shape, np.intp)
    rows, columns = np.tril_indices(shape[0])
    found[rows, columns] = found[columns, rows] = np.arange(len(rows))
    return found


@dataclasses.dataclass
class Layout:
    """Where the inputs and results of a graph are in memory.

    Attributes:
        slots: for each input of the graph its location.
        groups: names of the arrays that have a row per step.
        kept: nodes that are computed once per model and stored for its steps.
        state: the numbers of the state.
        next_state: the nodes of the state after the step.
        outputs: the arrays that a step returns.
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
