"""Calibration of weight thresholds: c such that the filter keeps a given efficiency on clean Gaussian data.

When the gain is small (the worst case), a weight function with power `p = w²` keeps the share

    efficiency = 1 - E[(1 - p(x))² x] / d,     x ~ χ²_d,

of the Kalman filter's variance reduction on Gaussian data. For a hard gate that is the distribution function of χ²
with d + 2 degrees of freedom at the threshold, so its c has a closed form; the equation is solved numerically for the
other families. A family carries its constants: `THRESHOLDS` and, where they exist, the closed forms.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from wolf.inference.weights.functions import DistanceWeight

QUADRATURE_NODES = 200  # of each half of the integral
TAIL_LENGTH = 12.0  # standard deviations beyond which a χ density is 0 in float64
DEFAULT_EFFICIENCY = 0.95
# fmt: off
# c for 1 to 16 coordinates at `DEFAULT_EFFICIENCY`, as `_solve` finds it: importing scipy costs half a second.
IMQ_THRESHOLDS = (
    3.3603636174367972, 3.8499460737621622, 4.281553722327453, 4.672262773991532, 5.032047461974945,
    5.367352240533298, 5.682635193086047, 5.981136491129887, 6.265301043691794, 6.5370287993685885,
    6.797831717539037, 7.04893680942429, 7.291356356415676, 7.5259372715668595, 7.753396727762022,
    7.974348462528837,
)
HUBER_THRESHOLDS = (
    1.4647195669431798, 1.6641505308636997, 1.839515290069628, 1.9981568025298186, 2.1442764919620037,
    2.2805475783397715, 2.408797931568418, 2.5303442641835865, 2.6461732860445744, 2.7570476724338846,
    2.863571822398689, 2.9662346375177315, 3.065438447624939, 3.161519209479988, 3.254761001450724,
    3.3454066707790817,
)
TUKEY_THRESHOLDS = (
    5.547365848676769, 6.2798105883728494, 6.929104440282762, 7.519373167624338, 8.064734701938558,
    8.574348227677296, 9.054579858165392, 9.510078542778253, 9.944368063198665, 10.360198268647023,
    10.759765910837087, 11.144860038756134, 11.516961383291541, 11.877312442562454, 12.226968224789738,
    12.566833821917017,
)
WELSCH_THRESHOLDS = (
    3.717122777583348, 4.2275150905666585, 4.678818013152997, 5.088312556160245, 5.46609816284324,
    5.818711384338566, 6.150683702138692, 6.4653160368815925, 6.765104635665259, 7.0519934222921306,
    7.327532402251119, 7.592981773393505, 7.849382965682005, 8.097608652498907, 8.338398900022236,
    8.572387892515964,
)
GATE_THRESHOLDS = (
    7.814727903251179, 9.487729036781154, 11.070497693516351, 12.591587243743977, 14.067140449340169,
    15.50731305586545, 16.918977604620448, 18.307038053275146, 19.67513757268249, 21.02606981748307,
    22.362032494826934, 23.684791304840576, 24.995790139728616, 26.29622760486423, 27.58711163827534,
    28.869299430392623,
)
# fmt: on


@cache
def threshold(family: "type[DistanceWeight]", dim: int, efficiency: float) -> float:
    """Return the calibrated c of a weight family for d coordinates.

    Args:
        family: a subclass of `DistanceWeight`.
        dim: d, number of coordinates.
        efficiency: share of the variance reduction to keep, in (0, 1).

    Example:
        >>> from wolf.inference.weights import MahalanobisThreshold
        >>> round(threshold(MahalanobisThreshold, 2, 0.95), 2)
        9.49
    """
    table = family.THRESHOLDS
    return (
        table[dim - 1]
        if efficiency == DEFAULT_EFFICIENCY and 1 <= dim <= len(table)
        else _solve(family, dim, efficiency)
    )


def _solve(family: "type[DistanceWeight]", dim: int, efficiency: float) -> float:
    exact = family.exact_threshold(dim, efficiency)
    if exact is not None:
        return exact
    from scipy.optimize import brentq  # here: importing scipy costs as much as the rest of wolf

    def excess(log_c: float) -> float:
        return efficiency_of(family, np.exp(log_c), dim) - efficiency

    return float(np.exp(brentq(excess, np.log(1e-3), np.log(1e4), xtol=1e-10)))


def efficiency_of(family: "type[DistanceWeight]", c: float, dim: int) -> float:
    """Compute the efficiency of a threshold: an integral over χ²_{d+2}, the density of χ²_d times x / d.

    In the distance r = √x the integrand is smooth except for a corner at c, where the integral is split.

    Args:
        family: a subclass of `DistanceWeight`.
        c: its threshold.
        dim: d, number of coordinates.

    Example:
        >>> from wolf.inference.weights import MahalanobisThreshold
        >>> round(efficiency_of(MahalanobisThreshold, 9.488, 2), 3)
        0.95
    """
    exact = family.exact_efficiency(c, dim)
    if exact is not None:
        return exact
    from scipy.special import gammaln

    order = 0.5 * dim + 1.0
    end = np.sqrt(2.0 * order) + TAIL_LENGTH
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
    """Evaluate p = w² at squared distances in units of c² by the family's profile."""
    import jax

    from wolf.numerics.jax_compat import enable_x64

    with enable_x64(True), jax.ensure_compile_time_eval():  # may be called within a trace
        return np.asarray(family.profile(1.0, ratio, 1.0)) ** 2


@cache
def _legendre() -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(QUADRATURE_NODES)
