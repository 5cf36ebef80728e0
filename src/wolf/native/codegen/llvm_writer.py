"""Nodes of a graph as LLVM instructions, for one number or for eight per register.

There are no fast-math flags, so that nothing is contracted, reordered, or assumed to be finite.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile

from wolf.native.codegen import copy_tables
from wolf.native.codegen.copy_tables import Home
from wolf.native.codegen.llvm_instructions import InstructionWriter
from wolf.native.codegen.scalar_ops import write_operation
from wolf.native.ir.graph import Branch, Graph, Node
from wolf.native.kernels import cholesky, matmul, shifted_inverse_llvm, shifted_inverse_loops
from wolf.native.kernels.exp_log import write_exp, write_log


class Writer(InstructionWriter):
    """Writer of nodes as LLVM instructions.

    Args:
        graph: of the step.
        lanes: number of series per register.
    """

    def __init__(self, graph: Graph, lanes: int):
        super().__init__("double" if graph.dtype.itemsize == 8 else "float", lanes)
        self.graph = graph
        self.bytes = graph.dtype.itemsize * lanes  # bytes of a number, of all lanes
        self.names: dict[int, str] = {}
        self.allocations: list[str] = []  # allocations of matrices, at the beginning of the function
        self.homes: dict[int, Home] = {}  # locations of nodes in memory; those of kernel results follow from the kernel
        self._matrices: dict[tuple, str] = {}  # addresses of matrices in memory, by their nodes
        self._loaded: dict[int, str] = {}  # names of numbers loaded from memory

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

    def fill(self, base: str, numbers: Sequence[int], at: Sequence[int], persistent: bool = True) -> None:
        """Store numbers at offsets behind an address, each from a register or from memory.

        Args:
            base: the address.
            numbers: nodes.
            at: the offset of each.
            persistent: whether they stay there until the next step, so that others may read them there.
        """
        many = len(numbers) >= copy_tables.MIN_NUMBERS
        moved: list[tuple[int, Home]] = []
        for number, place in zip(numbers, at, strict=True):
            if many and self._is_in_memory(number):
                moved.append((place, self._location(number)))
                continue
            target = self.define(f"getelementptr {self.types['f']}, ptr {base}, i64 {place}")
            self.add(f"store {self.types['f']} {self.name(number)}, ptr {target}, align 8")
            if many and persistent and self.graph.nodes[number].op != "const":
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
        lanes, whole = self.lanes, "poison"
        inputs = [self.name(self.graph.nodes[number].args[0]) for number in numbers]
        self.set_lanes(len(numbers))
        for lane, given in enumerate(inputs):
            whole = self.define(f"insertelement {self.types['f']} {whole}, {self.number} {given}, i32 {lane}")
        made, kind = VECTORIZED[op](self, whole), self.types["f"]
        self.set_lanes(lanes)
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
        branch: Branch,
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

    def _call_kernel(self, node: Node) -> str:
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

    def _call_shifted_kernel(self, node: Node) -> str:
        """Call the kernel of shifted inverses, of their average, or of the scatter of solutions."""
        shape, size, count = node.value, node.value.size, node.value.shifts
        if isinstance(shape, shifted_inverse_loops.Inverses):
            cuts = (size * size, size * size + count)
            parts = (node.args[: cuts[0]], node.args[cuts[0] : cuts[1]], node.args[cuts[1] :])
            given = [self.hold(numbers, 1, len(numbers)) for numbers in parts]
        else:
            given = [self.names[node.args[0]], self.hold(node.args[1 : count + 1], 1, count)]
            given += [self.hold(node.args[count + 1 :], 1, 1)] if shape.centred else []
        result = self.fresh("m")
        self.allocations.append(f"  {result} = alloca [{shape.room} x {self.types['f']}], align 64")
        self.used |= set(shifted_inverse_llvm.function(shape, self.number, self.lanes))
        self.add(f"call void @{shape.name}({', '.join(f'ptr {each}' for each in (*given, result))})")
        return result

    def operation(self, node: Node) -> str:
        """Write one operation, and return the name of its result."""
        args = [self.name(arg) for arg in node.args]
        return write_operation(self, node.op, args, [self.graph.nodes[arg].kind for arg in node.args] or [node.kind])


VECTORIZED = {"exp": write_exp, "log": write_log}  # operations that are vectorised over the entries of one array
MAX_VECTORIZED = 12
