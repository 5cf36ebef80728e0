"""Stacking: weights of several predictors, from their errors where the truth is known.

Wolpert 1992, *Stacked generalization*, Neural Networks 5; Breiman 1996, *Stacked regressions*, Machine Learning 24, on
nonnegative weights.
"""

import numpy as np

from wolf.numerics.robust import MAD_TO_STD

MAX_ERROR_RATIO = 0.98  # of another predictor's error to the first one's, to be the best
HUBER_DEVIATIONS, NUM_ROUNDS = 1.5, 3  # from which an error is down-weighted, and rounds of reweighting
SHRINKAGE = 0.02  # towards the best single predictor, as a share of the mean square
MIN_WEIGHT = 0.05  # smaller weights are set to 0
NUM_STEPS = 300  # of the projected gradient


def stacking_weights(errors: np.ndarray) -> np.ndarray:
    """Compute the weights with which an average of predictors has the smallest error.

    Weights are nonnegative and sum to 1. Errors beyond `HUBER_DEVIATIONS` are down-weighted, and weights are shrunk
    towards the best single predictor, which gets all weight if no average is better.

    Args:
        errors: of each predictor, the preferred one first, (K, n).

    Returns:
        Weights, (K,).

    Example:
        >>> stacking_weights(np.array([[1.0, 2.0, -1.0], [-1.0, -2.0, 1.0], [9.0, 9.0, 9.0]])).round(1).tolist()
        [0.6, 0.4, 0.0]
    """
    mean_errors = np.abs(errors).mean(axis=1)
    best = int(np.argmin(mean_errors))
    best = best if mean_errors[best] < MAX_ERROR_RATIO * mean_errors[0] else 0
    alone = np.eye(len(errors))[best]
    weights = alone
    for _ in range(NUM_ROUNDS):
        left = np.abs(weights @ errors)
        limit = max(HUBER_DEVIATIONS * MAD_TO_STD * float(np.median(left)), np.finfo(float).tiny)
        trust = limit / np.maximum(left, limit)
        squares = (errors * trust) @ errors.T / trust.sum()
        squares[np.diag_indices(len(errors))] += (shrinkage := SHRINKAGE * np.trace(squares) / len(errors))
        weights = _minimise_on_simplex(squares, shrinkage * alone, weights)
    weights = np.where(weights < MIN_WEIGHT, 0.0, weights)  # each costs a pass over the series
    weights /= weights.sum()
    return weights if float(np.abs(weights @ errors).mean()) < mean_errors[best] else alone


def _minimise_on_simplex(squares: np.ndarray, towards: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Minimise ½ wᵀ S w - bᵀ w over nonnegative weights that sum to 1, by projected gradients."""
    step = 1.0 / max(float(np.linalg.eigvalsh(squares)[-1]), np.finfo(float).tiny)
    for _ in range(NUM_STEPS):
        moved = weights - step * (squares @ weights - towards)
        down = np.sort(moved)[::-1]  # projection on the simplex: Held, Wolfe & Crowder 1974
        above = (np.cumsum(down) - 1.0) / np.arange(1, len(down) + 1)
        weights = np.maximum(moved - above[np.flatnonzero(down > above)[-1]], 0.0)
    return weights
