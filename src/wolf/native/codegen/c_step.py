"""One step of a filter as a C function: arguments, reads of the state, arithmetic, stores, report."""

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np
from jax.tree_util import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey

from wolf.native.codegen.c_writer import CWriter
from wolf.native.frontend.trace import StepGraph
from wolf.native.ir.graph import STEP, Number
from wolf.native.ir.layout import Output


@dataclasses.dataclass(frozen=True)
class CArgument:
    """An argument of a step besides state, measurement and report.

    Attributes:
        name: in C.
        values: by rows, as the model has them: its size, and what the self-test passes.
        groups: the arrays of rows that it is, in the traced step.
        shape: (rows, columns) of a matrix; () for a number.
    """

    name: str
    values: np.ndarray
    groups: tuple[str, ...]
    shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class TimePolynomials:
    """F and Q over a time dt, as polynomials; they are local arrays of a step whose argument is dt.

    Attributes:
        usual: time of one step of the model.
        coefficients: by name, (degree + 1, D, D), the constant first.
        groups: by name, the arrays of rows that they are.
    """

    usual: float
    coefficients: dict[str, np.ndarray]
    groups: dict[str, tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class CStep:
    """A step to write.

    Attributes:
        step: traced with the model's other numbers as constants.
        function: name in C.
        arguments: those of the step, in their order.
        time: F and Q by time, or None.
        inputs: number of inputs u, or None.
        data: measurements, inputs or None, and filtered means of the self-test.
        sensor: name, or "".
    """

    step: StepGraph
    function: str
    arguments: tuple[CArgument, ...]
    time: TimePolynomials | None
    inputs: int | None
    data: tuple[np.ndarray, np.ndarray | None, np.ndarray]
    sensor: str = ""

    @property
    def mean_leaf(self) -> int:
        """Number of the leaf of the state that is its mean."""
        marks = [object() for _ in self.step.state.shapes]
        state = jax.tree.unflatten(self.step.state.structure, marks)
        return next(i for i, mark in enumerate(marks) if mark is state.mean)

    def start_value(self, i: int) -> Number:
        """Return the initial value of a number of the state."""
        graph, layout = self.step.start
        place = self.step.layout.state[i]
        first = sum(int(np.prod(shape, dtype=int)) for shape in self.step.state.shapes[: place.leaf])
        value = graph.value(layout.kept[first + place.entry])
        assert value is not None, "the numbers of the model are constants"
        return value

    def constant_places(self) -> set[int]:
        """Find the numbers of the state that keep their initial value."""
        layout, mean = self.step.layout, self.mean_leaf
        return {
            i
            for i, place in enumerate(layout.state)
            if layout.next_state[i] == place.node and layout.state[i].leaf != mean
        }

    def needed_places(self, keep: set[int]) -> set[int]:
        """Find the numbers of the state that the results, or those to keep, depend on; an unused clock is omitted."""
        layout, graph = self.step.layout, self.step.graph
        while True:
            roots = [*layout.results, *(layout.next_state[i] for i in keep)]
            alive = graph.needed(roots)
            more = keep | {i for i, place in enumerate(layout.state) if place.node in alive}
            if more == keep:
                return keep
            keep = more

    def alive(self, places: Sequence[int]) -> set[int]:
        """List the nodes that a step computes."""
        layout = self.step.layout
        return self.step.graph.needed([*layout.results, *(layout.next_state[i] for i in places)])

    def writer(self, places: Sequence[int], members: dict[int, tuple[str, int]], fixed: dict[int, Number]) -> CWriter:
        """Return a writer that has the C names of all inputs."""
        groups = {group: each.name for each in self.arguments for group in each.groups}
        groups |= {} if self.time is None else {g: name for name, all_of in self.time.groups.items() for g in all_of}
        numbers = {each.name for each in self.arguments if not each.shape}
        names = {}
        for number in self.alive(places):
            node = self.step.graph.nodes[number]
            if node.op != "input":
                continue
            slot = self.step.layout.slots[node.args[0]]
            name = groups.get(slot.group, slot.group)
            names[number] = name if name in numbers else f"{name}[{slot.offset}]"
        for i in places:
            member, index = members[i]
            names[self.step.layout.state[i].node] = f"s_{member}_{index}"
        writer = CWriter(self.step.graph, names)
        for i, value in fixed.items():
            place = self.step.layout.state[i]
            names[place.node] = writer.literal(value, place.kind)
        return writer

    def signature(self, prefix: str, number: str, places: Sequence[int]) -> str:
        """Write the declaration of the function."""
        given = [f"const {number} {each.name}" + _size(each) for each in self.arguments]
        given += [] if self.time is None else [f"const {number} dt"]
        given += [f"const {number} {name}[{self.inputs}]" for name in self.used_inputs(places)]
        parts = [
            f"{prefix}_state *state",
            f"const {number} y[{self.step.obs_dim}]",
            *given,
            f"{prefix}_report{self.tail} *report",
        ]
        return f"void {self.function}({', '.join(parts)})"

    @property
    def tail(self) -> str:
        """End of the names of this step's function and report."""
        return f"_{self.sensor}" if self.sensor else ""

    def used_inputs(self, places: Sequence[int]) -> list[str]:
        """List the inputs that a step reads: u, and the previous one if the prior is updated first."""
        nodes = (self.step.graph.nodes[number] for number in self.alive(places))
        groups = {self.step.layout.slots[node.args[0]].group for node in nodes if node.op == "input"}
        return [name for name in ("u", "u_before") if name in groups]

    def report_fields(self) -> list[tuple[str, Output]]:
        """List what a step reports."""
        names = jax.tree.unflatten(self.step.saved, self.step.layout.outputs)
        return list(names.items())

    def member_names(self) -> list[str]:
        """Name the leaves of the state."""
        marks = jax.tree.unflatten(self.step.state.structure, range(len(self.step.state.shapes)))
        paths = jax.tree_util.tree_flatten_with_path(marks)[0]
        names = ["_".join(_key_name(key) for key in path) for path, _ in paths]
        return [name.removeprefix("belief_").removeprefix("memory_") for name in names]

    def body(
        self, places: Sequence[int], members: dict[int, tuple[str, int]], fixed: dict[int, Number]
    ) -> tuple[list[str], set[str]]:
        """Write the statements, and list the functions of math.h that they call."""
        layout, alive = self.step.layout, self.alive(places)
        writer = self.writer(places, members, fixed)
        kinds = {"f": writer.number}
        reads = [
            f"    const {kinds.get(layout.state[i].kind, 'int32_t')} s_{m}_{k} = state->{m}[{k}];"
            for i in places
            for m, k in [members[i]]
            if layout.state[i].node in alive
        ]
        writer.block(STEP, alive, set())
        stores = [
            f"    state->{m}[{k}] = {writer.name(layout.next_state[i])};" for i in places for m, k in [members[i]]
        ]
        results, reported = iter(layout.results), []
        for name, output in self.report_fields():
            for k in range(output.size):
                place = f"[{k}]" if output.shape else ""
                reported.append(f"        report->{name}{place} = {writer.name(next(results))};")
        motion = [] if self.time is None else _time_lines(self.time, writer)
        lines = [*motion, *reads, *writer.lines, *stores, "    if (report != NULL) {", *reported, "    }"]
        return lines, writer.library


def _size(argument: CArgument) -> str:
    return f"[{argument.values.size}]" if argument.shape else ""


def _time_lines(time: TimePolynomials, writer: CWriter) -> list[str]:
    """Write F and Q over dt as local arrays."""
    lines = []
    for name, coefficients in time.coefficients.items():
        flat = coefficients.reshape(len(coefficients), -1)
        entries = ", ".join(_polynomial(column, writer) for column in flat.T)
        lines.append(f"    const {writer.number} {name}[{flat.shape[1]}] = {{{entries}}};")
    return lines


def _polynomial(coefficients: np.ndarray, writer: CWriter) -> str:
    """Write a polynomial in dt by Horner's rule."""
    degree = max(np.flatnonzero(coefficients), default=0)
    text = writer.literal(coefficients[degree], "f")
    for value in coefficients[:degree][::-1]:
        product = f"dt * ({text})" if " " in text else f"dt * {text}"
        text = product if not value else f"{writer.literal(value, 'f')} + {product}"
    return text


def _key_name(key: GetAttrKey | SequenceKey | DictKey | FlattenedIndexKey) -> str:
    if isinstance(key, GetAttrKey):
        return key.name
    return str(key.idx if isinstance(key, SequenceKey) else key.key)
