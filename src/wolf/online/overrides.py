"""The model of one online step, with matrices or an observation function that replace those of the model."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from wolf.execution import validate
from wolf.interfaces import Filter
from wolf.numerics.pytree import PyTree, field_values
from wolf.online.stepper import Matrices
from wolf.statespace import LinearModel, Model, ParameterModel, StateSpaceModel, time_axes

COV_FIELDS = {"R": "obs_cov", "Q": "dynamics_cov"}  # matrices of a step -> fields of a model of functions


def time_step(model: Model) -> float | None:
    """Return the duration of a step of a model of functions; None if it cannot be changed.

    It is the only number of the dynamics, in a field dt, as in the functions of `wolf.models`.
    """
    dynamics: PyTree = model.dynamics if isinstance(model, StateSpaceModel) else None
    if not dataclasses.is_dataclass(dynamics) or len(jax.tree.leaves(dynamics)) != 1:
        return None
    values = field_values(dynamics)
    return float(values["dt"]) if "dt" in values else None


def overridden_model(model: Model, method: Filter, t: int, update_first: bool, matrices: Matrices) -> Model:
    """Make the model of one step, with other matrices, adapted to the method."""
    changed = override(model, t, update_first, matrices)
    validate.resolve_method(method, changed)
    if "observe" in matrices and not changed.takes_inputs:
        validate.check_functions(changed, None)
    return validate.adapt_model(changed, method, 0)


def override(model: Model, t: int, update_first: bool, matrices: Matrices) -> Model:
    """Copy a model with other matrices at one step, validated like any model.

    Args:
        model: as given by the user.
        t: number of the step.
        update_first: order of a step.
        matrices: by the names of `Online.step` (F, H, Q, R, dt), or "observe" and "residual" of a sensor.
    """
    if isinstance(model, ParameterModel):
        return model.override(matrices)
    if "observe" in matrices:
        return _with_observation(model, t, update_first, matrices)
    names = {} if model.linear else COV_FIELDS
    if "dt" in matrices:
        moving: Any = model
        model = dataclasses.replace(moving, dynamics=dataclasses.replace(moving.dynamics, dt=matrices["dt"]))
        matrices = {name: value for name, value in matrices.items() if name != "dt"}
    if not model.linear and not matrices.keys() <= names.keys():
        raise ValueError(
            "a model with functions takes R and Q for one step; F and H are functions: give them inputs u, or give a "
            "wolf.Sensor with a function"
        )
    fields = field_values(model)
    for name in time_axes(model):
        # With update_first the first measurement has no transition before it, so those of step t have index t - 1.
        lead = update_first and name in ("F", "Q", "B", "dynamics_cov")
        fields[name] = fields[name][max(t - 1, 0) if lead else t]
    return type(model)(**(fields | {names.get(name, name): value for name, value in matrices.items()}))


def _with_observation(model: Model, t: int, update_first: bool, matrices: Matrices) -> Model:
    """Copy a model with another observation function at one step."""
    new = {name: matrices[name] for name in ("observe", "residual")} | {"obs_cov": matrices["R"]}
    transition = {name: value for name, value in matrices.items() if name in ("F", "Q", "dt")}
    if isinstance(model, LinearModel):
        if model.takes_inputs:
            raise ValueError("a sensor with a function does not go with a linear model that takes inputs")
        linear: Any = override(model, t, update_first, transition)
        dynamics = None if linear.F is None else jax.tree_util.Partial(jnp.matmul, linear.F)
        return StateSpaceModel(dynamics, dynamics_cov=linear.Q, prior=linear.prior, **new)
    if not isinstance(model, StateSpaceModel) or "F" in transition:
        raise ValueError(f"a sensor with a function goes with a LinearModel or a StateSpaceModel; got {model!r}")
    changed = override(model, t, update_first, transition)
    assert isinstance(changed, StateSpaceModel)
    return dataclasses.replace(changed, **new)
