"""`wolf.choose(ys)`: selection of a model, its fit, and a summary."""

import dataclasses
from collections.abc import Sequence
from datetime import date
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.fitting.initial_values import difference_var
from wolf.fitting.select import candidates as candidate_list
from wolf.fitting.select import interpolated_rows, quantization
from wolf.fitting.select.candidate_fit import CandidateFit, fit_candidate
from wolf.fitting.select.exogenous import choose_with_exogenous
from wolf.fitting.select.jointly import choose_jointly
from wolf.fitting.select.sample import SAMPLE_ROWS, pieces_of
from wolf.fitting.select.seasonality import Season, find_seasons
from wolf.fitting.select.summary import TIE_NATS, describe_caveats, sentence
from wolf.models.exogenous import read_exogenous
from wolf.models.registry import make, parse
from wolf.models.structural import Sum
from wolf.numerics import calendar_months
from wolf.numerics.dates import without_zone
from wolf.numerics.frame_labels import columns_of
from wolf.numerics.measurement_transforms import read_transform
from wolf.statespace import LinearModel

FEWEST = 12  # values that are needed to select a model
WARMUP_SHARE = 0.15  # share of the values that are not scored
CYCLES_PER_PIECE = 3  # cycles of the longest season in a piece of the sample
MAX_VALUE = 1e100  # larger values are treated as missing
CLIP_STDS = 3.0  # standard deviations of a step at which the first errors are clipped


@dataclasses.dataclass(frozen=True)
class Candidate:
    """One candidate of a model selection.

    Attributes:
        name: model name, as in `--model`.
        score: log density of the scored values, each predicted from those before it; higher is better.
        behind: difference of its penalised score to that of the selected model; negative for a more complex model with
            a slightly better score.
        parameters: its variances.
        seconds: processor time.
    """

    name: str
    score: float
    behind: float
    parameters: dict[str, float]
    seconds: float


@dataclasses.dataclass(frozen=True, repr=False)
class Choice:
    """Selected model.

    Attributes:
        name: model name, as in `--model`.
        model: fitted model, ready for `wolf.filter` on a regular time grid or on the times given.
        parameters: its variances.
        candidates: all candidates, the best first.
        verdict: caveats about the selection, in words.
        rows: first and last row (exclusive) that were used.
        pieces: those of the sample of a long series, first and last row (exclusive) of each.
        outlier_share: share of outliers in the fitted distribution of errors.
        seconds: processor time.
        coefficients: of the exogenous variables, by the names of their states.
        parts: of columns that were chosen together, the choice of each, by its name.
        correlation: of their disturbances, (M, M); None for a single series.
    """

    name: str
    model: LinearModel
    parameters: dict[str, float]
    candidates: tuple[Candidate, ...]
    verdict: str
    rows: tuple[int, int]
    outlier_share: float
    seconds: float
    pieces: tuple[tuple[int, int], ...] = ()
    coefficients: dict[str, float] = dataclasses.field(default_factory=dict)
    parts: "dict[str, Choice]" = dataclasses.field(default_factory=dict)
    correlation: np.ndarray | None = None

    def __repr__(self) -> str:
        """Return the selected model, the reason, and the second best."""
        return f"Choice: {self.words}"

    @property
    def words(self) -> str:
        """Selected model, the reason, and the second best, in one sentence."""
        if self.parts:
            return "; ".join(f"{title}: {each.words}" for title, each in self.parts.items())
        return sentence(self.candidates)


