"""Outliers at the start of a series, which a filter that begins with a diffuse prior cannot recognise.

The first measurement of a diffuse state is taken as it is. If it is an outlier, the filter may reject the good ones
that follow, for example those of one month for years. Least absolute deviations of the first rows from a path without
dynamics noise find it, without a first guess; those rows are filtered but not scored (see `diffuse_prior`).
"""

import numpy as np

from wolf.numerics.robust import MAD_TO_STD
from wolf.statespace import LinearModel, Model

ROWS_PER_STATE = 3  # of the path: the median of three measurements of a state resists one outlier
OUTLIER_STDS = 4.0  # residual of an outlier
NUM_ROUNDS = 30  # of reweighting
SMALLEST = 1e-6  # residual, in units of the typical one, below which a weight no longer grows


def without_start_outliers(ys: np.ndarray, model: Model, unscored: np.ndarray) -> np.ndarray:
    """Return the measurements with outliers of the first rows removed (NaN); for linear models with constant F and H.

    Args:
        ys: (series, T, M).
        model: whose F and H determine the path.
        unscored: number of first rows of each series that are not scored, (series,).
    """
    if not isinstance(model, LinearModel) or not unscored.any():
        return ys
    steps = min(int(unscored.max()), ROWS_PER_STATE * model.state_dim)
    F = np.eye(model.state_dim) if model.F is None else np.asarray(model.F)
    H = np.asarray(model.H)
    if F.ndim > 2 or H.ndim > 2:
        return ys
    rows = [H]
    for _ in range(steps - 1):
        rows.append(rows[-1] @ F)
    design, cleaned = np.stack(rows), np.array(ys)
    for series, count in zip(cleaned, unscored, strict=True):
        first = series[: min(count, steps)]
        first[find_outliers(first, design[: len(first)])] = np.nan
    return cleaned


def find_outliers(values: np.ndarray, design: np.ndarray) -> np.ndarray:
    """Find values far from their least absolute deviations fit, a Boolean array.

    Args:
        values: (T, M), NaN where missing.
        design: (T, M, D).

    Example:
        >>> values = np.arange(12.0)[:, None] + 0.1 * np.cos(9 * np.arange(12.0))[:, None]
        >>> values[3] = 30.0
        >>> np.flatnonzero(find_outliers(values, np.stack([np.ones((12, 1)), np.arange(12.0)[:, None]], -1)))
        array([3])
    """
    known = np.isfinite(values)
    X, y = design[known], values[known]
    spare = len(y) - X.shape[1]
    outliers = np.zeros(values.shape, bool)
    if spare <= 0:
        return outliers
    X = X / np.maximum(np.abs(X).max(axis=0), np.finfo(float).tiny)
    weights = np.ones(len(y))
    for _ in range(NUM_ROUNDS):
        root = np.sqrt(weights)
        residual = np.abs(y - X @ np.linalg.lstsq(root[:, None] * X, root * y, rcond=None)[0])
        spread = MAD_TO_STD * float(np.median(np.sort(residual)[-spare:]))  # as many others are fitted exactly
        if not spread > 0:
            return outliers
        weights = spread / np.maximum(residual, SMALLEST * spread)
    outliers[known] = residual > OUTLIER_STDS * spread
    return outliers
