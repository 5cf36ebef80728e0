"""The door: arrays in, results out. Checks come first, then one compiled call; your JAX settings stay as they are."""

import dataclasses
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, wraps
from typing import Any, NamedTuple, overload

import jax
import numpy as np
from numpy.typing import ArrayLike

from wolf import checks, entry, methods, native
from wolf.belief import Gaussian
from wolf.belief.density import deviations
from wolf.engine import hindsight, parallel, reweighing, saving
from wolf.engine.forecasting import run_forecast
from wolf.engine.measurements import is_wild
from wolf.engine.parallel import bound_programs, bounded, call, pad, pad_steps, run_forecasts, run_one, run_series
from wolf.engine.smoothing import run_sampler
from wolf.filters import ErrorState, GaussianFilter
from wolf.native import Engine
from wolf.numerics.precision import as_key, precision, to_dtype, to_numpy
from wolf.numerics.pytree import cast
from wolf.protocols import Dtype, Filter, Key, Save
from wolf.results import Filtered, Forecast, Smoothed, describe_method
from wolf.results.later import Later
from wolf.results.states import States, begin_at, expected
from wolf.results.tabular import index_ahead, index_of
from wolf.statespace import Model, with_matrices

_weigh_again = bounded(reweighing.weigh_again)
Models = Model | Sequence[Model]  # one for all series, or one for each


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
    engine: Engine = "auto",
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
        engine: "native" code for what is small, "xla" for everything else; "auto" chooses, and `out.engine` tells.

    Example:
        >>> import wolf
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> out = wolf.filter(model, [1.0, 2.0, 1e9, float("nan"), 1.5])
        >>> out.outliers.tolist()
        [False, False, True, False, False]
    """
    meant = methods.TABLE.get(method) if isinstance(method, str) else method
    how = (dtype, update_first, save, engine, isinstance(method, str))  # a name stands for it; itself it is no method
    ready = native.recent.find(model, meant, how) if inputs is None and key is None else None
    method = entry.resolve_method(method, model) if ready is None else ready.method
    suited = entry.suit(model, method, key) if ready is None else ready.suited
    array = checks.measurements(ys, model.obs_dim)
    us = checks.inputs(inputs, len(array), model)
    entry.check_options(dtype, save, update_first)
    if ready is None:
        entry.check_functions(model, us)
    entry.check_time_axes(model, len(array), update_first, "filter")
    entry.warn_if_large(suited, array.shape[0], save, dtype, method)
    entry.warn_if_fresh(model)
    if ready is None:
        ready = Decided(method, suited, *_plan(engine, (suited,), method, dtype, update_first, us, save, key))
        if inputs is None and key is None and ready.code is not None:
            native.recent.keep(model, meant, how, ready)
    out = _filter(model, ready, array, us, key, dtype, {"save": save, "update_first": update_first})
    index = index_of(ys)
    return out if index is None else dataclasses.replace(out, index=index)


class Decided(NamedTuple):
    """What was decided before a run.

    Attributes:
        method: the filter.
        suited: the model in the form that suits it.
        code: by which it runs natively; None for XLA.
        engine: which engine it is, and why.
    """

    method: Any
    suited: Any
    code: native.Prepared | None
    engine: str


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
    engine: Engine = "auto",
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
        engine: as in `wolf.filter`.

    Returns:
        A `Filtered` whose arrays have a leading series axis; `out[3]` is one series, at its own length.
    """
    models = tuple(model) if isinstance(model, list | tuple) else None
    first: Any = models[0] if models else model
    for each in models or ():
        entry.check_model(each)
    if threads is not None:
        checks.count("threads", threads)
    method = entry.resolve_method(method, first)
    suited = tuple(entry.suit(each, method, key) for each in models or (first,))
    array, lengths = checks.many_measurements(ys, first.obs_dim)
    steps = array.shape[1]
    us = checks.inputs(inputs, steps, first, series=len(array))
    if models is not None and len(models) != len(array):
        raise ValueError(
            f"give one model for all series or one for each: got {len(models)} models, {len(array)} series"
        )
    entry.check_options(dtype, save, update_first)
    for each in models or (first,):
        entry.check_functions(each, us)
        entry.check_time_axes(each, steps + _clock(state), update_first, "filter")
    entry.warn_if_large(suited[0], array.shape[0] * steps, save, dtype, method)
    entry.warn_if_fresh(first)
    data = (to_dtype(array, dtype), to_dtype(us, dtype))
    first_kept = saving.Lean() if save == "all" else save  # the rest of "all" is made when it is asked for
    ready, ran = _plan(engine, suited, method, dtype, update_first, us, first_kept, key)
    begin: dict[str, Any] = {}
    if state is not None:
        built = expected(suited[0], method, dtype) if ready is None else ready.code.facts.state[:2]
        like = States(None, first if models is None else models, method, dtype, update_first)
        begin = begin_at(state, like, built, *data)
        data = (data[0], begin.pop("inputs"))
    if ready is not None:
        final, saved = native.run_many(ready, *data, lengths, threads, **begin)
    else:
        stacked = suited[0] if models is None else entry.stack_models(suited)
        options = {"save": save, "update_first": update_first, "per_series_model": models is not None}
        bound_programs()
        whole = (cast(stacked, dtype), cast(method, dtype), *data)
        final, saved = run_series(*whole, key, lengths, dtype, threads, options, **begin)
    if isinstance(save, str):
        saved = _shown(saved, array, lengths)
    elif lengths is not None:
        saved = jax.tree.map(partial(_blank_after, lengths=lengths), saved)
    if ready is not None and save == "all":
        came = data[0] if dtype == "float64" else np.array(array)  # as it was, whatever becomes of the caller's array
        whole = ready.keeping("all")
        saved = Later(
            saved,
            sorted({*saved, *ready.code.facts.described}),
            lambda: _shown(native.run_many(whole(), *data, lengths, threads, **begin)[1], came, lengths),
        )
    settings = _settings(method, steps, dtype, save, update_first, ran)
    padding = 0 if lengths is None else int((steps - lengths).sum()) * first.obs_dim
    missing = int(np.isnan(array).sum()) - padding
    given = first if models is None else models
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
    engine: Engine = "auto",
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
        engine: as in `wolf.filter`.

    Yields:
        One `Filtered` for each chunk, bit for bit what `wolf.filter` gives for the whole.

    Example:
        >>> import wolf
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> [len(part) for part in wolf.filter_chunks(model, ([1.0, 2.0], [3.0]))]
        [2, 1]
    """
    method = entry.resolve_method(method, model)
    suited = entry.suit(model, method, key)
    entry.check_options(dtype, save, update_first)
    state, before, seen, ready = None, None, 0, None
    for chunk in _each_chunk(chunks):
        ys, inputs = chunk if isinstance(chunk, tuple) else (chunk, None)
        array = checks.measurements(ys, model.obs_dim)
        us = checks.inputs(inputs, len(array), model)
        entry.check_functions(model, us)
        seen += len(array)
        entry.check_time_axes(model, seen, update_first, "filter")
        if ready is None or inputs is not None:
            ready = Decided(method, suited, *_plan(engine, (suited,), method, dtype, update_first, us, save, key))
        options = {"state": state, "u_before": before, "save": save, "update_first": update_first}
        out = _filter(model, ready, array, us, key, dtype, options)
        state, before = out.final, None if us is None else to_dtype(us[-1], dtype)
        yield out


def _each_chunk(chunks: Any) -> Iterator[Any]:
    """Go through chunks, and refuse what is none."""
    if isinstance(chunks, str | bytes | Mapping) or not isinstance(chunks, Iterable) or getattr(chunks, "ndim", 1) == 0:
        raise ValueError(f"chunks must be a list or a generator of arrays; got {checks.told(chunks)}")
    for chunk in chunks:
        if isinstance(chunk, tuple) and len(chunk) != 2:
            raise ValueError(f"chunks must be arrays, or pairs of measurements and inputs; got {len(chunk)} in a tuple")
        yield chunk


def _model_optional(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Let `verb(model, out, ...)` be called as `verb(out, ...)`, with the model that was filtered."""

    @wraps(verb)
    def call(*args: Any, **options: Any) -> Any:
        out = args[0] if args else options.get("out")
        if isinstance(out, Filtered) and "model" not in options:
            return verb(out.model, *args, **options)
        return verb(*args, **options)

    return call


