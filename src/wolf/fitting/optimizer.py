"""Minima of a smooth function of a few parameters in a box, from several starts in lock-step (ask/tell interface).

All searches request values together, because the objective of many points costs hardly more than that of one; for the
same reason a rejected step is followed by several shorter ones at once. The steps are in `local_search.py`. A library
optimiser would not allow this batching, and its threads would cost more than the arithmetic.
"""

from collections.abc import Callable, Generator
from typing import Any, TypeVar

import numpy as np

from wolf.fitting.local_search import LocalSearch, Minimum

MAX_STEPS = 200
BACKTRACKING_FACTORS = 0.5 ** np.arange(1, 9)  # fractions of a rejected step that are evaluated together
ARMIJO_SHARE = 1e-4  # share of the linearly predicted decrease that a step must attain (Armijo 1966)

ValueFunction = Callable[[np.ndarray], np.ndarray]
GradientFunction = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


Query = tuple[np.ndarray, int]  # points (P, K), and the order of the derivatives: 0, 1 or 2
# Values (P,); gradients (P, K) or None; Hessians (P, K, K) or None.
Response = tuple[np.ndarray, Any, np.ndarray | None]
ResultT = TypeVar("ResultT")
Limits = list[tuple[float | None, float | None]]


def minimize(
    values: ValueFunction, gradients: GradientFunction, starts: list[np.ndarray], limits: Limits
) -> list[Minimum]:
    """Minimise a function from several starts.

    Args:
        values: function from points (P, K) to values (P,).
        gradients: function from points (P, K) to values (P,) and gradients (P, K).
        starts: starting points, each (K,).
        limits: lower and upper limit of each parameter, or None.

    Returns:
        A minimum for each start.

    Example:
        >>> def bowl(x):
        ...     return ((x - 1.0) ** 2).sum(1), 2 * (x - 1.0)
        >>> minimize(lambda x: bowl(x)[0], bowl, [np.array([5.0, -3.0])], [(None, None), (None, 0.5)])[0].x.round(3)
        array([1. , 0.5])
    """

    def evaluate(query: Query) -> Response:
        points, order = query
        return (*gradients(points), None) if order else (values(points), None, None)

    return run_search(search(starts, limits), evaluate)


def run_search(queries: Generator[Query, Response, ResultT], evaluate: Callable[[Query], Response]) -> ResultT:
    """Run a search to its end by evaluating its queries.

    Args:
        queries: a search, which yields queries.
        evaluate: function that evaluates a query.
    """
    try:
        query = next(queries)
        while True:
            query = queries.send(evaluate(query))
    except StopIteration as end:
        result: ResultT = end.value
        return result


def search(
    starts: list[np.ndarray], limits: Limits, tolerance: float = 0.0
) -> Generator[Query, Response, list[Minimum]]:
    """Minimise a function that the caller evaluates: yield queries, receive responses, return a minimum for each start.

    The caller may evaluate the queries of many searches together.

    Args:
        starts: as in `minimize`.
        limits: as in `minimize`.
        tolerance: if responses contain Hessians, the predicted gain below which a search stops.
    """
    lows = np.array([-np.inf if low is None else low for low, _ in limits])
    highs = np.array([np.inf if high is None else high for _, high in limits])
    first_points = np.clip(np.array(starts), lows, highs)
    searches = [LocalSearch(*each) for each in _rows(first_points, (yield first_points, 2))]
    for _ in range(MAX_STEPS):
        steps = [(local, local.next_step(lows, highs)) for local in searches if not local.message]
        targets = [(local, np.clip(local.x + step, lows, highs)) for local, step in steps if step is not None]
        best_ended = min((local.value for local in searches if local.message), default=np.inf)
        moves = [(local, target) for local, target in targets if not local.is_idle(target, best_ended, tolerance)]
        if not moves:
            break
        target_points = np.array([target for _, target in moves])
        rejected = []
        for (local, _), evaluated in zip(moves, _rows(target_points, (yield target_points, 2)), strict=True):
            local.evaluations += 1
            if evaluated[1] <= local.value + ARMIJO_SHARE * local.predicted_change(evaluated[0]):
                local.accept(*evaluated)
            else:
                rejected.append((local, evaluated[0]))
        if rejected:
            yield from _backtrack(rejected)
    return [local.result() for local in searches]


def _rows(points: np.ndarray, response: Response) -> list[tuple]:
    """Combine each point with its value, gradient and Hessian."""
    values, gradients, hessians = response
    return list(zip(points, values, gradients, [None] * len(points) if hessians is None else hessians, strict=True))


def _backtrack(rejected: list[tuple[LocalSearch, np.ndarray]]) -> Generator[Query, Response, None]:
    """Evaluate shorter steps, and take the longest sufficient one; a search without one is reset, or has ended."""
    trials = np.array([local.x + BACKTRACKING_FACTORS[:, None] * (target - local.x) for local, target in rejected])
    evaluated, _, _ = yield trials.reshape(-1, trials.shape[-1]), 0
    accepted = []
    for (local, _), points, values in zip(rejected, trials, evaluated.reshape(len(trials), -1), strict=True):
        sufficient = np.flatnonzero(values <= local.value + ARMIJO_SHARE * local.predicted_change(points))
        if len(sufficient):
            accepted.append((local, points[sufficient[0]]))
        elif not local.is_reset or local.hessian is not None:
            local.reset()
        else:
            local.message = "no step decreases the value"
    if not accepted:
        return
    points = np.array([point for _, point in accepted])
    for (local, _), each in zip(accepted, _rows(points, (yield points, 2)), strict=True):
        local.evaluations += 1
        local.accept(*each)
