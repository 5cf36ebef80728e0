"""`wolf.choose(ys)`: a model chosen from the data, fitted, and the reasons in words."""

import dataclasses
from collections.abc import Sequence
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.fitting.initial_values import difference_var
from wolf.fitting.select import candidates as proposals
from wolf.fitting.select import interpolated_rows, quantization
from wolf.fitting.select.candidate_fit import CandidateFit, try_out
from wolf.fitting.select.summary import CLOSE, judge, sentence
from wolf.models.continuous import without_zone
from wolf.models.registry import make, parse
from wolf.models.structural import Sum
from wolf.numerics import calendar_months
from wolf.statespace import LinearModel

FEWEST = 12  # values below which there is nothing to choose by
SAMPLE = 4_096  # values of a longer series that the choice is made on
WARM = 0.15  # share of the values that only warm up
LARGEST = 1e100  # of a value; beyond it is nothing that was measured
CUT = 3.0  # deviations of a step at which first errors are cut off


@dataclasses.dataclass(frozen=True)
class Candidate:
    """One candidate of a choice.

    Attributes:
        name: as `--model` understands it.
        score: log density of the scored values, each foretold from those before it; higher is better.
        behind: how much its score, less the price of its parameters, is behind that of the one chosen; below 0 for a
            less simple one that is no more than a little ahead.
        parameters: its variances.
        seconds: of processor time that it took.
    """

    name: str
    score: float
    behind: float
    parameters: dict[str, float]
    seconds: float


@dataclasses.dataclass(frozen=True, repr=False)
class Choice:
    """A model chosen from the data.

    Attributes:
        name: as `--model` understands it.
        model: fitted, ready for `wolf.filter` on even steps or on the times given.
        parameters: its variances.
        candidates: all that were tried, the best first.
        verdict: what a person should know about the choice, in words.
        rows: first and last row (exclusive) that the choice was made on.
        outlier_share: share of values that the fitted law of errors takes for outliers.
        seconds: of processor time that it took.
    """

    name: str
    model: LinearModel
    parameters: dict[str, float]
    candidates: tuple[Candidate, ...]
    verdict: str
    rows: tuple[int, int]
    outlier_share: float
    seconds: float

    def __repr__(self) -> str:
        """Say what was chosen, why, and what came second."""
        return f"Choice: {self.words}"

    @property
    def words(self) -> str:
        """One sentence: what was chosen, why, and what came second."""
        return sentence(self.candidates)


def choose(ys: ArrayLike, times: Any = None, candidates: Sequence[str] | None = None) -> Choice:
    """Choose a model for a series, and fit it.

    Candidates foretell each value from those before it; the one with the best log score wins, outliers included by a
    law that has room for them. Simpler models win ties: a parameter must earn half the logarithm of the number of
    values. Level, trend (also damped), noise that lasts, and one or two seasons, found in the spectrum and, where times
    are dates, in the calendar; several columns are tried as a track.

    Args:
        ys: (T,), or (T, M) for the coordinates of a track; NaN where missing.
        times: of the values, (T,), dates or numbers, in order; even steps without them.
        candidates: names as `--model` understands them; default: as above.

    Example:
        >>> import numpy as np, wolf
        >>> hours = np.arange(600)
        >>> ys = 10 * np.sin(2 * np.pi * hours / 24) + np.random.default_rng(0).normal(size=600)
        >>> wolf.choose(ys).name
        'level+seasonal:24:1'
    """
    began = process_time()
    array = validation.number_array("ys", ys)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2:
        raise ValueError(f"ys must have shape (T,), or (T, M) for a track; got {array.shape}")
    stamps, unit = _clock(times, len(array))
    return choose_rows(array, stamps, unit, candidates, began)


