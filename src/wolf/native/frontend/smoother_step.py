"""A step of the smoother, from one belief to the one before it, as native code; and series walked back through."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from wolf.beliefs import Gaussian
from wolf.engine.smoother import step_back
from wolf.native.frontend.signature import Signature, SmootherSpec


def row_shapes(kind: Signature, model: Any) -> dict[str, tuple[int, ...]]:
    """Give the shape of a row of each array that a step backward reads."""
    assert isinstance(kind.back, SmootherSpec)
    size = model.state_dim
    shapes: dict[str, tuple[int, ...]] = {"mean": (size,), "cov": (size, size)}
    shapes |= {"ahead_mean": (size,), "ahead_cov": (size, size)}
    shapes |= {} if kind.inputs is None else {"u": (kind.inputs,)}
    shapes |= {"scale": ()} if kind.back.scaled else {}
    return shapes | ({"goes_on": ()} if kind.back.ragged else {})


def stepping(kind: Signature) -> Callable:
    """Make the step as a function of flat arguments: leaves of the model twice, the later belief, rows."""
    size = len(kind.shapes)

    def step(*flat: Any) -> Any:
        model, moments = jax.tree.unflatten(kind.structure, flat[:size])
        later = Gaussian(*flat[2 * size : 2 * size + 2])
        given = dict(zip(row_shapes(kind, model), flat[2 * size + 2 :], strict=True))
        here = Gaussian(given["mean"], given["cov"])
        ahead = Gaussian(given["ahead_mean"], given["ahead_cov"])
        smoothed, _ = step_back(model, moments, here, ahead, later, given.get("u"), given.get("scale"))
        if isinstance(kind.back, SmootherSpec) and kind.back.ragged:
            smoothed = jax.tree.map(lambda new, old: jnp.where(given["goes_on"] > 0, new, old), smoothed, here)
        return smoothed, smoothed

    return step
