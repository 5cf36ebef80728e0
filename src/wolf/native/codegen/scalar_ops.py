"""The scalar operations of a graph as LLVM instructions.

There are no fast-math flags, so that nothing is contracted, reordered, or assumed to be finite. Operations that are in
no table below are calls of the C library.
"""

from collections.abc import Callable, Sequence

from wolf.native.codegen.llvm_instructions import InstructionWriter
from wolf.native.kernels.exp_log import write_exp, write_log

ARITHMETIC = {
    "add": {"f": "fadd", "i": "add", "b": "or"},
    "sub": {"f": "fsub", "i": "sub"},
    "mul": {"f": "fmul", "i": "mul", "b": "and"},
    "div": {"f": "fdiv", "i": "sdiv"},
    "and": {"i": "and", "b": "and"},
    "or": {"i": "or", "b": "or"},
    "xor": {"i": "xor", "b": "xor"},
}

COMPARISONS = {
    "lt": {"f": "fcmp olt", "i": "icmp slt", "b": "icmp ult"},
    "le": {"f": "fcmp ole", "i": "icmp sle", "b": "icmp ule"},
    "gt": {"f": "fcmp ogt", "i": "icmp sgt", "b": "icmp ugt"},
    "ge": {"f": "fcmp oge", "i": "icmp sge", "b": "icmp uge"},
    "eq": {"f": "fcmp oeq", "i": "icmp eq", "b": "icmp eq"},
    "ne": {"f": "fcmp une", "i": "icmp ne", "b": "icmp ne"},
}


def write_operation(out: InstructionWriter, op: str, args: list[str], kinds: Sequence[str]) -> str:
    """Write one operation, and return the name of its result.

    Args:
        out: the writer.
        op: the operation.
        args: names of its operands.
        kinds: of its operands.
    """
    of = kinds[-1]
    kind = out.types[of]
    if op == "select":
        return out.define(f"select {out.types['b']} {args[0]}, {kind} {args[2]}, {kind} {args[1]}")
    if op in ARITHMETIC:
        return out.define(f"{ARITHMETIC[op][of]} {kind} {', '.join(args)}")
    if op in COMPARISONS:
        return out.define(f"{COMPARISONS[op][of]} {kind} {args[0]}, {args[1]}")
    return OPERATIONS[op](out, args, of) if op in OPERATIONS else out.call_library(op, args)


def _neg(out: InstructionWriter, args: list[str], of: str) -> str:
    """Negate."""
    kind = out.types[of]
    return out.define(f"fneg {kind} {args[0]}" if of == "f" else f"sub {kind} {out.literal(0, 'i')}, {args[0]}")


def _not(out: InstructionWriter, args: list[str], of: str) -> str:
    """Invert a truth value, or the bits of an integer."""
    ones = out.literal(True, "b") if of == "b" else out.literal(-1, "i")
    return out.define(f"xor {out.types[of]} {args[0]}, {ones}")


def _abs(out: InstructionWriter, args: list[str], of: str) -> str:
    """Compute an absolute value."""
    if of == "f":
        return out.intrinsic("fabs", args)
    below = out.define(f"icmp slt {out.types[of]} {args[0]}, {out.literal(0, of)}")
    minus = _neg(out, args, of)
    return out.define(f"select {out.types['b']} {below}, {out.types[of]} {minus}, {out.types[of]} {args[0]}")


def _sqrt(out: InstructionWriter, args: list[str], of: str) -> str:
    """Compute a square root."""
    return out.intrinsic("sqrt", args)


def _floor(out: InstructionWriter, args: list[str], of: str) -> str:
    """Round down."""
    return out.intrinsic("floor", args)


def _ceil(out: InstructionWriter, args: list[str], of: str) -> str:
    """Round up."""
    return out.intrinsic("ceil", args)


def _max(out: InstructionWriter, args: list[str], of: str) -> str:
    """Compute the larger of two numbers."""
    return _extreme(out, "ogt" if of == "f" else "sgt", args, of)


def _min(out: InstructionWriter, args: list[str], of: str) -> str:
    """Compute the smaller of two numbers."""
    return _extreme(out, "olt" if of == "f" else "slt", args, of)


def _extreme(out: InstructionWriter, compare: str, args: list[str], of: str) -> str:
    """Compute the larger or smaller of two numbers; NaN propagates, as in XLA."""
    kind, truth = out.types[of], out.types["b"]
    if of == "b":
        return out.define(f"{'or' if compare == 'sgt' else 'and'} {kind} {args[0]}, {args[1]}")
    # Processors have one instruction for it where one of both is constant, and so not NaN.
    known = [not arg.startswith("%") for arg in args]
    compare = f"u{compare[1:]}" if of == "f" and known[1] else compare
    first = out.define(f"{'fcmp' if of == 'f' else 'icmp'} {compare} {kind} {args[0]}, {args[1]}")
    if of == "f" and not any(known):
        missing = out.define(f"fcmp uno {kind} {args[0]}, {args[0]}")
        first = out.define(f"or {truth} {first}, {missing}")
    return out.define(f"select {truth} {first}, {kind} {args[0]}, {kind} {args[1]}")


def _finite(out: InstructionWriter, args: list[str], of: str) -> str:
    """Test whether a number is finite."""
    size = out.intrinsic("fabs", args)
    return out.define(f"fcmp olt {out.types['f']} {size}, {out.literal(float('inf'), 'f')}")


def _to_f(out: InstructionWriter, args: list[str], of: str) -> str:
    """Convert to a floating-point number."""
    how = "sitofp" if of == "i" else "uitofp"
    return out.define(f"{how} {out.types[of]} {args[0]} to {out.types['f']}")


def _to_i(out: InstructionWriter, args: list[str], of: str) -> str:
    """Convert to an integer; out-of-range numbers saturate."""
    if of == "b":
        return out.define(f"zext {out.types['b']} {args[0]} to {out.types['i']}")
    name = f"@llvm.fptosi.sat.{out.suffix('i32')}.{out.suffix(out.number)}"
    out.used.add(f"declare {out.types['i']} {name}({out.types['f']})")
    return out.define(f"call {out.types['i']} {name}({out.types['f']} {args[0]})")


def _to_b(out: InstructionWriter, args: list[str], of: str) -> str:
    """Test whether a number is not zero."""
    compare = "fcmp une" if of == "f" else "icmp ne"
    return out.define(f"{compare} {out.types[of]} {args[0]}, {out.literal(0, of)}")


def _exp(out: InstructionWriter, args: list[str], of: str) -> str:
    """Compute exp; in single precision by the C library."""
    return write_exp(out, args[0]) if out.number == "double" else out.call_library("exp", args)


def _log(out: InstructionWriter, args: list[str], of: str) -> str:
    """Compute log; in single precision by the C library."""
    return write_log(out, args[0]) if out.number == "double" else out.call_library("log", args)


def _rem(out: InstructionWriter, args: list[str], of: str) -> str:
    """Compute a remainder with the sign of the dividend; of floating-point numbers by the C library."""
    return out.define(f"srem {out.types[of]} {', '.join(args)}") if of == "i" else out.call_library("rem", args)


OPERATIONS: dict[str, Callable[[InstructionWriter, list[str], str], str]] = {
    "neg": _neg,
    "not": _not,
    "abs": _abs,
    "sqrt": _sqrt,
    "floor": _floor,
    "ceil": _ceil,
    "max": _max,
    "min": _min,
    "finite": _finite,
    "to_f": _to_f,
    "to_i": _to_i,
    "to_b": _to_b,
    "rem": _rem,
    "exp": _exp,
    "log": _log,
}
