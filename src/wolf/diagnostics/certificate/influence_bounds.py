"""Types and formulas shared by the searches for the worst error."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

FAR_RADII = (1e10, 1e12)  # radii, in standard deviations, at which boundedness is tested
MIN_GROWTH_POWER = 0.05  # power of the radius above which the influence counts as unbounded
RESIDUALS_PER_COORDINATE = 600  # residuals of one call, for each measured coordinate

# Residuals (S, N, M) -> shifts of the mean (S, N, D), and the contribution of the covariance (S, N).
PosteriorChange = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class WorstError(NamedTuple):
    """Largest influence and shift of one error, at one operating point.

    Attributes:
        influence: supremum of the KL divergence, in nats; infinite if it grows without bound.
        shift: supremum of the shift of the mean, in posterior standard deviations.
        error: error with the largest influence, (M,); infinite if the supremum is a limit.
        radius: distance of that measurement from its prediction, in standard deviations.
        shift_error: error with the largest shift, (M,).
        shift_radius: distance of that measurement.
        far: influence in the limit of huge errors.
        power: growth of the influence for huge errors as a power of the radius; about 0 if bounded, 2 for a Kalman
            filter.
        exact: whether worst directions were solved for.
        radii: radii of the curve, (N,).
        curve: largest influence at each radius, (N,).
    """

    influence: float
    shift: float
    error: np.ndarray
    radius: float
    shift_error: np.ndarray
    shift_radius: float
    far: float
    power: float
    exact: bool
    radii: np.ndarray
    curve: np.ndarray


class InfluenceBounds(NamedTuple):
    """Influence of residuals (S, N, M): the shift of the mean (S, N) and the divergence `influence` (S, N)."""

    residuals: np.ndarray
    shift: np.ndarray
    influence: np.ndarray


def influence(shift: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Compute the divergence from the length of the shift and the contribution of the covariance."""
    return np.where(np.isfinite(shift), 0.5 * shift**2 + np.maximum(spread, 0.0), np.inf)


def growth(near: float, far: float) -> float:
    """Estimate the power with which the influence grows between the two far radii."""
    tiny = 1e-6  # nats; smaller values are rounding errors
    return float(np.log(max(far, tiny) / max(near, tiny)) / np.log(FAR_RADII[1] / FAR_RADII[0])) if far > tiny else 0.0


def unit(vectors: np.ndarray) -> np.ndarray:
    """Scale vectors (..., M) to length 1."""
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
