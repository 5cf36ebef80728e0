"""Filters with steady-state gain, for many variances at once: evaluates a candidate model in milliseconds.

On regular time steps the covariance of a Kalman filter converges, and with it the gain K and the innovation variance S,
whatever the data. With both precomputed a step is a few products, the same for every choice of variances, so one pass
over the series serves a whole grid of them:

    e = y - H x,     x <- F (x + K ψ(e))

ψ clips errors at a few standard deviations, so that outliers have little effect and a jump is still tracked, as in
robust exponential smoothing (Gelper, Fried & Croux 2010, *Robust forecasting with exponential and Holt-Winters
smoothing*, Journal of Forecasting 29).
"""

from typing import NamedTuple

import numpy as np

from wolf.numerics.robust import MAD_TO_STD

MAX_DOUBLINGS = 40  # at most; each doubles the number of steps that the covariance has converged over
CONVERGENCE_TOLERANCE = 1e-10  # relative change of a converged covariance
CLIP_DEVIATIONS = 3.0  # standard deviations at which an error is clipped
RIDGE = 1e-6  # relative to the largest column's square; keeps the equations of the initial state solvable
NUM_REWEIGHTINGS = 5  # iterations of reweighting, for the initial state


class SteadyStateFilter(NamedTuple):
    """Steady-state gain and innovation variance, for B choices of variances.

    Attributes:
        gain: K, (B, D).
        variance: S, of a one-step error, (B,).
    """

    gain: np.ndarray
    variance: np.ndarray


def steady_state_gain(
    dynamics: np.ndarray, row: np.ndarray, noise: np.ndarray, obs_var: np.ndarray
) -> SteadyStateFilter:
    """Compute the steady-state gain of a filter by doubling (Chu, Fan, Lin & Wang 2004).

    Args:
        dynamics: F, (D, D).
        row: H, (D,).
        noise: Q, (B, D, D).
        obs_var: R, (B,), above 0.

    Example:
        >>> found = steady_state_gain(np.eye(1), np.ones(1), np.array([[[1.0]]]), np.array([1.0]))
        >>> round(float(found.gain[0, 0]), 6)  # the golden ratio less 1
        0.618034
    """
    known = np.multiply.outer(1.0 / obs_var, np.outer(row, row))
    cov = _converged_cov(dynamics, known, noise)
    cov_row = cov @ row
    variance = cov_row @ row + obs_var
    return SteadyStateFilter(cov_row / variance[:, None], variance)


def steady_state_cov(dynamics: np.ndarray, rows: np.ndarray, noise: np.ndarray, obs_cov: np.ndarray) -> np.ndarray:
    """Compute the steady-state predicted covariance of a filter with several measured coordinates, (D, D).

    Args:
        dynamics: F, (D, D).
        rows: H, (M, D).
        noise: Q, (D, D).
        obs_cov: R, (M, M).
    """
    return _converged_cov(dynamics, (rows.T @ np.linalg.solve(obs_cov, rows))[None], noise[None])[0]


def _converged_cov(dynamics: np.ndarray, known: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Iterate predicted covariances (B, D, D) by doubling; `known` is Hᵀ R⁻¹ H."""
    count, size, _ = noise.shape
    ahead = np.broadcast_to(dynamics.T, (count, size, size))
    cov = noise
    for _ in range(MAX_DOUBLINGS):
        joint = np.eye(size) + known @ cov
        moved, seen = np.linalg.solve(joint, ahead), np.linalg.solve(joint, known)
        back = np.swapaxes(ahead, 1, 2)
        known = known + ahead @ seen @ back
        added = back @ cov @ moved
        cov, ahead = cov + 0.5 * (added + np.swapaxes(added, 1, 2)), ahead @ moved
        if np.all(np.abs(added).max((1, 2)) <= CONVERGENCE_TOLERANCE * np.abs(cov).max((1, 2))):
            break
    return cov


def one_step_errors(
    values: np.ndarray, dynamics: np.ndarray, row: np.ndarray, gain: np.ndarray, start: np.ndarray, cut: np.ndarray
) -> np.ndarray:
    """Predict a series step by step with steady-state gains, and return the one-step errors, (T, B).

    Args:
        values: (T,), NaN where missing.
        dynamics: F, (D, D).
        row: H, (D,).
        gain: K, (B, D).
        start: predicted state of the first step, (D,).
        cut: size at which an error is clipped, (B,).
    """
    return one_step_errors_of_pieces(values[:, None], dynamics, row, gain, start[None], cut)[:, 0]


def one_step_errors_of_pieces(
    values: np.ndarray, dynamics: np.ndarray, row: np.ndarray, gain: np.ndarray, starts: np.ndarray, cut: np.ndarray
) -> np.ndarray:
    """Predict several pieces of a series at once, as `one_step_errors`; return the errors, (T, P, B).

    A step of all pieces costs hardly more than one of a single piece: the calls are what takes time, not the numbers.

    Args:
        values: (T, P), NaN where missing.
        dynamics: F, (D, D).
        row: H, (D,).
        gain: K, (B, D).
        starts: predicted states of the first step, (P, D).
        cut: size at which an error is clipped, (B,).
    """
    steps, pieces = values.shape
    choices = len(gain)
    both = np.vstack([row, dynamics])  # one product for the prediction of the value and that of the state
    moved, high = np.tile((gain @ dynamics.T).T, pieces), np.tile(cut, pieces)
    low = -high
    state = np.repeat(starts.T, choices, axis=1)  # (D, P B)
    known = np.repeat(np.isfinite(values), choices, axis=1)
    errors = np.repeat(values, choices, axis=1)
    complete = np.all(known, axis=1).tolist()
    for t in range(steps):
        ahead = both @ state
        error = errors[t]
        error -= ahead[0]
        clipped = np.minimum(np.maximum(error, low), high)
        if not complete[t]:
            clipped[~known[t]] = 0.0
        state = ahead[1:]
        state += moved * clipped
    return errors.reshape(steps, pieces, choices)


def estimate_initial_state(values: np.ndarray, dynamics: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Fit the initial state whose noise-free dynamics are closest to the first values, robustly.

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
    for _ in range(NUM_REWEIGHTINGS):
        weighted = design.T * weight
        square = weighted @ design
        ridge = RIDGE * max(np.diag(square).max(initial=0.0), 1e-300) * np.eye(len(row))
        found = np.linalg.solve(square + ridge, weighted @ (values - middle))
        error = np.abs(values - middle - design @ found)
        scale = CLIP_DEVIATIONS * MAD_TO_STD * max(float(np.median(error)) if error.size else 0.0, 1e-300)
        weight = np.minimum(1.0, scale / np.maximum(error, 1e-300))
    found[int(np.argmax(row != 0))] += middle  # the first measured state carries the level
    return found