@overload
def smooth(out: Filtered, /, *, reweigh: bool = False) -> Smoothed: ...
@overload
def smooth(model: Models, out: Filtered, *, reweigh: bool = False) -> Smoothed: ...
@_model_optional
def smooth(model: Models, out: Filtered, *, reweigh: bool = False) -> Smoothed:
    """Smooth a filtered series: what the whole series says about each moment.

    Exact given the weights for linear models, the usual approximation otherwise.

    Args:
        model: may be left out: the one that was filtered, or the list of them.
        out: from `wolf.filter` or `wolf.filter_many`, run with `save="all"` and not sliced.
        reweigh: judge each measurement once more, by what came before *and after* it, and filter and smooth again
            with these weights: what looked like an outlier may have been a turn. One series.

    Example:
        >>> import wolf
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> wolf.smooth(wolf.filter(model, [1.0, 2.0, 3.0])).means.shape
        (3, 1)
    """
    checks.flag("reweigh", reweigh)
    _check_smoothable("smooth", model, out)
    out = in_hindsight(model, out)
    mean, cov = _walk_back_native(model, out) or _walk_back(model, out)
    first = Smoothed(mean, cov, out)
    return _smooth_again(model, first) if reweigh else first


def _walk_back_native(model: Any, out: Filtered) -> tuple[np.ndarray, np.ndarray] | None:
    """Smooth by native code; None where that is for XLA."""
    one, dtype = out.num_series is None, out.settings["dtype"]
    start = np.asarray(out.final.t - (out.settings["steps"] if out.lengths is None else out.lengths))
    if out.engine == "xla: asked for" or start.min() < start.max() or out.settings["steps"] < 2:
        return None
    models = tuple(map(with_matrices, model if isinstance(model, list | tuple) else (model,)))
    scales = out.saved.get("dynamics_scales")
    back = native.Back(scales is not None, out.lengths is not None)
    inputs = None if out.inputs is None else out.inputs.shape[-1]
    ready = native.plan_back(models, out.method.moments, dtype, inputs, back)
    if ready is None:
        return None
    beliefs = Gaussian(out.means, out.covs), Gaussian(out.predicted_means, out.predicted_covs)
    (filtered, predicted), scales = jax.tree.map(lambda a: to_dtype(a[None] if one else a, dtype), (beliefs, scales))
    how: Any = {"lengths": out.lengths, "start": int(start.min()), "update_first": out.update_first}
    smoothed = native.walk_back(ready, filtered, predicted, to_dtype(out.inputs, dtype), scales=scales, **how)
    if not np.isfinite(smoothed.cov[:, 0]).all():  # a direction without spread, which takes eigenvectors
        return None
    return (smoothed.mean[0], smoothed.cov[0]) if one else tuple(smoothed)


