"""Priors: a diffuse prior, and one estimated from the first values of a series."""

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.numerics.robust import MAD_TO_STD

NUM_FIRST_VALUES = 15  # from which the initial level is estimated
PRIOR_WIDTH = 3.0  # standard deviation of the initial level, in standard deviations of those values


def diffuse_prior(size: int, variance: float, mean: ArrayLike = 0.0) -> Gaussian:
    """Build a diffuse prior: N(mean, variance I) with a large variance.

    Args:
        size: number of states.
        variance: much larger than the squares of the states. Joseph and square-root forms lose no precision.
        mean: a number or (D,).
    """
    validation.count("size", size)
    validation.positive_number("variance", variance)
    centre = validation.finite("mean", mean)
    if centre.shape not in ((), (size,)):
        raise ValueError(f"mean must be a number or of shape ({size},); got {centre.shape}")
    return Gaussian(centre + np.zeros(size), variance * np.eye(size))


def prior_from_data(roles: list[str], values: np.ndarray, step_var: float) -> Gaussian:
    """Estimate a prior from the first values of a series, robustly.

    Its mean is the median of the first values, its width their spread.

    Args:
        roles: of the states of one column, "level", "slope" or "swing". The first level gets the median.
        values: (T, M).
        step_var: variance of the step from one value to the next.

    Example:
        >>> prior_from_data(["level", "slope"], np.array([[5.0], [7.0], [900.0]]), 1.0).mean.tolist()
        [7.0, 0.0]
    """
    columns = values.shape[1]
    means, variances = np.zeros((len(roles), columns)), np.full((len(roles), columns), step_var)
    for j, column in enumerate(values.T):
        known = column[np.isfinite(column)]
        first = known[:NUM_FIRST_VALUES]
        for i, role in enumerate(roles):
            if role == "level":
                variances[i, j] = PRIOR_WIDTH**2 * _robust_variance(first) + step_var
            elif role == "swing":
                variances[i, j] = _robust_variance(known) + step_var
        if "level" in roles and first.size:
            means[roles.index("level"), j] = float(np.median(first))
    return Gaussian(means.ravel(), np.diag(variances.ravel()))


def _robust_variance(values: np.ndarray) -> float:
    """Estimate a variance from the median absolute deviation."""
    return (MAD_TO_STD * float(np.median(np.abs(values - np.median(values))))) ** 2 if values.size else 0.0
