"""Imputation of long gaps by an autoregression, from the measurements on both sides and one season away.

With independent one-step errors e = A x of equal variance, of an autoregression of order q, the mean of the values
m in a gap given all others o minimises |A x|²,

    m = -(A_mᵀ A_m)⁻¹ A_mᵀ A_o o,

the conditional mean of a Gaussian whose precision matrix is AᵀA (Brubacher & Wilson 1976, *Interpolating time series*,
Applied Statistics 25). Only errors from the gap to q rows after it depend on m, so the cost of a gap does not depend
on the length of the series. A seasonal lag uses the same phase of the seasons before and after.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wolf.numerics.robust import MAD_TO_STD

ORDER = 24  # consecutive lags
LAGS_AROUND_SEASON = 2  # on either side of a seasonal lag
MAX_PERIOD_MULTIPLE = 8  # of a season that a longer one may have, as a week of days
MAX_LAG_SHARE = 0.3  # of the rows
RIDGE = 1e-3  # penalty of a coefficient, as a share of the power of its lag
NUM_ROUNDS, HUBER_DEVIATIONS = 3, 2.0  # of reweighting, and error from which a row is down-weighted (Huber 1964)
MIN_RELATIVE_ERROR = 1e-9  # smallest scale of the errors, relative to the largest measurement
NUM_PASSES = 2  # over all gaps, each with the last imputation of the others
MAX_GAP_ROWS = 256  # in longer gaps the imputation is close to the mean
MAX_GAPS = 300  # more would dominate the run time
MIN_READINGS_PER_LAG = 10


class Autoregression(NamedTuple):
    """An autoregression with errors e(t) = Σ_k c(k) x(t - k).

    Attributes:
        lags: with nonzero coefficients, the first 0.
        coefficients: c at these lags, the first 1.
        scale: standard deviation of the errors.
    """

    lags: np.ndarray
    coefficients: np.ndarray
    scale: float

    @property
    def order(self) -> int:
        """Longest lag."""
        return int(self.lags[-1])


RANDOM_WALK = Autoregression(np.array([0, 1]), np.array([1.0, -1.0]), 1.0)  # interpolates linearly


def is_applicable(values: np.ndarray, gaps: int) -> bool:
    """Check whether there are enough measurements for a fit, and few enough gaps.

    Args:
        values: to be fitted, NaN where missing, (n,).
        gaps: number of gaps.
    """
    return int(np.isfinite(values).sum()) >= 2 * MIN_READINGS_PER_LAG * ORDER and gaps <= MAX_GAPS


def candidate_lags(filled: np.ndarray, known: np.ndarray, periods: Sequence[float]) -> list[list[int]]:
    """List candidate sets of lags: the last rows; with seasonal lags; with the best multiple of the season.

    Args:
        filled: measurements, with any imputation of the gaps, (n,).
        known: rows that are measurements, (n,).
        periods: seasonal periods, in steps.
    """
    plain, max_lag = list(range(1, ORDER + 1)), MAX_LAG_SHARE * len(filled)
    found = [plain]
    usable = [period for period in periods if ORDER < period + LAGS_AROUND_SEASON < max_lag]
    if usable:
        around = {lag for period in usable for lag in _seasonal_lags(period)}
        found.append(sorted({*plain, *around}))
    if periods and MAX_PERIOD_MULTIPLE * min(periods) > ORDER:
        errors = filled - _predict(fit(filled, known, found[-1], False), filled)
        errors = np.where(known, np.clip(errors, *np.quantile(errors[known], (0.02, 0.98))), 0.0)
        multiples = [
            times * min(periods)
            for times in range(2, MAX_PERIOD_MULTIPLE + 1)
            if times * min(periods) + LAGS_AROUND_SEASON < max_lag
        ]
        covariance = {period: float(errors[round(period) :] @ errors[: -round(period)]) for period in multiples}
        if covariance:
            best = max(covariance, key=lambda period: covariance[period])
            found.append(sorted({*found[-1], *_seasonal_lags(best)}))
    return found


def _seasonal_lags(period: float) -> range:
    return range(max(round(period) - LAGS_AROUND_SEASON, 1), round(period) + LAGS_AROUND_SEASON + 1)


def fit(filled: np.ndarray, known: np.ndarray, lags: Sequence[int], differenced: bool) -> Autoregression:
    """Fit coefficients by iteratively reweighted least squares with Huber weights.

    Args:
        filled: measurements, with any imputation of the gaps, (n,).
        known: rows that are measurements, (n,): only they are predicted.
        lags: sorted.
        differenced: fit first differences: a series without a constant mean.
    """
    if differenced:
        filled, known = np.diff(filled), known[1:] & known[:-1]
    longest = lags[-1]
    past = np.stack([filled[longest - lag : len(filled) - lag] for lag in lags], axis=1)
    now, usable = filled[longest:], known[longest:] & known[longest - 1 : -1]
    past, now = past[usable], now[usable]
    if not np.any(now):  # coefficients are not identified
        return RANDOM_WALK
    weight = np.ones(len(now))
    for _ in range(NUM_ROUNDS):
        weighted = past * weight[:, None]
        normal = weighted.T @ past
        power = np.diagonal(normal).copy()
        normal[np.diag_indices(len(lags))] += RIDGE * power
        found = np.linalg.lstsq(normal, weighted.T @ now, rcond=None)[0]
        errors = np.abs(now - past @ found)
        scale = max(MAD_TO_STD * float(np.median(errors)), MIN_RELATIVE_ERROR * float(np.abs(now).max()))
        weight = HUBER_DEVIATIONS * scale / np.maximum(errors, HUBER_DEVIATIONS * scale)
    polynomial = np.zeros(longest + 1)
    polynomial[0], polynomial[list(lags)] = 1.0, -found
    polynomial = np.convolve(polynomial, [1.0, -1.0]) if differenced else polynomial
    nonzero = np.flatnonzero(polynomial)
    return Autoregression(nonzero, polynomial[nonzero], scale)


def _predict(model: Autoregression, values: np.ndarray) -> np.ndarray:
    """Predict each row from those before it; the first rows are returned unchanged."""
    out, order = values.copy(), model.order
    parts = [
        values[order - lag : len(values) - lag] * each for lag, each in zip(model.lags, model.coefficients, strict=True)
    ]
    out[order:] -= np.sum(parts, axis=0)
    return out


def interpolate(
    model: Autoregression, plain: Autoregression, filled: np.ndarray, gaps: Sequence[tuple[int, int]]
) -> np.ndarray:
    """Impute gaps; return all rows, (n,).

    Args:
        model: the autoregression.
        plain: an autoregression without seasonal lags, for rows that have no season before them.
        filled: centred measurements, with any imputation of the gaps, (n,).
        gaps: first and last row (exclusive) of each gap.
    """
    out = filled.copy()
    solutions: dict[int, np.ndarray] = {}
    for _ in range(NUM_PASSES):
        for first, stop in gaps:
            if first >= plain.order and stop - first <= MAX_GAP_ROWS:
                out[first:stop] = _impute(model, plain, out, first, stop, solutions)
    return out


def _impute(
    model: Autoregression,
    plain: Autoregression,
    values: np.ndarray,
    first: int,
    stop: int,
    solutions: dict[int, np.ndarray],
) -> np.ndarray:
    """Impute one gap given all other rows; `solutions` caches the solution matrix of each gap length."""
    early = np.arange(first, min(model.order, stop + plain.order, len(values)))
    late = np.arange(max(first, model.order), min(stop + model.order, len(values)))
    parts = [(each, rows) for each, rows in ((plain, early), (model, late)) if len(rows)]
    values[first:stop] = 0.0
    rest = [values[rows[:, None] - each.lags] @ each.coefficients / each.scale for each, rows in parts]
    length, inner = stop - first, not len(early) and stop + model.order <= len(values)
    if inner and length in solutions:
        return np.asarray(solutions[length] @ rest[0])
    design = np.concatenate([_design(each, rows - first, length) for each, rows in parts])
    solved = -np.linalg.lstsq(design, np.eye(len(design)), rcond=None)[0]
    if inner:
        solutions[length] = solved
    return np.asarray(solved @ np.concatenate(rest))


def _design(each: Autoregression, rows: np.ndarray, length: int) -> np.ndarray:
    """Build A_m, the part of A for the values in a gap; rows are counted from its first."""
    design = np.zeros((len(rows), length))
    places = rows[:, None] - each.lags
    i, j = np.nonzero((places >= 0) & (places < length))
    design[i, places[i, j]] = each.coefficients[j] / each.scale
    return design
