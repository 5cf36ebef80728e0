"""Compiled steps, cached by signature; models prepared for them; the loop over series."""

import ctypes
import dataclasses
import itertools
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import jax
import numpy as np

from wolf.native.codegen.step_loop import HEAD, write_once, write_run
from wolf.native.execute import disk_cache, llvm_jit
from wolf.native.execute.fastcall import fastcall
from wolf.native.frontend.node_arrays import UnsupportedOperationError
from wolf.native.frontend.signature import Arguments, Signature
from wolf.native.frontend.trace import StepFacts, StepGraph, row_shapes, trace
from wolf.native.ir.graph import TooLargeError
from wolf.native.ir.layout import entries, full_index
from wolf.numerics.pytree import PyTree

MAX_OPERATIONS = 40_000  # operations of a step; above that XLA compiles much faster, and its loops are about as fast
LANES = 8  # series per register: 512 bits of double precision
MAX_CACHED_STEPS = 256  # compiled signatures, of some ten kilobytes each

_lock = threading.RLock()
_steps: OrderedDict[Signature, "Compiled | str"] = OrderedDict()


class UnsupportedModelError(Exception):
    """Native code does not suit this run; the message gives the reason."""


class Compiled:
    """A step as machine code, for all models of one signature.

    It is traced only if a part of its code is not on disk yet.

    Args:
        kind: of model and method.
        facts: properties that running it needs.
        step: the traced step, if it was traced.
    """

    def __init__(self, signature: Signature, facts: StepFacts, step: StepGraph | None):
        self.signature, self.facts, self._step = signature, facts, step
        self.dtype = np.dtype(signature.dtype)
        self.num_kept = facts.num_kept
        self._runs: dict[tuple, Callable] = {}
        self._loaded: dict[str, llvm_jit.JitModule] = {}

    @property
    def step(self) -> StepGraph:
        """The graph of a step."""
        if self._step is None:
            self._step = trace(self.signature)
        return self._step

    def address(self, part: str, write: Callable[[str], str]) -> int:
        """Return the address of one of the functions, compiled or loaded at its first use.

        Args:
            part: name of the function.
            write: writes its LLVM text, given its name.
        """
        with _lock:
            if part not in self._loaded:
                key = disk_cache.cache_key(self.signature, part)
                name = f"wolf_{next(_names)}" if key is None else f"wolf_{key[:40]}"
                code = disk_cache.get_or_compile(key, lambda: llvm_jit.compile(write(name)))
                self._loaded[part] = llvm_jit.load(code, name)
            return self._loaded[part].address

    @cached_property
    def _prepare(self) -> Callable:
        return llvm_jit.function(self.preparing, ctypes.c_void_p, ctypes.c_void_p)

    def _each(self, part: str) -> Callable:
        """Return the function that prepares many models in one call."""
        kinds = (ctypes.c_void_p, ctypes.c_int64) * 2
        return llvm_jit.function(self._loaded[part].address_with_suffix("_each"), *kinds, ctypes.c_int64)

    @cached_property
    def _prepare_each(self) -> Callable:
        _ = self.preparing  # loads the module
        return self._each("prepare")

    @property
    def preparing(self) -> int:
        """Address of the function that computes, once per model, what its steps use."""
        return self.address("prepare", lambda name: write_once(self.step.graph, self.step.layout, name))

    @cached_property
    def _start_each(self) -> Callable:
        self.address("start", lambda name: write_once(*self.step.start, name))
        return self._each("start")

    @cached_property
    def call(self) -> Any:
        """One step of one series as a fast Python function; see `fastcall.py`."""
        return fastcall("double" if self.dtype.itemsize == 8 else "float")

    def prepare(self, parameters: np.ndarray, kept: np.ndarray) -> None:
        """Compute what all steps of a model use."""
        self._prepare(parameters.ctypes.data, kept.ctypes.data)

    def prepare_each(self, parameters: np.ndarray, kept: np.ndarray) -> None:
        """Compute what all steps of each model use, a row per model."""
        _for_rows(self._prepare_each, parameters, kept)

    def initial_states(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute the initial states of models: their numbers and their counts, one row per model."""
        whole = np.empty((len(parameters), self.facts.num_start), self.dtype)
        _for_rows(self._start_each, parameters, whole)
        ends, dtypes = self._ends, self.facts.state.dtypes
        return self.pack([whole[:, a:b].astype(d) for a, b, d in zip(ends, ends[1:], dtypes, strict=False)])

    @cached_property
    def _ends(self) -> list[int]:
        return [0, *itertools.accumulate(map(math.prod, self.facts.state.shapes))]

    def pack(self, leaves: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Pack the leaves of states, one state per row, into a matrix of numbers and one of counts."""
        count, built = len(leaves[0]), self.facts.state
        flat = [
            leaf.reshape(count, math.prod(shape))[:, entries(shape, half)]
            for leaf, shape, half in zip(leaves, built.shapes, built.halves, strict=True)
        ]
        numbers = [leaf for leaf in flat if leaf.dtype.kind == "f"]
        counts = [leaf for leaf in flat if leaf.dtype.kind != "f"]
        empty = [np.zeros((count, 0))]
        # Row by row, as the code reads them: fancy indexing may return column order.
        return (
            np.concatenate(numbers or empty, axis=1).astype(self.dtype, "C", copy=False),
            np.concatenate(counts or empty, axis=1).astype(np.int32, "C", copy=False),
        )

    def unpack(self, numbers: np.ndarray, counts: np.ndarray) -> PyTree:
        """Unpack a state from its vectors, or many from their rows."""
        at, leaves = {"f": 0, "i": 0}, []
        for shape, dtype, half in zip(*self.facts.state[1:], strict=True):
            kind = "f" if dtype.kind == "f" else "i"
            source, size = numbers if kind == "f" else counts, len(entries(shape, half))
            part = source[..., at[kind] : at[kind] + size]
            at[kind] += size
            whole = part[..., full_index(shape)] if half else part.reshape((*source.shape[:-1], *shape))
            leaves.append(whole.astype(dtype, copy=not half))
        return jax.tree.unflatten(self.facts.state.structure, leaves)

    @cached_property
    def state_sizes(self) -> tuple[int, int]:
        """Numbers and counts of a state."""
        sizes = [
            (len(entries(shape, half)), dtype.kind) for shape, dtype, half in zip(*self.facts.state[1:], strict=True)
        ]
        return sum(size for size, kind in sizes if kind == "f"), sum(size for size, kind in sizes if kind != "f")

    @cached_property
    def row_axes(self) -> dict[str, int]:
        """Number of axes of a row, for each array that has a row per step."""
        own = {name: len(shape) for name, shape in row_shapes(self.signature).items()}
        shapes = [s for s, varies in zip(self.signature.shapes, self.signature.varying, strict=True) if varies]
        return own | {f"{when}{i}": len(s) for i, s in enumerate(shapes) for when in ("now", "before")}

    def run(self, lanes: int, own_model: bool, ragged: bool) -> Callable:
        """Return the function over series and steps."""
        key = (lanes, own_model, ragged)
        with _lock:
            if key not in self._runs:
                self._runs[key] = llvm_jit.function(self.running(*key), *[ctypes.c_int64] * 3, ctypes.c_void_p)
            return self._runs[key]

    def running(self, lanes: int, own_model: bool, ragged: bool) -> int:
        """Return the address of the function over series and steps."""

        def write(name: str) -> str:
            layout = dataclasses.replace(self.step.layout, own_model=own_model, ragged=ragged)
            return write_run(self.step.graph, layout, lanes, name)

        return self.address(f"run-{lanes}-{own_model:d}-{ragged:d}", write)


def compiled(signature: Signature, most: float = MAX_OPERATIONS) -> Compiled:
    """Return the machine code of a signature; its parts are compiled at their first use.

    Args:
        signature: of model and method.
        most: maximum number of operations of a step.

    Raises:
        UnsupportedModelError: where the step is not for straight-line code.
    """
    with _lock:
        found = _steps.get(signature)
        if found is None:
            found = _steps[signature] = _trace_or_reason(signature)
            if len(_steps) > MAX_CACHED_STEPS:
                _steps.popitem(last=False)
        _steps.move_to_end(signature)
    if isinstance(found, str):
        raise UnsupportedModelError(found)
    if found.facts.operations > most:
        raise UnsupportedModelError(f"a step takes {found.facts.operations} operations, and above {most} XLA is faster")
    return found


def _trace_or_reason(signature: Signature) -> Compiled | str:
    key = disk_cache.cache_key(signature, "facts")
    facts = disk_cache.load_metadata(key)
    if facts is not None:
        return Compiled(signature, facts, None)
    try:
        step = trace(signature)
    except (UnsupportedOperationError, TooLargeError) as error:
        return str(error)
    disk_cache.store_metadata(key, step.facts)
    return Compiled(signature, step.facts, step)


_names = itertools.count()


def _for_rows(call: Callable, source: np.ndarray, target: np.ndarray) -> None:
    call(source.ctypes.data, source.strides[0], target.ctypes.data, target.strides[0], len(source))


class NativeProgram:
    """Compiled code with the numbers of its models, and their initial states.

    Args:
        given: from `flatten_model`.
        most: maximum number of operations of a step.
        parameters: `given.parameters()`, (models, P), if they are known already.
    """

    def __init__(self, given: Arguments, most: float = MAX_OPERATIONS, parameters: np.ndarray | None = None):
        self.given, self.varying = given, given.rows()
        self.code = compiled(given.signature, most)
        self.parameters = given.parameters() if parameters is None else parameters
        self.kept = np.empty((len(self.parameters), max(1, self.code.num_kept)), self.code.dtype)
        self.code.prepare_each(self.parameters, self.kept)

    def with_recorder(self, save: Hashable) -> "Callable[[], NativeProgram]":
        """Return a function that prepares the same models for a run with another recorder."""
        given = Arguments(dataclasses.replace(self.given.signature, save=save), self.given.leaves)
        return lambda: NativeProgram(given, math.inf)

    def start(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the states at the prior, one per series: their numbers and their counts, one row each."""
        numbers, counts = self.code.initial_states(self.parameters)
        rows = np.zeros(count, int) if len(numbers) == 1 else slice(None)
        return numbers[rows], counts[rows]


def run_rows(
    code: Compiled,
    kept: np.ndarray,
    numbers: np.ndarray,
    counts: np.ndarray,
    rows: dict[str, np.ndarray],
    *,
    index: np.ndarray | None = None,
    lengths: np.ndarray | None = None,
    threads: int = 1,
    outputs: list[np.ndarray] | None = None,
) -> PyTree:
    """Run series through a compiled step.

    Args:
        code: the step.
        kept: what was computed once for the model, (1, K), or for each series' own model, (B, K).
        numbers: of the states, (B, ...), updated in place.
        counts: of the states, (B, ...), updated in place.
        rows: the arrays with a row per step, (B, T, ...), or (T, ...) for all series.
        index: row of the state (and own model) of each series; default: in order.
        lengths: number of steps of each series; default: all.
        threads: number of threads.
        outputs: arrays to write the results to, (B, T, ...) each, with any strides of series and steps.

    Returns:
        The recorded values of each step, (B, T, ...), as a pytree.
    """
    series, steps = rows[code.facts.groups[0]].shape[:2]
    index = np.arange(series) if index is None else np.ascontiguousarray(index, np.int64)
    lengths = None if lengths is None else np.ascontiguousarray(lengths, np.int64)
    if outputs is None:
        outputs = [np.empty((series, steps, *each.shape), each.dtype) for each in code.facts.outputs]
    table = make_table(code, kept, numbers, counts, rows, outputs, index, lengths)
    own, ragged = len(kept) > 1, lengths is not None
    whole = series - series % LANES
    tasks = [(LANES, a, b) for a, b in _tasks(whole // LANES, threads)]
    calls = [(code.run(lanes, own, ragged), LANES * a, LANES * b) for lanes, a, b in tasks]
    if whole < series:
        calls.append((code.run(1, own, ragged), whole, series))
    at = table.ctypes.data
    if len(calls) == 1 or threads == 1:
        for call, a, b in calls:
            call(a, b, steps, at)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda each: each[0](each[1], each[2], steps, at), calls))
    return jax.tree.unflatten(code.facts.saved, outputs)


def _tasks(blocks: int, threads: int) -> list[tuple[int, int]]:
    """Divide blocks of series into a few tasks per thread, so that no thread waits long for the last."""
    parts = min(blocks, 4 * threads if threads > 1 else 1)
    if parts < 2:
        return [(0, blocks)] * parts
    ends = np.linspace(0, blocks, parts + 1).astype(int).tolist()
    return list(itertools.pairwise(ends))


def make_table(
    code: Compiled,
    kept: np.ndarray,
    numbers: np.ndarray,
    counts: np.ndarray,
    rows: dict[str, np.ndarray],
    outputs: list[np.ndarray],
    index: np.ndarray,
    lengths: np.ndarray | None,
) -> np.ndarray:
    """Write addresses, strides between series and strides between steps to the table that the code reads."""
    given = (numbers.shape[1], counts.shape[1])
    if given != code.state_sizes:  # otherwise the code would write out of bounds
        raise ValueError(
            f"a state of this filter has (numbers, counts) = {code.state_sizes}; got {given}: another filter's?"
        )
    head = {
        "states": (numbers.ctypes.data, numbers.strides[0], 0),
        "counts": (counts.ctypes.data, counts.strides[0], 0),
        "rows": (index.ctypes.data, 0, 0),
        "model": (kept.ctypes.data, kept.strides[0] if len(kept) > 1 else 0, 0),
        "lengths": (0 if lengths is None else lengths.ctypes.data, 0, 0),
        "code": (0, 0, 3 * (len(HEAD) + len(code.facts.groups))),
        "sizes": (0, 0, max(0, code.num_kept - 1)),
    }
    entries = [head[name] for name in HEAD]
    for name in code.facts.groups:
        array = rows[name]
        shared = array.ndim - code.row_axes[name] == 1
        entries.append((array.ctypes.data, 0 if shared else array.strides[0], array.strides[0 if shared else 1]))
    entries += [(array.ctypes.data, array.strides[0], array.strides[1]) for array in outputs]
    return np.array(entries, np.int64).ravel()
