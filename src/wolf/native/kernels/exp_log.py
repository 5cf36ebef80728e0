"""exp and log in double precision, as instructions: the same bits in one lane and in eight, on every machine.

Both are accurate to about one unit in the last place: the argument is reduced exactly, then a polynomial is evaluated
whose error is below rounding. Subnormal results are 0, as in XLA.
"""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wolf.native.codegen.llvm_instructions import InstructionWriter

LOG2_HIGH = float.fromhex("0x1.62e42fee00000p-1")  # 33 bits of log 2, so that products with an exponent are exact
LOG2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
NUM_LOG_TERMS = 12
HIGHEST, LOWEST = 710.0, -707.9  # beyond them exp is infinite or 0
ROUNDING = 1.5 * 2.0**52  # adding it rounds a number to an integer, which the last bits of the sum hold
# Coefficients of (exp(r) - 1 - r) / r² for |r| below log(2) / 2, to 2e-17 of exp(r): the interpolant at ten Chebyshev
# points, two terms less than the power series
EXP_TERMS = [
    float.fromhex(each)
    for each in (
        "0x1.0000000000001p-1",
        "0x1.5555555555556p-3",
        "0x1.5555555553d63p-5",
        "0x1.11111111109b3p-7",
        "0x1.6c16c1788bd90p-10",
        "0x1.a01a01a7c41d5p-13",
        "0x1.a019b90d2ae7ap-16",
        "0x1.71de0dae63bb3p-19",
        "0x1.289185613a3d6p-22",
        "0x1.af38a9b0ec855p-26",
    )
]
SMALLEST, LIFT = 2.0**-1022, 54  # below the first a number is subnormal; a factor 2^54 makes it normal


class _Emit:
    """Abbreviations of instructions on doubles."""

    def __init__(self, writer: "InstructionWriter"):
        self.w, self.f, self.b = writer, writer.types["f"], writer.types["b"]
        self.i = writer.wide("i64")

    def num(self, value: float) -> str:
        return self.w.literal(float(value), "f")

    def whole(self, value: int) -> str:
        one = f"i64 {value}"
        return str(value) if self.w.lanes == 1 else "<" + ", ".join([one] * self.w.lanes) + ">"

    def op(self, name: str, a: str, b: str) -> str:
        return self.w.define(f"{name} {self.f} {a}, {b}")

    def int(self, name: str, a: str, b: str) -> str:
        return self.w.define(f"{name} {self.i} {a}, {b}")

    def pick(self, truth: str, yes: str, no: str) -> str:
        return self.w.define(f"select {self.b} {truth}, {self.f} {yes}, {self.f} {no}")

    def pick_int(self, truth: str, yes: str, no: str) -> str:
        return self.w.define(f"select {self.b} {truth}, {self.i} {yes}, {self.i} {no}")

    def compare(self, how: str, a: str, b: str) -> str:
        return self.w.define(f"fcmp {how} {self.f} {a}, {b}")

    def cast(self, how: str, a: str, to: str) -> str:
        return self.w.define(f"{how} {self.f if to == self.i else self.i} {a} to {to}")

    def series(self, x: str, terms: list[float]) -> str:
        """Evaluate Σ terms[k] x^k, even and odd terms separately, which halves the latency."""
        square = self.op("fmul", x, x)
        parts = []
        for half in (terms[0::2], terms[1::2]):
            total = self.num(half[-1])
            for term in reversed(half[:-1]):
                total = self.op("fadd", self.op("fmul", total, square), self.num(term))
            parts.append(total)
        return self.op("fadd", parts[0], self.op("fmul", x, parts[1]))

    def estrin(self, x: str, terms: list[float], squares: list[str]) -> str:
        """Evaluate Σ terms[k] x^k by twos, fours, eights (Estrin 1960), given x², x⁴, ...: with low latency."""
        parts = [self.num(term) for term in terms]
        for power in [x, *squares][: (len(terms) - 1).bit_length()]:
            pairs = zip(parts[0::2], parts[1::2], strict=True)
            parts = [self.op("fadd", low, self.op("fmul", high, power)) for low, high in pairs]
        return parts[0]


def write_exp(writer: "InstructionWriter", x: str) -> str:
    """Write exp: x = n log 2 + r with |r| below 0.35, then 2^(n - 1) times 2 exp(r), so that n may be 1024."""
    e = _Emit(writer)
    rounded = e.op("fadd", e.op("fmul", x, e.num(1 / math.log(2))), e.num(ROUNDING))
    n = e.op("fsub", rounded, e.num(ROUNDING))
    r = e.op("fsub", e.op("fsub", x, e.op("fmul", n, e.num(LOG2_HIGH))), e.op("fmul", n, e.num(LOG2_LOW)))
    squares = [e.op("fmul", r, r)]
    for _ in range(2):
        squares.append(e.op("fmul", squares[-1], squares[-1]))
    terms = [2.0 * term for term in EXP_TERMS]
    two, four, eight = (
        e.op("fmul", e.estrin(r, some, squares), square)
        for some, square in zip((terms[:2], terms[2:6], terms[6:]), squares, strict=True)
    )
    rest = e.op("fadd", e.op("fadd", e.op("fadd", r, r), two), e.op("fadd", four, eight))
    power = e.op("fadd", e.num(2.0), rest)
    exponent = e.int("shl", e.cast("bitcast", rounded, e.i), e.whole(52))
    scale = e.cast("bitcast", e.int("add", exponent, e.whole(1022 << 52)), e.f)
    # Out-of-range arguments are replaced at the end, outside the critical path.
    inside = e.pick(e.compare("olt", x, e.num(LOWEST)), e.num(0.0), e.op("fmul", power, scale))
    return e.pick(e.compare("ogt", x, e.num(HIGHEST)), e.num(math.inf), inside)


def write_log(writer: "InstructionWriter", x: str) -> str:
    """Write log: x = 2^n m with m about 1, log m = 2 artanh((m - 1) / (m + 1)) by its series."""
    e = _Emit(writer)
    tiny = e.compare("olt", x, e.num(SMALLEST))
    bits = e.cast("bitcast", e.pick(tiny, e.op("fmul", x, e.num(2.0**LIFT)), x), e.i)
    # Subtracting 0x3fe6a09e... (the root of 1/2) from the bits puts m between it and the root of 2.
    above = e.int("sub", bits, e.whole(0x3FE6A09E667F3BCD))
    n = e.int("ashr", above, e.whole(52))
    m = e.cast("bitcast", e.int("sub", bits, e.int("shl", n, e.whole(52))), e.f)
    n = e.int("sub", n, e.pick_int(tiny, e.whole(LIFT), e.whole(0)))
    f = e.op("fsub", m, e.num(1.0))
    s = e.op("fdiv", f, e.op("fadd", e.num(2.0), f))
    square = e.op("fmul", s, s)
    rest = e.series(square, [2 / (2 * k + 3) for k in range(NUM_LOG_TERMS)])
    part = e.op("fadd", e.op("fmul", e.op("fmul", s, square), rest), e.op("fadd", s, s))
    exponent = e.cast("sitofp", n, e.f)
    whole = e.op("fadd", e.op("fmul", exponent, e.num(LOG2_LOW)), part)
    whole = e.op("fadd", e.op("fmul", exponent, e.num(LOG2_HIGH)), whole)
    whole = e.pick(e.compare("oeq", x, e.num(0.0)), e.num(-math.inf), whole)
    whole = e.pick(e.compare("olt", x, e.num(0.0)), e.num(math.nan), whole)
    return e.pick(e.compare("olt", x, e.num(math.inf)), whole, x)
