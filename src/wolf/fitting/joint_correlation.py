"""Correlation of the disturbances of several series, from the innovations of a filter of each.

If the disturbances of two series have the correlation ρ, the innovations of their own steady-state filters have the
covariance ρ h_i X h_jᵀ, where X = A_i X A_jᵀ + L_i E L_jᵀ, A = F (I - K H), and L_i E L_jᵀ is the covariance of the
disturbances for ρ = 1. Innovations are clipped, so that outliers do not make or break a correlation.
"""

from collections.abc import Sequence

import numpy as np

from wolf import api
from wolf.models.joint import cross_noise, nearest_correlation
from wolf.statespace import LinearModel

CLIP = 2.5  # standard deviations beyond which innovations are clipped
MAX_ROUNDS = 60  # doublings of the number of steps
RICCATI_STEPS = 500
MIN_STANDARD_ERRORS = 2.5  # a smaller correlation is taken for none
MIN_PAIRS = 20  # rows in which both are measured


def estimate_correlation(models: Sequence[LinearModel], values: np.ndarray) -> np.ndarray:
    """Estimate the correlation of disturbances.

    Args:
        models: one for each series, of one measurement, fixed in time.
        values: (T, M), NaN where missing or faulty.

    Returns:
        (M, M); 0 where it is not significant.
    """
    errors = np.stack([_standardised(model, column) for model, column in zip(models, values.T, strict=True)], axis=1)
    steady = [_steady_state(model) for model in models]
    count = len(models)
    found = np.eye(count)
    for i in range(count):
        for j in range(i):
            both = np.isfinite(errors[:, i]) & np.isfinite(errors[:, j])
            if both.sum() < MIN_PAIRS:
                continue
            one, other = errors[both, i], errors[both, j]
            observed = float(np.mean(one * other) / np.sqrt(np.mean(one**2) * np.mean(other**2)))
            response = _response(models[i], models[j], *steady[i], *steady[j])
            if abs(response) * MIN_STANDARD_ERRORS > 0 and abs(observed) > MIN_STANDARD_ERRORS / np.sqrt(both.sum()):
                found[i, j] = found[j, i] = np.clip(observed / response, -1.0, 1.0)
    return nearest_correlation(found)


def _standardised(model: LinearModel, column: np.ndarray) -> np.ndarray:
    """Compute clipped one-step errors in their standard deviations, (T,); NaN where missing."""
    out = api.filter(model, column, method="KF")
    errors = out.residuals[:, 0] / np.sqrt(out.innovation_covs[:, 0, 0])
    known = np.abs(errors[np.isfinite(errors)])
    scale = np.median(known) / 0.6745 if known.size else 1.0
    return np.clip(errors / max(scale, 1e-300), -CLIP, CLIP)


def _steady_state(model: LinearModel) -> tuple[np.ndarray, float]:
    """Compute A = F (I - K H) and the innovation variance of the steady-state filter."""
    size = model.state_dim
    dynamics = np.eye(size) if model.F is None else np.asarray(model.F)
    row, noise, cov = np.asarray(model.H)[0], np.asarray(model.Q), np.asarray(model.Q) + np.eye(size) * model.R[0, 0]
    noise = np.diag(noise) if noise.ndim == 1 else noise
    for _ in range(RICCATI_STEPS):
        gain = cov @ row / (row @ cov @ row + model.R[0, 0])
        closed = dynamics @ (np.eye(size) - np.outer(gain, row))
        cov = dynamics @ (cov - np.outer(gain, row @ cov)) @ dynamics.T + noise
    gain = cov @ row / (row @ cov @ row + model.R[0, 0])
    return closed, float(row @ cov @ row + model.R[0, 0])


def _response(
    first: LinearModel,
    second: LinearModel,
    closed_first: np.ndarray,
    variance_first: float,
    closed_second: np.ndarray,
    variance_second: float,
) -> float:
    """Compute the correlation of innovations if that of the disturbances is 1."""
    total, left, right = cross_noise(first, second), closed_first, closed_second
    for _ in range(MAX_ROUNDS):
        added = left @ total @ right.T
        total, left, right = total + added, left @ left, right @ right
        if np.abs(added).max(initial=0.0) <= 1e-12 * np.abs(total).max(initial=1e-300):
            break
    covariance = float(np.asarray(first.H)[0] @ total @ np.asarray(second.H)[0])
    return covariance / np.sqrt(variance_first * variance_second)
