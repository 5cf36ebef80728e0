"""How good an estimate is, when the truth is known."""

import numpy as np


def rmse(means: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Compute the root mean square error of each state over time.

    Example:
        >>> rmse(np.array([[3.0], [4.0]]), np.zeros((2, 1))).round(3).tolist()
        [3.536]
    """
    return np.sqrt(np.mean((np.asarray(means) - truth) ** 2, axis=-2))


def j_score(means: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Compute `J_T`, the root of the summed squared errors, as Duran-Martin et al. (2024, section 5.1) define it."""
    return np.sqrt(np.sum((np.asarray(means) - truth) ** 2, axis=-2))


def coverage(means: np.ndarray, covs: np.ndarray, truth: np.ndarray, level: float = 0.95) -> np.ndarray:
    """Count how often the interval of each state holds the truth; near `level` if the covariances are honest."""
    from scipy.special import ndtri

    half = ndtri(0.5 + 0.5 * level) * np.sqrt(np.diagonal(covs, axis1=-2, axis2=-1))
    return np.mean(np.abs(np.asarray(means) - truth) <= half, axis=-2)
