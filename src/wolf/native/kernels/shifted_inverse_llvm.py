"""LLVM functions of the kernels in `shifted_inverse_loops`.

With one series a register holds four shifts, with several it holds one shift of each series. The bits are the same:
sums over shifts are accumulated by fours in both.
"""

from collections.abc import Callable

import numpy as np

from wolf.native.kernels.shifted_inverse_loops import Inverses, WeightedSum
from wolf.native.kernels.vector_builder import NUM_LANES, KernelWriter, Operand, Registers


def function(shape: Inverses | WeightedSum, number: str, lanes: int) -> list[str]:
    """Write the function and its declarations.

    Arguments are `(ptr a, ptr s, ptr b, ptr c)` for the inverses, `(ptr shifted, ptr weights, ptr c)` for the average,
    and `(ptr shifted, ptr weights, ptr zero_weight, ptr c)` for the scatter.

    Args:
        shape: what it computes.
        number: LLVM type of a number.
        lanes: series per register.
    """
    code = KernelWriter(shape.size, shape.shifts, number, lanes)
    if isinstance(shape, Inverses):
        _InversesWriter(code, shape).write()
        arguments = "ptr noalias %a, ptr noalias %s, ptr noalias %b, ptr noalias %c"
    elif shape.centred:
        _write_scatter(code, shape)
        arguments = "ptr noalias %a, ptr noalias %w, ptr noalias %l, ptr noalias %c"
    else:
        _write_average(code, shape)
        arguments = "ptr noalias %a, ptr noalias %w, ptr noalias %c"
    head = f"define internal void @{shape.name}({arguments}) noinline {{"
    return [*code.used, "\n".join([head, "entry:", *code.lines, "  ret void", "}"])]


