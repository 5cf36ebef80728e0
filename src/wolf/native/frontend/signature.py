"""Signatures: models and methods with equal signatures share compiled code.

The values that differ between two of them (in F, Q, R, the threshold of a weight) are inputs of the code, read once per
model; which entries are 0 or 1, and which are equal within an array, is part of the signature and folded.
"""

import dataclasses
from collections.abc import Hashable, Sequence
from functools import lru_cache

import jax
import numpy as np
from jax.tree_util import PyTreeDef

from wolf.native.frontend.node_arrays import UnsupportedOperationError
from wolf.native.ir.layout import StateShape
from wolf.numerics.pytree import PyTree
from wolf.statespace import Model, time_axes
from wolf.statespace.array_fields import replace

MAX_LEAF_ENTRIES = 2_500  # entries of an array of the model: 50 x 50


@dataclasses.dataclass(frozen=True)
class SmootherSpec:
    """Inputs of a smoother step besides beliefs.

    Attributes:
        scaled: whether there is a factor on Q.
        ragged: whether series end at different steps; each row then has a flag that its series continues.
    """

    scaled: bool
    ragged: bool


@dataclasses.dataclass(frozen=True)
class LooSpec:
    """Inputs of leave-one-out reweighting: the final memory of the noise model, as a pytree.

    Attributes:
        memory: structure of the memory.
        shapes: of its leaves.
    """

    memory: PyTreeDef
    shapes: tuple[tuple[int, ...], ...]


@dataclasses.dataclass(frozen=True)
class Signature:
    """Everything that compiled code depends on: all properties of model and method but their numbers.

    Attributes:
        structure: of the model (without time axes) and the method, as pytrees.
        shapes: of their leaves.
        varying: which leaves have a row per step.
        pattern: for each leaf, which entries are 0, 1, or (if it is constant in time) equal.
        dtype: precision of the run.
        update_first: order of prediction and update.
        inputs: number of inputs u, or None.
        save: the recorder, by name or as a function.
        general: indices and field names of leaves whose values will be replaced, so that zeros are not folded.
        state: layout of the state, if it differs from that of the model's initial state.
        back: the inputs of a smoother step, with the linearization in place of the method; or those of leave-one-out
            reweighting, with linearization and noise model in its place. None for a filter step.
    """

    structure: PyTreeDef
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
    """Models and a method, split into a signature and numbers.

    Attributes:
        kind: signature of the program that they need.
        leaves: all arrays, with the models on the first axis; time-varying ones have their time axis next.
    """

    signature: Signature
    leaves: list[np.ndarray]

    def parameters(self) -> np.ndarray:
        """Collect the numbers that differ between models of one signature; first steps' rows come last.

        Returns:
            (models, P).
        """
        count = len(self.leaves[0])
        flat = [leaf.reshape(count, -1) for leaf in self.leaves]
        whole = zip(flat, self.signature.pattern, self.signature.varying, strict=True)
        entries = [leaf[:, first_entries(pattern)] for leaf, pattern, varies in whole if not varies]
        entries += [leaf[:, 0].reshape(count, -1) for leaf in self.rows()]
        return np.ascontiguousarray(np.concatenate(entries, axis=1))

    def counts(self) -> list[int]:
        """Return how many of the parameters belong to each leaf."""
        return [_own_values(self.signature, i) for i in range(len(self.signature.pattern))]

    def rows(self) -> list[np.ndarray]:
        """Return the arrays that have a row per step."""
        return [leaf for leaf, varies in zip(self.leaves, self.signature.varying, strict=True) if varies]


