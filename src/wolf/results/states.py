"""`States`: the final states of many series, to continue from and to serialize."""

import dataclasses
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import jax
import numpy as np

from wolf import validation
from wolf.execution import validate
from wolf.interfaces import Dtype, Filter
from wolf.numerics.precision import as_key, precision
from wolf.numerics.pytree import PyTree, cast, from_dict, to_dict
from wolf.runtime import checkpoints
from wolf.statespace import Model

FORMAT = "wolf-states"
FORMAT_VERSION = 3
HEADER = ("update_first", *checkpoints.HEADER_FIELDS)


@dataclasses.dataclass(frozen=True, repr=False)
class States:
    """Final states of many series with their model and method; `out.states` returns them.

    `wolf.filter_many(model, ys, state=states)` continues from them, `states[3]` is one of them for
    `wolf.Online(state=)`, and `wolf.Bank.from_states` assigns a key to each.

    Attributes:
        final: as `out.final`, with the series axis first.
        model: one for all, or a tuple with one for each.
        method: as run.
        dtype: precision.
        update_first: order of the steps.
        u_before: last input of each series, (B, U), where the next step needs it.

    Example:
        >>> import wolf
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> out = wolf.filter_many(model, [[1.0, 2.0], [5.0, 6.0]])
        >>> kept = out.states.to_bytes()
        >>> more = wolf.filter_many(model, [[3.0], [7.0]], state=wolf.States.from_bytes(kept, model))
        >>> more.final.t.tolist()
        [3, 3]
    """

    final: PyTree
    model: Any
    method: Filter
    dtype: Dtype = "float64"
    update_first: bool = False
    u_before: np.ndarray | None = None

    def __len__(self) -> int:
        """Return the number of series."""
        return len(self.final.t)

    def __getitem__(self, index: int) -> PyTree:
        """Return the state of one series."""
        if not isinstance(index, int | np.integer):
            raise TypeError(f"pick one state by its number, as states[0]; got {index!r}")
        return jax.tree.map(lambda leaf: np.asarray(leaf)[index], self.final)

    def __repr__(self) -> str:
        """Return the number of series and the size in bytes."""
        size = sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(self.final))
        return f"States: {len(self)} series, {size:,} bytes"

    def to_bytes(self) -> bytes:
        """Serialize all states: one header, then numbers; never code."""
        settings = {"dtype": self.dtype, "update_first": self.update_first, "method": to_dict(self.method)}
        header = checkpoints.make_header(FORMAT, FORMAT_VERSION, self.model, self.method, settings)
        arrays = {f"state_{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(self.final))}
        if self.u_before is not None:
            arrays["u_before"] = self.u_before
        return bytes(checkpoints.pack(header, arrays))

    @classmethod
    def from_bytes(cls, data: bytes, model: Model | Sequence[Model], method: Filter | None = None) -> "States":
        """Deserialize the bytes of `to_bytes`.

        Args:
            data: the bytes.
            model: the model of the states, or a list of them; another one raises a ValueError.
            method: needed only if it has parts from outside wolf; another one raises a ValueError.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise ValueError(f"data must be bytes, from States.to_bytes; got {validation.short_repr(data)}")
        models = tuple(model) if isinstance(model, list | tuple) else None
        for each in models or (model,):
            validate.check_model(each)
        header, arrays = checkpoints.unpack("data", data, FORMAT, FORMAT_VERSION, HEADER)
        first: Any = models[0] if models else model
        method = validate.resolve_method(from_dict(header["method"]) if method is None else method, first)
        given = model if models is None else models
        checkpoints.check_identity("data", header, given, method)
        final = read_state("data", arrays, first, method, header["dtype"], axes=1)
        return cls(final, given, method, header["dtype"], header["update_first"], arrays.get("u_before"))


def read_state(
    where: str | PathLike[str],
    arrays: Mapping[str, np.ndarray],
    model: Model,
    method: Filter,
    dtype: str,
    axes: int = 0,
) -> PyTree:
    """Assemble a state from the arrays of a file, after comparing their shapes with those that the filter has.

    Args:
        where: the path or the argument that the arrays were read from.
        arrays: `state_0`, `state_1`, ...
        model: as given by the user.
        method: a filter.
        dtype: precision.
        axes: number of leading axes, of series.
    """
    expected, structure = jax.tree.flatten(_abstract_state(validate.adapt_model(model, method, 0), method, dtype))
    leaves = [arrays.get(f"state_{i}") for i in range(len(expected))]
    for saved, leaf in zip(leaves, expected, strict=True):
        if saved is None or (saved.ndim - axes, saved.shape[axes:], saved.dtype) != (leaf.ndim, leaf.shape, leaf.dtype):
            raise ValueError(f"{where} holds a state of another shape, or is damaged; expected {leaf.shape}")
    return jax.tree.unflatten(structure, leaves)


def state_structure(adapted: Model, method: Filter, dtype: str) -> tuple[PyTree, list[tuple[int, ...]]]:
    """Return the tree structure and the leaf shapes of a state, by tracing alone."""
    leaves, structure = jax.tree.flatten(_abstract_state(adapted, method, dtype))
    return structure, [leaf.shape for leaf in leaves]


def _abstract_state(adapted: Model, method: Filter, dtype: str) -> PyTree:
    """Trace the initial state to shapes and dtypes: nothing is allocated."""
    with precision(dtype):
        key = as_key(0) if method.requirements.key else None
        return jax.eval_shape(lambda one: method.init(one, key), cast(adapted, dtype))
