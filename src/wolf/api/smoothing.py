"""`wolf.smooth` and `wolf.sample_paths`, with jumps moved to the step at which they began."""

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any, overload

import jax
import numpy as np

from wolf import native, validation
from wolf.api.filtering import filter
from wolf.api.result_arguments import Models, check_smoothable, model_optional
from wolf.beliefs import Gaussian
from wolf.engine import jump_backdating, loo_reweighting
from wolf.engine.manifold_smoother import run_manifold_smoother
from wolf.engine.smoother import run_sampler
from wolf.execution import smoothing, validate
from wolf.execution.backend_selection import Reason, compile_backward
from wolf.execution.padding import pad, pad_steps
from wolf.execution.smoothing import SmootherTask
from wolf.execution.xla_batching import bounded
from wolf.inference.filters import ErrorState, GaussianFilter, TruncatedFilter
from wolf.interfaces import Key, Save
from wolf.numerics.precision import as_key, precision, to_dtype, to_numpy
from wolf.numerics.pytree import PyTree, cast
from wolf.results import Filtered, Smoothed, describe_method
from wolf.statespace import Model, with_matrices

_leave_one_out_weights = bounded(loo_reweighting.reweight_leave_one_out)


@overload
def smooth(out: Filtered, /, *, reweight: bool = False) -> Smoothed: ...
@overload
def smooth(model: Models, out: Filtered, *, reweight: bool = False) -> Smoothed: ...
@model_optional
def smooth(model: Models, out: Filtered, *, reweight: bool = False) -> Smoothed:
    """Smooth a filtered series: the posterior of each state given the whole series.

    Exact given the weights for linear models; a Gaussian approximation otherwise.

    Args:
        model: may be left out: the one that was filtered, or the list of them.
        out: from `wolf.filter` or `wolf.filter_many`, run with `save="all"` and not sliced.
        reweight: compute each weight again from all other measurements, before *and after* it, then filter and smooth
            with these weights: a measurement that looked like an outlier may have been a manoeuvre. One series.

    Example:
        >>> import wolf
        >>> model = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> wolf.smooth(wolf.filter(model, [1.0, 2.0, 3.0])).means.shape
        (3, 1)
    """
    validation.boolean("reweight", reweight)
    check_smoothable("smooth", model, out)
    out = backdate_jumps(model, out)
    if isinstance(out.method, ErrorState):
        found = _smooth_on_manifold(model, out, out.method)
    else:
        found = smoothing.run(smoothing_task(model, out), allow_native=not _requested_xla(out))
    if isinstance(out.method, TruncatedFilter):
        found = _truncate(out.method, found, out.settings["dtype"])
    first = Smoothed(found.mean, found.cov, out)
    return _smooth_again(model, first) if reweight else first


def _smooth_on_manifold(model: Models, out: Filtered, method: ErrorState) -> Gaussian:
    """Smooth states on a manifold by their errors; many series one after the other."""
    if out.num_series is not None:
        each = [_smooth_on_manifold(one.model, one, method) for one in out]
        size = out.means.shape[1]
        padded = [jax.tree.map(lambda a: pad(a, 0, after=size - len(a)), one) for one in each]
        return jax.tree.map(lambda *arrays: np.stack(arrays), *padded)  # type: ignore[no-any-return]
    assert not isinstance(model, Sequence)
    dtype, start = out.settings["dtype"], out.final.t - out.settings["steps"]
    us = out.inputs if out.inputs is None or not out.update_first else np.roll(out.inputs, 1, axis=0)
    beliefs = Gaussian(out.means, out.covs), Gaussian(out.predicted_means, out.predicted_covs)
    clock = start - int(out.update_first)  # the transition to a row is indexed by its start, if the update is first
    with precision(dtype):
        arguments = (cast(with_matrices(model), dtype), cast(method.filter.linearization, dtype), *cast(beliefs, dtype))
        scales = cast(out.saved.get("dynamics_scales"), dtype)
        return to_numpy(run_manifold_smoother(*arguments, to_dtype(us, dtype), clock, scales))


