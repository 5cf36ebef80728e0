"""Translation of primitives that only move entries: applied to node numbers."""

from collections.abc import Callable

import numpy as np

from wolf.native.frontend.node_arrays import Ids, UnsupportedOperationError
from wolf.numerics.jaxpr import ArrayType


def _pad(inputs: list[Ids], params: dict, out: ArrayType) -> Ids:
    ids, filler = inputs
    padded = np.full(out.shape, filler.item(), np.int64)
    config = params["padding_config"]
    if any(low < 0 or high < 0 for low, high, _ in config):
        raise UnsupportedOperationError("negative padding")
    where = tuple(
        slice(low, low + (size - 1) * (inside + 1) + 1 if size else low, inside + 1)
        for size, (low, _, inside) in zip(ids.shape, config, strict=True)
    )
    padded[where] = ids
    return padded


def _broadcast(inputs: list[Ids], params: dict, out: ArrayType) -> Ids:
    shape = [1] * len(out.shape)
    for axis, to in enumerate(params["broadcast_dimensions"]):
        shape[to] = inputs[0].shape[axis]
    return np.broadcast_to(inputs[0].reshape(shape), out.shape)


def _slice(inputs: list[Ids], params: dict, out: ArrayType) -> Ids:
    strides = params["strides"] or (1,) * inputs[0].ndim
    cuts = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return inputs[0][tuple(slice(*cut) for cut in cuts)]


SHAPE_OPS: dict[str, Callable[[list[Ids], dict, ArrayType], Ids]] = {
    "broadcast_in_dim": _broadcast,
    "reshape": lambda inputs, params, out: inputs[0].reshape(out.shape),
    "squeeze": lambda inputs, params, out: inputs[0].reshape(out.shape),
    "expand_dims": lambda inputs, params, out: inputs[0].reshape(out.shape),
    "transpose": lambda inputs, params, out: inputs[0].transpose(params["permutation"]),
    "rev": lambda inputs, params, out: np.flip(inputs[0], params["dimensions"]),
    "concatenate": lambda inputs, params, out: np.concatenate(inputs, params["dimension"]),
    "stack": lambda inputs, params, out: np.stack(inputs, params.get("axis", params.get("dimension", 0))),
    "tile": lambda inputs, params, out: np.tile(inputs[0], params["reps"]),
    "slice": _slice,
    "pad": _pad,
}
