"""Tracing of one filter step to a graph and a layout, once per signature."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import PyTreeDef

from wolf.beliefs import Gaussian
from wolf.engine import scan
from wolf.engine.recorders import RECORDERS, DescribingRecorder
from wolf.interfaces import State
from wolf.native.frontend import derived_ops, loo_step, smoother_step
from wolf.native.frontend.jaxpr_to_graph import translate
from wolf.native.frontend.node_arrays import UnsupportedOperationError, number_kind
from wolf.native.frontend.signature import LooSpec, Signature, count_values, num_parameters
from wolf.native.ir.graph import ONCE, STEP, Graph
from wolf.native.ir.layout import Layout, Output, Place, Slot, StateShape, entries, full_index
from wolf.numerics.jaxpr import ClosedJaxpr, Jaxpr, array_shapes, inner_jaxprs
from wolf.numerics.linalg import scalar_code_mode
from wolf.numerics.precision import precision
from wolf.numerics.pytree import PyTree

MAX_ENTRIES = 500_000  # array entries that a step computes, before folding
COVARIANCES = ("Q", "R", "dynamics_cov", "obs_cov")


@dataclasses.dataclass
class StepFacts:
    """The properties of a step that running it needs; they are stored without its graph.

    Attributes:
        state: layout of the state.
        saved: pytree structure of the recorded values.
        outputs: the recorded arrays.
        groups: names of the arrays that have a row per step.
        num_kept: how many numbers are computed once per model.
        num_start: how many numbers make up the initial state of a model.
        operations: number of operations of a step.
        obs_dim: number of coordinates of a measurement.
        described: what a `DescribingRecorder` returned for the first step.
    """

    state: StateShape
    saved: PyTreeDef
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
        layout: where its numbers are read from and written to.
        state: layout of the state.
        saved: pytree structure of the recorded values.
        operations: number of operations of a step.
        start: graph and layout of the initial state of a model.
        obs_dim: number of coordinates of a measurement.
        described: what a `DescribingRecorder` returned for the first step.
    """

    graph: Graph
    layout: Layout
    state: StateShape
    saved: PyTreeDef
    operations: int
    start: tuple[Graph, Layout]
    obs_dim: int = 0
    described: Any = None

    @property
    def facts(self) -> StepFacts:
        """The properties of the step without its graph."""
        sizes = (len(self.layout.kept), len(self.start[1].kept), self.operations, self.obs_dim)
        return StepFacts(self.state, self.saved, self.layout.outputs, self.layout.groups, *sizes, self.described)


def trace(signature: Signature, values: np.ndarray | None = None) -> StepGraph:
    """Trace one step of a signature to a graph.

    Args:
        signature: from `flatten_model`.
        values: of the model's numbers, if they become constants of the code.
    """
    rows = row_shapes(signature)
    with precision(signature.dtype), scalar_code_mode():
        start_program, start_shapes = jax.make_jaxpr(_make_start(signature), return_shape=True)(*_abstract(signature))
        shapes, structure = jax.tree.flatten(start_shapes)
        if signature.state is not None:
            structure = signature.state.structure
            shapes = [
                jax.ShapeDtypeStruct(*each) for each in zip(signature.state.shapes, signature.state.dtypes, strict=True)
            ]
        descriptions: list[Any] = []
        other_step = loo_step if isinstance(signature.back, LooSpec) else smoother_step
        step = (
            _make_step(signature, structure, descriptions)
            if signature.back is None
            else other_step.make_step(signature)
        )
        step_program, (_, saved) = jax.make_jaxpr(step, return_shape=True)(
            *_abstract(signature),
            *_abstract(signature),
            *shapes,
            *(jax.ShapeDtypeStruct(s, signature.dtype) for s in rows.values()),
        )
    if (entries := _count_entries(step_program.jaxpr)) > MAX_ENTRIES:
        raise UnsupportedOperationError(f"a step makes {entries} numbers, before folding")
    start, begins = _translate_start(signature, start_program, values)
    symmetric = (
        [_may_be_symmetric(start[0], each) for each in begins] if signature.state is None else signature.state.halves
    )
    step = _translate_step(signature, step_program, structure, shapes, saved, values, list(symmetric))
    step.described = descriptions[0] if descriptions else None
    step.obs_dim = next(iter(rows.values()))[0]
    step.start = start
    return step


def _count_entries(program: Jaxpr) -> int:
    """Count the array entries that a program computes, loops once: a cheap size check before translation."""
    total = 0
    for equation in program.eqns:
        total += sum(map(math.prod, array_shapes(equation.outvars))) + sum(map(_count_entries, inner_jaxprs(equation)))
    return total


def _abstract(signature: Signature) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(shape, signature.dtype) for shape in signature.shapes]


def row_shapes(signature: Signature) -> dict[str, tuple[int, ...]]:
    """Return the shape of a row of each array that a step reads, without those of the model."""
    model, _ = jax.tree.unflatten(signature.structure, _abstract(signature))
    if signature.back is not None:
        return (loo_step if isinstance(signature.back, LooSpec) else smoother_step).row_shapes(signature, model)
    shapes: dict[str, tuple[int, ...]] = {"y": (model.obs_dim,)}
    return shapes if signature.inputs is None else shapes | {"u": (signature.inputs,), "u_before": (signature.inputs,)}


