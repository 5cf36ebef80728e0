"""Execution by XLA: one series in one kernel, many series on all cores, lengths padded to a few programs."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import jax
import numpy as np
from jax.stages import Wrapped

from wolf.engine import scan
from wolf.engine.forecast import run_forecast
from wolf.engine.smoother import run_sampler, run_smoother, run_smoothers
from wolf.execution.padding import MIN_STEPS, lengthen, pad_steps
from wolf.interfaces import Filter, Key
from wolf.numerics.linalg import SMALL
from wolf.numerics.precision import as_key, precision, to_numpy
from wolf.numerics.pytree import PyTree
from wolf.numerics.xla_fusion import is_emission_failure, largest_factorized_size, uses_thread_pool
from wolf.runtime import malloc_trim, processors
from wolf.runtime.blas_threads import one_thread
from wolf.statespace import Model

MIN_SERIES_PER_THREAD = 64  # fewer do not pay for a thread
# A batch has this many measurements, of at least as many series as pay for a thread: its results are copied while they
# are in the cache, and the next batch reuses the memory.
BATCH_ROWS = 65_536
MAX_PROGRAMS = 128  # each takes 5 MB (WoLF) to 40 (the default), and 26 of the 65,530 maps that a process may have
MAX_FINE_LENGTHS = 16  # of runs with noise mixtures, whose programs take 20 to 40 MB; then padding is coarse
MIN_DIM_ONE_BY_ONE = 64  # states from which one series fills the cache: together they would wait for memory

Compiled = TypeVar("Compiled")  # a function compiled by `jax.jit`

_pool = Lock()  # held by the one program that may wait inside XLA's thread pool
_program_facts: WeakKeyDictionary[object, tuple[bool, int]] = WeakKeyDictionary()


_jitted: list[Any] = [
    scan.run_filter,
    scan.run_many,
    scan.run_each,
    run_smoother,
    run_smoothers,
    run_sampler,
    run_forecast,
]


def bounded(compiled: Compiled) -> Compiled:
    """Register a compiled function, so that `bound_programs` clears its programs too.

    Args:
        compiled: by `jax.jit`, with a program for each length and kind of model.
    """
    _jitted.append(compiled)
    return compiled


def bound_programs() -> None:
    """Clear the compiled programs when there are very many, since they are never freed otherwise."""
    if sum(each._cache_size() for each in _jitted) > MAX_PROGRAMS:
        clear_programs()


def clear_programs() -> None:
    """Clear all compiled programs, and return their memory to the system."""
    for each in _jitted:
        each.clear_cache()
    malloc_trim.trim_heap()


class LargePrograms:
    """Padded lengths of the runs whose programs are large, of which a process cannot keep one for each length.

    Up to `MAX_FINE_LENGTHS` they are those of `pad_steps`. A process that meets more clears its programs, and pads by
    up to a factor of two from then on: 16 programs serve all lengths up to a million, and none is compiled again.
    """

    def __init__(self) -> None:
        self.lengths: set[int] = set()

    def pad(self, count: int) -> int:
        """Round a number of steps up, and clear the programs where this ends fine padding."""
        if len(self.lengths) <= MAX_FINE_LENGTHS:
            self.lengths.add(pad_steps(count))
            if len(self.lengths) <= MAX_FINE_LENGTHS:
                return pad_steps(count)
            clear_programs()
        return max(MIN_STEPS, 1 << (count - 1).bit_length())


_large_programs = LargePrograms()


def _padding(method: Filter) -> Callable[[int], int]:
    """Return the function that pads the steps of a run."""
    mixture = method.noise is not None and method.noise.is_mixture
    return _large_programs.pad if mixture else pad_steps


@bounded
@partial(jax.jit, static_argnames=("axes", "steps", "update_first"))
def run_forecasts(*arguments: PyTree, axes: tuple, steps: int, update_first: bool) -> PyTree:
    """Forecast many series; arguments as in `run_forecast`, and the axes of the series."""
    return jax.vmap(partial(run_forecast, steps=steps, update_first=update_first), in_axes=axes)(*arguments)


def call(compiled: Wrapped, *arguments: PyTree, **options: object) -> PyTree:
    """Call a compiled function and return NumPy arrays; functions that could block each other run one at a time.

    Args:
        compiled: by `jax.jit`.
        *arguments: its arguments.
        **options: the others.
    """
    program = compiled.trace(*arguments, **options).jaxpr.jaxpr  # kept by JAX: the call does not trace again
    facts = _program_facts.get(program)
    if facts is None:
        facts = _program_facts[program] = uses_thread_pool(program), largest_factorized_size(program)
    alone, rows = facts
    with _pool if alone else nullcontext(), one_thread(rows) if rows else nullcontext():
        return to_numpy(compiled(*arguments, **options))


def run_one(
    model: Model,
    method: Filter,
    ys: np.ndarray,
    us: np.ndarray | None = None,
    key: Key | None = None,
    **options: PyTree,
) -> tuple[PyTree, PyTree]:
    """Filter one series in one kernel; without fusion where the compiler does not support an operation in it."""
    steps = len(ys)
    model, ys, us = lengthen(model, ys, us, padded=_padding(method))
    options = options | {"length": np.int32(steps)}
    # A small Gaussian filter has no batch of matrices to look for.
    plain = method.linearization is not None and max(model.state_dim, model.obs_dim) <= SMALL

    def attempt(**fused: bool) -> PyTree:
        arguments, rest = (model, ys, method, us, key), options | fused
        return to_numpy(scan.run_filter(*arguments, **rest)) if plain else call(scan.run_filter, *arguments, **rest)

    final, saved = _in_one_kernel(attempt)
    return final, jax.tree.map(lambda array: array[:steps], saved)


def smooth(*arguments: PyTree, many: bool, per_series_model: bool, update_first: bool) -> PyTree:
    """Smooth one series or many, in one kernel if possible; arguments as in `run_smoothers`."""
    options = {"per_series_model": per_series_model} if many else {}

    def attempt(**fused: bool) -> PyTree:
        return call(run_smoothers if many else run_smoother, *arguments, update_first=update_first, **options, **fused)

    return _in_one_kernel(attempt)


def _in_one_kernel(attempt: Callable[..., PyTree]) -> PyTree:
    try:
        return attempt(fused=True)
    except jax.errors.JaxRuntimeError as error:
        if not is_emission_failure(error):
            raise
        return attempt()


def run_series(
    model: Model,
    method: Filter,
    ys: np.ndarray,
    us: np.ndarray | None,
    key: Key | None,
    lengths: np.ndarray | None,
    dtype: str,
    threads: int | None,
    options: dict,
    state: PyTree = None,
    u_before: np.ndarray | None = None,
) -> tuple[PyTree, PyTree]:
    """Filter many series in batches of equal size on several threads, so that one compilation serves all.

    Returns:
        Final states and what was saved, with the series axis first.
    """
    per_series = options["per_series_model"]
    on_cpu = jax.default_backend() == "cpu"
    largest = max(model.state_dim, model.obs_dim)
    one_by_one = on_cpu and (largest <= SMALL or largest >= MIN_DIM_ONE_BY_ONE)
    wanted = processors.usable_count() if threads is None else threads
    fewest = 1 if largest >= MIN_DIM_ONE_BY_ONE else MIN_SERIES_PER_THREAD
    busy = max(1, min(wanted, len(ys) // fewest)) if on_cpu else 1
    rounds = max(1, min(ys.shape[0] * ys.shape[1] // (busy * BATCH_ROWS), len(ys) // (busy * MIN_SERIES_PER_THREAD)))
    parts = busy * rounds if busy > 1 else 1
    size, steps = -(-len(ys) // parts), ys.shape[1]
    lengths = np.full(len(ys), steps, np.int32) if lengths is None else lengths
    model, ys, us = lengthen(model, ys, us, per_series, _padding(method))
    blank = parts * size - len(ys)
    padded = np.concatenate([ys, np.full((blank, *ys.shape[1:]), np.nan, ys.dtype)]) if blank else ys
    rows = [np.minimum(np.arange(i * size, (i + 1) * size), len(ys) - 1) for i in range(parts)]

    def part(i: int) -> tuple[PyTree, PyTree]:
        with precision(dtype):
            some = jax.tree.map(lambda leaf: leaf[rows[i]], model) if per_series else model
            inputs = us[rows[i]] if us is not None and us.ndim == 3 else us
            seed = None if key is None else jax.random.fold_in(as_key(key), i)
            arguments = (some, padded[i * size : (i + 1) * size], method, inputs, seed)
            begin = jax.tree.map(lambda leaf: leaf[rows[i]], {"state": state, "u_before": u_before})
            final, saved = _series_first(one_by_one, *arguments, lengths=lengths[rows[i]], **begin, **options)
            return final, jax.tree.map(lambda array: array[:, :steps], saved)

    if parts == 1:
        return part(0)
    whole = _Assembler(parts * size)
    with ThreadPoolExecutor(busy) as pool:
        list(pool.map(lambda i: whole.put(i * size, part(i)), range(parts)))
    return whole.first(len(ys))


def _series_first(one_by_one: bool, *arguments: PyTree, **options: PyTree) -> tuple[PyTree, PyTree]:
    """Filter series one by one or together, and move the series axis to the front."""
    if one_by_one:
        try:
            return call(scan.run_each, *arguments, **options)
        except jax.errors.JaxRuntimeError as error:
            if not is_emission_failure(error):
                raise
    begin = options["state"]
    start = np.zeros(1, np.int32) if begin is None else begin.t
    if begin is not None and not np.ptp(start):
        options = options | {"state": begin._replace(t=start[0])}
    final, saved = call(scan.run_many, *arguments, **options)
    final, saved = jax.tree.map(lambda leaf: leaf if leaf.ndim == 0 else np.moveaxis(leaf, -1, 0), (final, saved))
    if final.t.ndim == 0:  # one clock for all while they ran together
        final = final._replace(t=start + options["lengths"])
    return final, saved


class _Assembler:
    """Results of many series, assembled from batches."""

    def __init__(self, count: int):
        self.count, self.lock = count, Lock()
        self.arrays: list[np.ndarray] | None = None
        self.structure: PyTree = None

    def put(self, start: int, piece: PyTree) -> None:
        """Copy the results of a batch, the series axis first, to the rows of its series."""
        leaves, structure = jax.tree.flatten(piece)
        with self.lock:
            if self.arrays is None:
                self.arrays = [np.empty((self.count, *leaf.shape[1:]), leaf.dtype) for leaf in leaves]
                self.structure = structure
        for array, leaf in zip(self.arrays, leaves, strict=True):
            array[start : start + len(leaf)] = leaf

    def first(self, count: int) -> PyTree:
        """Return the results of the first series; the others are padding."""
        return jax.tree.unflatten(self.structure, [array[:count] for array in self.arrays or []])
