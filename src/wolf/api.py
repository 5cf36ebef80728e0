"""The door: arrays in, results out. Checks come first, then one compiled call; your JAX settings stay as they are."""

import os
import platform
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import jax
import numpy as np

from wolf import checks, methods, run
from wolf.forecasting import run_forecast, run_forecast_many
from wolf.model import LinearModel, Model, StateSpaceModel, num_arguments, time_axes
from wolf.moments import Linear
from wolf.pytree import cast, plain_functions
from wolf.results import Filtered, Forecast, Smoothed
from wolf.smoothing import run_smoother
from wolf.types import Gaussian

LARGE_OUTPUT = 4e9  # bytes; above this a word of warning comes before the run
SERIES_PER_THREAD = 64  # fewer are not worth a thread
FRESH_FUNCTIONS = 5  # so many copies of one function mean that it is defined inside a loop

_seen_functions: dict[Any, set[int]] = {}


def filter(
    model: Model,
    ys: Any,
    *,
    method: Any = None,
    inputs: Any = None,
    key: Any = None,
    update_first: bool = False,
    dtype: str = "float64",
    save: Any = "all",
) -> Filtered:
    """Filter one series.

    Args:
        model: from `wolf.models`, or a `wolf.LinearModel` or `wolf.StateSpaceModel`.
        ys: measurements, (T, M), or (T,) if one thing is measured. NaN and masked entries are missing.
        method: a name from `wolf.methods.names()` or a value such as `wolf.WoLF(wolf.IMQ(c=4.0))`. The default is
            robust and needs no tuning.
        inputs: (T, U), for models that take them.
        key: seed or JAX key, for methods that draw random numbers.
        update_first: take the prior as the prediction of the first measurement, as pykalman, dynamax and statsmodels
            do, instead of as the state one step before it.
        dtype: "float64" or "float32".
        save: "all", "means", "final", or a function of (state, info) that returns what to keep of each step.

    Example:
        >>> import wolf
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> out = wolf.filter(model, [1.0, 2.0, 1e9, float("nan"), 1.5])
        >>> out.outliers.tolist()
        [False, False, True, False, False]
    """
    method = resolve_method(method, model)
    array = checks.measurements(ys, model.obs_dim)
    us = checks.inputs(inputs, len(array), takes_inputs(model))
    check_options(model, dtype, save)
    _check_time_axes(model, len(array), update_first, "filter")
    _warn_if_large(model, array.shape[0], save, dtype)
    _warn_if_fresh(model)
    with precision(dtype):
        engine = (cast(model, dtype), cast(method, dtype), _cast(array, dtype), _cast(us, dtype), as_key(key))
        final, saved = _run_fused(*engine, save=save, update_first=update_first)
        final, saved = _numpy(final), _numpy(saved)
    if isinstance(save, str):
        saved = _mark_missing(saved, array)
    settings = _settings(method, array.shape[0], dtype, save, update_first)
    missing = int(np.isnan(array).sum())
    return Filtered(saved, final, model, method, settings, missing, us, update_first)


def filter_many(
    model: Model | list[Model] | tuple[Model, ...],
    ys: Any,
    *,
    method: Any = None,
    inputs: Any = None,
    key: Any = None,
    update_first: bool = False,
    dtype: str = "float64",
    save: Any = "all",
    threads: int | None = None,
) -> Filtered:
    """Filter many series of one length in one compiled call, on all cores.

    Args:
        model: one for all series, or a list with one for each, of equal shapes.
        ys: (series, T, M), or (series, T) if one thing is measured.
        method: as in `wolf.filter`.
        inputs: (T, U) for all series, or (series, T, U).
        key: as in `wolf.filter`.
        update_first: as in `wolf.filter`.
        dtype: as in `wolf.filter`.
        save: as in `wolf.filter`.
        threads: number of threads; one for each core unless told.

    Returns:
        A `Filtered` whose arrays have a leading series axis; `out[3]` is one series.
    """
    models = tuple(model) if isinstance(model, list | tuple) else None
    first = models[0] if models else model
    method = resolve_method(method, first)
    array = checks.measurements(ys, first.obs_dim, dims=3)
    steps = array.shape[1]
    us = checks.inputs(inputs, steps, takes_inputs(first), dims=3)
    if models is not None and len(models) != len(array):
        raise ValueError(
            f"give one model for all series or one for each: got {len(models)} models, {len(array)} series"
        )
    for each in models or (first,):
        check_options(each, dtype, save)
        _check_time_axes(each, steps, update_first, "filter")
    _warn_if_large(first, array.shape[0] * steps, save, dtype)
    _warn_if_fresh(first)
    stacked = first if models is None else _stack(models)
    engine = (cast(stacked, dtype), cast(method, dtype), _cast(array, dtype), _cast(us, dtype))
    options = {"save": save, "update_first": update_first, "per_series_model": models is not None}
    final, saved = _run_threaded(*engine, key, dtype, threads, options)
    if isinstance(save, str):
        saved = _mark_missing(saved, array)
    settings = _settings(method, steps, dtype, save, update_first)
    missing = int(np.isnan(array).sum())
    return Filtered(
        saved, final, first if models is None else models, method, settings, missing, us, update_first, len(array)
    )


