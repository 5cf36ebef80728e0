"""`wolf.filter`, `wolf.filter_many` and `wolf.filter_chunks`: from arrays to a `Filtered`."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from wolf import native, validation
from wolf.api.continuation import check_start
from wolf.api.postprocessing import blank_after, mark_missing, postprocess_many
from wolf.api.result_arguments import Models
from wolf.engine import recorders
from wolf.execution import prepared, validate
from wolf.execution.backend_selection import BackendOption
from wolf.execution.prepared import Prepared, RunOptions
from wolf.interfaces import Dtype, Filter, Key, Save
from wolf.numerics.frame_labels import columns_of, index_of
from wolf.numerics.measurement_transforms import read_transform
from wolf.numerics.precision import to_dtype
from wolf.numerics.pytree import PyTree
from wolf.results import Filtered
from wolf.results.conformal import Calibration, read_calibration
from wolf.results.lazy_arrays import LazyArrays
from wolf.results.states import States, state_structure
from wolf.statespace import Model

Chunk = ArrayLike | tuple[ArrayLike, ArrayLike]  # measurements, or measurements and inputs


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
    backend: BackendOption = "auto",
    calibrate: Calibration = None,
    transform: object = None,
) -> Filtered:
    """Filter one series.

    Args:
        model: from `wolf.models`, or a `wolf.LinearModel` or `wolf.StateSpaceModel`.
        ys: measurements, (T, M), or (T,) if one thing is measured. NaN and masked entries are missing.
        method: a name from `wolf.methods.names()` or a value such as `wolf.WoLF(wolf.IMQ(c=4.0))`. The default is
            `wolf.methods.default(model)`: robust, estimates the noise, needs no tuning.
        inputs: (T, U), for models that take them.
        key: seed or JAX key, for methods that draw random numbers.
        update_first: take the prior as the prediction of the first measurement, as pykalman, dynamax and statsmodels
            do, instead of as the belief one step before it.
        dtype: "float64" or "float32".
        save: "all", "means", "final", or a function of (state, info) that returns what to keep of each step.
        backend: "native" code, "xla", or "auto": native code for small models, XLA for everything else. `out.backend`
            is the one that ran, `out.backend_reason` says why.
        calibrate: "conformal" adds `out.conformal_radius`, by which 95 % prediction intervals hold 95 % of the
            measurements in the long run even where the model is wrong; or a `wolf.ConformalIntervals`. The estimate is
            not changed.
        transform: scale of the model, where it is not that of the measurements: "log", "sqrt", "logit" (of shares),
            "logit:0:100", or a pair of functions (forward, inverse). Prediction intervals, `out.signal()` and
            forecasts are on the scale of the measurements and keep to its bounds; `out.ys` and states are on that of
            the model. A value out of bounds is an outlier.

    Example:
        >>> import wolf
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> out = wolf.filter(model, [1.0, 2.0, 1e9, float("nan"), 1.5])
        >>> out.outliers.tolist()
        [False, False, True, False, False]
    """
    intervals = None if calibrate is None else read_calibration(calibrate)
    given, scale = ys, None if transform is None else read_transform(transform)
    if scale is not None:
        ys = scale.apply(validation.measurements(ys, model.obs_dim))
    options = RunOptions(dtype, update_first, save, backend)
    cacheable = inputs is None and key is None
    ready = prepared.find(model, method, options) if cacheable else None
    if ready is not None:  # with this model and method, without inputs
        array, us = validation.measurements(ys, ready.obs_dim), None
        ready.check_steps(len(array), len(array))
    else:
        pair = prepared.resolve(model, method, key)
        array = validation.measurements(ys, model.obs_dim)
        us = validation.inputs(inputs, len(array), model)
        ready = prepared.prepare(pair, options, us, key, len(array), len(array))
        if cacheable:
            prepared.keep(model, method, options, ready)
    out = _filter(ready, array, us, key)
    out = out if intervals is None else out.calibrate(intervals)
    out = out if scale is None else dataclasses.replace(out, settings=out.settings | {"transform": scale})
    index = None if isinstance(given, np.ndarray | list) else index_of(given)
    return out if index is None else dataclasses.replace(out, index=index, columns=columns_of(given))


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
    state: PyTree = None,
    backend: BackendOption = "auto",
    calibrate: Calibration = None,
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
        state: to continue from: `out.states` of an earlier call, or its `out.final` where the model may have changed;
            default: the prior. The results are bit for bit those of one long call, except with methods that draw
            random numbers, and where series that run on XLA are at different steps.
        backend: as in `wolf.filter`.
        calibrate: as in `wolf.filter`; each series has radii of its own.

    Returns:
        A `Filtered` whose arrays have a leading series axis; `out[3]` is one series, at its own length.
    """
    if threads is not None:
        validation.count("threads", threads)
    intervals = read_calibration(calibrate)
    pair = prepared.resolve(model, method, key)
    first = pair.models[0]
    array, lengths = validation.many_measurements(ys, first.obs_dim)
    steps = array.shape[1]
    us = validation.inputs(inputs, steps, first, series=len(array))
    given = pair.models if pair.per_series else model
    if pair.per_series and len(pair.models) != len(array):
        count = f"{len(pair.models)} models, {len(array)} series"
        raise ValueError(f"give one model for all series or one for each: got {count}")
    # Of "all", the arrays that are seldom read are computed when they are.
    recorder = recorders.LeanRecorder() if save == "all" else None
    options = RunOptions(dtype, update_first, save, backend, recorder)
    ready = prepared.prepare(pair, options, us, key, steps + _last_step(state), array.shape[0] * steps)
    data = (to_dtype(array, dtype), to_dtype(us, dtype))
    start: dict[str, Any] = {}
    if state is not None:
        program = ready.program
        built = program.code.facts.state[:2] if program else state_structure(pair.adapted[0], pair.method, dtype)
        start = check_start(state, States(None, given, ready.pair.method, dtype, update_first), built, *data)
        data = (data[0], start.pop("inputs"))
    final, saved = ready.run_many(*data, lengths, threads, key, start)
    saved = _trimmed(saved, array, lengths, save)
    if ready.program is not None and save == "all":
        saved = _with_lazy_arrays(saved, ready, data, array, lengths, threads, start)
    settings = ready.settings | {"steps": steps}
    padding = 0 if lengths is None else int((steps - lengths).sum()) * first.obs_dim
    missing = int(np.isnan(array).sum()) - padding
    out = Filtered(
        saved, final, given, ready.pair.method, settings, array, missing, us, update_first, len(array), lengths
    )
    return out if intervals is None else out.calibrate(intervals)


