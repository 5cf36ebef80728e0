"""The worst error where a weight is no function of one radius: a search in all dimensions, and so a lower bound.

Residuals are measured in standard deviations of each coordinate. The search starts from rays in random directions and
from points whose coordinates have sizes of their own, and takes random steps uphill, ever smaller.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from wolf.diagnostics.certificate.influence_bounds import (
    FAR,
    GROWTH,
    POINTS,
    InfluenceBounds,
    Measure,
    WorstError,
    growth,
    influence,
    unit,
)
from wolf.diagnostics.certificate.operating_point import Expectation

RAYS = 20  # directions for each coordinate
SIZES = (1e-1, 1e5)  # of the residuals to start from
KEPT = 24  # points that go on climbing
CLIMBS, SHRINK = 50, 0.78  # rounds, and how fast the steps get smaller


def search(measure: Measure, expected: Expectation) -> list[WorstError]:
    """Search every situation.

    Args:
        measure: what residuals do to the posterior.
        expected: what the filter expects.
    """
    covs = np.asarray(expected.innovation_cov)
    count, size = covs.shape[:2]
    deviations = np.sqrt(np.diagonal(covs, axis1=1, axis2=2))
    rng = np.random.default_rng(0)
    directions = unit(np.concatenate([np.eye(size), -np.eye(size), rng.normal(size=((RAYS - 2) * size, size))]))

    def at(points: np.ndarray) -> InfluenceBounds:
        white, spread = measure(deviations[:, None] * points)
        shift = np.linalg.norm(white, axis=-1)
        return InfluenceBounds(points, shift, influence(shift, spread))

    def star(radii: np.ndarray) -> InfluenceBounds:
        rays = (radii[:, None, None] * directions).reshape(-1, size)
        return at(np.broadcast_to(rays, (count, *rays.shape)))

    radii = np.geomspace(*SIZES, POINTS // RAYS)
    wide, far = star(radii), star(np.asarray(FAR))
    starts = _join(wide, at(_scattered(rng, count, size)))
    tops = [_uphill(at, starts, name, rng) for name in ("influence", "shift")]
    found = []
    for i in range(count):
        distant = [values[i].reshape(2, -1).max(1) for values in (far.influence, far.shift)]
        power = growth(distant[0][0], distant[0][1])
        ends = []
        for k, (top, name) in enumerate(zip(tops, ("influence", "shift"), strict=True)):
            near, limit = float(getattr(top, name)[i, 0]), float(distant[k][1])
            residual = deviations[i] * top.residuals[i, 0]
            ends.append(_end(power, near, limit, residual, np.asarray(expected.residual)[i], covs[i]))
        curve = wide.influence[i].reshape(len(radii), -1).max(1)
        (value, error, radius), (shift, shift_error, shift_radius) = ends
        places = (error, radius, shift_error, shift_radius)
        last = np.inf if power > GROWTH else float(distant[0][1])
        found.append(WorstError(value, shift, *places, last, power, False, radii, curve))
    return found


def _end(power: float, near: float, limit: float, residual: np.ndarray, clean: np.ndarray, cov: np.ndarray) -> Any:
    """Say how large, where, and how far from the prediction."""
    if power > GROWTH or limit >= near:
        return np.inf if power > GROWTH else limit, np.full(len(residual), np.inf), np.inf
    return near, residual - clean, float(np.sqrt(residual @ np.linalg.solve(cov, residual)))


def _scattered(rng: np.random.Generator, count: int, size: int) -> np.ndarray:
    """Draw points whose coordinates have sizes of their own, of all orders."""
    low, high = np.log(SIZES)
    shape = (POINTS * size, size)
    points = np.exp(rng.uniform(low, high, shape)) * rng.choice([-1.0, 1.0], shape)
    return np.broadcast_to(points, (count, *shape))


def _uphill(at: Callable, starts: InfluenceBounds, name: str, rng: np.random.Generator) -> InfluenceBounds:
    """Take random steps from the best points and keep what is higher; the best of all comes first."""
    best = _top(starts, name)
    width = 0.5
    for _ in range(CLIMBS):
        points = np.repeat(best.residuals, POINTS * best.residuals.shape[-1] // KEPT, axis=1)
        # A step is a share of the whole length, or for every coordinate a share of its own size.
        lengths = np.linalg.norm(points, axis=-1, keepdims=True)
        own = rng.random((1, points.shape[1], 1)) < 0.5
        sizes = np.where(own, np.abs(points), lengths)
        tried = at(points + width * rng.normal(size=points.shape) * sizes)
        best = _top(_join(best, tried), name)
        width *= SHRINK
    return best


def _join(first: InfluenceBounds, second: InfluenceBounds) -> InfluenceBounds:
    return InfluenceBounds(*(np.concatenate(pair, axis=1) for pair in zip(first, second, strict=True)))


def _top(tried: InfluenceBounds, name: str) -> InfluenceBounds:
    order = np.argsort(-getattr(tried, name), axis=1)[:, :KEPT]
    return InfluenceBounds(
        np.take_along_axis(tried.residuals, order[..., None], 1),
        np.take_along_axis(tried.shift, order, 1),
        np.take_along_axis(tried.influence, order, 1),
    )
