"""Writer of LLVM functions over numbers side by side, in a few registers each, with loops.

With one series a register holds four numbers of it, with several it holds one number of each series. Short loops are
unrolled.
"""

from collections.abc import Callable

import numpy as np

NUM_LANES = 4  # numbers per register of one series
MAX_UNROLLED_ROWS = 8  # rows up to which loops are unrolled

Operand = int | str  # a known number, or the LLVM name of one
Registers = list[str]


class KernelWriter:
    """Writer of the lines of a function.

    Args:
        size: rows of the matrices.
        count: numbers side by side, a multiple of four.
        number: LLVM type of a number.
        lanes: series per register.
    """

    def __init__(self, size: int, count: int, number: str, lanes: int):
        self.size, self.count, self.number, self.lanes = size, count, number, lanes
        self.unit = f"<{NUM_LANES if lanes == 1 else lanes} x {number}>"
        self.one = number if lanes == 1 else self.unit  # type of a number in memory
        self.units = count // NUM_LANES if lanes == 1 else NUM_LANES
        self.unrolled = size <= MAX_UNROLLED_ROWS
        self.lines: list[str] = []
        self.used: set[str] = set()
        self.label, self.fresh = "entry", 0
        self.group: Operand = 0  # offset of the current four numbers, if a register holds only one

    def define(self, text: str) -> str:
        """Write an instruction, and return the name of its result."""
        self.fresh += 1
        self.lines.append(f"  %v{self.fresh} = {text}")
        return f"%v{self.fresh}"

    def integer(self, op: str, a: Operand, b: Operand) -> Operand:
        """Compute with integers, at once where both are constant."""
        if isinstance(a, int) and isinstance(b, int):
            return {"add": a + b, "sub": a - b, "mul": a * b, "lshr": a >> b}[op]
        return self.define(f"{op} i64 {a}, {b}")

    def repeat(
        self, first: Operand, last: Operand, body: Callable[[Operand, Registers], Registers], carried: Registers
    ) -> Registers:
        """Write a loop from `first` up to `last` that carries registers."""
        if self.unrolled and isinstance(first, int) and isinstance(last, int):
            for i in range(first, last):
                carried = body(i, carried)
            return carried
        self.fresh += 1
        name, before = f"l{self.fresh}", self.label
        at = len(self.lines)
        index, phis = f"%{name}.i", [f"%{name}.c{n}" for n in range(len(carried))]
        self.lines += [""] * (3 + len(carried))  # the head, written when the end of the loop is known
        continues = self.define(f"icmp slt i64 {index}, {last}")
        self.lines += [f"  br i1 {continues}, label %{name}.body, label %{name}.end", f"{name}.body:"]
        self.label = f"{name}.body"
        after = body(index, phis)
        self.lines += [f"  %{name}.next = add i64 {index}, 1", f"  br label %{name}", f"{name}.end:"]
        self.lines[at : at + 3 + len(carried)] = [
            f"  br label %{name}",
            f"{name}:",
            f"  {index} = phi i64 [ {first}, %{before} ], [ %{name}.next, %{self.label} ]",
            *(
                f"  {phi} = phi {self.unit} [ {old}, %{before} ], [ {new}, %{self.label} ]"
                for phi, old, new in zip(phis, carried, after, strict=True)
            ),
        ]
        self.label = f"{name}.end"
        return phis

    def each(self, first: Operand, last: Operand, body: Callable[[Operand], None]) -> None:
        """Write a loop from `first` up to `last`."""

        def run(i: Operand, _: Registers) -> Registers:
            body(i)
            return []

        self.repeat(first, last, run, [])

    def back(self, first: Operand, last: Operand, body: Callable[[Operand], None]) -> None:
        """Write the same loop from the last to the first."""
        end = self.integer("add", self.integer("sub", last, 1), first)
        self.each(first, last, lambda i: body(self.integer("sub", end, i)))

    def _place(self, base: str, entry: Operand, unit: int) -> str:
        at = self.integer("mul", entry, self.count)
        if self.lanes > 1:
            at = self.integer("add", at, self.group)
        at = self.integer("add", at, unit * NUM_LANES if self.lanes == 1 else unit)
        return self.define(f"getelementptr {self.one}, ptr {base}, i64 {at}")

    def load(self, base: str, entry: Operand) -> Registers:
        """Load an entry, of all numbers side by side."""
        places = [self._place(base, entry, unit) for unit in range(self.units)]
        return [self.define(f"load {self.unit}, ptr {place}, align 8") for place in places]

    def store(self, base: str, entry: Operand, values: Registers) -> None:
        """Store an entry, of all numbers side by side."""
        for unit, value in enumerate(values):
            self.lines.append(f"  store {self.unit} {value}, ptr {self._place(base, entry, unit)}, align 8")

    def spread(self, base: str, offset: Operand) -> Registers:
        """Load a number and broadcast it."""
        at = self.define(f"getelementptr {self.one}, ptr {base}, i64 {offset}")
        value = self.define(f"load {self.one}, ptr {at}, align 8")
        return [self.splat(value) if self.lanes == 1 else value] * self.units

    def splat(self, value: str) -> str:
        """Broadcast a number to all places of a register."""
        first = self.define(f"insertelement {self.unit} poison, {self.number} {value}, i32 0")
        zeros = self.unit.replace(self.number, "i32")
        return self.define(f"shufflevector {self.unit} {first}, {self.unit} poison, {zeros} zeroinitializer")

    def constant(self, value: float) -> Registers:
        """Broadcast a constant."""
        return [self.splat("0x" + np.array(value, ">f8").tobytes().hex().upper())] * self.units

    def apply(self, op: str, *values: Registers) -> Registers:
        """Write one instruction per register."""
        return [self.define(f"{op} {self.unit} {', '.join(each)}") for each in zip(*values, strict=True)]

    def subtract_product(self, whole: Registers, a: Registers, b: Registers) -> Registers:
        """Subtract a product."""
        return self.apply("fsub", whole, self.apply("fmul", a, b))

    def add_product(self, whole: Registers, a: Registers, b: Registers) -> Registers:
        """Add a product."""
        return self.apply("fadd", whole, self.apply("fmul", a, b))

    def wide(self, count: int) -> None:
        """Set the register width to that many numbers of one series, and an entry to one register."""
        self.unit, self.units = f"<{count} x {self.number}>", 1

    def number_at(self, base: str, offset: Operand) -> Registers:
        """Load one number, broadcast to a register."""
        return self.spread(base, offset)[:1]

    def put_number(self, base: str, offset: Operand, values: Registers) -> None:
        """Store the number that a register holds in all places."""
        value = self.define(f"extractelement {self.unit} {values[0]}, i32 0") if self.lanes == 1 else values[0]
        at = self.define(f"getelementptr {self.one}, ptr {base}, i64 {offset}")
        self.lines.append(f"  store {self.one} {value}, ptr {at}, align 8")

    def unit_at(self, base: str, offset: Operand) -> Registers:
        """Load a register, given how many registers precede it."""
        at = self.define(f"getelementptr {self.unit}, ptr {base}, i64 {offset}")
        return [self.define(f"load {self.unit}, ptr {at}, align 8")]

    def put_unit(self, base: str, offset: Operand, values: Registers) -> None:
        """Store a register, given how many registers precede it."""
        at = self.define(f"getelementptr {self.unit}, ptr {base}, i64 {offset}")
        self.lines.append(f"  store {self.unit} {values[0]}, ptr {at}, align 8")

    def roots(self, values: Registers) -> Registers:
        """Compute square roots."""
        suffix = f"v{self.unit[1:].split()[0]}{'f64' if self.number == 'double' else 'f32'}"
        self.used.add(f"declare {self.unit} @llvm.sqrt.{suffix}({self.unit})")
        return [self.define(f"call {self.unit} @llvm.sqrt.{suffix}({self.unit} {value})") for value in values]

    def unless_positive(self, values: Registers, others: Registers) -> Registers:
        """Select NaN where a number is not positive, and the other numbers elsewhere."""
        truth, zero, nothing = self.unit.replace(self.number, "i1"), self.constant(0.0)[0], self.constant(np.nan)[0]
        fine = self.define(f"fcmp ogt {self.unit} {values[0]}, {zero}")
        return [self.define(f"select {truth} {fine}, {self.unit} {others[0]}, {self.unit} {nothing}")]

    def inverse_root(self, values: Registers, least: Registers) -> Registers:
        """Compute 1 / √max(x, least); NaN stays."""
        truth, kept = self.unit.replace(self.number, "i1"), []
        for value, low in zip(values, least, strict=True):
            below = self.define(f"fcmp olt {self.unit} {value}, {low}")
            kept.append(self.define(f"select {truth} {below}, {self.unit} {low}, {self.unit} {value}"))
        return self.apply("fdiv", self.constant(1.0), self.roots(kept))

    def total(self, values: Registers) -> str:
        """Sum over shifts: four partial sums, added crosswise."""
        if self.lanes == 1:
            whole, pair = values[0], f"<2 x {self.number}>"
            shuffle = f"shufflevector {self.unit} {whole}, {self.unit} poison, <2 x i32>"
            low, high = (self.define(f"{shuffle} <i32 {a}, i32 {a + 1}>") for a in (0, 2))
            both = self.define(f"fadd {pair} {low}, {high}")
            ends = [self.define(f"extractelement {pair} {both}, i32 {i}") for i in (0, 1)]
            return self.define(f"fadd {self.number} {ends[0]}, {ends[1]}")
        low, high = (self.define(f"fadd {self.unit} {values[i]}, {values[i + 2]}") for i in (0, 1))
        return self.define(f"fadd {self.unit} {low}, {high}")
