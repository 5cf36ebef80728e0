"""Kinds of models and methods: what they have in common that share one code.

What differs between two of one kind (the values in F, Q, R, the threshold of a weight) are inputs of the code, read
once for a model; which of them are 0 or 1, and which are equal within an array, is folded.
"""

import dataclasses
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from wolf.native.frontend.node_arrays import UnsupportedOperationError
from wolf.native.ir.layout import StateShape
from wolf.statespace import time_axes
from wolf.statespace.array_fields import replace

LARGEST_LEAF = 2_500  # entries of an array of the model: one of 50 x 50


@dataclasses.dataclass(frozen=True)
class SmootherSpec:
    """What a step of the smoother takes beside beliefs.

    Attributes:
        scaled: whether there is a factor on Q.
        ragged: whether series end at different steps, and each row says whether its series goes on.
    """

    scaled: bool
    ragged: bool


@dataclasses.dataclass(frozen=True)
class LooSpec:
    """What it takes to weigh a measurement once more: what the rule knew in the end, as a pytree.

    Attributes:
        memory: its structure.
        shapes: of its leaves.
    """

    memory: Any
    shapes: tuple[tuple[int, ...], ...]


@dataclasses.dataclass(frozen=True)
class Signature:
    """What programs are told apart by: everything but the numbers in a model and a method.

    Attributes:
        structure: of the model (without time axes) and the method, as pytrees.
        shapes: of their leaves.
        varying: which leaves have a row for each step.
        pattern: of each leaf, which entries are 0, 1, or (if it is fixed in time) equal.
        dtype: precision of the run.
        update_first: the order of a step.
        inputs: number of inputs u, or None.
        save: what is kept of each step.
        general: leaves whose zeros are not folded, because other values will take their place, and their names.
        state: how the state is built, if it is not the one that the model would start from.
        back: what a step backward takes, if it is one; the method is then the moments of the filter. Or what it takes
            to weigh again, with moments and rule in the method's place.
    """

    structure: Any
    shapes: tuple[tuple[int, ...], ...]
    varying: tuple[bool, ...]
    pattern: tuple[bytes, ...]
    dtype: str
    update_first: bool
    inputs: int | None
    save: Hashable
    general: tuple[tuple[int, str], ...] = ()
    state: StateShape | None = None
    back: SmootherSpec | LooSpec | None = None


@dataclasses.dataclass
class Arguments:
    """Models and a method, taken apart.

    Attributes:
        kind: which program they need.
        leaves: all arrays, one for each model on the first axis; those that vary in time have their time axis next.
    """

    kind: Signature
    leaves: list[np.ndarray]

    def parameters(self) -> np.ndarray:
        """Put the numbers that differ between models of one kind into a row for each; the first steps' rows come last.

        Returns:
            (models, P).
        """
        count = len(self.leaves[0])
        flat = [leaf.reshape(count, -1) for leaf in self.leaves]
        whole = zip(flat, self.kind.pattern, self.kind.varying, strict=True)
        entries = [leaf[:, first_entries(pattern)] for leaf, pattern, varies in whole if not varies]
        entries += [leaf[:, 0].reshape(count, -1) for leaf in self.rows()]
        return np.ascontiguousarray(np.concatenate(entries, axis=1))

    def counts(self) -> list[int]:
        """Say how many numbers of the parameters each leaf has."""
        return [_own_values(self.kind, i) for i in range(len(self.kind.pattern))]

    def rows(self) -> list[np.ndarray]:
        """Give the arrays that have a row for each step."""
        return [leaf for leaf, varies in zip(self.leaves, self.kind.varying, strict=True) if varies]