def _make_start(signature: Signature) -> Callable:
    def start(*leaves: Array) -> PyTree:
        model, method = jax.tree.unflatten(signature.structure, leaves)
        if signature.back is not None:  # the smoother starts from a belief outside the model; this one has its shapes
            return Gaussian(*map(jnp.asarray, model.prior))
        return scan.init(model, method, None)

    return start


def _make_step(signature: Signature, structure: PyTreeDef, descriptions: list[Any]) -> Callable:
    """Make the step a function of flat arguments: leaves before and after the transition, state, y, u, u before."""
    keep: Any = RECORDERS[signature.save] if isinstance(signature.save, str) else signature.save
    size = len(signature.shapes)

    def step(*flat: Array) -> tuple[State, PyTree]:
        before, _ = jax.tree.unflatten(signature.structure, flat[:size])
        now, method = jax.tree.unflatten(signature.structure, flat[size : 2 * size])
        state = jax.tree.unflatten(structure, flat[2 * size : 2 * size + structure.num_leaves])
        y, *us = flat[2 * size + structure.num_leaves :]
        u, u_before = us if us else (None, None)
        ahead = scan.predict(before, method, state, u, update_first=signature.update_first, u_before=u_before)
        new, info = scan.update(now, method, ahead, y, u)
        if isinstance(keep, DescribingRecorder):
            descriptions.append(keep.describe(info))
        return new, keep(new, info)

    return step


class Slots:
    """The inputs of a graph, each one once.

    Args:
        values: of the model's numbers, if they become constants of the code.
    """

    def __init__(self, values: np.ndarray | None = None) -> None:
        self.numbers: dict[Slot, int] = {}
        self.values = values

    def input(self, graph: Graph, slot: Slot, kind: str = "f", block: int = STEP) -> int:
        """Return the node of an input."""
        if slot.group == "model" and self.values is not None:
            return graph.constant(self.values[slot.offset], kind)
        return graph.input(self.numbers.setdefault(slot, len(self.numbers)), kind, block)

    def listed(self) -> list[Slot]:
        """List the inputs by number."""
        return list(self.numbers)


