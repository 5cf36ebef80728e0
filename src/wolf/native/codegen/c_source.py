"""A filter as a C file and its header: the state as a struct, `init`, steps, and a self-test on recorded data."""

import numpy as np

from wolf.native.codegen.c_step import CStep
from wolf.native.codegen.c_writer import CWriter, array
from wolf.native.ir.layout import Output


class CSource:
    """Writer of the two C files of a filter.

    Args:
        steps: one, or one for each sensor; they share the state.
        name: prefix of all names.
        dtype: precision.
        version: of wolf.
    """

    def __init__(self, steps: list[CStep], name: str, dtype: str, version: str):
        self.steps, self.name, self.version = steps, name, version
        self.dtype = np.dtype(dtype)
        self.number = "float" if dtype == "float32" else "double"
        self.first = steps[0]
        same = set.intersection(*(each.constant_places() for each in steps))
        self.fixed = {i: self.first.start_value(i) for i in sorted(same)}
        self.places = [i for i in self._needed_places() if i not in self.fixed]
        self.members = self._members()

    def _needed_places(self) -> list[int]:
        """Find the numbers of the state that any step needs."""
        keep = {i for i, place in enumerate(self.first.step.layout.state) if place.leaf == self.first.mean_leaf}
        while True:
            more = set.union(*(each.needed_places(set(keep)) for each in self.steps))
            if more == keep:
                return sorted(keep)
            keep = more

    def _members(self) -> dict[int, tuple[str, int]]:
        """Name each number of the state: the member of the struct, and its index there."""
        names = self.first.member_names()
        counts: dict[str, int] = {}
        members = {}
        for i in self.places:
            name = names[self.first.step.layout.state[i].leaf]
            members[i] = (name, counts.get(name, 0))
            counts[name] = counts.get(name, 0) + 1
        self.sizes = counts
        return members

    @property
    def state_bytes(self) -> int:
        """Size of the struct. Counts come last, and compilers pad the struct to whole numbers behind them."""
        kinds = [self.first.step.layout.state[i].kind for i in self.places]
        size = sum(self.dtype.itemsize if kind == "f" else 4 for kind in kinds)
        return -(-size // self.dtype.itemsize) * self.dtype.itemsize

    def library(self) -> tuple[str, ...]:
        """List the functions of math.h that are called."""
        called = [each.body(self.places, self.members, self.fixed)[1] for each in self.steps]
        return tuple(sorted(set.union(*called)))

    def header(self) -> str:
        """Write the header."""
        guard = f"{self.name.upper()}_H"
        kinds = {self.members[i][0]: self.first.step.layout.state[i].kind for i in self.places}
        members = [
            f"    {self.number if kinds[name] == 'f' else 'int32_t'} {name}[{size}];"
            for name, size in sorted(self.sizes.items(), key=lambda each: kinds[each[0]] != "f")
        ]
        reports = "\n".join(self._report(each) for each in self.steps)
        steps = "\n".join(self._declaration(each) for each in self.steps)
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

{reports}
/* Set the state to the prior. */
void {self.name}_init({self.name}_state *state);

{steps}
#ifdef __cplusplus
}}
#endif

#endif
"""

    def _report(self, each: CStep) -> str:
        """Declare the report of a step."""
        fields = [f"    {self._type(output)} {name}{_brackets(output)};" for name, output in each.report_fields()]
        return f"""/* The results of one step. A weight is w in [0, 1]; an outlier is 0 or 1. */
