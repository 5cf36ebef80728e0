"""Derivatives of a score by finite differences of its values."""

from functools import lru_cache

import numpy as np

from wolf.fitting.optimizer import Response

FIRST_ORDER_STEP = 1e-5  # step of a free parameter for gradients: scores have 15 digits, gradients then ten
SECOND_ORDER_STEP = 3e-4  # step for gradients and Hessians: seven and four digits
FAILED_LOSS = 1e12  # loss of a point whose score is not finite


def stencil(frees: np.ndarray, order: int) -> np.ndarray:
    """Return the points at which a function is evaluated to differentiate it at some points, (P, K).

    These are the points themselves, steps up and down in each parameter, and, for Hessians, steps up in two parameters.

    Args:
        frees: points, in free parameters.
        order: order of the derivatives, 0 for none.
    """
    if order == 0:
        return frees
    return np.asarray(frees[:, None] + _stencil_steps(frees.shape[1], order)).reshape(-1, frees.shape[1])


@lru_cache(maxsize=64)
def _stencil_steps(size: int, order: int) -> np.ndarray:
    unit, origin = np.eye(size), np.zeros((1, size))
    i, j = _pairs(size)
    return _step_size(order) * np.concatenate([origin, unit, -unit, *([unit[i] + unit[j]] if order == 2 else [])])


def differentiate(losses: np.ndarray, frees: np.ndarray, order: int) -> Response:
    """Compute losses (P,), gradients and Hessians at some points from the losses at their stencils."""
    if order == 0:
        return losses, None, None
    count, size = frees.shape
    stencil_losses, step = losses.reshape(count, -1), _step_size(order)
    centre, up, down = (
        stencil_losses[:, :1],
        stencil_losses[:, 1 : 1 + size],
        stencil_losses[:, 1 + size : 1 + 2 * size],
    )
    is_finite = stencil_losses.max(1) < FAILED_LOSS
    values, gradients = (
        np.where(is_finite, stencil_losses[:, 0], FAILED_LOSS),
        np.where(is_finite[:, None], (up - down) / (2 * step), 0.0),
    )
    if order == 1:
        return values, gradients, None
    hessians = np.empty((count, size, size))
    i, j = _pairs(size)
    mixed = stencil_losses[:, 1 + 2 * size :]
    hessians[:, i, j] = hessians[:, j, i] = (mixed - up[:, i] - up[:, j] + centre) / step**2
    hessians[:, range(size), range(size)] = (up + down - 2 * centre) / step**2
    return values, gradients, hessians


@lru_cache(maxsize=64)
def _pairs(size: int) -> tuple[np.ndarray, np.ndarray]:
    return np.triu_indices(size, 1)


def _step_size(order: int) -> float:
    return SECOND_ORDER_STEP if order == 2 else FIRST_ORDER_STEP