def _walk_back(model: Any, out: Filtered) -> tuple[np.ndarray, np.ndarray]:
    """Smooth by XLA."""
    dtype = out.settings["dtype"]
    each, whole = _together(model)
    beliefs = Gaussian(out.means, out.covs), Gaussian(out.predicted_means, out.predicted_covs)
    start = out.final.t - (out.settings["steps"] if out.lengths is None else out.lengths)  # above 0 for a chunk
    how: Any = {"many": out.num_series is not None, "per_series_model": each, "update_first": out.update_first}
    # The walk goes backward, so steps before the first change nothing, and let one program serve several lengths.
    axis, steps = 0 if out.num_series is None else 1, out.settings["steps"]
    extra = pad_steps(steps) - steps
    beliefs, lengths = pad(beliefs, axis, extra), None if out.lengths is None else out.lengths + extra
    us = None if out.inputs is None else pad(out.inputs, out.inputs.ndim - 2, extra)
    scales = pad(out.saved.get("dynamics_scales"), axis, extra)
    bound_programs()
    with precision(dtype):
        engine = (cast(whole, dtype), cast(out.method.moments, dtype), *cast(beliefs, dtype), to_dtype(us, dtype))
        smoothed = parallel.smooth(*engine, lengths, start - extra, cast(scales, dtype), **how)
    return tuple(array[extra:] if axis == 0 else array[:, extra:] for array in (smoothed.mean, smoothed.cov))


