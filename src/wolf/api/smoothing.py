"""Looking back: smoothed beliefs, jumps where they began, paths that may have been."""

import dataclasses
from functools import partial
from typing import Any, overload

import jax
import numpy as np

from wolf import native, validation
from wolf.api.filtering import filter
from wolf.api.result_arguments import Models, check_smoothable, model_optional, together
from wolf.beliefs import Gaussian
from wolf.engine import jump_backdating, loo_reweighting
from wolf.engine.smoother import run_sampler
from wolf.execution import backend_selection, validate, xla_batching
from wolf.execution.xla_batching import bound_programs, bounded, pad, pad_steps, stretch
from wolf.inference.filters import GaussianFilter
from wolf.interfaces import Key
from wolf.numerics.linalg import SMALL
from wolf.numerics.precision import as_key, precision, to_dtype, to_numpy
from wolf.numerics.pytree import cast
from wolf.results import Filtered, Smoothed, describe_method
from wolf.statespace import Model, with_matrices

ASKED_FOR = "xla: asked for"  # what a result says of its engine where somebody wanted it so

_weigh_again = bounded(loo_reweighting.loo_weights)


@overload
def smooth(out: Filtered, /, *, reweight: bool = False) -> Smoothed: ...
@overload
def smooth(model: Models, out: Filtered, *, reweight: bool = False) -> Smoothed: ...
@model_optional
def smooth(model: Models, out: Filtered, *, reweight: bool = False) -> Smoothed:
    """Smooth a filtered series: what the whole series says about each moment.

    Exact given the weights for linear models, the usual approximation otherwise.

    Args:
        model: may be left out: the one that was filtered, or the list of them.
        out: from `wolf.filter` or `wolf.filter_many`, run with `save="all"` and not sliced.
        reweight: judge each measurement once more, by what came before *and after* it, and filter and smooth again
            with these weights: what looked like an outlier may have been a turn. One series.

    Example:
        >>> import wolf
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> wolf.smooth(wolf.filter(model, [1.0, 2.0, 3.0])).means.shape
        (3, 1)
    """
    validation.boolean("reweight", reweight)
    check_smoothable("smooth", model, out)
    out = backdate_jumps(model, out)
    mean, cov = _walk_back_native(model, out) or _walk_back(model, out)
    first = Smoothed(mean, cov, out)
    return _smooth_again(model, first) if reweight else first


def _walk_back_native(model: Any, out: Filtered) -> tuple[np.ndarray, np.ndarray] | None:
    """Smooth by native code; None where that is for XLA."""
    one, dtype = out.num_series is None, out.settings["dtype"]
    start = np.asarray(out.final.t - (out.settings["steps"] if out.lengths is None else out.lengths))
    if out.backend == ASKED_FOR or start.min() < start.max() or out.settings["steps"] < 2:
        return None
    models = tuple(map(with_matrices, model if isinstance(model, list | tuple) else (model,)))
    scales = out.saved.get("dynamics_scales")
    back = native.SmootherSpec(scales is not None, out.lengths is not None)
    inputs = None if out.inputs is None else out.inputs.shape[-1]
    ready = backend_selection.plan_back(models, out.method.linearization, dtype, inputs, back)
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
    each, whole = together(model)
    beliefs = Gaussian(out.means, out.covs), Gaussian(out.predicted_means, out.predicted_covs)
    start = out.final.t - (out.settings["steps"] if out.lengths is None else out.lengths)  # above 0 for a chunk
    how: Any = {"many": out.num_series is not None, "per_series_model": each, "update_first": out.update_first}
    axis, steps = 0 if out.num_series is None else 1, out.settings["steps"]
    extra, lengths = pad_steps(steps) - steps, out.lengths
    scales, us = out.saved.get("dynamics_scales"), out.inputs
    # One program serves several lengths. A loop that can begin where a series ends does; for others there are steps
    # before the first, which change nothing.
    if axis == 0 and out.means.shape[-1] > SMALL:
        before, lengths = 0, np.asarray(steps, np.int32)
        beliefs, scales, us = stretch((beliefs, scales, us), extra)
    else:
        before, lengths = extra, None if lengths is None else lengths + extra
        beliefs, scales = pad((beliefs, scales), axis, extra)
        us = None if us is None else pad(us, us.ndim - 2, extra)
    bound_programs()
    with precision(dtype):
        engine = (cast(whole, dtype), cast(out.method.linearization, dtype), *cast(beliefs, dtype), to_dtype(us, dtype))
        smoothed = xla_batching.smooth(*engine, lengths, start - before, cast(scales, dtype), **how)
    rows = slice(before, before + steps)
    return tuple(array[rows] if axis == 0 else array[:, rows] for array in (smoothed.mean, smoothed.cov))