def smooth(model: Model, out: Filtered) -> Smoothed:
    """Smooth a filtered series: what the whole series says about each moment.

    Exact given the weights for linear models, the usual approximation otherwise.

    Args:
        model: the one that was filtered.
        out: from `wolf.filter` or `wolf.filter_many`, run with `save="all"` and not sliced.

    Example:
        >>> import wolf
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> wolf.smooth(model, wolf.filter(model, [1.0, 2.0, 3.0])).means.shape
        (3, 1)
    """
    _check_smoothable(out)
    dtype = out.settings["dtype"]
    each = isinstance(model, list | tuple)
    beliefs = Gaussian(out.means, out.covs), Gaussian(out.predicted_means, out.predicted_covs)
    smoother = partial(run_smoother, update_first=out.update_first)
    if out.num_series is not None:
        inputs_axis = 0 if out.inputs is not None and out.inputs.ndim == 3 else None
        smoother = jax.vmap(smoother, in_axes=(0 if each else None, None, 0, 0, inputs_axis))
    with precision(dtype):
        engine = (cast(_stack(tuple(model)) if each else model, dtype), cast(out.method.moments, dtype))
        smoothed = _numpy(smoother(*engine, *cast(beliefs, dtype), _cast(out.inputs, dtype)))
    return Smoothed(smoothed.mean, smoothed.cov, out)


def forecast(model: Model, out: Filtered, steps: int, *, level: float = 0.95, inputs: Any = None) -> Forecast:
    """Look ahead from the end of a filtered series.

    Args:
        model: the one that was filtered; arrays with a time axis must reach `steps` further.
        out: from `wolf.filter` or `wolf.filter_many`.
        steps: how many.
        level: probability of the intervals.
        inputs: (steps, U), those of the future, for models that take them.

    Example:
        >>> import wolf
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> wolf.forecast(model, wolf.filter(model, [1.0, 2.0, 3.0]), steps=20)
        Forecast: 20 steps, 95% intervals in .lower and .upper
    """
    if not isinstance(steps, int | np.integer) or steps < 1:
        raise ValueError(f"steps must be a whole number of at least 1; got {steps!r}")
    if not 0 < level < 1:
        raise ValueError(f"level must be a probability between 0 and 1; got {level!r}")
    if "slice" in out.settings:
        raise ValueError("a slice does not end where its final state does; forecast from the whole result")
    us = checks.inputs(inputs, steps, takes_inputs(model), dims=2 if out.num_series is None else 3)
    _check_time_axes(model, out.settings["steps"] + steps, out.update_first, "forecast")
    dtype = out.settings["dtype"]
    run_it = run_forecast if out.num_series is None else run_forecast_many
    with precision(dtype):
        arguments = (cast(model, dtype), cast(out.method, dtype), out.final, _cast(us, dtype))
        states, measured = _numpy(run_it(*arguments, steps=int(steps), update_first=out.update_first))
    from scipy.special import ndtri

    half = ndtri(0.5 + 0.5 * level) * np.sqrt(np.diagonal(measured.cov, axis1=-2, axis2=-1))
    return Forecast(*states, *measured, measured.mean - half, measured.mean + half, level)


