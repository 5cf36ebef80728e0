"""Structural time series: a measurement as a sum of components, at even steps or given times (Harvey 1989, chapter 2).

model = wolf.models.structural(wolf.models.trend(0.1, 0.01), wolf.models.seasonal(12, 0.05), obs_var=1.0)
"""

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.models.components import Part, level, trend
from wolf.models.continuous import time_steps
from wolf.models.structural import add_up
from wolf.statespace import LinearModel


def structural(*parts: Part, obs_var: float, times: object = None, start: float | None = None) -> LinearModel:
    """Build a model of one measurement from components.

    Args:
        *parts: from `level`, `trend`, `seasonal`, `cycle`, `ar`, `arma`, `regression`.
        obs_var: variance of the measurement noise.
        times: of the measurements, (T,), in units of steps, not decreasing; default: even steps.
        start: time of the prior; default: the first time. Only with times.

    Example:
        >>> structural(trend(0.1, 0.01), obs_var=1.0)
        LinearModel(2 states, 1 measured)
        >>> structural(trend(0.1, 0.01), obs_var=1.0, times=[0.0, 1.0, 3.5])
        LinearModel(2 states, 1 measured, F, Q vary in time)
    """
    validation.variances(obs_var=obs_var)
    for part in parts:
        if not isinstance(part, Part):
            raise ValueError(f"parts must come from wolf.models, as level(0.1); got {validation.short_repr(part)}")
    if not parts:
        raise ValueError("structural needs at least one part, such as wolf.models.level(0.1)")
    return add_up("the sum", parts, obs_var).model(gaps=None if times is None else time_steps(times, start))


def local_level(level_var: float, obs_var: float, prior: Gaussian | None = None) -> LinearModel:
    """Build a random-walk level, measured with noise.

    Args:
        level_var: variance of the step of the level.
        obs_var: variance of the noise.
        prior: belief about the level before the first step; default: N(0, 10⁶ obs_var), which the first measurement
            dominates as long as the level is within about 1000 noise standard deviations of 0.

    Example:
        >>> local_level(level_var=0.1, obs_var=1.0)
        LinearModel(1 state, 1 measured)
    """
    return structural(level(level_var).starting(prior), obs_var=obs_var)


def local_trend(level_var: float, slope_var: float, obs_var: float, prior: Gaussian | None = None) -> LinearModel:
    """Build a random-walk level with a random-walk slope; state (level, slope).

    Args:
        level_var: variance of the step of the level in addition to the slope.
        slope_var: variance of the step of the slope.
        obs_var: variance of the noise.
        prior: belief about (level, slope) before the first step; default: diffuse as in `local_level`.

    Example:
        >>> local_trend(level_var=0.1, slope_var=0.01, obs_var=1.0).F.tolist()
        [[1.0, 1.0], [0.0, 1.0]]
    """
    return structural(trend(level_var, slope_var).starting(prior), obs_var=obs_var)
