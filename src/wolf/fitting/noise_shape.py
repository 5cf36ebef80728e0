"""Shape of the noise: what a fit with a share of outliers makes of heavy tails without a gap.

Two Gaussian parts describe outliers that are far from the rest. For Student-t noise the inner part has a larger
variance than the scale of the t distribution, for example by a third for 3 degrees of freedom, because moderate tails
count as ordinary noise. Where a t distribution describes the residuals about as well, the difference between the two
variances is an uncertainty of the measurement noise that the curvature of the score does not show.
"""

import math

import numpy as np

DOFS = 2.0 ** np.arange(0.0, 5.5, 0.5)  # degrees of freedom that are compared
SCALES = np.linspace(0.3, 1.2, 46)  # squared scales that are compared, in units of the inner part
DECISIVE = 4.0  # log density by which two parts must be better to rule a t distribution out: odds of 55


def shape_uncertainty(nis: np.ndarray, count: np.ndarray, share: float, widen: float) -> float:
    """Compare two Gaussian parts with Student-t distributions; return the relative difference of the variances.

    Args:
        nis: eᵀ S⁻¹ e of each row, (T,).
        count: number of measured coordinates, (T,).
        share: fitted share of outliers.
        widen: fitted ratio of their covariance to S.

    Returns:
        |1 - scale²| of the best t distribution, or 0 if the two parts are clearly better.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> spikes = np.where(rng.random(400) < 0.05, 10.0, 1.0) * rng.normal(size=400)
        >>> shape_uncertainty(spikes**2, np.ones(400), 0.05, 100.0)
        0.0
        >>> round(shape_uncertainty(1.4 * rng.standard_t(3, size=400) ** 2, np.ones(400), 0.1, 9.0), 2)
        0.2
    """
    inner = np.log1p(-share) - 0.5 * nis
    outer = np.log(share) - 0.5 * nis / widen - 0.5 * count * np.log(widen)
    two_part = float((np.logaddexp(inner, outer) - 0.5 * count * math.log(2.0 * math.pi)).sum())
    best, scale = -math.inf, 1.0
    for dof in DOFS:
        constant = sum(_log_constant(dof, d) * int((count == d).sum()) for d in np.unique(count))
        tails = np.log1p(nis / (SCALES[:, None] * dof)) @ (0.5 * (dof + count))
        values = constant - 0.5 * count.sum() * np.log(SCALES) - tails
        k = int(np.argmax(values))
        if values[k] > best:
            best, scale = float(values[k]), float(SCALES[k])
    return abs(1.0 - scale) if best > two_part - DECISIVE else 0.0


def _log_constant(dof: float, size: float) -> float:
    """Compute the logarithm of the constant of a multivariate t density with unit scale."""
    return math.lgamma(0.5 * (dof + size)) - math.lgamma(0.5 * dof) - 0.5 * size * math.log(dof * math.pi)
