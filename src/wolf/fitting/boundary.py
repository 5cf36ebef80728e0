"""Variances that a fit drives to a boundary: which they are, and which result is used instead.

A variance whose score is no lower at 0 is not identified by the data. Where it is that of the dynamics the component is
constant, and the fit reports it. A likelihood with a share of outliers also has degenerate optima: a measurement
variance of 0, where the state follows every reading and those far away are outliers. Such an optimum can be a little
better than the ordinary one by chance, so one in the interior is preferred unless it is far worse.
"""

import numpy as np

from wolf.fitting.local_search import FLAT_GRADIENT
from wolf.fitting.transforms import ParameterTransform

NEAR_ZERO = 1e-3  # factor on a positive parameter, for the score at a boundary
SAME_SCORE = 0.02  # difference of log densities that is none: a fifth of a standard error
MAX_DEGENERATE_GAIN = 0.1  # log density per row by which a measurement variance of 0 may be better and not be used
MAX_BOUNDARY_GAIN = 1.92  # log density in all, for other variances: 95 % point of the likelihood ratio test


def near_zero(free: np.ndarray, transform: ParameterTransform) -> np.ndarray:
    """Return a point for each parameter of the builder, near 0 for a positive one, (K, free parameters).

    Args:
        free: free parameters at a result.
        transform: of the builder's parameters.
    """
    points = np.repeat(free[None], len(transform.names), axis=0)
    for k, name in enumerate(transform.names):
        if transform.bounds[name] == "positive":
            low = transform.limits[k][0]
            assert low is not None
            points[k, k] = max(points[k, k] + np.log(NEAR_ZERO), low)
    return points


def at_boundary(free: np.ndarray, costs: np.ndarray, transform: ParameterTransform, count: int) -> tuple[str, ...]:
    """Name the positive parameters at a boundary.

    Args:
        free: free parameters at a result.
        costs: log density that is lost at each of the points of `near_zero`, (K,).
        transform: of the builder's parameters.
        count: number of scored rows; a search ends at a gradient of `FLAT_GRADIENT` for each.
    """
    least = SAME_SCORE + 2.0 * FLAT_GRADIENT * count
    found = []
    for k, name in enumerate(transform.names):
        high = transform.limits[k][1]
        if transform.bounds[name] == "positive" and (costs[k] <= least or (high is not None and free[k] >= high)):
            found.append(name)
    return tuple(found)


def prefer_interior(
    losses: list[float], zeros: list[tuple[str, ...]], measurement: tuple[str, ...], count: int
) -> list[int]:
    """Order results: the best, unless one with fewer parameters at a boundary is nearly as good.

    Args:
        losses: minus the score per row, ascending.
        zeros: parameters of each result at a boundary.
        measurement: parameters of the measurement covariance.
        count: number of scored rows.

    Example:
        >>> prefer_interior([1.00, 1.04, 2.0], [("obs_var",), (), ()], ("obs_var",), 500)
        [1, 0, 2]
    """
    degenerate = any(name in measurement for name in zeros[0])
    limit = losses[0] + (MAX_DEGENERATE_GAIN if degenerate else MAX_BOUNDARY_GAIN / count)
    near = [i for i, loss in enumerate(losses) if loss <= limit]
    best = min(near, key=lambda i: (any(name in measurement for name in zeros[i]), len(zeros[i]), i))
    return [best, *(i for i in range(len(losses)) if i != best)]
