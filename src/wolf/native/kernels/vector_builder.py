"""Lines of a function in LLVM's language over numbers that lie side by side, a few registers each; with loops.

With one series a register holds four of them, with several it holds one of each series. Short loops are written out.
"""

from collections.abc import Callable

import numpy as np

FOUR = 4  # numbers side by side
UNROLLED = 8  # rows up to which there is a line for each operation

Operand = int | str  # a number that is known, or LLVM's name of one
Registers = list[str]


class Code:
    """Writes lines.

    Args:
        size: rows of the matrices.
        count: numbers side by side, a multiple of four.
        number: LLVM's name of a number.
        lanes: series in one register.
    """

    def __init__(self, size: int, count: int, number: str, lanes: int):
        self.size, self.count, self.number, self.lanes = size, count, number, lanes
        self.unit = f"<{FOUR if lanes == 1 else lanes} x {number}>"
        self.one = number if lanes == 1 else self.unit  # a number in memory
        self.units = count // FOUR if lanes == 1 else FOUR
        self.unrolled = size <= UNROLLED
        self.lines: list[str] = []
        self.used: set[str] = set()
        self.label, self.fresh = "entry", 0
        self.group: Operand = 0  # which four, if a register holds but one

    def define(self, text: str) -> str:
        """Write an instruction, and give the name of its result."""
        self.fresh += 1
        self.lines.append(f"  %v{self.fresh} = {text}")
        return f"%v{self.fresh}"

    def integer(self, op: str, a: Operand, b: Operand) -> Operand:
        """Compute with whole numbers, at once where they are known."""
        if isinstance(a, int) and isinstance(b, int):
            return {"add": a + b, "sub": a - b, "mul": a * b, "lshr": a >> b}[op]
        return self.define(f"{op} i64 {a}, {b}")

    def repeat(
        self, first: Operand, last: Operand, body: Callable[[Operand, Registers], Registers], carried: Registers
    ) -> Registers:
        """Go through numbers from `first` up to `last`, and hand registers on."""
        if self.unrolled and isinstance(first, int) and isinstance(last, int):
            for i in range(first, last):
                carried = body(i, carried)
            return carried
        self.fresh += 1
        name, before = f"l{self.fresh}", self.label
        at = len(self.lines)
        index, phis = f"%{name}.i", [f"%{name}.c{n}" for n in range(len(carried))]
        self.lines += [""] * (3 + len(carried))  # the head, written when the end of the loop is known
        more = self.define(f"icmp slt i64 {index}, {last}")
        self.lines += [f"  br i1 {more}, label %{name}.body, label %{name}.end", f"{name}.body:"]
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
        """Go through numbers from `first` up to `last`."""

        def run(i: Operand, _: Registers) -> Registers:
            body(i)
            return []

        self.repeat(first, last, run, [])

    def back(self, first: Operand, last: Operand, body: Callable[[Operand], None]) -> None:
        """Go through the same numbers from the last to the first."""
        end = self.integer("add", self.integer("sub", last, 1), first)
        self.each(first, last, lambda i: body(self.integer("sub", end, i)))

    def _place(self, base: str, entry: Operand, unit: int) -> str:
        at = self.integer("mul", entry, self.count)
        if self.lanes > 1:
            at = self.integer("add", at, self.group)
        at = self.integer("add", at, unit * FOUR if self.lanes == 1 else unit)
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
        """Load a number that is the same for all."""
        at = self.define(f"getelementptr {self.one}, ptr {base}, i64 {offset}")
        value = self.define(f"load {self.one}, ptr {at}, align 8")
        return [self.splat(value) if self.lanes == 1 else value] * self.units

    def splat(self, value: str) -> str:
        """Put one number into all places of a register."""
        first = self.define(f"insertelement {self.unit} poison, {self.number} {value}, i32 0")
        zeros = self.unit.replace(self.number, "i32")
        return self.define(f"shufflevector {self.unit} {first}, {self.unit} poison, {zeros} zeroinitializer")

    def known(self, value: float) -> Registers:
        """Write a number that is known."""
        return [self.splat("0x" + np.array(value, ">f8").tobytes().hex().upper())] * self.units

    def apply(self, op: str, *values: Registers) -> Registers:
        """Write one instruction for each register."""
        return [self.define(f"{op} {self.unit} {', '.join(each)}") for each in zip(*values, strict=True)]

    def less(self, whole: Registers, a: Registers, b: Registers) -> Registers:
        """Subtract a product."""
        return self.apply("fsub", whole, self.apply("fmul", a, b))

    def more(self, whole: Registers, a: Registers, b: Registers) -> Registers:
        """Add a product."""
        return self.apply("fadd", whole, self.apply("fmul", a, b))

    def wide(self, count: int) -> None:
        """Let a register hold so many numbers of one series, and an entry be one register."""
        self.unit, self.units = f"<{count} x {self.number}>", 1

    def number_at(self, base: str, offset: Operand) -> Registers:
        """Load one number, for all places of a register."""
        return self.spread(base, offset)[:1]

    def put_number(self, base: str, offset: Operand, values: Registers) -> None:
        """Store the number that is in all places of a register."""
        value = self.define(f"extractelement {self.unit} {values[0]}, i32 0") if self.lanes == 1 else values[0]
        at = self.define(f"getelementptr {self.one}, ptr {base}, i64 {offset}")
        self.lines.append(f"  store {self.one} {value}, ptr {at}, align 8")

    def unit_at(self, base: str, offset: Operand) -> Registers:
        """Load a register, given how many of them come before it."""
        at = self.define(f"getelementptr {self.unit}, ptr {base}, i64 {offset}")
        return [self.define(f"load {self.unit}, ptr {at}, align 8")]

    def put_unit(self, base: str, offset: Operand, values: Registers) -> None:
        """Store a register, given how many of them come before it."""
        at = self.define(f"getelementptr {self.unit}, ptr {base}, i64 {offset}")
        self.lines.append(f"  store {self.unit} {values[0]}, ptr {at}, align 8")

    def roots(self, values: Registers) -> Registers:
        """Take square roots."""
        suffix = f"v{self.unit[1:].split()[0]}{'f64' if self.number == 'double' else 'f32'}"
        self.used.add(f"declare {self.unit} @llvm.sqrt.{suffix}({self.unit})")
        return [self.define(f"call {self.unit} @llvm.sqrt.{suffix}({self.unit} {value})") for value in values]

    def unless_positive(self, values: Registers, others: Registers) -> Registers:
        """Give NaN in all places of what is not positive, and the others elsewhere."""
        truth, zero, nothing = self.unit.replace(self.number, "i1"), self.known(0.0)[0], self.known(np.nan)[0]
        fine = self.define(f"fcmp ogt {self.unit} {values[0]}, {zero}")
        return [self.define(f"select {truth} {fine}, {self.unit} {others[0]}, {self.unit} {nothing}")]

    def inverse_root(self, values: Registers, least: Registers) -> Registers:
        """Compute 1 / √max(x, least); NaN stays."""
        truth, kept = self.unit.replace(self.number, "i1"), []
        for value, low in zip(values, least, strict=True):
            below = self.define(f"fcmp olt {self.unit} {value}, {low}")
            kept.append(self.define(f"select {truth} {below}, {self.unit} {low}, {self.unit} {value}"))
        return self.apply("fdiv", self.known(1.0), self.roots(kept))

    def total(self, values: Registers) -> str:
        """Add up in four places, and these crosswise."""
        if self.lanes == 1:
            whole, pair = values[0], f"<2 x {self.number}>"
            shuffle = f"shufflevector {self.unit} {whole}, {self.unit} poison, <2 x i32>"
            low, high = (self.define(f"{shuffle} <i32 {a}, i32 {a + 1}>") for a in (0, 2))
            both = self.define(f"fadd {pair} {low}, {high}")
            ends = [self.define(f"extractelement {pair} {both}, i32 {i}") for i in (0, 1)]
            return self.define(f"fadd {self.number} {ends[0]}, {ends[1]}")
        low, high = (self.define(f"fadd {self.unit} {values[i]}, {values[i + 2]}") for i in (0, 1))
        return self.define(f"fadd {self.unit} {low}, {high}")
