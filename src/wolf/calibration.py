"""Thresholds that need no tuning: keep a given share of what a Kalman filter learns from clean data.

When the gain is small (the worst case), a weight function with power `p = w²` keeps the share

    efficiency = 1 - E[(1 - p(x))² x] / d,     x ~ χ²_d,

of the Kalman filter's variance reduction on Gaussian data. For a hard gate that is the distribution function of χ²
with d + 2 degrees of freedom at the threshold, so its c has a closed form; the other families are solved for.
"""

from functools import cache
from typing import Any

import numpy as np

NODES = 4000  # of the quadrature: the constants are right to about five digits (tests/test_calibration.py)


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
    if not (isinstance(dim, int | np.integer) and dim > 0):
        raise ValueError(f"dim must be a positive whole number; got {dim!r}")
    if not 0 < efficiency < 1:
        raise ValueError(f"efficiency must be between 0 and 1; got {efficiency!r}")
    from scipy.special import gammaincinv  # here: importing scipy costs as much as the rest of wolf

    if family.__name__ == "MahalanobisThreshold":
        return float(2.0 * gammaincinv(0.5 * dim + 1.0, efficiency))
    from scipy.optimize import brentq

    def excess(log_c: float) -> float:
        return _efficiency(family, np.exp(log_c), dim) - efficiency

    return float(np.exp(brentq(excess, np.log(1e-3), np.log(1e4), xtol=1e-10)))


def _efficiency(family: Any, c: float, dim: int) -> float:
    """Integrate over χ²_{d+2}, into which the factor x / d of the definition turns χ²_d."""
    square = _quantiles(dim)
    power = _power(family, square / c**2)
    return float(1.0 - np.mean((1.0 - power) ** 2))


def _power(family: Any, ratio: np.ndarray) -> np.ndarray:
    """Evaluate p = w² at squared distances in units of c², by the family's own profile."""
    import jax

    with jax.enable_x64(True), jax.ensure_compile_time_eval():  # may be asked in the middle of a trace
        return np.asarray(family.profile(1.0, ratio, 1.0)) ** 2


@cache
def _quantiles(dim: int) -> np.ndarray:
    from scipy.special import gammaincinv

    nodes, _ = np.polynomial.legendre.leggauss(2)  # two-point Gauss rule in each of NODES equal cells
    levels = (np.arange(NODES)[:, None] + 0.5 + 0.5 * nodes).ravel() / NODES
    return 2.0 * gammaincinv(0.5 * dim + 1.0, levels)