typedef struct {{
{_lines(fields) if fields else "    char nothing;"}
}} {self.name}_report{each.tail};
"""

    def _declaration(self, each: CStep) -> str:
        """Declare a step."""
        source = f" of {each.sensor}" if each.sensor else ""
        notes = "".join(f"\n * {line}" for line in self._argument_notes(each))
        end = "\n */" if notes else " */"
        signature = each.signature(self.name, self.number, self.places)
        about = f"Process one measurement{source}; NAN where a coordinate is missing. The report may be a null pointer."
        return f"""/* {about}{notes}{end}
{signature};
"""

    def _argument_notes(self, each: CStep) -> list[str]:
        """Describe the arguments of a step."""
        notes = [
            f"{argument.name}: {' x '.join(map(str, argument.shape))}, by rows"
            + (", symmetric: the lower triangle is read." if argument.name in ("R", "Q") else ".")
            for argument in each.arguments
        ]
        time = (
            [] if each.time is None else [f"dt: time since the previous step, at least 0; {each.time.usual:g} usually."]
        )
        return [*notes, *time]

    def _type(self, output: Output) -> str:
        return {"f": self.number, "b": "int"}.get(output.kind, "int32_t")

    def code(self) -> str:
        """Write the C file."""
        return "\n".join([self._opening(), self._init(), *map(self._step, self.steps), self._self_test()])

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
        writer = CWriter(self.first.step.graph, {})
        lines = []
        for i in self.places:
            member, index = self.members[i]
            value = writer.literal(self.first.start_value(i), self.first.step.layout.state[i].kind)
            lines.append(f"    state->{member}[{index}] = {value};")
        return f"void {self.name}_init({self.name}_state *state) {{\n{_lines(lines)}\n}}\n"

    def _step(self, each: CStep) -> str:
        lines, _ = each.body(self.places, self.members, self.fixed)
        return f"{each.signature(self.name, self.number, self.places)} {{\n{_lines(lines)}\n}}\n"

    def _self_test(self) -> str:
        tests = [self._one_test(each) for each in self.steps]
        calls = "\n".join(f"    worst = larger(worst, test{each.tail}());" for each in self.steps)
        limit = "1e-3f" if self.number == "float" else "1e-9"
        steps = sum(len(each.data[0]) for each in self.steps)
        return f"""
#ifdef {self.name.upper()}_SELF_TEST
#include <stdio.h>

static {self.number} larger({self.number} a, {self.number} b) {{
    return (b <= a || a != a) ? a : b; /* NAN if one is */
}}

{_lines(tests)}

int main(void) {{
    {self.number} worst = 0;
{calls}
    printf("largest relative difference to Python over {steps} steps: %g\\n", (double)worst);
    return worst <= {limit} ? 0 : 1;
}}
#endif
"""

    def _one_test(self, each: CStep) -> str:
        """Write a function that filters recorded measurements, and returns the largest difference."""
        ys, us, means = each.data
        writer = CWriter(each.step.graph, {})
        used = each.used_inputs(self.places)
        tables = [array("measurements", ys, writer), array("expected_means", means, writer)]
        tables += [] if us is None or not used else [array("inputs", us, writer)]
        tables += [array(f"given_{argument.name}", argument.values, writer) for argument in each.arguments]
        rows = {"u": "t", "u_before": "(t > 0 ? t - 1 : 0)"}
        given = [f"given_{argument.name}" for argument in each.arguments]
        given += [] if each.time is None else [writer.literal(each.time.usual, "f")]
        given += [f"&inputs[{each.inputs} * {rows[name]}]" for name in used]
        passed = "".join(f"{one}, " for one in given)
        absolute = "fabsf" if self.number == "float" else "fabs"
        states = means.shape[1]
        return f"""static {self.number} test{each.tail}(void) {{
{_lines(tables)}
    {self.name}_state state;
    {self.name}_report{each.tail} report;
    {self.number} worst = 0;
    {self.name}_init(&state);
    for (int t = 0; t < {len(ys)}; t++) {{
        {each.function}(&state, &measurements[{ys.shape[1]} * t], {passed}&report);
        for (int i = 0; i < {states}; i++) {{
            const {self.number} expected = expected_means[{states} * t + i];
            worst = larger(worst, {absolute}(state.mean[i] - expected) / (1 + {absolute}(expected)));
        }}
    }}
    return worst;
}}
"""


def _brackets(output: Output) -> str:
    return f"[{output.size}]" if output.shape else ""


def _lines(lines: list[str]) -> str:
    return "\n".join(lines)
