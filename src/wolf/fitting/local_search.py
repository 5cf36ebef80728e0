"""One local search for a minimum in a box, by Newton or BFGS steps.

With a Hessian each step is Newton's, with the absolute values of its eigenvalues, so that it is a descent step (Nocedal
& Wright 2006, section 3.4). Without a Hessian a quasi-Newton approximation is updated (BFGS; chapter 6). A parameter at
a limit that would leave the box stays there (Bertsekas 1982).
"""

from typing import NamedTuple

import numpy as np

FLAT_GRADIENT = 1e-5  # largest component of a gradient, per row of data, that counts as zero
MIN_RELATIVE_GAIN = 2.2e-9  # relative decrease of one step below which the search has converged
MAX_STEP_LENGTH = 2.0  # change of a free parameter in one step, a factor of 7 of a logarithm; more may leave the basin
MAX_ACTIVE_SET_CHANGES = 20  # changes of the active set; a few are usual
MAX_HOPED_DECREASES = 10.0  # predicted decreases within which a search must reach the best ended one, or be abandoned
SAME_VALUE = 1e-4  # difference of values, per row of data, below which two minima count as the same
MIN_CURVATURE = 1e-9  # smallest curvature; smaller values are rounding errors
ABANDONED = "another search ended lower"


class Minimum(NamedTuple):
    """Result of one local search.

    Attributes:
        x: free parameters, (K,).
        fun: value there.
        success: whether the search converged.
        nfev: number of evaluations with a gradient.
        message: reason for termination.
    """

    x: np.ndarray
    fun: float
    success: bool
    nfev: int
    message: str


class LocalSearch:
    """State of one local search: its point, and the Hessian or an approximation of its inverse."""

    def __init__(self, x: np.ndarray, value: float, gradient: np.ndarray, hessian: np.ndarray | None):
        self.x, self.value, self.gradient, self.hessian = x, value, gradient, hessian
        self.inverse = np.eye(len(x)) / max(1.0, float(np.abs(gradient).max()))
        self.is_reset, self.evaluations, self.message = True, 1, ""

    def next_step(self, lows: np.ndarray, highs: np.ndarray) -> np.ndarray | None:
        """Compute the next step; None if the search has ended."""
        at_limit = ((self.x <= lows) & (self.gradient > 0)) | ((self.x >= highs) & (self.gradient < 0))
        gradient = np.where(at_limit, 0.0, self.gradient)
        if np.abs(gradient).max() <= FLAT_GRADIENT:
            self.message = "the gradient is zero"
            return None
        if self.hessian is None:
            # Clipped per component: a component with a flat objective must not shorten the others.
            free = np.outer(~at_limit, ~at_limit)
            direction = np.clip(-np.where(free, self.inverse, 0.0) @ gradient, -MAX_STEP_LENGTH, MAX_STEP_LENGTH)
        else:
            low, high = np.maximum(lows - self.x, -MAX_STEP_LENGTH), np.minimum(highs - self.x, MAX_STEP_LENGTH)
            direction = minimize_quadratic_in_box(self.hessian, self.gradient, low, high)
        if direction @ self.gradient < 0:
            return direction
        self.reset()  # not a descent direction
        return -gradient / max(1.0, float(np.abs(gradient).max()))

    def predicted_change(self, x: np.ndarray) -> np.ndarray:
        """Compute the change of the value at x, or at many points, by linear extrapolation."""
        return ((x - self.x) * self.gradient).sum(-1)

    def is_idle(self, target: np.ndarray, best_ended: float, tolerance: float) -> bool:
        """Decide whether to stop: little to gain, or another search ended at this value or below what is in reach."""
        if self.hessian is None:  # without a Hessian the prediction is unreliable
            return False
        predicted_change = float(self.predicted_change(target))
        if -0.5 * predicted_change <= tolerance:  # a quadratic decreases by half of the linear prediction
            self.message = "the predicted gain is below the tolerance"
        elif self.value + MAX_HOPED_DECREASES * predicted_change > best_ended + SAME_VALUE:
            self.message = ABANDONED
        elif self.value <= best_ended + SAME_VALUE and self.value + predicted_change > best_ended - 0.1 * SAME_VALUE:
            self.message = "another search ended here"
        return bool(self.message)

    def accept(self, x: np.ndarray, value: float, gradient: np.ndarray, hessian: np.ndarray | None) -> None:
        """Move to a better point."""
        if hessian is None:
            self._update_inverse(x - self.x, gradient - self.gradient)
        gain = self.value - value
        if gain <= MIN_RELATIVE_GAIN * max(abs(value), abs(self.value), 1.0):
            self.message = "the value no longer decreases"
        self.x, self.value, self.gradient, self.hessian = x, value, gradient, hessian

    def _update_inverse(self, step: np.ndarray, gradient_change: np.ndarray) -> None:
        """Update the inverse Hessian from the change of the gradient (BFGS)."""
        curvature = float(step @ gradient_change)
        if curvature > 1e-10 * float(np.linalg.norm(step) * np.linalg.norm(gradient_change)):
            if self.is_reset:
                self.inverse = np.eye(len(step)) * curvature / float(gradient_change @ gradient_change)
            projection = np.eye(len(step)) - np.outer(step, gradient_change) / curvature
            self.inverse = projection @ self.inverse @ projection.T + np.outer(step, step) / curvature
            self.is_reset = False
        else:  # negative curvature along the step: take a longer one next time
            self.inverse = 2.0 * self.inverse

    def reset(self) -> None:
        """Discard the Hessian, and restart with a multiple of the identity."""
        self.hessian = None
        self.inverse = np.eye(len(self.x)) / max(1.0, float(np.abs(self.gradient).max()))
        self.is_reset = True

    def result(self) -> Minimum:
        """Return the result of the search."""
        done = self.message not in ("", ABANDONED)
        return Minimum(self.x, self.value, done, self.evaluations, self.message or "too many steps")