def _last_step(state: PyTree) -> int:
    """Return the largest step of many states, 0 for the prior."""
    final = state.final if isinstance(state, States) else state
    return 0 if final is None else int(np.max(getattr(final, "t", 0)))  # not checked yet


def filter_chunks(
    model: Model,
    chunks: Iterable[Chunk],
    *,
    method: str | Filter | None = None,
    key: Key | None = None,
    update_first: bool = False,
    dtype: Dtype = "float64",
    save: Save = "means",
    backend: BackendOption = "auto",
) -> Iterator[Filtered]:
    """Filter a series chunk by chunk, if it is too long for memory or not complete yet.

    Args:
        model: as in `wolf.filter`; arrays with a time axis are indexed by the step of the whole series.
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
    pair = prepared.resolve(model, method, key)
    options = RunOptions(dtype, update_first, save, backend)
    validate.check_options(dtype, save, update_first)
    state, before, seen, ready = None, None, 0, None
    for chunk in _each_chunk(chunks):
        ys, inputs = chunk if isinstance(chunk, tuple) else (chunk, None)
        array = validation.measurements(ys, model.obs_dim)
        us = validation.inputs(inputs, len(array), model)
        seen += len(array)
        if ready is None or inputs is not None:
            ready = prepared.prepare(pair, options, us, key, seen, len(array))
        else:
            ready.check_steps(seen, len(array))
        out = _filter(ready, array, us, key, state, before)
        state, before = out.final, None if us is None else to_dtype(us[-1], dtype)
        yield out


def _each_chunk(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yield each chunk; raise a ValueError for anything but arrays or pairs of arrays."""
    # An array of any library may be iterable and have no dimension.
    if isinstance(chunks, str | bytes | Mapping) or not isinstance(chunks, Iterable) or getattr(chunks, "ndim", 1) == 0:
        raise ValueError(f"chunks must be a list or a generator of arrays; got {validation.short_repr(chunks)}")
    for chunk in chunks:
        if isinstance(chunk, tuple) and len(chunk) != 2:
            raise ValueError(f"chunks must be arrays, or pairs of measurements and inputs; got {len(chunk)} in a tuple")
        yield chunk


def _filter(
    ready: Prepared,
    ys: np.ndarray,
    us: np.ndarray | None,
    key: Key | None,
    state: PyTree = None,
    u_before: PyTree = None,
) -> Filtered:
    """Run one series whose arguments are validated."""
    options = ready.options
    data = (to_dtype(ys, options.dtype), None if us is None else to_dtype(us, options.dtype))
    final, saved = ready.run(*data, key, state, u_before)
    if isinstance(options.save, str):
        saved = mark_missing(saved, ys)
    settings, missing = ready.settings | {"steps": len(ys)}, int(np.isnan(ys).sum())
    model = ready.pair.models[0]
    return Filtered(saved, final, model, ready.pair.method, settings, ys, missing, us, options.update_first)


def _with_lazy_arrays(
    saved: dict[str, np.ndarray],
    ready: Prepared,
    data: tuple[PyTree, PyTree],
    ys: np.ndarray,
    lengths: np.ndarray | None,
    threads: int | None,
    start: dict[str, Any],
) -> LazyArrays:
    """Add the arrays that a run by native code computes only when one of them is read."""
    program = ready.program
    assert program is not None
    kept_ys = data[0] if data[0].dtype == ys.dtype else np.array(ys)  # a copy: the caller may write into the original
    whole = program.with_recorder("all")

    def rest() -> dict[str, np.ndarray]:
        return postprocess_many(native.run_many(whole(), *data, lengths, threads, **start)[1], kept_ys, lengths)

    return LazyArrays(saved, sorted({*saved, *program.code.facts.described}), rest)


def _trimmed(saved: PyTree, array: np.ndarray, lengths: np.ndarray | None, save: Save) -> PyTree:
    """Set saved values to NaN where the measurement is missing and after the end of each series."""
    if isinstance(save, str):
        return postprocess_many(saved, array, lengths)
    return saved if lengths is None else jax.tree.map(partial(blank_after, lengths=lengths), saved)
