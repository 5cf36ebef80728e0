"""One measurement: `init` starts a filter, `step` processes a measurement, `predict` and `update` are its halves.

Filters are called only here and in filters that wrap others, so that the order of operations, the random keys and the
clock of the model are decided in one place. Code that needs the state between prediction and update calls the halves.

All functions are pure and follow the dtype of their arguments. Time 0 is the prior; every step predicts, then updates,
unless `update_first=True` (the convention of pykalman and statsmodels: the prior describes the state at the first
measurement, and F_t leads from t to t + 1).
"""

import enum
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from wolf.engine.measurements import preprocess
from wolf.interfaces import Filter, Measurement, State, StepInfo
from wolf.numerics.linalg import SMALL
from wolf.numerics.xla_fusion import one_kernel
from wolf.statespace import Model

StateT = TypeVar("StateT", bound=State)


class SeriesLayout(enum.Enum):
    """Layout of the arrays of a step over series."""

    ONE = "one series"
    SHARED_MODEL = "many series on the last axis, one model"
    OWN_MODELS = "many series on the last axis, a model for each"


@jax.jit
def init(model: Model, method: Filter[StateT], key: Array | None = None) -> StateT:
    """Start a filter at the prior, in one compiled program instead of one for each operation."""
    return method.init(model, key)


def step(
    model: Model,
    method: Filter[StateT],
    state: StateT,
    y: Array,
    u: Array | None = None,
    key: Array | None = None,
    *,
    update_first: bool = False,
    u_before: Array | None = None,
    fused: bool = False,
) -> tuple[StateT, StepInfo]:
    """Process one measurement: predict, then update.

    Args:
        model: arrays with a time axis are read at the state's own clock.
        method: a filter, from `wolf.methods`.
        state: from `init` or the previous step.
        y: (M,), NaN where missing.
        u: input of this step, (U,).
        key: for filters that draw random numbers.
        update_first: use the prior as the prediction of the first measurement.
        u_before: input of the previous step, (U,); with `update_first` it drives the transition to this step.
        fused: compile the step into one CPU kernel, as `run_filter` does with its loop; the bits agree only then.

    Returns:
        The new state and the quantities of this step.
    """

    def advance(
        model: Model,
        method: Filter[StateT],
        state: StateT,
        y: Array,
        u: Array | None,
        key: Array | None,
        before: Array | None,
    ) -> tuple[StateT, StepInfo]:
        return take_step(model, method, state, preprocess(y), u, key, update_first, before, layout=SeriesLayout.ONE)

    arguments = (model, method, state, y, u, key, u_before)
    small = max(model.state_dim, model.obs_dim) <= SMALL
    return one_kernel(advance, *arguments) if fused and small else advance(*arguments)


def predict(
    model: Model,
    method: Filter[StateT],
    state: StateT,
    u: Array | None = None,
    key: Array | None = None,
    *,
    update_first: bool = False,
    u_before: Array | None = None,
) -> StateT:
    """Predict the state at the next measurement: the first half of a step, with the arguments of `step`.

    With `update_first` a state at the prior is returned unchanged.
    """
    return _predict(model, method, state, u, _key_at(key, state), update_first, u_before, layout=SeriesLayout.ONE)


def update(
    model: Model, method: Filter[StateT], state: StateT, y: Array, u: Array | None = None, key: Array | None = None
) -> tuple[StateT, StepInfo]:
    """Update a predicted state by a measurement: the second half of a step, with the arguments of `step`."""
    return _update(model, method, state, preprocess(y), u, _key_at(key, state), layout=SeriesLayout.ONE)


def take_step(
    model: Model,
    method: Filter[StateT],
    state: StateT,
    y: Measurement,
    u: Array | None,
    key: Array | None,
    update_first: bool,
    u_before: Array | None,
    layout: SeriesLayout,
) -> tuple[StateT, StepInfo]:
    """Process one preprocessed measurement, of one series or of many on the last axis, with the arguments of `step`."""
    key = _key_at(key, state)
    predicted = _predict(model, method, state, u, key, update_first, u_before, layout)
    return _update(model, method, predicted, y, u, key, layout)


def _predict(
    model: Model,
    method: Filter[StateT],
    state: StateT,
    u: Array | None,
    key: Array | None,
    update_first: bool,
    u_before: Array | None,
    layout: SeriesLayout,
) -> StateT:
    if not update_first:
        return method.predict(_at(model, state.t, layout), state, u, key)
    ahead = method.predict(_at(model, jnp.maximum(state.t - 1, 0), layout), state, u_before, key)
    return jax.tree.map(lambda new, old: jnp.where(state.t == 0, old, new), ahead, state)


def _update(
    model: Model,
    method: Filter[StateT],
    state: StateT,
    y: Measurement,
    u: Array | None,
    key: Array | None,
    layout: SeriesLayout,
) -> tuple[StateT, StepInfo]:
    return method.update(_at(model, state.t, layout), state, y, u, key)


def _key_at(key: Array | None, state: State) -> Array | None:
    """Derive the random key of a step; both halves use the same one."""
    return None if key is None else jax.random.fold_in(key, state.t)


def _at(model: Model, t: Array, layout: SeriesLayout) -> Model:
    """Select the model of a step, with a series axis where the layout has one."""
    if layout is SeriesLayout.OWN_MODELS:
        return jax.vmap(lambda one: one.at(t), out_axes=-1)(model)
    return model.at(t).lift() if layout is SeriesLayout.SHARED_MODEL else model.at(t)