def in_hindsight(model: Any, out: Filtered) -> Filtered:
    """Filter once more with each jump where its vote began, if refused measurements ever won one."""
    if not hindsight.can_look_back(out.method) or not np.any(out.inflations > 1.0):
        return out
    if out.num_series is None:
        return _with_jumps(model, out) if int(out.final.t) == out.settings["steps"] else out
    saved = {name: np.array(values) for name, values in out.saved.items()}
    whole = np.asarray(out.final.t) == (out.settings["steps"] if out.lengths is None else out.lengths)
    for i in np.flatnonzero((out.inflations > 1.0).any(1) & whole):
        one = out[i]
        again = _with_jumps(one.model, one)
        for name, values in saved.items():
            values[i, : len(one)] = again.saved[name]
    return dataclasses.replace(out, saved=saved)


def _with_jumps(model: Model, out: Filtered) -> Filtered:
    options: Any = {"inputs": out.inputs, "update_first": out.update_first, "dtype": out.settings["dtype"]}

    def told(jumps: list[int], save: Any = "all", barred: Any = ()) -> Filtered:
        method = hindsight.with_jumps(out.method, jumps, pad_steps(len(out)), barred=barred)
        return filter(model, out.ys, method=method, save=save, **options)

    seen = filter(model, out.ys, method=out.method, save=hindsight.save_votes, **options).saved
    starts = hindsight.possible_starts(seen["votes"], seen["inflations"], ~np.isnan(out.ys).all(1))
    jumps = hindsight.best_starts(starts, lambda jumps: float(told(jumps, "final").log_likelihood))
    jumps, barred = hindsight.without_bursts(jumps, lambda *given: told(given[0], "all", given[1]).outliers)
    return dataclasses.replace(told(jumps, "all", barred), method=out.method, settings=out.settings, index=out.index)


def _smooth_again(model: Any, first: Smoothed) -> Smoothed:
    """Weigh by what all other measurements say, then filter and smooth once more."""
    out, method = first.filtered, first.filtered.method
    if out.num_series is not None or int(out.final.t) != out.settings["steps"]:
        raise ValueError("smooth(reweigh=True) takes one whole series; pick one of many, as out[0]")
    if not isinstance(method, GaussianFilter) or method.noise.doubts_dynamics:
        raise ValueError(f"smooth(reweigh=True) needs a method with weights; {describe_method(method)} has none")
    dtype = out.settings["dtype"]
    beliefs = (
        Gaussian(out.predicted_means, out.predicted_covs),
        Gaussian(out.means, out.covs),
        Gaussian(first.means, first.covs),
    )
    inflations = out.saved.get("inflations", np.ones(len(out.ys)))
    longer = partial(pad, axis=0, after=pad_steps(len(out.ys)) - len(out.ys))  # each row is weighed by itself
    with precision(dtype):
        engine = cast((with_matrices(model), method.moments, method.noise, out.final.memory), dtype)
        sizes = cast(out.saved.get("noise_scales"), dtype)
        given = longer((to_dtype(out.ys, dtype), cast(beliefs, dtype), to_dtype(out.inputs, dtype), sizes))
        roots = to_numpy(_weigh_again(*engine, *given))
    scales = out.saved.get("dynamics_scales", np.ones(len(out.ys)))
    told = dataclasses.replace(method, noise=reweighing.Given(roots, longer(inflations), longer(scales)))
    options = {"inputs": out.inputs, "update_first": out.update_first, "dtype": dtype}
    again = dataclasses.replace(filter(model, out.ys, method=told, **options), index=out.index)
    second = smooth(model, again)
    return Smoothed(second.means, second.covs, again, again.weights)