def choose(
    ys: ArrayLike,
    times: ArrayLike | None = None,
    candidates: Sequence[str] | None = None,
    *,
    exog: object = None,
    transform: object = None,
    together: bool = False,
) -> Choice:
    """Select a model for a series, and fit it.

    Candidates predict each value from those before it, and the one with the best log score is selected, under a
    distribution with outliers. Simpler models are preferred: a parameter must gain half the log of the number of
    values. Candidates are level, trend (also damped), autocorrelated noise, and one or two seasons, found in the
    spectrum and, if times are dates, in the calendar; several columns are modelled as a track.

    Args:
        ys: series, (T,), or (T, M) for the coordinates of a track; NaN where missing.
        times: times of the values, (T,), dates or numbers, in order; a regular time grid by default.
        candidates: model names as in `--model`; by default as above.
        exog: exogenous variables (covariates) that the series depends on linearly, (T, K) or a data frame. The model
            then has their coefficients as further states; `wolf.forecast(out, steps, exog=...)` takes their future.
        transform: scale of the model, as in `wolf.filter`, to which the same is then passed: "log", "sqrt" and others.
        together: several columns are correlated series, and not a track: each has its own model, and their disturbances
            are correlated, so that one is filled from the others (`wolf.models.joint`).

    Example:
        >>> import numpy as np, wolf
        >>> hours = np.arange(600)
        >>> ys = 10 * np.sin(2 * np.pi * hours / 24) + np.random.default_rng(0).normal(size=600)
        >>> wolf.choose(ys).name
        'level+seasonal:24:1'
    """
    start_time = process_time()
    array = validation.data_array("ys", ys)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2:
        raise ValueError(f"ys must have shape (T,), or (T, M) for a track; got {array.shape}")
    scale = read_transform(transform)
    array = array if scale is None else scale.apply(array)
    stamps, unit = _steps_of_times(times, len(array))
    if together:
        if exog is not None:
            raise ValueError("together and exog exclude each other; subtract what exog explains first")
        return choose_jointly(array, columns_of(ys), lambda column: choose_rows(column, stamps, unit, candidates))
    if exog is None:
        return choose_rows(array, stamps, unit, candidates, start_time)
    given = read_exogenous(exog)
    if len(given.values) != len(array):
        raise ValueError(f"exog must have {len(array)} rows, one for each value; got {len(given.values)}")
    return choose_with_exogenous(array, given, lambda rest: choose_rows(rest, stamps, unit, candidates))


def choose_rows(
    values: np.ndarray,
    stamps: np.ndarray | None,
    unit: float | None,
    candidates: Sequence[str] | None = None,
    start_time: float | None = None,
) -> Choice:
    """Select a model for values with numeric times.

    Args:
        values: series, (T, M).
        stamps: times in steps, (T,), sorted; None for a regular time grid.
        unit: seconds per step; None if the times are not dates.
        candidates: as in `choose`.
        start_time: processor time at the start.
    """
    start_time = process_time() if start_time is None else start_time
    values = np.where(np.abs(values) < MAX_VALUE, values, np.nan)
    is_track, seasons = values.shape[1] > 1, list[Season]()
    if not is_track and candidates is None:
        middle = _on_regular_grid(values, stamps, *_middle_rows(len(values)))[0]
        if np.isfinite(middle).sum() >= FEWEST:
            seasons = find_seasons(middle, unit)[: candidate_list.MAX_SEASONS]
    longest = max([season.period for season in seasons], default=0.0)
    pieces = [_middle_rows(len(values))] if is_track else pieces_of(len(values), CYCLES_PER_PIECE * longest)
    columns = _join_grids([_on_regular_grid(values, stamps, *piece) for piece in pieces])
    num_warmup = max(int(WARMUP_SHARE * columns.shape[1]), int(longest) if len(pieces) > 1 else 0)
    known = np.isfinite(columns).sum() if len(pieces) > 1 else np.isfinite(columns).any(0).sum()
    if known < FEWEST:
        raise ValueError(
            f"model selection needs at least {FEWEST} values; got {known}. Pass a model name, such as local-level"
        )
    joined = columns if is_track else columns.reshape(1, -1)
    steps = [quantization.step_of(column) for column in joined]
    steps = steps if is_track else steps * len(columns)
    columns = columns + np.stack([quantization.noise_of(step, columns.shape[1]) for step in steps])
    quantization_variance = float(np.mean([quantization.variance_of(step) for step in steps]))
    fits = _fit_all(columns, seasons, candidates, num_warmup, is_track)
    fits = [_without_quantization_noise(fit, quantization_variance) for fit in fits]
    fits.sort(key=lambda fit: -fit.penalised_score)
    tied = [fit for fit in fits if fit.penalised_score > fits[0].penalised_score - TIE_NATS]
    best = min(tied, key=lambda fit: (fit.states, len(fit.parameters), -fit.penalised_score))
    fits.remove(best)
    fits.insert(0, best)
    listed = tuple(
        Candidate(each.name, each.score, best.penalised_score - each.penalised_score, each.parameters, each.seconds)
        for each in fits
    )
    arguments: dict[str, Any] = best.parameters | ({} if stamps is None else {"times": stamps})
    model = make(best.name, dims=values.shape[1], **arguments)
    every = interpolated_rows.every_of(columns[0]) if not is_track and not quantization_variance else 1
    words = describe_caveats(best, pieces, len(values), max(steps), every)
    rows = (pieces[0][0], pieces[-1][1])
    seconds = process_time() - start_time
    return Choice(best.name, model, best.parameters, listed, words, rows, best.share, seconds, tuple(pieces))


