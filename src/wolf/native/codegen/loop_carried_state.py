"""The state carried from step to step: in registers, or in memory if it has very many numbers."""

from wolf.native.codegen import copy_tables, simd_lanes
from wolf.native.codegen.copy_tables import Home
from wolf.native.codegen.llvm_writer import Writer
from wolf.native.ir.layout import Layout, Place

MIN_NUMBERS_IN_MEMORY = 300  # numbers from which a state is kept in memory: no processor has so many registers


class LoopState:
    """The loop-carried state of the step loop.

    Args:
        out: the writer.
        layout: offsets of the numbers of the state.
        alive: nodes that are needed.
        state: address of each lane's numbers.
        counts: address of each lane's counts.
    """

    def __init__(self, out: Writer, layout: Layout, alive: set[int], state: list[str], counts: list[str]):
        self.out, self.layout, self.alive = out, layout, alive
        self.pointers = {"f": (state, out.number), "i": (counts, "i32"), "b": (counts, "i32")}
        both = list(zip(layout.state, layout.next_state, strict=True))
        large = sum(place.kind == "f" for place in layout.state) >= MIN_NUMBERS_IN_MEMORY
        self.stored = [(place, after) for place, after in both if large and place.kind == "f"]
        self.passed = [(place, after) for place, after in both if not (large and place.kind == "f")]
        self.phis: list[str] = []
        self.now = self.next = ""  # addresses of the part in memory, before and after the step

    def load(self) -> list[str]:
        """Load each lane's state; return the names of the part in registers."""
        self._load_memory_part()
        found: dict[tuple[str, int], str] = {}
        for kind, (pointers, memory) in self.pointers.items():
            offsets = [place.offset for place, _ in self.passed if place.kind == kind]
            loaded = simd_lanes.load(self.out, pointers, offsets, kind, memory) if offsets else {}
            found |= {(kind, offset): value for offset, value in loaded.items()}
        return [found[place.kind, place.offset] for place, _ in self.passed]

    def _load_memory_part(self) -> None:
        if not self.stored:
            return
        out, (pointers, _) = self.out, self.pointers["f"]
        source = pointers[0] if out.lanes == 1 else simd_lanes.gather_lanes(out, pointers, self._num_offsets)
        self.now, self.next = (out.matrix(1, len(self.stored)) for _ in range(2))
        copy_tables.move(out, self.now, [(i, Home(source, place.offset)) for i, (place, _) in enumerate(self.stored)])
        out.homes |= {place.node: Home(self.now, i) for i, (place, _) in enumerate(self.stored)}

    @property
    def _num_offsets(self) -> int:
        return 1 + max(place.offset for place, _ in self.stored)

    def begin_step(self, before: list[str], entering: str) -> None:
        """Begin a step: the part in registers is a phi of its initial value and that of the previous step."""
        for i, ((place, _), value) in enumerate(zip(self.passed, before, strict=True)):
            kind = self.out.types[place.kind]
            self.phis.append(self.out.define(f"phi {kind} [ {value}, %{entering} ], [ @NEXT{i}@, %@LATCH@ ]"))
            if place.node in self.alive:
                self.out.names[place.node] = self.phis[-1]

    def store_next(self) -> None:
        """Store the new part in memory beside the old one: results of this step may still read both."""
        if self.stored:
            self.out.fill(self.next, [after for _, after in self.stored], range(len(self.stored)))

    def advance(self, end: str | None) -> list[str]:
        """Replace the state where a series continues; return the names of the part in registers."""
        out, new = self.out, [self.out.name(after) for _, after in self.passed]
        if end is None:
            if self.stored:
                out.used.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
                size = len(self.stored) * out.bytes
                out.add(f"call void @llvm.memcpy.p0.p0.i64(ptr {self.now}, ptr {self.next}, i64 {size}, i1 false)")
            return new
        alive = out.define(f"icmp slt {out.wide('i64')} {out.splat('%t', 'i64')}, {end}")
        if self.stored:
            truth = out.types["b"]
            out.used.add(_select_function(out.types["f"], truth))
            out.add(f"call void @keep(ptr {self.now}, ptr {self.next}, {truth} {alive}, i64 {len(self.stored)})")
        kinds = [out.types[place.kind] for place, _ in self.passed]
        return [
            out.define(f"select {out.types['b']} {alive}, {kind} {a}, {kind} {b}")
            for kind, a, b in zip(kinds, new, self.phis, strict=True)
        ]

    def store(self) -> None:
        """Store each lane's state."""
        self._store_memory_part()
        both: list[tuple[Place, str]] = [(place, phi) for (place, _), phi in zip(self.passed, self.phis, strict=True)]
        for kind, (pointers, memory) in self.pointers.items():
            values = {place.offset: value for place, value in both if place.kind == kind}
            simd_lanes.store(self.out, pointers, values, kind, memory)

    def _store_memory_part(self) -> None:
        if not self.stored:
            return
        out, (pointers, _) = self.out, self.pointers["f"]
        target = pointers[0] if out.lanes == 1 else out.matrix(1, self._num_offsets)
        pairs = [(place.offset, Home(self.now, i)) for i, (place, _) in enumerate(self.stored)]
        copy_tables.move(out, target, sorted(pairs))
        if out.lanes > 1:
            simd_lanes.scatter_lanes(out, pointers, target, self._num_offsets)


def _select_function(one: str, truth: str) -> str:
    """Write the function that replaces numbers where a series continues."""
    return f"""define internal void @keep(ptr noalias %now, ptr noalias %next, {truth} %alive, i64 %count) noinline {{
entry:
  br label %again
again:
  %i = phi i64 [ 0, %entry ], [ %after, %again ]
  %old.at = getelementptr {one}, ptr %now, i64 %i
  %new.at = getelementptr {one}, ptr %next, i64 %i
  %old = load {one}, ptr %old.at, align 8
  %new = load {one}, ptr %new.at, align 8
  %value = select {truth} %alive, {one} %new, {one} %old
  store {one} %value, ptr %old.at, align 8
  %after = add i64 %i, 1
  %more = icmp slt i64 %after, %count
  br i1 %more, label %again, label %end
end:
  ret void
}}"""
