"""A filter as a C file and its header: the state as a struct, `init`, `step`, and a self-test on recorded data."""

import jax
import numpy as np
from jax.tree_util import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey

from wolf.native.codegen.c_writer import CWriter, array
from wolf.native.frontend.trace import StepGraph
from wolf.native.ir.graph import STEP, Number
from wolf.native.ir.layout import Output


class CSource:
    """Writer of the two C files of a filter.

    Args:
        step: traced with the model's numbers as constants.
        name: prefix of all names.
        dtype: precision.
        inputs: number of inputs, or None.
        version: of wolf.
    """

    def __init__(self, step: StepGraph, name: str, dtype: str, inputs: int | None, version: str):
        self.step, self.name, self.inputs, self.version = step, name, inputs, version
        self.dtype = np.dtype(dtype)
        self.number = "float" if dtype == "float32" else "double"
        self.fixed = self._fixed()
        self.places = [i for i in self._needed_places() if i not in self.fixed]
        self.members = self._members()

    def _fixed(self) -> dict[int, Number]:
        """Find the numbers of the state that keep their initial value: constants of the code."""
        layout, mean = self.step.layout, self._mean_leaf()
        same = [i for i, place in enumerate(layout.state) if layout.next_state[i] == place.node]
        return {i: self._start_value(i) for i in same if layout.state[i].leaf != mean}

    def _start_value(self, i: int) -> Number:
        graph, layout = self.step.start
        place = self.step.layout.state[i]
        first = sum(int(np.prod(shape, dtype=int)) for shape in self.step.state.shapes[: place.leaf])
        value = graph.value(layout.kept[first + place.entry])
        assert value is not None, "the numbers of the model are constants"
        return value

    def _needed_places(self) -> list[int]:
        """Find the numbers of the state that anything depends on; an unused clock is omitted."""
        layout, graph = self.step.layout, self.step.graph
        mean = self._mean_leaf()
        keep = {i for i, place in enumerate(layout.state) if place.leaf == mean}
        while True:
            roots = [*layout.results, *(layout.next_state[i] for i in keep)]
            alive = graph.needed(roots)
            more = keep | {i for i, place in enumerate(layout.state) if place.node in alive}
            if more == keep:
                return sorted(keep)
            keep = more

    def _mean_leaf(self) -> int:
        marks = [object() for _ in self.step.state.shapes]
        state = jax.tree.unflatten(self.step.state.structure, marks)
        return next(i for i, mark in enumerate(marks) if mark is state.mean)

    def _members(self) -> dict[int, tuple[str, int]]:
        """Name each number of the state: the member of the struct, and its index there."""
        marks = jax.tree.unflatten(self.step.state.structure, range(len(self.step.state.shapes)))
        paths = jax.tree_util.tree_flatten_with_path(marks)[0]
        names = ["_".join(_key_name(key) for key in path) for path, _ in paths]
        names = [name.removeprefix("belief_").removeprefix("memory_") for name in names]
        counts: dict[str, int] = {}
        members = {}
        for i in self.places:
            name = names[self.step.layout.state[i].leaf]
            members[i] = (name, counts.get(name, 0))
            counts[name] = counts.get(name, 0) + 1
        self.sizes = counts
        return members

    @property
    def state_bytes(self) -> int:
        """Size of the struct. Counts come last, and compilers pad the struct to whole numbers behind them."""
        kinds = [self.step.layout.state[i].kind for i in self.places]
        size = sum(self.dtype.itemsize if kind == "f" else 4 for kind in kinds)
        return -(-size // self.dtype.itemsize) * self.dtype.itemsize

    def library(self) -> tuple[str, ...]:
        """List the functions of math.h that are called."""
        writer = self._writer()
        writer.block(STEP, self._alive(), set())
        return tuple(sorted(writer.library))

    def _alive(self) -> set[int]:
        layout = self.step.layout
        return self.step.graph.needed([*layout.results, *(layout.next_state[i] for i in self.places)])

    def _writer(self) -> CWriter:
        names = {}
        for number in self._alive():
            node = self.step.graph.nodes[number]
            if node.op != "input":
                continue
            slot = self.step.layout.slots[node.args[0]]
            names[number] = f"{slot.group}[{slot.offset}]"
        for i in self.places:
            member, index = self.members[i]
            names[self.step.layout.state[i].node] = f"s_{member}_{index}"
        writer = CWriter(self.step.graph, names)
        for i, value in self.fixed.items():
            place = self.step.layout.state[i]
            names[place.node] = writer.literal(value, place.kind)
        return writer

    def header(self) -> str:
        """Write the header."""
        guard = f"{self.name.upper()}_H"
        kinds = {self.members[i][0]: self.step.layout.state[i].kind for i in self.places}
        members = [
            f"    {self.number if kinds[name] == 'f' else 'int32_t'} {name}[{size}];"
            for name, size in sorted(self.sizes.items(), key=lambda each: kinds[each[0]] != "f")
        ]
        fields = [f"    {self._type(output)} {name}{_brackets(output)};" for name, output in self._report_fields()]
        arguments = self._arguments()
        return f"""#ifndef {guard}
#define {guard}

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

/* The state of one filter: mean, lower triangle of the covariance by rows, and the memory of the noise model. */
typedef struct {{
{_lines(members)}
}} {self.name}_state;

/* The results of one step. A weight is w in [0, 1]; an outlier is 0 or 1. */
typedef struct {{
{_lines(fields) if fields else "    char nothing;"}
}} {self.name}_report;

/* Set the state to the prior. */
void {self.name}_init({self.name}_state *state);

/* Process one measurement; NAN where a coordinate is missing. The report may be a null pointer. */
void {self.name}_step({arguments});

#ifdef __cplusplus
}}
#endif

#endif
"""

    def _arguments(self) -> str:
        inputs = "".join(f"const {self.number} {name}[{self.inputs}], " for name in self._inputs())
        size = self.step.obs_dim
        return f"{self.name}_state *state, const {self.number} y[{size}], {inputs}{self.name}_report *report"

    def _inputs(self) -> list[str]:
        """List the inputs that a step reads: u, and the previous one if the prior is updated first."""
        nodes = (self.step.graph.nodes[number] for number in self._alive())
        groups = {self.step.layout.slots[node.args[0]].group for node in nodes if node.op == "input"}
        return [name for name in ("u", "u_before") if name in groups]

    def _report_fields(self) -> list[tuple[str, Output]]:
        names = jax.tree.unflatten(self.step.saved, self.step.layout.outputs)
        return list(names.items())

    def _type(self, output: Output) -> str:
        return {"f": self.number, "b": "int"}.get(output.kind, "int32_t")

    def code(self, data: tuple[np.ndarray, np.ndarray | None, np.ndarray]) -> str:
        """Write the C file."""
        return "\n".join([self._opening(), self._init(), self._step(), self._self_test(*data)])

    def _opening(self) -> str:
        return f"""/* A filter exported by wolf {self.version}. Do not edit this file; export it again.
 *
 * Compile it as C99, with -ffp-contract=off for the same bits on every machine, and never with -ffast-math: a missing
 * measurement is NAN, and a compiler that may assume there is none silently generates wrong code.
 */
#include "{self.name}.h"

#include <math.h>
#include <stddef.h>

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "NAN means missing here: compile without -ffast-math and -ffinite-math-only"
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif
"""

    def _init(self) -> str:
        writer = CWriter(self.step.graph, {})
        lines = []
        for i in self.places:
            member, index = self.members[i]
            value = writer.literal(self._start_value(i), self.step.layout.state[i].kind)
            lines.append(f"    state->{member}[{index}] = {value};")
        return f"void {self.name}_init({self.name}_state *state) {{\n{_lines(lines)}\n}}\n"

    def _step(self) -> str:
        writer, layout = self._writer(), self.step.layout
        alive = self._alive()
        reads = [
            f"    const {self._kind(i)} s_{m}_{k} = state->{m}[{k}];"
            for i in self.places
            for m, k in [self.members[i]]
            if layout.state[i].node in alive
        ]
        writer.block(STEP, alive, set())
        stores = [
            f"    state->{m}[{k}] = {writer.name(layout.next_state[i])};"
            for i in self.places
            for m, k in [self.members[i]]
        ]
        results, stores_to_report = iter(layout.results), []
        for name, output in self._report_fields():
            for k in range(output.size):
                place = f"[{k}]" if output.shape else ""
                stores_to_report.append(f"        report->{name}{place} = {writer.name(next(results))};")
        body = [*reads, *writer.lines, *stores, "    if (report != NULL) {", *stores_to_report, "    }"]
        return f"void {self.name}_step({self._arguments()}) {{\n{_lines(body)}\n}}\n"

    def _kind(self, i: int) -> str:
        return self.number if self.step.layout.state[i].kind == "f" else "int32_t"

    def _self_test(self, ys: np.ndarray, us: np.ndarray | None, means: np.ndarray) -> str:
        writer = CWriter(self.step.graph, {})
        tables = [array("measurements", ys, writer), array("expected_means", means, writer)]
        tables += [] if us is None or not self._inputs() else [array("inputs", us, writer)]
        size, states = ys.shape[1], means.shape[1]
        rows = {"u": "t", "u_before": "(t > 0 ? t - 1 : 0)"}
        u = "".join(f"&inputs[{self.inputs} * {rows[name]}], " for name in self._inputs())
        limit = "1e-3f" if self.number == "float" else "1e-9"
        absolute = "fabsf" if self.number == "float" else "fabs"
        return f"""
#ifdef {self.name.upper()}_SELF_TEST
#include <stdio.h>

{_lines(tables)}

int main(void) {{
    {self.name}_state state;
    {self.name}_report report;
    {self.number} worst = 0;
    {self.name}_init(&state);
    for (int t = 0; t < {len(ys)}; t++) {{
        {self.name}_step(&state, &measurements[{size} * t], {u}&report);
        for (int i = 0; i < {states}; i++) {{
            const {self.number} expected = expected_means[{states} * t + i];
            const {self.number} error = {absolute}(state.mean[i] - expected) / (1 + {absolute}(expected));
            if (!(error <= worst)) {{
                worst = error;
            }}
        }}
    }}
    printf("largest relative difference to Python over {len(ys)} steps: %g\\n", (double)worst);
    return worst <= {limit} ? 0 : 1;
}}
#endif
"""


def _key_name(key: GetAttrKey | SequenceKey | DictKey | FlattenedIndexKey) -> str:
    if isinstance(key, GetAttrKey):
        return key.name
    return str(key.idx if isinstance(key, SequenceKey) else key.key)


def _brackets(output: Output) -> str:
    return f"[{output.size}]" if output.shape else ""


def _lines(lines: list[str]) -> str:
    return "\n".join(lines)