def _without_quantization_noise(fit: CandidateFit, quantization_variance: float) -> CandidateFit:
    """Subtract the variance of the added quantisation noise from a fit; that of the quantisation remains."""
    if not quantization_variance:
        return fit
    obs_var = max(fit.parameters["obs_var"] - quantization_variance, quantization_variance)
    return fit._replace(parameters=fit.parameters | {"obs_var": obs_var})


def _fit_all(
    columns: np.ndarray, seasons: Sequence[Season], names: Sequence[str] | None, num_warmup: int, is_track: bool
) -> list[CandidateFit]:
    clip = CLIP_STDS * float(np.sqrt(difference_var(columns.T)))

    def evaluate(name: str) -> CandidateFit:
        return fit_candidate(name, columns, num_warmup, clip, is_track)

    if names is None:
        if is_track:
            return [evaluate(name) for name in candidate_list.TRACK]
        return list(candidate_list.evaluate_candidates(seasons, evaluate))
    if isinstance(names, str) or not len(names):
        raise ValueError(f"candidates must be a list of names, such as ['local-level', 'seasonal:24:2']; got {names!r}")
    for name in names:
        model = parse(str(name))
        if not isinstance(model, Sum) or model.given:
            raise ValueError(f"candidates must be model names without given variances; got {name!r}")
        num_columns = len(columns) if is_track else 1
        if model.columns not in (None, num_columns):
            raise ValueError(f"{name} measures {model.columns} column; ys has {num_columns}")
    return [evaluate(str(name)) for name in names]


def _steps_of_times(times: ArrayLike | None, count: int) -> tuple[np.ndarray | None, float | None]:
    """Convert times to steps, and return the seconds per step if they are dates."""
    if times is None:
        return None, None
    array = without_zone(np.asarray(times))
    dated = array.dtype.kind == "M" or (array.dtype == object and count and isinstance(array.flat[0], date))
    if dated:
        array = array.astype("datetime64[ns]")
        array = (array - array[0]) / np.timedelta64(1, "s")
    stamps = validation.data_array("times", array if dated else times)
    if stamps.shape != (count,) or not np.all(np.isfinite(stamps)) or np.any(np.diff(stamps) < 0):
        raise ValueError(
            f"times must have one entry for each of the {count} rows, in order, none missing; got {stamps.shape}"
        )
    validation.check_times("times", stamps)
    steps = np.diff(stamps)
    unit = float(np.median(steps[steps > 0])) if np.any(steps > 0) else 1.0
    months = calendar_months.months_since_first(stamps) if dated and count > 1 else None
    if months is not None:
        unit, stamps = float(np.median(np.diff(months))) * calendar_months.MONTH, months * calendar_months.MONTH
        steps = np.diff(stamps)
    regular = np.all(np.abs(steps - unit) <= 1e-3 * unit)
    return None if regular else (stamps - stamps[0]) / unit, unit if dated else None


def _middle_rows(count: int) -> tuple[int, int]:
    """Select all rows, or the middle ones of a long series."""
    first = max(0, (count - SAMPLE_ROWS) // 2)
    return first, min(count, first + SAMPLE_ROWS)


def _on_regular_grid(values: np.ndarray, stamps: np.ndarray | None, first: int, stop: int) -> np.ndarray:
    """Assign some rows to the nearest step of a regular grid, (M, T); unchanged if most steps would be empty."""
    values = values[first:stop]
    if stamps is None:
        return values.T
    index = np.rint(stamps[first:stop] - stamps[first]).astype(int)
    if index[-1] + 1 > 2 * len(values):
        return values.T
    regular = np.full((index[-1] + 1, values.shape[1]), np.nan)
    regular[index] = values
    return regular.T


def _join_grids(pieces: list[np.ndarray]) -> np.ndarray:
    """Stack pieces (M, T), padded to the same length by NaN."""
    length = max(piece.shape[1] for piece in pieces)
    padded = [np.pad(piece, ((0, 0), (0, length - piece.shape[1])), constant_values=np.nan) for piece in pieces]
    return np.concatenate(padded)
