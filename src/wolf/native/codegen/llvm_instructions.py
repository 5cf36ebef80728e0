"""Lines of an LLVM function: names, types and constants, for one number or for several per register."""

import struct

# Functions of the C library that the code may call; in single precision their names end in f.
C_LIBRARY = frozenset(
    "acos asin atan atan2 cos cosh erf erfc exp expm1 fmod lgamma log log1p pow sin sinh tan tanh".split()  # noqa: SIM905
)


class InstructionWriter:
    """Writer of LLVM instructions.

    Args:
        number: LLVM type of a number, "double" or "float".
        lanes: number of series per register.
    """

    def __init__(self, number: str, lanes: int):
        self.number = number
        self.set_lanes(lanes)
        self.lines: list[str] = []
        self.used: set[str] = set()  # declarations and definitions that the lines refer to
        self.label = "entry"
        self._fresh = 0

    def set_lanes(self, lanes: int) -> None:
        """Set how many numbers a register holds."""
        self.lanes = lanes
        self.types = {"f": self.wide(self.number), "i": self.wide("i32"), "b": self.wide("i1")}

    def wide(self, one: str) -> str:
        """Return the type of a register with as many numbers as there are lanes."""
        return one if self.lanes == 1 else f"<{self.lanes} x {one}>"

    def add(self, text: str) -> None:
        """Write a line."""
        self.lines.append(f"  {text}")

    def fresh(self, prefix: str = "v") -> str:
        """Return a new name."""
        self._fresh += 1
        return f"%{prefix}{self._fresh}"

    def define(self, text: str) -> str:
        """Write an instruction, and return the name of its result."""
        name = self.fresh()
        self.add(f"{name} = {text}")
        return name

    def start(self, label: str) -> None:
        """Begin a basic block."""
        self.lines.append(f"{label}:")
        self.label = label

    def literal(self, value: float, kind: str) -> str:
        """Format a constant, in all lanes."""
        if kind == "b":
            one = "true" if value else "false"
        else:
            one = str(value) if kind == "i" else "0x" + struct.pack(">d", value).hex().upper()
        scalar = {"f": self.number, "i": "i32", "b": "i1"}[kind]
        return one if self.lanes == 1 else "<" + ", ".join([f"{scalar} {one}"] * self.lanes) + ">"

    def splat(self, scalar: str, of: str) -> str:
        """Broadcast a number to all lanes."""
        if self.lanes == 1:
            return scalar
        kind = self.wide(of)
        first = self.define(f"insertelement {kind} poison, {of} {scalar}, i32 0")
        return self.define(f"shufflevector {kind} {first}, {kind} poison, {self.wide('i32')} zeroinitializer")

    def suffix(self, one: str) -> str:
        """Return LLVM's abbreviation of a type in names of intrinsic functions."""
        short = {"double": "f64", "float": "f32"}.get(one, one)
        return short if self.lanes == 1 else f"v{self.lanes}{short}"

    def intrinsic(self, name: str, args: list[str]) -> str:
        """Call an LLVM intrinsic."""
        kind = self.types["f"]
        full = f"@llvm.{name}.{self.suffix(self.number)}"
        self.used.add(f"declare {kind} {full}({', '.join([kind] * len(args))})")
        return self.define(f"call {kind} {full}({', '.join(f'{kind} {arg}' for arg in args)})")

    def call_library(self, op: str, args: list[str]) -> str:
        """Call the C library, lane by lane."""
        op = {"rem": "fmod"}.get(op, op)
        if op not in C_LIBRARY:
            raise KeyError(f"there are no instructions for the operation {op!r}")
        name = op if self.number == "double" else op + "f"
        self.used.add(f"declare {self.number} @{name}({', '.join([self.number] * len(args))})")
        kind = self.types["f"]
        if self.lanes == 1:
            return self.define(f"call {kind} @{name}({', '.join(f'{kind} {arg}' for arg in args)})")
        whole = "poison"
        for lane in range(self.lanes):
            each = [self.define(f"extractelement {kind} {arg}, i32 {lane}") for arg in args]
            one = self.define(f"call {self.number} @{name}({', '.join(f'{self.number} {arg}' for arg in each)})")
            whole = self.define(f"insertelement {kind} {whole}, {self.number} {one}, i32 {lane}")
        return whole
