"""`wolf.fit`: validation of its arguments, first guesses from the data, and the search."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.execution.xla_batching import bound_programs
from wolf.fitting.exogenous import Drift, augment_builder
from wolf.fitting.initial_values import first_guesses, is_many
from wolf.fitting.known_states import fit_to_states
from wolf.fitting.objective import Objective
from wolf.fitting.optimizer import run_search
from wolf.fitting.result import Fit
from wolf.fitting.transforms import Bounds, ParameterTransform
from wolf.interfaces import Filter
from wolf.statespace import Model

Score = Literal["two-part", "gaussian"]
SCORES = get_args(Score)


def fit(
    builder: Callable[..., Model],
    ys: ArrayLike,
    *,
    start: Mapping[str, float] | None = None,
    bounds: Mapping[str, Bounds] | None = None,
    hold: Mapping[str, object] | None = None,
    score: Score = "two-part",
    inputs: ArrayLike | None = None,
    method: str | Filter | None = None,
    restarts: int = 2,
    seed: int = 0,
    update_first: bool = False,
    affine: bool = False,
    exog: object = None,
    exog_drift: Drift = False,
    states: ArrayLike | None = None,
) -> Fit:
    """Fit the parameters of a model by maximum likelihood, with a share of outliers.

    Args:
        builder: function of named numbers that returns a model, such as `wolf.models.local_level`. It may use NumPy;
            functions inside the model must be defined outside of it (see `wolf.statespace`).
        ys: measurements as in `wolf.filter`, (T, M) or (T,); or many series with the same parameters, (series, T, M),
            or a list of arrays.
        start: first guesses by name. By default arguments with a number as default start there, and variances
            (`..._var`, `..._rate`) are estimated from the data; other arguments with a default are not fitted.
        bounds: bounds by name, "positive" by default: "positive", "real" or a pair such as (-1.0, 1.0).
        hold: known parameters by name, which are not fitted; also other arguments of the builder, such as `times`.
        score: "two-part" (robust), or "gaussian", the likelihood of a Kalman filter.
        inputs: inputs, (T, U), for models that take them.
        method: filter whose linearization is used for nonlinear models, as in `wolf.filter`; its noise model is
            replaced by that of the score. Default: the extended Kalman filter.
        restarts: number of further searches, from the next best of the random starts.
        seed: seed of the random starts.
        update_first: as in `wolf.filter`.
        affine: require that the model's arrays are affine in the parameters, as they are if all parameters are
            variances. By default this is detected; a search is then many times faster.
        exog: exogenous variables (covariates), (T, K) or a data frame: the measurements depend on them linearly, with
            coefficients that are estimated as states (`wolf.models.with_exogenous`).
        exog_drift: whether their coefficients drift, or the names of those that do; the variances of the drift are
            fitted as `rain_var` and so on.
        states: true states where they are known, (T, D), NaN where not. The parameters then minimise the mean squared
            error of the filter instead (Greenberg, Yannay & Mannor 2023), and their common scale is that of its errors.

    Returns:
        A `Fit`; its `model` is ready for `wolf.filter`.

    Example:
        >>> import wolf
        >>> truth = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> outliers = wolf.simulate.Additive(0.1, -50.0, 50.0)
        >>> ys = wolf.simulate.trajectory(truth, 10_000, key=1, outliers=outliers).measurements
        >>> found = wolf.fit(wolf.models.local_level, ys)
        >>> {name: round(value, 1) for name, value in found.parameters.items()}
        {'level_var': 0.1, 'obs_var': 1.0}
        >>> list(wolf.fit(wolf.models.local_level, ys[:500], hold={"obs_var": 1.0}).parameters)
        ['level_var']
    """
    user_guesses, limits = check_options(builder, start, bounds, score, restarts, seed, update_first, affine)
    builder = hold_parameters(builder, hold, user_guesses)
    if exog is not None:
        builder, guesses = augment_builder(builder, exog, exog_drift, ys)
        user_guesses = guesses | user_guesses
    if states is not None:
        return fit_to_states(
            builder, ys, states, start=user_guesses, bounds=limits, method=method, inputs=inputs, restarts=restarts,
            seed=seed, update_first=update_first,
        )  # fmt: skip
    if not is_many(ys) and not (validation.data_array("ys", ys).size and 1 <= np.ndim(ys) <= 3):
        raise ValueError(f"ys must be a series (T, M) or (T,), or many (series, T, M); got shape {np.shape(ys)}")
    transform = first_transform(builder, ys, user_guesses, limits)
    bound_programs()
    objective = Objective(builder, transform, ys, inputs, method, score == "two-part", update_first, affine)
    return run_search(objective.search(1 + restarts, seed), objective.evaluate)


def first_transform(
    builder: Callable[..., Model], ys: ArrayLike, user_guesses: dict[str, float], limits: dict[str, Bounds]
) -> ParameterTransform:
    """Make the transform of the parameters, from first guesses with and without a trend in the data."""
    plain, trended = (first_guesses(builder, ys, user_guesses, around_slope) for around_slope in (False, True))
    return ParameterTransform(plain, limits, trended)


def hold_parameters(
    builder: Callable[..., Model], hold: Mapping[str, object] | None, user_guesses: dict[str, float]
) -> Callable[..., Model]:
    """Bind the held parameters of a builder."""
    values = validation.mapping("hold", hold, "{'obs_var': 1.0}")
    conflicting = [name for name in values if name in user_guesses]
    if conflicting:
        raise ValueError(f"{', '.join(conflicting)} cannot be in both hold and start; remove them from one")
    if not values:
        return builder
    parameters = inspect.signature(builder).parameters
    invalid = [str(name) for name in values if name not in parameters]
    if invalid and not any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        raise ValueError(
            f"hold names {', '.join(invalid)}, which the builder does not take; it takes {', '.join(parameters)}"
        )
    return partial(builder, **values)


def check_options(
    builder: Callable[..., Model],
    start: Mapping[str, float] | None,
    bounds: Mapping[str, Bounds] | None,
    score: Score,
    restarts: int,
    seed: int,
    update_first: bool,
    affine: bool,
) -> tuple[dict[str, float], dict[str, Bounds]]:
    """Validate the options that do not depend on the data; return first guesses and bounds by name."""
    validation.choice("score", score, SCORES)
    validation.function("builder", builder, "wolf.models.local_level")
    validation.integer("restarts", restarts)
    validation.integer("seed", seed)
    validation.boolean("update_first", update_first)
    validation.boolean("affine", affine)
    start_values = validation.mapping("start", start, "{'obs_var': 1.0}")
    return start_values, validation.mapping("bounds", bounds, "{'slope': 'real'}")
