"""Models of things that move."""

import numpy as np

from wolf import checks
from wolf.model import LinearModel
from wolf.types import Gaussian


def constant_velocity(
    dims: int, dt: float, dynamics_var: float, obs_var: float, prior: Gaussian | None = None
) -> LinearModel:
    """Model an object that keeps its velocity up to white noise, with its position measured.

    State (positions, velocities), `Q = dynamics_var I`, `R = obs_var I`: for two dimensions, dt 0.1, 0.1 and 10 the
    tracking problem of Duran-Martin et al. (2024, section 5.1).

    Args:
        dims: number of space dimensions.
        dt: time between measurements.
        dynamics_var: variance of the noise on every state.
        obs_var: variance of the noise on every measured position.
        prior: belief about the state at time 0; N(0, I) without one.

    Example:
        >>> constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=10.0)
        LinearModel(4 states, 2 measured)
    """
    if not isinstance(dims, int) or dims < 1:
        raise ValueError(f"dims must be a whole number of at least 1; got {dims!r}")
    checks.variances(dynamics_var=dynamics_var, obs_var=obs_var)
    checks.positive("dt", dt)
    size = 2 * dims
    prior = Gaussian(np.zeros(size), np.eye(size)) if prior is None else prior
    dynamics = np.kron([[1.0, dt], [0.0, 1.0]], np.eye(dims))
    return LinearModel(dynamics, np.eye(dims, size), dynamics_var * np.eye(size), obs_var * np.eye(dims), *prior)
