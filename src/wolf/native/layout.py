"""Where the numbers of a compiled step come from and go to."""

import dataclasses
from typing import NamedTuple

import numpy as np


class Slot(NamedTuple):
    """A number that comes from outside: which array it is in, and its place there."""

    group: str
    offset: int


class Place(NamedTuple):
    """A number of the state: its node, its kind, where it is read, and everywhere that it is written to.

    Both halves of a covariance that stays symmetric are one number.
    """

    node: int
    kind: str
    offset: int
    everywhere: tuple[int, ...]


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
