"""One step of a filter as a graph with a layout, traced once for a kind of model and method."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from wolf.beliefs import Gaussian
from wolf.engine import scan
from wolf.engine.recorders import RECORDERS
from wolf.native.frontend import derived_ops, loo_step, smoother_step
from wolf.native.frontend.jaxpr_to_graph import translate
from wolf.native.frontend.node_arrays import UnsupportedOperationError, kind_of
from wolf.native.frontend.signature import LooSpec, Signature, count_values, num_parameters
from wolf.native.ir.graph import ONCE, STEP, Graph
from wolf.native.ir.layout import Layout, Output, Place, Slot, StateShape, entries, spread_out
from wolf.numerics.linalg import scalar_code_mode
from wolf.numerics.precision import precision

MOST_ENTRIES = 500_000  # numbers that a step makes, most of which may be folded
COVARIANCES = ("Q", "R", "dynamics_cov", "obs_cov")


@dataclasses.dataclass
class StepFacts:
    """What running a step needs to know of it, and what can be kept without its graph.

    Attributes:
        state: how the state is built.
        saved: structure of what is kept of each step.
        outputs: the arrays that a step gives out.
        groups: names of the arrays that have a row for each step.
        num_kept: how many numbers are made once for a model.
        num_start: how many make up the state that a model starts from.
        operations: how many a step takes.
        obs_dim: number of coordinates of a measurement.
        described: what a saver with a method `describe` said about the first step that it saw.
    """

    state: StateShape
    saved: Any
    outputs: list[Output]
    groups: list[str]
    num_kept: int
    num_start: int
    operations: int
    obs_dim: int
    described: Any


@dataclasses.dataclass
class StepGraph:
    """A traced step.

    Attributes:
        graph: its operations.
        layout: where its numbers come from and go to.
        state: how the state is built.
        saved: structure of what is kept of each step.
        operations: how many a step takes.
        start: graph and layout of what makes the state that a model starts from.
        obs_dim: number of coordinates of a measurement.
        described: what a saver with a method `describe` said about the first step that it saw.
    """

    graph: Graph
    layout: Layout
    state: StateShape
    saved: Any
    operations: int
    start: tuple[Graph, Layout]
    obs_dim: int = 0
    described: Any = None

    @property
    def facts(self) -> StepFacts:
        """What is left without the graph."""
        sizes = (len(self.layout.kept), len(self.start[1].kept), self.operations, self.obs_dim)
        return StepFacts(self.state, self.saved, self.layout.outputs, self.layout.groups, *sizes, self.described)


def trace(kind: Signature, values: np.ndarray | None = None) -> StepGraph:
    """Trace one step of a kind of model and method into a graph.

    Args:
        kind: from `flatten_model`.
        values: of the model's numbers, if they are to be a part of the code.
    """
    rows = row_shapes(kind)
    with precision(kind.dtype), scalar_code_mode():
        start_program, start_shapes = jax.make_jaxpr(_starting(kind), return_shape=True)(*_abstract(kind))
        shapes, structure = jax.tree.flatten(start_shapes)
        if kind.state is not None:
            structure = kind.state.structure
            shapes = [jax.ShapeDtypeStruct(*each) for each in zip(kind.state.shapes, kind.state.dtypes, strict=True)]
        said: list[Any] = []
        other = loo_step if isinstance(kind.back, LooSpec) else smoother_step
        stepping = _stepping(kind, structure, said) if kind.back is None else other.stepping(kind)
        step_program, (_, saved) = jax.make_jaxpr(stepping, return_shape=True)(
            *_abstract(kind), *_abstract(kind), *shapes, *(jax.ShapeDtypeStruct(s, kind.dtype) for s in rows.values())
        )
    if (entries := _entries(step_program.jaxpr)) > MOST_ENTRIES:
        raise UnsupportedOperationError(f"a step makes {entries} numbers, before any is folded")
    start, begins = _place_start(kind, start_program, values)
    symmetric = [_may_be_symmetric(start[0], each) for each in begins] if kind.state is None else kind.state.halves
    step = _place(kind, step_program, structure, shapes, saved, values, list(symmetric))
    step.described = said[0] if said else None
    step.obs_dim = next(iter(rows.values()))[0]
    step.start = start
    return step


def _entries(program: Any) -> int:
    """Count the numbers that a program makes, loops once: a glance before each is looked at."""
    total = 0
    for equation in program.eqns:
        total += sum(getattr(var.aval, "size", 1) for var in equation.outvars)
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                total += _entries(inner) if hasattr(inner, "eqns") else 0
    return total


def _abstract(kind: Signature) -> list[Any]:
    return [jax.ShapeDtypeStruct(shape, kind.dtype) for shape in kind.shapes]


def row_shapes(kind: Signature) -> dict[str, tuple[int, ...]]:
    """Give the shape of a row of each array that a step reads, those of the model apart."""
    model, _ = jax.tree.unflatten(kind.structure, _abstract(kind))
    if kind.back is not None:
        return (loo_step if isinstance(kind.back, LooSpec) else smoother_step).row_shapes(kind, model)
    shapes: dict[str, tuple[int, ...]] = {"y": (model.obs_dim,)}
    return shapes if kind.inputs is None else shapes | {"u": (kind.inputs,), "u_before": (kind.inputs,)}


def _starting(kind: Signature) -> Callable:
    def start(*leaves: Any) -> Any:
        model, method = jax.tree.unflatten(kind.structure, leaves)
        if kind.back is not None:  # where a walk back starts from is no part of the model; this has its shapes
            return Gaussian(*map(jnp.asarray, model.prior))
        return scan.init(model, method, None)

    return start


def _stepping(kind: Signature, structure: Any, said: list[Any]) -> Callable:
    """Make the step as a function of flat arguments: leaves that lead to it, leaves of it, state, y, u, u before."""
    keep: Any = RECORDERS[kind.save] if isinstance(kind.save, str) else kind.save
    describe = getattr(keep, "describe", None)
    size = len(kind.shapes)

    def step(*flat: Any) -> Any:
        before, _ = jax.tree.unflatten(kind.structure, flat[:size])
        now, method = jax.tree.unflatten(kind.structure, flat[size : 2 * size])
        state = jax.tree.unflatten(structure, flat[2 * size : 2 * size + structure.num_leaves])
        y, *us = flat[2 * size + structure.num_leaves :]
        u, u_before = us if us else (None, None)
        ahead = scan.predict(before, method, state, u, update_first=kind.update_first, u_before=u_before)
        new, info = scan.update(now, method, ahead, y, u)
        if describe is not None:
            said.append(describe(info))
        return new, keep(new, info)

    return step


class Slots:
    """The inputs of a graph, each once.

    Args:
        values: of the model's numbers, if they are to be a part of the code.
    """

    def __init__(self, values: np.ndarray | None = None) -> None:
        self.numbers: dict[Slot, int] = {}
        self.values = values

    def input(self, graph: Graph, slot: Slot, kind: str = "f", block: int = STEP) -> int:
        """Give the node of an input."""
        if slot.group == "model" and self.values is not None:
            return graph.constant(self.values[slot.offset], kind)
        return graph.input(self.numbers.setdefault(slot, len(self.numbers)), kind, block)

    def listed(self) -> list[Slot]:
        """List them by number."""
        return list(self.numbers)


def _leaf_nodes(graph: Graph, kind: Signature, slots: Slots, rows: str | None) -> list[np.ndarray]:
    """Make nodes of all leaves: constants, numbers of the model, and numbers of a row.

    Args:
        graph: that nodes go into.
        kind: of model and method.
        slots: of the inputs.
        rows: what the arrays of rows are called; None takes the first row as a part of the model, after all others.
    """
    nodes, at, row = [], 0, 0
    behind = num_parameters(kind)
    for shape, pattern, varies in zip(kind.shapes, kind.pattern, kind.varying, strict=True):
        size = int(np.prod(shape, dtype=int))
        if varies and rows is not None:
            codes = np.frombuffer(pattern, np.int16).tolist()
            ids = [
                graph.constant(code, "f") if code < 2 else slots.input(graph, Slot(f"{rows}{row}", i))
                for i, code in enumerate(codes)
            ]
            row += 1
        elif varies:
            ids = [slots.input(graph, Slot("model", behind + i), block=ONCE) for i in range(size)]
            behind += size
        else:
            codes = np.frombuffer(pattern, np.int16).tolist()
            ids = [
                graph.constant(code, "f") if code < 2 else slots.input(graph, Slot("model", at + code - 2), block=ONCE)
                for code in codes
            ]
            at += count_values(pattern)
        nodes.append(np.array(ids, np.int64).reshape(shape))
    return nodes


def _may_be_symmetric(graph: Graph, ids: np.ndarray) -> bool:
    """Say whether an array is square, and no two numbers in it that are known make it lopsided."""
    if ids.ndim != 2 or ids.shape[0] != ids.shape[1] or len(ids) < 2:
        return False
    pairs = [(graph.nodes[a], graph.nodes[b]) for a, b in zip(ids.ravel(), ids.T.ravel(), strict=True) if a != b]
    return not any(a.op == b.op == "const" for a, b in pairs)


def _place(
    kind: Signature,
    program: Any,
    structure: Any,
    shapes: list[Any],
    saved: Any,
    values: np.ndarray | None,
    symmetric: list[bool],
) -> StepGraph:
    """Translate the step, with both halves of every square array of the state as one number where that holds.

    Another model's state has them as that one had: what is not symmetric to the last bit then is so but for rounding.
    """
    while True:
        graph, slots = Graph(kind.dtype, loops=values is None), Slots(values)
        leads = "before" if kind.update_first else "now"
        leaves = [*_leaf_nodes(graph, kind, slots, leads), *_leaf_nodes(graph, kind, slots, "now")]
        state, places = _state_nodes(graph, slots, shapes, symmetric)
        rows = [_row_nodes(graph, slots, name, shape) for name, shape in row_shapes(kind).items()]
        results = translate(graph, program, [*leaves, *state, *rows])
        new, saving = results[: len(shapes)], results[len(shapes) :]
        still = [s and bool(np.array_equal(n, n.T)) for s, n in zip(symmetric, new, strict=True)]
        if kind.state is not None or still == symmetric:
            break
        symmetric = still
    next_state = [int(number) for ids, s in zip(new, symmetric, strict=True) for number in _once(ids, s)]
    outputs = [_output(leaf, kind.dtype) for leaf in jax.tree.leaves(saved)]
    wanted = [number for ids in saving for number in ids.ravel().tolist()]
    alive = graph.needed([*next_state, *wanted])
    operations = _operations(graph, alive)
    groups = [*row_shapes(kind), *_varying_groups(kind)]
    kept = _kept(graph, alive, [*next_state, *wanted])
    fixed = [
        (i, name) for i, name in kind.general if not kind.varying[i]
    ]  # a row of its own is checked by who sends it
    if fixed:
        covariances = [name in COVARIANCES for _, name in fixed]
        kept = [*kept, _surely_fine(graph, [leaves[i] for i, _ in fixed], covariances)]
    layout = Layout(slots.listed(), groups, kept, places, next_state, outputs, wanted)
    dtypes = tuple(np.dtype(each.dtype) for each in shapes)
    built = StateShape(structure, tuple(each.shape for each in shapes), dtypes, tuple(symmetric))
    return StepGraph(graph, layout, built, jax.tree.structure(saved), operations, (graph, layout))


def _operations(graph: Graph, alive: set[int]) -> int:
    """Count the lines of a step; a number that a loop takes or gives is half of one.

    What one loop gives and another takes is moved by tables, without a line.
    """
    lines, moved = 0, set[int]()
    for number in alive:
        node = graph.nodes[number]
        if node.op in ("const", "input", "part") or node.block == ONCE:
            continue
        loop = node.op == "dense"
        lines += not loop
        if node.op != "phi":
            moved |= {arg for arg in node.args if loop != (graph.nodes[arg].op in ("const", "input", "part"))}
    return lines + len(moved) // 2


def _row_nodes(graph: Graph, slots: Slots, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Make the nodes of a row; of a covariance the lower half is read, for both."""
    at = np.arange(int(np.prod(shape, dtype=int))).reshape(shape)
    at = np.maximum(at, at.T) if len(shape) == 2 else at
    return np.array([slots.input(graph, Slot(name, int(i))) for i in at.ravel()], np.int64).reshape(shape)


