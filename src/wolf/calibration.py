"""Thresholds that need no tuning: keep a given share of what a Kalman filter learns from clean data.

When the gain is small (the worst case), a weight function with power `p = w²` keeps the share

    efficiency = 1 - E[(1 - p(x))² x] / d,     x ~ χ²_d,

of the Kalman filter's variance reduction on Gaussian data. For a hard gate that is the distribution function of χ²
with d + 2 degrees of freedom at the threshold, so its c has a closed form; the other families are solved for.
"""

from functools import cache
from typing import Any

import numpy as np

NODES = 200  # of each half of the quadrature
TAIL = 12.0  # deviations beyond which a χ distribution has nothing left in float64


@cache
def threshold(family: Any, dim: int, efficiency: float) -> float:
    """Find the c of a weight family for d coordinates.

    Args:
        family: a weight class with a `profile`.
        dim: d, number of coordinates.
        efficiency: share of the variance reduction to keep, in (0, 1).

    Example:
        >>> from wolf.weights import MahalanobisThreshold
        >>> round(threshold(MahalanobisThreshold, 2, 0.95), 2)
        9.49
    """
    from scipy.special import gammaincinv  # here: importing scipy costs as much as the rest of wolf

    if family.__name__ == "MahalanobisThreshold":
        return float(2.0 * gammaincinv(0.5 * dim + 1.0, efficiency))
    from scipy.optimize import brentq

    def excess(log_c: float) -> float:
        return kept_share(family, np.exp(log_c), dim) - efficiency

    return float(np.exp(brentq(excess, np.log(1e-3), np.log(1e4), xtol=1e-10)))


def kept_share(family: Any, c: float, dim: int) -> float:
    """Compute the efficiency of a threshold: an integral over χ²_{d+2}, into which the factor x / d turns χ²_d.

    In the distance r = √x everything is smooth but for a corner at c, where the integral is split.

    Args:
        family: a weight class with a `profile`.
        c: its threshold.
        dim: d, number of coordinates.

    Example:
        >>> from wolf.weights import MahalanobisThreshold
        >>> round(kept_share(MahalanobisThreshold, 9.488, 2), 3)
        0.95
    """
    from scipy.special import gammainc, gammaln

    if family.__name__ == "MahalanobisThreshold":
        return float(gammainc(0.5 * dim + 1.0, 0.5 * c))
    order = 0.5 * dim + 1.0
    end = np.sqrt(2.0 * order) + TAIL
    split = min(c, end)
    nodes, shares = _legendre()
    distance = np.concatenate([0.5 * split * (nodes + 1.0), split + 0.5 * (end - split) * (nodes + 1.0)])
    width = np.concatenate([0.5 * split * shares, 0.5 * (end - split) * shares])
    log_density = (
        (2.0 * order - 1.0) * np.log(distance) - 0.5 * distance**2 - (order - 1.0) * np.log(2.0) - gammaln(order)
    )
    loss = (1.0 - _power(family, (distance / c) ** 2)) ** 2
    return float(1.0 - np.sum(width * np.exp(log_density) * loss))


def _power(family: Any, ratio: np.ndarray) -> np.ndarray:
    """Evaluate p = w² at squared distances in units of c², by the family's own profile."""
    import jax

    with jax.enable_x64(True), jax.ensure_compile_time_eval():  # may be asked in the middle of a trace
        return np.asarray(family.profile(1.0, ratio, 1.0)) ** 2


@cache
def _legendre() -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(NODES)
