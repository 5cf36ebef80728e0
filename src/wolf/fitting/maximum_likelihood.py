"""The door of `wolf.fit`: checks, first guesses from the data, and the way down from several starts."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.execution.xla_batching import bound_programs
from wolf.fitting.initial_values import guesses, is_many
from wolf.fitting.objective import Objective
from wolf.fitting.optimizer import drive
from wolf.fitting.result import Fit
from wolf.fitting.transforms import Bounds, Transform
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
    hold: Mapping[str, Any] | None = None,
    score: Score = "two-part",
    inputs: ArrayLike | None = None,
    method: str | Filter | None = None,
    restarts: int = 2,
    seed: int = 0,
    update_first: bool = False,
    affine: bool = False,
) -> Fit:
    """Find the parameters under which the data are most likely, outliers aside.

    Args:
        builder: function of named numbers that returns a model, such as `wolf.models.local_level`. It may use NumPy;
            functions inside the model must be defined outside of it (see `wolf.statespace`).
        ys: measurements as in `wolf.filter`, (T, M) or (T,); or many series with the same parameters, (series, T, M),
            or a list of arrays.
        start: first guesses by name. Arguments that have a number as default start there, variances (`..._var`,
            `..._rate`) are guessed from the data; other arguments with a default are left alone.
        bounds: by name; default: "positive". A pair such as (-1.0, 1.0), "positive" or "real".
        hold: parameters that are known, by name, and not fitted; other arguments of the builder too, as `times`.
        score: "two-part" (robust), or "gaussian", the likelihood of a Kalman filter.
        inputs: (T, U), for models that take them.
        method: how functions are seen by a belief, for nonlinear models, as in `wolf.filter`; its noise rule is
            replaced by that of the score. Default: the extended Kalman filter.
        restarts: further searches, from the next best of the random starts that are tried.
        seed: of the random starts.
        update_first: as in `wolf.filter`.
        affine: the model's arrays are sums of the parameters times fixed arrays, as they are if all parameters are
            variances. That is found out, and then a search is many times faster; `affine=True` insists on it.

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
    first_guesses, limits = check_options(builder, start, bounds, score, restarts, seed, update_first, affine)
    builder = holding(builder, hold, first_guesses)
    if not is_many(ys) and not (validation.number_array("ys", ys).size and 1 <= np.ndim(ys) <= 3):
        raise ValueError(f"ys must be a series (T, M) or (T,), or many (series, T, M); got shape {np.shape(ys)}")
    transform = first_transform(builder, ys, first_guesses, limits)
    bound_programs()
    problem = Objective(builder, transform, ys, inputs, method, score == "two-part", update_first, affine)
    return drive(problem.questions(1 + restarts, seed), problem.answer)  # type: ignore[no-any-return]


def first_transform(builder: Any, ys: Any, given: dict[str, Any], limits: dict[str, Any]) -> Transform:
    """Find first guesses in the data, with and without a slope in them, and put them between their bounds."""
    plain, sloped = (guesses(builder, ys, given, around_slope) for around_slope in (False, True))
    return Transform(plain, limits, sloped)


def holding(builder: Any, hold: Any, given: dict[str, Any]) -> Any:
    """Fill in what is held."""
    held = validation.mapping("hold", hold, "{'obs_var': 1.0}")
    both = [name for name in held if name in given]
    if both:
        raise ValueError(f"{', '.join(both)} cannot both be held and start somewhere; leave one of them out")
    if not held:
        return builder
    taken = inspect.signature(builder).parameters
    wrong = [str(name) for name in held if name not in taken]
    if wrong and not any(each.kind is each.VAR_KEYWORD for each in taken.values()):
        raise ValueError(f"hold names {', '.join(wrong)}, which the builder does not take; it takes {', '.join(taken)}")
    return partial(builder, **held)


def check_options(
    builder: Any, start: Any, bounds: Any, score: Any, restarts: Any, seed: Any, update_first: Any, affine: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Check what does not depend on the data, and give first guesses and bounds by name."""
    validation.choice("score", score, SCORES)
    validation.function("builder", builder, "wolf.models.local_level")
    validation.integer("restarts", restarts)
    validation.integer("seed", seed)
    validation.boolean("update_first", update_first)
    validation.boolean("affine", affine)
    guesses = validation.mapping("start", start, "{'obs_var': 1.0}")
    return guesses, validation.mapping("bounds", bounds, "{'slope': 'real'}")
