"""A model and a method that are validated, adapted to each other, compiled and cached: what every run starts from.

A cached pair is found by the identity of model and method and by the bits of all their numbers: a model whose array was
written into is another model.
"""

import dataclasses
import platform
import weakref
from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import Any, NamedTuple

import jax
import numpy as np

from wolf import native, validation
from wolf.execution import backend_selection, function_checks, validate
from wolf.execution.backend_selection import BackendChoice
from wolf.execution.xla_batching import bound_programs, run_one, run_series
from wolf.inference import registry
from wolf.interfaces import Filter, Key, Requirements, Save
from wolf.numerics.precision import as_key, precision
from wolf.numerics.pytree import PyTree, cast
from wolf.runtime import fork_guard
from wolf.statespace import Model, time_axes

MAX_CACHED_PAIRS = 64
MAX_CACHED_BYTES = 65_536  # of the numbers of a pair: comparing more takes longer than preparing it

_lock = Lock()
_cache: dict[Hashable, tuple[Callable, Callable, tuple[bytes, ...], "Prepared"]] = {}


@dataclasses.dataclass(frozen=True, slots=True)
class RunOptions:
    """Options that a compiled step depends on.

    Args:
        dtype: "float64" or "float32".
        update_first: order of a step.
        save: what is kept of each step.
        backend: "auto", "native" or "xla".
        recorder: what the compiled step keeps, where that differs from `save`.
    """

    dtype: str
    update_first: bool
    save: Save
    backend: str
    recorder: Callable | None = None


