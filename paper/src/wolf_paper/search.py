"""Hyper-parameters by Bayesian optimisation, as the paper chooses them: on one trial, by the package that it cites.

Nogueira (2014), "Bayesian Optimization: open source constrained global optimization tool for Python". What is chosen
on one trial depends on that trial: experiments report several draws where the choice matters.
"""

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

FAILED = -1e6  # what a score that is no number counts for


class Found(NamedTuple):
    """The best of a search.

    Attributes:
        values: by the names of the bounds.
        score: that they reached.
        evaluations: how many were tried.
    """

    values: dict[str, float]
    score: float
    evaluations: int


def maximise(
    score: Callable[..., float],
    bounds: Mapping[str, tuple[float, float]],
    *,
    initial: int,
    iterations: int,
    seed: int,
    tell: Callable[[int, int], None] = lambda done, of: None,
) -> Found:
    """Search a box for the values with the largest score.

    Args:
        score: a function of the values by name; what it gives that is no number counts as a bad failure.
        bounds: (low, high) by name. Without any, nothing is searched.
        initial: points that are drawn at random first.
        iterations: points that the surrogate chooses after them.
        seed: of the search.
        tell: told how many evaluations are done.
    """
    if not bounds:
        return Found({}, _finite(score()), 1)
    from bayes_opt import BayesianOptimization  # here: it takes a second to import

    done = 0

    def counted(**values: float) -> float:
        nonlocal done
        done += 1
        tell(done, initial + iterations)
        return _finite(score(**values))

    with warnings.catch_warnings():
        # The surrogate's own fit complains where the score is flat or the box is touched; neither is ours to mend.
        warnings.simplefilter("ignore")
        search = BayesianOptimization(counted, dict(bounds), random_state=seed, verbose=0, allow_duplicate_points=True)
        search.maximize(init_points=initial, n_iter=iterations)
    best: Any = search.max
    return Found({name: float(value) for name, value in best["params"].items()}, float(best["target"]), done)


def _finite(value: float) -> float:
    return float(value) if math.isfinite(value) else FAILED
