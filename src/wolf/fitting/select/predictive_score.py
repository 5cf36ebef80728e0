"""How well one-step errors are foretold: the log score of a law with two parts, most errors and a few wide ones."""

from typing import NamedTuple

import numpy as np

from wolf.numerics.robust import MAD_TO_STD

ROUNDS = 12  # of the search for scale, share and width: each is a step of EM
SHARE = (1e-4, 0.15)  # of wide errors, at least and at most
WIDEN = (9.0, 1e8)  # variance of a wide error over that of another
TINY = 1e-300


class Score(NamedTuple):
    """Log scores of B sets of errors, with the law that each was scored by.

    Attributes:
        total: sum of the log densities, (B,).
        scale: standard deviation of most errors, (B,).
        share: of wide errors, (B,).
        widen: their variance over that of the others, (B,).
    """

    total: np.ndarray
    scale: np.ndarray
    share: np.ndarray
    widen: np.ndarray


def robust_scale(errors: np.ndarray) -> np.ndarray:
    """Estimate the deviation of each column from its median size."""
    return np.maximum(MAD_TO_STD * np.median(np.abs(errors), axis=0), TINY)


def score(errors: np.ndarray, rounds: int = ROUNDS) -> Score:
    """Fit `(1 - ε) N(0, s²) + ε N(0, w s²)` to each column, and score it by this law.

    Args:
        errors: (n, B), none missing.
        rounds: of EM.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> found = score(rng.normal(0.0, 2.0, (5000, 1)))
        >>> round(float(found.scale[0]), 1), float(found.share[0]) < 0.01
        (2.0, True)
    """
    square = errors**2
    variance = np.maximum(robust_scale(errors) ** 2, TINY)
    share, widen = np.full_like(variance, 0.05), np.full_like(variance, 50.0)
    for _ in range(rounds):
        wide = 1.0 / (1.0 + np.exp(np.clip(_odds(square, variance, share, widen), -700, 700)))
        counted = wide.sum(0)
        variance = np.maximum((square * (1 - wide)).sum(0) / np.maximum(len(errors) - counted, 1.0), TINY)
        share = np.clip(counted / len(errors), *SHARE)
        widen = np.clip((square * wide).sum(0) / np.maximum(counted, TINY) / variance, *WIDEN)
    narrow = -0.5 * (np.log(2 * np.pi * variance) + square / variance) + np.log1p(-share)
    odds = _odds(square, variance, share, widen)
    return Score((narrow + np.logaddexp(0.0, -odds)).sum(0), np.sqrt(variance), share, widen)


def _odds(square: np.ndarray, variance: np.ndarray, share: np.ndarray, widen: np.ndarray) -> np.ndarray:
    """Give the log odds that an error is one of most."""
    return np.log1p(-share) - np.log(share) + 0.5 * np.log(widen) - 0.5 * square / variance * (1 - 1 / widen)
