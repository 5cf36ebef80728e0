"""Exogenous variables in fits: the builder of a model, augmented by their coefficients."""

import inspect
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.fitting.initial_values import DYNAMICS_SHARE, difference_var
from wolf.models.exogenous import Exogenous, read_exogenous, with_exogenous
from wolf.statespace import Model

PRIOR_STDS = 1e3  # standard deviation of a contribution before the data, in typical steps of the measurements
DRIFT_SHARE = 1e-2  # share of the first guess of a state's variance that a drifting coefficient starts from

Drift = bool | Sequence[str]  # whether all coefficients drift, or the names of those that do


def augment_builder(
    builder: Callable[..., Model], exog: object, drift: Drift, ys: ArrayLike
) -> tuple[Callable[..., Model], dict[str, float]]:
    """Add exogenous variables to the models of a builder.

    Args:
        builder: as in `wolf.fit`, with its held parameters bound.
        exog: (T, K).
        drift: whether the coefficients drift, with variances `rain_var` that are fitted.
        ys: measurements, which set the width of the prior of the coefficients.

    Returns:
        The builder, whose signature has the variances of the drift too, and first guesses of those.
    """
    given = read_exogenous(exog)
    drifting = _drifting(drift, given)
    step_var = difference_var(ys)
    prior_var = PRIOR_STDS**2 * step_var / given.mean_squares
    names = {f"{name}_var": k for k, name in enumerate(given.names) if name in drifting}

    def build(**parameters: float) -> Model:
        variances = np.zeros(len(given.names))
        for name, k in names.items():
            variances[k] = parameters.pop(name)
        model = builder(**parameters)
        options = {"drift_var": variances, "prior_var": prior_var, "names": given.names}
        return with_exogenous(model, given.values, **options)  # type: ignore[arg-type]

    held = builder.keywords if isinstance(builder, partial) else {}
    own = [each for name, each in inspect.signature(builder).parameters.items() if name not in held]
    keyword = inspect.Parameter.KEYWORD_ONLY
    taken = [each.replace(kind=keyword) for each in own if each.kind in (keyword, each.POSITIONAL_OR_KEYWORD)]
    new = [inspect.Parameter(name, keyword) for name in names if name.isidentifier()]
    build.__signature__ = inspect.Signature([*taken, *new])  # type: ignore[attr-defined]
    guesses = {
        name: DRIFT_SHARE * DYNAMICS_SHARE * step_var / float(given.mean_squares[k]) for name, k in names.items()
    }
    return build, guesses


def _drifting(drift: Drift, given: Exogenous) -> tuple[str, ...]:
    if isinstance(drift, bool):
        return given.names if drift else ()
    if isinstance(drift, str) or not isinstance(drift, Sequence):
        raise ValueError(f"exog_drift must be True, False or names of variables; got {validation.short_repr(drift)}")
    unknown = [name for name in drift if name not in given.names]
    if unknown:
        raise ValueError(f"exog_drift names {', '.join(map(str, unknown))}; the variables are {', '.join(given.names)}")
    return tuple(drift)
