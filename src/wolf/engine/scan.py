"""The driver: one series (`run_filter`), many (`run_many`, `run_each`), endless ones (`run_chunks`).

All of them are loops over the one step of `steps.py`, whose functions can be had from here too. The scan and its chunks
agree bit for bit if both are `fused`; so does `step` for a fixed linear model in the automatic form, and to rounding
otherwise (XLA groups operations by program).
"""

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from wolf.engine.measurements import preprocess
from wolf.engine.recorders import RECORDERS
from wolf.engine.step import init as init
from wolf.engine.step import predict as predict
from wolf.engine.step import step as step
from wolf.engine.step import take_step
from wolf.engine.step import update as update
from wolf.numerics.linalg import SMALL
from wolf.numerics.packing import Packing
from wolf.numerics.xla_fusion import one_kernel
from wolf.statespace import Model

SHORT = 256  # numbers of an array of a step that is kept beside others


@partial(jax.jit, static_argnames=("save", "update_first", "fused"))
def run_filter(
    model: Model,
    method: Any,
    ys: Array,
    inputs: Array | None = None,
    key: Array | None = None,
    *,
    state: Any = None,
    u_before: Array | None = None,
    length: Array | int | None = None,
    save: str | Callable = "all",
    update_first: bool = False,
    fused: bool = False,
) -> tuple[Any, Any]:
    """Filter one series in one scan.

    Args:
        model: from `wolf.statespace`.
        method: a filter, from `wolf.methods`.
        ys: (T, M), NaN where missing.
        inputs: (T, U).
        key: for filters that draw random numbers.
        state: where to go on from; default: the prior.
        u_before: the input before the first of these, to go on with `update_first`.
        length: how many of the T steps there are; what is saved of the others means nothing. One program serves all
            lengths up to T, and has no gradient.
        save: "all", "means", "final" or a function of (state, info): what to keep of each step.
        update_first: see `step`.
        fused: compile the loop into one CPU kernel if it can be; for small models, and not to be vmapped.

    Returns:
        The final state, and what was saved, stacked over time.
    """
    state = method.init(model, key) if state is None else state
    # A loop of one step is no loop to XLA, and what it hands through untouched the one kernel cannot hand out.
    fused = fused and max(model.state_dim, model.obs_dim) <= SMALL and len(ys) > 1
    ends = None if length is None else state.t + length
    return _scan(model, method, ys, inputs, key, state, u_before, save, update_first, False, fused, ends, early=True)


@partial(jax.jit, static_argnames=("save", "update_first", "per_series_model"))
def run_many(
    model: Model,
    method: Any,
    ys: Array,
    inputs: Array | None = None,
    key: Array | None = None,
    *,
    state: Any = None,
    u_before: Array | None = None,
    lengths: Array | None = None,
    save: str | Callable = "all",
    update_first: bool = False,
    per_series_model: bool = False,
) -> tuple[Any, Any]:
    """Filter many series in one compiled call; inside, the series are the last axis of every array.

    Args:
        model: one for all series, or with a leading series axis on every leaf if `per_series_model`.
        method: a filter, from `wolf.methods`.
        ys: (B, T, M).
        inputs: (T, U) for all series, or (B, T, U).
        key: split over the series.
        state: where each goes on from, (B, ...); their clock `t` is one number if it is the same for all, which lets
            them run together. Default: the prior.
        u_before: the input before the first of these, (B, U), to go on with `update_first`; `inputs` are (B, T, U).
        lengths: (B,), how many of its T steps each series has; its state stays where it ended.
        save: as in `run_filter`.
        update_first: see `step`.
        per_series_model: whether the model's leaves have a series axis.

    Returns:
        The final state and what was saved with the *series axis last*, as they come out of the engine:
        `jnp.moveaxis(x, -1, 0)` gives (B, T, ...), and is free in NumPy.
    """
    series = ys.shape[0]
    if not series_last(model, method, per_series_model) or (state is not None and state.t.ndim):
        options = (save, update_first, per_series_model)
        return _run_vmapped(model, method, ys, inputs, key, state, u_before, lengths, *options)
    ys = jnp.moveaxis(ys, 0, -1)
    if inputs is not None and inputs.ndim == 3:
        inputs = jnp.moveaxis(inputs, 0, -1)
    elif inputs is not None:
        inputs = jnp.broadcast_to(inputs[..., None], (*inputs.shape, series))
    if state is not None:
        last = jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1) if x.ndim else x, (state, u_before))
        state, u_before = last
    elif per_series_model:
        state = jax.vmap(lambda m: method.init(m, None), out_axes=-1)(model)
        state = state._replace(t=state.t[0])
    else:
        state = method.init(model, None)
        spread = jax.tree.map(lambda x: jnp.broadcast_to(x[..., None], (*x.shape, series)), state)
        state = spread._replace(t=state.t)
    lift = "series" if per_series_model else "shared"
    ends = None if lengths is None else state.t + lengths
    return _scan(model, method, ys, inputs, None, state, u_before, save, update_first, lift, fused=False, ends=ends)


