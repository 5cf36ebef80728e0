"""One step of the smoother as native code, from the belief of the next step to that of this one."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from wolf.beliefs import Gaussian
from wolf.engine.smoother import step_back
from wolf.native.frontend.signature import Signature, SmootherSpec
from wolf.numerics.pytree import PyTree
from wolf.statespace import Model


def row_shapes(signature: Signature, model: Model) -> dict[str, tuple[int, ...]]:
    """Return the shape of a row of each array that a smoother step reads."""
    assert isinstance(signature.back, SmootherSpec)
    size = model.state_dim
    shapes: dict[str, tuple[int, ...]] = {"mean": (size,), "cov": (size, size)}
    shapes |= {"ahead_mean": (size,), "ahead_cov": (size, size)}
    shapes |= {} if signature.inputs is None else {"u": (signature.inputs,)}
    shapes |= {"scale": ()} if signature.back.scaled else {}
    return shapes | ({"continues": ()} if signature.back.ragged else {})


def make_step(signature: Signature) -> Callable:
    """Make the function to trace, of flat arguments: leaves of the model twice, the later belief, rows."""
    size = len(signature.shapes)

    def step(*flat: Array) -> tuple[Gaussian, PyTree]:
        model, moments = jax.tree.unflatten(signature.structure, flat[:size])
        later = Gaussian(*flat[2 * size : 2 * size + 2])
        given = dict(zip(row_shapes(signature, model), flat[2 * size + 2 :], strict=True))
        here = Gaussian(given["mean"], given["cov"])
        ahead = Gaussian(given["ahead_mean"], given["ahead_cov"])
        smoothed, _ = step_back(model, moments, here, ahead, later, given.get("u"), given.get("scale"))
        if isinstance(signature.back, SmootherSpec) and signature.back.ragged:
            smoothed = jax.tree.map(lambda new, old: jnp.where(given["continues"] > 0, new, old), smoothed, here)
        return smoothed, smoothed

    return step
