"""Sensors: what one of several measures of the state, and how well, for steps at their own rates."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation


class Sensor:
    """One of several sensors of a state: `online.step(y, dt=..., sensor=gps)`.

    Make each once and use it again: a function is compiled when it first comes.

    Args:
        observe: what it measures of the state: a matrix H, (M, D), or a function h(x) in JAX's numpy, (D,) -> (M,).
        R: covariance of its noise, (M, M); or the variance, of one coordinate.
        residual: how to subtract a prediction from a measurement, `residual(y, prediction)`, for angles; only with a
            function.

    Example:
        >>> import wolf
        >>> car = wolf.models.constant_velocity(dims=1, dt=1.0, dynamics_var=0.1, obs_var=1.0)
        >>> speedometer = Sensor([[0.0, 1.0]], 0.01)
        >>> online = wolf.Online(car, "WoLF")
        >>> for t in range(50):
        ...     told = online.step(3.0, dt=0.1, sensor=speedometer)
        >>> bool(abs(online.mean[1] - 3.0) < 0.1)
        True
    """

    def __init__(self, observe: ArrayLike | Callable, R: ArrayLike, residual: Callable | None = None):
        noise = np.atleast_2d(validation.number_array("R", R))
        if noise.ndim != 2 or noise.shape[0] != noise.shape[1]:
            raise ValueError(f"R must have shape (M, M), or be one variance; got {np.shape(R)}")
        if not np.all(np.isfinite(noise)) or np.linalg.eigvalsh((noise + noise.T) / 2)[0] <= 0:
            raise ValueError(f"R must be positive definite; got {noise.tolist()}")
        self.R = noise
        self.residual = residual
        if callable(observe):
            self.observe: Any = observe
            return
        if residual is not None:
            raise ValueError("residual goes with a function h(x); a matrix is subtracted from as it is")
        matrix = np.atleast_2d(validation.number_array("observe", observe))
        if matrix.ndim != 2 or len(matrix) != len(noise):
            raise ValueError(f"a matrix must have a row for each of the {len(noise)} rows of R; got {matrix.shape}")
        self.observe = matrix

    def changes(self) -> dict[str, Any]:
        """Say what is other than in the model, for one step."""
        if not callable(self.observe):
            return {"H": self.observe, "R": self.R}
        return {"observe": self.observe, "R": self.R, "residual": self.residual}

    def __repr__(self) -> str:
        """Tell what it measures."""
        what = getattr(self.observe, "__name__", repr(self.observe)) if callable(self.observe) else "a matrix"
        return f"Sensor({what}, {len(self.R)} measured)"