def _leaf_nodes(graph: Graph, signature: Signature, slots: Slots, rows: str | None) -> list[np.ndarray]:
    """Create the nodes of all leaves: constants, numbers of the model, and numbers of a row.

    Args:
        graph: the graph to extend.
        signature: of model and method.
        slots: inputs of the graph.
        rows: name prefix of the arrays of rows; None reads the first row as part of the model, after all else.
    """
    nodes: list[np.ndarray] = []
    symmetric = {i for i, name in signature.general if name in COVARIANCES}
    at, row = 0, 0
    behind = num_parameters(signature)
    for shape, pattern, varies in zip(signature.shapes, signature.pattern, signature.varying, strict=True):
        size = int(np.prod(shape, dtype=int))
        if varies and rows is not None:
            codes = np.frombuffer(pattern, np.int16).tolist()
            entries = list(range(size))
            if slots.values is not None and len(nodes) in symmetric:  # an argument of exported code
                entries = np.maximum(np.arange(size).reshape(shape), np.arange(size).reshape(shape).T).ravel().tolist()
            ids = [
                graph.constant(code, "f") if code < 2 else slots.input(graph, Slot(f"{rows}{row}", i))
                for i, code in zip(entries, codes, strict=True)
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
    """Return whether an array is square and no two constants in it break the symmetry."""
    if ids.ndim != 2 or ids.shape[0] != ids.shape[1] or len(ids) < 2:
        return False
    pairs = [(graph.nodes[a], graph.nodes[b]) for a, b in zip(ids.ravel(), ids.T.ravel(), strict=True) if a != b]
    return not any(a.op == b.op == "const" for a, b in pairs)


def _translate_step(
    signature: Signature,
    program: ClosedJaxpr,
    structure: PyTreeDef,
    shapes: list[jax.ShapeDtypeStruct],
    saved: PyTree,
    values: np.ndarray | None,
    symmetric: list[bool],
) -> StepGraph:
    """Translate the step; both halves of a square array of the state are one number where it stays symmetric.

    The state of another model has the same halves as the one it was made for: what is not symmetric to the last bit is
    so up to rounding.
    """
    while True:
        graph, slots = Graph(signature.dtype, loops=values is None), Slots(values)
        leads = "before" if signature.update_first else "now"
        leaves = [*_leaf_nodes(graph, signature, slots, leads), *_leaf_nodes(graph, signature, slots, "now")]
        state, places = _state_nodes(graph, slots, shapes, symmetric)
        rows = [_row_nodes(graph, slots, name, shape) for name, shape in row_shapes(signature).items()]
        results = translate(graph, program, [*leaves, *state, *rows])
        new, saving = results[: len(shapes)], results[len(shapes) :]
        still = [s and bool(np.array_equal(n, n.T)) for s, n in zip(symmetric, new, strict=True)]
        if signature.state is not None or still == symmetric:
            break
        symmetric = still
    next_state = [int(number) for ids, s in zip(new, symmetric, strict=True) for number in _stored_entries(ids, s)]
    outputs = [_output(leaf, signature.dtype) for leaf in jax.tree.leaves(saved)]
    wanted = [number for ids in saving for number in ids.ravel().tolist()]
    alive = graph.needed([*next_state, *wanted])
    operations = _count_operations(graph, alive)
    groups = [*row_shapes(signature), *_varying_groups(signature)]
    kept = _used_once_nodes(graph, alive, [*next_state, *wanted])
    fixed = [
        (i, name) for i, name in signature.general if not signature.varying[i]
    ]  # rows of time-varying arrays are checked by the caller
    if fixed:
        covariances = [name in COVARIANCES for _, name in fixed]
        kept = [*kept, _certainly_valid(graph, [leaves[i] for i, _ in fixed], covariances)]
    layout = Layout(slots.listed(), groups, kept, places, next_state, outputs, wanted)
    dtypes = tuple(np.dtype(each.dtype) for each in shapes)
    built = StateShape(structure, tuple(each.shape for each in shapes), dtypes, tuple(symmetric))
    return StepGraph(graph, layout, built, jax.tree.structure(saved), operations, (graph, layout))


def _count_operations(graph: Graph, alive: set[int]) -> int:
    """Count the operations of a step; a number that a kernel reads or returns is half of one.

    Numbers that are passed from one kernel to another are moved by tables, without instructions of their own.
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
    """Create the nodes of a row; the lower half of a covariance is read for both halves."""
    at = np.arange(int(np.prod(shape, dtype=int))).reshape(shape)
    at = np.maximum(at, at.T) if len(shape) == 2 else at
    return np.array([slots.input(graph, Slot(name, int(i))) for i in at.ravel()], np.int64).reshape(shape)


def _certainly_valid(graph: Graph, leaves: list[np.ndarray], covariances: list[bool]) -> int:
    """Compute whether new values are certainly valid: finite, and covariances with positive pivots.

    Values that are not certainly valid go through the usual checks of a model, and may pass them.
    """
    fine = graph.constant(True, "b")
    for leaf, covariance in zip(leaves, covariances, strict=True):
        for number in leaf.ravel().tolist():
            fine = graph.apply("and", fine, graph.apply("finite", number, kind="b"))
        if covariance:
            for a, b in zip(leaf.ravel().tolist(), leaf.T.ravel().tolist(), strict=True):
                fine = graph.apply("and", fine, graph.apply("eq", a, b, kind="b"))
            fine = graph.apply("and", fine, derived_ops.is_positive_definite(graph, leaf.tolist()))
    return fine


def _output(leaf: jax.ShapeDtypeStruct, dtype: str) -> Output:
    kind = number_kind(leaf.dtype)
    if kind == "f" and leaf.dtype != dtype:
        raise UnsupportedOperationError(f"results of type {leaf.dtype} in a run in {dtype}")
    return Output(leaf.shape, np.dtype(leaf.dtype), kind)


def _varying_groups(signature: Signature) -> list[str]:
    count = sum(signature.varying)
    now = [f"now{i}" for i in range(count)]
    return now + ([f"before{i}" for i in range(count)] if signature.update_first else [])


def _used_once_nodes(graph: Graph, alive: set[int], results: list[int]) -> list[int]:
    """List the numbers computed once per model that steps use, or return unchanged."""
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


def _stored_entries(ids: np.ndarray, symmetric: bool) -> np.ndarray:
    return np.asarray(ids.ravel()[entries(ids.shape, symmetric)])


def _state_nodes(
    graph: Graph, slots: Slots, shapes: list[jax.ShapeDtypeStruct], symmetric: list[bool]
) -> tuple[list[np.ndarray], list[Place]]:
    nodes, places = [], []
    at = {"states": 0, "counts": 0}
    for leaf, (shape, half) in enumerate(zip(shapes, symmetric, strict=True)):
        kind = number_kind(shape.dtype)
        where = "states" if kind == "f" else "counts"
        mine = entries(shape.shape, half).tolist()
        ids = [slots.input(graph, Slot(where, at[where] + i), kind) for i in range(len(mine))]
        places += [
            Place(n, kind, at[where] + i, leaf, entry) for i, (n, entry) in enumerate(zip(ids, mine, strict=True))
        ]
        at[where] += len(mine)
        whole = np.array(ids, np.int64)
        nodes.append(whole[full_index(shape.shape)] if half else whole.reshape(shape.shape))
    return nodes, places


def _translate_start(
    signature: Signature, program: ClosedJaxpr, values: np.ndarray | None
) -> tuple[tuple[Graph, Layout], list[np.ndarray]]:
    """Translate the initial state of a model, all of which is computed once; return the nodes of its arrays too."""
    graph, slots = Graph(signature.dtype, loops=values is None), Slots(values)
    results = translate(graph, program, _leaf_nodes(graph, signature, slots, None))
    nodes = [int(number) for ids in results for number in ids.ravel()]
    return (graph, Layout(slots.listed(), [], nodes, [], [], [], [])), results
