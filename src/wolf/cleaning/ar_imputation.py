"""Long gaps by an autoregression: what lies in a gap, given the readings on both sides and a season away.

With the one-step errors of an autoregression of order q, e = A x, independent and of one size, the mean of the readings
m in a gap given all others o minimises |A x|²,

    m = -(A_mᵀ A_m)⁻¹ A_mᵀ A_o o,

the conditional mean of a Gaussian whose precision matrix is AᵀA (Brubacher & Wilson 1976, *Interpolating time series*,
Applied Statistics 25). Only errors from the gap to q rows after it take part: a gap costs the same in any series.
A lag of a season makes it an analogue: the same hours of the days before and after, as far as they have told others.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wolf.numerics.robust import MAD_TO_STD

ORDER = 24  # lags next to a reading
BESIDE = 2  # lags on either side of a season's
TIMES = 8  # seasons after which a longer one may repeat, as a week of days
SHARE = 0.3  # of the rows that a lag may take
RIDGE = 1e-3  # share of each lag's own power that keeps coefficients small
ROUNDS, CUT = 3, 2.0  # of weighing errors less that are larger than so many deviations (Huber 1964)
EXACT = 1e-9  # share of the largest reading that errors have at least
PASSES = 2  # over all gaps, each with the others as they were last
LONGEST = 256  # rows of a gap; in longer ones hardly more is known than the mean
MOST = 300  # gaps: more would take longer than all else
FEWEST = 10  # readings for each lag


class Autoregression(NamedTuple):
    """An autoregression: errors Σ_k c(k) x(t - k).

    Attributes:
        lags: that take part, the first 0.
        coefficients: c at these lags, the first 1.
        scale: deviation of the errors.
    """

    lags: np.ndarray
    coefficients: np.ndarray
    scale: float

    @property
    def order(self) -> int:
        """Longest lag."""
        return int(self.lags[-1])


WALK = Autoregression(np.array([0, 1]), np.array([1.0, -1.0]), 1.0)  # bridges by a straight line


def can_bridge(values: np.ndarray, gaps: int) -> bool:
    """Say whether there are readings enough to fit by, and few enough gaps.

    Args:
        values: to be fitted, NaN where missing, (n,).
        gaps: that would be bridged.
    """
    return int(np.isfinite(values).sum()) >= 2 * FEWEST * ORDER and gaps <= MOST


def lags_for(filled: np.ndarray, known: np.ndarray, periods: Sequence[float]) -> list[list[int]]:
    """List sets of lags to try: the last readings; with a season; with that of its multiples that tells most.

    Args:
        filled: readings, gaps bridged somehow, (n,).
        known: rows that are readings, (n,).
        periods: of seasons, in steps.
    """
    plain, most = list(range(1, ORDER + 1)), SHARE * len(filled)
    found = [plain]
    usual = [period for period in periods if ORDER < period + BESIDE < most]
    if usual:
        around = {lag for period in usual for lag in _around(period)}
        found.append(sorted({*plain, *around}))
    if periods and TIMES * min(periods) > ORDER:
        errors = filled - _foretold(fit(filled, known, found[-1], False), filled)
        errors = np.where(known, np.clip(errors, *np.quantile(errors[known], (0.02, 0.98))), 0.0)
        multiples = [times * min(periods) for times in range(2, TIMES + 1) if times * min(periods) + BESIDE < most]
        told = {period: float(errors[round(period) :] @ errors[: -round(period)]) for period in multiples}
        if told:
            found.append(sorted({*found[-1], *_around(max(told, key=lambda period: told[period]))}))
    return found


def _around(period: float) -> range:
    return range(max(round(period) - BESIDE, 1), round(period) + BESIDE + 1)


def fit(filled: np.ndarray, known: np.ndarray, lags: Sequence[int], differenced: bool) -> Autoregression:
    """Fit coefficients by least squares in which large errors count less.

    Args:
        filled: readings, gaps bridged somehow, (n,).
        known: rows that are readings, (n,): only they are foretold.
        lags: sorted.
        differenced: whether steps from one reading to the next are foretold: a series without a mean.
    """
    if differenced:
        filled, known = np.diff(filled), known[1:] & known[:-1]
    longest = lags[-1]
    past = np.stack([filled[longest - lag : len(filled) - lag] for lag in lags], axis=1)
    now, usable = filled[longest:], known[longest:] & known[longest - 1 : -1]
    past, now = past[usable], now[usable]
    if not np.any(now):  # nothing to tell coefficients by
        return WALK
    weight = np.ones(len(now))
    for _ in range(ROUNDS):
        weighed = past * weight[:, None]
        normal = weighed.T @ past
        power = np.diagonal(normal).copy()
        normal[np.diag_indices(len(lags))] += RIDGE * power
        found = np.linalg.lstsq(normal, weighed.T @ now, rcond=None)[0]
        errors = np.abs(now - past @ found)
        scale = max(MAD_TO_STD * float(np.median(errors)), EXACT * float(np.abs(now).max()))
        weight = CUT * scale / np.maximum(errors, CUT * scale)
    whole = np.zeros(longest + 1)
    whole[0], whole[list(lags)] = 1.0, -found
    whole = np.convolve(whole, [1.0, -1.0]) if differenced else whole
    taken = np.flatnonzero(whole)
    return Autoregression(taken, whole[taken], scale)


def _foretold(told: Autoregression, values: np.ndarray) -> np.ndarray:
    """Foretell each row from those before it; the first rows as they are."""
    out, order = values.copy(), told.order
    parts = [
        values[order - lag : len(values) - lag] * each for lag, each in zip(told.lags, told.coefficients, strict=True)
    ]
    out[order:] -= np.sum(parts, axis=0)
    return out


def interpolate(
    told: Autoregression, near: Autoregression, filled: np.ndarray, gaps: Sequence[tuple[int, int]]
) -> np.ndarray:
    """Bridge gaps; return all rows, (n,).

    Args:
        told: the autoregression.
        near: one without seasons, for rows that have no season before them.
        filled: readings, gaps bridged somehow, less their mean, (n,).
        gaps: first and last row (exclusive) of each.
    """
    out = filled.copy()
    ready: dict[int, np.ndarray] = {}
    for _ in range(PASSES):
        for first, stop in gaps:
            if first >= near.order and stop - first <= LONGEST:
                out[first:stop] = _bridged(told, near, out, first, stop, ready)
    return out


def _bridged(
    told: Autoregression, near: Autoregression, values: np.ndarray, first: int, stop: int, ready: dict[int, np.ndarray]
) -> np.ndarray:
    """Bridge one gap, all other rows given; `ready` keeps what is the same for all gaps of one length."""
    early = np.arange(first, min(told.order, stop + near.order, len(values)))
    late = np.arange(max(first, told.order), min(stop + told.order, len(values)))
    parts = [(each, rows) for each, rows in ((near, early), (told, late)) if len(rows)]
    values[first:stop] = 0.0
    rest = [values[rows[:, None] - each.lags] @ each.coefficients / each.scale for each, rows in parts]
    length, usual = stop - first, not len(early) and stop + told.order <= len(values)
    if usual and length in ready:
        return np.asarray(ready[length] @ rest[0])
    design = np.concatenate([_design(each, rows - first, length) for each, rows in parts])
    solved = -np.linalg.lstsq(design, np.eye(len(design)), rcond=None)[0]
    if usual:
        ready[length] = solved
    return np.asarray(solved @ np.concatenate(rest))


def _design(each: Autoregression, rows: np.ndarray, length: int) -> np.ndarray:
    """Give A_m: what the readings in a gap add to errors, rows counted from its first."""
    design = np.zeros((len(rows), length))
    places = rows[:, None] - each.lags
    i, j = np.nonzero((places >= 0) & (places < length))
    design[i, places[i, j]] = each.coefficients[j] / each.scale
    return design
