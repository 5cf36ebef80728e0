"""First guesses of parameters, from robust statistics of the data."""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.numerics.robust import MAD_TO_STD
from wolf.statespace import Model

OBS_SHARE, DYNAMICS_SHARE = 0.25, 0.05  # shares of the variance of differences, for variances without a first guess
VARIANCE_SUFFIXES = ("_var", "_rate")  # suffixes of names of variances
MAX_STEP = 1e150  # largest step whose square is finite


def first_guesses(
    builder: Callable[..., Model], ys: ArrayLike, user_guesses: dict[str, float], around_slope: bool = False
) -> dict[str, float]:
    """Determine the parameters of a builder, and first guesses of them.

    Args:
        builder: as in `fit`.
        ys: as in `fit`.
        user_guesses: first guesses by name.
        around_slope: treat the typical step as a slope rather than noise.
    """
    try:
        parameters = dict(inspect.signature(builder).parameters)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "builder must have a signature with named parameters; wrap it, e.g. lambda obs_var: ..."
        ) from error
    for name in builder.keywords if isinstance(builder, partial) else ():
        if name not in user_guesses:  # arguments bound by a partial are held
            parameters.pop(name, None)
    found, unknown = {}, []
    takes_keywords = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    invalid = [name for name in user_guesses if name not in parameters and not takes_keywords]
    if invalid:
        names = ", ".join(map(str, invalid))
        raise ValueError(f"start names {names}, which the builder does not take; it takes {', '.join(parameters)}")
    for name, parameter in parameters.items():
        if name in user_guesses or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        if parameter.default is parameter.empty:
            if name.endswith(VARIANCE_SUFFIXES):
                found[name] = (OBS_SHARE if name.startswith("obs") else DYNAMICS_SHARE) * difference_var(
                    ys, around_slope
                )
            else:
                unknown.append(name)
        elif isinstance(parameter.default, int | float) and not isinstance(parameter.default, bool):
            found[name] = float(parameter.default)
    if unknown:
        raise ValueError(f"no first guess for {', '.join(unknown)}; pass start={{'{unknown[0]}': 1.0}}")
    found |= user_guesses
    if not found:
        raise ValueError("the builder has no parameters to fit: it takes no numbers by name, or all of them are held")
    return found if takes_keywords else {name: found[name] for name in parameters if name in found}


def is_many(ys: ArrayLike) -> TypeGuard[Sequence[ArrayLike]]:
    """Return whether the argument is a list of series, rather than of numbers or rows."""
    return isinstance(ys, list | tuple) and len(ys) > 0 and np.ndim(ys[0]) > 0


def difference_var(ys: ArrayLike, around_slope: bool = False) -> float:
    """Estimate the variance of the step between consecutive measurements, robust to outliers.

    Args:
        ys: as in `fit`.
        around_slope: measure steps from the typical step.

    Example:
        >>> round(difference_var(np.arange(10.0) % 2), 3)
        2.198
    """
    blocks = [validation.data_array("ys", block) for block in (ys if is_many(ys) else [ys])]
    blocks = [block.reshape(-1, 1) if block.ndim < 2 else block for block in blocks]
    sizes = []
    for block in blocks:
        for column in np.moveaxis(block, -1, 0).reshape(block.shape[-1], -1):
            values = column[np.isfinite(column)]
            sizes.append(np.abs(_without_trend(np.diff(values)) if around_slope else np.diff(values)))
    steps = np.concatenate(sizes) if sizes else np.zeros(0)
    if not steps.size:
        raise ValueError("ys has fewer than two values; a variance needs at least two")
    median_step = float(np.median(steps)) or float(np.median(steps[steps > 0])) if np.any(steps > 0) else 0.0
    if median_step == 0.0:
        raise ValueError(f"all values are {values[0]:g}: a constant series has no noise to fit; pass the variances")
    if median_step > MAX_STEP:
        raise ValueError(f"steps of {median_step:.3g} are too large to fit a variance; rescale ys")
    return (MAD_TO_STD * median_step) ** 2


def _without_trend(steps: np.ndarray) -> np.ndarray:
    """Subtract the typical step, unless most steps are equal to it."""
    deviations = steps - np.median(steps) if steps.size else steps
    return deviations if np.count_nonzero(deviations) > 0.5 * steps.size else steps


def largest_step(ys: np.ndarray) -> float:
    """Compute the ratio of the largest to the typical step between measurements, squared."""
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.abs(np.diff(ys, axis=1))
        steps = steps[np.isfinite(steps)]
        median = float(np.median(steps)) if steps.size else 0.0
        return float((steps.max() / median) ** 2) if median > 0.0 else 0.0