@overload
def sample_paths(out: Filtered, /, num: int, key: Key) -> np.ndarray: ...
@overload
def sample_paths(model: Model, out: Filtered, num: int, key: Key) -> np.ndarray: ...
@_model_optional
def sample_paths(model: Model, out: Filtered, num: int, key: Key) -> np.ndarray:
    """Draw whole paths of the state from the posterior, for questions that means and covariances cannot answer.

    Args:
        model: may be left out: the one that was filtered.
        out: one series from `wolf.filter`, run with `save="all"`.
        num: number of paths.
        key: seed or JAX key.

    Returns:
        Paths, (num, T, D).

    Example:
        >>> import wolf
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> wolf.sample_paths(wolf.filter(model, [1.0, 2.0, 3.0]), num=5, key=0).shape
        (5, 3, 1)
    """
    _check_smoothable("sample_paths", model, out)
    checks.count("num", num)
    checks.key(key, needed=True)
    if out.num_series is not None:
        raise ValueError("sample_paths takes one series; pick one of many, as out[0]")
    dtype, start = out.settings["dtype"], out.final.t - out.settings["steps"]
    entry.refuse_if_large("num", num, 2 * out.means.size, dtype)  # paths, and the numbers that they are drawn from
    beliefs = Gaussian(out.means, out.covs), Gaussian(out.predicted_means, out.predicted_covs)
    with precision(dtype):
        engine = (cast(with_matrices(model), dtype), cast(out.method.moments, dtype), *cast(beliefs, dtype))
        return to_numpy(
            run_sampler(
                *engine,
                as_key(key),
                to_dtype(out.inputs, dtype),
                start,
                cast(out.saved.get("dynamics_scales"), dtype),
                num=int(num),
                update_first=out.update_first,
            )
        )


@overload
def forecast(out: Filtered, /, steps: int, *, level: float = 0.95, inputs: ArrayLike | None = None) -> Forecast: ...
@overload
def forecast(
    model: Models, out: Filtered, steps: int, *, level: float = 0.95, inputs: ArrayLike | None = None
) -> Forecast: ...
@_model_optional
def forecast(
    model: Models, out: Filtered, steps: int, *, level: float = 0.95, inputs: ArrayLike | None = None
) -> Forecast:
    """Look ahead from the end of a filtered series.

    Args:
        model: may be left out: the one that was filtered, or the list of them. Arrays with a time axis must reach
            `steps` further.
        out: from `wolf.filter` or `wolf.filter_many`.
        steps: how many.
        level: probability of the intervals.
        inputs: (steps, U), those of the future, for models that take them.

    Example:
        >>> import wolf
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> wolf.forecast(wolf.filter(model, [1.0, 2.0, 3.0]), steps=20)
        Forecast: 20 steps, 95% intervals in .lower and .upper
    """
    checks.count("steps", steps)
    checks.level(level)
    _check_result("forecast", model, out)
    if "slice" in out.settings:
        raise ValueError("a slice does not end where its final state does; forecast from the whole result")
    each, whole = _together(model)
    models: Any = model if each else [model]
    dtype, (d, m) = out.settings["dtype"], (models[0].state_dim, models[0].obs_dim)
    entry.refuse_if_large("steps", steps, (out.num_series or 1) * (d * (d + 1) + m * (m + 3)), dtype)
    us = checks.inputs(inputs, steps, models[0], series=out.num_series)
    for one in models:
        entry.check_time_axes(one, int(np.max(out.final.t)) + steps, out.update_first, "forecast")
    last = None if out.inputs is None else out.inputs[..., -1, :]
    padded = pad_steps(int(steps))  # one program serves several lengths
    us = None if us is None else pad(us, us.ndim - 2, after=padded - int(steps))
    forecaster: Callable = run_forecast
    if out.num_series is not None:
        axes = (0 if us is not None and us.ndim == 3 else None, 0 if last is not None and last.ndim == 2 else None)
        forecaster = partial(call, run_forecasts, axes=(0 if each else None, None, 0, *axes))
    bound_programs()
    with precision(dtype):
        engine = (cast(whole, dtype), cast(out.method, dtype), out.final)
        data, ahead = (to_dtype(us, dtype), to_dtype(last, dtype)), {"steps": padded, "update_first": out.update_first}
        states, measured = to_numpy(forecaster(*engine, *data, **ahead))
    kept = (slice(int(steps)),) if out.num_series is None else (slice(None), slice(int(steps)))
    states, measured = jax.tree.map(lambda array: array[kept], (states, measured))
    half = deviations(level) * np.sqrt(np.diagonal(measured.cov, axis1=-2, axis2=-1))
    lower, upper = measured.mean - half, measured.mean + half
    index = index_ahead(out.index, int(steps))
    return Forecast(states.mean, states.cov, measured.mean, measured.cov, lower, upper, level, index)


