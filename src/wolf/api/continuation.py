"""Checks of the states from which `wolf.filter_many` continues."""

import dataclasses
from typing import Any

import jax
import numpy as np

from wolf import validation
from wolf.numerics.precision import to_dtype
from wolf.numerics.pytree import PyTree
from wolf.results import States
from wolf.runtime import checkpoints


def check_start(
    state: PyTree, like: States, structure: tuple[PyTree, PyTree], ys: np.ndarray, us: np.ndarray | None
) -> dict[str, Any]:
    """Check the states that many series continue from.

    Args:
        state: `States`, or the final states of a run of a model and method of the same shapes.
        like: model, method and options of the run; its final states are not known yet.
        structure: from `state_structure`.
        ys: measurements, (B, T, M).
        us: inputs, (T, U) or (B, T, U).

    Returns:
        `state` as a copy, `u_before`, and `inputs` with a series axis where `u_before` has one.
    """
    given = state if isinstance(state, States) else dataclasses.replace(like, final=state)
    if (given.update_first, given.dtype) != (like.update_first, like.dtype):
        how = f"update_first={given.update_first}, dtype={given.dtype!r}"
        raise ValueError(f"state is of a run with {how}; continue with the same")
    if given.model is not like.model or given.method is not like.method:
        checkpoints.check_identity("state", checkpoints.identity(given.model, given.method), like.model, like.method)
    (tree, shapes), (leaves, found) = structure, jax.tree.flatten(given.final)
    if found != tree or [np.shape(leaf) for leaf in leaves] != [(len(ys), *shape) for shape in shapes]:
        wanted = f"{len(ys)} states of this model and method, as out.states of wolf.filter_many with as many series"
        raise ValueError(f"state must hold {wanted}; got {validation.short_repr(state)}")
    before = to_dtype(given.u_before, like.dtype)
    if us is not None and like.update_first:
        if before is None:
            raise ValueError(
                "with update_first the last input is needed too: continue from out.states, not from out.final"
            )
        us = np.broadcast_to(us, (len(ys), *us.shape[-2:]))
    arrays = [np.array(leaf) for leaf in leaves]
    copied = [to_dtype(array, like.dtype) if array.dtype.kind == "f" else array for array in arrays]
    return {"state": jax.tree.unflatten(tree, copied), "u_before": before, "inputs": us}
