"""Many series, each with parameters of its own, in one search: all of them ask, and are answered together."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wolf import native, validation
from wolf.execution.xla_batching import bound_programs
from wolf.fitting.batched_objective import Batch
from wolf.fitting.finite_differences import around, differences
from wolf.fitting.maximum_likelihood import Score, check_options, first_transform, holding
from wolf.fitting.objective import Objective
from wolf.fitting.optimizer import Told, TwoSidedTest, drive
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
    hold: Mapping[str, Any] | None = None,
    score: Score = "two-part",
    method: str | Filter | None = None,
    restarts: int = 2,
    seed: int = 0,
    update_first: bool = False,
) -> list[Fit]:
    """Find parameters for each of many series: what `wolf.fit` finds for each, in one search for all of them.

    Args:
        builder: as in `wolf.fit`. If its parameters are variances, native code scores all series at once; otherwise
            they are fitted one after the other.
        ys: (series, T, M), or (series, T) if one thing is measured; or a list of arrays of different lengths.
        start: as in `wolf.fit`, for all of them; what is not given is guessed from each series.
        bounds: as in `wolf.fit`.
        hold: as in `wolf.fit`, for all of them.
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
    given, limits = check_options(builder, start, bounds, score, restarts, seed, update_first, False)
    builder = holding(builder, hold, given)
    series = [validation.number_array(f"series {i}", each) for i, each in enumerate(_each(ys))]
    bound_programs()
    problems: list[Objective] = []
    for i, one in enumerate(series):
        try:
            transform = first_transform(builder, one, given, limits)
            like = problems[0] if problems else None
            options = (None, method, score == "two-part", update_first, False, like)
            problems.append(Objective(builder, transform, one, *options))
        except ValueError as error:
            raise ValueError(f"series {i}: {error}") from error
    together = _Together(problems, seed)
    return together.solve([problem.questions(1 + restarts, seed) for problem in problems])


def _each(ys: Any) -> list[Any]:
    """Take many series apart, and refuse what is one series or none."""
    several = isinstance(ys, list | tuple) and len(ys) > 0 and np.ndim(ys[0]) > 0
    if not several and np.ndim(ys) not in (2, 3):
        raise ValueError(
            f"ys must be many series, (series, T, M) or (series, T), or a list of arrays; "
            f"got {validation.short_repr(ys)}. "
            "One series is for wolf.fit"
        )
    return list(ys)


class _Together:
    """Answers the questions of many problems by one run of native code.

    Args:
        problems: of one builder.
        seed: of their random starts.
    """

    def __init__(self, problems: list[Objective], seed: int):
        self.problems = problems
        self.batch = self._batch(seed)
        for problem in problems:
            problem.batch = self.batch

    def _batch(self, seed: int) -> Batch | None:
        first = self.problems[0]
        if first.affine is None:
            return None
        steps = max(problem.ys.shape[1] for problem in self.problems)
        rows = np.full((len(self.problems), steps, first.ys.shape[2]), np.nan)
        for row, problem in zip(rows, self.problems, strict=True):
            row[: problem.ys.shape[1]] = problem.ys[0]
        generic = first.all_numbers(np.array(first.tries(seed)))
        try:
            return Batch(first.affine, generic, rows, None, first.two_part, first.update_first)
        except native.UNSUPPORTED:
            return None

    def solve(self, questions: list[Any]) -> list[Fit]:
        """Let all go on until each has its result."""
        if self.batch is None:
            return [drive(each, problem.answer) for each, problem in zip(questions, self.problems, strict=True)]
        results: list[Any] = [None] * len(questions)
        asked = {i: next(each) for i, each in enumerate(questions)}
        while asked:
            told, asked = self._answer(asked), {}
            for i, answer in told.items():
                try:
                    asked[i] = questions[i].send(answer)
                except StopIteration as end:
                    results[i] = end.value
        return results

    def _answer(self, asked: dict[int, TwoSidedTest]) -> dict[int, Told]:
        """Evaluate all points of all problems; those that turned out to be no sums answer for themselves."""
        assert self.batch is not None
        alone = {i for i in asked if self.problems[i].batch is None}
        points = {i: around(*each) for i, each in asked.items() if i not in alone}
        told: dict[int, Told] = {i: self.problems[i].answer(asked[i]) for i in alone}
        if not points:
            return told
        numbers = self.problems[0].all_numbers(np.concatenate(list(points.values())))
        which = np.repeat(list(points), [len(some) for some in points.values()])
        scores, at = self.batch.scores_of(numbers, which), 0
        for i, some in points.items():
            own = slice(at, at + len(some))
            told[i], at = differences(self.problems[i].as_losses(scores[own], numbers[own]), *asked[i]), own.stop
        return told
