"""Worst directions on spheres of residuals, for weights that depend on one Mahalanobis radius."""

from collections.abc import Callable

import numpy as np

from wolf.diagnostics.certificate.influence_bounds import (
    RESIDUALS_PER_COORDINATE,
    InfluenceBounds,
    PosteriorChange,
    influence,
    unit,
)
from wolf.diagnostics.certificate.operating_point import Expectation

SPHERE_TOLERANCE = 1e-7  # relative deviation of a sphere of residuals from a linear map that is accepted
NUM_PROBES = 8  # directions that test linearity


def find_metric(measure: PosteriorChange, expected: Expectation) -> np.ndarray | None:
    """Find a metric whose spheres have a constant weight: roots (S, M, M) of S, R or the identity, or None."""
    innovation = np.asarray(expected.innovation_cov)
    size = innovation.shape[-1]
    scale = np.trace(innovation, axis1=1, axis2=2)[:, None, None] / size
    for cov in (innovation, np.asarray(expected.obs_cov), scale * np.eye(size)):
        roots = np.linalg.cholesky(np.broadcast_to(cov, innovation.shape))
        if _is_spherical(measure, expected, roots):
            return roots
    return None


def _is_spherical(measure: PosteriorChange, expected: Expectation, roots: np.ndarray) -> bool:
    count, size = roots.shape[:2]
    rng = np.random.default_rng(0)
    radii = np.geomspace(0.3, 100.0, RESIDUALS_PER_COORDINATE * size // (size + NUM_PROBES))
    probes = unit(rng.normal(size=(NUM_PROBES, size)))
    directions = np.concatenate([np.eye(size), probes])
    residuals = np.einsum("r,sij,kj->srki", radii, roots, directions).reshape(count, -1, size)
    white, spread = (part.reshape(count, len(radii), len(directions), -1) for part in measure(residuals))
    clean_shift = _clean_shift(expected)
    maps = white[:, :, :size] + clean_shift[:, None, None]  # row j is the image of basis vector j
    linear = np.einsum("kj,srjd->srkd", probes, maps) - clean_shift[:, None, None]
    scale = np.abs(white).max(axis=(2, 3), keepdims=True) + np.abs(spread).max(axis=(2, 3), keepdims=True) + 1e-12
    same_shift = np.abs(white[:, :, size:] - linear) <= SPHERE_TOLERANCE * scale
    same_spread = np.abs(spread - spread[:, :, :1]) <= SPHERE_TOLERANCE * scale
    return bool(same_shift.all() and same_spread.all())


def on_spheres(
    measure: PosteriorChange, expected: Expectation, roots: np.ndarray
) -> Callable[[np.ndarray], InfluenceBounds]:
    """Return a function that finds the worst residual on each sphere from its secular equation."""
    clean_shift, size = _clean_shift(expected), roots.shape[-1]

    def evaluate(radii: np.ndarray) -> InfluenceBounds:
        residuals = np.einsum("sn,sij->snji", radii, roots)
        white, spread = measure(residuals.reshape(len(radii), -1, size))
        maps = white.reshape(*radii.shape, size, -1) + clean_shift[:, None, None]
        targets = np.broadcast_to(clean_shift[:, None], (*radii.shape, clean_shift.shape[-1]))
        direction, squared = maximise_distance(np.swapaxes(maps, -1, -2), targets)
        spread = spread.reshape(*radii.shape, size)[..., 0]
        return InfluenceBounds(
            np.einsum("snji,snj->sni", residuals, direction), np.sqrt(squared), influence(np.sqrt(squared), spread)
        )

    return evaluate


def maximise_distance(maps: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Maximise `‖B z - d‖²` over unit vectors z.

    A stationary z solves `(μ I - BᵀB) z = -Bᵀd`, and the largest value belongs to the only root μ ≥ λ_max of
    `Σ b_i² / (μ - λ_i)² = 1` (Gander, Golub & von Matt 1989); if there is none, z is completed along the top
    eigenvector.

    Args:
        maps: B, (..., D, M).
        targets: d, (..., D).

    Returns:
        z, (..., M), and the largest value, (...).

    Example:
        >>> z, value = maximise_distance(np.diag([2.0, 1.0]), np.array([0.0, 0.0]))
        >>> np.abs(z).tolist(), float(value)
        ([1.0, 0.0], 4.0)
    """
    # Scaled first, because squares of huge maps overflow.
    scale = np.maximum(np.maximum(np.abs(maps).max(axis=(-1, -2)), np.abs(targets).max(axis=-1)), np.finfo(float).tiny)
    scaled, target = maps / scale[..., None, None], targets / scale[..., None]
    values, vectors = np.linalg.eigh(np.swapaxes(scaled, -1, -2) @ scaled)
    projected = np.einsum("...mi,...dm,...d->...i", vectors, scaled, target)
    top = values[..., -1:]
    low, high = np.abs(projected[..., -1:]), np.linalg.norm(projected, axis=-1, keepdims=True)
    for _ in range(100):  # bisection over μ - λ_max, to full precision
        middle = 0.5 * (low + high)
        gaps = np.maximum(middle + top - values, np.finfo(float).tiny)
        below = ((projected / gaps) ** 2).sum(-1, keepdims=True) < 1.0
        low, high = np.where(below, low, middle), np.where(below, middle, high)
    gaps = high + top - values
    z = np.divide(-projected, gaps, out=np.zeros_like(projected), where=gaps > 0)
    rest = np.maximum(1.0 - (z[..., :-1] ** 2).sum(-1), 0.0)
    z[..., -1] = np.where(z[..., -1] > 0, 1.0, -1.0) * np.sqrt(rest)
    z = np.einsum("...mi,...i->...m", vectors, unit(z))
    return z, ((np.einsum("...dm,...m->...d", scaled, z) - target) ** 2).sum(-1) * scale**2


def _clean_shift(expected: Expectation) -> np.ndarray:
    """Compute the shift of the mean by the clean measurement, in posterior standard deviations, (S, D)."""
    lower = np.linalg.cholesky(np.asarray(expected.posterior.cov))
    moved = np.asarray(expected.posterior.mean) - np.asarray(expected.predicted.mean)
    return np.linalg.solve(lower, moved[..., None])[..., 0]
