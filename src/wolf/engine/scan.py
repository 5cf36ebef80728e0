"""The driver: filters one series (`run_filter`), many (`run_many`, `run_each`) or a stream of chunks (`run_chunks`).

All are loops over the one step of `step.py`, whose functions are re-exported here, and share the core `_scan`. The
whole-series scan and the chunks agree bit for bit if both are `fused`; `step` agrees with them bit for bit for a fixed
linear model in the automatic form, and to rounding otherwise (XLA groups operations by program).
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from wolf.engine.measurements import preprocess
from wolf.engine.recorders import RECORDERS
from wolf.engine.step import SeriesLayout, StateT, take_step
from wolf.engine.step import init as init
from wolf.engine.step import predict as predict
from wolf.engine.step import step as step
from wolf.engine.step import update as update
from wolf.interfaces import Filter, State
from wolf.numerics.linalg import SMALL
from wolf.numerics.packing import Packing
from wolf.numerics.pytree import PyTree
from wolf.numerics.xla_fusion import one_kernel
from wolf.statespace import Model

MAX_PACKED_ENTRIES = 256  # entries of a recorded array up to which it is packed with others into one row


@dataclasses.dataclass(frozen=True)
class ScanOptions:
    """Options of a scan that are fixed at compile time.

    Attributes:
        save: the recorder, by name or as a function of (state, info).
        update_first: see `step`.
        layout: how the arrays are laid out over series.
        fused: compile the loop into one CPU kernel, where model and series allow it.
        stop_early: end the loop where the series ends; such a loop has no gradient. A loop in one kernel runs on, since
            XLA has no kernel with a loop of unknown length.
    """

    save: str | Callable
    update_first: bool
    layout: SeriesLayout = SeriesLayout.ONE
    fused: bool = False
    stop_early: bool = False


class SeriesInput(NamedTuple):
    """The data of a run: of one series, or of many with a series axis.

    Attributes:
        ys: measurements, (T, M).
        inputs: (T, U).
        key: for filters that draw random numbers.
        length: number of steps; what follows is ignored.
        state: the state to continue from; None for the prior.
        u_before: the input before the first step, (U,).
    """

    ys: Array
    inputs: Array | None
    key: Array | None
    length: Array | int | None
    state: PyTree
    u_before: Array | None


@partial(jax.jit, static_argnames=("save", "update_first", "fused"))
def run_filter(
    model: Model,
    ys: Array,
    method: Filter[StateT],
    inputs: Array | None = None,
    key: Array | None = None,
    *,
    state: StateT | None = None,
    u_before: Array | None = None,
    length: Array | int | None = None,
    save: str | Callable = "all",
    update_first: bool = False,
    fused: bool = False,
) -> tuple[StateT, PyTree]:
    """Filter one series in one scan.

    Args:
        model: from `wolf.statespace`.
        ys: (T, M), NaN where missing.
        method: a filter, from `wolf.methods`.
        inputs: (T, U).
        key: for filters that draw random numbers.
        state: the state to continue from; default: the prior.
        u_before: the input before the first row, to continue with `update_first`.
        length: number of rows that belong to the series; saved values of later rows are undefined. One program serves
            all lengths up to T, and has no gradient.
        save: "all", "means", "final" or a function of (state, info): what is recorded of each step.
        update_first: see `step`.
        fused: compile the loop into one CPU kernel where possible; for small models; cannot be vmapped.

    Returns:
        The final state, and the recorded arrays stacked over time.
    """
    series = SeriesInput(ys, inputs, key, length, state, u_before)
    return _run_one(model, method, series, ScanOptions(save, update_first, fused=fused, stop_early=True))


@partial(jax.jit, static_argnames=("save", "update_first", "per_series_model"))
def run_many(
    model: Model,
    ys: Array,
    method: Filter[StateT],
    inputs: Array | None = None,
    key: Array | None = None,
    *,
    state: StateT | None = None,
    u_before: Array | None = None,
    lengths: Array | None = None,
    save: str | Callable = "all",
    update_first: bool = False,
    per_series_model: bool = False,
) -> tuple[StateT, PyTree]:
    """Filter many series in one compiled call, with the series on the last axis of every array inside.

    Args:
        model: one for all series, or with a leading series axis on every leaf if `per_series_model`.
        ys: (B, T, M).
        method: a filter, from `wolf.methods`.
        inputs: (T, U) for all series, or (B, T, U).
        key: split over the series.
        state: the states to continue from, (B, ...); the clock `t` is one number if it is the same for all, which lets
            the series run together. Default: the prior.
        u_before: the input before the first row, (B, U), to continue with `update_first`; `inputs` are (B, T, U).
        lengths: (B,), the number of rows of each series; its state stays constant afterwards.
        save: as in `run_filter`.
        update_first: see `step`.
        per_series_model: whether the model's leaves have a series axis.

    Returns:
        The final state and the recorded arrays with the *series axis last*: `jnp.moveaxis(x, -1, 0)` gives
        (B, T, ...), and is free in NumPy.
    """
    many = SeriesInput(ys, inputs, key, lengths, state, u_before)
    if not series_last(model, method, per_series_model) or (state is not None and state.t.ndim):
        return _run_vmapped(model, method, many, ScanOptions(save, update_first), per_series_model)
    layout = SeriesLayout.OWN_MODELS if per_series_model else SeriesLayout.SHARED_MODEL
    return _scan(
        model, method, _series_to_last_axis(model, method, many, layout), ScanOptions(save, update_first, layout)
    )


@partial(jax.jit, static_argnames=("save", "update_first", "per_series_model"))
def run_each(
    model: Model,
    ys: Array,
    method: Filter[StateT],
    inputs: Array | None = None,
    key: Array | None = None,
    *,
    state: StateT | None = None,
    u_before: Array | None = None,
    lengths: Array | None = None,
    save: str | Callable = "all",
    update_first: bool = False,
    per_series_model: bool = False,
) -> tuple[StateT, PyTree]:
    """Filter many series one after the other, each in one CPU kernel: the fastest way for small models on few cores.

    The arguments are those of `run_many`; a state has a clock for each series.

    Returns:
        The final states and the recorded arrays, with the series axis first.
    """
    keys = None if key is None else jax.random.split(key, len(ys))
    own_inputs = inputs is not None and inputs.ndim == 3
    many = SeriesInput(ys, inputs if own_inputs else None, keys, lengths, state, u_before)
    options = ScanOptions(save, update_first, fused=True, stop_early=True)

    def one(row: tuple[Model | None, SeriesInput]) -> tuple[PyTree, PyTree]:
        own_model, series = row
        series = series if own_inputs else series._replace(inputs=inputs)
        return _run_one(model if own_model is None else own_model, method, series, options)

    return jax.lax.map(one, (model if per_series_model else None, many))  # type: ignore[no-any-return]


def series_last(model: Model, method: Filter, per_series_model: bool = False) -> bool:
    """Return whether a filter can carry the series as a trailing axis; other filters are vmapped."""
    small = max(model.state_dim, model.obs_dim) <= SMALL
    together = model.handles_series and not method.requirements.one_series
    return small and together and (model.linear or not per_series_model)


def run_chunks(
    model: Model,
    chunks: Iterable[Array | tuple[Array, Array]],
    method: Filter[StateT],
    *,
    key: Array | None = None,
    state: StateT | None = None,
    save: str | Callable = "means",
    update_first: bool = False,
    fused: bool = False,
) -> Iterator[tuple[StateT, PyTree]]:
    """Filter a series that does not fit in memory, chunk by chunk.

    Args:
        model: from `wolf.statespace`.
        chunks: arrays (t, M), or pairs of them with inputs (t, U). Equal lengths compile once.
        method: a filter, from `wolf.methods`.
        key: for filters that draw random numbers.
        state: the state to continue from; default: the prior.
        save: as in `run_filter`.
        update_first: see `step`.
        fused: as in `run_filter`.

    Yields:
        The state after the chunk, and the recorded arrays of its steps.
    """
    state = method.init(model, key) if state is None else state
    before = None
    for chunk in chunks:
        ys, inputs = chunk if isinstance(chunk, tuple) else (chunk, None)
        where = {"state": state, "u_before": before}
        state, saved = run_filter(
            model, ys, method, inputs, key, **where, save=save, update_first=update_first, fused=fused
        )
        before = None if inputs is None else inputs[-1]
        yield state, saved


def _run_one(model: Model, method: Filter, series: SeriesInput, options: ScanOptions) -> tuple[PyTree, PyTree]:
    """Filter one series from its state, or from the prior."""
    if series.state is None:
        series = series._replace(state=method.init(model, series.key))
    # XLA removes a loop of one step, and one kernel cannot return an argument that it does not change.
    fused = options.fused and max(model.state_dim, model.obs_dim) <= SMALL and len(series.ys) > 1
    return _scan(model, method, series, dataclasses.replace(options, fused=fused))


def _scan(model: Model, method: Filter, series: SeriesInput, options: ScanOptions) -> tuple[PyTree, PyTree]:
    """Run the step over the rows of one series, or of many that run together, from `series.state`.

    After the last step of a series its state stays constant, whatever rows follow.
    """
    ys, inputs, key, length, state, u_before = series
    keep = RECORDERS[options.save] if isinstance(options.save, str) else options.save
    before = None
    if inputs is not None and options.update_first:
        first = inputs[:1] if u_before is None else u_before[None]
        before = jnp.concatenate([first, inputs[:-1]])
    ends = None if length is None else state.t + length
    stops = options.stop_early and not options.fused and ends is not None

    def loop(
        model: Model, method: Filter, key: Array | None, ends: Array | None, state: State, rows: tuple
    ) -> tuple[PyTree, PyTree]:
        def body(state: State, row: tuple) -> tuple[PyTree, PyTree]:
            y, u, previous = row
            new, info = take_step(model, method, state, y, u, key, options.update_first, previous, options.layout)
            new = new if ends is None or stops else _hold_ended(new, state, state.t < ends)
            return new, keep(new, info)

        return _scan_until(body, state, rows, ends - state.t) if stops else jax.lax.scan(body, state, rows)

    arguments = (model, method, key, ends, state, (jax.vmap(preprocess)(ys), inputs, before))
    return one_kernel(loop, *arguments) if options.fused else loop(*arguments)  # type: ignore[no-any-return]


def _scan_until(body: Callable, state: State, rows: tuple, length: Array) -> tuple[PyTree, PyTree]:
    """Scan the first `length` rows, a number that is unknown at compile time."""
    total = jax.tree.leaves(rows)[0].shape[0]
    _, shapes = jax.eval_shape(body, state, jax.tree.map(lambda leaf: leaf[0], rows))
    leaves, structure = jax.tree.flatten(shapes)
    # Short arrays are packed into one row: XLA distributes many small writes over threads, which takes longer.
    kind = jax.tree.leaves(state)[0].dtype
    short = tuple(math.prod(one.shape) <= MAX_PACKED_ENTRIES and one.dtype in (kind, bool) for one in leaves)
    packing = Packing(tuple(one.shape for one in leaves), short)

    def pack(kept: PyTree) -> list[Array]:
        arrays = zip(jax.tree.leaves(kept), short, strict=True)
        return packing.pack([array.astype(kind) if joins else array for array, joins in arrays], jnp)

    def unpack(saved: list[Array]) -> PyTree:
        arrays = jax.vmap(packing.unpack)(saved)
        typed = [array.astype(one.dtype) for array, one in zip(arrays, leaves, strict=True)]
        return jax.tree.unflatten(structure, typed)

    packed = jax.eval_shape(pack, shapes)
    # XLA would share equal buffers and copy them: one more pass over memory that the loop overwrites anyway.
    buffers = [jnp.full((total, *one.shape), i, one.dtype) for i, one in enumerate(packed)]

    def advance(carry: tuple) -> tuple:
        i, state, saved = carry
        state, kept = body(state, jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, i, 0, False), rows))
        put = partial(jax.lax.dynamic_update_index_in_dim, index=i, axis=0)
        return i + 1, state, [put(into, one) for into, one in zip(saved, pack(kept), strict=True)]

    _, state, saved = jax.lax.while_loop(
        lambda carry: carry[0] < length, advance, (jnp.zeros_like(length), state, buffers)
    )
    return state, unpack(saved)


def _hold_ended(new: StateT, old: StateT, alive: Array) -> StateT:
    """Keep the state of each series that has ended; a clock shared by all series runs on."""
    return jax.tree.map(  # type: ignore[no-any-return]
        lambda a, b: a if a.ndim < alive.ndim else jnp.where(alive, a, b), new, old
    )


def _series_to_last_axis(model: Model, method: Filter, many: SeriesInput, layout: SeriesLayout) -> SeriesInput:
    """Move the series axis to the end, and start the states that are not given at the prior."""
    count, state, u_before, inputs = len(many.ys), many.state, many.u_before, many.inputs
    ys = jnp.moveaxis(many.ys, 0, -1)
    if inputs is not None and inputs.ndim == 3:
        inputs = jnp.moveaxis(inputs, 0, -1)
    elif inputs is not None:
        inputs = jnp.broadcast_to(inputs[..., None], (*inputs.shape, count))
    if state is not None:
        last = jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1) if x.ndim else x, (state, u_before))
        state, u_before = last
    elif layout is SeriesLayout.OWN_MODELS:
        state = jax.vmap(lambda m: method.init(m, None), out_axes=-1)(model)
        state = state._replace(t=state.t[0])
    else:
        state = method.init(model, None)
        repeated = jax.tree.map(lambda x: jnp.broadcast_to(x[..., None], (*x.shape, count)), state)
        state = repeated._replace(t=state.t)
    return SeriesInput(ys, inputs, None, many.length, state, u_before)


def _run_vmapped(
    model: Model, method: Filter, many: SeriesInput, options: ScanOptions, per_series_model: bool
) -> tuple[PyTree, PyTree]:
    """Filter many series by `jax.vmap`, for filters that cannot carry the series as a trailing axis."""
    count, state, inputs = len(many.ys), many.state, many.inputs
    if state is not None and not state.t.ndim:
        state = state._replace(t=jnp.broadcast_to(state.t, count))
    keys = None if many.key is None else jax.random.split(many.key, count)
    axes = SeriesInput(0, 0 if inputs is not None and inputs.ndim == 3 else None, 0, 0, 0, 0)  # type: ignore[arg-type]
    run = jax.vmap(
        lambda own, series: _run_one(own, method, series, options),
        in_axes=(0 if per_series_model else None, axes),
        out_axes=-1,
    )
    return run(model, many._replace(state=state, key=keys))  # type: ignore[no-any-return]