@partial(jax.jit, static_argnames=("save", "update_first", "per_series_model"))
def run_each(
    model: Model,
    method: Any,
    ys: Array,
    inputs: Array | None = None,
    key: Array | None = None,
    *,
    state: Any = None,
    u_before: Array | None = None,
    lengths: Array | None = None,
    save: str | Callable = "all",
    update_first: bool = False,
    per_series_model: bool = False,
) -> tuple[Any, Any]:
    """Filter many series one after the other, each in one CPU kernel: what a few cores do best with small models.

    Takes what `run_many` takes; a state has a clock for each series.

    Returns:
        The final states and what was saved, with the series axis first.
    """
    keys = None if key is None else jax.random.split(key, len(ys))
    own_inputs = inputs is not None and inputs.ndim == 3
    rows = (model if per_series_model else None, ys, inputs if own_inputs else None, keys, lengths, state, u_before)

    def one(row: tuple) -> tuple[Any, Any]:
        own_model, ys, us, key, length, begin, before = row
        mine = own_model if per_series_model else model
        us = us if own_inputs else inputs
        begin = method.init(mine, key) if begin is None else begin
        fused = max(mine.state_dim, mine.obs_dim) <= SMALL and len(ys) > 1
        ends = None if length is None else begin.t + length
        return _scan(mine, method, ys, us, key, begin, before, save, update_first, False, fused, ends, early=True)

    return jax.lax.map(one, rows)


def series_last(model: Model, method: Any, per_series_model: bool = False) -> bool:
    """Say whether this filter can carry the series as a trailing axis; the others are vmapped."""
    small = max(model.state_dim, model.obs_dim) <= SMALL
    together = model.handles_series and not method.requirements.one_series
    return small and together and (model.linear or not per_series_model)


def run_chunks(
    model: Model,
    method: Any,
    chunks: Iterable[Any],
    *,
    key: Array | None = None,
    state: Any = None,
    save: str | Callable = "means",
    update_first: bool = False,
    fused: bool = False,
) -> Iterator[tuple[Any, Any]]:
    """Filter a series that does not fit in memory, chunk by chunk.

    Args:
        model: from `wolf.statespace`.
        method: a filter, from `wolf.methods`.
        chunks: arrays (t, M), or pairs of them with inputs (t, U). Equal lengths compile once.
        key: for filters that draw random numbers.
        state: where to go on from.
        save: as in `run_filter`.
        update_first: see `step`.
        fused: as in `run_filter`.

    Yields:
        The state after the chunk, and what was saved of its steps.
    """
    state = method.init(model, key) if state is None else state
    before = None
    for chunk in chunks:
        ys, inputs = chunk if isinstance(chunk, tuple) else (chunk, None)
        where = {"state": state, "u_before": before}
        state, saved = run_filter(
            model, method, ys, inputs, key, **where, save=save, update_first=update_first, fused=fused
        )
        before = None if inputs is None else inputs[-1]
        yield state, saved


