"""What the searches for the worst error share: what they find, and how influence is put together."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

FAR = (1e10, 1e12)  # radii that show whether influence is bounded
GROWTH = 0.05  # power of the radius from which influence counts as growing
POINTS = 600  # residuals of one call, for each measured coordinate

# Residuals (S, N, M) -> shifts of the mean (S, N, D), and what the covariance adds (S, N).
Measure = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class WorstError(NamedTuple):
    """Influence and shift at their worst, in one situation.

    Attributes:
        influence: supremum of the KL divergence, in nats; infinite if it grows without bound.
        shift: supremum of the shift of the mean, in posterior standard deviations.
        error: added to the clean measurement where the influence is largest, (M,); infinite in the limit.
        radius: distance of that measurement from its prediction, in standard deviations.
        shift_error: where the shift is largest, (M,).
        shift_radius: distance of that measurement.
        far: influence in the limit of huge errors.
        power: of the radius with which the influence grows far away; about 0 if bounded, 2 for a Kalman filter.
        exact: whether worst directions were solved for.
        radii: of the curve, (N,).
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
    """What residuals do: `residuals` (S, N, M), `shift` of the mean (S, N), `influence` (S, N)."""

    residuals: np.ndarray
    shift: np.ndarray
    influence: np.ndarray


def influence(shift: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Put the divergence together from the length of the shift and what the covariance adds."""
    return np.where(np.isfinite(shift), 0.5 * shift**2 + np.maximum(spread, 0.0), np.inf)


def growth(near: float, far: float) -> float:
    """Measure how influence grows between the two far radii."""
    tiny = 1e-6  # nats; below that there is nothing but rounding
    return float(np.log(max(far, tiny) / max(near, tiny)) / np.log(FAR[1] / FAR[0])) if far > tiny else 0.0


def unit(vectors: np.ndarray) -> np.ndarray:
    """Scale vectors (..., M) to length 1."""
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
