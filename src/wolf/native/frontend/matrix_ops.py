"""Translation of matrix factorisations and solutions: Cholesky, LU with partial pivoting, triangular and linear solves.

`jnp.linalg.solve`, `inv` and `det` are made of them. Pivots are chosen by selects, so the code has no branches and the
rows are those that LAPACK chooses: the largest entry of the column, the first of equal ones.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from wolf.native.frontend import derived_ops
from wolf.native.frontend.node_arrays import Ids, TranslateInner
from wolf.native.ir.graph import Graph
from wolf.native.kernels import cholesky, matmul
from wolf.numerics.jaxpr import Equation

Rows = list[list[int]]  # node numbers of a matrix


def translate_cholesky(
    graph: Graph, equation: Equation, inputs: list[Ids], translate_inner: TranslateInner
) -> list[Ids]:
    """Factorise a positive definite matrix."""
    (ids,) = inputs
    if graph.loops and ids.ndim == 2 and len(ids) >= cholesky.MIN_ROWS and matmul.is_full(graph, ids):
        return [cholesky.translate(graph, ids)]
    return [derived_ops.per_matrix(partial(derived_ops.cholesky, graph), ids)]


def translate_triangular(
    graph: Graph, equation: Equation, inputs: list[Ids], translate_inner: TranslateInner
) -> list[Ids]:
    """Solve a triangular system."""
    return [derived_ops.triangular_solve(graph, inputs[0], inputs[1], equation.params)]


def translate_lu(graph: Graph, equation: Equation, inputs: list[Ids], translate_inner: TranslateInner) -> list[Ids]:
    """Factorise matrices as P A = L U; return L and U in one matrix, the pivots and the permutation."""
    (ids,) = inputs
    found = [_factorise(graph, matrix.tolist()) for matrix in ids.reshape(-1, *ids.shape[-2:])]
    shapes = [var.aval.shape for var in equation.outvars]
    return [
        np.array(part, np.int64).reshape(shape) for part, shape in zip(zip(*found, strict=True), shapes, strict=True)
    ]


def _factorise(graph: Graph, a: Rows) -> tuple[Rows, list[int], list[int]]:
    size, order = len(a), [graph.constant(i, "i") for i in range(len(a))]
    zero, one = graph.constant(0, "f"), graph.constant(1, "f")
    pivots = []
    for k in range(min(size, len(a[0]))):
        pivots.append(_pivot_row(graph, [row[k] for row in a], k))
        for i in range(k + 1, size):
            here = graph.apply("eq", pivots[k], graph.constant(i, "i"), kind="b")
            for j in range(len(a[0])):
                a[k][j], a[i][j] = _exchanged(graph, here, a[k][j], a[i][j])
            order[k], order[i] = _exchanged(graph, here, order[k], order[i])
        # A column of zeros stays one, as in LAPACK; the solution then divides by zero.
        vanishes = graph.apply("eq", a[k][k], zero, kind="b")
        divisor = graph.apply("select", vanishes, a[k][k], one)
        for row in a[k + 1 :]:
            row[k] = graph.apply("div", row[k], divisor)
            for j in range(k + 1, len(row)):
                row[j] = graph.apply("sub", row[j], graph.apply("mul", row[k], a[k][j]))
    return a, pivots, order


def _pivot_row(graph: Graph, column: Sequence[int], k: int) -> int:
    """Return the number of the row, from row k on, with the largest entry of a column."""
    largest, where = graph.apply("abs", column[k]), graph.constant(k, "i")
    for i in range(k + 1, len(column)):
        if graph.value(column[i]) == 0:
            continue
        size = graph.apply("abs", column[i])
        larger = graph.apply("gt", size, largest, kind="b")
        largest = graph.apply("select", larger, largest, size)
        where = graph.apply("select", larger, where, graph.constant(i, "i"))
    return where


def _exchanged(graph: Graph, condition: int, a: int, b: int) -> tuple[int, int]:
    """Return two numbers, exchanged where a condition holds."""
    return graph.apply("select", condition, a, b), graph.apply("select", condition, b, a)


def translate_permutation(
    graph: Graph, equation: Equation, inputs: list[Ids], translate_inner: TranslateInner
) -> list[Ids]:
    """Convert pivots to a permutation: exchange one row after the other."""
    pivots, shape = inputs[0], equation.outvars[0].aval.shape
    found = []
    for row in pivots.reshape(-1, pivots.shape[-1]).tolist():
        order = [graph.constant(i, "i") for i in range(shape[-1])]
        for k, pivot in enumerate(row):
            for i in range(k + 1, len(order)):
                here = graph.apply("eq", pivot, graph.constant(i, "i"), kind="b")
                order[k], order[i] = _exchanged(graph, here, order[k], order[i])
        found.append(order)
    return [np.array(found, np.int64).reshape(shape)]


def translate_linear_solve(
    graph: Graph, equation: Equation, inputs: list[Ids], translate_inner: TranslateInner
) -> list[Ids]:
    """Solve a linear system by the program that the equation carries for it."""
    lengths, programs = equation.params["const_lengths"], equation.params["jaxprs"]
    first = lengths.matvec + lengths.vecmat
    return translate_inner(graph, programs.solve, [*inputs[first : first + lengths.solve], *inputs[sum(lengths) :]])


def translate_sort(graph: Graph, equation: Equation, inputs: list[Ids], translate_inner: TranslateInner) -> list[Ids]:
    """Sort rows by their first array, NaN last, by exchanging neighbours; equal entries keep their order."""
    axis = equation.params["dimension"]
    arrays = [np.moveaxis(ids, axis, -1).copy() for ids in inputs]
    rows = [array.reshape(-1, array.shape[-1]) for array in arrays]
    for number in range(len(rows[0])):
        entries = [list(map(int, row[number])) for row in rows]
        for end in range(1, len(entries[0])):
            for j in range(end, 0, -1):
                swap = _precedes(graph, entries[0][j], entries[0][j - 1])
                for row in entries:
                    row[j - 1], row[j] = _exchanged(graph, swap, row[j - 1], row[j])
        for whole, new in zip(rows, entries, strict=True):
            whole[number] = new
    return [np.moveaxis(row.reshape(array.shape), -1, axis) for row, array in zip(rows, arrays, strict=True)]


def _precedes(graph: Graph, a: int, b: int) -> int:
    """Return whether a number comes before another one in a sorted row."""
    less = graph.apply("lt", a, b, kind="b")
    if graph.nodes[a].kind != "f":
        return less
    known, missing = graph.apply("eq", a, a, kind="b"), graph.apply("ne", b, b, kind="b")
    return graph.apply("or", less, graph.apply("and", known, missing, kind="b"), kind="b")