def flatten_model(
    models: Sequence[Model],
    method: PyTree,
    dtype: str,
    update_first: bool,
    inputs: int | None,
    save: Hashable,
    general: frozenset[str] = frozenset(),
    state: StateShape | None = None,
    back: SmootherSpec | LooSpec | None = None,
) -> Arguments:
    """Split models and a method into a signature and numbers.

    Args:
        models: adapted to the method; of equal shapes.
        method: a filter, or what takes its place according to `back`.
        dtype: precision of the run.
        update_first: order of prediction and update.
        inputs: number of inputs u, or None.
        save: a name of `RECORDERS`, or a function of (state, info).
        general: fields of the model whose values will be replaced, so that zeros are not folded.
        state: see `Signature`.
        back: see `Signature`.
    """
    model = models[0]
    axes = time_axes(model)
    still = replace(model, **{name: vars(model)[name][0] for name in axes}) if axes else model
    rule = method.noise if back is None else None
    timed = () if rule is None else rule.time_varying_fields
    fixed = replace(method, noise=replace(rule, **{name: vars(rule)[name][0] for name in timed})) if timed else method
    each = [jax.tree.flatten((one, method)) for one in models]
    shapes_of = {(structure, tuple(map(np.shape, found))) for found, structure in each}
    if len(shapes_of) > 1:
        raise UnsupportedOperationError("models of different structure")
    with np.errstate(over="ignore"):
        leaves = [np.asarray(list(column), dtype, order="C") for column in zip(*(e[0] for e in each), strict=True)]
    still_leaves, still_structure = jax.tree.flatten((still, fixed))
    shapes = tuple(np.shape(leaf) for leaf in still_leaves)
    varying = tuple(leaf.shape[1:] != shape for leaf, shape in zip(leaves, shapes, strict=True))
    leaves_of_general = _general_leaves(model, method, general)
    pattern = tuple(
        # A scalar is a setting: if it happens to be 1, that is no reason for separate code.
        _row_pattern(leaf.reshape(leaf.shape[0] * leaf.shape[1], -1), i in dict(leaves_of_general))
        if varies
        else _pattern(leaf.reshape(len(models), -1), leaf.ndim == 1 or i in dict(leaves_of_general))
        for i, (leaf, varies) in enumerate(zip(leaves, varying, strict=True))
    )
    signature = Signature(
        still_structure,
        shapes,
        varying,
        pattern,
        dtype,
        update_first,
        inputs,
        save,
        leaves_of_general,
        state,
        back,
    )
    return Arguments(signature, leaves)


def _general_leaves(model: Model, method: PyTree, general: frozenset[str]) -> tuple[tuple[int, str], ...]:
    """Find the leaves of some of the model's fields."""
    found: list[tuple[int, str]] = []
    for name in sorted(general):
        leaves = jax.tree.leaves((replace(model, **{name: _PLACEHOLDER}), method))
        found += [(i, name) for i, leaf in enumerate(leaves) if leaf is _PLACEHOLDER]
    return tuple(sorted(found))


_PLACEHOLDER = object()  # placeholder of a leaf


def _pattern(leaf: np.ndarray, general: bool) -> bytes:
    """Compute the pattern of a leaf; that of a single model is often the same as in the last run, and cached."""
    if leaf.size > MAX_LEAF_ENTRIES:
        return _codes(leaf, general)
    return _cached_codes(leaf.tobytes(), leaf.dtype.str, leaf.shape, general)


@lru_cache(maxsize=1024)
def _cached_codes(entries: bytes, dtype: str, shape: tuple[int, int], general: bool) -> bytes:
    return _codes(np.frombuffer(entries, dtype).reshape(shape), general)


def _codes(leaf: np.ndarray, general: bool) -> bytes:
    """Number the distinct entries: 0 for zeros, 1 for ones, then one number per other value.

    Args:
        leaf: (models, entries).
        general: whether the values may be replaced by any others.
    """
    size = leaf.shape[1]
    if size > MAX_LEAF_ENTRIES:
        raise UnsupportedOperationError(f"an array of {size} entries in the model")
    if general:
        return np.arange(2, size + 2, dtype=np.int16).tobytes()
    seen: dict[tuple[float, ...], int] = {(0.0,) * len(leaf): 0, (1.0,) * len(leaf): 1}
    columns = map(tuple, leaf.T.tolist())
    return np.array([seen.setdefault(column, len(seen)) for column in columns], np.int16).tobytes()


def _row_pattern(rows: np.ndarray, general: bool) -> bytes:
    """Mark the entries of a row that are 0 or 1 at every step; the others are read."""
    codes = np.arange(2, rows.shape[1] + 2, dtype=np.int16)
    if not general:
        codes[(rows == 0).all(0)] = 0
        codes[(rows == 1).all(0)] = 1
    return codes.tobytes()


@lru_cache(maxsize=1024)
def first_entries(pattern: bytes) -> np.ndarray:
    """Find the first entry of each value other than 0 and 1."""
    codes = np.frombuffer(pattern, np.int16)
    values, where = np.unique(codes, return_index=True)
    return where[values > 1]


def num_parameters(signature: Signature) -> int:
    """Count the parameters of a signature, without the first rows of time-varying leaves."""
    return sum(_own_values(signature, i) for i in range(len(signature.pattern)))


def _own_values(signature: Signature, i: int) -> int:
    return 0 if signature.varying[i] else count_values(signature.pattern[i])


def count_values(pattern: bytes) -> int:
    """Count the parameters of a leaf."""
    return len(first_entries(pattern)) if pattern else 0