class Pair(NamedTuple):
    """A method and its models, validated and adapted to each other.

    Attributes:
        method: the filter, in the numerical form that suits the model.
        models: as given: one for all series, or one for each.
        adapted: the same in the form that the method takes.
        per_series: whether each series has a model of its own.
    """

    method: Filter
    models: tuple[Model, ...]
    adapted: tuple[Model, ...]
    per_series: bool


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A method and its models, ready to run.

    Attributes:
        pair: the method and its models.
        options: of the run.
        program: native code of a step; None for XLA.
        choice: the backend, and why.
        time_varying: whether an array of a model has a time axis.
        obs_dim: number of measured coordinates.
        row_bytes: bytes of one step in the results, as far as they may become large.
        settings: description of the run: method, options, backend and versions.
    """

    pair: Pair
    options: RunOptions
    program: native.NativeProgram | None
    choice: BackendChoice
    time_varying: bool
    obs_dim: int
    row_bytes: int
    settings: dict[str, Any]

    def check_steps(self, steps: int, rows: int) -> None:
        """Check that arrays with a time axis reach far enough, and warn of a very large result.

        Args:
            steps: the last step of the run, counted from the prior.
            rows: steps times series.
        """
        if self.time_varying:
            for model in self.pair.models:
                validate.check_time_axes(model, steps, self.options.update_first, "filter")
        if rows * self.row_bytes > validate.LARGE_OUTPUT_BYTES:
            validate.warn_of_size(rows * self.row_bytes, rows, self.pair.models[0].state_dim)

    def run(
        self,
        ys: np.ndarray,
        us: np.ndarray | None,
        key: Key | None = None,
        state: PyTree = None,
        u_before: PyTree = None,
    ) -> tuple[PyTree, PyTree]:
        """Filter one series.

        Args:
            ys: (T, M), in the precision of the run.
            us: inputs, (T, U).
            key: for methods that draw random numbers.
            state: to continue from; default: the prior.
            u_before: the input before the first of these.

        Returns:
            The final state, and what was kept of each step.
        """
        if self.program is not None:
            return native.run_one(self.program, ys, us, state, u_before)
        bound_programs()
        dtype = self.options.dtype
        save, order = self.options.save, self.options.update_first
        with precision(dtype):
            pair = cast(self.pair.adapted[0], dtype), cast(self.pair.method, dtype)
            how = {"state": state, "u_before": u_before, "save": save, "update_first": order}
            with function_checks.explained():
                return run_one(*pair, ys, us, as_key(key), **how)

    def run_many(
        self,
        ys: np.ndarray,
        us: np.ndarray | None,
        lengths: np.ndarray | None,
        threads: int | None,
        key: Key | None = None,
        start: dict[str, Any] | None = None,
    ) -> tuple[PyTree, PyTree]:
        """Filter many series.

        Args:
            ys: (B, T, M), in the precision of the run.
            us: inputs, (T, U) or (B, T, U).
            lengths: steps of each series, (B,), or None.
            threads: at most so many; default: one for each core.
            key: for methods that draw random numbers.
            start: `state` and `u_before` to continue from; empty for the prior.

        Returns:
            The final states and what was kept of each step, with the series axis first.
        """
        start = start or {}
        if self.program is not None:
            return native.run_many(self.program, ys, us, lengths, threads, **start)
        dtype, per_series, adapted = self.options.dtype, self.pair.per_series, self.pair.adapted
        stacked = validate.stack_models(adapted) if per_series else adapted[0]
        how = {"save": self.options.save, "update_first": self.options.update_first, "per_series_model": per_series}
        bound_programs()
        pair = cast(stacked, dtype), cast(self.pair.method, dtype)
        with function_checks.explained():
            return run_series(*pair, ys, us, key, lengths, dtype, threads, how, **start)


def resolve(models: Model | Sequence[Model], method: str | Filter | None, key: Key | None) -> Pair:
    """Validate a method and its models, and adapt them to each other.

    Args:
        models: one for all series, or a list with one for each.
        method: a name, a filter, or None for the default.
        key: seed or JAX key, for methods that draw random numbers.
    """
    per_series = isinstance(models, list | tuple) and len(models) > 0
    given: Any = tuple(models) if per_series else (models,)  # type: ignore[arg-type]
    for each in given:
        validate.check_model(each)
    if validation.is_traced(*jax.tree.leaves(given)):
        raise ValueError(
            "the model holds values that jax.jit, grad or vmap trace; inside of JAX programs use wolf.run_filter"
        )
    found = validate.resolve_method(method, given[0])
    return Pair(found, given, tuple(validate.adapt_model(each, found, key) for each in given), per_series)


def prepare(pair: Pair, options: RunOptions, us: np.ndarray | None, key: Key | None, steps: int, rows: int) -> Prepared:
    """Check the options and functions of a run, choose the backend, and compile.

    Args:
        pair: from `resolve`.
        options: of the run.
        us: inputs, (..., U), or None.
        key: for methods that draw random numbers.
        steps: the last step of the run, counted from the prior.
        rows: steps times series.
    """
    validate.check_options(options.dtype, options.save, options.update_first)
    for model in pair.models:
        function_checks.check_functions(model, us, options.dtype)
    validation.choice("backend", options.backend, backend_selection.BACKEND_OPTIONS)
    varying = any(time_axes(model) for model in pair.models)
    first, large = pair.models[0], validate.bytes_per_row(pair.adapted[0], options.save, options.dtype, pair.method)
    ready = Prepared(pair, options, None, backend_selection.NATIVE, varying, first.obs_dim, large, {})
    ready.check_steps(steps, rows)
    validate.warn_if_recompiled(first)
    inputs = None if us is None else us.shape[-1]
    recorder = options.save if options.recorder is None else options.recorder
    how = options.dtype, options.update_first, inputs, recorder, key
    with function_checks.explained():
        program, choice = backend_selection.compile_filter(options.backend, pair.adapted, pair.method, *how)
    return dataclasses.replace(ready, program=program, choice=choice, settings=_settings(pair, options, choice))


def _settings(pair: Pair, options: RunOptions, choice: BackendChoice) -> dict[str, Any]:
    """Return how a run is made: method, options, backend and versions."""
    save = options.save
    return {
        "method": repr(pair.method),
        "dtype": options.dtype,
        "save": save if isinstance(save, str) else validation.callable_name(save),
        "update_first": options.update_first,
        "backend": choice,
        "wolf": validate.package_version(),
        "jax": jax.__version__,
        "python": platform.python_version(),
    }


def find(model: Model, method: str | Filter | None, options: RunOptions) -> Prepared | None:
    """Return the cached pair of a model and a method, or None.

    Args:
        model: as given.
        method: as given: a filter, a name or None.
        options: of the run.
    """
    fork_guard.check()
    try:
        key = _key(model, method, options)
        model_ref, method_ref, numbers, ready = _cache[key]
    except (KeyError, TypeError):
        return None
    named = _named(method)
    return ready if model_ref() is model and method_ref() is named and numbers == _numbers(model, named) else None


def keep(model: Model, method: str | Filter | None, options: RunOptions, ready: Prepared) -> None:
    """Cache a pair that runs natively, for as long as model and method live and their numbers do not change."""
    named = _named(method)
    numbers = _numbers(model, named)
    if ready.program is None or numbers is None or sum(map(len, numbers)) > MAX_CACHED_BYTES:
        return
    try:
        entry = (weakref.ref(model), _reference(named), numbers, ready)
        key = _key(model, method, options)
        hash(key)
    except TypeError:
        return
    with _lock:
        while len(_cache) >= MAX_CACHED_PAIRS:
            del _cache[next(iter(_cache))]
        _cache[key] = entry


def _named(method: str | Filter | None) -> object:
    """Return the constructor that a name stands for, and everything else unchanged."""
    if not isinstance(method, str):
        return method
    row = registry.TABLE.get(method)
    return None if row is None else row.build


def _key(model: Model, method: str | Filter | None, options: RunOptions) -> Hashable:
    return id(model), id(_named(method)), isinstance(method, str), options


def _reference(method: object) -> Callable:
    """Refer to a method without keeping it alive; None stands for the default."""
    return (lambda: None) if method is None else weakref.ref(method)


def _numbers(model: Model, method: object) -> tuple[bytes, ...] | None:
    """Return the bytes of all numbers of a model and a method; None if one of them is not a plain number."""
    has_numbers = isinstance(getattr(method, "requirements", None), Requirements)  # a constructor has none
    found = []
    for leaf in jax.tree.leaves((model, method if has_numbers else None)):
        if not isinstance(leaf, np.ndarray | np.generic | float | int):
            return None
        found.append(np.asarray(leaf).tobytes())
    return tuple(found)
