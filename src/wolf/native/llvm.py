"""A graph of numbers as LLVM's language: one function over series and steps, one number or eight in a register.

The text is plain: no fast-math flag anywhere, so that nothing is contracted, reordered, or assumed to be finite.
"""

import struct
from typing import Any

from wolf.native.elementary import EXPONENTIAL, LOGARITHM
from wolf.native.graph import ONCE, STEP, Graph
from wolf.native.layout import Layout

HEAD = ("states", "counts", "rows", "model", "lengths")  # what the table of addresses begins with, three numbers each

LIBRARY = frozenset(
    "sin cos tan tanh atan2 pow log1p expm1 erf erfc lgamma sinh cosh asin acos atan fmod".split()  # noqa: SIM905
)


class Writer:
    """Writes nodes as instructions.

    Args:
        graph: of the step.
        lanes: how many series are taken at once, in one register.
    """

    def __init__(self, graph: Graph, lanes: int):
        self.graph, self.lanes = graph, lanes
        self.number = "double" if graph.dtype.itemsize == 8 else "float"
        self.types = {"f": self.wide(self.number), "i": self.wide("i32"), "b": self.wide("i1")}
        self.lines: list[str] = []
        self.names: dict[int, str] = {}
        self.used: set[str] = set()
        self.label = "entry"
        self._fresh = 0

    def wide(self, one: str) -> str:
        """Give the type of as many numbers as there are lanes."""
        return one if self.lanes == 1 else f"<{self.lanes} x {one}>"

    def add(self, text: str) -> None:
        """Write a line."""
        self.lines.append(f"  {text}")

    def fresh(self, prefix: str = "v") -> str:
        """Make up a name."""
        self._fresh += 1
        return f"%{prefix}{self._fresh}"

    def define(self, text: str) -> str:
        """Write an instruction, and give the name of its result."""
        name = self.fresh()
        self.add(f"{name} = {text}")
        return name

    def start(self, label: str) -> None:
        """Begin a block of instructions."""
        self.lines.append(f"{label}:")
        self.label = label

    def literal(self, value: Any, kind: str) -> str:
        """Write a known number, in all lanes."""
        if kind == "b":
            one = "true" if value else "false"
        else:
            one = str(value) if kind == "i" else "0x" + struct.pack(">d", value).hex().upper()
        scalar = {"f": self.number, "i": "i32", "b": "i1"}[kind]
        return one if self.lanes == 1 else "<" + ", ".join([f"{scalar} {one}"] * self.lanes) + ">"

    def splat(self, scalar: str, of: str) -> str:
        """Put one number into all lanes."""
        if self.lanes == 1:
            return scalar
        kind = self.wide(of)
        first = self.define(f"insertelement {kind} poison, {of} {scalar}, i32 0")
        return self.define(f"shufflevector {kind} {first}, {kind} poison, {self.wide('i32')} zeroinitializer")

    def name(self, number: int) -> str:
        """Give what a node is called, or its value."""
        node = self.graph.nodes[number]
        return self.literal(node.value, node.kind) if node.op == "const" else self.names[number]

    def block(self, block: int, alive: set[int], done: set[int]) -> None:
        """Write the nodes of one block that are needed, in their order."""
        for number in sorted(n for n in alive if self.graph.nodes[n].block == block):
            node = self.graph.nodes[number]
            if node.op == "phi":
                if node.args[0] not in done:
                    done.add(node.args[0])
                    self.branch(node.args[0], alive, done)
            elif node.op not in ("const", "input"):
                self.names[number] = self.operation(node)

    def branch(self, which: int, alive: set[int], done: set[int]) -> None:
        """Write a choice: one of two blocks, or in several lanes each block that any lane wants."""
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
        """Write one side of a choice, skipped where no lane takes it."""
        truth = self.types["b"]
        everywhere = self.literal(True, "b")
        wanted = chosen if side else self.define(f"xor {truth} {chosen}, {everywhere}")
        suffix = f"v{self.lanes}i1"
        any_lane = self.define(f"call i1 @llvm.vector.reduce.or.{suffix}({truth} {wanted})")
        self.used.add(f"declare i1 @llvm.vector.reduce.or.{suffix}({truth})")
        inside, after, before = self.fresh("side")[1:], self.fresh("after")[1:], self.label
        self.add(f"br i1 {any_lane}, label %{inside}, label %{after}")
        self.start(inside)
        self.block(branch.blocks[side], alive, done)
        values = [self.name(pair[side]) for pair in pairs]
        end = self.label
        self.add(f"br label %{after}")
        self.start(after)
        return [
            self.define(f"phi {kind} [ {value}, %{end} ], [ zeroinitializer, %{before} ]")
            for kind, value in zip(kinds, values, strict=True)
        ]

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
        if op in COMPARED:
            return self.define(f"{COMPARED[op][of]} {kind} {args[0]}, {args[1]}")
        return getattr(self, f"_{op}", None)(args, of) if hasattr(self, f"_{op}") else self._call(op, args)

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
        """Take the larger or smaller of two; NaN wins, as in XLA."""
        kind, truth = self.types[of], self.types["b"]
        if of == "b":
            return self.define(f"{'or' if compare == 'sgt' else 'and'} {kind} {args[0]}, {args[1]}")
        first = self.define(f"{'fcmp' if of == 'f' else 'icmp'} {compare} {kind} {args[0]}, {args[1]}")
        if of == "f":
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
        return EXPONENTIAL(self, args[0]) if self.number == "double" else self._call("exp", args)

    def _log(self, args: list[str], of: str) -> str:
        return LOGARITHM(self, args[0]) if self.number == "double" else self._call("log", args)

    def suffix(self, one: str) -> str:
        """Name a type as LLVM does inside names of intrinsic functions."""
        short = {"double": "f64", "float": "f32"}.get(one, one)
        return short if self.lanes == 1 else f"v{self.lanes}{short}"

    def intrinsic(self, name: str, args: list[str]) -> str:
        """Call a function that LLVM itself knows."""
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


