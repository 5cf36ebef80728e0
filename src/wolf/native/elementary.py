"""exp and log in double precision, written out: the same bits in one lane and in eight, on every machine.

Both are good to about one unit in the last place: the argument is reduced exactly, then a power series is summed that
is shorter than rounding can tell.
"""

import math
from typing import Any

LOG2_HIGH = float.fromhex("0x1.62e42fee00000p-1")  # 33 bits of log 2, so that products with an exponent are exact
LOG2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
HIGHEST, LOWEST = 710.0, -746.0  # beyond them exp is infinite or 0
TERMS_EXP, TERMS_LOG = 14, 12
SMALLEST, LIFT = 2.0**-1022, 54  # below the first the exponent is not where it belongs; 2^54 lifts it there


class _Emit:
    """Shorthand for instructions on doubles."""

    def __init__(self, writer: Any):
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
        """Sum terms[k] x^k, the even and the odd ones apart: half as long to wait for."""
        square = self.op("fmul", x, x)
        parts = []
        for half in (terms[0::2], terms[1::2]):
            total = self.num(half[-1])
            for term in reversed(half[:-1]):
                total = self.op("fadd", self.op("fmul", total, square), self.num(term))
            parts.append(total)
        return self.op("fadd", parts[0], self.op("fmul", x, parts[1]))


def EXPONENTIAL(writer: Any, x: str) -> str:
    """Write exp: x = n log 2 + r with |r| below 0.35, exp(r) by its series, then 2^n in two factors."""
    e = _Emit(writer)
    clipped = e.pick(e.compare("ogt", x, e.num(HIGHEST)), e.num(HIGHEST), x)
    clipped = e.pick(e.compare("olt", clipped, e.num(LOWEST)), e.num(LOWEST), clipped)
    n = writer.intrinsic("floor", [e.op("fadd", e.op("fmul", clipped, e.num(1 / math.log(2))), e.num(0.5))])
    r = e.op("fsub", e.op("fsub", clipped, e.op("fmul", n, e.num(LOG2_HIGH))), e.op("fmul", n, e.num(LOG2_LOW)))
    power = e.series(r, [1 / math.factorial(k) for k in range(TERMS_EXP)])
    number = e.compare("ord", x, x)
    whole = e.cast("fptosi", e.pick(number, n, e.num(0.0)), e.i)
    half = e.int("ashr", whole, e.whole(1))
    for part in (half, e.int("sub", whole, half)):
        bits = e.int("shl", e.int("add", part, e.whole(1023)), e.whole(52))
        power = e.op("fmul", power, e.cast("bitcast", bits, e.f))
    return e.pick(number, power, x)


def LOGARITHM(writer: Any, x: str) -> str:
    """Write log: x = 2^n m with m about 1, log m = 2 artanh((m - 1) / (m + 1)) by its series."""
    e = _Emit(writer)
    tiny = e.compare("olt", x, e.num(SMALLEST))
    bits = e.cast("bitcast", e.pick(tiny, e.op("fmul", x, e.num(2.0**LIFT)), x), e.i)
    # Taking 0x3fe6a09e... (the root of 1/2) off the bits puts m between it and the root of 2.
    above = e.int("sub", bits, e.whole(0x3FE6A09E667F3BCD))
    n = e.int("ashr", above, e.whole(52))
    m = e.cast("bitcast", e.int("sub", bits, e.int("shl", n, e.whole(52))), e.f)
    n = e.int("sub", n, e.pick_int(tiny, e.whole(LIFT), e.whole(0)))
    f = e.op("fsub", m, e.num(1.0))
    s = e.op("fdiv", f, e.op("fadd", e.num(2.0), f))
    square = e.op("fmul", s, s)
    rest = e.series(square, [2 / (2 * k + 3) for k in range(TERMS_LOG)])
    part = e.op("fadd", e.op("fmul", e.op("fmul", s, square), rest), e.op("fadd", s, s))
    exponent = e.cast("sitofp", n, e.f)
    whole = e.op("fadd", e.op("fmul", exponent, e.num(LOG2_LOW)), part)
    whole = e.op("fadd", e.op("fmul", exponent, e.num(LOG2_HIGH)), whole)
    whole = e.pick(e.compare("oeq", x, e.num(0.0)), e.num(-math.inf), whole)
    whole = e.pick(e.compare("olt", x, e.num(0.0)), e.num(math.nan), whole)
    return e.pick(e.compare("olt", x, e.num(math.inf)), whole, x)
