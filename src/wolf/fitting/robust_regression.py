"""Robust linear regression on differences: first estimates of the coefficients of exogenous variables."""

import numpy as np

from wolf.numerics.robust import MAD_TO_STD

HUBER_STDS = 1.345  # residual from which a row counts less: 95 % efficient for normal errors (Huber 1981)
MAX_ROUNDS = 50
TOLERANCE = 1e-8  # relative change of the coefficients at which the rounds end


def difference_coefficients(values: np.ndarray, regressors: np.ndarray) -> np.ndarray:
    """Estimate coefficients from steps between consecutive rows, in which slow levels and trends cancel.

    Args:
        values: (T, M), NaN where missing.
        regressors: (T, K).

    Returns:
        (K, M); 0 for a column with too few values.

    Example:
        >>> x = np.arange(40.0)[:, None] % 7
        >>> difference_coefficients(5.0 + 3.0 * x, x).round(6).tolist()
        [[3.0]]
    """
    found = np.zeros((regressors.shape[1], values.shape[1]))
    for j, column in enumerate(values.T):
        known = np.isfinite(column)
        steps, moves = np.diff(column[known]), np.diff(regressors[known], axis=0)
        if len(steps) > regressors.shape[1]:
            found[:, j] = _huber(moves, steps)
    return found


def _huber(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Fit by iteratively reweighted least squares; variables that do not move get 0."""
    scale = np.sqrt(np.mean(X**2, axis=0))
    moving = scale > 0
    coefficients, X = np.zeros(len(scale)), X[:, moving] / scale[moving]
    weights, beta = np.ones(len(y)), np.zeros(int(moving.sum()))
    for _ in range(MAX_ROUNDS):
        root = np.sqrt(weights)
        new = np.linalg.lstsq(root[:, None] * X, root * y, rcond=None)[0]
        residual = np.abs(y - X @ new)
        spread = MAD_TO_STD * float(np.median(residual))
        if not spread > 0 or np.allclose(new, beta, rtol=TOLERANCE, atol=0.0):
            beta = new
            break
        beta, weights = new, np.minimum(1.0, HUBER_STDS * spread / np.maximum(residual, 1e-300))
    coefficients[moving] = beta / scale[moving]
    return coefficients
