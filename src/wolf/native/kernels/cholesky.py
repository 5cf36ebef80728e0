"""The Cholesky factor of a full matrix as a loop, row by row of Lᵀ: with one series eight of its numbers at a time.

Each number is what straight-line code makes of it, bit for bit: products are taken off in the same order.
"""

from typing import Any, NamedTuple

import numpy as np

from wolf.native.kernels import matmul
from wolf.native.kernels.vector_builder import Code, Operand, Registers

FEWEST = 9  # rows from which it pays


class Factor(NamedTuple):
    """Lᵀ, of so many rows; what is left of its diagonal is of no use."""

    size: int

    @property
    def moved(self) -> int:
        """Numbers that are put into memory and taken out, each by a line of its own."""
        return self.size * self.size + self.size * (self.size + 1) // 2

    @property
    def name(self) -> str:
        """What its function is called."""
        return f"factor_{self.size}"

    def place(self, part: int, lanes: int) -> int:
        """Say where in memory a number of Lᵀ is."""
        return part // self.size * matmul.stride(self.size, lanes) + part % self.size


def translate(graph: Any, ids: np.ndarray) -> np.ndarray:
    """Put the factor of a matrix into a graph; of the matrix the lower half is read.

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
    """Write the function, `(ptr a, ptr c)`, and what it calls.

    Args:
        shape: of the matrix.
        number: LLVM's name of a number.
        lanes: series in one register.
    """
    code = Code(shape.size, matmul.WIDTH, number, lanes)
    code.unrolled = False
    if lanes == 1:
        code.wide(matmul.WIDTH)
    row = matmul.stride(shape.size, lanes)
    _write(code, shape.size, row, row // matmul.WIDTH if lanes == 1 else row)
    head = f"define internal void @{shape.name}(ptr noalias %a, ptr noalias %c) noinline {{"
    return [*code.used, "\n".join([head, "entry:", *code.lines, "  ret void", "}"])]


def _write(code: Code, size: int, row: int, units: int) -> None:
    """Write it, with so many numbers and registers to a row."""

    def one_row(j: Operand) -> None:
        first, at = code.integer("mul", j, row), code.integer("mul", j, units)
        diagonal = code.integer("add", first, j)
        pivot = code.repeat(
            0, j, lambda k, rest: code.less(rest, *[_number(code, k, row, j)] * 2), code.number_at("%a", diagonal)
        )
        root = code.roots(pivot)

        def one_unit(u: Operand) -> None:
            def less(k: Operand, rest: Registers) -> Registers:
                there = code.integer("add", code.integer("mul", k, units), u)
                return code.less(rest, _number(code, k, row, j), code.unit_at("%c", there))

            rest = code.repeat(0, j, less, code.unit_at("%a", code.integer("add", at, u)))
            code.put_unit("%c", code.integer("add", at, u), code.apply("fdiv", rest, root))

        begin = j if code.lanes > 1 else code.integer("lshr", j, matmul.WIDTH.bit_length() - 1)
        code.each(begin, units, one_unit)
        code.put_number("%c", diagonal, root)

    code.each(0, size, one_row)
    _spoil(code, size, row, units)


def _number(code: Code, k: Operand, row: int, j: Operand) -> Registers:
    return code.number_at("%c", code.integer("add", code.integer("mul", k, row), j))


def _spoil(code: Code, size: int, row: int, units: int) -> None:
    """Make everything NaN where a pivot was not positive, by adding 0 or NaN."""

    def worse(j: Operand, worst: Registers) -> Registers:
        return code.unless_positive(code.number_at("%c", code.integer("mul", j, row + 1)), worst)

    worst = code.repeat(0, size, worse, code.known(0.0)[:1])

    def add(u: Operand) -> None:
        code.put_unit("%c", u, code.apply("fadd", code.unit_at("%c", u), worst))

    code.each(0, size * units, add)
