"""How the state moves between two measurements of an online filter: over a time, or by matrices of the step."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.online.overrides import time_step
from wolf.online.stepper import Matrices
from wolf.statespace import LinearModel, Model, ParameterModel, StateSpaceModel, time_axes

TIME_TOLERANCE = 1e-9  # of one step: time stamps that differ by less are the same


class Motion(NamedTuple):
    """Motion before a measurement.

    Attributes:
        matrices: F and Q, or dt and Q of a dynamics function; empty for one step of the model.
        duration: time that it takes, in the unit of the model.
        divisible: whether it can be replaced by two shorter ones.
    """

    matrices: Matrices
    duration: float
    divisible: bool


def step_duration(model: Model) -> float:
    """Return the time of one step of a model; 1 where it has none, so that time counts steps."""
    found = model.step_time if isinstance(model, LinearModel) else time_step(model)
    return 1.0 if found is None else float(found)


def one_step(model: Model) -> Motion:
    """Return the motion of one step of the model."""
    return Motion({}, step_duration(model), True)


def by_matrices(model: Model, F: ArrayLike | None, Q: ArrayLike | None) -> Motion:
    """Return the motion by matrices of one step, which takes the time of a step."""
    given = {name: value for name, value in (("F", F), ("Q", Q)) if value is not None}
    return Motion(given, step_duration(model), not given)


def over(model: Model, dt: float) -> Motion:
    """Return the motion over a time.

    Args:
        model: with a transition over any time step.
        dt: time, not negative, in the unit of the model.
    """
    if isinstance(model, LinearModel):
        dynamics, noise = model.over(validation.finite("dt", dt))
        return Motion({"F": dynamics[0], "Q": noise[0]}, float(dt), True)
    usual = time_step(model)
    if usual is None or time_axes(model):
        raise ValueError(
            "this model of functions has no other time steps; use one of wolf.models whose dynamics have a dt, "
            "or pass the time step of your own as an input u"
        )
    validation.not_negative("dt", dt)
    noise = model.dynamics_cov * (float(dt) / usual)
    return Motion({"dt": np.asarray(dt, float), "Q": noise}, float(dt), True)


def none(model: Model) -> Motion:
    """Return the motion over no time, for a second measurement at the same time."""
    if isinstance(model, LinearModel):
        size = model.state_dim
        return Motion({"F": np.eye(size), "Q": np.zeros((size, size))}, 0.0, True)
    if isinstance(model, StateSpaceModel):
        if model.dynamics is None:
            return Motion({"Q": np.zeros(model.dynamics_cov.shape)}, 0.0, True)
        if time_step(model) is not None:
            return over(model, 0.0)
    what = "a parameter model" if isinstance(model, ParameterModel) else "dynamics without a dt"
    raise ValueError(
        f"{what} cannot be updated twice at one time: call predict before each update, or measure both at once"
    )
