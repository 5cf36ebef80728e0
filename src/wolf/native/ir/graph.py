"""The intermediate representation: a graph of scalar operations, with shared subexpressions and folded constants.

Floating-point rules: nothing is reassociated or contracted, so that a graph has the bits of the operations it was made
of, with three exceptions. `0 * x` and `0 / x` are 0 and `x + 0` is x (they differ where x is NaN, infinite or zero:
states are finite, measurements are preprocessed, and divisors are pivots), and sums and products are commutative.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wolf.native.kernels.matmul import Dense

MAX_NODES = 70_000  # nodes, dead ones included, above which translation is abandoned: a long loop would be unrolled

HOISTED = frozenset(("sqrt", "div", "log", "exp"))  # operations that `Graph._through_choice` moves

Number = float | bool  # a float, an integer or a truth value
Kind = str  # "f" a number of the run's precision, "i" a 32-bit integer, "b" a truth value

COMMUTATIVE = frozenset(("add", "mul", "max", "min", "eq", "ne", "and", "or", "xor"))


class TooLargeError(Exception):
    """The graph is larger than is useful as straight-line code."""


class Node(NamedTuple):
    """One number.

    Attributes:
        op: the operation that computes it, or "const", "input", "phi" (the result of a branch), "dense" (a kernel over
            matrices) or "part" (a number that a kernel computes).
        args: numbers of the operand nodes; for an input its slot, for a phi (branch, place), for a part (kernel,
            place).
        kind: of number; "m" for the memory of a kernel.
        value: of a constant; of a kernel its shape.
        block: where it is computed: 0 once per model, 1 in every step, above that inside a branch.
    """

    op: str
    args: tuple
    kind: Kind
    value: Any
    block: int


@dataclasses.dataclass
class Branch:
    """A choice between two blocks of nodes, one of which runs.

    Attributes:
        chosen: the node that decides; true selects the second block.
        blocks: numbers of the blocks for false and true.
        results: for each place the pair of nodes that it may be.
        parent: block that contains the choice.
    """

    chosen: int
    blocks: tuple[int, int]
    results: list[tuple[int, int]]
    parent: int


ONCE, STEP = 0, 1


class Graph:
    """Nodes in topological order.

    Args:
        dtype: precision of the run.
        loops: whether products of full matrices may become kernels.
    """

    def __init__(self, dtype: str, loops: bool = True):
        self.dtype, self.loops = np.dtype(dtype), loops
        self.nodes: list[Node] = []
        self.branches: list[Branch] = []
        self.parents: dict[int, int] = {ONCE: -1, STEP: ONCE}
        self._parts: dict[int, np.ndarray] = {}  # of each loop over matrices
        self._known: list[dict[tuple, int]] = [{}, {}]
        self._block = STEP

    def constant(self, value: Number, kind: Kind) -> int:
        """Return the node of a constant; constants belong to no block."""
        value = self.rounded(value, kind)
        name = (float(value).hex() if value == value else "nan") if kind == "f" else value
        return self._make(("const", (name,), kind), Node("const", (), kind, value, ONCE))

    def rounded(self, value: Number, kind: Kind) -> Number:
        """Convert a number to a Python one, rounded to the precision of the run."""
        if kind == "f":
            return float(self.dtype.type(value))
        return bool(value) if kind == "b" else int(np.int32(value))

    def input(self, slot: int, kind: Kind, block: int = STEP) -> int:
        """Return the node of an input: read once per model, or at every step."""
        return self._make(("input", (slot,), kind), Node("input", (slot,), kind, None, block))

    def apply(self, op: str, *args: int, kind: Kind | None = None) -> int:
        """Return the node of an operation, folded and shared where possible."""
        kind = self.nodes[args[-1]].kind if kind is None else kind
        if op in COMMUTATIVE and args[0] > args[1]:
            args = (args[1], args[0])
        simple = simplify(self, op, args, kind)
        if simple is not None:
            return simple
        if op in HOISTED and (found := self._through_choice(op, args, kind)) is not None:
            return found
        # Constants belong to no block, so operations on the model alone run once, even inside a branch.
        block = max((self._block_of(arg) for arg in args), default=ONCE)
        block = ONCE if block == ONCE else self._block
        return self._make((op, args, kind), Node(op, args, kind, None, block))

    def _through_choice(self, op: str, args: tuple[int, ...], kind: Kind) -> int | None:
        """Exchange a costly operation with a choice between numbers of the model, for which it then runs once."""
        nodes = [self.nodes[arg] for arg in args]
        choices = {node.args[0] for node in nodes if node.block != ONCE}
        if len(choices) != 1 or not all(node.block == ONCE or self._chooses_constants(node) for node in nodes):
            return None
        sides = []
        for side in (1, 2):
            chosen = [arg if node.block == ONCE else node.args[side] for arg, node in zip(args, nodes, strict=True)]
            sides.append(self.apply(op, *chosen, kind=kind))
        return self.apply("select", *choices, *sides, kind=kind)

    def _chooses_constants(self, node: Node) -> bool:
        return node.op == "select" and all(self.nodes[arg].block == ONCE for arg in node.args[1:])

    def dense(self, shape: Dense, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the nodes of a matrix product, or of a triangular solution, that is computed by a kernel."""
        left, right = self._kernel_of(a), self._kernel_of(b)
        shape = shape._replace(left=left is not None, right=right is not None)
        args = (
            *(a.ravel().tolist() if left is None else [left]),
            *(b.ravel().tolist() if right is None else [right]),
        )
        block = ONCE if all(self.nodes[arg].block == ONCE for arg in args) else self._block
        loop = self._make(("dense", (shape, args), "m"), Node("dense", args, "m", shape, block))
        block = self.nodes[loop].block
        places = range(shape.rows * shape.columns)
        parts = [self._make(("part", (loop, i), "f"), Node("part", (loop, i), "f", None, block)) for i in places]
        self._parts[loop] = np.array(parts, np.int64).reshape(shape.rows, shape.columns)
        return self._parts[loop]

    def _kernel_of(self, ids: np.ndarray) -> int | None:
        """Return the kernel whose entire result a matrix is, if it runs in each step; else None."""
        first = self.nodes[int(ids.flat[0])] if ids.size else None
        if first is None or first.op != "part" or first.block == ONCE:
            return None
        loop = int(first.args[0])
        return loop if loop in self._parts and np.array_equal(self._parts[loop], ids) else None

    def loop(self, shape: tuple, args: tuple[int, ...], places: Sequence[int]) -> tuple[int, np.ndarray]:
        """Return the node of another kernel, and those of its parts, whose places are in the kernel's own memory."""
        loop = self._make(("dense", (shape, args), "m"), Node("dense", args, "m", shape, self._block))
        block = self.nodes[loop].block
        parts = [self._make(("part", (loop, i), "f"), Node("part", (loop, i), "f", None, block)) for i in places]
        return loop, np.array(parts, np.int64)

    def _block_of(self, arg: int) -> int:
        return self.nodes[arg].block

    def _make(self, key: tuple, node: Node) -> int:
        at = node.block
        search = at
        while search >= 0:
            found = self._known[search].get(key)
            if found is not None:
                return found
            search = self.parents[search]
        if len(self.nodes) >= MAX_NODES:
            raise TooLargeError(f"more than {MAX_NODES} operations")
        self.nodes.append(node)
        self._known[at][key] = len(self.nodes) - 1
        return len(self.nodes) - 1

    def choose(self, chosen: int, branches: Sequence[Callable[[], list[int]]]) -> list[int]:
        """Compute one of two lists of numbers.

        Args:
            chosen: node of a truth value.
            branches: two functions without arguments, for false and true, that return equally many nodes.
        """
        known = self.nodes[chosen]
        if known.op == "const":
            return branches[int(known.value)]()
        parent, results, blocks = self._block, [], []
        for branch in branches:
            self._known.append({})
            self._block = len(self._known) - 1
            self.parents[self._block] = parent
            blocks.append(self._block)
            results.append(branch())
            self._block = parent
        pairs = list(zip(*results, strict=True))
        self.branches.append(Branch(chosen, (blocks[0], blocks[1]), pairs, parent))
        where, first = len(self.branches) - 1, dict[tuple[int, int], int]()
        # Equal pairs are one number: both halves of a symmetric array stay equal behind a branch.
        places = [first.setdefault(pair, place) for place, pair in enumerate(pairs)]
        return [a if a == b else self._phi(where, place, a) for place, (a, b) in zip(places, pairs, strict=True)]

    def _phi(self, branch: int, place: int, like: int) -> int:
        return self._make(
            ("phi", (branch, place), "p"), Node("phi", (branch, place), self.nodes[like].kind, None, self._block)
        )

    def needed(self, roots: Iterable[int]) -> set[int]:
        """Find the nodes that these depend on, themselves included."""
        alive: set[int] = set()
        waiting = list(roots)
        while waiting:
            number = waiting.pop()
            if number in alive:
                continue
            alive.add(number)
            node = self.nodes[number]
            if node.op == "phi":
                branch = self.branches[node.args[0]]
                waiting += [branch.chosen, *branch.results[node.args[1]]]
            elif node.op == "part":
                waiting.append(node.args[0])
            elif node.op != "input":
                waiting += node.args
        return alive

    def value(self, number: int) -> Number | None:
        """Return the value of a constant, or None."""
        node = self.nodes[number]
        return node.value if node.op == "const" else None


