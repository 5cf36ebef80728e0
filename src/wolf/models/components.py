"""Structural time series: a measurement as a sum of parts, each with its own small state (Harvey 1989, chapter 2).

    model = wolf.models.structural(wolf.models.trend(0.1, 0.01), wolf.models.seasonal(12, 0.05), obs_var=1.0)

A part says how it moves and what it adds to the measurement; `structural` stacks parts into one model.
"""

from typing import Any, NamedTuple

import numpy as np

from wolf import checks
from wolf.belief import Gaussian
from wolf.statespace import LinearModel

VAGUE = 1e6  # prior variance over measurement variance, when no prior is given: the first data decide


class Part(NamedTuple):
    """One part of a structural model.

    Attributes:
        F: how its state moves, (D, D).
        H: what it adds to the measurement, (1, D) or (T, 1, D).
        Q: noise of its state, (D, D).
        prior: belief about its state; None is vague.
    """

    F: np.ndarray
    H: np.ndarray
    Q: np.ndarray
    prior: Gaussian | None = None


def structural(*parts: Part, obs_var: float) -> LinearModel:
    """Add parts up to a model of one measurement.

    Args:
        *parts: from `level`, `trend`, `seasonal`, `cycle`, `ar`, `arma`, `regression`.
        obs_var: variance of the measurement noise.

    Example:
        >>> structural(level(0.1), seasonal(4, 0.01), obs_var=1.0)
        LinearModel(4 states, 1 measured)
    """
    checks.variances(obs_var=obs_var)
    if not parts:
        raise ValueError("structural needs at least one part, such as wolf.models.level(0.1)")
    priors = [diffuse_prior(len(p.F), VAGUE * obs_var) if p.prior is None else p.prior for p in parts]
    steps = {len(p.H) for p in parts if p.H.ndim == 3}
    if len(steps) > 1:
        raise ValueError(f"the parts' regressors must have one length; got {sorted(steps)}")
    rows = [np.broadcast_to(p.H, (*steps, *p.H.shape[-2:])) for p in parts]
    return LinearModel(
        F=_blocks([p.F for p in parts]),
        H=np.concatenate(rows, axis=-1),
        Q=_blocks([p.Q for p in parts]),
        R=obs_var * np.eye(1),
        mean=np.concatenate([prior.mean for prior in priors]),
        cov=_blocks([prior.cov for prior in priors]),
    )


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
    return structural(level(level_var)._replace(prior=prior), obs_var=obs_var)


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
    return structural(trend(level_var, slope_var)._replace(prior=prior), obs_var=obs_var)


def level(var: float) -> Part:
    """Make a random walk with steps of this variance."""
    checks.variances(level_var=var)
    return Part(np.eye(1), np.eye(1), var * np.eye(1))


def trend(level_var: float, slope_var: float) -> Part:
    """Make a level whose slope moves as a random walk; state (level, slope)."""
    checks.variances(level_var=level_var, slope_var=slope_var)
    return Part(np.array([[1.0, 1.0], [0.0, 1.0]]), np.eye(1, 2), np.diag([level_var, slope_var]))


def seasonal(period: int, var: float, harmonics: int | None = None) -> Part:
    """Make a pattern that repeats.

    Args:
        period: steps in a season, at least 2.
        var: variance by which the pattern changes at each step; 0 keeps it.
        harmonics: None for one effect for each step of the season that sum to zero up to noise (the dummy form), or a
            number of sines and cosines, at most half the period (the trigonometric form, smoother and smaller).

    Example:
        >>> seasonal(12, 0.1).F.shape, seasonal(12, 0.1, harmonics=2).F.shape
        ((11, 11), (4, 4))
    """
    checks.variances(seasonal_var=var)
    if not isinstance(period, int) or period < 2:
        raise ValueError(f"period must be a whole number of at least 2; got {period!r}")
    if harmonics is None:
        size = period - 1
        dynamics = np.eye(size, k=-1)
        dynamics[0] = -1.0
        return Part(dynamics, np.eye(1, size), np.diag([var] + [0.0] * (size - 1)))
    if not isinstance(harmonics, int) or not 1 <= harmonics <= period // 2:
        raise ValueError(f"harmonics must be between 1 and {period // 2} for a period of {period}; got {harmonics!r}")
    waves = [_rotation(2 * np.pi * j / period, 1.0) for j in range(1, harmonics + 1)]
    if 2 * harmonics == period:
        waves[-1] = -np.eye(1)  # the fastest wave only flips its sign
    row = np.concatenate([np.eye(1, len(wave)) for wave in waves], axis=1)
    return Part(_blocks(waves), row, var * np.eye(row.shape[1]))


