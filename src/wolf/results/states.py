"""Where the filters of many series stand: one object, as bytes too, and what a run that goes on from it asks."""

import dataclasses
from typing import Any

import jax
import numpy as np

from wolf import validation
from wolf.execution import validate
from wolf.interfaces import Dtype
from wolf.numerics.precision import as_key, precision, to_dtype
from wolf.numerics.pytree import cast, from_dict, to_dict
from wolf.runtime import checkpoints

FORMAT = "wolf-states"
FORMAT_VERSION = 2  # of 0.2: filters of 0.1 remember less
HEADER = ("dtype", "update_first", "method", "fingerprints", "python")


@dataclasses.dataclass(frozen=True, repr=False)
class States:
    """Final states of many series, with what they are states of; `out.states` makes them.

    `wolf.filter_many(model, ys, state=states)` goes on from them, `states[3]` is one, as `wolf.Online(state=)` takes
    it, and `wolf.Bank.from_states` gives each a key.

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

    final: Any
    model: Any
    method: Any
    dtype: Dtype = "float64"
    update_first: bool = False
    u_before: np.ndarray | None = None

    def __len__(self) -> int:
        """Count the series."""
        return len(self.final.t)

    def __getitem__(self, index: int) -> Any:
        """Give the state of one series."""
        if not isinstance(index, int | np.integer):
            raise TypeError(f"pick one state by its number, as states[0]; got {index!r}")
        return jax.tree.map(lambda leaf: np.asarray(leaf)[index], self.final)

    def __repr__(self) -> str:
        """Tell how many there are, and how large."""
        size = sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(self.final))
        return f"States: {len(self)} series, {size:,} bytes"

    def to_bytes(self) -> bytes:
        """Lay all states out as bytes: one header, then numbers; never code."""
        header = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "wolf": validate.package_version(),
            "dtype": self.dtype,
            "update_first": self.update_first,
            "method": to_dict(self.method),
        } | checkpoints.identity(self.model, self.method)
        arrays = {f"state_{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(self.final))}
        if self.u_before is not None:
            arrays["u_before"] = self.u_before
        return bytes(checkpoints.pack(header, arrays))

    @classmethod
    def from_bytes(cls, data: bytes, model: Any, method: Any = None) -> "States":
        """Take states out of what `to_bytes` gave.

        Args:
            data: the bytes.
            model: the same as it was, or a list of them; a different one is an error.
            method: needed only if it has parts from outside wolf; a different one is an error.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise ValueError(f"data must be bytes, from States.to_bytes; got {validation.short_repr(data)}")
        models = tuple(model) if isinstance(model, list | tuple) else None
        for each in models or (model,):
            validate.check_model(each)
        header, arrays = checkpoints.unpack("data", data, FORMAT, FORMAT_VERSION, HEADER)
        first = models[0] if models else model
        method = validate.resolve_method(from_dict(header["method"]) if method is None else method, first)
        given = model if models is None else models
        checkpoints.check_identity("data", header, given, method)
        structure, shapes = expected(validate.adapt_model(first, method, 0), method, header["dtype"])
        leaves = [arrays.get(f"state_{i}") for i in range(structure.num_leaves)]
        if any(leaf is None or leaf.shape[1:] != shape for leaf, shape in zip(leaves, shapes, strict=True)):
            raise ValueError("data holds states of another shape, or is damaged")
        final = jax.tree.unflatten(structure, leaves)
        return cls(final, given, method, header["dtype"], header["update_first"], arrays.get("u_before"))


def expected(suited: Any, method: Any, dtype: str) -> tuple[Any, list[tuple[int, ...]]]:
    """Say how a state of a model and method is built, and the shapes of what is in it; only traced, nothing is run."""
    with precision(dtype):
        key = as_key(0) if method.requirements.key else None
        state = jax.eval_shape(lambda one: method.init(one, key), cast(suited, dtype))
    return jax.tree.structure(state), [leaf.shape for leaf in jax.tree.leaves(state)]


def begin_at(state: Any, like: States, built: tuple[Any, Any], ys: np.ndarray, us: np.ndarray | None) -> dict[str, Any]:
    """Check what many series are to go on from.

    Args:
        state: `States`, or the final states of a run of a model and method of the same shapes.
        like: what the run is of; its own final states are not there yet.
        built: from `expected`.
        ys: measurements, (B, T, M).
        us: inputs, (T, U) or (B, T, U).

    Returns:
        `state`, a copy that nobody else writes into, `u_before`, and `inputs` in a shape that goes with it.
    """
    given = state if isinstance(state, States) else dataclasses.replace(like, final=state)
    if (given.update_first, given.dtype) != (like.update_first, like.dtype):
        how = f"update_first={given.update_first}, dtype={given.dtype!r}"
        raise ValueError(f"state is of a run with {how}; go on with the same")
    if given.model is not like.model or given.method is not like.method:
        checkpoints.check_identity("state", checkpoints.identity(given.model, given.method), like.model, like.method)
    (structure, shapes), (leaves, found) = built, jax.tree.flatten(given.final)
    if found != structure or [np.shape(leaf) for leaf in leaves] != [(len(ys), *shape) for shape in shapes]:
        wanted = f"{len(ys)} states of this model and method, as out.states of wolf.filter_many with as many series"
        raise ValueError(f"state must hold {wanted}; got {validation.short_repr(state)}")
    before = to_dtype(given.u_before, like.dtype)
    if us is not None and like.update_first:
        if before is None:
            raise ValueError("with update_first the last input counts too: go on from out.states, not from out.final")
        us = np.broadcast_to(us, (len(ys), *us.shape[-2:]))
    arrays = [np.array(leaf) for leaf in leaves]
    copied = [to_dtype(array, like.dtype) if array.dtype.kind == "f" else array for array in arrays]
    return {"state": jax.tree.unflatten(structure, copied), "u_before": before, "inputs": us}
