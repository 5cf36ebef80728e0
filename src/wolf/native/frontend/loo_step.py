"""Measurements weighed once more, by all others (`backend.reweighing`), as native code: rows that need no order."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from wolf.beliefs import Gaussian
from wolf.engine.loo_reweighting import loo_weight
from wolf.native.frontend.signature import LooSpec, Signature

BELIEFS = ("before", "after", "whole")  # predicted, filtered, smoothed


def row_shapes(kind: Signature, model: Any) -> dict[str, tuple[int, ...]]:
    """Give the shape of a row of each array that is read; what a rule knew in the end is the same in all of them."""
    assert isinstance(kind.back, LooSpec)
    size, measured = model.state_dim, model.obs_dim
    shapes: dict[str, tuple[int, ...]] = {"y": (measured,), "change": (measured,)}
    for name in BELIEFS:
        shapes |= {f"{name}_mean": (size,), f"{name}_cov": (size, size)}
    shapes |= {f"memory{i}": (int(np.prod(shape, dtype=int)),) for i, shape in enumerate(kind.back.shapes)}
    return shapes | ({} if kind.inputs is None else {"u": (kind.inputs,)})


def stepping(kind: Signature) -> Callable:
    """Make it a function of flat arguments: leaves of the model twice, a state that stays, rows."""
    size, back = len(kind.shapes), kind.back
    assert isinstance(back, LooSpec)

    def step(*flat: Any) -> Any:
        model, (moments, rule) = jax.tree.unflatten(kind.structure, flat[size : 2 * size])
        given = dict(zip(row_shapes(kind, model), flat[2 * size + 2 :], strict=True))
        leaves = [given[f"memory{i}"].reshape(shape) for i, shape in enumerate(back.shapes)]
        beliefs = tuple(Gaussian(given[f"{name}_mean"], given[f"{name}_cov"]) for name in BELIEFS)
        memory = jax.tree.unflatten(back.memory, leaves)
        root = loo_weight(model, moments, rule, memory, given["y"], beliefs, given.get("u"), given["change"])
        return Gaussian(*flat[2 * size : 2 * size + 2]), root

    return step
