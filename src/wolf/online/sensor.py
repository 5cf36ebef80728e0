"""Observation models of single sensors, for steps in which one of several sensors measures the state."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation


class Sensor:
    """Observation model of one of several sensors: `online.step(y, dt=..., sensor=gps)`.

    Make each sensor once and reuse it: a function is compiled at its first step.

    Args:
        observe: observation matrix H, (M, D), or a function h(x) in JAX's numpy, (D,) -> (M,).
        R: noise covariance, (M, M); or the variance, if it measures one coordinate.
        residual: difference of a measurement and its prediction, `residual(y, prediction)`, say for angles; only with
            a function.
        delay: age of a measurement when it comes, in the unit of the model's steps, as of a camera; for filters with
            a horizon that reaches so far back.

    Example:
        >>> import wolf
        >>> car = wolf.models.constant_velocity(dims=1, dt=1.0, dynamics_var=0.1, obs_var=1.0)
        >>> speedometer = Sensor([[0.0, 1.0]], 0.01)
        >>> online = wolf.Online(car, "WoLF")
        >>> for t in range(50):
        ...     info = online.step(3.0, dt=0.1, sensor=speedometer)
        >>> bool(abs(online.mean[1] - 3.0) < 0.1)
        True
    """

    def __init__(
        self, observe: ArrayLike | Callable, R: ArrayLike, residual: Callable | None = None, *, delay: float = 0.0
    ):
        validation.not_negative("delay", delay)
        self.delay = float(validation.finite("delay", delay))
        noise = np.atleast_2d(validation.number_array("R", R))
        if noise.ndim != 2 or noise.shape[0] != noise.shape[1]:
            raise ValueError(f"R must have shape (M, M), or be one variance; got {np.shape(R)}")
        if not np.all(np.isfinite(noise)) or np.linalg.eigvalsh((noise + noise.T) / 2)[0] <= 0:
            raise ValueError(f"R must be positive definite; got {noise.tolist()}")
        self.R = noise
        self.residual = residual
        if callable(observe):
            self.observe: np.ndarray | Callable = observe
            return
        if residual is not None:
            raise ValueError("residual goes with a function h(x); with a matrix the residual is y - H x")
        matrix = np.atleast_2d(validation.number_array("observe", observe))
        if matrix.ndim != 2 or len(matrix) != len(noise):
            raise ValueError(f"a matrix must have a row for each of the {len(noise)} rows of R; got {matrix.shape}")
        self.observe = matrix

    def changes(self) -> dict[str, np.ndarray | Callable | None]:
        """Return what differs from the model in a step of this sensor."""
        if not callable(self.observe):
            return {"H": self.observe, "R": self.R}
        return {"observe": self.observe, "R": self.R, "residual": self.residual}

    def __repr__(self) -> str:
        """Summarise the observation model."""
        what = validation.callable_name(self.observe) if callable(self.observe) else "a matrix"
        return f"Sensor({what}, {len(self.R)} measured)"
