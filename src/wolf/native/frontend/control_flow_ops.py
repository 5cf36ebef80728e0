"""Translation of structured primitives: products, branches, loops, indexing."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from wolf.native.frontend import matrix_ops
from wolf.native.frontend.node_arrays import (
    Ids,
    TranslateInner,
    UnsupportedOperationError,
    constants,
    each,
    fold,
    values_of,
)
from wolf.native.ir.graph import Graph
from wolf.native.kernels import matmul
from wolf.numerics.jaxpr import ClosedJaxpr, Equation

MAX_CHOICES = 32  # entries among which an index that depends on the data chooses, and that a sort exchanges
MAX_LOOP_ITERATIONS = 200  # iterations of a loop translate_inner a step, which is unrolled


def _by_position(inputs: list[Ids], primitive: Any, params: dict, known_inputs: list[np.ndarray]) -> np.ndarray:
    """Move node numbers as JAX moves values: the primitive is applied to an array of positions."""
    positions = np.arange(inputs[0].size, dtype=np.int32).reshape(inputs[0].shape)
    moved = np.asarray(primitive.bind(positions, *known_inputs, **params))
    return inputs[0].ravel()[moved]


def _quotient(graph: Graph, equation: Equation, inputs: list[Ids], translate_inner: TranslateInner) -> list[Ids]:
    """Divide; an array divided by a scalar is multiplied by its inverse, as in XLA."""
    a, b = inputs
    shape = equation.outvars[0].aval.shape
    if b.size == 1 and math.prod(shape) > 1 and graph.nodes[int(b.ravel()[0])].kind == "f":
        inverse = graph.apply("div", graph.constant(1, "f"), int(b.ravel()[0]))
        return [each(lambda x: graph.apply("mul", x, inverse), [a], shape)]
    return [each(lambda x, y: graph.apply("div", x, y), [a, b], shape)]


def _dot(graph: Graph, equation: Equation, inputs: list[Ids], translate_inner: TranslateInner) -> list[Ids]:
    (left, right), (left_batch, right_batch) = equation.params["dimension_numbers"]
    a, b = inputs
    rows = [axis for axis in range(a.ndim) if axis not in (*left, *left_batch)]
    columns = [axis for axis in range(b.ndim) if axis not in (*right, *right_batch)]
    shape = equation.outvars[0].aval.shape
    batch = math.prod(a.shape[axis] for axis in left_batch)
    inner = math.prod(a.shape[axis] for axis in left)
    lefts = a.transpose(*left_batch, *rows, *left).reshape(batch, -1, inner)
    rights = b.transpose(*right_batch, *columns, *right).reshape(batch, -1, inner)
    return [np.array([_product(graph, x, y) for x, y in zip(lefts, rights, strict=True)], np.int64).reshape(shape)]


def _product(graph: Graph, a: Ids, b: Ids) -> Ids:
    """Multiply a matrix by a transposed one; a vector is multiplied as a row, whose entries are contiguous."""
    if len(b) == 1 < len(a):
        return _product(graph, b, a).T
    if matmul.is_faster(graph, a, b.T, "product"):
        return graph.dense(matmul.Dense("product", len(a), a.shape[1], len(b)), a, b.T)
    ids = [_inner(graph, row, column) for row in a.tolist() for column in b.tolist()]
    return np.array(ids, np.int64).reshape(len(a), len(b))


def _inner(graph: Graph, row: list[int], column: list[int]) -> int:
    if not row:
        return graph.constant(0, "f")
    return fold(graph, "add", [graph.apply("mul", x, y) for x, y in zip(row, column, strict=True)])


def _cond(graph: Graph, equation: Equation, inputs: list[Ids], translate_inner: TranslateInner) -> list[Ids]:
    index, *operands = inputs
    branches = equation.params["branches"]
    which = int(index.ravel()[0])
    shapes = [var.aval.shape for var in equation.outvars]

    def run(branch: ClosedJaxpr) -> list[int]:
        return [number for ids in translate_inner(graph, branch, operands) for number in ids.ravel().tolist()]

    def choose(first: int) -> list[int]:
        if first == len(branches) - 1:
            return run(branches[first])
        is_later = which
        if graph.nodes[which].kind != "b":
            is_later = graph.apply("ge", which, graph.constant(first + 1, "i"), kind="b")
        return graph.choose(is_later, [partial(run, branches[first]), partial(choose, first + 1)])

    chosen = choose(0)
    ends = np.cumsum([0, *map(math.prod, shapes)])
    return [np.array(chosen[a:b], np.int64).reshape(s) for a, b, s in zip(ends, ends[1:], shapes, strict=False)]


def _scan(graph: Graph, equation: Equation, inputs: list[Ids], translate_inner: TranslateInner) -> list[Ids]:
    params = equation.params
    length, fixed, carried = params["length"], params["num_consts"], params["num_carry"]
    if length > MAX_LOOP_ITERATIONS:
        raise UnsupportedOperationError(f"a loop of {length} steps translate_inner a step")
    constants, carry, rows = inputs[:fixed], inputs[fixed : fixed + carried], inputs[fixed + carried :]
    kept: list[list[Ids]] = []
    for i in reversed(range(length)) if params["reverse"] else range(length):
        results = translate_inner(graph, params["jaxpr"], [*constants, *carry, *(row[i] for row in rows)])
        carry = results[:carried]
        kept.append(results[carried:])
    kept = kept[::-1] if params["reverse"] else kept
    return [*carry, *(np.stack(column) for column in zip(*kept, strict=True))]


def _while(graph: Graph, equation: Equation, inputs: list[Ids], translate_inner: TranslateInner) -> list[Ids]:
    params = equation.params
    a, b = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    carry = inputs[b:]
    for _ in range(MAX_LOOP_ITERATIONS):
        (continues,) = translate_inner(graph, params["cond_jaxpr"], [*inputs[:a], *carry])
        continues_value = graph.value(int(continues.ravel()[0]))
        if continues_value is None:
            raise UnsupportedOperationError("a loop whose length depends on the data")
        if not continues_value:
            return list(carry)
        carry = translate_inner(graph, params["body_jaxpr"], [*inputs[a:b], *carry])
    raise UnsupportedOperationError("a long loop translate_inner a step")


def _indexed(graph: Graph, equation: Equation, inputs: list[Ids], translate_inner: TranslateInner) -> list[Ids]:
    """Gather, slice or take."""
    indices = [values_of(graph, ids, var.aval.dtype) for ids, var in zip(inputs[1:], equation.invars[1:], strict=True)]
    params = dict(equation.params)
    if params.get("fill_value", 0) is None:
        params["fill_value"] = 0
    if any(value is None for value in indices):
        return [_chosen(graph, equation, inputs, params)]
    return [_by_position(inputs, equation.primitive, params, [i for i in indices if i is not None])]


def _chosen(graph: Graph, equation: Equation, inputs: list[Ids], params: dict) -> Ids:
    """Gather along one axis at indices that depend on the data: choose among all entries by comparisons."""
    numbers, mode = params.get("dimension_numbers"), params.get("mode")
    if equation.primitive.name != "gather" or inputs[1].shape[-1:] != (1,):
        raise UnsupportedOperationError("an index that depends on the data")
    (axis,) = numbers.start_index_map  # type: ignore[union-attr]
    count, shape = inputs[0].shape[axis] - params["slice_sizes"][axis] + 1, equation.outvars[0].aval.shape
    if count > MAX_CHOICES or mode not in (jax.lax.GatherScatterMode.CLIP, jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS):
        raise UnsupportedOperationError("an index that depends on the data")
    batch = [1 if dim in numbers.offset_dims else size for dim, size in enumerate(shape)]  # type: ignore[union-attr]
    which = inputs[1][..., 0].reshape(batch)

    def entries(index: int) -> Ids:
        return _by_position(inputs, equation.primitive, params, [np.full(inputs[1].shape, index, np.int32)])

    found = entries(count - 1)
    for index in reversed(range(count - 1)):
        place = graph.constant(index, "i")
        reached = each(lambda number, place=place: graph.apply("le", number, place, kind="b"), [which], which.shape)
        found = each(partial(graph.apply, "select"), [reached, found, entries(index)], shape)
    return found


def _update_slice(graph: Graph, equation: Equation, inputs: list[Ids], translate_inner: TranslateInner) -> list[Ids]:
    """Write an array into another one at constant indices."""
    target, new, *at = inputs
    indices = [values_of(graph, ids, np.int32) for ids in at]
    if any(value is None for value in indices):
        raise UnsupportedOperationError("an index that depends on the data")
    starts = [min(max(int(i), 0), size - n) for i, size, n in zip(indices, target.shape, new.shape, strict=True)]  # type: ignore[arg-type]
    result = np.array(target)
    result[tuple(slice(i, i + n) for i, n in zip(starts, new.shape, strict=True))] = new
    return [result]


def _scatter(graph: Graph, equation: Equation, inputs: list[Ids], translate_inner: TranslateInner) -> list[Ids]:
    """Write to, or add to, entries at constant indices."""
    target, indices, updates = inputs
    where = values_of(graph, indices, np.int32)
    if where is None:
        raise UnsupportedOperationError("an index that depends on the data")
    name = equation.primitive.name
    # JAX determines which update affects which entry: updates are applied one by one, marked by their number.
    marks = np.arange(1, updates.size + 1, dtype=np.float32).reshape(updates.shape)
    result = np.array(target).ravel()
    for number, entry in enumerate(updates.ravel().tolist(), 1):
        alone = np.where(marks == number, 1.0, 0.0).astype(np.float32)
        landed = np.asarray(
            jax.lax.scatter_add_p.bind(np.zeros(target.shape, np.float32), where, alone, **_adding(equation))
        )
        for place in np.flatnonzero(landed):
            result[place] = entry if name == "scatter" else graph.apply("add", int(result[place]), entry)
    return [result.reshape(target.shape)]


def _adding(equation: Equation) -> dict:
    program = jax.make_jaxpr(lambda x, i, u: x.at[i].add(u))(np.zeros(2, np.float32), 0, np.float32(1))
    like = next(e for e in program.jaxpr.eqns if e.primitive.name == "scatter-add" or e.primitive.name == "scatter_add")
    own = ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode")
    return {**like.params, **{name: equation.params[name] for name in own}}


def _split(graph: Graph, equation: Equation, inputs: list[Ids], translate_inner: TranslateInner) -> list[Ids]:
    """Split one array into several."""
    params, (ids,) = equation.params, inputs
    axis = params.get("axis", 0)
    if equation.primitive.name == "unstack":
        return [np.take(ids, i, axis) for i in range(ids.shape[axis])]
    return np.split(ids, np.cumsum(params["sizes"])[:-1], axis)


def _iota(graph: Graph, equation: Equation, inputs: list[Ids], translate_inner: TranslateInner) -> list[Ids]:
    out, along = equation.outvars[0].aval, equation.params["dimension"]
    shape = [1] * len(out.shape)
    shape[along] = out.shape[along]
    return [constants(graph, np.broadcast_to(np.arange(out.shape[along], dtype=out.dtype).reshape(shape), out.shape))]


def _cumulative(
    op: str, graph: Graph, equation: Equation, inputs: list[Ids], translate_inner: TranslateInner
) -> list[Ids]:
    ids, axis = inputs[0], equation.params["axis"]
    rows = np.moveaxis(ids, axis, -1).copy()
    rows = rows[..., ::-1] if equation.params["reverse"] else rows
    for row in rows.reshape(-1, rows.shape[-1]) if rows.size else ():
        for k in range(1, len(row)):
            row[k] = graph.apply(op, int(row[k - 1]), int(row[k]))
    rows = rows[..., ::-1] if equation.params["reverse"] else rows
    return [np.moveaxis(rows, -1, axis)]


def _sort(graph: Graph, equation: Equation, inputs: list[Ids], translate_inner: TranslateInner) -> list[Ids]:
    if equation.params["num_keys"] > 1 or inputs[0].shape[equation.params["dimension"]] > MAX_CHOICES:
        raise UnsupportedOperationError(f"a sort of more than {MAX_CHOICES} numbers")
    return matrix_ops.translate_sort(graph, equation, inputs, translate_inner)


def _first_extreme(
    beyond: str, graph: Graph, equation: Equation, inputs: list[Ids], translate_inner: TranslateInner
) -> list[Ids]:
    """Find the index of the first largest or smallest entry; NaN counts as beyond all numbers."""
    (axis,), shape = equation.params["axes"], equation.outvars[0].aval.shape
    rows, found = np.moveaxis(inputs[0], axis, -1), []
    for row in rows.reshape(-1, rows.shape[-1]).tolist():
        extreme, where = row[0], graph.constant(0, "i")
        for index, number in enumerate(row[1:], 1):
            known = graph.apply("eq", extreme, extreme, kind="b")
            missing = graph.apply("ne", number, number, kind="b")
            further = graph.apply("or", graph.apply(beyond, number, extreme, kind="b"), missing, kind="b")
            further = graph.apply("and", known, further, kind="b")
            extreme = graph.apply("select", further, extreme, number)
            where = graph.apply("select", further, where, graph.constant(index, "i"))
        found.append(where)
    return [np.array(found, np.int64).reshape(shape)]


def _platform(graph: Graph, equation: Equation, inputs: list[Ids], translate_inner: TranslateInner) -> list[Ids]:
    """Choose the branch of the CPU among platforms."""
    platforms = equation.params["platforms"]
    index = next((i for i, names in enumerate(platforms) if names is None or "cpu" in names), 0)
    return [constants(graph, np.int32(index))]


STRUCTURED_OPS: dict[str, Callable[[Graph, Equation, list[Ids], TranslateInner], list[Ids]]] = {
    "div": _quotient,
    "dot_general": _dot,
    "cond": _cond,
    "scan": _scan,
    "while": _while,
    "gather": _indexed,
    "dynamic_slice": _indexed,
    "dynamic_update_slice": _update_slice,
    "scatter": _scatter,
    "scatter_add": _scatter,
    "scatter-add": _scatter,
    "split": _split,
    "unstack": _split,
    "iota": _iota,
    "cumsum": partial(_cumulative, "add"),
    "cumprod": partial(_cumulative, "mul"),
    "cummax": partial(_cumulative, "max"),
    "cummin": partial(_cumulative, "min"),
    "cholesky": matrix_ops.translate_cholesky,
    "triangular_solve": matrix_ops.translate_triangular,
    "lu": matrix_ops.translate_lu,
    "lu_pivots_to_permutation": matrix_ops.translate_permutation,
    "custom_linear_solve": matrix_ops.translate_linear_solve,
    "sort": _sort,
    "argmax": partial(_first_extreme, "gt"),
    "argmin": partial(_first_extreme, "lt"),
    "platform_index": _platform,
}