ARITHMETIC = {
    "add": {"f": "fadd", "i": "add", "b": "or"},
    "sub": {"f": "fsub", "i": "sub"},
    "mul": {"f": "fmul", "i": "mul", "b": "and"},
    "div": {"f": "fdiv", "i": "sdiv"},
    "and": {"i": "and", "b": "and"},
    "or": {"i": "or", "b": "or"},
    "xor": {"i": "xor", "b": "xor"},
}

COMPARED = {
    "lt": {"f": "fcmp olt", "i": "icmp slt", "b": "icmp ult"},
    "le": {"f": "fcmp ole", "i": "icmp sle", "b": "icmp ule"},
    "gt": {"f": "fcmp ogt", "i": "icmp sgt", "b": "icmp ugt"},
    "ge": {"f": "fcmp oge", "i": "icmp sge", "b": "icmp uge"},
    "eq": {"f": "fcmp oeq", "i": "icmp eq", "b": "icmp eq"},
    "ne": {"f": "fcmp une", "i": "icmp ne", "b": "icmp ne"},
}


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
    return "\n".join([*sorted(writer.used), f"define void @{name}(ptr %given, ptr %kept) {{", "entry:", body, "}"])


def write_run(graph: Graph, layout: Layout, lanes: int, name: str) -> str:
    """Write the function that filters: for each series (as many at once as there are lanes), for each step.

    Args:
        graph: of the step.
        layout: where inputs come from and results go.
        lanes: 1, or several.
        name: of the function, `(i64 first, i64 last, i64 steps, ptr table)`: series from `first` up to `last`, and
            the table of addresses and strides that `layout` describes.
    """
    return _Run(graph, layout, lanes).write(name)


