"""Translation of elementwise primitives."""

from collections.abc import Callable

from wolf.native.frontend import derived_ops
from wolf.native.frontend.node_arrays import number_kind
from wolf.native.ir.graph import Graph, Kind


def _same_op(op: str, kind: Kind | None = None) -> Callable[..., int]:
    return lambda graph, params, *args: graph.apply(op, *args, kind=kind)


def _convert(graph: Graph, params: dict, x: int) -> int:
    new, old = number_kind(params["new_dtype"]), graph.nodes[x].kind
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


def _comparison(op: str) -> Callable[..., int]:
    return _same_op(op, "b")


def _less_in_total_order(graph: Graph, params: dict, a: int, b: int) -> int:
    """Compare numbers of a sorted array, where NaN is the largest; JAX makes all zeros positive before."""
    less = graph.apply("lt", a, b, kind="b")
    if graph.nodes[a].kind != "f":
        return less
    only_b_is_nan = graph.apply("and", graph.apply("ne", b, b, kind="b"), graph.apply("eq", a, a, kind="b"))
    return graph.apply("or", less, only_b_is_nan)


def _less_or_equal_in_total_order(graph: Graph, params: dict, a: int, b: int) -> int:
    return graph.apply("not", _less_in_total_order(graph, params, b, a))


ELEMENTWISE_OPS: dict[str, Callable[..., int]] = {
    **{
        op: _same_op(op) for op in ("add", "sub", "mul", "div", "rem", "neg", "abs", "sqrt", "exp", "log", "max", "min")
    },
    **{op: _same_op(op) for op in ("and", "or", "xor", "floor", "ceil", "sin", "cos", "tan", "tanh", "atan2")},
    **{op: _same_op(op) for op in ("log1p", "expm1", "erf", "erfc", "lgamma", "sinh", "cosh", "asin", "acos", "atan")},
    **{op: _comparison(op) for op in ("lt", "le", "gt", "ge", "eq", "ne")},
    "lt_to": _less_in_total_order,
    "le_to": _less_or_equal_in_total_order,
    "pow": _pow,
    "add_any": _same_op("add"),
    "not": _same_op("not"),
    "is_finite": _same_op("finite", "b"),
    "convert_element_type": _convert,
    "integer_pow": _integer_pow,
    "square": lambda graph, params, x: graph.apply("mul", x, x),
    "select_n": _select,
    "clamp": lambda graph, params, low, x, high: graph.apply("min", graph.apply("max", x, low), high),
    "rsqrt": lambda graph, params, x: graph.apply("div", graph.constant(1, "f"), graph.apply("sqrt", x)),
    "sign": lambda graph, params, x: derived_ops.sign(graph, x),
    "logistic": lambda graph, params, x: derived_ops.logistic(graph, x),
    "exp2": lambda graph, params, x: graph.apply("pow", graph.constant(2, "f"), x),
    "digamma": lambda graph, params, x: derived_ops.digamma(graph, x),
}
