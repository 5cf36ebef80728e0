"""The LLVM functions around a step: one that runs once per model, one that loops over series and steps."""

from itertools import islice

from wolf.native.codegen import copy_tables, simd_lanes
from wolf.native.codegen.copy_tables import Home
from wolf.native.codegen.llvm_writer import VECTORIZED, Writer
from wolf.native.codegen.loop_carried_state import LoopState
from wolf.native.execute.llvm_jit import is_small
from wolf.native.ir.graph import ONCE, STEP, Graph
from wolf.native.ir.layout import Layout
from wolf.native.kernels.matmul import Dense

MIN_NUMBERS_IN_MEMORY = 500  # numbers of a model from which they are read from memory instead of kept in registers

# First entries of the table of addresses, three numbers each; the last two are for `fastcall.py`: addresses of the code
# and place of the report, sizes in bytes and the place of the flag that new numbers are certainly valid.
HEAD = ("states", "counts", "rows", "model", "lengths", "code", "sizes")


def write_once(graph: Graph, layout: Layout, name: str = "prepare") -> str:
    """Write the function that computes, once per model, what its steps use.

    Args:
        graph: of the step.
        layout: the nodes to compute, and where they are stored.
        name: of the function, `(ptr given, ptr kept)`.
    """
    writer = Writer(graph, 1)
    one = writer.number
    alive = graph.needed(layout.kept)
    for number in sorted(alive):
        node = graph.nodes[number]
        if node.op == "input":
            at = writer.define(f"getelementptr {one}, ptr %given, i64 {layout.slots[node.args[0]].offset}")
            writer.names[number] = writer.define(f"load {one}, ptr {at}")
    writer.block(ONCE, alive, set())
    for offset, number in enumerate(layout.kept):
        at = writer.define(f"getelementptr {one}, ptr %kept, i64 {offset}")
        value, kind = writer.name(number), graph.nodes[number].kind
        if kind != "f":
            how = "sitofp" if kind == "i" else "uitofp"
            value = writer.define(f"{how} {writer.types[kind]} {value} to {one}")
        writer.add(f"store {one} {value}, ptr {at}")
    writer.add("ret void")
    body = "\n".join(writer.lines)
    opening = f"define void @{name}(ptr %given, ptr %kept) {{"
    once = [*sorted(writer.used), opening, "entry:", *writer.allocations, body, "}"]
    return "\n".join([*once, _for_each(name)])


def _for_each(name: str) -> str:
    """Write the function that does so for many models, `(ptr given, i64 step, ptr kept, i64 step, i64 count)`."""
    return f"""define void @{name}_each(ptr %given, i64 %from, ptr %kept, i64 %to, i64 %count) {{
entry:
  br label %check
check:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %end
one:
  %read = mul i64 %i, %from
  %write = mul i64 %i, %to
  %source = getelementptr i8, ptr %given, i64 %read
  %target = getelementptr i8, ptr %kept, i64 %write
  call void @{name}(ptr %source, ptr %target)
  %next = add i64 %i, 1
  br label %check
end:
  ret void
}}"""


def write_run(graph: Graph, layout: Layout, width: int, name: str) -> str:
    """Write the filter function: for each series (as many at once as there are lanes), for each step.

    Args:
        graph: of the step.
        layout: locations of inputs and results.
        width: lanes, 1 or several.
        name: of the function, `(i64 first, i64 last, i64 steps, ptr table)`: series from `first` up to `last`, and
            the table of addresses and strides that `layout` describes.
    """
    return _Run(graph, layout, width).write(name)


def _by_level(graph: Graph, numbers: list[int]) -> list[int]:
    """Order nodes such that few vectorised operations precede others of their kind."""
    levels: dict[int, int] = {}
    for number in numbers:
        node = graph.nodes[number]
        args = () if node.op in ("input", "phi") else node.args[:1] if node.op == "part" else node.args
        found = [levels[arg] + (graph.nodes[arg].op in VECTORIZED) for arg in args if arg in levels]
        levels[number] = max(found, default=0)
    return sorted(numbers, key=lambda n: (levels[n], graph.nodes[n].op if graph.nodes[n].op in VECTORIZED else "", n))