def cycle(period: float, var: float, damping: float = 1.0) -> Part:
    """Make a stochastic cycle whose period need not be whole (Harvey 1989, section 2.3.3).

    Args:
        period: steps in a cycle, above 2.
        var: variance of the noise on its two states.
        damping: factor at each step, in (0, 1]; below 1 the cycle is stationary, and its prior is its own distribution.
    """
    checks.variances(cycle_var=var)
    if not period > 2:
        raise ValueError(f"period must be above 2 steps; got {period!r}")
    if not 0 < damping <= 1:
        raise ValueError(f"damping must be above 0 and at most 1; got {damping!r}")
    prior = Gaussian(np.zeros(2), var / (1 - damping**2) * np.eye(2)) if damping < 1 else None
    return Part(_rotation(2 * np.pi / period, damping), np.eye(1, 2), var * np.eye(2), prior)


def ar(coefficients: Any, var: float) -> Part:
    """Make an autoregression; its prior is its stationary distribution if it has one.

    Args:
        coefficients: (p,), of the last p values, the latest first.
        var: variance of the shocks.

    Example:
        >>> ar([0.5], 1.0).prior.cov.round(4).tolist()
        [[1.3333]]
    """
    return arma(coefficients, (), var)


def arma(ar_coefficients: Any, ma_coefficients: Any, var: float) -> Part:
    """Make an ARMA process in Harvey's form; its prior is its stationary distribution if it has one.

    Args:
        ar_coefficients: (p,), latest first.
        ma_coefficients: (q,), of the last q shocks, latest first.
        var: variance of the shocks.
    """
    checks.variances(shock_var=var)
    phi, theta = (np.atleast_1d(checks.number_array("coefficients", c)) for c in (ar_coefficients, ma_coefficients))
    size = max(len(phi), len(theta) + 1, 1)
    dynamics = np.eye(size, k=1)
    dynamics[: len(phi), 0] = phi
    load = np.concatenate([[1.0], theta, np.zeros(size - 1 - len(theta))])
    noise = var * np.outer(load, load)
    return Part(dynamics, np.eye(1, size), noise, _stationary(dynamics, noise))


def regression(design: Any, var: Any = 0.0) -> Part:
    """Make a regression on known series, with coefficients as states.

    Args:
        design: regressors, (T, K) or (T,).
        var: variance of each coefficient's step, a number or (K,); 0 keeps the coefficients fixed.

    Example:
        >>> regression(np.ones((100, 2))).H.shape
        (100, 1, 2)
    """
    rows = checks.number_array("design", design)
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or not np.all(np.isfinite(rows)):
        raise ValueError(f"design must be a finite array of shape (T, K); got shape {rows.shape}")
    steps = np.broadcast_to(checks.number_array("var", var), rows.shape[1])
    for each in steps:
        checks.variances(coefficient_var=each)
    return Part(np.eye(rows.shape[1]), rows[:, None, :], np.diag(steps))


def diffuse_prior(size: int, variance: float, mean: Any = 0.0) -> Gaussian:
    """Make a prior that says next to nothing: N(mean, variance I) with a large variance.

    Args:
        size: number of states.
        variance: as large as the squares of the states may be, and much more. Joseph and square-root forms lose
            nothing to a large one.
        mean: a number or (D,).
    """
    checks.positive("variance", variance)
    return Gaussian(np.broadcast_to(np.asarray(mean, np.float64), (size,)).copy(), variance * np.eye(size))


def _stationary(dynamics: np.ndarray, noise: np.ndarray) -> Gaussian | None:
    """Solve `P = F P Fᵀ + Q`, if the process settles."""
    if np.abs(np.linalg.eigvals(dynamics)).max() >= 1:
        return None
    size = len(dynamics)
    cov = np.linalg.solve(np.eye(size**2) - np.kron(dynamics, dynamics), noise.ravel()).reshape(size, size)
    return Gaussian(np.zeros(size), 0.5 * (cov + cov.T))


def _rotation(angle: float, damping: float) -> np.ndarray:
    cosine, sine = np.cos(angle), np.sin(angle)
    return damping * np.array([[cosine, sine], [-sine, cosine]])


def _blocks(matrices: list[np.ndarray]) -> np.ndarray:
    """Put matrices along the diagonal."""
    size = sum(len(m) for m in matrices)
    whole, start = np.zeros((size, size)), 0
    for m in matrices:
        whole[start : start + len(m), start : start + len(m)] = m
        start += len(m)
    return whole
