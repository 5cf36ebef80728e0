"""Components of structural time series, each with a small state of its own (Harvey 1989, chapter 2).

A component has its transition over a gap of any length, its contribution to the measurement, and the noise covariance
of each of its variances. The models in Python, on the command line and in TOML files are built from the same
components; `structural` adds them. A variance that is not given is free: to be fitted.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.models import discretization
from wolf.models.discretization import Motion
from wolf.numerics.pytree import array_module

MAX_SEASONAL_STATES = 4_000  # of a full pattern, whose matrices have the square of that number of entries
SUGGESTED_HARMONICS = 3  # proposed instead of a full pattern: enough for a smooth one


class Part(NamedTuple):
    """Component of a structural model.

    Attributes:
        name: description, for messages.
        H: its contribution to the measurement, (1, D) or (T, 1, D).
        dynamics: gaps -> F, (D, D) or (T, D, D).
        noise: name of each variance -> (gaps -> the covariance for a unit variance).
        variances: their values by name; None is free.
        roles: of each state, "level", "slope" or "swing", which determines its initial estimate from data.
        prior: belief about its state; None is diffuse.
        whole_steps_advice: alternative to suggest if gaps are not whole steps, where that is required; "" where not.
        stationary_prior: its variance -> its prior, for a component whose variance is free.
        title: name of its states: alone for a single one, with a number in brackets for several.
        labels: names of its states where they differ from the title, such as ("level", "slope").

    Example:
        >>> level(0.1).Q.tolist()
        [[0.1]]
    """

    name: str
    H: np.ndarray
    dynamics: Motion
    noise: dict[str, Motion]
    variances: dict[str, float | None]
    roles: tuple[str, ...]
    prior: Gaussian | None = None
    whole_steps_advice: str = ""
    stationary_prior: Callable[[float], Gaussian] | None = None
    title: str = ""
    labels: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Format the name and the variances."""
        variances = [f"{name}={'free' if value is None else value}" for name, value in self.variances.items()]
        return f"Part({', '.join([self.name, *variances])})"

    def starting(self, prior: Gaussian | None) -> "Part":
        """Return a copy with another prior, or the component itself for None."""
        return self if prior is None else self._replace(prior=Gaussian(*validation.prior(prior, self.size)))

    @property
    def size(self) -> int:
        """Number of states, D."""
        return self.H.shape[-1]

    @property
    def state_names(self) -> tuple[str, ...]:
        """Name of each state: "level", or "seasonal_24[0]" and so on.

        Example:
            >>> trend().state_names, seasonal(24, harmonics=1).state_names
            (('level', 'slope'), ('seasonal_24[0]', 'seasonal_24[1]'))
        """
        title = self.title or self.name.replace(" ", "_")
        return self.labels or tuple(f"{title}[{k}]" for k in range(self.size))

    @property
    def F(self) -> np.ndarray:
        """Transition matrix of one step, (D, D)."""
        return self.dynamics(None)

    @property
    def Q(self) -> np.ndarray:
        """Noise covariance of one step, (D, D)."""
        free = [name for name, value in self.variances.items() if value is None]
        if free:
            raise ValueError(f"{', '.join(free)} of {self.name} is free; set a value first")
        total: Any = sum(self.variances[name] * noise(None) for name, noise in self.noise.items())
        return total if validation.is_traced(total) else np.asarray(total)


def level(var: float | None = None) -> Part:
    """Build a random-walk level; over a gap, Brownian motion.

    Args:
        var: variance of its step, `level_var`.
    """
    known = _known(level_var=var)
    return Part(
        "level",
        np.eye(1),
        discretization.constant(1),
        {"level_var": discretization.linear_growth(np.eye(1))},
        known,
        ("level",),
        labels=("level",),
    )


def trend(level_var: float | None = None, slope_var: float | None = None) -> Part:
    """Build a random-walk level with a random-walk slope; state (level, slope).

    Args:
        level_var: variance of the step of the level beyond the slope.
        slope_var: variance of the step of the slope.
    """
    noise = {
        "level_var": discretization.random_walk_noise(1.0, 0.0),
        "slope_var": discretization.random_walk_noise(0.0, 1.0),
    }
    known = _known(level_var=level_var, slope_var=slope_var)
    both = ("level", "slope")
    return Part("trend", np.eye(1, 2), discretization.shear(), noise, known, both, labels=both)


