"""Worst error for weights that are not a function of one radius: a search in all dimensions, i.e. a lower bound.

Residuals are measured in standard deviations of each coordinate. The search starts from rays in random directions and
from wolf.numerics.pytree import PyTree
from wolf.numerics.pytree import PyTree
from wolf.numerics.pytree import PyTree
from points whose coordinates have independent magnitudes, and takes random uphill steps of decreasing size.
"""

from collections.abc import Callable

import numpy as np

from wolf.diagnostics.certificate.influence_bounds import (
    FAR_RADII,
    MIN_GROWTH_POWER,
    RESIDUALS_PER_COORDINATE,
    InfluenceBounds,
    PosteriorChange,
    WorstError,
    growth,
    influence,
    unit,
)
from wolf.diagnostics.certificate.operating_point import Expectation

RAYS_PER_COORDINATE = 20  # directions per coordinate
RESIDUAL_SIZES = (1e-1, 1e5)  # range of sizes of the initial residuals
NUM_CANDIDATES = 24  # points kept in each round
NUM_ROUNDS, STEP_DECAY = 50, 0.78  # rounds of ascent, and decay of the step size per round


def search(measure: PosteriorChange, expected: Expectation) -> list[WorstError]:
    """Search the worst error at every operating point.

    Args:
        measure: change of the posterior as a function of residuals.
        expected: moments of the clean updates.
    """
    covs = np.asarray(expected.innovation_cov)
    count, size = covs.shape[:2]
    deviations = np.sqrt(np.diagonal(covs, axis1=1, axis2=2))
    rng = np.random.default_rng(0)
    directions = unit(
        np.concatenate([np.eye(size), -np.eye(size), rng.normal(size=((RAYS_PER_COORDINATE - 2) * size, size))])
    )

    def evaluate(points: np.ndarray) -> InfluenceBounds:
        white, spread = measure(deviations[:, None] * points)
        shift = np.linalg.norm(white, axis=-1)
        return InfluenceBounds(points, shift, influence(shift, spread))

    def along_rays(radii: np.ndarray) -> InfluenceBounds:
        rays = (radii[:, None, None] * directions).reshape(-1, size)
        return evaluate(np.broadcast_to(rays, (count, *rays.shape)))

    radii = np.geomspace(*RESIDUAL_SIZES, RESIDUALS_PER_COORDINATE // RAYS_PER_COORDINATE)
    near, far = along_rays(radii), along_rays(np.asarray(FAR_RADII))
    start = _concatenate(near, evaluate(_scattered_points(rng, count, size)))
    peaks = [_random_ascent(evaluate, start, name, rng) for name in ("influence", "shift")]
    worst = []
    for i in range(count):
        distant = [values[i].reshape(2, -1).max(1) for values in (far.influence, far.shift)]
        power = growth(distant[0][0], distant[0][1])
        summaries = []
        for k, (peak, name) in enumerate(zip(peaks, ("influence", "shift"), strict=True)):
            value_near, limit = float(_values(peak, name)[i, 0]), float(distant[k][1])
            residual = deviations[i] * peak.residuals[i, 0]
            summaries.append(_summarise(power, value_near, limit, residual, np.asarray(expected.residual)[i], covs[i]))
        curve = near.influence[i].reshape(len(radii), -1).max(1)
        (value, error, radius), (shift, shift_error, shift_radius) = summaries
        places = (error, radius, shift_error, shift_radius)
        last = np.inf if power > MIN_GROWTH_POWER else float(distant[0][1])
        worst.append(WorstError(value, shift, *places, last, power, False, radii, curve))
    return worst


def _summarise(
    power: float, value_near: float, limit: float, residual: np.ndarray, clean: np.ndarray, cov: np.ndarray
) -> tuple[float, np.ndarray, float]:
    """Return the supremum, the error that attains it, and its distance from the prediction."""
    if power > MIN_GROWTH_POWER or limit >= value_near:
        return np.inf if power > MIN_GROWTH_POWER else limit, np.full(len(residual), np.inf), np.inf
    return value_near, residual - clean, float(np.sqrt(residual @ np.linalg.solve(cov, residual)))


def _scattered_points(rng: np.random.Generator, count: int, size: int) -> np.ndarray:
    """Draw points whose coordinates have independent, log-uniform magnitudes."""
    low, high = np.log(RESIDUAL_SIZES)
    shape = (RESIDUALS_PER_COORDINATE * size, size)
    points = np.exp(rng.uniform(low, high, shape)) * rng.choice([-1.0, 1.0], shape)
    return np.broadcast_to(points, (count, *shape))


def _random_ascent(evaluate: Callable, start: InfluenceBounds, name: str, rng: np.random.Generator) -> InfluenceBounds:
    """Improve the best points by random steps; the best point comes first."""
    best = _best(start, name)
    width = 0.5
    for _ in range(NUM_ROUNDS):
        points = np.repeat(
            best.residuals, RESIDUALS_PER_COORDINATE * best.residuals.shape[-1] // NUM_CANDIDATES, axis=1
        )
        # Steps are proportional to the norm of the point, or per coordinate to its magnitude.
        lengths = np.linalg.norm(points, axis=-1, keepdims=True)
        per_coordinate = rng.random((1, points.shape[1], 1)) < 0.5
        sizes = np.where(per_coordinate, np.abs(points), lengths)
        candidates = evaluate(points + width * rng.normal(size=points.shape) * sizes)
        best = _best(_concatenate(best, candidates), name)
        width *= STEP_DECAY
    return best


def _concatenate(first: InfluenceBounds, second: InfluenceBounds) -> InfluenceBounds:
    return InfluenceBounds(*(np.concatenate(pair, axis=1) for pair in zip(first, second, strict=True)))


def _values(bounds: InfluenceBounds, name: str) -> np.ndarray:
    return bounds.influence if name == "influence" else bounds.shift


def _best(candidates: InfluenceBounds, name: str) -> InfluenceBounds:
    order = np.argsort(-_values(candidates, name), axis=1)[:, :NUM_CANDIDATES]
    return InfluenceBounds(
        np.take_along_axis(candidates.residuals, order[..., None], 1),
        np.take_along_axis(candidates.shift, order, 1),
        np.take_along_axis(candidates.influence, order, 1),
    )
