"""Translation of a jaxpr to a graph of scalar operations. The algebra itself is written once, in JAX.

Every array becomes an array of node numbers. Primitives that move entries (transpose, slice, gather with constant
indices) move node numbers, arithmetic creates nodes, loops of constant length are unrolled, `lax.cond` becomes a
branch. Primitives without a form as straight-line code (random numbers, sorting, data-dependent indices, LAPACK of
unknown numbers) raise `UnsupportedOperationError`, and the caller runs the function by XLA instead.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from wolf.native.frontend.arithmetic_ops import ELEMENTWISE_OPS
from wolf.native.frontend.control_flow_ops import STRUCTURED_OPS
from wolf.native.frontend.node_arrays import Ids, UnsupportedOperationError, constants, each, reduce, values_of
from wolf.native.frontend.shape_ops import SHAPE_OPS
from wolf.native.ir.graph import Graph
from wolf.native.kernels import shifted_inverse_loops as _registered  # noqa: F401
from wolf.native.kernels.registry import translation_of
from wolf.numerics.jax_compat import enable_x64
from wolf.numerics.jaxpr import ClosedJaxpr, Equation, Jaxpr, Variable, is_closed, literal_value
from wolf.numerics.native_kernel import kernel_key

IDENTITIES = frozenset(("stop_gradient", "copy", "copy_p", "optimization_barrier", "name", "reduce_precision"))
INNER_PROGRAM_PARAMS = {
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
REDUCTIONS = {
    "reduce_sum": "add",
    "reduce_prod": "mul",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_and": "and",
    "reduce_or": "or",
    "add_any": "add",
}


def translate(graph: Graph, program: ClosedJaxpr, inputs: Sequence[Ids]) -> list[Ids]:
    """Add a program to a graph.

    Args:
        graph: the graph to extend.
        program: a closed jaxpr.
        inputs: node numbers of the arguments.

    Returns:
        The node numbers of the results.
    """
    literals = [constants(graph, value) for value in program.consts]
    return _run(graph, program.jaxpr, [*literals, *inputs])


def _run(graph: Graph, jaxpr: Jaxpr, arguments: Sequence[Ids]) -> list[Ids]:
    values: dict[Variable, Ids] = dict(zip([*jaxpr.constvars, *jaxpr.invars], arguments, strict=True))

    def read(var: Variable) -> Ids:
        literal = literal_value(var)
        return values[var] if literal is None else constants(graph, literal)

    for equation in jaxpr.eqns:
        results = _apply(graph, equation, [read(var) for var in equation.invars])
        values.update(zip(equation.outvars, results, strict=True))
    return [read(var) for var in jaxpr.outvars]


def _apply(graph: Graph, equation: Equation, inputs: list[Ids]) -> list[Ids]:
    name, params = equation.primitive.name, equation.params
    if not equation.outvars:  # an empty function: nothing to compute
        return []
    out = equation.outvars[0].aval
    if name in INNER_PROGRAM_PARAMS:
        key = kernel_key(params.get("name"))
        results = None if key is None else translation_of(key)(graph, inputs)
        if results is not None:
            return results
        inner = params[INNER_PROGRAM_PARAMS[name]]  # closed or open, according to the version of JAX
        return translate(graph, inner, inputs) if is_closed(inner) else _run(graph, inner, inputs)
    if name in IDENTITIES:
        return list(inputs)
    if name in STRUCTURED_OPS:
        return STRUCTURED_OPS[name](graph, equation, inputs, translate)
    if any(ids.size and graph.nodes[int(ids.flat[0])].kind == "m" for ids in inputs):
        raise UnsupportedOperationError(f"{name} of the inner values of a kernel")
    if name in SHAPE_OPS:
        return [np.asarray(SHAPE_OPS[name](inputs, params, out)).reshape(out.shape)]
    if name in ELEMENTWISE_OPS:
        return [each(partial(ELEMENTWISE_OPS[name], graph, params), inputs, out.shape)]
    if name in REDUCTIONS:
        return [reduce(graph, REDUCTIONS[name], inputs[0], params["axes"], out.shape)]
    return _evaluate(graph, equation, inputs)


def _evaluate(graph: Graph, equation: Equation, inputs: list[Ids]) -> list[Ids]:
    """Evaluate a primitive by JAX, where all its arguments are constants."""
    values = [values_of(graph, ids, var.aval.dtype) for ids, var in zip(inputs, equation.invars, strict=True)]
    if any(value is None for value in values):
        raise UnsupportedOperationError(f"{equation.primitive.name} has no form as straight-line code")
    with enable_x64(True):  # an older JAX would cut the arguments to float32
        results = equation.primitive.bind(*values, **equation.params)
    return [constants(graph, one) for one in (results if equation.primitive.multiple_results else [results])]
