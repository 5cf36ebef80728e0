"""Where a search begins: numbers from the data, outliers aside."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from wolf import validation
from wolf.numerics.robust import MAD_TO_STD

OBS_SHARE, DYNAMICS_SHARE = 0.25, 0.05  # of the variance of differences, for variances that were given no start
VARIANCES = ("_var", "_rate")  # how their names end
LARGEST_STEP = 1e150  # whose square is still a number


def guesses(
    builder: Callable[..., Any], ys: Any, given: dict[str, float], around_slope: bool = False
) -> dict[str, float]:
    """Find the parameters that a builder takes, and where to start them.

    Args:
        builder: as in `fit`.
        ys: as in `fit`.
        given: first guesses by name.
        around_slope: take the usual step for a slope, which is no noise.
    """
    try:
        taken = dict(inspect.signature(builder).parameters)
    except (TypeError, ValueError) as error:
        raise ValueError("builder must tell its parameters; wrap it, as lambda obs_var: ...") from error
    for name in builder.keywords if isinstance(builder, partial) else ():
        if name not in given:  # what a partial says is known, and held
            taken.pop(name, None)
    found, unknown = {}, []
    anything = any(p.kind is p.VAR_KEYWORD for p in taken.values())
    wrong = [name for name in given if name not in taken and not anything]
    if wrong:
        names = ", ".join(map(str, wrong))
        raise ValueError(f"start names {names}, which the builder does not take; it takes {', '.join(taken)}")
    for name, parameter in taken.items():
        if name in given or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        if parameter.default is parameter.empty:
            if name.endswith(VARIANCES):
                found[name] = (OBS_SHARE if name.startswith("obs") else DYNAMICS_SHARE) * difference_var(
                    ys, around_slope
                )
            else:
                unknown.append(name)
        elif isinstance(parameter.default, int | float) and not isinstance(parameter.default, bool):
            found[name] = float(parameter.default)
    if unknown:
        raise ValueError(f"give a first guess for {', '.join(unknown)}, as start={{'{unknown[0]}': 1.0}}")
    found |= given
    if not found:
        raise ValueError("the builder has no parameters to fit: it takes no numbers by name, or all are held")
    return found if anything else {name: found[name] for name in taken if name in found}


def is_many(ys: Any) -> bool:
    """Tell a list of series from a list of numbers or of rows."""
    return isinstance(ys, list | tuple) and len(ys) > 0 and np.ndim(ys[0]) > 0


def difference_var(ys: Any, around_slope: bool = False) -> float:
    """Estimate the variance of the step from one measurement to the next, outliers aside.

    Args:
        ys: as in `fit`.
        around_slope: measure steps from the usual one.

    Example:
        >>> round(difference_var(np.arange(10.0) % 2), 3)
        2.198
    """
    blocks = [validation.number_array("ys", block) for block in (ys if is_many(ys) else [ys])]
    blocks = [block.reshape(-1, 1) if block.ndim < 2 else block for block in blocks]
    sizes = []
    for block in blocks:
        for column in np.moveaxis(block, -1, 0).reshape(block.shape[-1], -1):
            values = column[np.isfinite(column)]
            sizes.append(np.abs(_around_middle(np.diff(values)) if around_slope else np.diff(values)))
    steps = np.concatenate(sizes) if sizes else np.zeros(0)
    if not steps.size:
        raise ValueError("there are fewer than two numbers: no noise can be fitted to them")
    middle = float(np.median(steps)) or float(np.median(steps[steps > 0])) if np.any(steps > 0) else 0.0
    if middle == 0.0:
        raise ValueError(f"all values are {values[0]:g}: a constant has no noise to fit, so give the variances")
    if middle > LARGEST_STEP:
        raise ValueError(f"values {middle:.3g} apart are too large to fit a variance to; divide them by something")
    return (MAD_TO_STD * middle) ** 2


def _around_middle(steps: np.ndarray) -> np.ndarray:
    """Leave out the usual step, unless nothing remains of most."""
    beyond = steps - np.median(steps) if steps.size else steps
    return beyond if np.count_nonzero(beyond) > 0.5 * steps.size else steps


def largest_step(ys: np.ndarray) -> float:
    """Compare the largest step between measurements with the usual one, as a ratio of variances."""
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.abs(np.diff(ys, axis=1))
        steps = steps[np.isfinite(steps)]
        usual = float(np.median(steps)) if steps.size else 0.0
        return float((steps.max() / usual) ** 2) if usual > 0.0 else 0.0