def _run_fused(*engine: Any, save: Any, update_first: bool) -> tuple[Any, Any]:
    """Run in one kernel; if the compiler has no place in it for something the model does, run as usual."""
    try:
        return run.run_filter(*engine, save=save, update_first=update_first, fused=True)
    except jax.errors.JaxRuntimeError as error:
        if not any(word in str(error) for word in ("UNIMPLEMENTED", "materialize symbols")):
            raise
        return run.run_filter(*engine, save=save, update_first=update_first)


def _run_threaded(
    model: Any, method: Any, ys: np.ndarray, us: Any, key: Any, dtype: str, threads: int | None, options: dict
) -> tuple[Any, Any]:
    """Share the series out over threads, equally, so that one compilation serves all."""
    per_series = options["per_series_model"]
    wanted = (os.cpu_count() or 1) if threads is None else threads
    parts = max(1, min(wanted, len(ys) // SERIES_PER_THREAD)) if jax.default_backend() == "cpu" else 1
    size = -(-len(ys) // parts)
    blank = parts * size - len(ys)
    padded = np.concatenate([ys, np.full((blank, *ys.shape[1:]), np.nan, ys.dtype)]) if blank else ys
    rows = [np.minimum(np.arange(i * size, (i + 1) * size), len(ys) - 1) for i in range(parts)]

    def part(i: int) -> tuple[Any, Any]:
        with precision(dtype):
            some = jax.tree.map(lambda leaf: leaf[rows[i]], model) if per_series else model
            inputs = us[rows[i]] if us is not None and us.ndim == 3 else us
            seed = None if key is None else jax.random.fold_in(as_key(key), i)
            return _numpy(run.run_many(some, method, padded[i * size : (i + 1) * size], inputs, seed, **options))

    if parts == 1:
        results = [part(0)]
    else:
        with ThreadPoolExecutor(parts) as pool:
            results = list(pool.map(part, range(parts)))
    joined = jax.tree.map(lambda *xs: xs[0] if xs[0].ndim == 0 else _join_series(xs, len(ys)), *results)
    final, saved = joined
    if final.t.ndim == 0:  # one clock for all while they ran together
        final = final._replace(t=np.full(len(ys), final.t))
    return final, saved


def _join_series(parts: tuple[np.ndarray, ...], count: int) -> np.ndarray:
    """Put the series axis first: a view, not a copy, when one thread did it all."""
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)
    return np.moveaxis(whole, -1, 0)[:count]


def resolve_method(method: Any, model: Model) -> Any:
    """Find the method that a person means, and check that it suits the model."""
    if not isinstance(model, LinearModel | StateSpaceModel):
        raise ValueError(f"model must be a wolf.LinearModel or wolf.StateSpaceModel; got {type(model).__name__}")
    if method is None:
        method = methods.WoLF()
    elif isinstance(method, str):
        method = methods.make(method)
    if isinstance(method, type) or not all(hasattr(method, name) for name in ("init", "predict", "update")):
        raise ValueError(f"method must be a name or a value such as wolf.WoLF(wolf.IMQ(c=4.0)); got {method!r}")
    if isinstance(getattr(method, "moments", None), Linear) and not model.linear:
        raise ValueError('KF needs a linear model; for functions use method="EKF", or leave it out for the robust one')
    return method


def check_options(model: Model, dtype: str, save: Any) -> None:
    """Check what does not depend on the data."""
    if dtype not in ("float64", "float32"):
        raise ValueError(f'dtype must be "float64" or "float32"; got {dtype!r}')
    if not callable(save) and save not in run.SAVERS:
        raise ValueError(f"save must be one of {', '.join(map(repr, run.SAVERS))} or a function; got {save!r}")
    _check_functions(model)


def _check_time_axes(model: Model, steps: int, update_first: bool, verb: str) -> None:
    for name, length in time_axes(model).items():
        needed = steps - 1 if update_first and name in ("F", "Q", "B", "dynamics_cov") else steps
        if length < needed:
            raise ValueError(f"{name} has {length} time steps, and to {verb} up to step {steps} needs {needed}")


def _check_functions(model: Model) -> None:
    """Evaluate shapes once, outside of any trace of ours, so that a mistake shows as what it is."""
    if model.linear or takes_inputs(model):
        return
    x = jax.ShapeDtypeStruct((model.state_dim,), np.float32)
    pairs = [("observe", model.projection(None), model.obs_dim), ("dynamics", model.transition(None), model.state_dim)]
    for name, fn, size in pairs:
        shape = jax.eval_shape(fn, x).shape
        if shape != (size,):
            raise ValueError(f"{name} must return an array of shape ({size},), to match its covariance; got {shape}")


def takes_inputs(model: Model) -> bool:
    """Say whether a model has inputs."""
    if model.linear:
        return model.B is not None
    return any(fn is not None and num_arguments(fn) > 1 for fn in (model.dynamics, model.observe))


def _check_smoothable(out: Filtered) -> None:
    if not isinstance(out, Filtered):
        raise ValueError(f"smooth takes what wolf.filter returned; got {type(out).__name__}")
    if out.settings["save"] != "all":
        raise ValueError(f'smoothing needs covariances: filter with save="all", not save={out.settings["save"]!r}')
    if "slice" in out.settings:
        raise ValueError("a slice lacks what came after it; smooth the whole result, then slice its means")


def _stack(models: tuple[Model, ...]) -> Any:
    try:
        return jax.tree.map(lambda *leaves: np.stack(leaves), *models)
    except ValueError as error:
        raise ValueError("the models must have equal shapes and share their functions, to be run together") from error


def _mark_missing(saved: dict[str, np.ndarray], ys: np.ndarray) -> dict[str, np.ndarray]:
    """Show what was not there: residuals and NIS of missing values are NaN, of wild ones as wild as they came."""
    if "residuals" not in saved:
        return saved
    wild = np.abs(ys) > np.finfo(saved["residuals"].dtype).max ** 0.5
    residuals = np.where(wild, ys, np.where(np.isnan(ys), np.nan, saved["residuals"]))
    nis = np.where(np.isnan(ys).all(-1), np.nan, np.where(wild.any(-1), np.inf, saved["nis"]))
    return saved | {"residuals": residuals, "nis": nis}


def _warn_if_large(model: Model, rows: int, save: Any, dtype: str) -> None:
    if save != "all":
        return
    d, m = model.state_dim, model.obs_dim
    size = rows * (2 * d * d + 2 * d + m * m + 2 * m + 4) * np.dtype(dtype).itemsize
    if size > LARGE_OUTPUT:
        words = f'the results will take about {size / 1e9:.0f} GB; save="means" keeps {rows * (d + 3) * 8 / 1e9:.1f} GB'
        warnings.warn(words, stacklevel=3)


def _warn_if_fresh(model: Model) -> None:
    for fn in plain_functions(model):
        code = getattr(fn, "__code__", None)
        seen = _seen_functions.setdefault(code, set())
        seen.add(id(fn))
        if code is not None and len(seen) == FRESH_FUNCTIONS:
            words = (
                f"{getattr(fn, '__name__', 'a function')} was given as {FRESH_FUNCTIONS} different objects, and each is "
                "compiled anew. Define it once, outside the loop; pass changing values by jax.tree_util.Partial(f, value)"
            )
            warnings.warn(words, stacklevel=3)


def _settings(method: Any, steps: int, dtype: str, save: Any, update_first: bool) -> dict[str, Any]:
    return {
        "method": repr(method),
        "steps": steps,
        "dtype": dtype,
        "save": save if isinstance(save, str) else getattr(save, "__name__", repr(save)),
        "update_first": update_first,
        "wolf": package_version(),
        "jax": jax.__version__,
        "python": platform.python_version(),
    }


def package_version() -> str:
    """Read the installed version."""
    try:
        return version("wolf-filter")
    except PackageNotFoundError:
        return "not installed"


def precision(dtype: str) -> Any:
    """Compute in float64 inside this context, on this thread only, without touching the user's settings."""
    return jax.enable_x64(True) if dtype == "float64" else nullcontext()


def _cast(array: np.ndarray | None, dtype: str) -> np.ndarray | None:
    with np.errstate(over="ignore"):  # too large for float32 is infinite, and treated as such
        return None if array is None else array.astype(dtype)


def as_key(key: Any) -> Any:
    """Turn a seed into a JAX key."""
    return jax.random.key(key) if isinstance(key, int | np.integer) else key


def _numpy(tree: Any) -> Any:
    return jax.tree.map(np.asarray, tree)
