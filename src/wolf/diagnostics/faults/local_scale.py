"""How large one-step errors usually are: around a row, at its time of the season, and in their tails.

What is a fault beside calm readings is nothing among wild ones: prices that swing, a morning rush that comes late.
"""

import numpy as np

from wolf.numerics.rolling import running_median
from wolf.statespace import LinearModel

NEAR = 101  # errors around a row that tell how large they usually are there
CALM_TO_WILD = (0.25, 8.0)  # range of that, beside the usual
# Of |t| with 1, 1.5, 2, 3, 5, 10 and many degrees of freedom: ratio of the 90 % and 50 % quantiles, and of the 99 %
# quantile to a Gaussian's, the smallest first.
RATIOS = (2.439, 2.590, 2.772, 3.077, 3.576, 4.267, 6.314)
FACTORS = (1.0, 1.11, 1.25, 1.51, 1.96, 2.63, 4.97)
CYCLES = 12  # of a season, for its phases to be told apart
AT_ONE = 80  # errors at a phase, about: where a season has more phases than that allows, neighbours share one
LATE = 0.9  # share of the errors at one phase, whose size tells how large they may be there: more than one day in ten
LARGER = 1.5  # by which they must be larger than elsewhere; less is chance, or faults that happen to lie there
MOST_WILD = 4.0  # size of the errors at one phase beside the usual
TURNS = 1e-9  # by which entries of a rotation may be off


def season_of(model: LinearModel) -> float | None:
    """Find the period of a model's first season: that of the first two states that turn."""
    if model.F is None:
        return None
    dynamics = np.asarray(model.F)
    for i in range(len(dynamics) - 1):
        cos, sin = dynamics[i, i], dynamics[i, i + 1]
        if abs(sin) > TURNS and abs(dynamics[i + 1, i] + sin) < TURNS and abs(dynamics[i + 1, i + 1] - cos) < TURNS:
            return float(2 * np.pi / np.arctan2(abs(sin), cos))
    return None


def season_scale(errors: np.ndarray, usable: np.ndarray, place: np.ndarray, period: float | None) -> np.ndarray:
    """Say how much larger than elsewhere errors are at the phase of each row, (T,), at least 1.

    Args:
        errors: one-step errors, (T,).
        usable: rows with a reading, (T,).
        place: of the rows, in steps, (T,).
        period: of the season, in steps; None where there is none.

    Example:
        >>> errors = np.tile([1.0, 1.0, 3.0, 1.0], 80)
        >>> season_scale(errors, errors > 0, np.arange(320), 4.0)[:4].tolist()
        [1.0, 1.0, 3.0, 1.0]
    """
    scale = np.ones(len(errors))
    # What changes more slowly than `local_scale` looks is told by it.
    if period is None or period > NEAR or place[-1] - place[0] < CYCLES * period:
        return scale
    bins = max(2, min(int(period), int(usable.sum()) // AT_ONE))
    phase = (place % period * bins / period).astype(int) % bins
    sizes, some = np.abs(errors[usable]), phase[usable]
    order = np.argsort(some, kind="stable")
    groups = np.split(sizes[order], np.cumsum(np.bincount(some, minlength=bins))[:-1])
    far = np.array([np.quantile(each, LATE) if len(each) >= CYCLES else np.nan for each in groups])
    usual = np.nanmedian(far) if np.isfinite(far).any() else 0.0
    if not usual > 0.0:
        return scale
    larger = np.nan_to_num(far / usual, nan=1.0)
    return np.asarray(np.where(larger < LARGER, 1.0, np.minimum(larger, MOST_WILD))[phase])


def local_scale(errors: np.ndarray, usable: np.ndarray) -> np.ndarray:
    """Follow how large errors usually are around each row, (T,), in deviations; a fault is too short to move it."""
    if usable.sum() < NEAR:
        return np.ones(len(errors))
    sizes = errors[usable]
    sizes = running_median(np.abs(sizes, out=sizes), NEAR, "reflect")
    sizes /= max(float(np.median(sizes)), 1e-300)
    np.clip(sizes, *CALM_TO_WILD, out=sizes)
    scale = np.empty(len(errors))
    scale[usable] = sizes
    others = np.flatnonzero(~usable)
    before = others - np.arange(1, len(others) + 1)  # which of the usable rows is the last one before each other row
    scale[others] = 0.5 * (sizes[np.maximum(before, 0)] + sizes[np.minimum(before + 1, len(sizes) - 1)])
    return scale


def tail_factor(errors: np.ndarray) -> float:
    """Say how much farther than a Gaussian's the tails reach, from how far a tenth of the errors do.

    The tails are taken for those of a Student-t law, whose degrees of freedom follow from the ratio of two quantiles;
    the factor is that of its 99 % quantiles.
    """
    sizes = np.abs(errors)
    middle, tenth = np.quantile(sizes, (0.5, 0.9)) if sizes.size else (1.0, 1.0)
    return float(np.interp(tenth / max(middle, 1e-300), RATIOS, FACTORS))