def damped_trend(damping: float, level_var: float | None = None, slope_var: float | None = None) -> Part:
    """Build a level with a damped slope (Gardner & McKenzie 1985); state (level, slope).

    Args:
        damping: factor on the slope per step, between 0 and 1.
        level_var: variance of the step of the level beyond the slope.
        slope_var: variance of the step of the slope.

    Example:
        >>> damped_trend(0.5, 0.1, 0.01).F.tolist()
        [[1.0, 0.5], [0.0, 0.5]]
    """
    damping = validation.fraction("damping", damping)
    noise = {
        "level_var": discretization.linear_growth(np.diag([1.0, 0.0])),
        "slope_var": discretization.damped_slope_noise(damping),
    }
    known = _known(level_var=level_var, slope_var=slope_var)
    both = ("level", "slope")
    return Part("damped trend", np.eye(1, 2), discretization.damped_shear(damping), noise, known, both, labels=both)


def ar_noise(damping: float, var: float | None = None) -> Part:
    """Build autocorrelated noise: a first-order autoregression, over gaps of any length.

    Args:
        damping: its correlation from one step to the next, between 0 and 1.
        var: variance of the shocks, `shock_var`.

    Example:
        >>> ar_noise(0.5, 3.0).prior.cov.tolist()
        [[4.0]]
    """
    damping = validation.fraction("damping", damping)

    def stationary_prior(var: float) -> Gaussian:
        return Gaussian(np.zeros(1), var / (1 - damping**2) * np.eye(1))

    noise = {"shock_var": discretization.damped_noise(damping, 1)}
    known, role = _known(shock_var=var), ("swing",)
    part = Part("AR(1) noise", np.eye(1), discretization.decay(damping), noise, known, role, labels=("ar_noise",))
    return (
        part._replace(stationary_prior=stationary_prior) if var is None else part._replace(prior=stationary_prior(var))
    )