def choose_rows(
    values: np.ndarray,
    stamps: np.ndarray | None,
    unit: float | None,
    candidates: Sequence[str] | None = None,
    began: float | None = None,
) -> Choice:
    """Choose for values whose times are numbers.

    Args:
        values: (T, M).
        stamps: (T,), counted in steps, sorted; None for even steps.
        unit: seconds in a step; None where the times are no clock's.
        candidates: as in `choose`.
        began: processor time when it began.
    """
    began = process_time() if began is None else began
    rows = _sample(values, stamps)
    some = np.where(np.abs(values[slice(*rows)]) < LARGEST, values[slice(*rows)], np.nan)
    columns = _on_even_steps(some, None if stamps is None else stamps[slice(*rows)])
    known = np.isfinite(columns).any(0).sum()
    if known < FEWEST:
        raise ValueError(f"a model is chosen from at least {FEWEST} values; got {known}. Say which, as local-level")
    steps = [quantization.step_of(column) for column in columns]
    columns = columns + np.stack([quantization.noise_of(step, columns.shape[1]) for step in steps])
    rounded = float(np.mean([quantization.variance_of(step) for step in steps]))
    trials = [_as_read(trial, rounded) for trial in _try_all(columns, unit, candidates)]
    trials.sort(key=lambda trial: -trial.merit)
    close = [trial for trial in trials if trial.merit > trials[0].merit - CLOSE]
    best = min(close, key=lambda trial: (trial.states, len(trial.parameters), -trial.merit))
    trials.remove(best)
    trials.insert(0, best)
    listed = tuple(
        Candidate(each.name, each.score, best.merit - each.merit, each.parameters, each.seconds) for each in trials
    )
    given: Any = best.parameters | ({} if stamps is None else {"times": stamps})
    model = make(best.name, dims=len(columns), **given)
    every = interpolated_rows.every_of(columns[0]) if len(columns) == 1 and not rounded else 1
    words = judge(best, rows, len(values), max(steps), every)
    return Choice(best.name, model, best.parameters, listed, words, rows, best.share, process_time() - began)


def _as_read(trial: CandidateFit, rounded: float) -> CandidateFit:
    """Take the noise that stood for what rounding took away off a trial's; what rounding itself adds stays."""
    if not rounded:
        return trial
    obs_var = max(trial.parameters["obs_var"] - rounded, rounded)
    return trial._replace(parameters=trial.parameters | {"obs_var": obs_var})


def _try_all(columns: np.ndarray, unit: float | None, names: Sequence[str] | None) -> list[CandidateFit]:
    warm = int(WARM * columns.shape[1])
    cut = CUT * float(np.sqrt(difference_var(columns.T)))

    def attempt(name: str) -> CandidateFit:
        return try_out(name, columns, warm, cut)

    if names is None:
        if len(columns) > 1:
            return [attempt(name) for name in proposals.TRACK]
        return list(proposals.search(columns[0], unit, attempt))
    if isinstance(names, str) or not len(names):
        raise ValueError(f"candidates must be a list of names, as ['local-level', 'seasonal:24:2']; got {names!r}")
    for name in names:
        found = parse(str(name))
        if not isinstance(found, Sum) or found.given:
            raise ValueError(f"candidates are models whose variances are all to be found; {name!r} has some given")
        if found.columns not in (None, len(columns)):
            raise ValueError(f"{name} measures {found.columns} column; ys has {len(columns)}")
    return [attempt(str(name)) for name in names]


def _clock(times: Any, count: int) -> tuple[np.ndarray | None, float | None]:
    """Turn times into steps, and say how many seconds a step has, if they are dates."""
    if times is None:
        return None, None
    array = without_zone(np.asarray(times))
    dated = array.dtype.kind == "M" or (array.dtype == object and count and hasattr(array.flat[0], "isoformat"))
    if dated:
        array = array.astype("datetime64[ns]")
        array = (array - array[0]) / np.timedelta64(1, "s")
    stamps = validation.number_array("times", array)
    if stamps.shape != (count,) or not np.all(np.isfinite(stamps)) or np.any(np.diff(stamps) < 0):
        raise ValueError(f"times must be one for each of the {count} rows, in order, none missing; got {stamps.shape}")
    steps = np.diff(stamps)
    unit = float(np.median(steps[steps > 0])) if np.any(steps > 0) else 1.0
    counted = calendar_months.months_since_first(stamps) if dated and count > 1 else None
    if counted is not None:
        unit, stamps = float(np.median(np.diff(counted))) * calendar_months.MONTH, counted * calendar_months.MONTH
        steps = np.diff(stamps)
    even = np.all(np.abs(steps - unit) <= 1e-3 * unit)
    return None if even else (stamps - stamps[0]) / unit, unit if dated else None


def _sample(values: np.ndarray, stamps: np.ndarray | None) -> tuple[int, int]:
    """Take all of a series, or the middle of a long one."""
    first = max(0, (len(values) - SAMPLE) // 2)
    return first, min(len(values), first + SAMPLE)


def _on_even_steps(values: np.ndarray, stamps: np.ndarray | None) -> np.ndarray:
    """Put rows on the nearest of even steps, (M, T); where most steps would be empty, leave them as they are."""
    if stamps is None:
        return values.T
    place = np.rint(stamps - stamps[0]).astype(int)
    if place[-1] + 1 > 2 * len(values):
        return values.T
    even = np.full((place[-1] + 1, values.shape[1]), np.nan)
    even[place] = values
    return even.T
