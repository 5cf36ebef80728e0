"""Derivatives of a score from its values: at points around the one that is asked about."""

from functools import lru_cache

import numpy as np

from wolf.fitting.optimizer import Told

DIFFERENCE = 1e-5  # in a free number, for slopes from scores: these are good to 15 digits, slopes then to ten
CURVED_STEP = 3e-4  # for slopes and curvatures from scores: to seven digits, and to four
FAILED = 1e12  # what the search is told where the score is not a number


def around(frees: np.ndarray, order: int) -> np.ndarray:
    """Give the points at which derivatives at some, (P, K), are found.

    These are themselves; a little up and down by each number; and, for curvatures, up by two numbers at once.

    Args:
        frees: the points.
        order: of the derivatives, 0 for none.
    """
    if order == 0:
        return frees
    return np.asarray(frees[:, None] + _steps(frees.shape[1], order)).reshape(-1, frees.shape[1])


@lru_cache(maxsize=64)
def _steps(size: int, order: int) -> np.ndarray:
    one, still = np.eye(size), np.zeros((1, size))
    i, j = _pairs(size)
    return _step(order) * np.concatenate([still, one, -one, *([one[i] + one[j]] if order == 2 else [])])


def differences(losses: np.ndarray, frees: np.ndarray, order: int) -> Told:
    """Turn the losses `around` points into those of the points, (P,), their slopes and curvatures."""
    if order == 0:
        return losses, None, None
    count, size = frees.shape
    whole, step = losses.reshape(count, -1), _step(order)
    here, up, down = whole[:, :1], whole[:, 1 : 1 + size], whole[:, 1 + size : 1 + 2 * size]
    sound = whole.max(1) < FAILED
    values, slopes = np.where(sound, whole[:, 0], FAILED), np.where(sound[:, None], (up - down) / (2 * step), 0.0)
    if order == 1:
        return values, slopes, None
    curvatures = np.empty((count, size, size))
    i, j = _pairs(size)
    both = whole[:, 1 + 2 * size :]
    curvatures[:, i, j] = curvatures[:, j, i] = (both - up[:, i] - up[:, j] + here) / step**2
    curvatures[:, range(size), range(size)] = (up + down - 2 * here) / step**2
    return values, slopes, curvatures


@lru_cache(maxsize=64)
def _pairs(size: int) -> tuple[np.ndarray, np.ndarray]:
    return np.triu_indices(size, 1)


def _step(order: int) -> float:
    return CURVED_STEP if order == 2 else DIFFERENCE