class _Run:
    """Writes the two loops around a step."""

    def __init__(self, graph: Graph, layout: Layout, lanes: int):
        self.graph, self.layout, self.lanes = graph, layout, lanes
        self.out = Writer(graph, lanes)
        self.alive = graph.needed([*layout.results, *layout.next_state])

    def write(self, name: str) -> str:
        """Write all of it."""
        out = self.out
        head = ["entry:", "  br label %series"]
        out.start("series")
        out.add("%s = phi i64 [ %first, %entry ], [ %s.next, %done ]")
        more = out.define("icmp slt i64 %s, %last")
        out.add(f"br i1 {more}, label %begin, label %end")
        out.start("begin")
        self._addresses()
        self._load_model()
        before = self._load_state()
        end = self._lengths()
        out.add("br label %step")
        entering = out.label
        out.start("step")
        phis = self._phis(before, entering)
        more = out.define("icmp slt i64 %t, %steps")
        out.add(f"br i1 {more}, label %body, label %finish")
        out.start("body")
        self._load_rows()
        out.block(STEP, self.alive, set())
        self._store_results()
        after = self._next(phis, end)
        out.add("%t.next = add i64 %t, 1")
        latch = out.label
        out.add("br label %step")
        text = "\n".join(out.lines)
        for place, value in enumerate(after):
            text = text.replace(f"@NEXT{place}@", value)
        text = text.replace("@LATCH@", latch)
        out.lines = []
        out.start("finish")
        self._store_state(phis)
        out.add("br label %done")
        out.start("done")
        out.add(f"%s.next = add i64 %s, {self.lanes}")
        out.add("br label %series")
        out.start("end")
        out.add("ret void")
        tail = "\n".join(out.lines)
        opening = f"define void @{name}(i64 %first, i64 %last, i64 %steps, ptr noalias %table) {{"
        return "\n".join([*sorted(out.used), opening, *head, text, tail, "}"])

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

    def _load(self, pointers: list[str], offset: int, memory: str, kind: str) -> str:
        """Load a number of each lane; from one pointer, the same for all."""
        out = self.out
        numbers = []
        for pointer in pointers:
            at = out.define(f"getelementptr {memory}, ptr {pointer}, i64 {offset}")
            value = out.define(f"load {memory}, ptr {at}")
            if kind == "b":
                value = out.define(f"icmp ne {memory} {value}, 0")
            numbers.append(value)
        scalar = {"f": out.number, "i": "i32", "b": "i1"}[kind]
        if len(numbers) == 1:
            return out.splat(numbers[0], scalar)
        whole = "poison"
        for lane, value in enumerate(numbers):
            whole = out.define(f"insertelement {out.types[kind]} {whole}, {scalar} {value}, i32 {lane}")
        return whole

    def _store(self, pointers: list[str], offset: int, value: str, kind: str, memory: str) -> None:
        out = self.out
        scalar = {"f": out.number, "i": "i32", "b": "i1"}[kind]
        for lane, pointer in enumerate(pointers):
            one = value if self.lanes == 1 else out.define(f"extractelement {out.types[kind]} {value}, i32 {lane}")
            if kind == "b":
                one = out.define(f"zext i1 {one} to {memory}")
            elif memory != scalar:
                one = out.define(f"sext {scalar} {one} to {memory}")
            at = out.define(f"getelementptr {memory}, ptr {pointer}, i64 {offset}")
            out.add(f"store {memory} {one}, ptr {at}")

    def _load_model(self) -> None:
        """Load what was made once for the model; outside of the steps, for the compiler to keep what it can."""
        out = self.out
        for offset, number in enumerate(self.layout.kept):
            if number not in self.alive:
                continue
            value = self._load(self.model, offset, out.number, "f")
            kind = self.graph.nodes[number].kind
            if kind == "b":
                value = out.define(f"fcmp une {out.types['f']} {value}, {out.literal(0.0, 'f')}")
            elif kind == "i":
                value = out.define(f"fptosi {out.types['f']} {value} to {out.types['i']}")
            out.names[number] = value

    def _load_state(self) -> list[str]:
        """Load where each lane's series stands."""
        loaded = []
        for place in self.layout.state:
            pointers, memory = (self.state, self.out.number) if place.kind == "f" else (self.counts, "i32")
            loaded.append(self._load(pointers, place.offset, memory, place.kind))
        return loaded

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

    def _phis(self, before: list[str], entering: str) -> list[str]:
        out = self.out
        out.add(f"%t = phi i64 [ 0, %{entering} ], [ %t.next, %@LATCH@ ]")
        names = []
        for i, (place, value) in enumerate(zip(self.layout.state, before, strict=True)):
            kind = out.types[place.kind]
            names.append(out.define(f"phi {kind} [ {value}, %{entering} ], [ @NEXT{i}@, %@LATCH@ ]"))
            if place.node in self.alive:
                out.names[place.node] = names[-1]
        return names

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
            for number, slot in mine:
                self.out.names[number] = self._load(here, slot.offset, self.out.number, "f")

    def _store_results(self) -> None:
        results = iter(self.layout.results)
        for group, output in enumerate(self.layout.outputs):
            here = self._at_step(self.outs[group], len(self.layout.groups) + group)
            for offset in range(output.size):
                number = next(results)
                memory = {"f": self.out.number, "i": output.memory, "b": "i8"}[output.kind]
                self._store(here, offset, self.out.name(number), output.kind, memory)

    def _next(self, phis: list[str], end: str | None) -> list[str]:
        """Take over the new state, except where a series has ended."""
        new = [self.out.name(number) for number in self.layout.next_state]
        if end is None:
            return new
        out = self.out
        now = out.splat("%t", "i64")
        alive = out.define(f"icmp slt {out.wide('i64')} {now}, {end}")
        kinds = [out.types[place.kind] for place in self.layout.state]
        return [
            out.define(f"select {out.types['b']} {alive}, {kind} {a}, {kind} {b}")
            for kind, a, b in zip(kinds, new, phis, strict=True)
        ]

    def _store_state(self, phis: list[str]) -> None:
        for place, value in zip(self.layout.state, phis, strict=True):
            pointers, memory = (self.state, self.out.number) if place.kind == "f" else (self.counts, "i32")
            for offset in place.everywhere:
                self._store(pointers, offset, value, place.kind, memory)
