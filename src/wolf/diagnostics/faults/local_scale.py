"""Typical size of one-step errors: around a row, at its phase of the season, and in the tails.

A deviation that is a fault among small errors may be normal among large ones, as in volatile prices or a morning peak
of varying onset.
"""

import numpy as np

from wolf.numerics.rolling import running_median
from wolf.statespace import LinearModel

WINDOW_ERRORS = 101  # errors around a row that define their typical size there
RELATIVE_SCALE_RANGE = (0.25, 8.0)  # range of that size, relative to the whole series
# Of |t| with 1, 1.5, 2, 3, 5, 10 and many degrees of freedom: ratio of the 90 % and 50 % quantiles, and of the 99 %
# quantile to a Gaussian's, the smallest first.
QUANTILE_RATIOS = (2.439, 2.590, 2.772, 3.077, 3.576, 4.267, 6.314)
TAIL_FACTORS = (1.0, 1.11, 1.25, 1.51, 1.96, 2.63, 4.97)
MIN_CYCLES = 12  # cycles of a season that are needed to distinguish its phases
ERRORS_PER_PHASE = 80  # errors per phase, about; with more phases, neighbours are pooled
PHASE_QUANTILE = 0.9  # quantile of the errors at one phase that defines their size: more than one day in ten
MIN_PHASE_RATIO = 1.5  # ratio to other phases; smaller ratios are chance, or faults at that phase
MAX_PHASE_RATIO = 4.0  # largest ratio of the errors at one phase to other phases
ROTATION_TOLERANCE = 1e-9  # tolerance of the entries of a rotation


def season_of(model: LinearModel) -> float | None:
    """Return the period of a model's first season, i.e. of the first two states whose dynamics are a rotation."""
    if model.F is None:
        return None
    dynamics = np.asarray(model.F)
    for i in range(len(dynamics) - 1):
        cos, sin = dynamics[i, i], dynamics[i, i + 1]
        if (
            abs(sin) > ROTATION_TOLERANCE
            and abs(dynamics[i + 1, i] + sin) < ROTATION_TOLERANCE
            and abs(dynamics[i + 1, i + 1] - cos) < ROTATION_TOLERANCE
        ):
            return float(2 * np.pi / np.arctan2(abs(sin), cos))
    return None


def season_scale(errors: np.ndarray, usable: np.ndarray, place: np.ndarray, period: float | None) -> np.ndarray:
    """Compute the size of errors at the phase of each row relative to other phases, (T,), at least 1.

    Args:
        errors: one-step errors, (T,).
        usable: rows with a reading, (T,).
        place: time of the rows, in steps, (T,).
        period: period of the season, in steps; None without a season.

    Example:
        >>> errors = np.tile([1.0, 1.0, 3.0, 1.0], 80)
        >>> season_scale(errors, errors > 0, np.arange(320), 4.0)[:4].tolist()
        [1.0, 1.0, 3.0, 1.0]
    """
    scale = np.ones(len(errors))
    # Changes slower than the window of `local_scale` are covered by it.
    if period is None or period > WINDOW_ERRORS or place[-1] - place[0] < MIN_CYCLES * period:
        return scale
    bins = max(2, min(int(period), int(usable.sum()) // ERRORS_PER_PHASE))
    phase = (place % period * bins / period).astype(int) % bins
    sizes, phases = np.abs(errors[usable]), phase[usable]
    order = np.argsort(phases, kind="stable")
    groups = np.split(sizes[order], np.cumsum(np.bincount(phases, minlength=bins))[:-1])
    phase_sizes = np.array(
        [np.quantile(each, PHASE_QUANTILE) if len(each) >= MIN_CYCLES else np.nan for each in groups]
    )
    typical = np.nanmedian(phase_sizes) if np.isfinite(phase_sizes).any() else 0.0
    if not typical > 0.0:
        return scale
    ratios = np.nan_to_num(phase_sizes / typical, nan=1.0)
    return np.asarray(np.where(ratios < MIN_PHASE_RATIO, 1.0, np.minimum(ratios, MAX_PHASE_RATIO))[phase])


def local_scale(errors: np.ndarray, usable: np.ndarray) -> np.ndarray:
    """Compute the typical size of errors around each row, (T,); faults are too short to affect it."""
    if usable.sum() < WINDOW_ERRORS:
        return np.ones(len(errors))
    sizes = errors[usable]
    sizes = running_median(np.abs(sizes, out=sizes), WINDOW_ERRORS, "reflect")
    sizes /= max(float(np.median(sizes)), 1e-300)
    np.clip(sizes, *RELATIVE_SCALE_RANGE, out=sizes)
    scale = np.empty(len(errors))
    scale[usable] = sizes
    other_rows = np.flatnonzero(~usable)
    before = other_rows - np.arange(1, len(other_rows) + 1)  # index of the last usable row before each other row
    scale[other_rows] = 0.5 * (sizes[np.maximum(before, 0)] + sizes[np.minimum(before + 1, len(sizes) - 1)])
    return scale


def tail_factor(errors: np.ndarray) -> float:
    """Compute the tail factor: how much farther than Gaussian the tails reach, from the 90 % quantile of the errors.

    The tails are modelled by a Student-t distribution, whose degrees of freedom follow from the ratio of two quantiles;
    the factor is the ratio of its 99 % quantile to that of a Gaussian.
    """
    sizes = np.abs(errors)
    middle, tenth = np.quantile(sizes, (0.5, 0.9)) if sizes.size else (1.0, 1.0)
    return float(np.interp(tenth / max(middle, 1e-300), QUANTILE_RATIOS, TAIL_FACTORS))
