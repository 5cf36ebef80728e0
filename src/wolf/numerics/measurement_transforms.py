"""Monotone transforms of measurements to a scale without bounds: log, logit, square root, or a pair of functions.

A model of z = g(y) with Gaussian errors is one of y with errors that grow with the level and intervals that keep to the
range of y. As g is monotone, quantiles map to quantiles: limits of an interval are transformed back one by one, and
the transformed mean is the median of y.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from wolf import validation

NAMES = ("log", "logit", "sqrt")
MAX_OUTSIDE = 0.05  # share of the values outside of the range, above which the transform does not fit the data
MIN_VALUES = 20  # fewer values have no such share
PERCENT = 100.0
NUM_PROBES = 65  # places at which a pair of functions is checked

Map = Callable[[np.ndarray], np.ndarray]


class MeasurementTransform(NamedTuple):
    """Monotone transform of measurements.

    Attributes:
        name: as given; "functions" for a pair of them.
        forward: y -> z.
        inverse: z -> y.
        lower: lower bound of y; -inf for none.
        upper: upper bound; inf for none.

    Example:
        >>> log = read_transform("log")
        >>> log.apply(np.array([1.0, np.e, -3.0, np.nan])).tolist()
        [0.0, 1.0, -inf, nan]
        >>> percent = read_transform("logit:0:100")
        >>> percent.undo(np.array([-50.0, 0.0, 50.0])).round(6).tolist()
        [0.0, 50.0, 100.0]
    """

    name: str
    forward: Map
    inverse: Map
    lower: float = -np.inf
    upper: float = np.inf

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Transform measurements.

        A value beyond a bound becomes infinite, which is an outlier. A value on a bound whose transform is infinite is
        moved inside by half of the smallest distance of the others.

        Args:
            values: of any shape; NaN where missing.
        """
        values = np.asarray(values, np.float64)
        inside = (values > self.lower) & (values < self.upper)
        self._check(values)
        usable = np.where(inside, values, np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):
            moved = np.array(values)
            for bound, sign in ((self.lower, 1.0), (self.upper, -1.0)):
                on_bound = values == bound
                if on_bound.any() and np.isfinite(bound) and not np.isfinite(self.forward(np.array(bound))):
                    gaps = np.abs(usable[inside] - bound)
                    moved[on_bound] = bound + sign * 0.5 * (gaps.min() if gaps.size else 1.0)
            transformed = self.forward(np.where(np.isfinite(moved), np.clip(moved, self.lower, self.upper), moved))
            transformed = np.where(np.isnan(values), np.nan, transformed)
        beyond = np.where(values < self.lower, -np.inf, np.where(values > self.upper, np.inf, 0.0))
        return np.where(beyond == 0.0, transformed, beyond)

    def undo(self, transformed: np.ndarray) -> np.ndarray:
        """Transform values, such as limits of intervals, back to the scale of the measurements."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.clip(self.inverse(np.asarray(transformed, np.float64)), self.lower, self.upper)

    def undo_deviation(self, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
        """Return half of the width of the interval of one standard deviation, on the scale of the measurements."""
        return 0.5 * (self.undo(mean + deviation) - self.undo(mean - deviation))

    def _check(self, values: np.ndarray) -> None:
        """Raise an error where many values are outside of the range: the transform does not fit these data."""
        known = values[np.isfinite(values)]
        outside = int(((known < self.lower) | (known > self.upper)).sum())
        if known.size >= MIN_VALUES and outside > MAX_OUTSIDE * known.size:
            raise ValueError(
                f"transform {self.name!r} needs values from {self.lower:g} to {self.upper:g}; {outside:,} of "
                f"{known.size:,} are outside (the range is {known.min():g} to {known.max():g})"
            )


def read_transform(given: object) -> MeasurementTransform | None:
    """Read the argument `transform`; None for None.

    Args:
        given: "log", "sqrt", "logit" (of shares from 0 to 1), "logit:LOWER:UPPER", a pair of increasing functions
            (forward, inverse) of NumPy arrays, or a `MeasurementTransform`.

    Example:
        >>> read_transform((np.cbrt, lambda z: z**3)).undo(np.array([2.0])).tolist()
        [8.0]
    """
    if given is None or isinstance(given, MeasurementTransform):
        return given
    if isinstance(given, str):
        return _named(given)
    if isinstance(given, tuple | list) and len(given) == 2 and all(map(callable, given)):
        found = MeasurementTransform("functions", *given)
        _check_pair(found)
        return found
    raise ValueError(_expected(given))


def _named(given: str) -> MeasurementTransform:
    name, *bounds = given.strip().lower().split(":")
    if name == "log" and not bounds:
        return MeasurementTransform("log", np.log, np.exp, 0.0)
    if name == "sqrt" and not bounds:
        return MeasurementTransform("sqrt", np.sqrt, _square, 0.0)
    if name == "logit" and len(bounds) in (0, 2):
        try:
            low, high = map(float, bounds or ("0", "1"))
        except ValueError:
            raise ValueError(_expected(given)) from None
        if np.isfinite(low) and np.isfinite(high) and low < high:
            return _logit(given, low, high)
    raise ValueError(_expected(given))


def _square(z: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(z, 0.0) ** 2)


def _logit(name: str, low: float, high: float) -> MeasurementTransform:
    return MeasurementTransform(
        name, partial(_log_odds, low=low, high=high), partial(_logistic, low=low, high=high), low, high
    )


def _log_odds(y: np.ndarray, low: float, high: float) -> np.ndarray:
    share = (y - low) / (high - low)
    return np.log(share) - np.log1p(-share)


def _logistic(z: np.ndarray, low: float, high: float) -> np.ndarray:
    return low + (high - low) * np.where(z < 0, np.exp(np.minimum(z, 0.0)), 1.0) / (1.0 + np.exp(-np.abs(z)))


def _check_pair(pair: MeasurementTransform) -> None:
    """Check that the second function is the inverse of the first, and that both increase."""
    probes = np.linspace(-3.0, 3.0, NUM_PROBES)
    with np.errstate(all="ignore"):
        try:
            values = np.asarray(pair.inverse(probes), np.float64)
            again = np.asarray(pair.forward(values), np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"transform must be two functions of NumPy arrays; they failed: {error}") from error
    known = np.isfinite(values) & np.isfinite(again)
    if values.shape != probes.shape or again.shape != probes.shape or known.sum() < 2:
        raise ValueError("transform must be two functions that map a NumPy array to one of the same shape")
    if np.any(np.diff(values[known]) < 0) or np.any(np.diff(again[known]) < -1e-9):
        raise ValueError("the functions of transform must increase: intervals are transformed limit by limit")
    with np.errstate(all="ignore"):
        same = np.allclose(pair.inverse(again[known]), values[known], rtol=1e-6, atol=1e-9)
    if not same:
        raise ValueError("the second function of transform must be the inverse of the first: (forward, inverse)")


def _expected(given: object) -> str:
    return (
        "transform must be 'log', 'sqrt', 'logit', 'logit:0:100' (with the bounds of the values) or a pair of "
        f"functions (forward, inverse); got {validation.short_repr(given)}"
    )
