"""A filter whose gain has settled, for many variances at once: what lets a model be tried out in milliseconds.

On even steps the covariance of a Kalman filter settles, and with it the gain K and the variance S of a one-step error,
whatever the data. With both known beforehand a step is a few products, the same for every choice of variances, so one
walk over the series serves a whole grid of them:

    e = y - H x,     x <- F (x + K ψ(e))

ψ cuts errors off at a few deviations, so that outliers move nothing far and a jump is still followed, as in robust
exponential smoothing (Gelper, Fried & Croux 2010, *Robust forecasting with exponential and Holt-Winters smoothing*,
Journal of Forecasting 29).
"""

from typing import NamedTuple

import numpy as np

from wolf.numerics.robust import MAD_TO_STD

DOUBLINGS = 40  # at most; each doubles the number of steps that the covariance has gone through
SETTLED = 1e-10  # relative change of a covariance that has settled
CUT = 3.0  # deviations at which an error is cut off
RIDGE = 1e-6  # share of the largest column's square that keeps the first state's equations solvable
ROUNDS = 5  # of reweighing, for the first state


class SteadyStateFilter(NamedTuple):
    """Where the covariance goes, for B choices of variances.

    Attributes:
        gain: K, (B, D).
        variance: S, of a one-step error, (B,).
    """

    gain: np.ndarray
    variance: np.ndarray


def settle(dynamics: np.ndarray, row: np.ndarray, noise: np.ndarray, obs_var: np.ndarray) -> SteadyStateFilter:
    """Find the gain that a filter settles to, by doubling (Chu, Fan, Lin & Wang 2004).

    Args:
        dynamics: F, (D, D).
        row: H, (D,).
        noise: Q, (B, D, D).
        obs_var: R, (B,), above 0.

    Example:
        >>> found = settle(np.eye(1), np.ones(1), np.array([[[1.0]]]), np.array([1.0]))
        >>> round(float(found.gain[0, 0]), 6)  # the golden ratio less 1
        0.618034
    """
    known = np.multiply.outer(1.0 / obs_var, np.outer(row, row))
    cov = _doubled(dynamics, known, noise)
    seen_by = cov @ row
    variance = seen_by @ row + obs_var
    return SteadyStateFilter(seen_by / variance[:, None], variance)


def settled_cov(dynamics: np.ndarray, rows: np.ndarray, noise: np.ndarray, obs_cov: np.ndarray) -> np.ndarray:
    """Find the predicted covariance that a filter of several measured numbers settles to, (D, D).

    Args:
        dynamics: F, (D, D).
        rows: H, (M, D).
        noise: Q, (D, D).
        obs_cov: R, (M, M).
    """
    return _doubled(dynamics, (rows.T @ np.linalg.solve(obs_cov, rows))[None], noise[None])[0]


def _doubled(dynamics: np.ndarray, known: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Follow predicted covariances (B, D, D) by doubling; `known` is Hᵀ R⁻¹ H."""
    count, size, _ = noise.shape
    ahead = np.broadcast_to(dynamics.T, (count, size, size))
    cov = noise
    for _ in range(DOUBLINGS):
        joint = np.eye(size) + known @ cov
        moved, seen = np.linalg.solve(joint, ahead), np.linalg.solve(joint, known)
        back = np.swapaxes(ahead, 1, 2)
        known = known + ahead @ seen @ back
        added = back @ cov @ moved
        cov, ahead = cov + 0.5 * (added + np.swapaxes(added, 1, 2)), ahead @ moved
        if np.all(np.abs(added).max((1, 2)) <= SETTLED * np.abs(cov).max((1, 2))):
            break
    return cov


def walk(
    values: np.ndarray, dynamics: np.ndarray, row: np.ndarray, gain: np.ndarray, start: np.ndarray, cut: np.ndarray
) -> np.ndarray:
    """Predict a series step by step with settled gains, and return the one-step errors (T, B).

    Args:
        values: (T,), NaN where missing.
        dynamics: F, (D, D).
        row: H, (D,).
        gain: K, (B, D).
        start: predicted state of the first step, (D,).
        cut: size at which an error is cut off, (B,).
    """
    moved, ahead = gain @ dynamics.T, dynamics.T
    state = np.tile(start, (len(gain), 1))
    errors = np.empty((len(values), len(gain)))
    low, high = -cut, cut
    for t, value in enumerate(values.tolist()):
        error = errors[t]
        np.subtract(value, state @ row, out=error)
        state = state @ ahead
        if value == value:  # not NaN
            state += moved * np.minimum(np.maximum(error, low), high)[:, None]
    return errors


def first_state(values: np.ndarray, dynamics: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Find the state from which undisturbed dynamics come closest to the first values, outliers aside.

    Args:
        values: (n,), NaN where missing.
        dynamics: F, (D, D).
        row: H, (D,).
    """
    design = np.empty((len(values), len(row)))
    ahead = row.copy()
    for t in range(len(values)):
        design[t] = ahead
        ahead = ahead @ dynamics
    known = np.isfinite(values)
    design, values = design[known], values[known]
    middle = np.median(values) if values.size else 0.0
    weight, found = np.ones(len(values)), np.zeros(len(row))
    for _ in range(ROUNDS):
        weighted = design.T * weight
        square = weighted @ design
        ridge = RIDGE * max(np.diag(square).max(initial=0.0), 1e-300) * np.eye(len(row))
        found = np.linalg.solve(square + ridge, weighted @ (values - middle))
        error = np.abs(values - middle - design @ found)
        scale = CUT * MAD_TO_STD * max(float(np.median(error)) if error.size else 0.0, 1e-300)
        weight = np.minimum(1.0, scale / np.maximum(error, 1e-300))
    found[int(np.argmax(row != 0))] += middle  # the first state that is measured carries the level
    return found