def _surely_fine(graph: Graph, leaves: list[np.ndarray], covariances: list[bool]) -> int:
    """Say whether new values can be told to be sound at a glance: finite, and covariances with positive pivots.

    What is not surely fine is looked at by the checks that every model gets, and may pass them.
    """
    fine = graph.constant(True, "b")
    for leaf, covariance in zip(leaves, covariances, strict=True):
        for number in leaf.ravel().tolist():
            fine = graph.apply("and", fine, graph.apply("finite", number, kind="b"))
        if covariance:
            for a, b in zip(leaf.ravel().tolist(), leaf.T.ravel().tolist(), strict=True):
                fine = graph.apply("and", fine, graph.apply("eq", a, b, kind="b"))
            fine = graph.apply("and", fine, derived_ops.definite(graph, leaf.tolist()))
    return fine


def _output(leaf: Any, dtype: str) -> Output:
    kind = kind_of(leaf.dtype)
    if kind == "f" and leaf.dtype != dtype:
        raise UnsupportedOperationError(f"results of type {leaf.dtype} in a run in {dtype}")
    return Output(leaf.shape, np.dtype(leaf.dtype), kind)


def _varying_groups(kind: Signature) -> list[str]:
    count = sum(kind.varying)
    now = [f"now{i}" for i in range(count)]
    return now + ([f"before{i}" for i in range(count)] if kind.update_first else [])


