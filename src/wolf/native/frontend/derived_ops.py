"""Functions composed of simpler operations."""

from collections.abc import Callable

import numpy as np

from wolf.native.ir.graph import Graph
from wolf.native.kernels import matmul

NUM_RECURRENCES = 8  # recurrences after which the asymptotic series of digamma is accurate to 1e-16


def sign(graph: Graph, x: int) -> int:
    """Compute -1, 0 or 1; NaN stays."""
    kind = graph.nodes[x].kind
    zero, one, minus = (graph.constant(value, kind) for value in (0, 1, -1))
    above = graph.apply("gt", x, zero, kind="b")
    below = graph.apply("lt", x, zero, kind="b")
    rest = x if kind == "f" else zero
    return graph.apply("select", above, graph.apply("select", below, rest, minus), one)


def logistic(graph: Graph, x: int) -> int:
    """Compute 1 / (1 + exp(-x))."""
    one = graph.constant(1, "f")
    return graph.apply("div", one, graph.apply("add", one, graph.apply("exp", graph.apply("neg", x))))


def digamma(graph: Graph, x: int) -> int:
    """Compute the derivative of log Γ for x > 0: shifted up by ψ(x) = ψ(x + 1) - 1/x, then the asymptotic series.

    Abramowitz & Stegun (1964), 6.3.5 and 6.3.18.
    """
    one, total = graph.constant(1, "f"), graph.constant(0, "f")
    for _ in range(NUM_RECURRENCES):
        total = graph.apply("add", total, graph.apply("div", one, x))
        x = graph.apply("add", x, one)
    inverse = graph.apply("div", one, x)
    square = graph.apply("mul", inverse, inverse)
    series = graph.constant(0, "f")
    # The Bernoulli numbers B_2k / 2k, the smallest term first.
    for term in (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12):
        series = graph.apply("mul", square, graph.apply("add", graph.constant(term, "f"), series))
    half = graph.apply("mul", graph.constant(0.5, "f"), inverse)
    whole = graph.apply("sub", graph.apply("sub", graph.apply("log", x), half), series)
    return graph.apply("sub", whole, total)


def per_matrix(make: Callable[[list[list[int]]], list[list[int]]], ids: np.ndarray) -> np.ndarray:
    """Apply a function of one matrix to each matrix of a batch."""
    flat = ids.reshape(-1, *ids.shape[-2:])
    return np.array([make(matrix.tolist()) for matrix in flat], np.int64).reshape(ids.shape)


def cholesky(graph: Graph, a: list[list[int]]) -> list[list[int]]:
    """Compute a Cholesky factor; where a pivot is not positive all of it is NaN, as in JAX."""
    lower, fine = _factorise(graph, a)
    zero, nothing = graph.constant(0, "f"), graph.constant(float("nan"), "f")
    return [
        [graph.apply("select", fine, nothing, number) if j <= i else zero for j, number in enumerate(row)]
        for i, row in enumerate(lower)
    ]


def is_positive_definite(graph: Graph, a: list[list[int]]) -> int:
    """Compute whether all pivots of a symmetric matrix are positive."""
    return _factorise(graph, a)[1]


def _factorise(graph: Graph, a: list[list[int]]) -> tuple[list[list[int]], int]:
    size, zero = len(a), graph.constant(0, "f")
    lower = [[zero] * size for _ in range(size)]
    fine = graph.constant(True, "b")
    for j in range(size):
        pivot = _subtract_products(graph, a[j][j], [(lower[j][k], lower[j][k]) for k in range(j)])
        fine = graph.apply("and", fine, graph.apply("gt", pivot, zero, kind="b"))
        lower[j][j] = graph.apply("sqrt", pivot)
        for i in range(j + 1, size):
            rest = _subtract_products(graph, a[i][j], [(lower[i][k], lower[j][k]) for k in range(j)])
            lower[i][j] = graph.apply("div", rest, lower[j][j])
    return lower, fine


def triangular_solve(graph: Graph, a: np.ndarray, b: np.ndarray, params: dict) -> np.ndarray:
    """Solve A X = B or X A = B for a triangular A."""
    batch, rows, columns = b.shape[:-2], *b.shape[-2:]
    left, right = a.reshape(-1, *a.shape[-2:]), b.reshape(-1, rows, columns)
    solved = []
    for matrix, rhs in zip(left, right, strict=True):
        lower, transposed = params["lower"], params["transpose_a"]
        matrix, lower = (matrix.T, not lower) if transposed else (matrix, lower)
        if not params["left_side"]:  # X A = B is Aᵀ Xᵀ = Bᵀ
            matrix, lower, rhs = matrix.T, not lower, rhs.T
        unit, op = params["unit_diagonal"], "lower" if lower else "upper"
        if not unit and matmul.is_faster(graph, matrix, rhs, op):
            result = graph.dense(matmul.Dense(op, len(matrix), len(matrix), rhs.shape[1]), matrix, rhs)
        else:
            vectors = [_substitute(graph, matrix.tolist(), column, lower, unit) for column in rhs.T.tolist()]
            result = np.array(vectors, np.int64).T
        solved.append(result if params["left_side"] else result.T)
    return np.array(solved, np.int64).reshape(*batch, rows, columns)


def _substitute(graph: Graph, a: list[list[int]], b: list[int], lower: bool, unit: bool) -> list[int]:
    size = len(a)
    order = range(size) if lower else range(size - 1, -1, -1)
    x = [0] * size
    for i in order:
        before = range(i) if lower else range(i + 1, size)
        rest = _subtract_products(graph, b[i], [(a[i][k], x[k]) for k in before])
        x[i] = rest if unit else graph.apply("div", rest, a[i][i])
    return x


def _subtract_products(graph: Graph, value: int, pairs: list[tuple[int, int]]) -> int:
    for a, b in pairs:
        value = graph.apply("sub", value, graph.apply("mul", a, b))
    return value
