"""Checks of native code on a platform where it is not known to work, for a process of their own.

They use what differs between platforms: object format, calling conventions, large stack frames, functions of the C
library and of Python. Results are compared with Kalman filters of one state written in NumPy.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from wolf.api import filter, filter_many
from wolf.beliefs import Gaussian
from wolf.models import constant_velocity, local_level
from wolf.native.execute import platform_check
from wolf.online import Online
from wolf.statespace import StateSpaceModel

STEPS, SERIES = 20, 9  # a register of eight series, and one more
TOLERANCE = {"float64": 1e-12, "float32": 1e-4}
LEVEL_VAR, OBS_VAR, PRIOR_VAR = 0.1, 1.0, 2.0
SLOPE = 0.5  # of the function atan2, to which arguments of both signs are given

Function = Callable[[npt.ArrayLike], np.ndarray]


def main() -> None:
    """Run all checks in this process; print a line if all pass, and raise an AssertionError otherwise."""
    platform_check.assume_works()
    ys = np.sin(np.arange(STEPS)) + 0.1 * np.cos(7.0 * np.arange(STEPS))
    ys[3] = np.nan
    _check_level(ys)
    _check_functions(ys)
    _check_default(ys)
    print(platform_check.PASSED)


def _check_level(ys: np.ndarray) -> None:
    """Filter a series, many series and single measurements by a Kalman filter."""
    model = local_level(LEVEL_VAR, OBS_VAR, Gaussian(np.zeros(1), PRIOR_VAR * np.eye(1)))
    expected = _kalman(ys, lambda x: np.asarray(x), np.ones_like)
    for dtype, tolerance in TOLERANCE.items():
        out = filter(model, ys, method="KF", backend="native", dtype=dtype)  # type: ignore[arg-type]
        _compare(out.means[:, 0], expected, tolerance)
    many = filter_many(model, np.tile(ys, (SERIES, 1)), method="KF", backend="native")
    for each in many.means:
        _compare(each[:, 0], expected, TOLERANCE["float64"])
    online = Online(model, method="KF", backend="native")
    for y, mean in zip(ys, expected, strict=True):
        online.step(np.array([y]))
        _compare(online.mean, mean, TOLERANCE["float64"])


def _check_functions(ys: np.ndarray) -> None:
    """Filter by functions of the C library."""
    eye = np.eye(1)
    model = StateSpaceModel(
        dynamics=lambda x: x,
        observe=lambda x: jnp.sin(x) + jnp.arctan2(x, SLOPE) + jnp.log1p(jnp.exp(x)),
        dynamics_cov=LEVEL_VAR * eye,
        obs_cov=OBS_VAR * eye,
        prior=Gaussian(np.zeros(1), PRIOR_VAR * eye),
    )
    out = filter(model, ys[:, None], method="EKF", backend="native")
    expected = _kalman(
        ys,
        lambda x: np.sin(x) + np.arctan2(x, SLOPE) + np.log1p(np.exp(x)),
        lambda x: np.cos(x) + SLOPE / (SLOPE**2 + np.square(x)) + 1 / (1 + np.exp(-np.asarray(x))),
    )
    _compare(out.means[:, 0], expected, TOLERANCE["float64"])


def _check_default(ys: np.ndarray) -> None:
    """Run the default method, whose step has the largest frame: alone and in registers it must agree."""
    model = constant_velocity(dims=2, dt=0.1, dynamics_var=0.1, obs_var=OBS_VAR)
    planar = np.stack([ys, ys[::-1]], axis=-1)
    alone = filter(model, planar, backend="native")
    _compare(np.isfinite(alone.means), True, 0.0)
    many = filter_many(model, np.tile(planar, (SERIES, 1, 1)), backend="native")
    _compare(many.means, np.broadcast_to(alone.means, many.means.shape), 0.0)


def _kalman(ys: np.ndarray, observe: Function, slope: Function) -> np.ndarray:
    """Filter a random walk by the extended Kalman filter in NumPy."""
    mean, var, means = 0.0, PRIOR_VAR, []
    for y in ys:
        var += LEVEL_VAR
        if np.isfinite(y):
            h = float(slope(mean))
            gain = var * h / (h * var * h + OBS_VAR)
            mean, var = mean + gain * (y - float(observe(mean))), (1 - gain * h) * var
        means.append(mean)
    return np.array(means)


def _compare(found: npt.ArrayLike, expected: npt.ArrayLike, tolerance: float) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=tolerance, atol=tolerance)
