"""Conversions and properties of models: covariances as matrices or variances, prior width, time-varying arrays."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jax import Array

from wolf.beliefs import Gaussian
from wolf.numerics.pytree import array_module
from wolf.statespace.array_fields import ModelT, replace, varies
from wolf.statespace.linear import LinearModel
from wolf.statespace.model import Model
from wolf.statespace.parameters import ParameterModel

MAX_STEPS_AHEAD = 16  # within which a state that is not measured directly affects a measurement


@runtime_checkable
class DynamicsWithNoise(Protocol):
    """Dynamics with a noise of their own, which ensembles and simulation draw."""

    def draw(self, x: Array, key: Array) -> Array:
        """Draw the next state, noise included."""
        ...


@runtime_checkable
class ManifoldDynamics(Protocol):
    """Dynamics of states on a manifold, with a vector of errors near each state."""

    def retract(self, x: Array, step: Array) -> Array:
        """Apply an error to a state."""
        ...

    def between(self, x: Array, other: Array) -> Array:
        """Compute the error from a state to another one."""
        ...


def with_matrices(model: ModelT) -> ModelT:
    """Return the model with all covariances as matrices."""
    return _map_covs(model, lambda cov: array_module(cov).diag(cov) if cov.ndim == 1 else cov)


def with_variances(model: ModelT) -> ModelT:
    """Return the model with diagonal covariances as variances."""

    def to_variances(cov: np.ndarray) -> np.ndarray:
        fixed = cov.ndim == 2 and isinstance(cov, np.ndarray)
        return np.diagonal(cov).copy() if fixed and not np.any(cov - np.diag(np.diagonal(cov))) else cov

    return _map_covs(model, to_variances)


def prior_width(model: Model) -> float:
    """Compute the ratio of prior to noise of the first measurements: the largest tr(R⁻¹ H (P + Q) Hᵀ) of a few steps.

    Returns:
        The ratio; 0 for a nonlinear model, or within a trace.

    Example:
        >>> eye = np.eye(1)
        >>> prior_width(LinearModel(None, eye, eye, 0.01 * eye, [0.0], 4.0 * eye))
        500.0
    """
    if not isinstance(model, LinearModel):
        return 0.0
    leaves = (np.eye(model.state_dim) if model.F is None else model.F, model.H, model.R, model.cov, model.Q)
    if not all(isinstance(leaf, np.ndarray) for leaf in leaves):
        return 0.0
    forward, observation, noise, prior, drift = (
        np.diag(a) if a.ndim == 1 else a[0] if a.ndim == 3 else a for a in leaves
    )
    ahead = [observation]
    with np.errstate(all="ignore"):
        for _ in range(min(model.state_dim, MAX_STEPS_AHEAD) - 1):
            ahead.append(ahead[-1] @ forward)
        each = np.stack(ahead)
        widths = (np.linalg.solve(noise, each) * (each @ (prior + drift))).sum((1, 2))  # tr(R⁻¹ A Aᵀ), each a sum
    return float(max(0.0, *widths.tolist()))


def own_noise(model: Model) -> Callable | None:
    """Return the `draw(x, key)` of dynamics with a noise of their own, or None for additive noise."""
    return model.dynamics.draw if isinstance(model.dynamics, DynamicsWithNoise) else None


def is_curved(model: Model) -> bool:
    """Return whether the states are on a manifold: the dynamics have `retract(x, step)` and `between(x, other)`.

    Example:
        >>> is_curved(LinearModel(None, np.eye(1), np.eye(1), np.eye(1), [0.0], np.eye(1)))
        False
    """
    return isinstance(model.dynamics, ManifoldDynamics)


def _map_covs(model: Any, change: Callable) -> Any:
    if isinstance(model, ParameterModel):
        return model
    if model.linear:
        return replace(model, Q=change(model.Q), R=change(model.R), cov=change(model.cov))
    prior = Gaussian(model.prior.mean, change(model.prior.cov))
    return replace(model, dynamics_cov=change(model.dynamics_cov), obs_cov=change(model.obs_cov), prior=prior)


def time_axes(model: Model) -> dict[str, int]:
    """Return the length of the time axis of each array that has one."""
    if isinstance(model, ParameterModel):
        return {}
    names = ("F", "H", "Q", "R", "B") if model.linear else ("dynamics_cov", "obs_cov")
    fields = vars(model)
    return {name: len(fields[name]) for name in names if varies(fields[name])}
