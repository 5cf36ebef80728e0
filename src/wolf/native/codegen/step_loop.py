"""The functions around a step, in LLVM's language: one that runs once for a model, one over series and steps."""

from itertools import islice

from wolf.native.codegen import copy_tables, simd_lanes
from wolf.native.codegen.copy_tables import Home
from wolf.native.codegen.llvm_writer import TOGETHER, Writer
from wolf.native.codegen.loop_carried_state import LoopState
from wolf.native.execute.llvm_jit import is_small
from wolf.native.ir.graph import ONCE, STEP, Graph
from wolf.native.ir.layout import Layout
from wolf.native.kernels.matmul import Dense

MANY = 500  # numbers of a model from which the compiler does not keep them in registers

# What the table of addresses begins with, three numbers each; the last two are for `calls.py`: where the code is and
# where the report goes, sizes in bytes and the place of the number that says whether a new model is sound.
HEAD = ("states", "counts", "rows", "model", "lengths", "code", "sizes")


def write_once(graph: Graph, layout: Layout, name: str = "prepare") -> str:
    """Write the function that makes, once for a model, what its steps use.

    Args:
        graph: of the step.
        layout: which nodes those are, and where they are kept.
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
    once = [*sorted(writer.used), opening, "entry:", *writer.room, body, "}"]
    return "\n".join([*once, _for_each(name)])


def _for_each(name: str) -> str:
    """Write the function that does the same for many models, `(ptr given, i64 step, ptr kept, i64 step, i64 count)`."""
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
    """Write the function that filters: for each series (as many at once as there are lanes), for each step.

    Args:
        graph: of the step.
        layout: where inputs come from and results go.
        width: lanes, 1 or several.
        name: of the function, `(i64 first, i64 last, i64 steps, ptr table)`: series from `first` up to `last`, and
            the table of addresses and strides that `layout` describes.
    """
    return _Run(graph, layout, width).write(name)


def _by_level(graph: Graph, numbers: list[int]) -> list[int]:
    """Put nodes into an order in which as few long operations as can be come before others of their kind."""
    levels: dict[int, int] = {}
    for number in numbers:
        node = graph.nodes[number]
        args = () if node.op in ("input", "phi") else node.args[:1] if node.op == "part" else node.args
        found = [levels[arg] + (graph.nodes[arg].op in TOGETHER) for arg in args if arg in levels]
        levels[number] = max(found, default=0)
    return sorted(numbers, key=lambda n: (levels[n], graph.nodes[n].op if graph.nodes[n].op in TOGETHER else "", n))


class _Run:
    """Writes the two loops around a step."""

    def __init__(self, graph: Graph, layout: Layout, width: int):
        self.graph, self.layout, self.lanes = graph, layout, width
        self.out = Writer(graph, width)
        self.alive = graph.needed([*layout.results, *layout.next_state])

    def write(self, name: str) -> str:
        """Write all of it."""
        out = self.out
        out.start("series")
        out.add("%s = phi i64 [ %first, %entry ], [ %s.next, %done ]")
        more = out.define("icmp slt i64 %s, %last")
        out.add(f"br i1 {more}, label %begin, label %end")
        out.start("begin")
        self._addresses()
        self._load_model()
        self._hold_model()
        carried = LoopState(out, self.layout, self.alive, self.state, self.counts)
        before = carried.load()
        end = self._lengths()
        out.add("br label %step")
        entering = out.label
        out.start("step")
        out.add(f"%t = phi i64 [ 0, %{entering} ], [ %t.next, %@LATCH@ ]")
        carried.take(before, entering)
        more = out.define("icmp slt i64 %t, %steps")
        out.add(f"br i1 {more}, label %body, label %finish")
        out.start("body")
        self._load_rows()
        self._write_step()
        carried.put()
        self._store_results()
        after = carried.advance(end)
        out.add("%t.next = add i64 %t, 1")
        latch = out.label
        out.add("br label %step")
        text = "\n".join(out.lines)
        for place, value in enumerate(after):
            text = text.replace(f"@NEXT{place}@", value)
        text = text.replace("@LATCH@", latch)
        out.lines = []
        out.start("finish")
        carried.store()
        out.add("br label %done")
        out.start("done")
        out.add(f"%s.next = add i64 %s, {self.lanes}")
        out.add("br label %series")
        out.start("end")
        out.add("ret void")
        tail = "\n".join(out.lines)
        opening = f"define void @{name}(i64 %first, i64 %last, i64 %steps, ptr noalias %table){self._width(text)} {{"
        head = ["entry:", *out.room, "  br label %series"]
        return "\n".join([*sorted(out.used), opening, *head, text, tail, "}"])

    def _write_step(self) -> None:
        """Write what the next state is made of, then what is only reported, in which long operations come together."""
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

    def _width(self, text: str) -> str:
        """Ask for registers of four numbers in what LLVM finds to be alike: eight are rarely found, and cost more."""
        return ' "prefer-vector-width"="256" "min-legal-vector-width"="0"' if self.lanes == 1 and is_small(text) else ""

    def _entry(self, place: int) -> str:
        at = self.out.define(f"getelementptr i64, ptr %table, i64 {place}")
        return self.out.define(f"load i64, ptr {at}")

    def _addresses(self) -> None:
        """Find where each lane's state, model, rows and results lie."""
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
        """Load what was made once for the model; outside of the steps, for the compiler to keep what it can."""
        out = self.out
        wanted = {offset: number for offset, number in enumerate(self.layout.kept) if number in self.alive}
        if len(wanted) >= MANY:  # more than registers can keep: they are read where they lie
            base = self.model[0] if self.lanes == 1 else simd_lanes.bring(out, self.model, max(wanted) + 1)
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

    def _hold_model(self) -> None:
        """Put matrices that are the same in all steps where loops read them, before the first."""
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
            if output.kind == "f" and len(numbers) >= copy_tables.FEWEST:
                self._store_many(here, numbers)
                continue
            memory = {"f": self.out.number, "i": output.memory, "b": "i8"}[output.kind]
            simd_lanes.store(self.out, here, dict(enumerate(map(self.out.name, numbers))), output.kind, memory)

    def _store_many(self, here: list[str], numbers: list[int]) -> None:
        """Store an array from wherever its numbers are."""
        if self.lanes == 1:
            self.out.fill(here[0], numbers, range(len(numbers)), lasts=False)
            return
        near = self.out.matrix(1, len(numbers))
        self.out.fill(near, numbers, range(len(numbers)), lasts=False)
        simd_lanes.take(self.out, here, near, len(numbers))
