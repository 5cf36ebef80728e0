"""Measurement noise with a memory, as a part of the state: biases that wander, errors of one cause in a row.

    y_t = h(x_t) + n_t + v_t,   n_t = φ n_{t-1} + w_t,   Cov n = s R,   Cov v = (1 - s) R

A filter takes noise without memory for news. Where errors last it believes the tenth equal one as much as the first,
and its intervals are too narrow by about the root of (1 + φ) / (1 - φ). With n among the states (Bryson & Henrikson
1968) it knows that there was little news, and nothing else needs to be changed.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.numerics.pytree import function, pytree, static
from wolf.statespace import LinearModel, StateSpaceModel
from wolf.statespace.bound_functions import call, num_arguments


def with_ar1_noise(
    model: LinearModel | StateSpaceModel, memory: float, share: float = 0.9
) -> LinearModel | StateSpaceModel:
    """Give the measurement noise of a model a memory; R stays its whole covariance.

    Args:
        model: linear or not. The states that are added, one for each measured coordinate, come after its own.
        memory: φ, what noise keeps from one step to the next, between 0 and 1. Errors that last for n steps have
            about `exp(-1 / n)`.
        share: s, how much of R has that memory. The rest is new in each measurement.

    Returns:
        A model of the same kind. Its first states are those of `model`.

    Example:
        >>> from wolf.models import constant_velocity
        >>> with_ar1_noise(constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0), memory=0.9)
        LinearModel(6 states, 2 measured)
    """
    if not isinstance(model, LinearModel | StateSpaceModel):
        raise ValueError(f"model must be a LinearModel or a StateSpaceModel; got {validation.short_repr(model)}")
    for name, value in (("memory", memory), ("share", share)):
        number = validation.positive_number(name, value)
        if number >= 1.0:
            raise ValueError(f"{name} must be below 1; got {number:g}")
    noise = _matrix(model.obs_cov)
    lasting, news = share * noise, share * (1.0 - memory**2) * noise
    first = lasting if lasting.ndim == 2 else lasting[0]
    prior = Gaussian(
        np.concatenate([model.prior.mean, np.zeros(model.obs_dim)]), _beside(_matrix(model.prior.cov), first)
    )
    if isinstance(model, StateSpaceModel):
        if model.dynamics is not None and hasattr(model.dynamics, "retract"):
            raise ValueError("states that cannot be added to, as attitudes, cannot have noise beside them")
        return StateSpaceModel(
            _beside_noise(model.dynamics, memory, model.state_dim),
            _beside_noise(model.observe, None, model.state_dim),
            _beside(_matrix(model.dynamics_cov), news),
            (1.0 - share) * noise,
            prior,
            model.residual,
        )
    return _linear(model, memory, news, (1.0 - share) * noise, prior)


def _linear(model: LinearModel, memory: float, news: np.ndarray, rest: np.ndarray, prior: Gaussian) -> LinearModel:
    size = model.obs_dim
    moves = np.eye(model.state_dim) if model.F is None else model.F
    seen = np.broadcast_to(np.eye(size), (*model.H.shape[:-2], size, size))
    inputs = model.B
    if inputs is not None:
        inputs = np.concatenate([inputs, np.zeros((*inputs.shape[:-2], size, inputs.shape[-1]))], axis=-2)
    made = LinearModel(
        _beside(moves, memory * np.eye(size)),
        np.concatenate([model.H, seen], axis=-1),
        _beside(model.Q, news),
        rest,
        *prior,
        B=inputs,
        residual=model.residual,
    )
    if model.step_time is None or news.ndim > 2:
        return made
    lasting = news / (1.0 - memory**2)

    def motion(times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        kept = memory ** (times / model.step_time)
        dynamics, noise = model.over(times)
        return (
            _beside(dynamics, kept[:, None, None] * np.eye(size)),
            _beside(noise, (1.0 - kept**2)[:, None, None] * lasting),
        )

    return made.with_motion(motion, model.step_time)


@pytree
class _Beside:
    """A function of the first states, beside noise in the others.

    Attributes:
        fn: f(x) or f(x, u); None is the identity.
        kept: what becomes of the noise: None adds it to what is measured, a factor leaves it behind the state.
        size: D, of the first states.
    """

    fn: Any = function()
    kept: Any
    size: int = static()

    def __call__(self, x: Array) -> Array:
        """Apply f, without inputs."""
        return self._apply(x, None)

    def _apply(self, x: Array, u: Array | None) -> Array:
        own, noise = x[: self.size], x[self.size :]
        own = own if self.fn is None else call(self.fn, own, u)
        return own + noise if self.kept is None else jnp.concatenate([own, self.kept * noise])


@pytree
class _BesideWithInputs(_Beside):
    """The same of a function that takes inputs."""

    def __call__(self, x: Array, u: Array) -> Array:  # type: ignore[override]
        """Apply f(x, u)."""
        return self._apply(x, u)


def _beside_noise(fn: Any, kept: float | None, size: int) -> _Beside:
    takes = fn is not None and num_arguments(fn) > 1
    return (_BesideWithInputs if takes else _Beside)(fn, kept, size)


def _matrix(cov: Any) -> np.ndarray:
    """Write variances out as a matrix."""
    cov = np.asarray(cov)
    return cov if cov.ndim > 1 else np.diag(cov)


def _beside(one: Any, other: Any) -> np.ndarray:
    """Put two matrices on a diagonal, either of which may have a time axis."""
    one, other = np.asarray(one), np.asarray(other)
    lead = np.broadcast_shapes(one.shape[:-2], other.shape[:-2])
    n, m = one.shape[-1], other.shape[-1]
    whole = np.zeros((*lead, n + m, n + m), np.result_type(one, other))
    whole[..., :n, :n], whole[..., n:, n:] = one, other
    return whole