def simplify(graph: Graph, op: str, args: tuple[int, ...], kind: Kind) -> int | None:
    """Fold constants, a sum with 0, a product with 0 or 1, and a choice between equal numbers."""
    values = [graph.value(arg) for arg in args]
    if all(value is not None for value in values) and op in CONSTANT_FOLDS:
        return graph.constant(_fold(graph, op, args, values), kind)
    if op == "select":
        return _simplify_select(graph, args, values)
    if len(args) == 2:
        return _simplify_pair(graph, op, args, values, kind)
    if op == "not" and graph.nodes[args[0]].op == "not":
        return graph.nodes[args[0]].args[0]
    if op == "neg" and graph.nodes[args[0]].op == "neg":
        return graph.nodes[args[0]].args[0]
    return None


def _simplify_select(graph: Graph, args: tuple[int, ...], values: list[Number | None]) -> int | None:
    chosen, otherwise, then = args
    if values[0] is not None:
        return then if values[0] else otherwise
    if otherwise == then:
        return then
    if graph.nodes[then].kind == "b" and values[1] is False and values[2] is True:
        return chosen
    return None


def _simplify_pair(graph: Graph, op: str, args: tuple[int, ...], values: list[Number | None], kind: Kind) -> int | None:
    a, b = args
    x, y = values
    if op in ("and", "or") and a == b:
        return a
    if op in ("add", "sub", "or", "xor") and y is not None and not y:
        return a
    if op in ("add", "or", "xor") and x is not None and not x:
        return b
    if op == "sub" and x is not None and x == 0 and kind == "f":
        return graph.apply("neg", b)
    if op in ("mul", "and") and ((x is not None and not x) or (y is not None and not y)):
        return graph.constant(0, kind)
    if op == "div" and x is not None and x == 0 and kind == "f":
        return a
    if op in ("mul", "div") and y is not None and y == 1:
        return a
    if op == "mul" and x is not None and x == 1:
        return b
    if op in ("mul", "div") and y is not None and y == -1 and kind == "f":
        return graph.apply("neg", a)
    if op == "mul" and x is not None and x == -1 and kind == "f":
        return graph.apply("neg", b)
    if op == "and":
        return b if x is True else a if y is True else None
    if op == "or" and (x is True or y is True):
        return graph.constant(True, "b")
    return None


def _fold(graph: Graph, op: str, args: tuple[int, ...], values: list[Number | None]) -> Number:
    kinds = [graph.nodes[arg].kind for arg in args]
    types = {"f": graph.dtype.type, "i": np.int32, "b": np.bool_}
    with np.errstate(all="ignore"):
        return CONSTANT_FOLDS[op](*(types[kind](value) for kind, value in zip(kinds, values, strict=True)))


CONSTANT_FOLDS: dict[str, Callable] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b if a.dtype.kind == "f" else math.trunc(a / b),
    "rem": np.fmod,
    "neg": lambda a: -a,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "max": np.maximum,
    "min": np.minimum,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.logical_not,
    "finite": np.isfinite,
    "floor": np.floor,
    "ceil": np.ceil,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "atan2": np.arctan2,
    "atan": np.arctan,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "pow": np.power,
    "select": lambda c, a, b: b if c else a,
    "to_f": lambda a: a,
    "to_i": lambda a: np.int32(a) if np.isfinite(a) else np.int32(0),
    "to_b": lambda a: a != 0,
}
