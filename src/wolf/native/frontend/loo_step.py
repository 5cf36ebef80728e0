"""Leave-one-out reweighting of one measurement (`wolf.engine.loo_reweighting`) as native code; rows are independent."""

from collections.abc import Callable

import jax
import numpy as np
from jax import Array

from wolf.beliefs import Gaussian
from wolf.engine.loo_reweighting import loo_weight
from wolf.native.frontend.signature import LooSpec, Signature
from wolf.numerics.pytree import PyTree
from wolf.statespace import Model

BELIEFS = ("before", "after", "whole")  # predicted, filtered, smoothed


def row_shapes(signature: Signature, model: Model) -> dict[str, tuple[int, ...]]:
    """Return the shape of a row of each array that is read; the final memory of the noise model is the same in all."""
    assert isinstance(signature.back, LooSpec)
    size, measured = model.state_dim, model.obs_dim
    shapes: dict[str, tuple[int, ...]] = {"y": (measured,), "change": (measured,)}
    for name in BELIEFS:
        shapes |= {f"{name}_mean": (size,), f"{name}_cov": (size, size)}
    shapes |= {f"memory{i}": (int(np.prod(shape, dtype=int)),) for i, shape in enumerate(signature.back.shapes)}
    return shapes | ({} if signature.inputs is None else {"u": (signature.inputs,)})


def make_step(signature: Signature) -> Callable:
    """Make the function to trace, of flat arguments: leaves of the model twice, an unchanged state, rows."""
    size, back = len(signature.shapes), signature.back
    assert isinstance(back, LooSpec)

    def step(*flat: Array) -> tuple[Gaussian, PyTree]:
        model, (moments, rule) = jax.tree.unflatten(signature.structure, flat[size : 2 * size])
        given = dict(zip(row_shapes(signature, model), flat[2 * size + 2 :], strict=True))
        leaves = [given[f"memory{i}"].reshape(shape) for i, shape in enumerate(back.shapes)]
        beliefs = tuple(Gaussian(given[f"{name}_mean"], given[f"{name}_cov"]) for name in BELIEFS)
        memory = jax.tree.unflatten(back.memory, leaves)
        root = loo_weight(model, moments, rule, memory, given["y"], beliefs, given.get("u"), given["change"])
        return Gaussian(*flat[2 * size : 2 * size + 2]), root

    return step
