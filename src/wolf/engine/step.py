"""One measurement: `init` starts a filter, `step` takes a measurement in, `predict` and `update` are its halves.

Only here, and in filters that wrap others, is a filter called: order of steps, keys and the model's time are decided
once. What needs the state between prediction and update takes the halves.

Everything here is pure and follows the dtype of what it is given. Time 0 is the prior; every step predicts, then
updates, unless `update_first=True` (the convention of pykalman and statsmodels: the prior is about the first
measurement, and F_t leads from t to t + 1).
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from wolf.engine.measurements import preprocess
from wolf.interfaces import Measurement, StepInfo
from wolf.numerics.linalg import SMALL
from wolf.numerics.xla_fusion import one_kernel
from wolf.statespace import Model


@jax.jit
def init(model: Model, method: Any, key: Array | None = None) -> Any:
    """Start a filter at the model's prior: one program, since operation by operation each is compiled by itself."""
    return method.init(model, key)


def step(
    model: Model,
    method: Any,
    state: Any,
    y: Array,
    u: Array | None = None,
    key: Array | None = None,
    *,
    update_first: bool = False,
    u_before: Array | None = None,
    fused: bool = False,
) -> tuple[Any, StepInfo]:
    """Take in one measurement.

    Args:
        model: arrays with a time axis are read at the state's own clock.
        method: a filter, from `wolf.methods`.
        state: from `init` or the previous step.
        y: (M,), NaN where missing.
        u: input of this step, (U,).
        key: for filters that draw random numbers.
        update_first: take the prior as the prediction of the first measurement.
        u_before: input of the previous step; what leads to this one if `update_first`.
        fused: compile the step as one CPU kernel, as `run_filter` does its loop; only then do all bits agree.
    """

    def advance(model: Model, method: Any, state: Any, y: Array, u: Any, key: Any, before: Any) -> tuple[Any, StepInfo]:
        return take_step(model, method, state, preprocess(y), u, key, update_first, before, lift=False)

    arguments = (model, method, state, y, u, key, u_before)
    small = max(model.state_dim, model.obs_dim) <= SMALL
    return one_kernel(advance, *arguments) if fused and small else advance(*arguments)


def predict(
    model: Model,
    method: Any,
    state: Any,
    u: Array | None = None,
    key: Array | None = None,
    *,
    update_first: bool = False,
    u_before: Array | None = None,
) -> Any:
    """Take the first half of a step: lead a state to its next measurement.

    Args:
        model: as in `step`.
        method: as in `step`.
        state: from `init` or the previous step.
        u: input of this step, (U,).
        key: as in `step`.
        update_first: as in `step`; what is at the prior stays there.
        u_before: as in `step`.
    """
    return _predict(model, method, state, u, _key_at(key, state), update_first, u_before, lift=False)


def update(
    model: Model, method: Any, state: Any, y: Array, u: Array | None = None, key: Array | None = None
) -> tuple[Any, StepInfo]:
    """Take the second half of a step: learn from a measurement.

    Args:
        model: as in `step`.
        method: as in `step`.
        state: predicted, from `predict`.
        y: (M,), NaN where missing.
        u: input of this step, (U,).
        key: as in `step`.
    """
    return _update(model, method, state, preprocess(y), u, _key_at(key, state), lift=False)


def take_step(
    model: Model,
    method: Any,
    state: Any,
    y: Measurement,
    u: Array | None,
    key: Array | None,
    update_first: bool,
    u_before: Array | None,
    lift: bool | str,
) -> tuple[Any, StepInfo]:
    """Take in a measurement that was cleaned.

    Args:
        model: as in `step`.
        method: as in `step`.
        state: as in `step`; of many series that run together, with the series as the last axis.
        y: from `preprocess`.
        u: as in `step`.
        key: as in `step`.
        update_first: as in `step`.
        u_before: as in `step`.
        lift: False for one series; for many "shared" if all have this model, "series" if each has its own.
    """
    key = _key_at(key, state)
    predicted = _predict(model, method, state, u, key, update_first, u_before, lift)
    return _update(model, method, predicted, y, u, key, lift)


def _predict(
    model: Model,
    method: Any,
    state: Any,
    u: Array | None,
    key: Array | None,
    update_first: bool,
    u_before: Array | None,
    lift: bool | str,
) -> Any:
    if not update_first:
        return method.predict(_at(model, state.t, lift), state, u, key)
    ahead = method.predict(_at(model, jnp.maximum(state.t - 1, 0), lift), state, u_before, key)
    return jax.tree.map(lambda new, old: jnp.where(state.t == 0, old, new), ahead, state)


def _update(
    model: Model, method: Any, state: Any, y: Measurement, u: Array | None, key: Array | None, lift: bool | str
) -> tuple[Any, StepInfo]:
    return method.update(_at(model, state.t, lift), state, y, u, key)


def _key_at(key: Array | None, state: Any) -> Array | None:
    """Give every step a key of its own, the same for both halves."""
    return None if key is None else jax.random.fold_in(key, state.t)


def _at(model: Model, t: Array, lift: bool | str) -> Model:
    if lift == "series":
        return jax.vmap(lambda one: one.at(t), out_axes=-1)(model)
    return model.at(t).lift() if lift else model.at(t)