def _filter(
    model: Model, ready: Decided, ys: np.ndarray, us: np.ndarray | None, key: Any, dtype: str, options: dict[str, Any]
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
        saved = _mark_missing(saved, ys)
    settings = _settings(method, len(ys), dtype, save, update_first, ran)
    return Filtered(saved, final, model, method, settings, ys, int(np.isnan(ys).sum()), us, update_first)


def _plan(
    engine: str,
    models: tuple[Any, ...],
    method: Any,
    dtype: str,
    update_first: bool,
    us: np.ndarray | None,
    save: Any,
    key: Any,
) -> tuple[Any, str]:
    """Choose the engine, and get it ready."""
    checks.choice("engine", engine, native.ENGINES)
    inputs = None if us is None else us.shape[-1]
    return native.plan(engine, models, method, dtype, update_first, inputs, save, key)


def _together(model: Any) -> tuple[bool, Any]:
    """Say whether each series has a model of its own, and write out what all of them run on."""
    if isinstance(model, list | tuple):
        return True, entry.stack_models(tuple(map(with_matrices, model)))
    return False, with_matrices(model)


def _check_result(verb: str, model: Any, out: Any) -> None:
    if not isinstance(out, Filtered):
        raise ValueError(f"{verb} takes what wolf.filter returned; got {type(out).__name__}")
    if isinstance(out.method, ErrorState):
        raise ValueError(f"{verb} adds states, and those of this model cannot be added to: they can only be filtered")
    if out.method.moments is None:
        raise ValueError(f"{verb} needs a Gaussian filter, such as method='WoLF'; this ran {type(out.method).__name__}")
    models = model if isinstance(model, list | tuple) and model else [model]
    for each in models:
        entry.check_model(each)
    sizes = {(each.state_dim, each.obs_dim) for each in models}
    first = out.model[0] if isinstance(out.model, tuple) else out.model
    if sizes != {(first.state_dim, first.obs_dim)}:
        raise ValueError(f"model must be the one that was filtered, {first!r}; got {models[0]!r}")


def _check_smoothable(verb: str, model: Any, out: Any) -> None:
    _check_result(verb, model, out)
    if out.settings["save"] != "all":
        raise ValueError(f'smoothing needs covariances: filter with save="all", not save={out.settings["save"]!r}')
    if "slice" in out.settings:
        raise ValueError("a slice lacks what came after it; smooth the whole result, then slice its means")


def _shown(saved: dict[str, np.ndarray], ys: np.ndarray, lengths: np.ndarray | None) -> dict[str, np.ndarray]:
    """Mark what was not there in what was kept of many series, and blank what lies beyond their ends."""
    saved = _mark_missing(saved, ys)
    return saved if lengths is None else {name: _blank_after(each, lengths) for name, each in saved.items()}


def _mark_missing(saved: dict[str, np.ndarray], ys: np.ndarray) -> dict[str, np.ndarray]:
    """Show what was not there: residuals and NIS of missing values are NaN, of wild ones as wild as they came."""
    if "residuals" not in saved:
        return saved
    wild = is_wild(ys, saved["residuals"].dtype)
    residuals = np.where(wild, ys, np.where(np.isnan(ys), np.nan, saved["residuals"]))
    if "nis" not in saved:
        return saved | {"residuals": residuals}
    nis = np.where(np.isnan(ys).all(-1), np.nan, np.where(wild.any(-1), np.inf, saved["nis"]))
    return saved | {"residuals": residuals, "nis": nis}


def _blank_after(values: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Blank what lies beyond the end of each series: NaN, or False."""
    inside = np.arange(values.shape[1]) < lengths[:, None]
    inside = inside.reshape(inside.shape + (1,) * (values.ndim - 2))
    return np.where(inside, values, False if values.dtype == bool else np.nan)


def _settings(method: Any, steps: int, dtype: str, save: Any, update_first: bool, engine: str) -> dict[str, Any]:
    return {
        "method": repr(method),
        "steps": steps,
        "dtype": dtype,
        "save": save if isinstance(save, str) else getattr(save, "__name__", repr(save)),
        "update_first": update_first,
        "engine": engine,
        "wolf": entry.package_version(),
        "jax": jax.__version__,
        "python": platform.python_version(),
    }