def _truncate(method: TruncatedFilter, belief: Gaussian, dtype: str) -> Gaussian:
    """Truncate smoothed beliefs at the bounds of the filter."""
    size = belief.mean.shape[-1]
    rows = Gaussian(belief.mean.reshape(-1, size), belief.cov.reshape(-1, size, size))
    with precision(dtype):
        found = to_numpy(_truncated_rows(cast(method, dtype), cast(rows, dtype)))
    return Gaussian(found.mean.reshape(belief.mean.shape), found.cov.reshape(belief.cov.shape))


@jax.jit
def _truncated_rows(method: TruncatedFilter, rows: Gaussian) -> Gaussian:
    return jax.vmap(lambda belief: method.truncated(belief)[0])(rows)


def smoothing_task(model: Models, out: Filtered) -> SmootherTask:
    """Collect what the smoother reads of a filtered series, or of many."""
    assert out.method.linearization is not None
    return SmootherTask(
        models=tuple(model) if isinstance(model, Sequence) else (model,),
        per_series=isinstance(model, Sequence),
        linearization=out.method.linearization,
        filtered=Gaussian(out.means, out.covs),
        predicted=Gaussian(out.predicted_means, out.predicted_covs),
        start=out.final.t - (out.settings["steps"] if out.lengths is None else out.lengths),
        dtype=out.settings["dtype"],
        update_first=out.update_first,
        inputs=out.inputs,
        scales=out.saved.get("dynamics_scales"),
        lengths=out.lengths,
    )


def _requested_xla(out: Filtered) -> bool:
    """Return whether the filter ran on XLA because the caller asked for it."""
    return out.settings["backend"].reason is Reason.REQUESTED  # type: ignore[no-any-return]


def backdate_jumps(model: Models, out: Filtered) -> Filtered:
    """Filter again with each accepted jump moved to the first of the rejected measurements that revealed it."""
    if not jump_backdating.supports_backdating(out.method) or not np.any(out.inflations > 1.0):
        return out
    if out.num_series is None:
        assert not isinstance(model, Sequence)
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
    base, options = out.method, _as_before(out)
    assert isinstance(base, GaussianFilter)

    def run(jumps: list[int], save: Save = "all", barred: Sequence[tuple[int, int]] = ()) -> Filtered:
        method = jump_backdating.with_jumps(base, jumps, pad_steps(len(out)), barred=barred)
        return filter(model, out.ys, method=method, save=save, **options)

    seen = filter(model, out.ys, method=out.method, save=jump_backdating.record_jump_evidence, **options).saved
    starts = jump_backdating.possible_starts(seen["consistent"], seen["inflations"], ~np.isnan(out.ys).all(1))
    jumps = jump_backdating.best_starts(starts, lambda jumps: float(run(jumps, "final").log_likelihood))
    jumps, barred = jump_backdating.without_bursts(jumps, lambda *given: run(given[0], "all", given[1]).outliers)
    return dataclasses.replace(run(jumps, "all", barred), method=out.method, settings=out.settings, index=out.index)


def _as_before(out: Filtered) -> dict[str, Any]:
    """Return the options of a run, to filter again."""
    return {
        "inputs": out.inputs,
        "update_first": out.update_first,
        "dtype": out.settings["dtype"],
        "backend": "xla" if _requested_xla(out) else "auto",
    }