def backdate_jumps(model: Any, out: Filtered) -> Filtered:
    """Filter once more with each jump where its vote began, if refused measurements ever won one."""
    if not jump_backdating.supports_backdating(out.method) or not np.any(out.inflations > 1.0):
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
    options = _as_before(out)

    def told(jumps: list[int], save: Any = "all", barred: Any = ()) -> Filtered:
        method = jump_backdating.with_jumps(out.method, jumps, pad_steps(len(out)), barred=barred)
        return filter(model, out.ys, method=method, save=save, **options)

    seen = filter(model, out.ys, method=out.method, save=jump_backdating.record_jump_evidence, **options).saved
    starts = jump_backdating.possible_starts(seen["consistent"], seen["inflations"], ~np.isnan(out.ys).all(1))
    jumps = jump_backdating.best_starts(starts, lambda jumps: float(told(jumps, "final").log_likelihood))
    jumps, barred = jump_backdating.without_bursts(jumps, lambda *given: told(given[0], "all", given[1]).outliers)
    return dataclasses.replace(told(jumps, "all", barred), method=out.method, settings=out.settings, index=out.index)


def _as_before(out: Filtered) -> dict[str, Any]:
    """Give the options of a run, to filter once more."""
    backend = "xla" if out.backend == ASKED_FOR else "auto"
    return {
        "inputs": out.inputs,
        "update_first": out.update_first,
        "dtype": out.settings["dtype"],
        "backend": backend,
    }


def _smooth_again(model: Any, first: Smoothed) -> Smoothed:
    """Weigh by what all other measurements say, then filter and smooth once more."""
    out, method = first.filtered, first.filtered.method
    if out.num_series is not None or int(out.final.t) != out.settings["steps"]:
        raise ValueError("smooth(reweigh=True) takes one whole series; pick one of many, as out[0]")
    if not isinstance(method, GaussianFilter) or method.noise.revises_prior:
        raise ValueError(f"smooth(reweigh=True) needs a method with weights; {describe_method(method)} has none")
    dtype = out.settings["dtype"]
    beliefs = (
        Gaussian(out.predicted_means, out.predicted_covs),
        Gaussian(out.means, out.covs),
        Gaussian(first.means, first.covs),
    )
    inflations = out.saved.get("inflations", np.ones(len(out.ys)))
    longer = partial(pad, axis=0, after=pad_steps(len(out.ys)) - len(out.ys))  # each row is weighed by itself
    sizes = out.saved.get("noise_scales")
    roots = _weigh_native(model, out, beliefs, sizes)
    if roots is None:
        with precision(dtype):
            engine = cast((with_matrices(model), method.linearization, method.noise, out.final.memory), dtype)
            known = cast(beliefs, dtype), to_dtype(out.inputs, dtype), cast(sizes, dtype)
            roots = to_numpy(_weigh_again(*engine, *longer((to_dtype(out.ys, dtype), *known))))[: len(out.ys)]
    roots = longer(roots)
    scales = out.saved.get("dynamics_scales", np.ones(len(out.ys)))
    told = dataclasses.replace(method, noise=loo_reweighting.FixedWeights(roots, longer(inflations), longer(scales)))
    options = _as_before(out)
    again = dataclasses.replace(filter(model, out.ys, method=told, **options), index=out.index)
    second = smooth(model, again)
    return Smoothed(second.means, second.covs, again, again.weights)


def _weigh_native(model: Model, out: Filtered, beliefs: Any, sizes: np.ndarray | None) -> np.ndarray | None:
    """Weigh again by native code; None where that is for XLA."""
    dtype, method, memory = out.settings["dtype"], out.method, out.final.memory
    leaves = jax.tree.leaves(memory)
    if out.backend == ASKED_FOR or any(np.asarray(leaf).dtype.kind != "f" for leaf in leaves):
        return None
    again = native.LooSpec(jax.tree.structure(memory), tuple(map(np.shape, leaves)))
    inputs = None if out.inputs is None else out.inputs.shape[-1]
    ready = backend_selection.plan_back(
        (with_matrices(model),), (method.linearization, method.noise), dtype, inputs, again
    )
    if ready is None:
        return None
    ys, us = to_dtype(out.ys, dtype), to_dtype(out.inputs, dtype)
    change = loo_reweighting.relative_deviations(ys, None if sizes is None else to_dtype(sizes, dtype))
    roots = native.weigh_again(ready, memory, ys, change, jax.tree.map(lambda a: to_dtype(a, dtype), beliefs), us)
    return roots if np.isfinite(roots).all() else None


@overload
def sample_paths(out: Filtered, /, num: int, key: Key) -> np.ndarray: ...
@overload
def sample_paths(model: Model, out: Filtered, num: int, key: Key) -> np.ndarray: ...
@model_optional
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
    check_smoothable("sample_paths", model, out)
    validation.count("num", num)
    validation.key(key, needed=True)
    if out.num_series is not None:
        raise ValueError("sample_paths takes one series; pick one of many, as out[0]")
    dtype, start = out.settings["dtype"], out.final.t - out.settings["steps"]
    validate.refuse_if_large("num", num, 2 * out.means.size, dtype)  # paths, and the numbers that they are drawn from
    beliefs = Gaussian(out.means, out.covs), Gaussian(out.predicted_means, out.predicted_covs)
    with precision(dtype):
        engine = (cast(with_matrices(model), dtype), cast(out.method.linearization, dtype), *cast(beliefs, dtype))
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
