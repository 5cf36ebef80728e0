"""What a person should know about a run, in words: levels that were learned, errors that last, data far away."""

from typing import Any

import numpy as np

from wolf.inference.noise.noise_estimate import FAR_FROM_DATA, MAX_OUTLIER_RATE
from wolf.results.views.learned_noise import told_of
from wolf.statespace.array_fields import count

CUT = 3.0  # deviations at which residuals are cut off before they are correlated
LASTING = 0.15  # correlation of one residual with the next from which it is told
SURE = 4.0  # and in standard errors
STILL = 1e-3  # squared deviations: residuals that are mostly smaller are no noise, but what is left of the first steps


def remarks(out: Any) -> list[str]:
    """Collect what is odd about one filtered series."""
    saved = out.saved if isinstance(out.saved, dict) else {}
    told = _learned(out)
    if "outliers" in saved:
        far = _refused(out.outliers, out.ys)
        if far:  # what was learned from what was refused, and how that lies, says nothing
            return [*told[:1], far]
    if {"residuals", "innovation_covs"} <= saved.keys() and len(out):
        told += _lasting(out.residuals, out.innovation_covs, learns="dynamics_scales" in saved)
    return told


def _learned(out: Any) -> list[str]:
    try:
        first, *more = told_of(out.method, out.learned_noise)
    except ValueError:  # of a method that learns nothing
        return []
    return [f"learned: {first}", *more]


def _refused(outliers: np.ndarray, ys: np.ndarray) -> str:
    """Say that nearly all was refused, if it was.

    Args:
        outliers: (T,), or (T, M) of methods that judge each coordinate.
        ys: (T, M), NaN where nothing was measured.
    """
    came = ~np.isnan(ys)
    came = came if outliers.ndim == 2 else came.any(1)
    refused, total = int((outliers & came).sum()), int(came.sum())
    if not total or refused <= MAX_OUTLIER_RATE * total:
        return ""
    return f"{refused} of {count(total, 'measurement')} {'was' if total == 1 else 'were'} refused: {FAR_FROM_DATA}"


def _lasting(residuals: np.ndarray, covs: np.ndarray, learns: bool) -> list[str]:
    """Say that errors come with the sign of the one before, or with the other one, if they clearly do.

    Args:
        residuals: (T, M).
        covs: what the filter expects of them.
        learns: whether the level of Q was learned, so that there is no need to say that it could be.
    """
    correlation, pairs = lag_one(residuals, covs)
    if pairs and np.nanmedian(_scaled(residuals, covs) ** 2) < STILL:
        return []
    if not abs(correlation) > max(LASTING, SURE / np.sqrt(max(pairs, 1))):
        return []
    instead = "" if learns else ", or let method='Adaptive' learn its level"
    if correlation < 0:
        return [
            f"residuals turn back (correlation {correlation:.2f} from one to the next): the filter follows the noise. "
            f"The state moves less than Q says: lower Q{instead}"
        ]
    return [
        f"residuals last (correlation {correlation:.2f} from one to the next): the intervals are too narrow. If the "
        "noise has a memory say so, by wolf.models.with_ar1_noise (wolf.fit_ar1_noise finds how long it is); "
        f"if the state moves more than Q says, raise Q{instead}"
    ]


def lag_one(residuals: np.ndarray, covs: np.ndarray) -> tuple[float, int]:
    """Correlate each residual with the one before it, all coordinates together; outliers are cut off.

    Args:
        residuals: (T, M), NaN where nothing was measured.
        covs: what the filter expects of them, (T, M, M).

    Returns:
        The correlation, and how many pairs it is of.
    """
    scaled = _scaled(residuals, covs)
    pairs = scaled[1:] * scaled[:-1]
    number = int(np.isfinite(pairs).sum())
    square = np.nanmean(scaled**2) if np.isfinite(scaled).any() else 0.0
    return (float(np.nanmean(pairs) / square) if number and square > 0 else 0.0), number


def _scaled(residuals: np.ndarray, covs: np.ndarray) -> np.ndarray:
    """Give residuals in their own deviations, cut off, (T, M)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.clip(residuals / np.sqrt(np.diagonal(covs, axis1=-2, axis2=-1)), -CUT, CUT)
