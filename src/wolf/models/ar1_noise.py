"""Autocorrelated (AR(1), coloured) measurement noise as part of the state: wandering biases, errors with one cause.

    y_t = h(x_t) + n_t + v_t,   n_t = φ n_{t-1} + w_t,   Cov n = s R,   Cov v = (1 - s) R

A filter for white noise treats every error as independent. If the noise is autocorrelated, its intervals are too narrow
by a factor of about √((1 + φ) / (1 - φ)). State augmentation with n (Bryson & Henrikson 1968) corrects that without any
other change.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.interfaces import Number
from wolf.models.discretization import block_diagonal
from wolf.numerics.pytree import array_module, function, pytree, static
from wolf.statespace import LinearModel, StateSpaceModel, is_curved
from wolf.statespace.bound_functions import call, num_arguments


def with_ar1_noise(
    model: LinearModel | StateSpaceModel, phi: float, share: float = 0.9
) -> LinearModel | StateSpaceModel:
    """Augment the state of a model with AR(1) measurement noise; R remains the total noise covariance.

    Args:
        model: linear or nonlinear. The noise states, one per measured coordinate, are appended to its states.
        phi: φ, the autocorrelation of the noise from one step to the next, between 0 and 1. Errors with a correlation
            time of n steps have about `exp(-1 / n)`.
        share: s, share of R that is autocorrelated. The rest is white.

    Returns:
        A model of the same kind. Its first states are those of `model`.

    Example:
        >>> from wolf.models import constant_velocity
        >>> with_ar1_noise(constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0), phi=0.9)
        LinearModel(6 states, 2 measured)
    """
    if not isinstance(model, LinearModel | StateSpaceModel):
        raise ValueError(f"model must be a LinearModel or a StateSpaceModel; got {validation.short_repr(model)}")
    for name, value in (("phi", phi), ("share", share)):
        number = validation.positive_number(name, value)
        if not validation.is_traced(number) and number >= 1.0:
            raise ValueError(f"{name} must be below 1; got {number:g}")
    noise = _matrix(model.obs_cov)
    stationary_cov, shock_cov = share * noise, share * (1.0 - phi**2) * noise
    first = stationary_cov if stationary_cov.ndim == 2 else stationary_cov[0]
    prior = Gaussian(
        array_module(model.prior.mean).concatenate([model.prior.mean, np.zeros(model.obs_dim)]),
        _blocks(_matrix(model.prior.cov), first),
    )
    if isinstance(model, StateSpaceModel):
        if is_curved(model):
            raise ValueError("states on a curved space, such as attitudes, cannot be augmented with noise states")
        return StateSpaceModel(
            _augmented(model.dynamics, phi, model.state_dim),
            _augmented(model.observe, None, model.state_dim),
            _blocks(_matrix(model.dynamics_cov), shock_cov),
            (1.0 - share) * noise,
            prior,
            model.residual,
            model.inputs,
            _noise_names(model),
            model.obs_names,
        )
    return _augmented_linear(model, phi, shock_cov, (1.0 - share) * noise, prior)


def _noise_names(model: LinearModel | StateSpaceModel) -> tuple[str, ...] | None:
    """Append names of the noise states to those of the model."""
    if model.state_names is None:
        return None
    return (*model.state_names, *(f"ar1_noise[{j}]" for j in model.obs_names or range(model.obs_dim)))


def _augmented_linear(
    model: LinearModel, phi: float, shock_cov: np.ndarray, white_cov: np.ndarray, prior: Gaussian
) -> LinearModel:
    size = model.obs_dim
    dynamics = np.eye(model.state_dim) if model.F is None else model.F
    noise_rows = np.broadcast_to(np.eye(size), (*model.H.shape[:-2], size, size))
    inputs = model.B
    if inputs is not None:
        blank = np.zeros((*inputs.shape[:-2], size, inputs.shape[-1]))
        inputs = array_module(inputs).concatenate([inputs, blank], axis=-2)
    augmented = LinearModel(
        _blocks(dynamics, phi * np.eye(size)),
        array_module(model.H).concatenate([model.H, noise_rows], axis=-1),
        _blocks(model.Q, shock_cov),
        white_cov,
        *prior,
        B=inputs,
        residual=model.residual,
        state_names=_noise_names(model),
        obs_names=model.obs_names,
    )
    if model.step_time is None or shock_cov.ndim > 2:
        return augmented
    stationary_cov = shock_cov / (1.0 - phi**2)

    def motion(times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        correlation = phi ** (times / model.step_time)
        dynamics, noise = model.over(times)
        return (
            _blocks(dynamics, correlation[:, None, None] * np.eye(size)),
            _blocks(noise, (1.0 - correlation**2)[:, None, None] * stationary_cov),
        )

    return augmented.with_motion(motion, model.step_time)


@pytree
class _Augmented:
    """A function of the first states, augmented with noise in the others.

    Attributes:
        fn: f(x) or f(x, u); None is the identity.
        phi: factor on the noise states, which are appended to the result; None adds them to the result.
        size: D, number of the first states.
    """

    fn: Callable | None = function()
    phi: Number | None
    size: int = static()

    def __call__(self, x: Array) -> Array:
        """Apply f(x)."""
        return self._apply(x, None)

    def _apply(self, x: Array, u: Array | None) -> Array:
        state, noise = x[: self.size], x[self.size :]
        state = state if self.fn is None else call(self.fn, state, u)
        return state + noise if self.phi is None else jnp.concatenate([state, self.phi * noise])


@pytree
class _AugmentedWithInputs(_Augmented):
    """The same for a function with inputs."""

    def __call__(self, x: Array, u: Array) -> Array:  # type: ignore[override]
        """Apply f(x, u)."""
        return self._apply(x, u)


def _augmented(fn: Callable | None, phi: float | None, size: int) -> _Augmented:
    has_inputs = fn is not None and num_arguments(fn) > 1
    return (_AugmentedWithInputs if has_inputs else _Augmented)(fn, phi, size)


def _matrix(cov: ArrayLike) -> np.ndarray:
    """Return a covariance matrix, from a matrix or variances."""
    array: Any = cov if validation.is_traced(cov) else np.asarray(cov)
    return array if array.ndim > 1 else array_module(array).diag(array)  # type: ignore[no-any-return]


def _blocks(*matrices: Any) -> np.ndarray:
    """Build a block-diagonal matrix, any block of which may have a time axis."""
    return block_diagonal(list(matrices))
