"""Prediction intervals calibrated online: adaptive conformal inference on standardised innovations.

The filter gives the shape of an interval, the standard deviation of the innovation; the radius is learned for each
coordinate from whether past measurements were inside (Gibbs and Candès, arXiv 2106.00170; on the filter's ellipsoid,
arXiv 2606.17014; as a tracked quantile, arXiv 2307.16895). With θ the logarithm of the radius over the normal quantile,
γ the rate, α = 1 - level and err = 1 if a measurement was outside, else 0,

    θ ← θ + γ (err - α),   radius = quantile * exp(θ),   0 where θ <= -L,   infinite where θ >= L,   L = ln 1000.

Summing the updates, the mean of err - α over T measurements is (θ_T - θ_0) / (γ T), whatever the measurements were. As
the last two cases keep θ within L + γ of 0, |coverage - level| <= (L + γ) / (γ T): no model is assumed.
"""

import dataclasses
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.beliefs.density import deviations

MAX_LOG_SCALE = float(np.log(1000.0))


@dataclasses.dataclass(frozen=True)
class ConformalIntervals:
    """Adaptive conformal prediction intervals, of measurements given the past.

    Args:
        level: share of measurements that the intervals hold.
        rate: γ, step of the logarithm of the radius: a measurement outside raises the radius by about 100 γ per cent.
        skip_outliers: calibrate on measurements that the filter does not classify as outliers. By default all count:
            then the stated share of all measurements is inside, and where more than 1 - level are gross errors the
            intervals have to include gross errors.

    Example:
        >>> intervals = ConformalIntervals(level=0.9)
        >>> bool(intervals.bound(10_000) < 0.008)
        True
    """

    level: float = 0.95
    rate: float = 0.1
    skip_outliers: bool = False

    def __post_init__(self) -> None:
        """Validate the level and the rate."""
        validation.confidence_level(self.level)
        if not 0.0 < validation.positive_number("rate", self.rate) <= 1.0:
            raise ValueError(f"rate must be above 0 and at most 1; got {self.rate!r}")

    def bound(self, count: int) -> float:
        """Compute the largest possible |coverage - level| after a number of measurements."""
        return (MAX_LOG_SCALE + self.rate) / (self.rate * count)

    def radius(self, log_scale: np.ndarray) -> np.ndarray:
        """Compute the radius in standard deviations of the innovation.

        Args:
            log_scale: θ, of any shape.
        """
        radius = deviations(self.level) * np.exp(log_scale)
        return np.where(log_scale >= MAX_LOG_SCALE, np.inf, np.where(log_scale <= -MAX_LOG_SCALE, 0.0, radius))

    def adapt(
        self, log_scale: np.ndarray, residuals: np.ndarray, variances: np.ndarray, outliers: ArrayLike | None = None
    ) -> np.ndarray:
        """Return θ after one measurement of each coordinate; unchanged where it is missing.

        Args:
            log_scale: θ before the measurement, (..., M).
            residuals: measurement minus prediction, (..., M); NaN where missing.
            variances: of the residuals, (..., M).
            outliers: which measurements the filter classifies as outliers, (...,) or (..., M).
        """
        radius = self.radius(log_scale)
        with np.errstate(invalid="ignore"):
            inside = (np.abs(residuals) <= radius * np.sqrt(variances)) & (radius > 0.0) | np.isinf(radius)
        counted = ~np.isnan(residuals)
        if self.skip_outliers and outliers is not None:
            rejected = np.asarray(outliers, bool)
            counted &= ~(rejected if rejected.ndim == counted.ndim else rejected[..., None])
        return log_scale + np.where(counted, self.rate * (self.level - inside), 0.0)

    def track(
        self, residuals: np.ndarray, variances: np.ndarray, outliers: np.ndarray | None = None, delay: int = 1
    ) -> np.ndarray:
        """Compute the radius before each measurement of a series, and the one after all of them.

        Args:
            residuals: (..., T, M), NaN where missing.
            variances: (..., T, M).
            outliers: (..., T) or (..., T, M).
            delay: after how many steps a residual is known: the horizon of a forecast. It adds γ (delay - 1) to the
                numerator of the bound.

        Returns:
            Radii, (..., T + 1, M).
        """
        steps = residuals.shape[-2]
        log_scale = np.zeros((steps + 1, *residuals.shape[:-2], residuals.shape[-1]))
        used = np.zeros_like(log_scale)
        for t in range(steps):
            used[t] = log_scale[max(t - delay + 1, 0)]
            rejected = None if outliers is None else _at(outliers, t, residuals.ndim)
            new = self.adapt(used[t], residuals[..., t, :], variances[..., t, :], rejected)
            log_scale[t + 1] = log_scale[t] + (new - used[t])
        used[steps] = log_scale[steps]
        return np.moveaxis(self.radius(used), 0, -2)


Calibration = Literal["conformal"] | ConformalIntervals | None


def read_calibration(calibrate: object) -> ConformalIntervals | None:
    """Validate the argument `calibrate`."""
    if calibrate is None or isinstance(calibrate, ConformalIntervals):
        return calibrate
    if isinstance(calibrate, str) and calibrate == "conformal":
        return ConformalIntervals()
    got = validation.short_repr(calibrate)
    raise ValueError(f'calibrate must be "conformal", a wolf.ConformalIntervals(level, rate) or None; got {got}')


def calibration_of(header: dict[str, Any]) -> ConformalIntervals | None:
    """Return by which intervals a saved filter calibrates."""
    given = header.get("calibrate")
    if given is None:
        return None
    names = {field.name for field in dataclasses.fields(ConformalIntervals)}
    if not isinstance(given, dict) or given.keys() != names:
        raise ValueError(f"the file is damaged: calibrate is {validation.short_repr(given)}")
    return ConformalIntervals(**given)


def innovation_variances(covs: np.ndarray) -> np.ndarray:
    """Return the variances of innovations, (..., M), from their covariances."""
    return np.diagonal(covs, axis1=-2, axis2=-1)


def _at(outliers: np.ndarray, t: int, axes: int) -> np.ndarray:
    return outliers[..., t, :] if outliers.ndim == axes else outliers[..., t]
