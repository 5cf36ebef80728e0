"""The runs behind a clean series: the fit on a part of it, the filter in chunks or whole, and the look ahead."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from wolf import api, fitting
from wolf.beliefs import Gaussian
from wolf.beliefs.density import deviations
from wolf.cleaning import retrospective
from wolf.cleaning.options import Future, Options
from wolf.cleaning.sampling import stamps_ahead
from wolf.diagnostics.faults.sentinel_values import without_codes
from wolf.diagnostics.faults.stuck_values import runs_of
from wolf.engine import scan
from wolf.execution import xla_batching
from wolf.fitting.initial_values import DYNAMICS_SHARE, OBS_SHARE
from wolf.inference.filters import GaussianFilter
from wolf.models.registry import Named
from wolf.models.structural import Sum
from wolf.numerics import linalg
from wolf.numerics.precision import as_key, precision, to_numpy
from wolf.numerics.pytree import cast
from wolf.results import Filtered
from wolf.runtime import malloc_trim
from wolf.statespace import LinearModel

CHUNK = 16_384  # rows of one compiled call, and the step of a progress bar
SMALLEST = 256  # rows that a shorter series is padded to, so that many short ones share a program
TOGETHER = 3  # rounds in which coordinates tell each other which rows are false
FIT_ROWS = 20_000  # of a longer series that its noise is fitted on

Build = Callable[[np.ndarray | None], LinearModel]
Pieces = Iterator[tuple[dict[str, np.ndarray], Any]]  # what is kept of some rows, and the state after them


@dataclasses.dataclass(frozen=True)
class Signal:
    """Keep of each step what a table needs: the signal with its variance, the weight, and how it was predicted."""

    rows: tuple[tuple[float, ...], ...]
    diagnostics: bool = True

    def __call__(self, state: Any, info: Any) -> dict[str, Any]:
        """Project the belief on the measured coordinates."""
        row = jnp.asarray(self.rows, state.mean.dtype)
        kept = {"mean": linalg.matvec(row, state.mean), "variance": linalg.diagonal(linalg.sandwich(row, state.cov))}
        kept |= {"weight": info.weight, "outlier": info.outlier}
        if not self.diagnostics:
            return kept
        deviation = jnp.sqrt(linalg.diagonal(info.innovation_cov))
        told = {"nis": info.nis, "log_density": info.log_likelihood, "standardised": info.residual / deviation}
        return kept | told


def fit_noise(
    named: Named,
    values: np.ndarray,
    gaps: np.ndarray | None,
    prior: Gaussian,
    known: dict[str, float],
    step_var: float,
    restarts: int,
) -> tuple[fitting.Fit, tuple[int, int]]:
    """Fit the unknown variances on the middle of a series.

    Returns:
        The fit, and the rows that it saw, first and last (exclusive).
    """
    window = fit_window(len(values))
    some = values[slice(*window)]
    size = bucket(len(some))
    gaps = None if gaps is None else _pad(gaps[slice(*window)], size, 1.0)
    start = named.start(some, step_var) if window[0] else prior
    build = named.builder(gaps, start, values.shape[1])
    guesses = {
        name: (OBS_SHARE if name == "obs_var" else DYNAMICS_SHARE) * step_var
        for name in named.parameters
        if name not in known
    }

    def builder(**variances: float) -> LinearModel:
        return build(**known, **variances)

    if len(values) > CHUNK:
        malloc_trim.trim_heap()
    # Variances all: a model by name is a sum of parts, and each brings its own.
    found = fitting.fit(builder, _pad(some, size, np.nan), start=guesses, restarts=restarts, affine=True)
    if len(values) > CHUNK:
        malloc_trim.trim_heap()
    return found, window


def fit_window(count: int) -> tuple[int, int]:
    """Choose the rows that a fit sees: all, or the middle of a long series; first and last (exclusive)."""
    first = max(0, (count - FIT_ROWS) // 2)
    return first, min(count, first + FIT_ROWS)


def filter_chunks(
    build: Build,
    method: Any,
    values: np.ndarray,
    gaps: np.ndarray | None,
    options: Options,
) -> Pieces:
    """Filter in chunks of equal size; what is kept are a few numbers for each row.

    Args:
        build: gaps -> model.
        method: a filter.
        values: (T, M).
        gaps: (T,), or None.
        options: with a forecast the last chunk ends at the last row; otherwise it is padded.
    """
    size, even = min(CHUNK, bucket(len(values))), build(None)
    save = Signal(tuple(map(tuple, np.asarray(even.H).tolist())), options.diagnostics)
    with precision("float64"):
        key = None if isinstance(method, GaussianFilter) else as_key(0)
        # Begin with a state, as every chunk does: without one the first would be compiled by itself.
        state = to_numpy(scan.init(cast(even, "float64"), cast(method, "float64"), key))
    for first in range(0, len(values), size):
        chunk = values[first : first + size]
        count = len(chunk)
        length = count if options.forecast and first + size >= len(values) else size
        some = None if gaps is None else _pad(gaps[first : first + size], length, 1.0)
        model = even if some is None else build(some)
        with precision("float64"):
            engine = (cast(model, "float64"), cast(method, "float64"), _pad(chunk, length, np.nan), None, key)
            final, kept = xla_batching.run_one(*engine, state=state, save=save)
        if not first and len(values) > CHUNK:
            malloc_trim.trim_heap()
        state = final if some is None else final._replace(t=np.zeros_like(final.t))  # gaps are counted anew
        yield {name: array[:count] for name, array in kept.items()}, state


def filter_whole(
    build: Build,
    method: Any,
    values: np.ndarray,
    gaps: np.ndarray | None,
    options: Options,
) -> Pieces:
    """Filter and smooth a whole series, in one piece; arguments as in `filter_chunks`."""
    model = build(gaps)
    out = api.filter(model, values, method=method)
    smoothed = api.smooth(out)
    deviations = np.sqrt(np.diagonal(out.innovation_covs, axis1=1, axis2=2))
    mean, variance = project(model, smoothed.means, smoothed.covs)
    kept = {"mean": mean, "variance": variance, "standardised": out.residuals / deviations}
    told = {"weight": out.weights, "outlier": out.outliers, "nis": out.nis, "log_density": out.log_liks}
    yield kept | told, out.final


def filter_retrospectively(
    named: Sum,
    parameters: dict[str, float],
    values: np.ndarray,
    gaps: np.ndarray | None,
    longest: int,
    level: float,
    diagnostics: bool = True,
    ratio: np.ndarray | float = 1.0,
    others: Sequence[tuple[Sum, dict[str, float]]] = (),
) -> tuple[dict[str, np.ndarray], list[Any]]:
    """Judge each column of a series as a whole.

    Args:
        named: model.
        parameters: its variances.
        values: (T, M).
        gaps: (T,), or None.
        longest: rows of a fault.
        level: probability of the intervals.
        diagnostics: whether to keep how each reading was foretold.
        ratio: variance of each row's readings over the model's, (T,), if it is known.
        others: models that may bridge long gaps, with their variances.

    Returns:
        What `filter_whole` keeps, with half the width of a reading's interval and the kinds of rows; and for each
        column its model on even steps, the state after the last row, and how many deviations hold a reading.
    """
    builds = [_column_build(named, parameters, column) for column in values.T]
    judged = [
        retrospective.judge(
            build, column, gaps, longest, level, ratio, [_column_build(*each, column) for each in others]
        )
        for build, column in zip(builds, values.T, strict=True)
    ]
    if len(judged) > 1:
        judged = _judged_together(judged, builds, values, gaps, longest, level, ratio)
    ends = [(build, each.final, each.factor) for build, each in zip(builds, judged, strict=True)]
    joint = len(judged) > 1

    def side_by_side(name: str) -> np.ndarray:
        columns = [getattr(each, name) for each in judged]
        return np.stack(columns, axis=1) if joint else columns[0][:, None]

    faults, weights, kinds = side_by_side("is_fault"), side_by_side("weight"), side_by_side("fault")
    stacked = {
        "mean": side_by_side("mean"),
        "variance": side_by_side("variance"),
        "prediction_half": side_by_side("prediction_half"),
        "weight": weights.min(1) if joint else weights[:, 0],
        "outlier": faults.any(1) if joint else faults[:, 0],
        # Of several columns: the fault of any, or what the first says.
        "fault": np.where(faults.any(1), np.where(faults, kinds, 0).max(1), kinds.min(1)),
    }
    if joint:
        _name_together(stacked["fault"], stacked["outlier"])
    if diagnostics:
        errors, spread = side_by_side("errors"), np.log(2 * np.pi * side_by_side("spread"))
        nis = (errors**2).sum(1)
        used = np.isfinite(values) & ~faults
        density = -0.5 * np.where(used, spread + errors**2, 0.0).sum(1)
        stacked |= {"standardised": errors, "nis": nis, "log_density": density}
    return stacked, ends


def _column_build(named: Sum, parameters: dict[str, float], column: np.ndarray) -> Build:
    column = without_codes(column)
    usual = column[np.abs(column) < retrospective.LARGEST]
    steps = np.diff(usual) ** 2
    moved = steps[steps > 0.0]  # of rounded readings most may equal the ones before them
    step_var = float(np.median(steps)) or float(np.median(moved)) if moved.size else 1.0
    return partial(_one_column, named, named.start(usual[:, None], step_var), parameters)


def _judged_together(
    judged: list[retrospective.RetrospectiveSeries],
    builds: list[Build],
    values: np.ndarray,
    gaps: np.ndarray | None,
    longest: int,
    level: float,
    ratio: np.ndarray | float,
) -> list[retrospective.RetrospectiveSeries]:
    """Leave out all coordinates of a row if one of them is a fault: a position is false as a whole."""
    for _ in range(TOGETHER):
        false = np.any([each.is_fault for each in judged], axis=0)
        known = np.isfinite(values).T
        if all(np.array_equal(false[some], each.weight[some] == 0.0) for some, each in zip(known, judged, strict=True)):
            break
        for i, each in enumerate(judged):
            told = retrospective.judge(builds[i], np.where(false, np.nan, values[:, i]), gaps, longest, level, ratio)
            kind, errors = np.where(false, each.fault, told.fault), np.where(false, each.errors, told.errors)
            judged[i] = told._replace(fault=kind, errors=errors)
    return judged


def _name_together(kind: np.ndarray, false: np.ndarray) -> None:
    """Call faults that follow each other a burst, whichever coordinates they are in."""
    spike, burst = (retrospective.KINDS.index(name) for name in ("spike", "burst"))
    for first, stop in runs_of(false):
        if stop - first > 1:
            kind[first:stop][kind[first:stop] == spike] = burst


def _one_column(named: Sum, prior: Gaussian, parameters: dict[str, float], gaps: np.ndarray | None) -> LinearModel:
    return named.builder(gaps, prior, 1)(**parameters)


def join_futures(futures: list[Future | None]) -> Future | None:
    """Put the forecasts of columns side by side."""
    known = [each for each in futures if each is not None]
    if not known:
        return None
    side = (np.concatenate([getattr(each, name) for each in known], axis=1) for name in Future._fields[1:])
    return Future(known[0].times, *side)


def look_ahead(
    build: Build,
    method: Any,
    final: Any,
    times: np.ndarray | None,
    unit: float,
    count: int,
    options: Options,
    factor: float | None = None,
) -> Future | None:
    """Forecast even steps beyond the end.

    Args:
        build: gaps -> model.
        method: that came to the final state.
        final: state after the last row.
        times: of the rows, or None for a count.
        unit: the typical step.
        count: of rows.
        options: how.
        factor: deviations that hold a reading, if they are known; else those of a Gaussian.
    """
    if not options.forecast:
        return None
    model = build(None)
    settings = {"save": "final", "dtype": "float64", "steps": count}
    out = Filtered({}, final, model, method, settings, ys=np.empty((0, model.obs_dim)))
    ahead = api.forecast(out, steps=options.forecast)
    mean, variance = project(model, ahead.means, ahead.covs)
    reach = deviations(options.level)
    half = reach * np.sqrt(variance)
    around = (reach if factor is None else factor) * np.sqrt(variance + np.diagonal(np.asarray(model.R)))
    last = count - 1 if times is None else times[-1]
    ends = (mean - half, mean + half, mean - around, mean + around)
    ahead_of = stamps_ahead(float(last), unit, options.forecast, options.origin if options.dated else None)
    return Future(ahead_of, mean, *ends)


def project(model: LinearModel, means: np.ndarray, covs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Turn beliefs about states into mean and variance of what is measured, (T, M) each."""
    row = np.asarray(model.H)
    return means @ row.T, np.einsum("md,tde,me->tm", row, covs, row)


def bucket(count: int) -> int:
    """Round a length up to a power of two, so that series of about one length share a program.

    Example:
        >>> bucket(10), bucket(300)
        (256, 512)
    """
    return max(SMALLEST, 1 << (count - 1).bit_length())


def _pad(array: np.ndarray, length: int, blank: float) -> np.ndarray:
    if len(array) == length:
        return array
    return np.concatenate([array, np.full((length - len(array), *array.shape[1:]), blank)])