def seasonal(period: float, var: float | None = None, harmonics: int | None = None) -> Part:
    """Build a seasonal pattern.

    Args:
        period: steps in a season, at least 2; a whole number for the full pattern.
        var: variance of the change of the pattern per step, `seasonal_var`; 0 for a constant pattern.
        harmonics: None for one effect per step of the season, which sum to zero up to noise (the dummy form), or a
            number of sines and cosines, at most half the period (the trigonometric form, smoother and smaller).

    Example:
        >>> seasonal(12, 0.1).F.shape, seasonal(12, 0.1, harmonics=2).F.shape
        ((11, 11), (4, 4))
    """
    known = _known(seasonal_var=var)
    period = validation.known_number("period", period)
    period = int(period) if period == int(period) else period
    if period < 2:
        raise ValueError(f"period must be a number of steps of at least 2; got {period!r}")
    if harmonics is None:
        if period != int(period):
            raise ValueError(f"a full pattern has a whole number of steps; got {period!r}. Pass harmonics=")
        return _full_pattern(int(period), known)._replace(title=f"seasonal_{period:g}")
    most = int(period // 2)
    if not 1 <= validation.integer("harmonics", harmonics) <= most:
        raise ValueError(f"harmonics must be between 1 and {most} for a period of {period}; got {harmonics!r}")
    return _trigonometric_pattern(period, harmonics, known)._replace(title=f"seasonal_{period:g}")


def cycle(period: float, var: float | None = None, damping: float = 1.0) -> Part:
    """Build a stochastic cycle of any period (Harvey 1989, section 2.3.3).

    Args:
        period: steps in a cycle, above 2.
        var: variance of the noise on its two states, `cycle_var`.
        damping: factor per step, in (0, 1]; below 1 the cycle is stationary, and its prior is the stationary
            distribution.
    """
    known = _known(cycle_var=var)
    traced_period, traced_damping = validation.is_traced(period), validation.is_traced(damping)
    if not 2 < (3.0 if traced_period else validation.number("period", period)) < np.inf:
        raise ValueError(f"period must be a number of steps above 2; got {period!r}")
    if not traced_damping and not 0 < validation.number("damping", damping) <= 1:
        raise ValueError(f"damping must be above 0 and at most 1; got {damping!r}")
    stationary_prior = partial(_stationary_cycle, damping)
    move, noise = (
        discretization.rotation(2 * np.pi / period, damping),
        {"cycle_var": discretization.damped_noise(damping)},
    )
    part = Part("cycle", np.eye(1, 2), move, noise, known, ("swing", "swing"))
    if not traced_damping and damping == 1:
        return part
    return (
        part._replace(stationary_prior=stationary_prior) if var is None else part._replace(prior=stationary_prior(var))
    )


def ar(coefficients: ArrayLike, var: float) -> Part:
    """Build an autoregression; its prior is its stationary distribution if it has one.

    Args:
        coefficients: (p,), of the last p values, the most recent first.
        var: variance of the shocks, `shock_var`.

    Example:
        >>> ar([0.5], 1.0).prior.cov.round(4).tolist()
        [[1.3333]]
    """
    return arma(coefficients, (), var)


def arma(ar_coefficients: ArrayLike, ma_coefficients: ArrayLike, var: float) -> Part:
    """Build an ARMA process in Harvey's form; its prior is its stationary distribution if it has one.

    Args:
        ar_coefficients: (p,), most recent first.
        ma_coefficients: (q,), of the last q shocks, most recent first.
        var: variance of the shocks, `shock_var`.
    """
    validation.variances(shock_var=var)
    given = (validation.number_array("coefficients", each) for each in (ar_coefficients, ma_coefficients))
    phi, theta = (array_module(each).atleast_1d(each) for each in given)
    for coefficients in (phi, theta):
        if coefficients.ndim != 1 or not (validation.is_traced(coefficients) or np.all(np.isfinite(coefficients))):
            raise ValueError(
                f"coefficients must be finite and of shape (p,); got {validation.short_repr(coefficients)}"
            )
    size = max(len(phi), len(theta) + 1, 1)
    xp = array_module(phi, theta)
    first = xp.concatenate([phi, np.zeros(size - len(phi))])
    dynamics = xp.concatenate([first[:, None], np.eye(size)[:, :-1]], axis=1)
    load = xp.concatenate([np.ones(1), theta, np.zeros(size - 1 - len(theta))])
    shocks = xp.outer(load, load)
    prior = _stationary(dynamics, var * shocks)
    whole_steps_advice = "insert missing rows as NaN on even steps, or use wolf.models.ornstein_uhlenbeck"
    moves = discretization.matrix_power(dynamics), {"shock_var": discretization.matrix_power_noise(dynamics, shocks)}
    swings = ("swing",) * size
    row = np.eye(1, size)
    return Part("an autoregression", row, *moves, {"shock_var": var}, swings, prior, whole_steps_advice, title="arma")


def regression(design: ArrayLike, var: ArrayLike = 0.0, names: Sequence[str] | None = None) -> Part:
    """Build a regression on known series, with the coefficients as states.

    Args:
        design: regressors (exogenous variables), (T, K) or (T,).
        var: variance of the step of each coefficient, `coefficient_1_var` and so on, a number or (K,); 0 for constant
            ones.
        names: of the regressors; the states are then `regression[rain]` and so on, and the variances `rain_var`.

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
    if steps.shape not in ((), (size,)) or not (
        validation.is_traced(steps) or np.all(np.isfinite(steps) & (steps >= 0))
    ):
        raise ValueError(f"var must be a variance of at least 0, or {size} of them; got {validation.short_repr(var)}")
    steps = array_module(steps).broadcast_to(steps, (size,))
    plain = steps if validation.is_traced(steps) else steps.tolist()
    names = validation.names("names", names, size)
    known = _known(**{f"{names[k] if names else f'coefficient_{k + 1}'}_var": plain[k] for k in range(size)})
    noise = {name: discretization.linear_growth(np.diag(row)) for name, row in zip(known, np.eye(size), strict=True)}
    labels = tuple(f"regression[{name}]" for name in names or range(size))
    roles = ("swing",) * size
    return Part("regression", rows[:, None, :], discretization.constant(size), noise, known, roles, labels=labels)


def straight_motion(dynamics_var: float | None = None, dt: float = 1.0) -> Part:
    """Build one axis of `constant_velocity`: position and velocity, with noise on both at each step; prior N(0, I).

    Args:
        dynamics_var: variance of the noise on each of them.
        dt: time of a step.
    """
    noise = {"dynamics_var": discretization.random_walk_noise(1.0, 1.0, dt)}
    return _moving_axis("constant velocity", discretization.shear(dt), noise, _known(dynamics_var=dynamics_var))


def wiener_motion(accel_rate: float | None = None) -> Part:
    """Build one axis of `wiener_velocity`: a position whose velocity is Brownian motion; prior N(0, I).

    Args:
        accel_rate: increase of the variance of the velocity per step.
    """
    return _moving_axis(
        "Wiener velocity",
        discretization.shear(),
        {"accel_rate": discretization.integrated_white_noise},
        _known(accel_rate=accel_rate),
    )


def _moving_axis(name: str, dynamics: Motion, noise: dict[str, Motion], known: dict[str, float | None]) -> Part:
    prior = Gaussian(np.zeros(2), np.eye(2))
    return Part(name, np.eye(1, 2), dynamics, noise, known, ("level", "slope"), prior, labels=("p", "v"))


def _full_pattern(period: int, known: dict[str, float | None]) -> Part:
    """Build the dummy form: one state per step of the season but one, whose effect is minus the sum of the others."""
    size = period - 1
    if size > MAX_SEASONAL_STATES:
        raise ValueError(
            f"a full pattern has one state per step, at most {MAX_SEASONAL_STATES:,}; "
            f"use harmonics={SUGGESTED_HARMONICS}"
        )
    dynamics = np.eye(size, k=-1)
    dynamics[0] = -1.0
    noise = discretization.matrix_power_noise(dynamics, np.diag([1.0] + [0.0] * (size - 1)))
    moves = discretization.matrix_power(dynamics), {"seasonal_var": noise}
    few = min(SUGGESTED_HARMONICS, (period - 1) // 2)
    advice = f"use harmonics: seasonal:{period}:{few}, in Python harmonics={few}" if few else "use even steps"
    return Part(f"a full pattern of {period} steps", np.eye(1, size), *moves, known, ("swing",) * size, None, advice)


def _stationary_cycle(damping: float, var: float) -> Gaussian:
    return Gaussian(np.zeros(2), var / (1 - damping**2) * np.eye(2))


def _trigonometric_pattern(period: float, harmonics: int, known: dict[str, float | None]) -> Part:
    """Build the trigonometric form: a sum of rotating sines and cosines (Harvey 1989, section 2.3.4)."""
    moves = [discretization.rotation(2 * np.pi * j / period) for j in range(1, harmonics + 1)]
    advice = ""
    if 2 * harmonics == period:
        moves[-1] = discretization.matrix_power(-np.eye(1))  # the fastest harmonic only changes its sign
        advice = f"leave out the harmonic that changes sign at every step: harmonics of at most {harmonics - 1}"
    sizes = [len(move(None)) for move in moves]
    row = np.concatenate([np.eye(1, size) for size in sizes], axis=1)
    # The covariance of isotropic noise is invariant to rotation, so the noise of a gap is exact.
    noise = {"seasonal_var": discretization.linear_growth(np.eye(sum(sizes)))}
    swings = ("swing",) * sum(sizes)
    return Part("a trigonometric season", row, discretization.block_motion(moves), noise, known, swings, None, advice)


def _known(**variances: float | None) -> dict[str, float | None]:
    """Validate the variances that are given."""
    validation.variances(**{name: value for name, value in variances.items() if value is not None})
    return variances


def _stationary(dynamics: np.ndarray, noise: np.ndarray) -> Gaussian | None:
    """Solve `P = F P Fᵀ + Q`, or return None if the process is not stationary."""
    xp, size = array_module(dynamics, noise), len(dynamics)
    if not validation.is_traced(dynamics) and np.abs(np.linalg.eigvals(dynamics)).max() >= 1:
        return None
    cov = xp.linalg.solve(np.eye(size**2) - xp.kron(dynamics, dynamics), noise.ravel()).reshape(size, size)
    return Gaussian(np.zeros(size), 0.5 * (cov + cov.T))
