"""Remarks on a run: estimated noise, autocorrelated innovations, rejected data."""

from typing import TYPE_CHECKING

import numpy as np

from wolf.inference.noise.noise_estimate import FAR_FROM_DATA, MAX_OUTLIER_RATE
from wolf.results.views.learned_noise import describe_noise
from wolf.statespace import LinearModel
from wolf.statespace.array_fields import count

if TYPE_CHECKING:
    from wolf.results.filtered import Filtered

MAX_STANDARDISED = 3.0  # standard deviations at which innovations are clipped before they are correlated
MIN_AUTOCORRELATION = 0.15  # lag-1 autocorrelation that is reported
MIN_STANDARD_ERRORS = 4.0  # and how many standard errors it must be from 0
MIN_VARIANCE_RATIO = 4.0  # of the squares of one coordinate's innovations over the others': twice the deviation
MIN_ROWS_PER_COORDINATE = 30  # the median of that many squares has a standard error of 40 %
MIN_MEDIAN_SQUARE = 1e-3  # of standardised innovations: smaller ones are transients of the first steps, not noise


def remarks(out: "Filtered") -> list[str]:
    """Return remarks on one filtered series, one text each."""
    saved = out.saved if isinstance(out.saved, dict) else {}
    found = _estimated_noise(out)
    if "outliers" in saved:
        rejected = _rejected(out.outliers, out.ys)
        if rejected:  # then neither the estimates nor the innovations say anything about R and Q
            return [*found[:1], rejected]
    if {"residuals", "innovation_covs"} <= saved.keys() and len(out):
        found += _uneven(out)
        residuals = np.where(saved["stuck"], np.nan, out.residuals) if "stuck" in saved else out.residuals
        found += _autocorrelated(residuals, out.innovation_covs, estimates_q="dynamics_scales" in saved)
    return found


def _estimated_noise(out: "Filtered") -> list[str]:
    try:
        first, *more = describe_noise(out.method, out.learned_noise)
    except ValueError:  # the method does not estimate the noise
        return []
    return [f"learned: {first}", *more]


def _rejected(outliers: np.ndarray, ys: np.ndarray) -> str:
    """Return a remark if nearly all measurements were rejected, else an empty text.

    Args:
        outliers: (T,), or (T, M) of methods with a weight for each coordinate.
        ys: (T, M), NaN where missing.
    """
    present = ~np.isnan(ys)
    present = present if outliers.ndim == 2 else present.any(1)
    rejected, total = int((outliers & present).sum()), int(present.sum())
    if not total or rejected <= MAX_OUTLIER_RATE * total:
        return ""
    return f"{rejected} of {count(total, 'measurement')} {'was' if total == 1 else 'were'} rejected: {FAR_FROM_DATA}"


def _autocorrelated(residuals: np.ndarray, covs: np.ndarray, estimates_q: bool) -> list[str]:
    """Return a remark if the innovations are significantly autocorrelated.

    Args:
        residuals: (T, M).
        covs: innovation covariances, (T, M, M).
        estimates_q: whether the scale of Q was estimated, so that the remark need not suggest it.
    """
    correlation, pairs = lag_one(residuals, covs)
    if pairs and np.nanmedian(_scaled(residuals, covs) ** 2) < MIN_MEDIAN_SQUARE:
        return []
    if not abs(correlation) > max(MIN_AUTOCORRELATION, MIN_STANDARD_ERRORS / np.sqrt(max(pairs, 1))):
        return []
    instead = "" if estimates_q else ", or estimate its scale with method='Adaptive'"
    if correlation < 0:
        return [
            f"innovations are negatively autocorrelated (lag 1: {correlation:.2f}): Q is too large and the filter "
            f"follows the noise. Lower Q{instead}"
        ]
    return [
        f"innovations are positively autocorrelated (lag 1: {correlation:.2f}): the intervals are too narrow. If the "
        "measurement noise is autocorrelated, model it with wolf.models.with_ar1_noise (wolf.fit_ar1_noise estimates "
        f"the coefficient); if Q is too small, raise Q{instead}"
    ]


def _uneven(out: "Filtered") -> list[str]:
    """Return a remark if the residuals of one coordinate are far larger than the others', by medians of squares."""
    noise, size = out.method.noise, out.residuals.shape[1]
    R = np.asarray(out.model.obs_cov) if isinstance(out.model, LinearModel) else None
    independent = R is None or R.ndim != 2 or not np.any(R - np.diag(np.diagonal(R)))
    if noise is None or size < 2 or len(noise.sensor_slices(size)) > 1 or not independent:
        return []
    with np.errstate(invalid="ignore", divide="ignore"):
        squares = out.residuals**2 / np.diagonal(out.innovation_covs, axis1=-2, axis2=-1)
    known = np.isfinite(squares)
    if known.sum(0).min() < MIN_ROWS_PER_COORDINATE:
        return []
    medians = np.array([np.median(each[here]) for each, here in zip(squares.T, known.T, strict=True)])
    worst = int(medians.argmax())
    ratio = medians[worst] / max(np.median(np.delete(medians, worst)), MIN_MEDIAN_SQUARE)
    if ratio < MIN_VARIANCE_RATIO:
        return []
    named = out.obs_names[worst] if out.obs_names else f"coordinate {worst}"
    return [
        f"residuals of {named} stand out: their squares are {ratio:.3g} times those of the others. If it "
        "has a sensor of its own, estimate the noise per sensor with method=wolf.Adaptive(sensors='each')"
    ]


def lag_one(residuals: np.ndarray, covs: np.ndarray) -> tuple[float, int]:
    """Compute the lag-1 autocorrelation of the standardised innovations, pooled over coordinates, outliers clipped.

    Args:
        residuals: (T, M), NaN where missing.
        covs: innovation covariances, (T, M, M).

    Returns:
        The autocorrelation, and the number of pairs.
    """
    scaled = _scaled(residuals, covs)
    pairs = scaled[1:] * scaled[:-1]
    number = int(np.isfinite(pairs).sum())
    square = np.nanmean(scaled**2) if np.isfinite(scaled).any() else 0.0
    return (float(np.nanmean(pairs) / square) if number and square > 0 else 0.0), number


def _scaled(residuals: np.ndarray, covs: np.ndarray) -> np.ndarray:
    """Return the residuals divided by their standard deviations, clipped, (T, M)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.clip(residuals / np.sqrt(np.diagonal(covs, axis1=-2, axis2=-1)), -MAX_STANDARDISED, MAX_STANDARDISED)