def _kept(graph: Graph, alive: set[int], results: list[int]) -> list[int]:
    """List what steps use, or give as it is, of what is made once for a model."""
    used = set(results)
    for number in alive:
        node = graph.nodes[number]
        if node.block == ONCE:
            continue
        if node.op == "phi":
            branch = graph.branches[node.args[0]]
            used |= {branch.chosen, *branch.results[node.args[1]]}
        elif node.op not in ("input", "part"):
            used |= set(node.args)
    return sorted(n for n in used if graph.nodes[n].block == ONCE and graph.nodes[n].op != "const")


def _once(ids: np.ndarray, symmetric: bool) -> np.ndarray:
    return np.asarray(ids.ravel()[entries(ids.shape, symmetric)])


def _state_nodes(
    graph: Graph, slots: Slots, shapes: list[Any], symmetric: list[bool]
) -> tuple[list[np.ndarray], list[Place]]:
    nodes, places = [], []
    at = {"states": 0, "counts": 0}
    for leaf, (shape, half) in enumerate(zip(shapes, symmetric, strict=True)):
        kind = kind_of(shape.dtype)
        where = "states" if kind == "f" else "counts"
        mine = entries(shape.shape, half).tolist()
        ids = [slots.input(graph, Slot(where, at[where] + i), kind) for i in range(len(mine))]
        places += [
            Place(n, kind, at[where] + i, leaf, entry) for i, (n, entry) in enumerate(zip(ids, mine, strict=True))
        ]
        at[where] += len(mine)
        whole = np.array(ids, np.int64)
        nodes.append(whole[spread_out(shape.shape)] if half else whole.reshape(shape.shape))
    return nodes, places


def _place_start(kind: Signature, program: Any, values: np.ndarray | None) -> tuple[tuple[Graph, Layout], list[Any]]:
    """Translate what a model starts from, all of which is made once; and give the nodes of each of its arrays."""
    graph, slots = Graph(kind.dtype, loops=values is None), Slots(values)
    results = translate(graph, program, _leaf_nodes(graph, kind, slots, None))
    nodes = [int(number) for ids in results for number in ids.ravel()]
    return (graph, Layout(slots.listed(), [], nodes, [], [], [], [])), results