def _scan(
    model: Model,
    method: Any,
    ys: Array,
    inputs: Array | None,
    key: Array | None,
    state: Any,
    u_before: Array | None,
    save: str | Callable,
    update_first: bool,
    lift: bool | str,
    fused: bool,
    ends: Array | None = None,
    early: bool = False,
) -> tuple[Any, Any]:
    """Go through the rows of one series, or of many that run together.

    `ends` is the clock at which a series ends, whatever rows follow: its state stays as it was then. One series can
    stop there instead (`early`), but not in one kernel, where XLA has no loop of unknown length.
    """
    keep = RECORDERS[save] if isinstance(save, str) else save
    before = None
    if inputs is not None and update_first:
        first = inputs[:1] if u_before is None else u_before[None]
        before = jnp.concatenate([first, inputs[:-1]])

    stops = early and not fused and ends is not None

    def loop(
        model: Model, method: Any, key: Array | None, ends: Array | None, state: Any, rows: tuple
    ) -> tuple[Any, Any]:
        def body(state: Any, now: tuple) -> tuple[Any, Any]:
            y, u, previous = now
            new, info = take_step(model, method, state, y, u, key, update_first, previous, lift)
            new = new if ends is None or stops else _stay(new, state, state.t < ends)
            return new, keep(new, info)

        return _walk(body, state, rows, ends - state.t) if stops else jax.lax.scan(body, state, rows)

    arguments = (model, method, key, ends, state, (jax.vmap(preprocess)(ys), inputs, before))
    return one_kernel(loop, *arguments) if fused else loop(*arguments)


def _walk(body: Callable, state: Any, rows: Any, length: Array) -> tuple[Any, Any]:
    """Do what a scan does, but stop after `length` rows: their number is not known when this is compiled."""
    total = jax.tree.leaves(rows)[0].shape[0]
    _, shapes = jax.eval_shape(body, state, jax.tree.map(lambda leaf: leaf[0], rows))
    leaves, structure = jax.tree.flatten(shapes)
    # What is short goes into one row: XLA hands many small pieces of work out to threads, which takes longer.
    kind = jax.tree.leaves(state)[0].dtype
    short = tuple(math.prod(one.shape) <= SHORT and one.dtype in (kind, bool) for one in leaves)
    packing = Packing(tuple(one.shape for one in leaves), short)

    def pack(kept: Any) -> list[Array]:
        arrays = zip(jax.tree.leaves(kept), short, strict=True)
        return packing.pack([array.astype(kind) if joins else array for array, joins in arrays], jnp)

    def unpack(saved: list[Array]) -> Any:
        arrays = jax.vmap(packing.unpack)(saved)
        typed = [array.astype(one.dtype) for array, one in zip(arrays, leaves, strict=True)]
        return jax.tree.unflatten(structure, typed)

    packed = jax.eval_shape(pack, shapes)
    # Of equal blanks XLA would make one, and copy it: another pass over memory that is written in the loop anyway.
    blank = [jnp.full((total, *one.shape), i, one.dtype) for i, one in enumerate(packed)]

    def go(carry: tuple) -> tuple:
        i, state, saved = carry
        state, kept = body(state, jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, i, 0, False), rows))
        put = partial(jax.lax.dynamic_update_index_in_dim, index=i, axis=0)
        return i + 1, state, [put(into, one) for into, one in zip(saved, pack(kept), strict=True)]

    _, state, saved = jax.lax.while_loop(lambda carry: carry[0] < length, go, (jnp.zeros_like(length), state, blank))
    return state, unpack(saved)


def _stay(new: Any, old: Any, alive: Array) -> Any:
    """Keep the state of a series that has ended; a clock that all share goes on."""
    return jax.tree.map(lambda a, b: a if a.ndim < alive.ndim else jnp.where(alive, a, b), new, old)


def _run_vmapped(
    model: Model,
    method: Any,
    ys: Array,
    inputs: Array | None,
    key: Array | None,
    state: Any,
    u_before: Array | None,
    lengths: Array | None,
    save: str | Callable,
    update_first: bool,
    per_series_model: bool,
) -> tuple[Any, Any]:
    if state is not None and not state.t.ndim:
        state = state._replace(t=jnp.broadcast_to(state.t, len(ys)))
    keys = None if key is None else jax.random.split(key, ys.shape[0])
    axes = (0 if per_series_model else None, 0, 0 if inputs is not None and inputs.ndim == 3 else None, 0, 0, 0, 0)

    def one(model: Model, ys: Array, inputs: Any, key: Any, length: Any, begin: Any, before: Any) -> tuple[Any, Any]:
        begin = method.init(model, key) if begin is None else begin
        ends = None if length is None else begin.t + length
        return _scan(model, method, ys, inputs, key, begin, before, save, update_first, False, fused=False, ends=ends)

    return jax.vmap(one, in_axes=axes, out_axes=-1)(model, ys, inputs, keys, lengths, state, u_before)
