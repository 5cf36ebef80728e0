"""Gaussian processes as state-space models: Matérn kernels of smoothness 1/2, 3/2 and 5/2, exact, in linear time.

With λ = √(2ν) / length a process with the Matérn kernel k(τ) is the first coordinate of a stochastic differential
equation dx = A x dt + dW for itself and its derivatives (Hartikainen & Särkkä 2010):

    ν = 1/2   k(τ) = var exp(-λ τ)
    ν = 3/2   k(τ) = var (1 + λ τ) exp(-λ τ)
    ν = 5/2   k(τ) = var (1 + λ τ + λ² τ² / 3) exp(-λ τ)

so filtering and smoothing with "KF" is regression with that kernel, and robust regression with a robust method, at a
cost that is linear in the number of measurements instead of cubic.
"""

from functools import partial
from math import factorial
from typing import Any

import jax.numpy as jnp
import numpy as np

from wolf import validation
from wolf.models.continuous import discretise, time_steps
from wolf.models.discretization import diagonal
from wolf.numerics.pytree import array_module
from wolf.statespace import LinearModel

SMOOTHNESS = (0.5, 1.5, 2.5)
LONG_GAP = 1.0  # in 1/λ; above, Q is the stationary covariance minus its propagation, which cancels below


def matern(
    times: object, smoothness: float, length: float, signal_var: float, obs_var: float, start: float | None = None
) -> LinearModel:
    """Build a Gaussian process of time with a Matérn kernel, measured with noise.

    State: the function and its derivatives, as many as it has. The mean is zero: subtract the median of the data first.
    To predict at other times insert them into `times`, with NaN for the measurement, and smooth.

    Args:
        times: of the measurements, (T,), not decreasing.
        smoothness: ν, 0.5 (rough), 1.5 or 2.5 (twice differentiable).
        length: length scale of the kernel, in the unit of the times.
        signal_var: variance of the function.
        obs_var: variance of the noise.
        start: time of the stationary prior; it does not affect the result.

    Example:
        >>> matern([0.0, 0.3, 2.0], smoothness=1.5, length=1.0, signal_var=2.0, obs_var=0.1)
        LinearModel(2 states, 1 measured, F, Q vary in time)
    """
    if validation.is_traced(smoothness) or smoothness not in SMOOTHNESS:
        raise ValueError(f"smoothness must be one of 0.5, 1.5 and 2.5; got {validation.short_repr(smoothness)}")
    for name, value in (("length", length), ("signal_var", signal_var), ("obs_var", obs_var)):
        validation.positive_number(name, value)
    motion = partial(_move, smoothness, length, signal_var)
    steps, which = np.unique(time_steps(times, start), return_inverse=True)  # equal gaps are discretised once
    dynamics, noise = motion(steps)
    _, _, stationary = _equation(smoothness, length, signal_var)
    size = len(stationary)
    model = LinearModel(dynamics[which], np.eye(1, size), noise[which], obs_var * np.eye(1), np.zeros(size), stationary)
    return model.with_motion(motion)


def _equation(smoothness: float, length: float, var: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute A, the spectral density of dW, and the stationary covariance."""
    rate = np.sqrt(2.0 * smoothness) / length
    xp = array_module(rate, var)
    if smoothness == SMOOTHNESS[0]:
        return xp.array([[-rate]]), xp.array([[2.0 * rate * var]]), xp.array([[var]])
    if smoothness == SMOOTHNESS[1]:
        drift = xp.array([[0.0, 1.0], [-(rate**2), -2.0 * rate]])
        return drift, diagonal([0.0, 4.0 * rate**3 * var]), diagonal([var, rate**2 * var])
    drift = xp.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [-(rate**3), -3.0 * rate**2, -3.0 * rate]])
    slope = rate**2 * var / 3.0
    stationary = xp.array([[var, 0.0, -slope], [0.0, slope, 0.0], [-slope, 0.0, rate**4 * var]])
    return drift, diagonal([0.0, 0.0, 16.0 / 3.0 * rate**5 * var]), stationary


def _move(smoothness: float, length: float, var: float, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute F and Q over time steps: A + λ I is nilpotent, so exp(A t) is exp(-λ t) times a finite sum."""
    drift, diffusion, stationary = _equation(smoothness, length, var)
    rate = np.sqrt(2.0 * smoothness) / length
    nilpotent, size = drift + rate * np.eye(len(drift)), len(drift)
    gaps = np.asarray(times, np.float64)[:, None, None]
    xp = array_module(rate, var)
    powers = (xp.linalg.matrix_power(nilpotent, k) * gaps**k / factorial(k) for k in range(size))
    dynamics: Any = xp.exp(-rate * gaps) * sum(powers)
    long = rate * gaps > LONG_GAP
    noise = stationary - dynamics @ stationary @ xp.swapaxes(dynamics, -1, -2)
    if xp is jnp:
        noise = jnp.where(long, noise, discretise(drift, diffusion, gaps[:, 0, 0])[1])
    elif not long.all():
        short = ~long[:, 0, 0]
        noise[short] = discretise(drift, diffusion, gaps[short, 0, 0])[1]
    return dynamics, 0.5 * (noise + xp.swapaxes(noise, -1, -2))
