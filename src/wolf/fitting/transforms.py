"""Transforms between named parameters and free ones, which an optimiser may vary within simple limits."""

from collections.abc import Mapping
from typing import Literal

import numpy as np

from wolf import validation

Bounds = Literal["positive", "real"] | tuple[float, float]

MAX_FACTOR = 1e10  # factor by which a positive parameter may differ from its start, either way
INTERVAL_MARGIN = 1e-6  # share of an interval at either end that is excluded
RANDOM_START_STD = 2.0  # standard deviation of the free parameters of a random start


class ParameterTransform:
    """Transform named parameters to free ones and back: logarithms, log-odds of an interval, or the identity.

    Args:
        start: first guesses by name.
        bounds: bounds by name, "positive" by default: "positive", "real" or a pair of numbers.
        alternative: alternative first guesses, which are tried too if they are far from the others.

    Example:
        >>> transform = ParameterTransform({"var": 1.0, "phi": 0.5}, {"phi": (-1.0, 1.0)})
        >>> {name: round(value, 6) for name, value in transform.natural(transform.start).items()}
        {'var': 1.0, 'phi': 0.5}
    """

    def __init__(
        self, start: Mapping[str, float], bounds: Mapping[str, Bounds], alternative: Mapping[str, float] | None = None
    ):
        unknown = [name for name in bounds if name not in start]
        if unknown:
            names = ", ".join(map(str, unknown))
            raise ValueError(f"bounds has unknown names {names}; the parameters are {', '.join(start)}")
        self.names = list(start)
        self.bounds = {name: bounds.get(name, "positive") for name in self.names}
        for name in self.names:
            _check(name, start[name], self.bounds[name])
        self.start = np.array([_free(start[name], self.bounds[name]) for name in self.names])
        self.alternative = np.array([_free((alternative or start)[name], self.bounds[name]) for name in self.names])

    @property
    def limits(self) -> list[tuple[float | None, float | None]]:
        """Limits of the free parameters."""
        log_factor, logit_margin = np.log(MAX_FACTOR), np.log(INTERVAL_MARGIN)
        limits: list[tuple[float | None, float | None]] = []
        for name, start_value in zip(self.names, self.start, strict=True):
            kind = self.bounds[name]
            if kind == "positive":
                limits.append((start_value - log_factor, start_value + log_factor))
            else:
                limits.append((None, None) if kind == "real" else (logit_margin, -logit_margin))
        return limits

    def natural(self, free: np.ndarray) -> dict[str, float]:
        """Convert free parameters to natural ones."""
        return {name: _natural(x, self.bounds[name]) for name, x in zip(self.names, free, strict=True)}

    def natural_all(self, frees: np.ndarray) -> np.ndarray:
        """Convert the free parameters of many points, (P, K), to natural ones, (P, K)."""
        columns = [_natural_all(x, self.bounds[name]) for name, x in zip(self.names, frees.T, strict=True)]
        return np.stack(columns, axis=1)

    def derivatives(self, free: np.ndarray) -> np.ndarray:
        """Compute the derivative of each natural parameter by its free parameter."""
        return np.array([_derivative(x, self.bounds[name]) for name, x in zip(self.names, free, strict=True)])

    def random_starts(self, count: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return the first guess, and random points around it."""
        lows, highs = (np.array([np.nan if x is None else x for x in ends]) for ends in zip(*self.limits, strict=True))
        others = [self.start + RANDOM_START_STD * rng.normal(size=len(self.start)) for _ in range(count)]
        others += [self.alternative] if np.any(np.abs(self.alternative - self.start) > RANDOM_START_STD) else []
        return [self.start, *(np.fmax(np.fmin(x, highs), lows) for x in others)]


def _check(name: str, value: float, bounds: Bounds) -> None:
    validation.number(f"the start of {name}", value)
    if isinstance(bounds, str) and bounds == "real":
        return
    if isinstance(bounds, str) and bounds == "positive":
        if not value > 0:
            raise ValueError(f'{name} must start above 0, or have bounds={{"{name}": "real"}}; got {value!r}')
        return
    pair = isinstance(bounds, tuple | list) and len(bounds) == 2
    if not pair or not validation.number(f"the bounds of {name}", bounds[0]) < validation.number(name, bounds[1]):
        got = validation.short_repr(bounds)
        raise ValueError(f'the bounds of {name} must be "positive", "real" or a pair (low, high); got {got}')
    if not bounds[0] < value < bounds[1]:
        raise ValueError(f"{name} must start between {bounds[0]} and {bounds[1]}; got {value!r}")


def _free(value: float, bounds: Bounds) -> float:
    if bounds == "positive":
        return float(np.log(value))
    if bounds == "real":
        return float(value)
    share = (value - bounds[0]) / (bounds[1] - bounds[0])
    return float(np.log(share) - np.log1p(-share))


def _natural(free: float, bounds: Bounds) -> float:
    if bounds == "positive":
        return float(np.exp(free))
    if bounds == "real":
        return float(free)
    return float(bounds[0] + (bounds[1] - bounds[0]) * sigmoid(free))


def _natural_all(free: np.ndarray, bounds: Bounds) -> np.ndarray:
    if bounds == "positive":
        return np.exp(free)
    if bounds == "real":
        return free
    return np.asarray(bounds[0] + (bounds[1] - bounds[0]) / (1.0 + np.exp(-free)))


def _derivative(free: float, bounds: Bounds) -> float:
    if bounds == "positive":
        return float(np.exp(free))
    if bounds == "real":
        return 1.0
    return float((bounds[1] - bounds[0]) * sigmoid(free) * sigmoid(-free))


def sigmoid(x: float) -> float:
    """Convert log-odds to a probability."""
    return float(1.0 / (1.0 + np.exp(-x)))
