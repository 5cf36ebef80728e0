"""A graph as C99: no allocation, no loops, no globals, nothing of the library but a few functions of math.h.

One line per node. The rules of `graph.py` hold: no contraction, no reordering, NaN and infinity keep their meaning; the
code does not compile under options that break them.
"""

import numpy as np

from wolf.native.ir.graph import Graph

OPERATORS = {
    **{"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">="},
    **{"eq": "==", "ne": "!=", "and": "&&", "or": "||", "xor": "!="},
}
FUNCTIONS = {"rem": "fmod", "abs": "fabs"}
TYPES = {"i": "int32_t", "b": "int"}


class CWriter:
    """Writer of nodes as C statements.

    Args:
        graph: of the step.
        inputs: C expression of each input that is read.
    """

    def __init__(self, graph: Graph, inputs: dict[int, str]):
        self.graph, self.inputs = graph, inputs
        self.single = graph.dtype.itemsize == 4
        self.number = "float" if self.single else "double"
        self.lines: list[str] = []
        self.library: set[str] = set()

    def name(self, number: int) -> str:
        """Return the C name of a node, or its value."""
        node = self.graph.nodes[number]
        if node.op == "const":
            return self.literal(node.value, node.kind)
        return self.inputs[number] if node.op == "input" else f"v{number}"

    def literal(self, value: float, kind: str) -> str:
        """Format a constant."""
        if kind != "f":
            return str(int(value))
        if not np.isfinite(value):
            text = "NAN" if value != value else "INFINITY" if value > 0 else "-INFINITY"
            return text if self.single else f"(double){text}"
        text = str(self.graph.dtype.type(value)) + ("f" if self.single else "")
        return f"({text})" if value < 0 else text

    def type_of(self, number: int) -> str:
        """Return the C type of a node."""
        return TYPES.get(self.graph.nodes[number].kind, self.number)

    def block(self, block: int, alive: set[int], done: set[int], indent: str = "    ") -> None:
        """Write the needed nodes of one block, in their order."""
        for number in sorted(n for n in alive if self.graph.nodes[n].block == block):
            node = self.graph.nodes[number]
            if node.op == "phi":
                if node.args[0] not in done:
                    done.add(node.args[0])
                    self._branch(node.args[0], alive, done, indent)
            elif node.op not in ("const", "input"):
                text = self.expression(number)
                self.lines.append(f"{indent}const {self.type_of(number)} v{number} = {text};")

    def _branch(self, which: int, alive: set[int], done: set[int], indent: str) -> None:
        branch = self.graph.branches[which]
        phis = [n for n in sorted(alive) if self.graph.nodes[n].op == "phi" and self.graph.nodes[n].args[0] == which]
        self.lines += [f"{indent}{self.type_of(n)} v{n};" for n in phis]
        for opening, side in ((f"if ({self.name(branch.chosen)}) {{", 1), ("} else {", 0)):
            self.lines.append(indent + opening)
            self.block(branch.blocks[side], alive, done, indent + "    ")
            for n in phis:
                value = self.name(branch.results[self.graph.nodes[n].args[1]][side])
                self.lines.append(f"{indent}    v{n} = {value};")
        self.lines.append(indent + "}")

    def expression(self, number: int) -> str:
        """Format one operation."""
        node = self.graph.nodes[number]
        args = [self.name(arg) for arg in node.args]
        op, of = node.op, self.graph.nodes[node.args[-1]].kind
        if op in ("add", "mul") and of == "b":
            return f"{args[0]} {'||' if op == 'add' else '&&'} {args[1]}"
        if op in ("add", "sub", "mul") and of == "i":  # unsigned arithmetic wraps around; signed overflow is undefined
            return f"(int32_t)((uint32_t){args[0]} {OPERATORS[op]} (uint32_t){args[1]})"
        if op == "rem" and of == "i":
            return f"{args[0]} % {args[1]}"
        if op in OPERATORS:
            return f"{args[0]} {OPERATORS[op]} {args[1]}"
        if op == "select":
            return f"{args[0]} ? {args[2]} : {args[1]}"
        if op in ("max", "min"):  # NaN propagates, unlike in fmax
            a, b = args
            first = f"({a} {'>' if op == 'max' else '<'} {b})" + (f" || ({a} != {a})" if of == "f" else "")
            return f"({first}) ? {a} : {b}"
        if op == "neg":
            return f"-{args[0]}"
        if op == "not":
            return f"!{args[0]}"
        if op == "finite":
            return f"{self._call('fabs')}({args[0]}) < {self.literal(float('inf'), 'f')}"
        if op.startswith("to_"):
            return f"{args[0]} != 0" if op == "to_b" else f"({TYPES.get(node.kind, self.number)}){args[0]}"
        return f"{self._call(FUNCTIONS.get(op, op))}({', '.join(args)})"

    def _call(self, name: str) -> str:
        self.library.add(name)
        return name + "f" if self.single else name


def array(name: str, values: np.ndarray, writer: CWriter) -> str:
    """Format a table of numbers."""
    flat = [writer.literal(float(value), "f") for value in values.ravel()]
    lines = [", ".join(flat[i : i + 8]) for i in range(0, len(flat), 8)]
    body = ",\n    ".join(lines)
    return f"static const {writer.number} {name}[] = {{\n    {body}\n}};"
