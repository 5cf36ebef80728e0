"""Where a series starts: a prior that says next to nothing, and one guessed from the first values."""

from typing import Any

import numpy as np

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.numerics.robust import MAD_TO_STD

FIRST = 15  # values that say where a series starts
WIDE = 3.0  # deviations of those values that the start may be off


def diffuse_prior(size: int, variance: float, mean: Any = 0.0) -> Gaussian:
    """Make a prior that says next to nothing: N(mean, variance I) with a large variance.

    Args:
        size: number of states.
        variance: as large as the squares of the states may be, and much more. Joseph and square-root forms lose
            nothing to a large one.
        mean: a number or (D,).
    """
    validation.count("size", size)
    validation.positive_number("variance", variance)
    middle = validation.finite("mean", mean)
    if middle.shape not in ((), (size,)):
        raise ValueError(f"mean must be a number or of shape ({size},); got {middle.shape}")
    return Gaussian(np.broadcast_to(middle, (size,)).copy(), variance * np.eye(size))


def guess_start(roles: list[str], values: np.ndarray, step_var: float) -> Gaussian:
    """Guess where a series starts, from its first values.

    The middle of the first values is a place that one outlier cannot move; the prior is as wide as they are.

    Args:
        roles: of the states of one column, "level", "slope" or "swing". The first level is where the values are.
        values: (T, M).
        step_var: variance of the step from one value to the next.

    Example:
        >>> guess_start(["level", "slope"], np.array([[5.0], [7.0], [900.0]]), 1.0).mean.tolist()
        [7.0, 0.0]
    """
    columns = values.shape[1]
    means, variances = np.zeros((len(roles), columns)), np.full((len(roles), columns), step_var)
    for j, column in enumerate(values.T):
        known = column[np.isfinite(column)]
        some = known[:FIRST]
        for i, role in enumerate(roles):
            if role == "level":
                variances[i, j] = WIDE**2 * _spread(some) + step_var
            elif role == "swing":
                variances[i, j] = _spread(known) + step_var
        if "level" in roles and some.size:
            means[roles.index("level"), j] = float(np.median(some))
    return Gaussian(means.ravel(), np.diag(variances.ravel()))


def _spread(some: np.ndarray) -> float:
    """Estimate a variance that outliers do not move."""
    return (MAD_TO_STD * float(np.median(np.abs(some - np.median(some))))) ** 2 if some.size else 0.0
