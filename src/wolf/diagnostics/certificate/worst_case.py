"""The worst single error: supremum of the one-step influence over all errors, and where it is.

If the weight depends on the residual through one Mahalanobis radius, then on a sphere of residuals `e = r A½ z`,
‖z‖ = 1, the posterior covariance is one and the mean moves linearly, so the worst direction solves

    maximise ‖B z - d‖²   over ‖z‖ = 1,

an eigenproblem for a clean residual of zero (d = 0) and a secular equation otherwise (Gander, Golub & von Matt 1989);
one dimension, the radius, is left to search. Whether the weight is of that kind is tested on the filter itself. For
other rules the search goes through all dimensions, and its result is a lower bound.
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
from wolf.diagnostics.certificate.operating_point import Expectation, OperatingPoint, respond_each
from wolf.diagnostics.certificate.random_search import search
from wolf.diagnostics.certificate.worst_direction import find_metric, on_spheres

NEAR, REACH = 1e-3, 1e6  # radii that are searched, in standard deviations of the predicted measurement
ZOOMS = 4  # grids around a peak, each 150 times finer
MOST_NUMBERS = 2e7  # in the covariances of one call; beyond that it is cut into one for each coordinate
PEAKS = 2  # of each objective, that are searched more closely


def find(model: Any, method: Any, situations: OperatingPoint, expected: Expectation) -> list[WorstError]:
    """Search every situation.

    Args:
        model: cast to float64.
        method: a Gaussian filter, cast to float64.
        situations: with a leading axis.
        expected: what the filter expects in them.
    """
    count, size = situations.y.shape
    pieces = size if count * POINTS * size * model.state_dim**2 > MOST_NUMBERS else 1

    def measure(residuals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Call the filter, always with one number of residuals, so that it is compiled once."""
        number = residuals.shape[1]
        errors = np.zeros((count, POINTS * size, size))
        errors[:, :number] = residuals - np.asarray(expected.residual)[:, None]
        parts = [respond_each(model, method, situations, part) for part in np.split(errors, pieces, axis=1)]
        white, spread = (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
        return white[:, :number], spread[:, :number]

    roots = find_metric(measure, expected)
    if roots is not None:
        worst = _by_radius(measure, on_spheres(measure, expected, roots), count, expected, exact=True)
        if not _exceeded(measure, worst, expected):
            return worst
    if size == 1:
        return _by_radius(measure, _signs(measure, expected), count, expected, exact=True)
    return search(measure, expected)


def _signs(measure: Measure, expected: Expectation) -> Callable[[np.ndarray], InfluenceBounds]:
    """Try both signs of a residual in one coordinate."""
    roots = np.sqrt(np.asarray(expected.innovation_cov)[:, :1, 0])

    def at(radii: np.ndarray) -> InfluenceBounds:
        pair = []
        for sign in (1.0, -1.0):
            residuals = sign * (roots * radii)[..., None]
            white, spread = measure(residuals)
            shift = np.linalg.norm(white, axis=-1)
            pair.append(InfluenceBounds(residuals, shift, influence(shift, spread)))
        upper = pair[0].influence >= pair[1].influence
        return InfluenceBounds(
            *(np.where(upper if a.ndim == 2 else upper[..., None], a, b) for a, b in zip(*pair, strict=True))
        )

    return at


def _by_radius(measure: Measure, at: Callable, count: int, expected: Expectation, *, exact: bool) -> list[WorstError]:
    """Search one dimension: a grid over nine decades, then its best peaks more closely, then the far end."""
    grid = np.geomspace(NEAR, REACH, POINTS)
    wide = at(np.broadcast_to(grid, (count, POINTS)))
    best = wide
    centres = [_peaks(grid, values) for values in (wide.influence, wide.shift)]
    width = np.log(grid[1] / grid[0])
    for _ in range(ZOOMS):
        fine = np.linspace(-width, width, POINTS // (2 * PEAKS))
        radii = np.concatenate(centres, axis=1)[..., None] * np.exp(fine)
        tried = at(radii.reshape(count, -1))
        best = InfluenceBounds(*(np.concatenate(pair, axis=1) for pair in zip(best, tried, strict=True)))
        shape = (count, 2 * PEAKS, -1)
        picks = [
            np.take_along_axis(radii[:, part], values.reshape(shape)[:, part].argmax(-1)[..., None], -1)[..., 0]
            for part, values in ((slice(0, PEAKS), tried.influence), (slice(PEAKS, None), tried.shift))
        ]
        centres, width = picks, fine[1] - fine[0]
    far = at(np.broadcast_to([*FAR, *grid[2:]], (count, POINTS)))
    return [_worst(i, expected, grid, wide, best, far, exact) for i in range(count)]


def _worst(
    i: int,
    expected: Expectation,
    grid: np.ndarray,
    wide: InfluenceBounds,
    best: InfluenceBounds,
    far: InfluenceBounds,
    exact: bool,
) -> WorstError:
    """Put one situation together."""
    power = growth(far.influence[i, 0], far.influence[i, 1])
    root = np.linalg.cholesky(np.asarray(expected.innovation_cov)[i])
    found = []
    for near, distant in ((best.influence[i], far.influence[i, 1]), (best.shift[i], far.shift[i, 1])):
        top = int(near.argmax())
        if power > GROWTH:
            found.append((np.inf, np.full(len(root), np.inf), np.inf))
        elif distant >= near[top]:  # approached, never reached
            found.append((float(distant), np.full(len(root), np.inf), np.inf))
        else:
            residual = best.residuals[i, top]
            radius = float(np.linalg.norm(np.linalg.solve(root, residual)))
            found.append((float(near[top]), residual - np.asarray(expected.residual)[i], radius))
    (influence, error, radius), (shift, shift_error, shift_radius) = found
    limit = np.inf if power > GROWTH else float(far.influence[i, 1])
    where = (error, radius, shift_error, shift_radius)
    return WorstError(influence, shift, *where, limit, power, exact, grid, wide.influence[i])


def _exceeded(measure: Measure, worst: list[WorstError], expected: Expectation) -> bool:
    """Try to beat the result at random; that a weight only looked spherical shows here."""
    roots = np.linalg.cholesky(np.asarray(expected.innovation_cov))
    size = roots.shape[-1]
    rng = np.random.default_rng(1)
    directions = unit(rng.normal(size=(POINTS * size, size)))
    near = np.array([w.radius if np.isfinite(w.radius) else 1.0 for w in worst])
    radii = near[:, None] * np.exp(rng.normal(size=POINTS * size))
    white, spread = measure(np.einsum("sij,nj,sn->sni", roots, directions, radii))
    found = influence(np.linalg.norm(white, axis=-1), spread).max(1)
    return bool(np.any(found > np.array([w.influence for w in worst]) * (1 + 1e-6)))


def _peaks(grid: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Find the radii of the highest local maxima, (S, PEAKS); an only one comes twice."""
    beside = np.pad(values, ((0, 0), (1, 1)), constant_values=-np.inf)
    local = (values >= beside[:, :-2]) & (values >= beside[:, 2:])
    order = np.argsort(-np.where(local, values, -np.inf), axis=1)[:, :PEAKS]
    found = np.take_along_axis(local, order, 1)
    return grid[np.where(found, order, order[:, :1])]
