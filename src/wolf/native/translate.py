"""From JAX's record of a function (a jaxpr) to a graph of numbers. The algebra stays where it is: in JAX.

Every array becomes an array of node numbers; moving numbers about (transpose, slice, gather with known indices) moves
node numbers, arithmetic makes nodes, loops of a known length are written out, `lax.cond` becomes a branch. What has no
place in straight-line code (random numbers, sorting, indices that depend on data, LAPACK of numbers that are not known
beforehand) is `Refused`, and the caller runs the function by XLA instead.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from wolf.native import composed
from wolf.native.graph import Graph, Kind

Ids = np.ndarray  # of node numbers, in the shape of the array that they stand for
LONGEST_LOOP = 200  # steps of a loop inside a step, written out one after the other


class Refused(Exception):
    """A function cannot be written as straight-line code; says why."""


def translate(graph: Graph, program: Any, inputs: Sequence[Ids]) -> list[Ids]:
    """Put what a program does into a graph.

    Args:
        graph: that nodes go into.
        program: a closed jaxpr.
        inputs: the nodes of its arguments.

    Returns:
        The nodes of its results.
    """
    constants = [known(graph, value) for value in program.consts]
    return _run(graph, program.jaxpr, [*constants, *inputs])


def known(graph: Graph, value: Any) -> Ids:
    """Make nodes of numbers that are known."""
    array = np.asarray(value)
    kind = kind_of(array.dtype)
    ids = [graph.constant(entry, kind) for entry in array.ravel().tolist()]
    return np.array(ids, np.int64).reshape(array.shape)


def kind_of(dtype: Any) -> Kind:
    """Say which kind of number stands for a dtype."""
    dtype = np.dtype(dtype) if not hasattr(dtype, "kind") else dtype
    if dtype.kind not in "fib":
        raise Refused(f"numbers of type {dtype}")
    return dtype.kind


def _run(graph: Graph, jaxpr: Any, arguments: Sequence[Ids]) -> list[Ids]:
    values: dict[Any, Ids] = dict(zip([*jaxpr.constvars, *jaxpr.invars], arguments, strict=True))

    def read(var: Any) -> Ids:
        return known(graph, np.asarray(var.val, var.aval.dtype)) if hasattr(var, "val") else values[var]

    for equation in jaxpr.eqns:
        results = _apply(graph, equation, [read(var) for var in equation.invars])
        values.update(zip(equation.outvars, results, strict=True))
    return [read(var) for var in jaxpr.outvars]


def _apply(graph: Graph, equation: Any, inputs: list[Ids]) -> list[Ids]:
    name, params = equation.primitive.name, equation.params
    out = equation.outvars[0].aval
    if name in INNER:
        inner = params[INNER[name]]
        inner = inner if hasattr(inner, "consts") else jax.extend.core.ClosedJaxpr(inner, ())
        return translate(graph, inner, inputs)
    if name in SAME:
        return list(inputs)
    if name in STRUCTURED:
        return STRUCTURED[name](graph, equation, inputs)
    if name in MOVED:
        return [np.asarray(MOVED[name](inputs, params, out)).reshape(out.shape)]
    if name in ELEMENTWISE:
        return [_each(partial(ELEMENTWISE[name], graph, params), inputs, out.shape)]
    if name in REDUCED:
        return [_reduce(graph, REDUCED[name], inputs[0], params["axes"], out.shape)]
    return _bound(graph, equation, inputs)


def _bound(graph: Graph, equation: Any, inputs: list[Ids]) -> list[Ids]:
    """Let JAX itself run what needs no translating, because all its numbers are known."""
    values = [_values(graph, ids, var.aval.dtype) for ids, var in zip(inputs, equation.invars, strict=True)]
    if any(value is None for value in values):
        raise Refused(f"{equation.primitive.name} has no form as straight-line code")
    results = equation.primitive.bind(*values, **equation.params)
    return [known(graph, each) for each in (results if equation.primitive.multiple_results else [results])]


def _values(graph: Graph, ids: Ids, dtype: Any) -> np.ndarray | None:
    found = [graph.value(number) for number in ids.ravel().tolist()]
    if any(value is None for value in found):
        return None
    return np.array(found, dtype).reshape(ids.shape)


def _each(make: Callable[..., int], inputs: list[Ids], shape: tuple[int, ...]) -> Ids:
    spread = [np.broadcast_to(ids, shape).ravel().tolist() for ids in inputs]
    return np.array([make(*entry) for entry in zip(*spread, strict=True)], np.int64).reshape(shape)


def _reduce(graph: Graph, op: str, ids: Ids, axes: Sequence[int], shape: tuple[int, ...]) -> Ids:
    rest = [axis for axis in range(ids.ndim) if axis not in axes]
    rows = ids.transpose(*rest, *axes).reshape(math.prod(shape), -1).tolist()
    return np.array([fold(graph, op, row) for row in rows], np.int64).reshape(shape)


def fold(graph: Graph, op: str, row: Sequence[int]) -> int:
    """Combine numbers one after the other."""
    whole = row[0]
    for each in row[1:]:
        whole = graph.apply(op, whole, each)
    return whole


# Numbers that only move -----------------------------------------------------------------------------------------


def _by_position(inputs: list[Ids], primitive: Any, params: dict, known_inputs: list[np.ndarray]) -> np.ndarray:
    """Let JAX move positions instead of values."""
    positions = np.arange(inputs[0].size, dtype=np.int32).reshape(inputs[0].shape)
    moved = np.asarray(primitive.bind(positions, *known_inputs, **params))
    return inputs[0].ravel()[moved]


def _pad(inputs: list[Ids], params: dict, out: Any) -> Ids:
    ids, filler = inputs
    padded = np.full(out.shape, filler.item(), np.int64)
    config = params["padding_config"]
    if any(low < 0 or high < 0 for low, high, _ in config):
        raise Refused("padding by less than nothing")
    where = tuple(
        slice(low, low + (size - 1) * (inside + 1) + 1 if size else low, inside + 1)
        for size, (low, _, inside) in zip(ids.shape, config, strict=True)
    )
    padded[where] = ids
    return padded


def _broadcast(inputs: list[Ids], params: dict, out: Any) -> Ids:
    shape = [1] * len(out.shape)
    for axis, to in enumerate(params["broadcast_dimensions"]):
        shape[to] = inputs[0].shape[axis]
    return np.broadcast_to(inputs[0].reshape(shape), out.shape)


def _slice(inputs: list[Ids], params: dict, out: Any) -> Ids:
    strides = params["strides"] or (1,) * inputs[0].ndim
    cuts = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return inputs[0][tuple(slice(*cut) for cut in cuts)]


MOVED: dict[str, Callable[[list[Ids], dict, Any], Ids]] = {
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

SAME = frozenset(("stop_gradient", "copy", "copy_p", "optimization_barrier", "name", "reduce_precision"))
INNER = {
    "pjit": "jaxpr",
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
}
REDUCED = {
    "reduce_sum": "add",
    "reduce_prod": "mul",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_and": "and",
    "reduce_or": "or",
    "add_any": "add",
}


# Arithmetic -----------------------------------------------------------------------------------------------------


def _plain(op: str, kind: Kind | None = None) -> Callable[..., int]:
    return lambda graph, params, *args: graph.apply(op, *args, kind=kind)


def _convert(graph: Graph, params: dict, x: int) -> int:
    new, old = kind_of(params["new_dtype"]), graph.nodes[x].kind
    return x if new == old else graph.apply(f"to_{new}", x, kind=new)


def _integer_pow(graph: Graph, params: dict, x: int) -> int:
    power, result = abs(params["y"]), None
    square = x
    while power:
        if power & 1:
            result = square if result is None else graph.apply("mul", result, square)
        power >>= 1
        square = graph.apply("mul", square, square) if power else square
    if result is None:
        return graph.constant(1, graph.nodes[x].kind)
    return graph.apply("div", graph.constant(1, "f"), result) if params["y"] < 0 else result


def _pow(graph: Graph, params: dict, x: int, power: int) -> int:
    power = power if graph.nodes[power].kind == "f" else graph.apply("to_f", power, kind="f")
    return graph.apply("pow", x, power)


def _select(graph: Graph, params: dict, which: int, *cases: int) -> int:
    if graph.nodes[which].kind == "b":
        return graph.apply("select", which, *cases)
    chosen = cases[-1]
    for number in reversed(range(len(cases) - 1)):
        here = graph.apply("le", which, graph.constant(number, "i"), kind="b")
        chosen = graph.apply("select", here, chosen, cases[number])
    return chosen


def _truth(op: str) -> Callable[..., int]:
    return _plain(op, "b")


ELEMENTWISE: dict[str, Callable[..., int]] = {
    **{op: _plain(op) for op in ("add", "sub", "mul", "div", "rem", "neg", "abs", "sqrt", "exp", "log", "max", "min")},
    **{op: _plain(op) for op in ("and", "or", "xor", "floor", "ceil", "sin", "cos", "tan", "tanh", "atan2")},
    **{op: _plain(op) for op in ("log1p", "expm1", "erf", "erfc", "lgamma", "sinh", "cosh", "asin", "acos", "atan")},
    **{op: _truth(op) for op in ("lt", "le", "gt", "ge", "eq", "ne")},
    "pow": _pow,
    "add_any": _plain("add"),
    "not": _plain("not"),
    "is_finite": _plain("finite", "b"),
    "convert_element_type": _convert,
    "integer_pow": _integer_pow,
    "square": lambda graph, params, x: graph.apply("mul", x, x),
    "select_n": _select,
    "clamp": lambda graph, params, low, x, high: graph.apply("min", graph.apply("max", x, low), high),
    "rsqrt": lambda graph, params, x: graph.apply("div", graph.constant(1, "f"), graph.apply("sqrt", x)),
    "sign": lambda graph, params, x: composed.sign(graph, x),
    "logistic": lambda graph, params, x: composed.logistic(graph, x),
    "exp2": lambda graph, params, x: graph.apply("pow", graph.constant(2, "f"), x),
    "digamma": lambda graph, params, x: composed.digamma(graph, x),
}


# What has a structure of its own ----------------------------------------------------------------------------------


def _quotient(graph: Graph, equation: Any, inputs: list[Ids]) -> list[Ids]:
    """Divide; many numbers by one are multiplied by its inverse, as XLA does it."""
    a, b = inputs
    shape = equation.outvars[0].aval.shape
    if b.size == 1 and math.prod(shape) > 1 and graph.nodes[int(b.ravel()[0])].kind == "f":
        inverse = graph.apply("div", graph.constant(1, "f"), int(b.ravel()[0]))
        return [_each(lambda x: graph.apply("mul", x, inverse), [a], shape)]
    return [_each(lambda x, y: graph.apply("div", x, y), [a, b], shape)]


def _dot(graph: Graph, equation: Any, inputs: list[Ids]) -> list[Ids]:
    (left, right), (left_batch, right_batch) = equation.params["dimension_numbers"]
    a, b = inputs
    rows = [axis for axis in range(a.ndim) if axis not in (*left, *left_batch)]
    columns = [axis for axis in range(b.ndim) if axis not in (*right, *right_batch)]
    shape = equation.outvars[0].aval.shape
    batch = math.prod(a.shape[axis] for axis in left_batch)
    inner = math.prod(a.shape[axis] for axis in left)
    a = a.transpose(*left_batch, *rows, *left).reshape(batch, -1, inner).tolist()
    b = b.transpose(*right_batch, *columns, *right).reshape(batch, -1, inner).tolist()
    ids = [_inner(graph, row, column) for i in range(batch) for row in a[i] for column in b[i]]
    return [np.array(ids, np.int64).reshape(shape)]


def _inner(graph: Graph, row: list[int], column: list[int]) -> int:
    if not row:
        return graph.constant(0, "f")
    return fold(graph, "add", [graph.apply("mul", x, y) for x, y in zip(row, column, strict=True)])


def _cond(graph: Graph, equation: Any, inputs: list[Ids]) -> list[Ids]:
    index, *operands = inputs
    branches = equation.params["branches"]
    if len(branches) != 2:
        raise Refused("a choice between more than two branches")
    which = int(index.ravel()[0])
    if graph.nodes[which].kind != "b":
        which = graph.apply("ge", which, graph.constant(1, "i"), kind="b")
    shapes = [var.aval.shape for var in equation.outvars]

    def run(branch: Any) -> list[int]:
        return [number for ids in translate(graph, branch, operands) for number in ids.ravel().tolist()]

    chosen = graph.choose(which, [partial(run, branch) for branch in branches])
    ends = np.cumsum([0, *map(math.prod, shapes)])
    return [np.array(chosen[a:b], np.int64).reshape(s) for a, b, s in zip(ends, ends[1:], shapes, strict=False)]


def _scan(graph: Graph, equation: Any, inputs: list[Ids]) -> list[Ids]:
    params = equation.params
    length, fixed, carried = params["length"], params["num_consts"], params["num_carry"]
    if length > LONGEST_LOOP:
        raise Refused(f"a loop of {length} steps inside a step")
    constants, carry, rows = inputs[:fixed], inputs[fixed : fixed + carried], inputs[fixed + carried :]
    kept: list[list[Ids]] = []
    for i in reversed(range(length)) if params["reverse"] else range(length):
        results = translate(graph, params["jaxpr"], [*constants, *carry, *(row[i] for row in rows)])
        carry = results[:carried]
        kept.append(results[carried:])
    kept = kept[::-1] if params["reverse"] else kept
    return [*carry, *(np.stack(column) for column in zip(*kept, strict=True))]


def _while(graph: Graph, equation: Any, inputs: list[Ids]) -> list[Ids]:
    params = equation.params
    a, b = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    carry = inputs[b:]
    for _ in range(LONGEST_LOOP):
        (goes_on,) = translate(graph, params["cond_jaxpr"], [*inputs[:a], *carry])
        known_end = graph.value(int(goes_on.ravel()[0]))
        if known_end is None:
            raise Refused("a loop whose length depends on the data")
        if not known_end:
            return list(carry)
        carry = translate(graph, params["body_jaxpr"], [*inputs[a:b], *carry])
    raise Refused("a long loop inside a step")


def _indexed(graph: Graph, equation: Any, inputs: list[Ids]) -> list[Ids]:
    """Gather, slice or take at indices that are known."""
    indices = [_values(graph, ids, var.aval.dtype) for ids, var in zip(inputs[1:], equation.invars[1:], strict=True)]
    if any(value is None for value in indices):
        raise Refused("an index that depends on the data")
    params = dict(equation.params)
    if params.get("fill_value", 0) is None:
        params["fill_value"] = 0
    return [_by_position(inputs, equation.primitive, params, [i for i in indices if i is not None])]


def _put(graph: Graph, equation: Any, inputs: list[Ids]) -> list[Ids]:
    """Put an array into another one at indices that are known."""
    target, new, *at = inputs
    indices = [_values(graph, ids, np.int32) for ids in at]
    if any(value is None for value in indices):
        raise Refused("an index that depends on the data")
    starts = [min(max(int(i), 0), size - n) for i, size, n in zip(indices, target.shape, new.shape, strict=True)]  # type: ignore[arg-type]
    result = np.array(target)
    result[tuple(slice(i, i + n) for i, n in zip(starts, new.shape, strict=True))] = new
    return [result]


def _scatter(graph: Graph, equation: Any, inputs: list[Ids]) -> list[Ids]:
    """Write to, or add to, entries at indices that are known."""
    target, indices, updates = inputs
    where = _values(graph, indices, np.int32)
    if where is None:
        raise Refused("an index that depends on the data")
    name = equation.primitive.name
    # Let JAX say which update lands where: one update after the other, marked by its number.
    marks = np.arange(1, updates.size + 1, dtype=np.float32).reshape(updates.shape)
    result = np.array(target).ravel()
    for number, entry in enumerate(updates.ravel().tolist(), 1):
        alone = np.where(marks == number, 1.0, 0.0).astype(np.float32)
        landed = np.asarray(jax.lax.scatter_add_p.bind(np.zeros(target.shape, np.float32), where, alone, **_adding(equation)))
        for place in np.flatnonzero(landed):
            result[place] = entry if name == "scatter" else graph.apply("add", int(result[place]), entry)
    return [result.reshape(target.shape)]


def _adding(equation: Any) -> dict:
    program = jax.make_jaxpr(lambda x, i, u: x.at[i].add(u))(np.zeros(2, np.float32), 0, np.float32(1))
    like = next(e for e in program.jaxpr.eqns if e.primitive.name == "scatter-add" or e.primitive.name == "scatter_add")
    own = ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode")
    return {**like.params, **{name: equation.params[name] for name in own}}


def _several(graph: Graph, equation: Any, inputs: list[Ids]) -> list[Ids]:
    """Cut one array into several."""
    params, (ids,) = equation.params, inputs
    axis = params.get("axis", 0)
    if equation.primitive.name == "unstack":
        return [np.take(ids, i, axis) for i in range(ids.shape[axis])]
    return np.split(ids, np.cumsum(params["sizes"])[:-1], axis)


def _iota(graph: Graph, equation: Any, inputs: list[Ids]) -> list[Ids]:
    out, along = equation.outvars[0].aval, equation.params["dimension"]
    shape = [1] * len(out.shape)
    shape[along] = out.shape[along]
    return [known(graph, np.broadcast_to(np.arange(out.shape[along], dtype=out.dtype).reshape(shape), out.shape))]


def _cumulative(op: str, graph: Graph, equation: Any, inputs: list[Ids]) -> list[Ids]:
    ids, axis = inputs[0], equation.params["axis"]
    rows = np.moveaxis(ids, axis, -1).copy()
    rows = rows[..., ::-1] if equation.params["reverse"] else rows
    for row in rows.reshape(-1, rows.shape[-1]) if rows.size else ():
        for k in range(1, len(row)):
            row[k] = graph.apply(op, int(row[k - 1]), int(row[k]))
    rows = rows[..., ::-1] if equation.params["reverse"] else rows
    return [np.moveaxis(rows, -1, axis)]


def _cholesky(graph: Graph, equation: Any, inputs: list[Ids]) -> list[Ids]:
    return [composed.per_matrix(partial(composed.cholesky, graph), inputs[0])]


def _triangular(graph: Graph, equation: Any, inputs: list[Ids]) -> list[Ids]:
    return [composed.triangular_solve(graph, inputs[0], inputs[1], equation.params)]


def _platform(graph: Graph, equation: Any, inputs: list[Ids]) -> list[Ids]:
    """Say which of the platforms it is: the processor."""
    platforms = equation.params["platforms"]
    index = next((i for i, names in enumerate(platforms) if names is None or "cpu" in names), 0)
    return [known(graph, np.int32(index))]


STRUCTURED: dict[str, Callable[[Graph, Any, list[Ids]], list[Ids]]] = {
    "div": _quotient,
    "dot_general": _dot,
    "cond": _cond,
    "scan": _scan,
    "while": _while,
    "gather": _indexed,
    "dynamic_slice": _indexed,
    "dynamic_update_slice": _put,
    "scatter": _scatter,
    "scatter_add": _scatter,
    "scatter-add": _scatter,
    "split": _several,
    "unstack": _several,
    "iota": _iota,
    "cumsum": partial(_cumulative, "add"),
    "cumprod": partial(_cumulative, "mul"),
    "cummax": partial(_cumulative, "max"),
    "cummin": partial(_cumulative, "min"),
    "cholesky": _cholesky,
    "triangular_solve": _triangular,
    "platform_index": _platform,
}
