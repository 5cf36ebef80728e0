"""One series, many of them, or chunks, from arrays to a `Filtered`."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from wolf import native, validation
from wolf.api.postprocessing import blank_after, mark_missing, settings_of, shown
from wolf.api.result_arguments import Models
from wolf.engine import recorders
from wolf.execution import backend_selection, prepared_cache, validate
from wolf.execution.backend_selection import Backend
from wolf.execution.xla_batching import bound_programs, run_one, run_series
from wolf.inference import registry
from wolf.interfaces import Dtype, Filter, Key, Save
from wolf.numerics.precision import as_key, precision, to_dtype
from wolf.numerics.pytree import cast
from wolf.results import Filtered
from wolf.results.lazy_arrays import LazyArrays
from wolf.results.states import States, begin_at, expected
from wolf.results.views.data_frame import index_of
from wolf.statespace import Model


def filter(
    model: Model,
    ys: ArrayLike,
    *,
    method: str | Filter | None = None,
    inputs: ArrayLike | None = None,
    key: Key | None = None,
    update_first: bool = False,
    dtype: Dtype = "float64",
    save: Save = "all",
    backend: Backend = "auto",
) -> Filtered:
    """Filter one series.

    Args:
        model: from `wolf.models`, or a `wolf.LinearModel` or `wolf.StateSpaceModel`.
        ys: measurements, (T, M), or (T,) if one thing is measured. NaN and masked entries are missing.
        method: a name from `wolf.methods.names()` or a value such as `wolf.WoLF(wolf.IMQ(c=4.0))`. The default is
            `wolf.methods.default(model)`: robust, learns its noise, nothing to tune.
        inputs: (T, U), for models that take them.
        key: seed or JAX key, for methods that draw random numbers.
        update_first: take the prior as the prediction of the first measurement, as pykalman, dynamax and statsmodels
            do, instead of as the state one step before it.
        dtype: "float64" or "float32".
        save: "all", "means", "final", or a function of (state, info) that returns what to keep of each step.
        backend: "native" code for what is small, "xla" for everything else; "auto" chooses, and `out.backend` tells.

    Example:
        >>> import wolf
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> out = wolf.filter(model, [1.0, 2.0, 1e9, float("nan"), 1.5])
        >>> out.outliers.tolist()
        [False, False, True, False, False]
    """
    row = registry.TABLE.get(method) if isinstance(method, str) else None
    meant = row.build if row else None if isinstance(method, str) else method
    how = (dtype, update_first, save, backend, isinstance(method, str))  # a name stands for it; itself it is no method
    ready = prepared_cache.find(model, meant, how) if inputs is None and key is None else None
    method = validate.resolve_method(method, model) if ready is None else ready.method
    suited = validate.adapt_model(model, method, key) if ready is None else ready.suited
    array = validation.measurements(ys, model.obs_dim)
    us = validation.inputs(inputs, len(array), model)
    validate.check_options(dtype, save, update_first)
    if ready is None:
        validate.check_functions(model, us)
    validate.check_time_axes(model, len(array), update_first, "filter")
    validate.warn_if_large(suited, array.shape[0], save, dtype, method)
    validate.warn_if_recompiled(model)
    if ready is None:
        ready = PreparedRun(method, suited, *_plan(backend, (suited,), method, dtype, update_first, us, save, key))
        if inputs is None and key is None and ready.code is not None:
            prepared_cache.keep(model, meant, how, ready)
    out = _filter(model, ready, array, us, key, dtype, {"save": save, "update_first": update_first})
    index = index_of(ys)
    return out if index is None else dataclasses.replace(out, index=index)


class PreparedRun(NamedTuple):
    """What was decided before a run.

    Attributes:
        method: the filter.
        suited: the model in the form that suits it.
        code: by which it runs natively; None for XLA.
        backend: which engine it is, and why.
    """

    method: Any
    suited: Any
    code: native.NativeProgram | None
    backend: str


def filter_many(
    model: Models,
    ys: ArrayLike,
    *,
    method: str | Filter | None = None,
    inputs: ArrayLike | None = None,
    key: Key | None = None,
    update_first: bool = False,
    dtype: Dtype = "float64",
    save: Save = "all",
    threads: int | None = None,
    state: Any = None,
    backend: Backend = "auto",
) -> Filtered:
    """Filter many series in one compiled call, on all cores.

    Args:
        model: one for all series, or a list with one for each, of equal shapes.
        ys: (series, T, M), or (series, T) if one thing is measured; or a list of arrays of different lengths, which
            are padded in the results.
        method: as in `wolf.filter`.
        inputs: (T, U) for all series, or (series, T, U).
        key: as in `wolf.filter`.
        update_first: as in `wolf.filter`.
        dtype: as in `wolf.filter`.
        save: as in `wolf.filter`.
        threads: number of threads; default: one for each core.
        state: where to go on from: `out.states` of an earlier call, or its `out.final` where the model may have
            changed; default: the prior. The pieces have the bits of one long call; not so with methods that draw
            random numbers, nor where series run by XLA have come to different steps.
        backend: as in `wolf.filter`.

    Returns:
        A `Filtered` whose arrays have a leading series axis; `out[3]` is one series, at its own length.
    """
    models = tuple(model) if isinstance(model, list | tuple) else None
    first: Any = models[0] if models else model
    for each in models or ():
        validate.check_model(each)
    if threads is not None:
        validation.count("threads", threads)
    method = validate.resolve_method(method, first)
    suited = tuple(validate.adapt_model(each, method, key) for each in models or (first,))
    array, lengths = validation.many_measurements(ys, first.obs_dim)
    steps = array.shape[1]
    us = validation.inputs(inputs, steps, first, series=len(array))
    if models is not None and len(models) != len(array):
        raise ValueError(
            f"give one model for all series or one for each: got {len(models)} models, {len(array)} series"
        )
    validate.check_options(dtype, save, update_first)
    for each in models or (first,):
        validate.check_functions(each, us)
        validate.check_time_axes(each, steps + _clock(state), update_first, "filter")
    validate.warn_if_large(suited[0], array.shape[0] * steps, save, dtype, method)
    validate.warn_if_recompiled(first)
    data = (to_dtype(array, dtype), to_dtype(us, dtype))
    first_kept = recorders.LeanRecorder() if save == "all" else save  # the rest of "all" is made when it is asked for
    ready, ran = _plan(backend, suited, method, dtype, update_first, us, first_kept, key)
    given = first if models is None else models
    begin: dict[str, Any] = {}
    if state is not None:
        built = expected(suited[0], method, dtype) if ready is None else ready.code.facts.state[:2]
        begin = begin_at(state, States(None, given, method, dtype, update_first), built, *data)
        data = (data[0], begin.pop("inputs"))
    if ready is not None:
        final, saved = _run_native(ready, data, array, lengths, threads, save, begin)
    else:
        stacked = suited[0] if models is None else validate.stack_models(suited)
        options = {"save": save, "update_first": update_first, "per_series_model": models is not None}
        bound_programs()
        whole = (cast(stacked, dtype), cast(method, dtype), *data)
        final, saved = run_series(*whole, key, lengths, dtype, threads, options, **begin)
        saved = _trimmed(saved, array, lengths, save)
    settings = settings_of(method, steps, dtype, save, update_first, ran)
    padding = 0 if lengths is None else int((steps - lengths).sum()) * first.obs_dim
    missing = int(np.isnan(array).sum()) - padding
    return Filtered(saved, final, given, method, settings, array, missing, us, update_first, len(array), lengths)


def _clock(state: Any) -> int:
    """Give the step that the furthest of many states has come to."""
    final = state.final if isinstance(state, States) else state
    return 0 if final is None else int(np.max(getattr(final, "t", 0)))


def filter_chunks(
    model: Model,
    chunks: Iterable[ArrayLike | tuple[ArrayLike, ArrayLike]],
    *,
    method: str | Filter | None = None,
    key: Key | None = None,
    update_first: bool = False,
    dtype: Dtype = "float64",
    save: Save = "means",
    backend: Backend = "auto",
) -> Iterator[Filtered]:
    """Filter a series that is too long for memory, or not over yet, chunk by chunk.

    Args:
        model: as in `wolf.filter`; arrays with a time axis are read at the clock of the whole series.
        chunks: measurements (t, M), one array after the other, or pairs of them with inputs (t, U). Equal lengths
            compile once.
        method: as in `wolf.filter`.
        key: as in `wolf.filter`.
        update_first: as in `wolf.filter`.
        dtype: as in `wolf.filter`.
        save: as in `wolf.filter`.
        backend: as in `wolf.filter`.

    Yields:
        One `Filtered` for each chunk, bit for bit what `wolf.filter` gives for the whole.

    Example:
        >>> import wolf
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> [len(part) for part in wolf.filter_chunks(model, ([1.0, 2.0], [3.0]))]
        [2, 1]
    """
    method = validate.resolve_method(method, model)
    suited = validate.adapt_model(model, method, key)
    validate.check_options(dtype, save, update_first)
    state, before, seen, ready = None, None, 0, None
    for chunk in _each_chunk(chunks):
        ys, inputs = chunk if isinstance(chunk, tuple) else (chunk, None)
        array = validation.measurements(ys, model.obs_dim)
        us = validation.inputs(inputs, len(array), model)
        validate.check_functions(model, us)
        seen += len(array)
        validate.check_time_axes(model, seen, update_first, "filter")
        if ready is None or inputs is not None:
            ready = PreparedRun(method, suited, *_plan(backend, (suited,), method, dtype, update_first, us, save, key))
        options = {"state": state, "u_before": before, "save": save, "update_first": update_first}
        out = _filter(model, ready, array, us, key, dtype, options)
        state, before = out.final, None if us is None else to_dtype(us[-1], dtype)
        yield out


def _each_chunk(chunks: Any) -> Iterator[Any]:
    """Go through chunks, and refuse what is none."""
    if isinstance(chunks, str | bytes | Mapping) or not isinstance(chunks, Iterable) or getattr(chunks, "ndim", 1) == 0:
        raise ValueError(f"chunks must be a list or a generator of arrays; got {validation.short_repr(chunks)}")
    for chunk in chunks:
        if isinstance(chunk, tuple) and len(chunk) != 2:
            raise ValueError(f"chunks must be arrays, or pairs of measurements and inputs; got {len(chunk)} in a tuple")
        yield chunk


def _filter(
    model: Model,
    ready: PreparedRun,
    ys: np.ndarray,
    us: np.ndarray | None,
    key: Any,
    dtype: str,
    options: dict[str, Any],
) -> Filtered:
    """Run one series whose door checks are done."""
    save, update_first = options["save"], options["update_first"]
    method, suited, code, ran = ready
    data = (to_dtype(ys, dtype), to_dtype(us, dtype))
    if code is not None:
        final, saved = native.run_one(code, *data, options.get("state"), options.get("u_before"))
    else:
        bound_programs()
        with precision(dtype):
            final, saved = run_one(cast(suited, dtype), cast(method, dtype), *data, as_key(key), **options)
    if isinstance(save, str):
        saved = mark_missing(saved, ys)
    settings = settings_of(method, len(ys), dtype, save, update_first, ran)
    return Filtered(saved, final, model, method, settings, ys, int(np.isnan(ys).sum()), us, update_first)


def _run_native(
    ready: native.NativeProgram,
    data: tuple[Any, Any],
    array: np.ndarray,
    lengths: np.ndarray | None,
    threads: int | None,
    save: Any,
    begin: dict[str, Any],
) -> tuple[Any, Any]:
    """Run many series by native code; of "all", what is seldom asked for is made when it is."""
    final, saved = native.run_many(ready, *data, lengths, threads, **begin)
    saved = _trimmed(saved, array, lengths, save)
    if save != "all":
        return final, saved
    came = data[0] if data[0].dtype == array.dtype else np.array(array)  # as it was, whatever its owner does to it
    whole = ready.keeping("all")

    def rest() -> dict[str, np.ndarray]:
        return shown(native.run_many(whole(), *data, lengths, threads, **begin)[1], came, lengths)

    return final, LazyArrays(saved, sorted({*saved, *ready.code.facts.described}), rest)


def _trimmed(saved: Any, array: np.ndarray, lengths: np.ndarray | None, save: Any) -> Any:
    """Mark what was missing in what was saved, and blank what lies after the end of a series."""
    if isinstance(save, str):
        return shown(saved, array, lengths)
    return saved if lengths is None else jax.tree.map(partial(blank_after, lengths=lengths), saved)


def _plan(
    backend: str,
    models: tuple[Any, ...],
    method: Any,
    dtype: str,
    update_first: bool,
    us: np.ndarray | None,
    save: Any,
    key: Any,
) -> tuple[Any, str]:
    """Choose the engine, and get it ready."""
    validation.choice("backend", backend, backend_selection.BACKENDS)
    inputs = None if us is None else us.shape[-1]
    return backend_selection.plan(backend, models, method, dtype, update_first, inputs, save, key)
