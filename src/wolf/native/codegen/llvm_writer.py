"""Nodes of a graph as LLVM instructions, for one number or for eight per register.

There are no fast-math flags, so that nothing is contracted, reordered, or assumed to be finite.
"""

import math
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

from wolf.native.codegen import copy_tables
from wolf.native.codegen.copy_tables import Home
from wolf.native.ir.graph import Graph
from wolf.native.kernels import cholesky, matmul, shifted_inverse_loops
from wolf.native.kernels.exp_log import write_exp, write_log


class Writer:
    """Writer of nodes as LLVM instructions.

    Args:
        graph: of the step.
        lanes: number of series per register.
    """

    def __init__(self, graph: Graph, lanes: int):
        self.graph, self.lanes = graph, lanes
        self.number = "double" if graph.dtype.itemsize == 8 else "float"
        self.types = {"f": self.wide(self.number), "i": self.wide("i32"), "b": self.wide("i1")}
        self.bytes = (8 if self.number == "double" else 4) * lanes  # bytes of a number, of all lanes
        self.lines: list[str] = []
        self.names: dict[int, str] = {}
        self.used: set[str] = set()
        self.label = "entry"
        self.allocations: list[str] = []  # allocations of matrices, at the beginning of the function
        self.homes: dict[int, Home] = {}  # locations of nodes in memory; those of kernel results follow from the kernel
        self._matrices: dict[tuple, str] = {}  # addresses of matrices in memory, by their nodes
        self._loaded: dict[int, str] = {}  # names of numbers loaded from memory
        self._fresh = 0

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

    def literal(self, value: Any, kind: str) -> str:
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

    def name(self, number: int) -> str:
        """Return the LLVM name of a node, or its value; a number in memory is loaded."""
        node = self.graph.nodes[number]
        if node.op == "const":
            return self.literal(node.value, node.kind)
        if number in self.names:
            return self.names[number]
        if number not in self._loaded:
            base, at = self._location(number)
            place = self.define(f"getelementptr {self.types['f']}, ptr {base}, i64 {at}")
            self._loaded[number] = self.define(f"load {self.types['f']}, ptr {place}, align 8")
        return self._loaded[number]

    def _location(self, number: int) -> Home:
        """Return the location of a number in memory."""
        if number in self.homes:
            return self.homes[number]
        loop, part = self.graph.nodes[number].args
        return Home(self.names[loop], self.graph.nodes[loop].value.place(part, self.lanes))

    def _is_computed(self, number: int) -> bool:
        """Return whether a node has been computed, or is in memory."""
        return number in self.names or self._is_in_memory(number)

    def _is_in_memory(self, number: int) -> bool:
        node = self.graph.nodes[number]
        return number in self.homes or (node.op == "part" and node.args[0] in self.names)

    def fill(self, base: str, numbers: Sequence[int], at: Sequence[int], lasts: bool = True) -> None:
        """Store numbers at offsets behind an address, each from a register or from memory.

        Args:
            base: the address.
            numbers: nodes.
            at: the offset of each.
            lasts: whether they stay there until the next step, so that others may read them there.
        """
        many = len(numbers) >= copy_tables.MIN_NUMBERS
        moved: list[tuple[int, Home]] = []
        for number, place in zip(numbers, at, strict=True):
            if many and self._is_in_memory(number):
                moved.append((place, self._location(number)))
                continue
            target = self.define(f"getelementptr {self.types['f']}, ptr {base}, i64 {place}")
            self.add(f"store {self.types['f']} {self.name(number)}, ptr {target}, align 8")
            if many and lasts and self.graph.nodes[number].op != "const":
                self.homes[number] = Home(base, place)
        copy_tables.move(self, base, moved)

    def block(self, block: int, alive: set[int], done: set[int]) -> None:
        """Write the needed nodes of one block, in their order."""
        self.write(sorted(n for n in alive if self.graph.nodes[n].block == block), alive, done)

    def write(self, mine: list[int], alive: set[int], done: set[int]) -> None:
        """Write nodes of one block.

        Args:
            mine: the nodes, in topological order.
            alive: all needed nodes, of other blocks too.
            done: branches that are written already.
        """
        for place, number in enumerate(mine):
            node = self.graph.nodes[number]
            if number in self.names or node.op == "part":  # computed together with others, or loaded when needed
                continue
            if node.op in VECTORIZED and self.lanes == 1 and len(row := self._vectorizable_run(mine[place:])) > 1:
                self._write_vectorized(node.op, row)
            elif node.op == "phi":
                if node.args[0] not in done:
                    done.add(node.args[0])
                    self.branch(node.args[0], alive, done)
            elif node.op == "dense":
                self.names[number] = self._call_kernel(node)
            elif node.op not in ("const", "input"):
                self.names[number] = self.operation(node)

    def _vectorizable_run(self, numbers: list[int]) -> list[int]:
        """Return the first node and its successors with the same operation, on operands that are computed."""
        nodes, first = self.graph.nodes, self.graph.nodes[numbers[0]]
        row = takewhile(
            lambda n: nodes[n].op == first.op and self._is_computed(nodes[n].args[0]), numbers[:MAX_VECTORIZED]
        )
        return list(row) if self.number == "double" else []

    def _write_vectorized(self, op: str, numbers: list[int]) -> None:
        """Write a long operation for several numbers at once: contiguous entries of one array."""
        before, whole = (self.lanes, self.types), "poison"
        inputs = [self.name(self.graph.nodes[number].args[0]) for number in numbers]
        self.lanes = len(numbers)
        self.types = {"f": self.wide(self.number), "i": self.wide("i32"), "b": self.wide("i1")}
        for lane, given in enumerate(inputs):
            whole = self.define(f"insertelement {self.types['f']} {whole}, {self.number} {given}, i32 {lane}")
        made, kind = VECTORIZED[op](self, whole), self.types["f"]
        self.lanes, self.types = before
        for lane, number in enumerate(numbers):
            self.names[number] = self.define(f"extractelement {kind} {made}, i32 {lane}")

    def branch(self, which: int, alive: set[int], done: set[int]) -> None:
        """Write a choice: one of two blocks; with several lanes each block that any lane selects."""
        branch = self.graph.branches[which]
        phis = [n for n in sorted(alive) if self.graph.nodes[n].op == "phi" and self.graph.nodes[n].args[0] == which]
        pairs = [branch.results[self.graph.nodes[n].args[1]] for n in phis]
        kinds = [self.types[self.graph.nodes[n].kind] for n in phis]
        chosen = self.name(branch.chosen)
        ends: list[list[str]] = []
        if self.lanes == 1:
            labels = [self.fresh(name)[1:] for name in ("no", "yes", "join")]
            self.add(f"br i1 {chosen}, label %{labels[1]}, label %{labels[0]}")
            froms = []
            for side in (0, 1):
                self.start(labels[side])
                with self._isolated():
                    self.block(branch.blocks[side], alive, done)
                    ends.append([self.name(pair[side]) for pair in pairs])
                froms.append(self.label)
                self.add(f"br label %{labels[2]}")
            self.start(labels[2])
            for n, kind, no, yes in zip(phis, kinds, *ends, strict=True):
                self.names[n] = self.define(f"phi {kind} [ {no}, %{froms[0]} ], [ {yes}, %{froms[1]} ]")
            return
        for side in (0, 1):
            ends.append(self._if_any(branch, side, pairs, kinds, chosen, alive, done))
        for n, kind, no, yes in zip(phis, kinds, *ends, strict=True):
            self.names[n] = self.define(f"select {self.types['b']} {chosen}, {kind} {yes}, {kind} {no}")

    def _if_any(
        self,
        branch: Any,
        side: int,
        pairs: list[tuple[int, int]],
        kinds: list[str],
        chosen: str,
        alive: set[int],
        done: set[int],
    ) -> list[str]:
        """Write one side of a choice, skipped where no lane selects it."""
        truth = self.types["b"]
        everywhere = self.literal(True, "b")
        wanted = chosen if side else self.define(f"xor {truth} {chosen}, {everywhere}")
        suffix = f"v{self.lanes}i1"
        any_lane = self.define(f"call i1 @llvm.vector.reduce.or.{suffix}({truth} {wanted})")
        self.used.add(f"declare i1 @llvm.vector.reduce.or.{suffix}({truth})")
        inside, after, before = self.fresh("side")[1:], self.fresh("after")[1:], self.label
        self.add(f"br i1 {any_lane}, label %{inside}, label %{after}")
        self.start(inside)
        with self._isolated():
            self.block(branch.blocks[side], alive, done)
            values = [self.name(pair[side]) for pair in pairs]
        end = self.label
        self.add(f"br label %{after}")
        self.start(after)
        return [
            self.define(f"phi {kind} [ {value}, %{end} ], [ zeroinitializer, %{before} ]")
            for kind, value in zip(kinds, values, strict=True)
        ]

    @contextmanager
    def _isolated(self) -> Iterator[None]:
        """Restore afterwards what is known to be in memory: the other side of a choice may not store it."""
        before = dict(self._matrices), dict(self._loaded), dict(self.homes)
        try:
            yield
        finally:
            self._matrices, self._loaded, self.homes = before

    def matrix(self, rows: int, columns: int, zeros: bool = False) -> str:
        """Allocate a matrix; the padding of its rows stays zero, with `zeros` also entries that are never stored."""
        name, count = self.fresh("m"), rows * matmul.stride(columns, self.lanes)
        self.allocations.append(f"  {name} = alloca [{count} x {self.types['f']}], align 64")
        if zeros or matmul.stride(columns, self.lanes) > columns:
            size = count * self.bytes  # by a call: LLVM would write each number separately
            self.used.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
            self.allocations.append(f"  call void @llvm.memset.p0.i64(ptr {name}, i8 0, i64 {size}, i1 false)")
        return name

    def hold(self, numbers: tuple[int, ...], rows: int, columns: int) -> str:
        """Store a matrix in memory, if it is not there yet, and return its address."""
        key = (rows, columns, numbers)
        if key not in self._matrices:
            many = len(numbers) >= copy_tables.MIN_NUMBERS
            stored = [i for i, number in enumerate(numbers) if not (many and self._is_zero(number))]
            self._matrices[key] = base = self.matrix(rows, columns, zeros=len(stored) < len(numbers))
            at = [i // columns * matmul.stride(columns, self.lanes) + i % columns for i in stored]
            self.fill(base, [numbers[i] for i in stored], at)
        return self._matrices[key]

    def _is_zero(self, number: int) -> bool:
        value = self.graph.value(number)
        return isinstance(value, float) and value == 0.0 and math.copysign(1.0, value) > 0

    def _call_kernel(self, node: Any) -> str:
        """Call the kernel of a product, a solution or a factorisation."""
        shape = node.value
        if isinstance(shape, cholesky.Factor):
            a, result = self.hold(node.args, shape.size, shape.size), self.matrix(shape.size, shape.size)
            self.used |= set(cholesky.function(shape, self.number, self.lanes))
            self.add(f"call void @{shape.name}(ptr {a}, ptr {result})")
            return result
        if not isinstance(shape, matmul.Dense):
            return self._call_shifted_kernel(node)
        cut = 1 if shape.left else shape.rows * shape.inner
        left, right = node.args[:cut], node.args[cut:]
        a = self.names[left[0]] if shape.left else self.hold(left, shape.rows, shape.inner)
        b = self.names[right[0]] if shape.right else self.hold(right, shape.inner, shape.columns)
        result = self.matrix(shape.rows, shape.columns)
        self.used.add(matmul.function(shape, self.number, self.lanes))
        self.add(f"call void @{shape.name}(ptr {a}, ptr {b}, ptr {result})")
        return result

    def _call_shifted_kernel(self, node: Any) -> str:
        """Call the kernel of shifted inverses, of their average, or of the scatter of solutions."""
        shape, size, count = node.value, node.value.size, node.value.shifts
        if isinstance(shape, shifted_inverse_loops.Inverses):
            cuts = (size * size, size * size + count)
            parts = (node.args[: cuts[0]], node.args[cuts[0] : cuts[1]], node.args[cuts[1] :])
            given = [self.hold(numbers, 1, len(numbers)) for numbers in parts]
        else:
            given = [self.names[node.args[0]], self.hold(node.args[1 : count + 1], 1, count)]
            given += (
                [self.hold(node.args[count + 1 :], 1, 1)] if isinstance(shape, shifted_inverse_loops.Scatter) else []
            )
        result = self.fresh("m")
        self.allocations.append(f"  {result} = alloca [{shape.room} x {self.types['f']}], align 64")
        self.used |= set(shifted_inverse_loops.function(shape, self.number, self.lanes))
        self.add(f"call void @{shape.name}({', '.join(f'ptr {each}' for each in (*given, result))})")
        return result

    def operation(self, node: Any) -> str:
        """Write one operation."""
        args = [self.name(arg) for arg in node.args]
        kinds = [self.graph.nodes[arg].kind for arg in node.args]
        of, op = kinds[-1] if kinds else node.kind, node.op
        kind = self.types[of]
        if op == "select":
            return self.define(f"select {self.types['b']} {args[0]}, {kind} {args[2]}, {kind} {args[1]}")
        if op in ARITHMETIC:
            return self.define(f"{ARITHMETIC[op][of]} {kind} {', '.join(args)}")
        if op in COMPARISONS:
            return self.define(f"{COMPARISONS[op][of]} {kind} {args[0]}, {args[1]}")
        special = getattr(self, f"_{op}", None)
        return self._call(op, args) if special is None else special(args, of)

    def _neg(self, args: list[str], of: str) -> str:
        kind = self.types[of]
        return self.define(f"fneg {kind} {args[0]}" if of == "f" else f"sub {kind} {self.literal(0, 'i')}, {args[0]}")

    def _not(self, args: list[str], of: str) -> str:
        ones = self.literal(True, "b") if of == "b" else self.literal(-1, "i")
        return self.define(f"xor {self.types[of]} {args[0]}, {ones}")

    def _abs(self, args: list[str], of: str) -> str:
        if of == "f":
            return self.intrinsic("fabs", args)
        below = self.define(f"icmp slt {self.types[of]} {args[0]}, {self.literal(0, of)}")
        minus = self._neg(args, of)
        return self.define(f"select {self.types['b']} {below}, {self.types[of]} {minus}, {self.types[of]} {args[0]}")

    def _sqrt(self, args: list[str], of: str) -> str:
        return self.intrinsic("sqrt", args)

    def _floor(self, args: list[str], of: str) -> str:
        return self.intrinsic("floor", args)

    def _ceil(self, args: list[str], of: str) -> str:
        return self.intrinsic("ceil", args)

    def _max(self, args: list[str], of: str) -> str:
        return self._extreme("ogt" if of == "f" else "sgt", args, of)

    def _min(self, args: list[str], of: str) -> str:
        return self._extreme("olt" if of == "f" else "slt", args, of)

    def _extreme(self, compare: str, args: list[str], of: str) -> str:
        """Compute the larger or smaller of two numbers; NaN propagates, as in XLA."""
        kind, truth = self.types[of], self.types["b"]
        if of == "b":
            return self.define(f"{'or' if compare == 'sgt' else 'and'} {kind} {args[0]}, {args[1]}")
        # Processors have one instruction for it where one of both is constant, and so not NaN.
        known = [not arg.startswith("%") for arg in args]
        compare = f"u{compare[1:]}" if of == "f" and known[1] else compare
        first = self.define(f"{'fcmp' if of == 'f' else 'icmp'} {compare} {kind} {args[0]}, {args[1]}")
        if of == "f" and not any(known):
            missing = self.define(f"fcmp uno {kind} {args[0]}, {args[0]}")
            first = self.define(f"or {truth} {first}, {missing}")
        return self.define(f"select {truth} {first}, {kind} {args[0]}, {kind} {args[1]}")

    def _finite(self, args: list[str], of: str) -> str:
        size = self.intrinsic("fabs", args)
        return self.define(f"fcmp olt {self.types['f']} {size}, {self.literal(float('inf'), 'f')}")

    def _to_f(self, args: list[str], of: str) -> str:
        how = "sitofp" if of == "i" else "uitofp"
        return self.define(f"{how} {self.types[of]} {args[0]} to {self.types['f']}")

    def _to_i(self, args: list[str], of: str) -> str:
        if of == "b":
            return self.define(f"zext {self.types['b']} {args[0]} to {self.types['i']}")
        name = f"@llvm.fptosi.sat.{self.suffix('i32')}.{self.suffix(self.number)}"
        self.used.add(f"declare {self.types['i']} {name}({self.types['f']})")
        return self.define(f"call {self.types['i']} {name}({self.types['f']} {args[0]})")

    def _to_b(self, args: list[str], of: str) -> str:
        compare = "fcmp une" if of == "f" else "icmp ne"
        return self.define(f"{compare} {self.types[of]} {args[0]}, {self.literal(0, of)}")

    def _exp(self, args: list[str], of: str) -> str:
        return write_exp(self, args[0]) if self.number == "double" else self._call("exp", args)

    def _log(self, args: list[str], of: str) -> str:
        return write_log(self, args[0]) if self.number == "double" else self._call("log", args)

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

    def _call(self, op: str, args: list[str]) -> str:
        """Call the C library, lane by lane."""
        op = {"rem": "fmod"}.get(op, op)
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


VECTORIZED = {"exp": write_exp, "log": write_log}  # operations that are vectorised over the entries of one array
MAX_VECTORIZED = 12

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
