"""Predictive score: log density of one-step errors under a contaminated Gaussian fitted to them."""

from typing import NamedTuple

import numpy as np

from wolf.numerics.robust import MAD_TO_STD

EM_ROUNDS = 12  # EM steps for scale, share and width
OUTLIER_SHARE_RANGE = (1e-4, 0.15)  # range of the share of outliers
OUTLIER_WIDEN_RANGE = (9.0, 1e8)  # range of the variance of an outlier's error over that of the others
TINY = 1e-300
MAX_EXPONENT = 700.0  # exp of more overflows


class Score(NamedTuple):
    """Log scores of B sets of errors, with the fitted distributions.

    Attributes:
        total: sum of the log densities, (B,).
        scale: standard deviation of the narrow component, (B,).
        share: share of outliers, (B,).
        widen: variance of outliers over that of the others, (B,).
    """

    total: np.ndarray
    scale: np.ndarray
    share: np.ndarray
    widen: np.ndarray


def robust_scale(errors: np.ndarray) -> np.ndarray:
    """Estimate the standard deviation of each column from its median absolute value."""
    return np.maximum(MAD_TO_STD * np.median(np.abs(errors), axis=0), TINY)


def score(errors: np.ndarray, rounds: int = EM_ROUNDS) -> Score:
    """Fit `(1 - ε) N(0, s²) + ε N(0, w s²)` to each column by EM, and compute its log density.

    Args:
        errors: one-step errors, (n, B), none missing.
        rounds: EM steps.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> found = score(rng.normal(0.0, 2.0, (5000, 1)))
        >>> round(float(found.scale[0]), 1), float(found.share[0]) < 0.01
        (2.0, True)
    """
    square = errors**2
    variance = np.maximum(robust_scale(errors) ** 2, TINY)
    share, widen = np.full_like(variance, 0.05), np.full_like(variance, 50.0)
    odds, inlier = (
        np.empty_like(square),
        np.empty_like(square),
    )  # reused: the arrays are large, and there are many rounds
    for _ in range(rounds):
        np.negative(_log_odds(square, variance, share, widen, out=odds), out=odds)
        np.exp(np.clip(odds, -MAX_EXPONENT, MAX_EXPONENT, out=odds), out=odds)
        np.reciprocal(np.add(odds, 1.0, out=inlier), out=inlier)
        num_inliers = inlier.sum(0)
        num_outliers = np.multiply(odds, inlier, out=odds).sum(0)  # from here on the probability of an outlier
        variance = np.maximum(np.einsum("ij,ij->j", square, inlier) / np.maximum(num_inliers, 1.0), TINY)
        share = np.clip(num_outliers / len(errors), *OUTLIER_SHARE_RANGE)
        widen = np.clip(
            np.einsum("ij,ij->j", square, odds) / np.maximum(num_outliers, TINY) / variance, *OUTLIER_WIDEN_RANGE
        )
    log_narrow = -0.5 * (np.log(2 * np.pi * variance) + square / variance) + np.log1p(-share)
    log_odds = _log_odds(square, variance, share, widen)
    return Score((log_narrow + np.logaddexp(0.0, -log_odds)).sum(0), np.sqrt(variance), share, widen)


def _log_odds(
    square: np.ndarray, variance: np.ndarray, share: np.ndarray, widen: np.ndarray, out: np.ndarray | None = None
) -> np.ndarray:
    """Compute the log odds that an error is not an outlier."""
    scaled = np.multiply(square, -0.5 / variance * (1 - 1 / widen), out=out)
    return np.add(scaled, np.log1p(-share) - np.log(share) + 0.5 * np.log(widen), out=out)