def flatten_model(
    models: Sequence[Any],
    method: Any,
    dtype: str,
    update_first: bool,
    inputs: int | None,
    save: Hashable,
    general: frozenset[str] = frozenset(),
    state: StateShape | None = None,
    back: SmootherSpec | LooSpec | None = None,
) -> Arguments:
    """Take models and a method apart into a kind and numbers.

    Args:
        models: in the form that suits the method; of equal shapes.
        method: a filter.
        dtype: precision of the run.
        update_first: the order of a step.
        inputs: number of inputs u, or None.
        save: a name of `RECORDERS`, or a function of (state, info).
        general: fields of the model whose zeros are not to be folded, because other values will take their place.
        state: see `Signature`.
        back: see `Signature`.
    """
    model = models[0]
    axes = time_axes(model)
    still = replace(model, **{name: getattr(model, name)[0] for name in axes}) if axes else model
    rule = getattr(method, "noise", None)  # moments, for a step backward, have none
    timed = () if rule is None else rule.time_varying_fields
    fixed = (
        replace(method, noise=replace(rule, **{name: getattr(rule, name)[0] for name in timed})) if timed else method
    )
    each = [jax.tree.flatten((one, method)) for one in models]
    shapes_of = {(structure, tuple(map(np.shape, found))) for found, structure in each}
    if len(shapes_of) > 1:
        raise UnsupportedOperationError("models of different structure")
    with np.errstate(over="ignore"):
        leaves = [np.asarray(list(column), dtype, order="C") for column in zip(*(e[0] for e in each), strict=True)]
    still_leaves, still_structure = jax.tree.flatten((still, fixed))
    shapes = tuple(np.shape(leaf) for leaf in still_leaves)
    varying = tuple(leaf.shape[1:] != shape for leaf, shape in zip(leaves, shapes, strict=True))
    free = _free(model, method, general)
    pattern = tuple(
        # A number by itself is a setting: one that happens to be 1 is no reason for code of its own.
        _row_pattern(leaf.reshape(leaf.shape[0] * leaf.shape[1], -1), i in dict(free))
        if varies
        else _pattern(leaf.reshape(len(models), -1), leaf.ndim == 1 or i in dict(free))
        for i, (leaf, varies) in enumerate(zip(leaves, varying, strict=True))
    )
    kind = Signature(still_structure, shapes, varying, pattern, dtype, update_first, inputs, save, free, state, back)
    return Arguments(kind, leaves)


def _free(model: Any, method: Any, general: frozenset[str]) -> tuple[tuple[int, str], ...]:
    """Find the leaves of some of the model's fields."""
    found: list[tuple[int, str]] = []
    for name in sorted(general):
        leaves = jax.tree.leaves((replace(model, **{name: _HERE}), method))
        found += [(i, name) for i, leaf in enumerate(leaves) if leaf is _HERE]
    return tuple(sorted(found))


_HERE = object()  # stands in for a leaf


def _pattern(leaf: np.ndarray, free: bool) -> bytes:
    """Give the pattern of a leaf; that of one model's is often the same as in the last run."""
    if leaf.size > LARGEST_LEAF:
        return _number(leaf, free)
    return _number_again(leaf.tobytes(), leaf.dtype.str, leaf.shape, free)


@lru_cache(maxsize=1024)
def _number_again(entries: bytes, dtype: str, shape: tuple[int, int], free: bool) -> bytes:
    return _number(np.frombuffer(entries, dtype).reshape(shape), free)


def _number(leaf: np.ndarray, free: bool) -> bytes:
    """Number the entries that differ: 0 for zeros, 1 for ones, then one number for each other value.

    Args:
        leaf: (models, entries).
        free: whether any value may come.
    """
    size = leaf.shape[1]
    if size > LARGEST_LEAF:
        raise UnsupportedOperationError(f"an array of {size} entries in the model")
    if free:
        return np.arange(2, size + 2, dtype=np.int16).tobytes()
    seen: dict[Any, int] = {(0.0,) * len(leaf): 0, (1.0,) * len(leaf): 1}
    columns = map(tuple, leaf.T.tolist())
    return np.array([seen.setdefault(column, len(seen)) for column in columns], np.int16).tobytes()


def _row_pattern(rows: np.ndarray, free: bool) -> bytes:
    """Mark the entries of a row that are 0 or 1 at every step; each of the others is read."""
    codes = np.arange(2, rows.shape[1] + 2, dtype=np.int16)
    if not free:
        codes[(rows == 0).all(0)] = 0
        codes[(rows == 1).all(0)] = 1
    return codes.tobytes()


@lru_cache(maxsize=1024)
def first_entries(pattern: bytes) -> np.ndarray:
    """Find the first entry of each value that is neither 0 nor 1."""
    codes = np.frombuffer(pattern, np.int16)
    values, where = np.unique(codes, return_index=True)
    return where[values > 1]


def num_parameters(kind: Signature) -> int:
    """Count the numbers that models of a kind differ in, first rows apart."""
    return sum(_own_values(kind, i) for i in range(len(kind.pattern)))


def _own_values(kind: Signature, i: int) -> int:
    return 0 if kind.varying[i] else count_values(kind.pattern[i])


def count_values(pattern: bytes) -> int:
    """Count the values that a leaf gives to the vector of parameters."""
    return len(first_entries(pattern)) if pattern else 0
