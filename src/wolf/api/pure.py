"""`wolf.run_filter`, `run_many`, `run_each` and `run_chunks`: pure functions for programs in JAX.

They take the arguments of `wolf.filter` in its order and check them as it does, but return JAX arrays, follow the dtype
and the JAX settings of the caller, and can be used inside `jax.jit`, `jax.grad` and `jax.vmap`.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from wolf import validation
from wolf.engine import scan
from wolf.execution import function_checks, validate
from wolf.interfaces import Filter, Key, Save
from wolf.numerics.precision import as_key
from wolf.numerics.pytree import PyTree
from wolf.statespace import Model


class _Arguments(NamedTuple):
    """Validated arguments, in the order of the functions of `wolf.engine.scan`."""

    model: Model
    ys: Any
    method: Filter
    inputs: Any
    key: Any


def run_filter(
    model: Model,
    ys: ArrayLike | Array,
    method: str | Filter | None = None,
    inputs: ArrayLike | Array | None = None,
    key: Key | None = None,
    *,
    state: PyTree = None,
    u_before: Array | None = None,
    length: Array | int | None = None,
    save: Save = "all",
    update_first: bool = False,
    fused: bool = False,
) -> tuple[Any, PyTree]:
    """Filter one series in one scan.

    Args:
        model: from `wolf.models` or `wolf.statespace`; its arrays may be traced.
        ys: (T, M), or (T,) if one thing is measured; NaN where missing.
        method: as in `wolf.filter`.
        inputs: (T, U).
        key: seed or JAX key, for filters that draw random numbers.
        state: the state to continue from; default: the prior.
        u_before: the input before the first row, to continue with `update_first`.
        length: number of rows that belong to the series; saved values of later rows are undefined. One program serves
            all lengths up to T, and has no gradient.
        save: "all", "means", "final" or a function of (state, info): what is recorded of each step.
        update_first: as in `wolf.filter`.
        fused: compile the loop into one CPU kernel where possible; for small models; cannot be vmapped.

    Returns:
        The final state, and the recorded arrays stacked over time.

    Example:
        >>> import wolf
        >>> def loss(level_var):
        ...     model = wolf.models.local_level(level_var=level_var, obs_var=1.0)
        ...     return -wolf.run_filter(model, [1.0, 2.0, 3.0], "KF")[1]["log_liks"].sum()
        >>> bool(jnp.isfinite(jax.grad(loss)(0.1)))
        True
    """
    given = _validated(model, ys, method, inputs, key, save, update_first)
    how = {"state": state, "u_before": u_before, "length": length}
    with function_checks.explained():
        return scan.run_filter(*given, **how, save=save, update_first=update_first, fused=fused)  # type: ignore[no-any-return]


def run_many(
    model: Model,
    ys: ArrayLike | Array,
    method: str | Filter | None = None,
    inputs: ArrayLike | Array | None = None,
    key: Key | None = None,
    *,
    state: PyTree = None,
    u_before: Array | None = None,
    lengths: Array | None = None,
    save: Save = "all",
    update_first: bool = False,
    per_series_model: bool = False,
) -> tuple[Any, PyTree]:
    """Filter many series together, with the series on the last axis of every array inside.

    Args:
        model: one for all series, or with a leading series axis on every leaf if `per_series_model`.
        ys: (B, T, M), or (B, T) if one thing is measured.
        method: as in `wolf.filter`.
        inputs: (T, U) for all series, or (B, T, U).
        key: split over the series.
        state: the states to continue from, (B, ...); default: the prior.
        u_before: the input before the first row, (B, U), to continue with `update_first`; `inputs` are (B, T, U).
        lengths: (B,), the number of rows of each series; its state stays constant afterwards.
        save: as in `run_filter`.
        update_first: as in `wolf.filter`.
        per_series_model: whether the model's leaves have a series axis.

    Returns:
        The final state and the recorded arrays with the *series axis last*: `jnp.moveaxis(x, -1, 0)` gives
        (B, T, ...), and is free in NumPy.
    """
    given = _validated(model, ys, method, inputs, key, save, update_first, dims=3, per_series=per_series_model)
    how = {"state": state, "u_before": u_before, "lengths": lengths, "per_series_model": per_series_model}
    with function_checks.explained():
        return scan.run_many(*given, **how, save=save, update_first=update_first)  # type: ignore[no-any-return]


def run_each(
    model: Model,
    ys: ArrayLike | Array,
    method: str | Filter | None = None,
    inputs: ArrayLike | Array | None = None,
    key: Key | None = None,
    *,
    state: PyTree = None,
    u_before: Array | None = None,
    lengths: Array | None = None,
    save: Save = "all",
    update_first: bool = False,
    per_series_model: bool = False,
) -> tuple[Any, PyTree]:
    """Filter many series one after the other, each in one CPU kernel: the fastest way for small models on few cores.

    The arguments are those of `run_many`; a state has a clock for each series.

    Returns:
        The final states and the recorded arrays, with the series axis first.
    """
    given = _validated(model, ys, method, inputs, key, save, update_first, dims=3, per_series=per_series_model)
    how = {"state": state, "u_before": u_before, "lengths": lengths, "per_series_model": per_series_model}
    with function_checks.explained():
        return scan.run_each(*given, **how, save=save, update_first=update_first)  # type: ignore[no-any-return]


def run_chunks(
    model: Model,
    chunks: Iterable[Any],
    method: str | Filter | None = None,
    *,
    key: Key | None = None,
    state: PyTree = None,
    save: Save = "means",
    update_first: bool = False,
    fused: bool = False,
) -> Iterator[tuple[Any, PyTree]]:
    """Filter a series that does not fit in memory, chunk by chunk.

    Args:
        model: as in `run_filter`.
        chunks: arrays (t, M), or pairs of them with inputs (t, U). Equal lengths compile once.
        method: as in `wolf.filter`.
        key: as in `run_filter`.
        state: the state to continue from; default: the prior.
        save: as in `run_filter`.
        update_first: as in `wolf.filter`.
        fused: as in `run_filter`.

    Yields:
        The state after the chunk, and the recorded arrays of its steps.
    """
    found = validate.resolve_method(method, model)

    def checked() -> Iterator[Any]:
        for chunk in chunks:
            ys, inputs = chunk if isinstance(chunk, tuple) else (chunk, None)
            given = _validated(model, ys, found, inputs, key, save, update_first)
            yield given.ys if inputs is None else (given.ys, given.inputs)

    adapted, seed = validate.adapt_model(model, found, key), None if key is None else as_key(key)
    how: dict[str, Any] = {"key": seed, "state": state, "save": save, "update_first": update_first, "fused": fused}
    return scan.run_chunks(adapted, checked(), found, **how)


def _validated(
    model: Model,
    ys: ArrayLike | Array,
    method: str | Filter | None,
    inputs: ArrayLike | Array | None,
    key: Key | None,
    save: Save,
    update_first: bool,
    dims: int = 2,
    per_series: bool = False,
) -> _Arguments:
    """Check the arguments of a run, as `wolf.filter` does; arrays keep their dtype, and may be traced."""
    validate.check_model(model)
    one: Any = jax.tree.map(lambda leaf: leaf[0], model) if per_series else model
    found = validate.resolve_method(method, one)
    adapted = validate.adapt_model(one, found, key)
    validate.check_options("float64", save, update_first)
    rows = validation.measurement_rows(_array("ys", ys), one.obs_dim, dims)
    us = validation.inputs(inputs, rows.shape[-2], one, series=len(rows) if dims == 3 else None)
    if us is not None:
        us = _array("inputs", inputs).reshape(us.shape)
    validate.check_functions(one, us, dtype=None)
    return _Arguments(model if per_series else adapted, rows, found, us, None if key is None else as_key(key))


def _array(name: str, value: Any) -> Any:
    """Return an array of numbers in the precision in which it is given."""
    if isinstance(value, jax.Array | np.ndarray) and jnp.issubdtype(value.dtype, jnp.floating):
        return value
    return validation.number_array(name, value)
