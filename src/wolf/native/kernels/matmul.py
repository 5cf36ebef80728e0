"""Products and triangular solves of full matrices: loops over memory instead of one instruction per number.

A product of two full 16 x 16 matrices is 8,000 operations as straight-line code, and 1,000 over registers of eight. The
terms of each sum are added in the same order, one by one, so the bits are the same. Where a matrix has zeros, or is
small, straight-line code has less to do.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from wolf.native.ir.graph import Graph

WIDTH = 8  # numbers per register
MIN_PRODUCTS = 200  # multiplications from which a loop is faster
MAX_RELATIVE_COST = 0.6  # maximum cost of a loop relative to straight-line code


class Dense(NamedTuple):
    """The kernel of a product (n, m) x (m, p), or of a triangular system (n, n) with right-hand sides (n, p).

    Attributes:
        op: "product", "lower" or "upper".
        rows: n.
        inner: m.
        columns: p.
        left: whether the left matrix is the result of another kernel, in that kernel's memory.
        right: likewise the right one.
    """

    op: str
    rows: int
    inner: int
    columns: int
    left: bool = False
    right: bool = False

    @property
    def products(self) -> int:
        """Number of multiplications."""
        whole = self.rows * self.inner * self.columns
        return whole if self.op == "product" else whole // 2

    @property
    def moved(self) -> int:
        """Numbers that are stored to and loaded from memory, by one instruction each."""
        given = (0 if self.left else self.rows * self.inner) + (0 if self.right else self.inner * self.columns)
        return given + self.rows * self.columns

    @property
    def cost(self) -> int:
        """Operations on registers plus numbers that are stored or loaded."""
        return 2 * self.products // self.columns * math.ceil(self.columns / WIDTH) + self.moved

    def place(self, part: int, lanes: int) -> int:
        """Return the offset of an entry of the result in memory."""
        return part // self.columns * stride(self.columns, lanes) + part % self.columns

    def operands(self, args: tuple[int, ...]) -> list[tuple[tuple[int, ...], int, int]]:
        """List the matrices that are given number by number, with their rows and columns."""
        cut = 1 if self.left else self.rows * self.inner
        left = [] if self.left else [(args[:cut], self.rows, self.inner)]
        return left + ([] if self.right else [(args[cut:], self.inner, self.columns)])

    @property
    def name(self) -> str:
        """Name of its function."""
        return f"{self.op}_{self.rows}_{self.inner}_{self.columns}"


def is_faster(graph: "Graph", a: np.ndarray, b: np.ndarray, op: str) -> bool:
    """Return whether a loop is faster than one instruction for each product that is not known to be zero.

    Args:
        graph: of the step.
        a: nodes of the left matrix.
        b: nodes of the right matrix.
        op: as in `Dense`.
    """
    # A full matrix that multiplies a vector is usually in memory for another product.
    shape = Dense(op, a.shape[0], a.shape[1], b.shape[1], right=op == "product" and len(a) == 1)
    if not graph.loops or shape.products < MIN_PRODUCTS:
        return False
    left, right = (_not_zero(graph, each).astype(int) for each in (a, b))
    lines = (left @ right).sum() if op == "product" else left.sum(0) @ right.any(1) * b.shape[1]
    return bool(shape.cost < MAX_RELATIVE_COST * 2 * lines)


def is_full(graph: "Graph", ids: np.ndarray) -> bool:
    """Return whether few entries of a matrix are known to be zero, and it changes in each step."""
    made_once = all(graph.nodes[number].block == 0 for number in ids.ravel().tolist())
    return not made_once and bool(_not_zero(graph, ids).mean() > MAX_RELATIVE_COST)


def _not_zero(graph: "Graph", ids: np.ndarray) -> np.ndarray:
    return np.array([graph.value(number) != 0 for number in ids.ravel().tolist()]).reshape(ids.shape)


def stride(columns: int, lanes: int) -> int:
    """Return the distance between rows in numbers; for a single series a whole number of registers."""
    return WIDTH * math.ceil(columns / WIDTH) if lanes == 1 else columns


def function(shape: Dense, number: str, lanes: int) -> str:
    """Write the function of a product or a solution, `(ptr a, ptr b, ptr result)`.

    Args:
        shape: what it computes.
        number: LLVM type of a number.
        lanes: series per register.
    """
    return (_Product if shape.op == "product" else _Solution)(shape, number, lanes).text()


class _Loop:
    """Base of both functions: rows of registers, and numbers of the left matrix broadcast to a register."""

    def __init__(self, shape: Dense, number: str, lanes: int):
        self.shape, self.number, self.lanes = shape, number, lanes
        self.unit = f"<{WIDTH if lanes == 1 else lanes} x {number}>"
        self.units = stride(shape.columns, lanes) // (WIDTH if lanes == 1 else 1)
        self.lines: list[str] = []

    def define(self, text: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def load(self, base: str, offset: int) -> str:
        """Load a register."""
        at = self.define(f"getelementptr {self.unit}, ptr {base}, i64 {offset}")
        return self.define(f"load {self.unit}, ptr {at}, align 8")

    def spread(self, base: str, offset: int) -> str:
        """Load a number of the left matrix, broadcast to a register."""
        if self.lanes > 1:
            return self.load(base, offset)
        at = self.define(f"getelementptr {self.number}, ptr {base}, i64 {offset}")
        one = self.define(f"load {self.number}, ptr {at}")
        first = self.define(f"insertelement {self.unit} poison, {self.number} {one}, i32 0")
        zeros = f"<{WIDTH} x i32> zeroinitializer"
        return self.define(f"shufflevector {self.unit} {first}, {self.unit} poison, {zeros}")

    def store(self, value: str, base: str, offset: int) -> None:
        at = self.define(f"getelementptr {self.unit}, ptr {base}, i64 {offset}")
        self.lines.append(f"  store {self.unit} {value}, ptr {at}, align 8")

    def apply(self, op: str, a: str, b: str) -> str:
        return self.define(f"{op} {self.unit} {a}, {b}")

    def repeat(self, count: int, bases: dict[str, int]) -> None:
        """Begin a loop whose addresses advance by some bytes per iteration."""
        self.lines += ["  br label %again", "again:", "  %i = phi i64 [ 0, %entry ], [ %next, %again ]"]
        for base, step in bases.items():
            self.lines.append(f"  %{base}.by = mul i64 %i, {step}")
            self.lines.append(f"  %{base}.at = getelementptr i8, ptr %{base}, i64 %{base}.by")
        self.end = [
            "  %next = add i64 %i, 1",
            f"  %more = icmp slt i64 %next, {count}",
            "  br i1 %more, label %again, label %rest",
            "rest:",
        ]

    def whole(self) -> str:
        head = f"define internal void @{self.shape.name}(ptr noalias %a, ptr noalias %b, ptr noalias %c) noinline {{"
        return "\n".join([head, "entry:", *self.lines, "  ret void", "}"])

    @property
    def size(self) -> int:
        """Bytes of a number in memory, for all lanes."""
        return (8 if self.number == "double" else 4) * self.lanes

    @property
    def width(self) -> int:
        """Bytes of a register."""
        return self.size * (WIDTH if self.lanes == 1 else 1)


class _Product(_Loop):
    """A few rows at a time, so that each load of the right matrix serves all of them."""

    NUM_AT_ONCE = 16  # sums kept in registers

    def text(self) -> str:
        columns = min(self.units, self.NUM_AT_ONCE // 2)
        rows = min(self.shape.rows, max(2, self.NUM_AT_ONCE // columns), 4)
        times, left = divmod(self.shape.rows, rows)
        step = stride(self.shape.inner, self.lanes) * self.size
        self.repeat(times, {"a": rows * step, "c": rows * self.units * self.width})
        self._rows("%a.at", "%c.at", range(rows), columns)
        self.lines += self.end
        if left:
            self._rows("%a", "%c", range(self.shape.rows - left, self.shape.rows), columns)
        return self.whole()

    def _rows(self, a: str, c: str, rows: range, columns: int) -> None:
        step = stride(self.shape.inner, self.lanes)
        for first in range(0, self.units, columns):
            here = range(first, min(first + columns, self.units))
            sums: dict[tuple[int, int], str] = {}
            for k in range(self.shape.inner):
                right = {u: self.load("%b", k * self.units + u) for u in here}
                for i in rows:
                    left = self.spread(a, i * step + k)
                    for u in here:
                        term = self.apply("fmul", left, right[u])
                        sums[i, u] = self.apply("fadd", sums[i, u], term) if k else term
            for (i, u), value in sums.items():
                self.store(value, c, i * self.units + u)


class _Solution(_Loop):
    """A few columns of registers at a time, each substituted from the first row to the last or back."""

    NUM_AT_ONCE = 2

    def text(self) -> str:
        times, left = divmod(self.units, self.NUM_AT_ONCE)
        if times:
            move = self.NUM_AT_ONCE * self.width
            self.repeat(times, {"b": move, "c": move})
            self._columns("%b.at", "%c.at", range(self.NUM_AT_ONCE))
            self.lines += self.end
        if left:
            self._columns("%b", "%c", range(self.units - left, self.units))
        return self.whole()

    def _columns(self, b: str, c: str, units: range) -> None:
        size, step = self.shape.rows, stride(self.shape.inner, self.lanes)
        lower = self.shape.op == "lower"
        found: dict[int, list[str]] = {}
        for i in range(size) if lower else reversed(range(size)):
            rest = [self.load(b, i * self.units + u) for u in units]
            for k in range(i) if lower else range(i + 1, size):
                left = self.spread("%a", i * step + k)
                rest = [self.apply("fsub", r, self.apply("fmul", left, x)) for r, x in zip(rest, found[k], strict=True)]
            pivot = self.spread("%a", i * step + i)
            found[i] = [self.apply("fdiv", r, pivot) for r in rest]
            for u, value in zip(units, found[i], strict=True):
                self.store(value, c, i * self.units + u)