class _InversesWriter:
    """Writer of `shifted_inverses`, in place: a factor, its inverse, and the product of that with its transpose."""

    def __init__(self, code: KernelWriter, shape: Inverses):
        self.code, self.shape = code, shape
        self.half, self.pulls, self.pivots = (shape.entries + i * shape.size for i in range(3))
        self.distances = shape.entries + 3 * shape.size
        self.held: dict[Operand, Registers] = {}

    def write(self) -> None:
        """Write the function, for all shifts or by fours."""
        code = self.code
        if code.lanes == 1:
            self._all()
            return

        def some(i: Operand) -> None:
            code.unrolled = was
            code.group, self.held = code.integer("mul", i, NUM_LANES), {}
            self._all()

        was, code.unrolled = code.unrolled, False  # this loop is never unrolled
        code.each(0, code.count // NUM_LANES, some)
        code.unrolled = was

    def _all(self) -> None:
        self._factorise()
        self._pull()
        self._invert()
        self._square()
        if self.code.unrolled:
            for entry, values in self.held.items():
                if not self.half <= int(entry) < self.pulls:
                    self.code.store("%c", entry, values)

    def _get(self, entry: Operand) -> Registers:
        return self.held[entry] if self.code.unrolled else self.code.load("%c", entry)

    def _put(self, entry: Operand, values: Registers) -> None:
        if self.code.unrolled:
            self.held[entry] = values
        else:
            self.code.store("%c", entry, values)

    def _at(self, i: Operand, j: Operand) -> Operand:
        """Number the entries of the lower half row by row: i (i + 1) / 2 + j."""
        code = self.code
        row = code.integer("lshr", code.integer("mul", i, code.integer("add", i, 1)), 1)
        return code.integer("add", row, j)

    def _of(self, base: int, i: Operand) -> Operand:
        return self.code.integer("add", base, i)

    def _factorise(self) -> None:
        code, size = self.code, self.shape.size
        code.each(0, size, self._row)
        first = self._get(self.half)
        squares = code.repeat(
            1,
            size,
            lambda k, whole: code.add_product(whole, *[self._get(self._of(self.half, k))] * 2),
            code.apply("fmul", first, first),
        )
        self._put(self.distances, squares)

    def _row(self, i: Operand) -> None:
        code = self.code
        row = code.integer("mul", i, self.shape.size)

        def entry(j: Operand) -> None:
            left = code.repeat(
                0,
                j,
                lambda k, whole: code.subtract_product(whole, self._get(self._at(i, k)), self._get(self._at(j, k))),
                code.spread("%a", code.integer("add", row, j)),
            )
            self._put(self._at(i, j), code.apply("fmul", left, self._get(self._of(self.pivots, j))))

        code.each(0, i, entry)
        whole = code.apply("fadd", code.spread("%a", code.integer("add", row, i)), code.load("%s", 0))
        left = code.repeat(0, i, lambda k, rest: code.subtract_product(rest, *[self._get(self._at(i, k))] * 2), whole)
        floor = float(np.finfo(np.float64 if code.number == "double" else np.float32).eps)
        pivot = code.inverse_root(left, code.apply("fmul", code.constant(floor), whole))
        self._put(self._of(self.pivots, i), pivot)
        rest = code.repeat(
            0,
            i,
            lambda k, rest: code.subtract_product(rest, self._get(self._at(i, k)), self._get(self._of(self.half, k))),
            code.spread("%b", i),
        )
        self._put(self._of(self.half, i), code.apply("fmul", rest, pivot))

    def _pull(self) -> None:
        code, size = self.code, self.shape.size

        def one(i: Operand) -> None:
            rest = code.repeat(
                code.integer("add", i, 1),
                size,
                lambda k, rest: code.subtract_product(
                    rest, self._get(self._at(k, i)), self._get(self._of(self.pulls, k))
                ),
                self._get(self._of(self.half, i)),
            )
            self._put(self._of(self.pulls, i), code.apply("fmul", rest, self._get(self._of(self.pivots, i))))

        code.back(0, size, one)

    def _invert(self) -> None:
        """Overwrite L by X, the last column first and each from its last row up."""
        code, size = self.code, self.shape.size

        def column(j: Operand) -> None:
            pivot = self._get(self._of(self.pivots, j))
            self._put(self._at(j, j), pivot)
            below = code.integer("add", j, 1)

            def entry(i: Operand) -> None:
                first = code.apply("fmul", self._get(self._at(i, below)), self._get(self._at(below, j)))
                whole = code.repeat(
                    code.integer("add", j, 2),
                    code.integer("add", i, 1),
                    lambda k, whole: code.add_product(whole, self._get(self._at(i, k)), self._get(self._at(k, j))),
                    first,
                )
                self._put(self._at(i, j), code.apply("fneg", code.apply("fmul", whole, pivot)))

            code.back(below, size, entry)

        code.back(0, size, column)

    def _square(self) -> None:
        """Overwrite X by Xᵀ X, row by row: a row needs only itself and those below."""
        code, size = self.code, self.shape.size

        def row(i: Operand) -> None:
            def entry(j: Operand) -> None:
                whole = code.repeat(
                    code.integer("add", i, 1),
                    size,
                    lambda k, whole: code.add_product(whole, self._get(self._at(k, i)), self._get(self._at(k, j))),
                    code.apply("fmul", self._get(self._at(i, i)), self._get(self._at(i, j))),
                )
                self._put(self._at(i, j), whole)

            code.each(0, code.integer("add", i, 1), entry)

        code.each(0, size, row)


def _write_average(code: KernelWriter, shape: WeightedSum) -> None:
    code.unrolled = False

    def entry(i: Operand) -> None:
        _put(code, i, _sum(code, lambda: code.apply("fmul", code.load("%a", i), code.load("%w", 0))))

    code.each(0, shape.room, entry)


def _write_scatter(code: KernelWriter, shape: WeightedSum) -> None:
    """Write Σ γ (u - ū)(u - ū)ᵀ + γ₀ ū ūᵀ, with ū = Σ γ u."""
    code.unrolled = code.unrolled and code.lanes == 1
    pulls = Inverses(shape.size, shape.shifts).pulls

    def pull(i: Operand) -> Registers:
        return code.load("%a", code.integer("add", pulls, i))

    def mean(i: Operand) -> Registers:
        return code.spread("%c", code.integer("add", shape.entries, i))

    def around(i: Operand) -> Registers:
        return code.apply("fsub", pull(i), mean(i))

    def average(i: Operand) -> None:
        weighted = _sum(code, lambda: code.apply("fmul", pull(i), code.load("%w", 0)))
        _put(code, code.integer("add", shape.entries, i), weighted)

    def row(i: Operand) -> None:
        start = code.integer("lshr", code.integer("mul", i, code.integer("add", i, 1)), 1)
        held = code.apply("fmul", code.load("%w", 0), around(i)) if code.lanes == 1 else None

        def entry(j: Operand) -> None:
            def product() -> Registers:
                weighted = code.apply("fmul", code.load("%w", 0), around(i)) if held is None else held
                return code.apply("fmul", weighted, around(j))

            whole = _sum(code, product)
            means = code.define(f"fmul {code.one} {_get(code, '%c', mine)}, {_get(code, '%c', other(j))}")
            zero = code.define(f"fmul {code.one} {_get(code, '%l', 0)}, {means}")
            _put(code, code.integer("add", start, j), code.define(f"fadd {code.one} {whole}, {zero}"))

        def other(j: Operand) -> Operand:
            return code.integer("add", shape.entries, j)

        mine = other(i)
        code.each(0, code.integer("add", i, 1), entry)

    code.each(0, shape.size, average)
    code.each(0, shape.size, row)


def _sum(code: KernelWriter, product: Callable[[], Registers]) -> str:
    """Sum numbers over all shifts, by fours."""
    if code.lanes == 1:
        first, *others = product()
        for value in others:
            first = code.define(f"fadd {code.unit} {first}, {value}")
        return code.total([first])
    code.group = 0

    def four(g: Operand, sums: Registers) -> Registers:
        code.group = code.integer("mul", g, NUM_LANES)
        return code.apply("fadd", sums, product())

    return code.total(code.repeat(1, code.count // NUM_LANES, four, product()))


def _get(code: KernelWriter, base: str, offset: Operand) -> str:
    at = code.define(f"getelementptr {code.one}, ptr {base}, i64 {offset}")
    return code.define(f"load {code.one}, ptr {at}, align 8")


def _put(code: KernelWriter, offset: Operand, value: str) -> None:
    at = code.define(f"getelementptr {code.one}, ptr %c, i64 {offset}")
    code.lines.append(f"  store {code.one} {value}, ptr {at}, align 8")