def minimize_quadratic_in_box(
    hessian: np.ndarray, gradient: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Minimise a quadratic function in a box.

    Each component is free, or active at a limit of the box: it becomes active if the free solution exceeds the limit,
    and remains so while its multiplier has the right sign (primal-dual active set; Hintermüller, Ito & Kunisch 2002).

    Args:
        hessian: Hessian, (K, K); negative eigenvalues change their sign, so that saddle points repel.
        gradient: gradient at the origin, (K,).
        low: lower limits, (K,), not above 0.
        high: upper limits, (K,), not below 0.

    Example:
        >>> minimize_quadratic_in_box(np.diag([2.0, 1.0]), np.array([-2.0, -3.0]), -np.ones(2), 2 * np.ones(2))
        array([1., 2.])
    """
    eigenvalues, eigenvectors = np.linalg.eigh(hessian)
    eigenvalues = np.maximum(np.abs(eigenvalues), MIN_CURVATURE)
    step = -eigenvectors @ ((gradient @ eigenvectors) / eigenvalues)
    active = np.where(step < low, -1, np.where(step > high, 1, 0))
    if not active.any():
        return step
    hessian = (eigenvectors * eigenvalues) @ eigenvectors.T
    scale = np.diagonal(hessian)
    for _ in range(MAX_ACTIVE_SET_CHANGES):
        is_active = (active != 0).astype(float)
        free, boundary = 1.0 - is_active, np.where(active < 0, low, high) * is_active
        system = hessian * np.outer(free, free) + np.diag(is_active)
        step = np.linalg.solve(system, boundary - free * (gradient + hessian @ boundary))
        multiplier_point = step - is_active * (gradient + hessian @ step) / scale
        previous, active = active, np.where(multiplier_point < low, -1, np.where(multiplier_point > high, 1, 0))
        if np.array_equal(previous, active):
            break
    return np.clip(step, low, high)
