"""Worst directions on spheres of residuals, for weights that depend on one Mahalanobis radius."""

from collections.abc import Callable

import numpy as np

from wolf.diagnostics.certificate.influence_bounds import POINTS, InfluenceBounds, Measure, influence, unit
from wolf.diagnostics.certificate.operating_point import Expectation

ALIKE = 1e-7  # relative, by which a sphere of residuals may differ from a linear map
PROBES = 8  # directions that test it


def find_metric(measure: Measure, expected: Expectation) -> np.ndarray | None:
    """Find a metric whose spheres the filter treats as one: roots (S, M, M) of S, R or the identity, or None."""
    innovation = np.asarray(expected.innovation_cov)
    size = innovation.shape[-1]
    scale = np.trace(innovation, axis1=1, axis2=2)[:, None, None] / size
    for cov in (innovation, np.asarray(expected.obs_cov), scale * np.eye(size)):
        roots = np.linalg.cholesky(np.broadcast_to(cov, innovation.shape))
        if _is_spherical(measure, expected, roots):
            return roots
    return None


def _is_spherical(measure: Measure, expected: Expectation, roots: np.ndarray) -> bool:
    count, size = roots.shape[:2]
    rng = np.random.default_rng(0)
    radii = np.geomspace(0.3, 100.0, POINTS * size // (size + PROBES))
    probes = unit(rng.normal(size=(PROBES, size)))
    directions = np.concatenate([np.eye(size), probes])
    residuals = np.einsum("r,sij,kj->srki", radii, roots, directions).reshape(count, -1, size)
    white, spread = (part.reshape(count, len(radii), len(directions), -1) for part in measure(residuals))
    offset = _offset(expected)
    maps = white[:, :, :size] + offset[:, None, None]  # row j is where basis vector j goes
    linear = np.einsum("kj,srjd->srkd", probes, maps) - offset[:, None, None]
    scale = np.abs(white).max(axis=(2, 3), keepdims=True) + np.abs(spread).max(axis=(2, 3), keepdims=True) + 1e-12
    same_shift = np.abs(white[:, :, size:] - linear) <= ALIKE * scale
    same_spread = np.abs(spread - spread[:, :, :1]) <= ALIKE * scale
    return bool(same_shift.all() and same_spread.all())


def on_spheres(measure: Measure, expected: Expectation, roots: np.ndarray) -> Callable[[np.ndarray], InfluenceBounds]:
    """Find the worst residual on each sphere by its secular equation."""
    offset, size = _offset(expected), roots.shape[-1]

    def at(radii: np.ndarray) -> InfluenceBounds:
        residuals = np.einsum("sn,sij->snji", radii, roots)
        white, spread = measure(residuals.reshape(len(radii), -1, size))
        maps = white.reshape(*radii.shape, size, -1) + offset[:, None, None]
        targets = np.broadcast_to(offset[:, None], (*radii.shape, offset.shape[-1]))
        direction, squared = farthest(np.swapaxes(maps, -1, -2), targets)
        spread = spread.reshape(*radii.shape, size)[..., 0]
        return InfluenceBounds(
            np.einsum("snji,snj->sni", residuals, direction), np.sqrt(squared), influence(np.sqrt(squared), spread)
        )

    return at


def farthest(maps: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
        >>> z, value = farthest(np.diag([2.0, 1.0]), np.array([0.0, 0.0]))
        >>> np.abs(z).tolist(), float(value)
        ([1.0, 0.0], 4.0)
    """
    # Squares of huge maps overflow.
    scale = np.maximum(np.maximum(np.abs(maps).max(axis=(-1, -2)), np.abs(targets).max(axis=-1)), np.finfo(float).tiny)
    scaled, aim = maps / scale[..., None, None], targets / scale[..., None]
    values, vectors = np.linalg.eigh(np.swapaxes(scaled, -1, -2) @ scaled)
    pull = np.einsum("...mi,...dm,...d->...i", vectors, scaled, aim)
    top = values[..., -1:]
    low, high = np.abs(pull[..., -1:]), np.linalg.norm(pull, axis=-1, keepdims=True)
    for _ in range(100):  # bisection over μ - λ_max, to the last bit
        middle = 0.5 * (low + high)
        gaps = np.maximum(middle + top - values, np.finfo(float).tiny)
        small = ((pull / gaps) ** 2).sum(-1, keepdims=True) < 1.0
        low, high = np.where(small, low, middle), np.where(small, middle, high)
    gaps = high + top - values
    z = np.divide(-pull, gaps, out=np.zeros_like(pull), where=gaps > 0)
    rest = np.maximum(1.0 - (z[..., :-1] ** 2).sum(-1), 0.0)
    z[..., -1] = np.where(z[..., -1] > 0, 1.0, -1.0) * np.sqrt(rest)
    z = np.einsum("...mi,...i->...m", vectors, unit(z))
    return z, ((np.einsum("...dm,...m->...d", scaled, z) - aim) ** 2).sum(-1) * scale**2


def _offset(expected: Expectation) -> np.ndarray:
    """How far the clean measurement itself moved the mean, in posterior standard deviations, (S, D)."""
    lower = np.linalg.cholesky(np.asarray(expected.posterior.cov))
    moved = np.asarray(expected.posterior.mean) - np.asarray(expected.predicted.mean)
    return np.linalg.solve(lower, moved[..., None])[..., 0]
