"""Tests of standardised one-step errors: autocorrelation, heteroskedasticity, normality.

If a model is right, its standardised innovations are independent, of constant variance, and normal (Harvey 1989,
section 5.4; Durbin & Koopman 2012, section 2.12). The definitions are those of statsmodels' state-space summaries.
"""

import dataclasses

import numpy as np
from numpy import nan

MIN_ERRORS = 8  # fewer errors give no test


@dataclasses.dataclass(frozen=True)
class ResidualTests:
    """Statistics and p-values of the standardised one-step errors of one measured coordinate.

    Attributes:
        ljung_box: Q of Ljung & Box (1978) at lag 1.
        ljung_box_p: its p-value under χ² with one degree of freedom.
        heteroskedasticity: H, sum of squares of the last third of the errors over that of the first.
        heteroskedasticity_p: its two-sided p-value under the F distribution.
        jarque_bera: JB of Jarque & Bera (1980).
        jarque_bera_p: its p-value under χ² with two degrees of freedom.
        skew: skewness.
        kurtosis: kurtosis; 3 for a normal distribution.
        count: number of errors.
    """

    ljung_box: float
    ljung_box_p: float
    heteroskedasticity: float
    heteroskedasticity_p: float
    jarque_bera: float
    jarque_bera_p: float
    skew: float
    kurtosis: float
    count: int


def residual_tests(errors: np.ndarray) -> ResidualTests:
    """Test standardised one-step errors.

    Args:
        errors: (T,) of one series, NaN where nothing was measured.

    Example:
        >>> found = residual_tests(np.random.default_rng(0).normal(size=500))
        >>> bool(found.ljung_box_p > 0.01), bool(found.jarque_bera_p > 0.01)
        (True, True)
    """
    from scipy.stats import chi2

    known = errors[np.isfinite(errors)]
    if len(known) < MIN_ERRORS or not np.ptp(known) > 0:
        return ResidualTests(nan, nan, nan, nan, nan, nan, nan, nan, len(known))
    q = ljung_box(errors, 1)
    h, h_p = _heteroskedasticity(errors)
    centred = known - known.mean()
    variance = np.mean(centred**2)
    skew = float(np.mean(centred**3) / variance**1.5)
    kurtosis = float(np.mean(centred**4) / variance**2)
    jb = len(known) / 6.0 * (skew**2 + 0.25 * (kurtosis - 3.0) ** 2)
    return ResidualTests(q, float(chi2.sf(q, 1)), h, h_p, float(jb), float(chi2.sf(jb, 2)), skew, kurtosis, len(known))


def ljung_box(errors: np.ndarray, lags: int) -> float:
    """Compute the statistic of Ljung & Box; pairs with a missing error are left out.

    Args:
        errors: (T,), NaN where missing.
        lags: number of lags.
    """
    known = np.isfinite(errors)
    count = int(known.sum())
    centred = np.where(known, errors - np.mean(errors[known]), 0.0)
    total = float(centred @ centred)
    correlations = [float(centred[k:] @ centred[:-k]) / total for k in range(1, lags + 1)]
    return count * (count + 2.0) * sum(r**2 / (count - k) for k, r in enumerate(correlations, 1))


def _heteroskedasticity(errors: np.ndarray) -> tuple[float, float]:
    """Compare the variances of the last and the first third; NaN where one of them has no error."""
    from scipy.stats import f

    third = round(len(errors) / 3)
    first, last = errors[:third], errors[-third:]
    first, last = first[np.isfinite(first)], last[np.isfinite(last)]
    if not len(first) or not len(last) or not np.any(first):
        return float("nan"), float("nan")
    ratio = float((last @ last) / (first @ first))
    tails = f.cdf(ratio, len(last), len(first)), f.sf(ratio, len(last), len(first))
    return ratio, float(min(1.0, 2.0 * min(tails)))
