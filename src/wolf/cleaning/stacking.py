"""Weights of several answers, by their errors where the truth is known: the average of a few beats the best of them.

Wolpert 1992, *Stacked generalization*, Neural Networks 5; Breiman 1996, *Stacked regressions*, Machine Learning 24, on
weights that are not negative.
"""

import numpy as np

from wolf.numerics.robust import MAD_TO_STD

BETTER = 0.98  # share of the first one's error that another one must stay below to be the best
FAR, ROUNDS = 1.5, 3  # deviations from which an error counts less, and rounds of that
DRAWN = 0.02  # share of the mean square, by which weights are drawn to the best by itself
LEAST = 0.05  # weight of what is asked at all
STEPS = 300  # of the search for weights


def stacked(errors: np.ndarray) -> np.ndarray:
    """Weigh answers so that their average comes closest to the truth.

    Weights are not negative and add up to 1. Errors beyond `FAR` deviations count less, and weights are drawn to
    whichever is best by itself; where the average is not closer than that, all weight is on it.

    Args:
        errors: of each answer, the one to be preferred first, (K, n).

    Returns:
        Weights, (K,).

    Example:
        >>> stacked(np.array([[1.0, 2.0, -1.0], [-1.0, -2.0, 1.0], [9.0, 9.0, 9.0]])).round(1).tolist()
        [0.6, 0.4, 0.0]
    """
    sizes = np.abs(errors).mean(axis=1)
    best = int(np.argmin(sizes))
    best = best if sizes[best] < BETTER * sizes[0] else 0
    alone = np.eye(len(errors))[best]
    weights = alone
    for _ in range(ROUNDS):
        left = np.abs(weights @ errors)
        limit = max(FAR * MAD_TO_STD * float(np.median(left)), np.finfo(float).tiny)
        trust = limit / np.maximum(left, limit)
        squares = (errors * trust) @ errors.T / trust.sum()
        squares[np.diag_indices(len(errors))] += (drawn := DRAWN * np.trace(squares) / len(errors))
        weights = _least(squares, drawn * alone, weights)
    weights = np.where(weights < LEAST, 0.0, weights)  # each costs a pass over the series
    weights /= weights.sum()
    return weights if float(np.abs(weights @ errors).mean()) < sizes[best] else alone


def _least(squares: np.ndarray, towards: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Minimise ½ wᵀ S w - bᵀ w over weights that are not negative and add up to 1, by projected gradients."""
    step = 1.0 / max(float(np.linalg.eigvalsh(squares)[-1]), np.finfo(float).tiny)
    for _ in range(STEPS):
        moved = weights - step * (squares @ weights - towards)
        down = np.sort(moved)[::-1]  # nearest weights: Held, Wolfe & Crowder 1974
        above = (np.cumsum(down) - 1.0) / np.arange(1, len(down) + 1)
        weights = np.maximum(moved - above[np.flatnonzero(down > above)[-1]], 0.0)
    return weights
