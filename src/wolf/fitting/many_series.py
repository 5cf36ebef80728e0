"""Fits of many series, each with its own parameters, in lock-step: queries of all searches are evaluated together."""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wolf import native, validation
from wolf.execution.xla_batching import bound_programs
from wolf.fitting.batched_objective import BatchedScore
from wolf.fitting.finite_differences import differentiate, stencil
from wolf.fitting.initial_values import is_many
from wolf.fitting.maximum_likelihood import Score, check_options, first_transform, hold_parameters
from wolf.fitting.objective import Objective
from wolf.fitting.optimizer import Query, Response, run_search
from wolf.fitting.result import Fit
from wolf.fitting.transforms import Bounds
from wolf.interfaces import Filter
from wolf.statespace import Model


def fit_many(
    builder: Callable[..., Model],
    ys: ArrayLike | Sequence[ArrayLike],
    *,
    start: Mapping[str, float] | None = None,
    bounds: Mapping[str, Bounds] | None = None,
    hold: Mapping[str, object] | None = None,
    score: Score = "two-part",
    method: str | Filter | None = None,
    restarts: int = 2,
    seed: int = 0,
    update_first: bool = False,
) -> list[Fit]:
    """Fit the parameters of each of many series, as `wolf.fit` does for one, in one search for all of them.

    Args:
        builder: as in `wolf.fit`. If its parameters are variances, native code scores all series at once; otherwise
            they are fitted one after the other.
        ys: (series, T, M), or (series, T) if M = 1; or a list of arrays of different lengths.
        start: as in `wolf.fit`, for all series; other first guesses are estimated from each series.
        bounds: as in `wolf.fit`.
        hold: as in `wolf.fit`, for all series.
        score: as in `wolf.fit`.
        method: as in `wolf.fit`.
        restarts: as in `wolf.fit`.
        seed: as in `wolf.fit`.
        update_first: as in `wolf.fit`.

    Returns:
        A `Fit` for each series.

    Example:
        >>> import wolf
        >>> truth = wolf.models.local_level(level_var=0.1, obs_var=1.0)
        >>> ys = [wolf.simulate.trajectory(truth, 300, key=i).measurements for i in range(3)]
        >>> fits = wolf.fit_many(wolf.models.local_level, ys)
        >>> out = wolf.filter_many([fit.model for fit in fits], ys)
        >>> len(fits), out.num_series
        (3, 3)
    """
    first_guesses, limits = check_options(builder, start, bounds, score, restarts, seed, update_first, False)
    builder = hold_parameters(builder, hold, first_guesses)
    series = [validation.number_array(f"series {i}", each) for i, each in enumerate(_split_series(ys))]
    bound_programs()
    objectives: list[Objective] = []
    for i, values in enumerate(series):
        try:
            transform = first_transform(builder, values, first_guesses, limits)
            template = objectives[0] if objectives else None
            options = (None, method, score == "two-part", update_first, False, template)
            objectives.append(Objective(builder, transform, values, *options))
        except ValueError as error:
            raise ValueError(f"series {i}: {error}") from error
    solver = LockstepSolver(objectives, seed)
    return solver.solve([objective.search(1 + restarts, seed) for objective in objectives])


def _split_series(ys: Any) -> list[ArrayLike]:
    """Split an argument into its series; reject a single series."""
    if not is_many(ys) and np.ndim(ys) not in (2, 3):
        raise ValueError(
            f"ys must be many series, (series, T, M) or (series, T), or a list of arrays; "
            f"got {validation.short_repr(ys)}. "
            "Use wolf.fit for one series"
        )
    return list(ys)


class LockstepSolver:
    """Evaluates the queries of many searches by one run of native code.

    Args:
        objectives: objectives with the same builder.
        seed: seed of their random starts.
    """

    def __init__(self, objectives: list[Objective], seed: int):
        self.objectives = objectives
        self.batch = self._batch(seed)
        for i, objective in enumerate(objectives):
            objective.batch, objective.series = self.batch, slice(i, i + 1)

    def _batch(self, seed: int) -> BatchedScore | None:
        first = self.objectives[0]
        if first.affine is None:
            return None
        steps = max(objective.ys.shape[1] for objective in self.objectives)
        rows = np.full((len(self.objectives), steps, first.ys.shape[2]), np.nan)
        for row, objective in zip(rows, self.objectives, strict=True):
            row[: objective.ys.shape[1]] = objective.fitted_ys[0]
        generic = first.all_numbers(np.array(first.initial_points(seed)))
        try:
            unscored = np.concatenate([objective.unscored for objective in self.objectives])
            return BatchedScore(first.affine, generic, rows, None, first.two_part, first.update_first, unscored)
        except native.UNSUPPORTED:
            return None

    def solve(self, searches: list[Generator[Query, Response, Fit]]) -> list[Fit]:
        """Run all searches until each has its result."""
        if self.batch is None:
            return [
                run_search(each, objective.evaluate) for each, objective in zip(searches, self.objectives, strict=True)
            ]
        results: dict[int, Fit] = {}
        queries = {i: next(each) for i, each in enumerate(searches)}
        while queries:
            responses, queries = self._evaluate(queries), {}
            for i, response in responses.items():
                try:
                    queries[i] = searches[i].send(response)
                except StopIteration as end:
                    results[i] = end.value
        return [results[i] for i in range(len(searches))]

    def _evaluate(self, queries: dict[int, Query]) -> dict[int, Response]:
        """Evaluate all queries together; objectives that turned out not to be affine evaluate their own."""
        assert self.batch is not None
        separate = {i for i in queries if self.objectives[i].batch is None}
        points = {i: stencil(*each) for i, each in queries.items() if i not in separate}
        responses: dict[int, Response] = {i: self.objectives[i].evaluate(queries[i]) for i in separate}
        if not points:
            return responses
        numbers = self.objectives[0].all_numbers(np.concatenate(list(points.values())))
        series_index = np.repeat(list(points), [len(group) for group in points.values()])
        scores, position = self.batch.scores_by_series(numbers, series_index), 0
        for i, group in points.items():
            own = slice(position, position + len(group))
            losses = self.objectives[i].as_losses(scores[own], numbers[own])
            responses[i], position = differentiate(losses, *queries[i]), own.stop
        return responses
