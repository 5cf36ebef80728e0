"""What the checks of a series say, in words: are its intervals to be trusted, and is its model the right one?"""

from typing import Any

import numpy as np

from wolf.cleaning import Series

RIGHT = 0.95  # share of the surprises that lie between the limits of a right model
NARROW, WIDE = 0.90, 0.985  # shares that are told
CORRELATED = 0.1  # correlation of neighbours that is told, if it is no chance
SURE = 3.0  # standard errors that are no chance
BIASED = 0.1  # mean error, in standard deviations, that is told
MANY = 0.2  # share of flagged readings that is told
LOUD = 1.8  # times as large as usual that noise around a moment must be to be told: a hundred errors vary by less
UNSURE = 2.0  # standard errors below which a variance cannot be told from zero


def of_picture(picture: dict[str, Any], past: bool = True) -> list[str]:
    """Say what the residuals of one column tell.

    Args:
        picture: the numbers of a column, of `numbers.series_numbers`.
        past: whether estimates use the past only; errors that are left by a smoother are opposite by themselves.

    Example:
        >>> of_picture({"correlations": [0.0], "unflagged": 500, "inside": 0.8, "bias": 0.0})
        ['only 80% of the readings lie where 95 % should: the noise is larger than was thought']
    """
    count, words = max(picture["unflagged"], 1), []
    first = picture["correlations"][0] if picture["correlations"] else 0.0
    if (first if not past else abs(first)) > max(CORRELATED, SURE / np.sqrt(count)):
        alike = "alike" if first > 0 else "opposite"
        width = "too narrow" if first > 0 else "too wide"
        words.append(
            f"neighbouring errors are {alike} (correlation {first:.2f}): the model misses something, and its "
            f"intervals are {width}"
        )
    inside = picture["inside"]
    chance = SURE * np.sqrt(RIGHT * (1 - RIGHT) / count)
    if np.isfinite(inside) and inside < min(NARROW, RIGHT - chance):
        words.append(f"only {inside:.0%} of the readings lie where 95 % should: the noise is larger than was thought")
    if np.isfinite(inside) and inside > max(WIDE, RIGHT + chance):
        words.append(f"{inside:.1%} of the readings lie where 95 % should: the noise is smaller than was thought")
    loud = picture.get("loudest") or {}
    if loud.get("times", 1.0) > LOUD:
        words.append(
            f"the noise changes: around {loud['when']} it is {loud['times']:.1f} times as large as usual, and the "
            "estimate is less sure there than its interval says"
        )
    if abs(picture["bias"]) > max(BIASED, SURE / np.sqrt(count)):
        side = "above" if picture["bias"] > 0 else "below"
        words.append(f"readings lie {side} their prediction on average, by {abs(picture['bias']):.2f} of its deviation")
    return words


def of_series(each: Series) -> list[str]:
    """Say what the fit and the flags of a series tell."""
    words = []
    share = each.flagged / max(each.judged, 1)
    if share > MANY:
        words.append(f"{share:.0%} of the readings are flagged: more likely the model is wrong than all of them")
    if each.fit is not None and not each.fit.converged:
        words.append("the fit of the noise did not converge; give variances that you know")
    unsure = [name for name in each.parameters if not is_sure(each, name)]
    if unsure:
        words.append(f"{' and '.join(unsure)} cannot be told from zero with these readings")
    return words


def is_sure(each: Series, name: str) -> bool:
    """Say whether a fitted variance can be told from zero."""
    error = each.fit.errors.get(name, np.nan) if each.fit is not None else np.nan
    return bool(np.isnan(error) or each.parameters[name] >= UNSURE * error)
