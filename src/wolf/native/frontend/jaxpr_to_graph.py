"""From JAX's record of a function (a jaxpr) to a graph of numbers. The algebra stays where it is: in JAX.

Every array becomes an array of node numbers; moving numbers about (transpose, slice, gather with known indices) moves
node numbers, arithmetic makes nodes, loops of a known length are written out, `lax.cond` becomes a branch. What has no
place in straight-line code (random numbers, sorting, indices that depend on data, LAPACK of numbers that are not known
beforehand) is `UnsupportedOperationError`, and the caller runs the function by XLA instead.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from wolf.native.frontend.arithmetic_ops import ELEMENTWISE
from wolf.native.frontend.control_flow_ops import STRUCTURED
from wolf.native.frontend.node_arrays import Ids, UnsupportedOperationError, each, known, reduce, values_of
from wolf.native.frontend.shape_ops import MOVED
from wolf.native.ir.graph import Graph
from wolf.native.kernels import shifted_inverse_loops as _registered  # noqa: F401
from wolf.native.kernels.registry import translation_of
from wolf.numerics.jax_compat import enable_x64
from wolf.numerics.native_kernel import kernel_key

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
        key = kernel_key(params.get("name"))
        results = None if key is None else translation_of(key)(graph, inputs)
        if results is not None:
            return results
        inner = params[INNER[name]]
        return translate(graph, inner, inputs) if hasattr(inner, "consts") else _run(graph, inner, inputs)
    if name in SAME:
        return list(inputs)
    if name in STRUCTURED:
        return STRUCTURED[name](graph, equation, inputs, translate)
    if any(ids.size and graph.nodes[int(ids.flat[0])].kind == "m" for ids in inputs):
        raise UnsupportedOperationError(f"{name} of numbers that a loop keeps to itself")
    if name in MOVED:
        return [np.asarray(MOVED[name](inputs, params, out)).reshape(out.shape)]
    if name in ELEMENTWISE:
        return [each(partial(ELEMENTWISE[name], graph, params), inputs, out.shape)]
    if name in REDUCED:
        return [reduce(graph, REDUCED[name], inputs[0], params["axes"], out.shape)]
    return _bound(graph, equation, inputs)


def _bound(graph: Graph, equation: Any, inputs: list[Ids]) -> list[Ids]:
    """Let JAX itself run what needs no translating, because all its numbers are known."""
    values = [values_of(graph, ids, var.aval.dtype) for ids, var in zip(inputs, equation.invars, strict=True)]
    if any(value is None for value in values):
        raise UnsupportedOperationError(f"{equation.primitive.name} has no form as straight-line code")
    with enable_x64(True):  # an older JAX would cut what it is given to float32
        results = equation.primitive.bind(*values, **equation.params)
    return [known(graph, one) for one in (results if equation.primitive.multiple_results else [results])]
