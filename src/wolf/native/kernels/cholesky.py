"""The Cholesky factor of a full matrix as a loop, row by row of Lᵀ, eight numbers at a time for a single series.

Each number has the bits of straight-line code: products are subtracted in the same order.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wolf.native.kernels import matmul
from wolf.native.kernels.vector_builder import KernelWriter, Operand, Registers

if TYPE_CHECKING:
    from wolf.native.ir.graph import Graph

MIN_ROWS = 9  # rows from which the loop is faster


class Factor(NamedTuple):
    """The kernel of Lᵀ; below its diagonal the result is undefined."""

    size: int

    @property
    def moved(self) -> int:
        """Numbers that are stored to and loaded from memory, by one instruction each."""
        return self.size * self.size + self.size * (self.size + 1) // 2

    @property
    def name(self) -> str:
        """Name of its function."""
        return f"factor_{self.size}"

    def place(self, part: int, lanes: int) -> int:
        """Return the offset of an entry of Lᵀ in memory."""
        return part // self.size * matmul.stride(self.size, lanes) + part % self.size


def translate(graph: "Graph", ids: np.ndarray) -> np.ndarray:
    """Add the factor of a matrix to a graph; the lower half of the matrix is read.

    Args:
        graph: of the step.
        ids: nodes of the matrix.
    """
    size = len(ids)
    rows, columns = np.tril_indices(size)
    both = np.tril(ids) + np.triu(ids.T, 1)
    _, parts = graph.loop(Factor(size), tuple(both.ravel().tolist()), (columns * size + rows).tolist())
    lower = np.full((size, size), graph.constant(0.0, "f"), np.int64)
    lower[rows, columns] = parts
    return lower


def function(shape: Factor, number: str, lanes: int) -> list[str]:
    """Write the function, `(ptr a, ptr c)`, and its declarations.

    Args:
        shape: of the matrix.
        number: LLVM type of a number.
        lanes: series per register.
    """
    code = KernelWriter(shape.size, matmul.WIDTH, number, lanes)
    code.unrolled = False
    if lanes == 1:
        code.wide(matmul.WIDTH)
    row = matmul.stride(shape.size, lanes)
    _write(code, shape.size, row, row // matmul.WIDTH if lanes == 1 else row)
    head = f"define internal void @{shape.name}(ptr noalias %a, ptr noalias %c) noinline {{"
    return [*code.used, "\n".join([head, "entry:", *code.lines, "  ret void", "}"])]


def _write(code: KernelWriter, size: int, row: int, units: int) -> None:
    """Write the body, with `row` numbers and `units` registers per row."""

    def one_row(j: Operand) -> None:
        first, at = code.integer("mul", j, row), code.integer("mul", j, units)
        diagonal = code.integer("add", first, j)
        pivot = code.repeat(
            0,
            j,
            lambda k, rest: code.subtract_product(rest, *[_number(code, k, row, j)] * 2),
            code.number_at("%a", diagonal),
        )
        root = code.roots(pivot)

        def one_unit(u: Operand) -> None:
            def subtract(k: Operand, rest: Registers) -> Registers:
                there = code.integer("add", code.integer("mul", k, units), u)
                return code.subtract_product(rest, _number(code, k, row, j), code.unit_at("%c", there))

            rest = code.repeat(0, j, subtract, code.unit_at("%a", code.integer("add", at, u)))
            code.put_unit("%c", code.integer("add", at, u), code.apply("fdiv", rest, root))

        begin = j if code.lanes > 1 else code.integer("lshr", j, matmul.WIDTH.bit_length() - 1)
        code.each(begin, units, one_unit)
        code.put_number("%c", diagonal, root)

    code.each(0, size, one_row)
    _propagate_failure(code, size, row, units)


def _number(code: KernelWriter, k: Operand, row: int, j: Operand) -> Registers:
    return code.number_at("%c", code.integer("add", code.integer("mul", k, row), j))


def _propagate_failure(code: KernelWriter, size: int, row: int, units: int) -> None:
    """Make all entries NaN if a pivot is not positive, by adding 0 or NaN."""

    def accumulate(j: Operand, failure: Registers) -> Registers:
        return code.unless_positive(code.number_at("%c", code.integer("mul", j, row + 1)), failure)

    failure = code.repeat(0, size, accumulate, code.constant(0.0)[:1])

    def add(u: Operand) -> None:
        code.put_unit("%c", u, code.apply("fadd", code.unit_at("%c", u), failure))

    code.each(0, size * units, add)
