"""Exogenous variables (covariates, regressors): known series that measurements depend on.

    y_t = h(x_t) + β_t' u_t + v_t,   β_t = β_{t-1} + N(0, drift)

The coefficients β are states, so that they are estimated with the others, robustly, with their uncertainty; they are
constant unless a variance lets them drift (Harvey 1989, section 7.3; Durbin & Koopman 2012, section 3.6).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.models.discretization import block_diagonal
from wolf.numerics.frame_labels import columns_of
from wolf.statespace import LinearModel
from wolf.statespace.array_fields import replace
from wolf.statespace.names import group_of

GROUP = "regression"  # name of the component; its states are regression[rain] and so on
DIFFUSE_VARIANCE_RATIO = 1e6  # of the prior of a typical contribution over R


class Exogenous(NamedTuple):
    """Values of exogenous variables.

    Attributes:
        values: (T, K).
        names: of the variables.
    """

    values: np.ndarray
    names: tuple[str, ...]

    @property
    def mean_squares(self) -> np.ndarray:
        """Mean square of each variable, (K,); 1 for one that is 0 throughout."""
        squares = np.mean(self.values**2, axis=0)
        return np.asarray(np.where(squares > 0, squares, 1.0))


def read_exogenous(exog: object, names: Sequence[str] | None = None, argument: str = "exog") -> Exogenous:
    """Validate exogenous variables.

    Args:
        exog: (T, K) or (T,), finite; or a data frame.
        names: of the variables. Default: the columns of the frame, else x1, x2, ...
        argument: name for errors.

    Example:
        >>> read_exogenous([0.0, 1.0, 0.0]).names
        ('x1',)
    """
    values = validation.data_array(argument, exog)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or not values.size:
        raise ValueError(f"{argument} must have shape (T, K), one row for each step; got {values.shape}")
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if bad.size:
        raise ValueError(
            f"{argument} must be finite, and is not in row {bad[0]}{' and others' if bad.size > 1 else ''}: fill the "
            "gaps of exogenous variables first, for example with wolf.filter_frame"
        )
    given = columns_of(exog) if names is None else names
    named = validation.names("names", given, values.shape[1])
    return Exogenous(values, named or tuple(f"x{k + 1}" for k in range(values.shape[1])))


def with_exogenous(
    model: LinearModel,
    exog: ArrayLike,
    *,
    drift_var: ArrayLike = 0.0,
    prior_var: ArrayLike | None = None,
    names: Sequence[str] | None = None,
) -> LinearModel:
    """Augment a linear model with exogenous variables, whose coefficients are further states.

    Args:
        model: linear. The coefficients are appended to its states: those of the first measurement, then of the second.
        exog: values of the variables at each step, (T, K) or (T,); or a data frame.
        drift_var: variance of the step of the coefficients, a number or (K,). 0 for constant coefficients.
        prior_var: variance of the coefficients at time 0, a number or (K,). Default: diffuse.
        names: of the variables. Default: the columns of the frame, else x1, x2, ...

    Returns:
        A model of T steps, whose new states are called `regression[rain]` and so on. `wolf.forecast(out, steps,
        exog=...)` takes the values of the future.

    Example:
        >>> from wolf.models import local_level
        >>> rain = np.arange(50.0) % 7
        >>> model = with_exogenous(local_level(level_var=0.1, obs_var=1.0), rain, names=["rain"])
        >>> model.state_names, model.H.shape
        (('level', 'regression[rain]'), (50, 1, 2))
    """
    if not isinstance(model, LinearModel):
        raise ValueError(
            f"exogenous variables need a linear model; got {model!r}. A model of functions takes them as inputs u"
        )
    given = read_exogenous(exog, names)
    size, steps = len(given.names), len(given.values)
    if model.H.ndim == 3 and len(model.H) < steps:
        raise ValueError(f"exog has {steps} rows, but H of the model only {len(model.H)}")
    largest = float(np.max(np.diagonal(np.asarray(model.R), axis1=-2, axis2=-1)))
    prior = DIFFUSE_VARIANCE_RATIO * largest / given.mean_squares if prior_var is None else prior_var
    prior, drift = (_variances(name, value, size) for name, value in (("prior_var", prior), ("drift_var", drift_var)))
    total = size * model.obs_dim
    own = np.broadcast_to(model.H[:steps] if model.H.ndim == 3 else model.H, (steps, model.obs_dim, model.state_dim))
    augmented = LinearModel(
        None if model.F is None else block_diagonal([model.F, np.eye(total)]),
        np.concatenate([own, _rows(given.values, model.obs_dim)], axis=-1),
        block_diagonal([model.Q, np.diag(np.tile(drift, model.obs_dim))]),
        model.R,
        np.concatenate([model.mean, np.zeros(total)]),
        block_diagonal([model.cov, np.diag(np.tile(prior, model.obs_dim))]),
        None if model.B is None else np.concatenate([model.B, _no_inputs(model.B, total)], axis=-2),
        model.residual,
        _state_names(model, given.names),
        model.obs_names,
    )
    return augmented


def with_future(model: LinearModel, exog: object, steps: int, first: int) -> LinearModel:
    """Return a copy whose H continues with exogenous variables of the future.

    Args:
        model: from `with_exogenous`, or with a `regression` component.
        exog: values of the steps ahead, (steps, K).
        steps: number of steps ahead.
        first: number of steps so far.
    """
    states = [k for k, name in enumerate(model.state_names or ()) if group_of(name) == GROUP]
    if not states or model.H.ndim != 3:
        raise ValueError("exog= of the future goes with a model that has exogenous variables: wolf.models."
                         "with_exogenous, or exog= of wolf.fit and wolf.choose")  # fmt: skip
    given = read_exogenous(exog)
    size = len(states) // model.obs_dim
    if given.values.shape != (steps, size):
        raise ValueError(f"exog must have shape ({steps}, {size}), one row for each step ahead; "
                         f"got {given.values.shape}")  # fmt: skip
    others = np.delete(model.H, states, axis=-1)
    if np.any(others != others[:1]):
        raise ValueError("H varies in time beyond the exogenous variables: give a model that reaches further instead")
    ahead = np.repeat(model.H[:1], steps, axis=0).copy()
    ahead[..., states] = _rows(given.values, model.obs_dim)
    return replace(model, H=np.concatenate([model.H[:first], ahead]))


def _rows(values: np.ndarray, measured: int) -> np.ndarray:
    """Build the part of H that multiplies the coefficients, (T, M, M K)."""
    return np.kron(np.eye(measured), values[:, None, :])


def _variances(name: str, given: object, size: int) -> np.ndarray:
    found = validation.number_array(name, given)
    if found.shape not in ((), (size,)) or np.any(~(found >= 0)) or not np.all(np.isfinite(found)):
        raise ValueError(f"{name} must be a variance of at least 0, or {size} of them; got {given!r}")
    return np.broadcast_to(found, (size,))


def _no_inputs(B: np.ndarray, size: int) -> np.ndarray:
    return np.zeros((*B.shape[:-2], size, B.shape[-1]))


def _state_names(model: LinearModel, variables: tuple[str, ...]) -> tuple[str, ...]:
    own = model.state_names or tuple(f"state_{k}" for k in range(model.state_dim))
    if model.obs_dim == 1:
        return (*own, *(f"{GROUP}[{name}]" for name in variables))
    measured = model.obs_names or range(model.obs_dim)
    return (*own, *(f"{GROUP}[{name}, {obs}]" for obs in measured for name in variables))
