"""Parts of a structural time series, each with a small state of its own (Harvey 1989, chapter 2).

A part says how it moves over a gap of any length, what it adds to the measurement, and what noise each of its variances
brings. The same parts make the models of Python, of the command line and of TOML files; `structural` adds them up.
A variance that is not given is free: to be fitted.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.models import discretization
from wolf.models.discretization import Motion

MOST_STATES = 4_000  # of a full pattern; its matrices have the square of that
FEW = 3  # waves that are proposed in place of a full pattern: enough for a smooth one


class Part(NamedTuple):
    """One part of a structural model.

    Attributes:
        name: what it is, for messages.
        H: what it adds to the measurement, (1, D) or (T, 1, D).
        dynamics: gaps -> F, (D, D) or (T, D, D).
        noise: name of each variance -> (gaps -> the covariance that a unit of it brings).
        variances: their values by name; None is free.
        roles: of each state, "level", "slope" or "swing": how its start is guessed from data.
        prior: belief about its state; None is vague.
        whole: what to do about gaps that are not whole steps, if it has no meaning there; "" if it has.
        settled: its variance -> its prior, for a part whose prior waits for a free variance.

    Example:
        >>> level(0.1).Q.tolist()
        [[0.1]]
    """

    name: str
    H: np.ndarray
    dynamics: Motion
    noise: dict[str, Motion]
    variances: dict[str, Any]
    roles: tuple[str, ...]
    prior: Gaussian | None = None
    whole: str = ""
    settled: Callable[[float], Gaussian] | None = None

    def __repr__(self) -> str:
        """Tell what it is and its variances."""
        told = [f"{name}={'free' if value is None else value}" for name, value in self.variances.items()]
        return f"Part({', '.join([self.name, *told])})"

    def starting(self, prior: Gaussian | None) -> "Part":
        """Copy with another prior."""
        return self if prior is None else self._replace(prior=Gaussian(*validation.prior(prior, self.size)))

    @property
    def size(self) -> int:
        """Number of states, D."""
        return self.H.shape[-1]

    @property
    def F(self) -> np.ndarray:
        """How the state moves in one step, (D, D)."""
        return self.dynamics(None)

    @property
    def Q(self) -> np.ndarray:
        """Noise of one step, (D, D)."""
        free = [name for name, value in self.variances.items() if value is None]
        if free:
            raise ValueError(f"{', '.join(free)} of {self.name} is free; give it a value first")
        return np.asarray(sum(self.variances[name] * noise(None) for name, noise in self.noise.items()))


def level(var: float | None = None) -> Part:
    """Make a random walk; over a gap, Brownian motion.

    Args:
        var: variance of its step, `level_var`.
    """
    known = _known(level_var=var)
    return Part(
        "level",
        np.eye(1),
        discretization.resting(1),
        {"level_var": discretization.growing(np.eye(1))},
        known,
        ("level",),
    )


def trend(level_var: float | None = None, slope_var: float | None = None) -> Part:
    """Make a level whose slope moves as a random walk; state (level, slope).

    Args:
        level_var: variance of the step of the level beyond the slope.
        slope_var: variance of the step of the slope.
    """
    noise = {"level_var": discretization.walked(1.0, 0.0), "slope_var": discretization.walked(0.0, 1.0)}
    known = _known(level_var=level_var, slope_var=slope_var)
    return Part("trend", np.eye(1, 2), discretization.shear(), noise, known, ("level", "slope"))


def damped_trend(damping: float, level_var: float | None = None, slope_var: float | None = None) -> Part:
    """Make a level whose slope fades (Gardner & McKenzie 1985); state (level, slope).

    Args:
        damping: what is left of the slope after a step, between 0 and 1.
        level_var: variance of the step of the level beyond the slope.
        slope_var: variance of the step of the slope.

    Example:
        >>> damped_trend(0.5, 0.1, 0.01).F.tolist()
        [[1.0, 0.5], [0.0, 0.5]]
    """
    if not 0 < validation.number("damping", damping) < 1:
        raise ValueError(f"damping must be between 0 and 1; got {damping!r}")
    noise = {"level_var": discretization.growing(np.diag([1.0, 0.0])), "slope_var": discretization.faded(damping)}
    known = _known(level_var=level_var, slope_var=slope_var)
    return Part("damped trend", np.eye(1, 2), discretization.fading_shear(damping), noise, known, ("level", "slope"))


def ar_noise(damping: float, var: float | None = None) -> Part:
    """Make noise that is like the one before it: an autoregression of one step, at gaps of any length.

    Args:
        damping: its correlation from one step to the next, between 0 and 1.
        var: variance of the shocks, `shock_var`.

    Example:
        >>> ar_noise(0.5, 3.0).prior.cov.tolist()
        [[4.0]]
    """
    if not 0 < validation.number("damping", damping) < 1:
        raise ValueError(f"damping must be between 0 and 1; got {damping!r}")

    def settled(var: float) -> Gaussian:
        return Gaussian(np.zeros(1), var / (1 - damping**2) * np.eye(1))

    noise = {"shock_var": discretization.fading(damping, 1)}
    part = Part(
        "noise that lasts", np.eye(1), discretization.shrinking(damping), noise, _known(shock_var=var), ("swing",)
    )
    return part._replace(settled=settled) if var is None else part._replace(prior=settled(var))


def seasonal(period: float, var: float | None = None, harmonics: int | None = None) -> Part:
    """Make a pattern that repeats.

    Args:
        period: steps in a season, at least 2; a whole number for the full pattern.
        var: variance by which the pattern changes at each step, `seasonal_var`; 0 keeps it.
        harmonics: None for one effect for each step of the season that sum to zero up to noise (the dummy form), or a
            number of sines and cosines, at most half the period (the trigonometric form, smoother and smaller).

    Example:
        >>> seasonal(12, 0.1).F.shape, seasonal(12, 0.1, harmonics=2).F.shape
        ((11, 11), (4, 4))
    """
    known = _known(seasonal_var=var)
    period = validation.number("period", period)
    period = int(period) if period == int(period) else period
    if period < 2:
        raise ValueError(f"period must be a number of steps of at least 2; got {period!r}")
    if harmonics is None:
        if period != int(period):
            raise ValueError(f"a full pattern has a whole number of steps; got {period!r}. Say how many harmonics")
        return _full_pattern(int(period), known)
    most = int(period // 2)
    if not 1 <= validation.integer("harmonics", harmonics) <= most:
        raise ValueError(f"harmonics must be between 1 and {most} for a period of {period}; got {harmonics!r}")
    return _waves(period, harmonics, known)


def cycle(period: float, var: float | None = None, damping: float = 1.0) -> Part:
    """Make a stochastic cycle whose period need not be whole (Harvey 1989, section 2.3.3).

    Args:
        period: steps in a cycle, above 2.
        var: variance of the noise on its two states, `cycle_var`.
        damping: factor at each step, in (0, 1]; below 1 the cycle is stationary, and its prior is its own distribution.
    """
    known = _known(cycle_var=var)
    if not 2 < validation.number("period", period) < np.inf:
        raise ValueError(f"period must be a number of steps above 2; got {period!r}")
    if not 0 < validation.number("damping", damping) <= 1:
        raise ValueError(f"damping must be above 0 and at most 1; got {damping!r}")
    settled = partial(_settled_cycle, damping)
    move, noise = discretization.turning(2 * np.pi / period, damping), {"cycle_var": discretization.fading(damping)}
    part = Part("cycle", np.eye(1, 2), move, noise, known, ("swing", "swing"))
    if damping == 1:
        return part
    return part._replace(settled=settled) if var is None else part._replace(prior=settled(var))


def ar(coefficients: Any, var: float) -> Part:
    """Make an autoregression; its prior is its stationary distribution if it has one.

    Args:
        coefficients: (p,), of the last p values, the latest first.
        var: variance of the shocks, `shock_var`.

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
        var: variance of the shocks, `shock_var`.
    """
    validation.variances(shock_var=var)
    phi, theta = (np.atleast_1d(validation.number_array("coefficients", c)) for c in (ar_coefficients, ma_coefficients))
    for coefficients in (phi, theta):
        if coefficients.ndim != 1 or not np.all(np.isfinite(coefficients)):
            raise ValueError(
                f"coefficients must be finite and of shape (p,); got {validation.short_repr(coefficients)}"
            )
    size = max(len(phi), len(theta) + 1, 1)
    dynamics = np.eye(size, k=1)
    dynamics[: len(phi), 0] = phi
    load = np.concatenate([[1.0], theta, np.zeros(size - 1 - len(theta))])
    shocks = np.outer(load, load)
    prior = _stationary(dynamics, var * shocks)
    whole = "give its missing rows as NaN on even steps, or use wolf.models.ornstein_uhlenbeck"
    moves = discretization.stepping(dynamics), {"shock_var": discretization.stepping_noise(dynamics, shocks)}
    return Part("an autoregression", np.eye(1, size), *moves, {"shock_var": var}, ("swing",) * size, prior, whole)


def regression(design: Any, var: Any = 0.0) -> Part:
    """Make a regression on known series, with coefficients as states.

    Args:
        design: regressors, (T, K) or (T,).
        var: variance of each coefficient's step, `coefficient_1_var` and so on, a number or (K,); 0 keeps them fixed.

    Example:
        >>> regression(np.ones((100, 2))).H.shape
        (100, 1, 2)
    """
    rows = validation.number_array("design", design)
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or not rows.size or not np.all(np.isfinite(rows)):
        raise ValueError(f"design must be a finite array of shape (T, K); got shape {rows.shape}")
    size = rows.shape[1]
    steps = validation.number_array("var", var)
    if steps.shape not in ((), (size,)) or not np.all(np.isfinite(steps) & (steps >= 0)):
        raise ValueError(f"var must be a variance of at least 0, or {size} of them; got {validation.short_repr(var)}")
    steps = np.broadcast_to(steps, size)
    known = _known(**{f"coefficient_{k + 1}_var": float(each) for k, each in enumerate(steps)})
    noise = {name: discretization.growing(np.diag(row)) for name, row in zip(known, np.eye(size), strict=True)}
    return Part("regression", rows[:, None, :], discretization.resting(size), noise, known, ("swing",) * size)


def straight_motion(dynamics_var: float | None = None, dt: float = 1.0) -> Part:
    """Make one axis of `constant_velocity`: position and velocity, both shaken at each step; prior N(0, I).

    Args:
        dynamics_var: variance of the noise on each of them.
        dt: time of a step.
    """
    noise = {"dynamics_var": discretization.walked(1.0, 1.0, dt)}
    return _moving_axis("constant velocity", discretization.shear(dt), noise, _known(dynamics_var=dynamics_var))


def wiener_motion(accel_rate: float | None = None) -> Part:
    """Make one axis of `wiener_velocity`: a position whose velocity is Brownian motion; prior N(0, I).

    Args:
        accel_rate: variance that the velocity gains in one step.
    """
    return _moving_axis(
        "Wiener velocity",
        discretization.shear(),
        {"accel_rate": discretization.integrated},
        _known(accel_rate=accel_rate),
    )


def _moving_axis(name: str, dynamics: Motion, noise: dict[str, Motion], known: dict[str, Any]) -> Part:
    return Part(name, np.eye(1, 2), dynamics, noise, known, ("level", "slope"), Gaussian(np.zeros(2), np.eye(2)))


def _full_pattern(period: int, known: dict[str, Any]) -> Part:
    """Give every step of a season but one a state; the last is minus their sum."""
    size = period - 1
    if size > MOST_STATES:
        raise ValueError(
            f"a full pattern has a state for each step, at most {MOST_STATES:,}; use waves: harmonics={FEW}"
        )
    dynamics = np.eye(size, k=-1)
    dynamics[0] = -1.0
    shaken = discretization.stepping_noise(dynamics, np.diag([1.0] + [0.0] * (size - 1)))
    moves = discretization.stepping(dynamics), {"seasonal_var": shaken}
    few = min(FEW, (period - 1) // 2)
    whole = f"use waves: seasonal:{period}:{few}, in Python harmonics={few}" if few else "use even steps"
    return Part(f"a full pattern of {period} steps", np.eye(1, size), *moves, known, ("swing",) * size, None, whole)


def _settled_cycle(damping: float, var: float) -> Gaussian:
    return Gaussian(np.zeros(2), var / (1 - damping**2) * np.eye(2))


def _waves(period: float, harmonics: int, known: dict[str, Any]) -> Part:
    """Add up sines and cosines, each turning on with time (Harvey 1989, section 2.3.4)."""
    moves = [discretization.turning(2 * np.pi * j / period) for j in range(1, harmonics + 1)]
    whole = ""
    if 2 * harmonics == period:
        moves[-1] = discretization.stepping(-np.eye(1))  # the fastest wave only flips its sign
        whole = f"leave out the wave that flips at every step: harmonics of at most {harmonics - 1}"
    sizes = [len(move(None)) for move in moves]
    row = np.concatenate([np.eye(1, size) for size in sizes], axis=1)
    # Turning leaves the covariance of isotropic noise as it is, so the noise of a gap is exact.
    noise = {"seasonal_var": discretization.growing(np.eye(sum(sizes)))}
    swings = ("swing",) * sum(sizes)
    return Part("a season of waves", row, discretization.side_by_side(moves), noise, known, swings, None, whole)


def _known(**variances: float | None) -> dict[str, Any]:
    """Check the variances that are given."""
    validation.variances(**{name: value for name, value in variances.items() if value is not None})
    return variances


def _stationary(dynamics: np.ndarray, noise: np.ndarray) -> Gaussian | None:
    """Solve `P = F P Fᵀ + Q`, if the process settles."""
    if np.abs(np.linalg.eigvals(dynamics)).max() >= 1:
        return None
    size = len(dynamics)
    cov = np.linalg.solve(np.eye(size**2) - np.kron(dynamics, dynamics), noise.ravel()).reshape(size, size)
    return Gaussian(np.zeros(size), 0.5 * (cov + cov.T))