def _smooth_again(model: Models, first: Smoothed) -> Smoothed:
    """Compute each weight from all other measurements, then filter and smooth again."""
    out, method = first.filtered, first.filtered.method
    if isinstance(model, Sequence) or out.num_series is not None or int(out.final.t) != out.settings["steps"]:
        raise ValueError("smooth(reweight=True) takes one whole series; pick one of many, as out[0]")
    if not isinstance(method, GaussianFilter) or method.noise.revises_prior:
        raise ValueError(f"smooth(reweight=True) needs a method with weights; {describe_method(method)} has none")
    dtype = out.settings["dtype"]
    beliefs = (
        Gaussian(out.predicted_means, out.predicted_covs),
        Gaussian(out.means, out.covs),
        Gaussian(first.means, first.covs),
    )
    inflations = out.saved.get("inflations", np.ones(len(out.ys)))
    longer = partial(pad, axis=0, after=pad_steps(len(out.ys)) - len(out.ys))  # rows are independent
    sizes = out.saved.get("noise_scales")
    roots = _leave_one_out_weights_native(model, out, beliefs, sizes)
    if roots is None:
        with precision(dtype):
            arguments = cast((with_matrices(model), method.linearization, method.noise, out.final.memory), dtype)
            known = cast(beliefs, dtype), to_dtype(out.inputs, dtype), cast(sizes, dtype)
            roots = to_numpy(_leave_one_out_weights(*arguments, *longer((to_dtype(out.ys, dtype), *known))))[
                : len(out.ys)
            ]
    roots = longer(roots)
    scales = out.saved.get("dynamics_scales", np.ones(len(out.ys)))
    reweighted = dataclasses.replace(
        method, noise=loo_reweighting.FixedWeights(roots, longer(inflations), longer(scales))
    )
    options = _as_before(out)
    again = dataclasses.replace(filter(model, out.ys, method=reweighted, **options), index=out.index)
    second = smooth(model, again)
    return Smoothed(second.means, second.covs, again, again.weights)


def _leave_one_out_weights_native(
    model: Model, out: Filtered, beliefs: PyTree, sizes: np.ndarray | None
) -> np.ndarray | None:
    """Compute leave-one-out weights by native code; None where XLA has to do it."""
    dtype, method, memory = out.settings["dtype"], out.method, out.final.memory
    leaves = jax.tree.leaves(memory)
    if _requested_xla(out) or any(np.asarray(leaf).dtype.kind != "f" for leaf in leaves):
        return None
    again = native.LooSpec(jax.tree.structure(memory), tuple(map(np.shape, leaves)))
    inputs = None if out.inputs is None else out.inputs.shape[-1]
    ready = compile_backward((with_matrices(model),), (method.linearization, method.noise), dtype, inputs, again)
    if ready is None:
        return None
    ys, us = to_dtype(out.ys, dtype), to_dtype(out.inputs, dtype)
    change = loo_reweighting.relative_deviations(ys, None if sizes is None else to_dtype(sizes, dtype))
    roots = native.reweight_leave_one_out(
        ready, memory, ys, change, jax.tree.map(lambda a: to_dtype(a, dtype), beliefs), us
    )
    return roots if np.isfinite(roots).all() else None


@overload
def sample_paths(out: Filtered, /, num: int, key: Key) -> np.ndarray: ...
@overload
def sample_paths(model: Model, out: Filtered, num: int, key: Key) -> np.ndarray: ...
@model_optional
def sample_paths(model: Model, out: Filtered, num: int, key: Key) -> np.ndarray:
    """Draw paths of the state from the joint posterior, for questions that means and covariances do not answer.

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
    validate.refuse_if_large("num", num, 2 * out.means.size, dtype)  # paths and their random numbers
    beliefs = Gaussian(out.means, out.covs), Gaussian(out.predicted_means, out.predicted_covs)
    with precision(dtype):
        arguments = (cast(with_matrices(model), dtype), cast(out.method.linearization, dtype), *cast(beliefs, dtype))
        return to_numpy(
            run_sampler(
                *arguments,
                as_key(key),
                to_dtype(out.inputs, dtype),
                start,
                cast(out.saved.get("dynamics_scales"), dtype),
                num=int(num),
                update_first=out.update_first,
            )
        )
