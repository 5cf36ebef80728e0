"""Worst single error: supremum of the one-step influence over all errors, and the error that attains it.

If the weight depends on the residual through one Mahalanobis radius, then on a sphere of residuals `e = r A½ z`,
‖z‖ = 1, the posterior covariance is constant and the mean is linear in z, so the worst direction solves

    maximise ‖B z - d‖²   over ‖z‖ = 1,

an eigenproblem for a clean residual of zero (d = 0) and a secular equation otherwise (Gander, Golub & von Matt 1989);
the radius remains, a one-dimensional search. Whether the weight has this form is tested numerically on the filter. For
other noise models all dimensions are searched, and the result is a lower bound.
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
from wolf.diagnostics.certificate.operating_point import Expectation, OperatingPoint, respond_each
from wolf.diagnostics.certificate.random_search import search
from wolf.diagnostics.certificate.worst_direction import find_metric, on_spheres
from wolf.interfaces import Filter
from wolf.statespace import Model

MIN_RADIUS, MAX_RADIUS = 1e-3, 1e6  # searched radii, in standard deviations of the predicted measurement
NUM_ZOOMS = 4  # refinements of the grid around a peak, each by a factor of 150
MAX_COVARIANCE_ENTRIES = 2e7  # entries of the covariances of one call; larger calls are split by coordinate
NUM_PEAKS = 2  # peaks of each objective that are refined


def find_worst_errors(model: Model, method: Filter, points: OperatingPoint, expected: Expectation) -> list[WorstError]:
    """Find the worst error at every operating point.

    Args:
        model: model, cast to float64.
        method: a Gaussian filter, cast to float64.
        points: operating points, with a leading axis.
        expected: moments of the clean updates there.
    """
    count, size = points.y.shape
    num_calls = size if count * RESIDUALS_PER_COORDINATE * size * model.state_dim**2 > MAX_COVARIANCE_ENTRIES else 1

    def measure(residuals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Call the filter, always with the same number of residuals, so that it is compiled once."""
        number = residuals.shape[1]
        errors = np.zeros((count, RESIDUALS_PER_COORDINATE * size, size))
        errors[:, :number] = residuals - np.asarray(expected.residual)[:, None]
        parts = [respond_each(model, method, points, part) for part in np.split(errors, num_calls, axis=1)]
        white, spread = (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
        return white[:, :number], spread[:, :number]

    roots = find_metric(measure, expected)
    if roots is not None:
        worst = _search_radius(measure, on_spheres(measure, expected, roots), count, expected, exact=True)
        if not _is_exceeded(measure, worst, expected):
            return worst
    if size == 1:
        return _search_radius(measure, _both_signs(measure, expected), count, expected, exact=True)
    return search(measure, expected)


def _both_signs(measure: PosteriorChange, expected: Expectation) -> Callable[[np.ndarray], InfluenceBounds]:
    """Return a function that evaluates both signs of a scalar residual and keeps the larger influence."""
    roots = np.sqrt(np.asarray(expected.innovation_cov)[:, :1, 0])

    def evaluate(radii: np.ndarray) -> InfluenceBounds:
        pair = []
        for sign in (1.0, -1.0):
            residuals = sign * (roots * radii)[..., None]
            white, spread = measure(residuals)
            shift = np.linalg.norm(white, axis=-1)
            pair.append(InfluenceBounds(residuals, shift, influence(shift, spread)))
        first_is_larger = pair[0].influence >= pair[1].influence
        return InfluenceBounds(
            *(
                np.where(first_is_larger if a.ndim == 2 else first_is_larger[..., None], a, b)
                for a, b in zip(*pair, strict=True)
            )
        )

    return evaluate


def _search_radius(
    measure: PosteriorChange, evaluate: Callable, count: int, expected: Expectation, *, exact: bool
) -> list[WorstError]:
    """Search the radius: a grid over nine decades, refinement around the best peaks, then the far limit."""
    grid = np.geomspace(MIN_RADIUS, MAX_RADIUS, RESIDUALS_PER_COORDINATE)
    coarse = evaluate(np.broadcast_to(grid, (count, RESIDUALS_PER_COORDINATE)))
    best = coarse
    centres = [_local_maxima(grid, values) for values in (coarse.influence, coarse.shift)]
    width = np.log(grid[1] / grid[0])
    for _ in range(NUM_ZOOMS):
        offsets = np.linspace(-width, width, RESIDUALS_PER_COORDINATE // (2 * NUM_PEAKS))
        radii = np.concatenate(centres, axis=1)[..., None] * np.exp(offsets)
        candidates = evaluate(radii.reshape(count, -1))
        best = InfluenceBounds(*(np.concatenate(pair, axis=1) for pair in zip(best, candidates, strict=True)))
        shape = (count, 2 * NUM_PEAKS, -1)
        best_radii = [
            np.take_along_axis(radii[:, part], values.reshape(shape)[:, part].argmax(-1)[..., None], -1)[..., 0]
            for part, values in (
                (slice(0, NUM_PEAKS), candidates.influence),
                (slice(NUM_PEAKS, None), candidates.shift),
            )
        ]
        centres, width = best_radii, offsets[1] - offsets[0]
    far = evaluate(np.broadcast_to([*FAR_RADII, *grid[2:]], (count, RESIDUALS_PER_COORDINATE)))
    return [_summarise(i, expected, grid, coarse, best, far, exact) for i in range(count)]


def _summarise(
    i: int,
    expected: Expectation,
    grid: np.ndarray,
    coarse: InfluenceBounds,
    best: InfluenceBounds,
    far: InfluenceBounds,
    exact: bool,
) -> WorstError:
    """Summarise the search at one operating point."""
    power = growth(far.influence[i, 0], far.influence[i, 1])
    root = np.linalg.cholesky(np.asarray(expected.innovation_cov)[i])
    suprema = []
    for values, limit_value in ((best.influence[i], far.influence[i, 1]), (best.shift[i], far.shift[i, 1])):
        peak = int(values.argmax())
        if power > MIN_GROWTH_POWER:
            suprema.append((np.inf, np.full(len(root), np.inf), np.inf))
        elif limit_value >= values[peak]:  # a limit that is not attained
            suprema.append((float(limit_value), np.full(len(root), np.inf), np.inf))
        else:
            residual = best.residuals[i, peak]
            radius = float(np.linalg.norm(np.linalg.solve(root, residual)))
            suprema.append((float(values[peak]), residual - np.asarray(expected.residual)[i], radius))
    (influence, error, radius), (shift, shift_error, shift_radius) = suprema
    limit = np.inf if power > MIN_GROWTH_POWER else float(far.influence[i, 1])
    where = (error, radius, shift_error, shift_radius)
    return WorstError(influence, shift, *where, limit, power, exact, grid, coarse.influence[i])


def _is_exceeded(measure: PosteriorChange, worst: list[WorstError], expected: Expectation) -> bool:
    """Test the result against random errors, which detects weights that were wrongly taken for spherical."""
    roots = np.linalg.cholesky(np.asarray(expected.innovation_cov))
    size = roots.shape[-1]
    rng = np.random.default_rng(1)
    directions = unit(rng.normal(size=(RESIDUALS_PER_COORDINATE * size, size)))
    worst_radii = np.array([w.radius if np.isfinite(w.radius) else 1.0 for w in worst])
    radii = worst_radii[:, None] * np.exp(rng.normal(size=RESIDUALS_PER_COORDINATE * size))
    white, spread = measure(np.einsum("sij,nj,sn->sni", roots, directions, radii))
    largest = influence(np.linalg.norm(white, axis=-1), spread).max(1)
    return bool(np.any(largest > np.array([w.influence for w in worst]) * (1 + 1e-6)))


def _local_maxima(grid: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Find the radii of the highest local maxima, (S, NUM_PEAKS); a single maximum is repeated."""
    padded = np.pad(values, ((0, 0), (1, 1)), constant_values=-np.inf)
    local = (values >= padded[:, :-2]) & (values >= padded[:, 2:])
    order = np.argsort(-np.where(local, values, -np.inf), axis=1)[:, :NUM_PEAKS]
    is_maximum = np.take_along_axis(local, order, 1)
    return grid[np.where(is_maximum, order, order[:, :1])]
