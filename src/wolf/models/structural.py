"""Structural time series: a level that wanders, a trend that bends (Harvey 1989, chapter 2)."""

import numpy as np

from wolf import checks
from wolf.model import LinearModel
from wolf.types import Gaussian

VAGUE = 1e6  # prior variance over measurement variance, when no prior is given: the first data decide


def local_level(level_var: float, obs_var: float, prior: Gaussian | None = None) -> LinearModel:
    """Model a level that moves as a random walk, measured with noise.

    Args:
        level_var: variance of the step of the level.
        obs_var: variance of the noise.
        prior: belief about the level before the first step. Without one it is N(0, 10⁶ obs_var), which lets the first
            measurement decide as long as the level is within about 1000 noise deviations of 0.

    Example:
        >>> local_level(level_var=0.1, obs_var=1.0)
        LinearModel(1 states, 1 measured)
    """
    checks.variances(level_var=level_var, obs_var=obs_var)
    prior = _vague(1, obs_var) if prior is None else prior
    return LinearModel(np.eye(1), np.eye(1), level_var * np.eye(1), obs_var * np.eye(1), *prior)


def local_trend(level_var: float, slope_var: float, obs_var: float, prior: Gaussian | None = None) -> LinearModel:
    """Model a level with a slope that itself moves as a random walk; state (level, slope).

    Args:
        level_var: variance of the step of the level beyond the slope.
        slope_var: variance of the step of the slope.
        obs_var: variance of the noise.
        prior: belief about (level, slope) before the first step; vague as in `local_level` without one.

    Example:
        >>> local_trend(level_var=0.1, slope_var=0.01, obs_var=1.0).F.tolist()
        [[1.0, 1.0], [0.0, 1.0]]
    """
    checks.variances(level_var=level_var, slope_var=slope_var, obs_var=obs_var)
    prior = _vague(2, obs_var) if prior is None else prior
    dynamics = np.array([[1.0, 1.0], [0.0, 1.0]])
    return LinearModel(dynamics, np.eye(1, 2), np.diag([level_var, slope_var]), obs_var * np.eye(1), *prior)


def _vague(size: int, obs_var: float) -> Gaussian:
    return Gaussian(np.zeros(size), VAGUE * obs_var * np.eye(size))