class _Run:
    """Writer of the two loops around a step."""

    def __init__(self, graph: Graph, layout: Layout, width: int):
        self.graph, self.layout, self.lanes = graph, layout, width
        self.out = Writer(graph, width)
        self.alive = graph.needed([*layout.results, *layout.next_state])

    def write(self, name: str) -> str:
        """Write the function."""
        self._begin_series()
        carried = LoopState(self.out, self.layout, self.alive, self.state, self.counts)
        text = self._step_loop(carried)
        tail = self._end_series(carried)
        arguments = "i64 %first, i64 %last, i64 %steps, ptr noalias %table"
        opening = f"define void @{name}({arguments}){self._vector_attributes(text)} {{"
        head = ["entry:", *self.out.allocations, "  br label %series"]
        return "\n".join([*sorted(self.out.used), opening, *head, text, tail, "}"])

    def _begin_series(self) -> None:
        """Write the head of the loop over series, and what is loaded once per series."""
        out = self.out
        out.start("series")
        out.add("%s = phi i64 [ %first, %entry ], [ %s.next, %done ]")
        more = out.define("icmp slt i64 %s, %last")
        out.add(f"br i1 {more}, label %begin, label %end")
        out.start("begin")
        self._addresses()
        self._load_model()
        self._store_model_matrices()

    def _step_loop(self, carried: LoopState) -> str:
        """Write the loop over steps, and return all text so far with its forward references resolved."""
        out = self.out
        before = carried.load()
        end = self._lengths()
        out.add("br label %step")
        entering = out.label
        out.start("step")
        out.add(f"%t = phi i64 [ 0, %{entering} ], [ %t.next, %@LATCH@ ]")
        carried.begin_step(before, entering)
        more = out.define("icmp slt i64 %t, %steps")
        out.add(f"br i1 {more}, label %body, label %finish")
        out.start("body")
        self._load_rows()
        self._write_step()
        carried.store_next()
        self._store_results()
        after = carried.advance(end)
        out.add("%t.next = add i64 %t, 1")
        latch = out.label
        out.add("br label %step")
        text = "\n".join(out.lines)
        for place, value in enumerate(after):
            text = text.replace(f"@NEXT{place}@", value)
        return text.replace("@LATCH@", latch)

    def _end_series(self, carried: LoopState) -> str:
        """Return the text of the end of the loop over series."""
        out = self.out
        out.lines = []
        out.start("finish")
        carried.store()
        out.add("br label %done")
        out.start("done")
        out.add(f"%s.next = add i64 %s, {self.lanes}")
        out.add("br label %series")
        out.start("end")
        out.add("ret void")
        return "\n".join(out.lines)

    def _write_step(self) -> None:
        """Write the nodes of the next state, then those only reported, in which vectorised operations are grouped."""
        nodes, done = self.graph.nodes, set[int]()
        ends = list(self.layout.next_state)
        for number in self.alive:
            if nodes[number].op == "phi":
                branch = self.graph.branches[nodes[number].args[0]]
                ends += [branch.chosen, *branch.results[nodes[number].args[1]]]
        first = self.graph.needed(ends) & self.alive
        self.out.write(sorted(n for n in first if nodes[n].block == STEP), self.alive, done)
        rest = sorted(n for n in self.alive - first if nodes[n].block == STEP)
        self.out.write(_by_level(self.graph, rest), self.alive, done)

    def _vector_attributes(self, text: str) -> str:
        """Return LLVM attributes for registers of four numbers: eight similar ones are rarely found, and cost more."""
        return ' "prefer-vector-width"="256" "min-legal-vector-width"="0"' if self.lanes == 1 and is_small(text) else ""

    def _entry(self, place: int) -> str:
        at = self.out.define(f"getelementptr i64, ptr %table, i64 {place}")
        return self.out.define(f"load i64, ptr {at}")

    def _addresses(self) -> None:
        """Compute the addresses of each lane's state, model, rows and results."""
        out, layout = self.out, self.layout
        series = [out.define(f"add i64 %s, {lane}") for lane in range(self.lanes)]
        self.series = series
        index_base = out.define(f"inttoptr i64 {self._entry(3 * HEAD.index('rows'))} to ptr")
        held = []
        for each in series:
            at = out.define(f"getelementptr i64, ptr {index_base}, i64 {each}")
            held.append(out.define(f"load i64, ptr {at}"))
        self.state = self._lane_pointers(HEAD.index("states"), held)
        self.counts = self._lane_pointers(HEAD.index("counts"), held)
        model_index = held if layout.own_model else [held[0]]
        self.model = self._lane_pointers(HEAD.index("model"), model_index)
        first = len(HEAD)
        self.rows = [self._lane_pointers(first + g, series) for g in range(len(layout.groups))]
        first += len(layout.groups)
        self.outs = [self._lane_pointers(first + g, series) for g in range(len(layout.outputs))]
        self.strides = [self._entry(3 * (len(HEAD) + g) + 2) for g in range(len(layout.groups) + len(layout.outputs))]

    def _lane_pointers(self, group: int, index: list[str]) -> list[str]:
        out = self.out
        base, stride = self._entry(3 * group), self._entry(3 * group + 1)
        pointers = []
        for each in index:
            offset = out.define(f"mul i64 {each}, {stride}")
            address = out.define(f"add i64 {base}, {offset}")
            pointers.append(out.define(f"inttoptr i64 {address} to ptr"))
        return pointers

    def _load_model(self) -> None:
        """Load the numbers computed once per model, before the steps, so that LLVM keeps them where it can."""
        out = self.out
        wanted = {offset: number for offset, number in enumerate(self.layout.kept) if number in self.alive}
        if len(wanted) >= MIN_NUMBERS_IN_MEMORY:  # more than there are registers: read from memory where needed
            base = self.model[0] if self.lanes == 1 else simd_lanes.gather_lanes(out, self.model, max(wanted) + 1)
            out.homes |= {n: Home(base, offset) for offset, n in wanted.items() if self.graph.nodes[n].kind == "f"}
            wanted = {offset: n for offset, n in wanted.items() if self.graph.nodes[n].kind != "f"}
        for offset, value in simd_lanes.load(out, self.model, wanted, "f", out.number).items():
            number = wanted[offset]
            kind = self.graph.nodes[number].kind
            if kind == "b":
                value = out.define(f"fcmp une {out.types['f']} {value}, {out.literal(0.0, 'f')}")
            elif kind == "i":
                value = out.define(f"fptosi {out.types['f']} {value} to {out.types['i']}")
            out.names[number] = value

    def _store_model_matrices(self) -> None:
        """Store matrices that are constant over steps for the kernels, before the first step."""
        for number in sorted(self.alive):
            node = self.graph.nodes[number]
            if node.op == "dense" and node.block != ONCE and isinstance(node.value, Dense):
                for numbers, rows, columns in node.value.operands(node.args):
                    if all(self.graph.nodes[each].block == ONCE for each in numbers):
                        self.out.hold(numbers, rows, columns)

    def _lengths(self) -> str | None:
        if not self.layout.ragged:
            return None
        base = self.out.define(f"inttoptr i64 {self._entry(3 * HEAD.index('lengths'))} to ptr")
        pointers = [self.out.define(f"getelementptr i64, ptr {base}, i64 {each}") for each in self.series]
        ends = [self.out.define(f"load i64, ptr {pointer}") for pointer in pointers]
        if self.lanes == 1:
            return ends[0]
        kind, whole = self.out.wide("i64"), "poison"
        for lane, end in enumerate(ends):
            whole = self.out.define(f"insertelement {kind} {whole}, i64 {end}, i32 {lane}")
        return whole

    def _at_step(self, pointers: list[str], group: int) -> list[str]:
        offset = self.out.define(f"mul i64 %t, {self.strides[group]}")
        return [self.out.define(f"getelementptr i8, ptr {pointer}, i64 {offset}") for pointer in pointers]

    def _load_rows(self) -> None:
        for group, pointers in enumerate(self.rows):
            slots = [
                (number, self.layout.slots[node.args[0]])
                for number in sorted(self.alive)
                if (node := self.graph.nodes[number]).op == "input" and node.block == STEP
            ]
            mine = [(number, slot) for number, slot in slots if slot.group == self.layout.groups[group]]
            here = self._at_step(pointers, group) if mine else []
            values = simd_lanes.load(self.out, here, [slot.offset for _, slot in mine], "f", self.out.number)
            self.out.names |= {number: values[slot.offset] for number, slot in mine}

    def _store_results(self) -> None:
        results = iter(self.layout.results)
        for group, output in enumerate(self.layout.outputs):
            here = self._at_step(self.outs[group], len(self.layout.groups) + group)
            numbers = list(islice(results, output.size))
            if output.kind == "f" and len(numbers) >= copy_tables.MIN_NUMBERS:
                self._store_many(here, numbers)
                continue
            memory = {"f": self.out.number, "i": output.memory, "b": "i8"}[output.kind]
            simd_lanes.store(self.out, here, dict(enumerate(map(self.out.name, numbers))), output.kind, memory)

    def _store_many(self, here: list[str], numbers: list[int]) -> None:
        """Store an array from wherever its numbers are."""
        if self.lanes == 1:
            self.out.fill(here[0], numbers, range(len(numbers)), persistent=False)
            return
        interleaved = self.out.matrix(1, len(numbers))
        self.out.fill(interleaved, numbers, range(len(numbers)), persistent=False)
        simd_lanes.scatter_lanes(self.out, here, interleaved, len(numbers))
