"""Runs behind a cleaned series: the fit on a part of it, the causal filter in chunks, the smoother, the forecast."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from wolf import api, fitting
from wolf.beliefs import Gaussian
from wolf.beliefs.density import deviations
from wolf.cleaning import retrospective
from wolf.cleaning.options import Options
from wolf.cleaning.reported_noise import with_noise
from wolf.cleaning.result import SeriesForecast
from wolf.cleaning.sampling import future_times
from wolf.diagnostics.faults.false_alarms import DEFAULT_FALSE_ALARMS, DetectionLevel
from wolf.diagnostics.faults.sentinel_values import without_codes
from wolf.engine import scan
from wolf.engine.forecast import run_forecast
from wolf.execution import validate, xla_batching
from wolf.execution.padding import pad_rows, pad_steps, pad_to_power_of_two
from wolf.fitting.initial_values import DYNAMICS_SHARE, OBS_SHARE
from wolf.inference.filters import GaussianFilter
from wolf.inference.filters.gaussian import GaussianState
from wolf.interfaces import Filter, State, StepInfo
from wolf.models.registry import Named
from wolf.models.structural import Sum
from wolf.numerics import linalg
from wolf.numerics.precision import as_key, precision, to_numpy
from wolf.numerics.pytree import cast
from wolf.numerics.runs import runs_of
from wolf.runtime import malloc_trim
from wolf.statespace import LinearModel

CHUNK_ROWS = 16_384  # rows of one compiled call, and the step of a progress bar
MAX_JOINT_ROUNDS = 3  # rounds in which coordinates exchange which rows are faults
MAX_FIT_ROWS = 20_000  # rows that the noise is fitted on

Build = Callable[[np.ndarray | None], LinearModel]  # gaps -> model
Chunks = Iterator[tuple[dict[str, np.ndarray], State]]  # arrays of consecutive rows, and the state after them


@dataclasses.dataclass(frozen=True)
class SignalRecorder:
    """Recorder of what a table needs of each step: mean and variance of the signal, weight, prediction errors.

    Attributes:
        rows: measurement matrix H, as nested tuples.
        diagnostics: also record NIS, log density and standardised residual.
    """

    rows: tuple[tuple[float, ...], ...]
    diagnostics: bool = True

    def __call__(self, state: State, info: StepInfo) -> dict[str, jax.Array]:
        """Project the belief on the measured coordinates."""
        row = jnp.asarray(self.rows, state.mean.dtype)
        recorded = {
            "mean": linalg.matvec(row, state.mean),
            "variance": linalg.diagonal(linalg.sandwich(row, state.cov)),
        }
        recorded |= {"weight": info.weight, "outlier": info.outlier}
        if not self.diagnostics:
            return recorded
        deviation = jnp.sqrt(linalg.diagonal(info.innovation_cov))
        errors = {"nis": info.nis, "log_density": info.log_likelihood, "standardised": info.residual / deviation}
        return recorded | errors


def fit_noise(
    named: Named,
    values: np.ndarray,
    gaps: np.ndarray | None,
    prior: Gaussian,
    known: dict[str, float],
    step_var: float,
    restarts: int,
    ratio: np.ndarray | None = None,
) -> tuple[fitting.Fit, tuple[int, int]]:
    """Fit the unknown variances on the middle of a series; `ratio` as in `filter_causal`.

    Returns:
        The fit, and the fitted rows, first and last (exclusive).
    """
    window = fit_window(len(values))
    sample = values[slice(*window)]
    size = pad_to_power_of_two(len(sample))
    gaps = None if gaps is None else pad_rows(gaps[slice(*window)], size, 1.0)
    start = named.start(sample, step_var) if window[0] else prior
    build = named.builder(gaps, start, values.shape[1])
    guesses = {
        name: (OBS_SHARE if name == "obs_var" else DYNAMICS_SHARE) * step_var
        for name in named.parameters
        if name not in known
    }

    ratio = None if ratio is None else pad_rows(ratio[slice(*window)], size, 1.0)

    def builder(**variances: float) -> LinearModel:
        model = build(**known, **variances)
        return model if ratio is None else dataclasses.replace(model, R=model.R * ratio[:, None, None])

    if len(values) > CHUNK_ROWS:
        malloc_trim.trim_heap()
    # All parameters are variances (affine): a named model is a sum of components, and each brings its own.
    found = fitting.fit(builder, pad_rows(sample, size, np.nan), start=guesses, restarts=restarts, affine=True)
    if len(values) > CHUNK_ROWS:
        malloc_trim.trim_heap()
    return found, window


def fit_window(count: int) -> tuple[int, int]:
    """Select the rows for a fit: all, or the middle of a long series; first and last (exclusive)."""
    first = max(0, (count - MAX_FIT_ROWS) // 2)
    return first, min(count, first + MAX_FIT_ROWS)


def filter_causal(
    build: Build,
    method: Filter,
    values: np.ndarray,
    gaps: np.ndarray | None,
    options: Options,
    ratio: np.ndarray | None = None,
) -> Chunks:
    """Filter forward in chunks of equal size, recording a few numbers per row.

    `wolf.filter_chunks` records whole beliefs; here the recorder projects them on the measured coordinates inside the
    compiled loop, so that memory is bounded by the table and not by the states.

    Args:
        build: gaps -> model.
        method: a filter.
        values: (T, M).
        gaps: (T,), or None.
        options: with a forecast the last chunk ends at the last row; otherwise it is padded.
        ratio: variance of each row's measurements over the model's, (T,); None for 1.
    """
    size, even = min(CHUNK_ROWS, pad_to_power_of_two(len(values))), build(None)
    save = SignalRecorder(tuple(map(tuple, np.asarray(even.H).tolist())), options.diagnostics)
    with precision("float64"):
        key = None if isinstance(method, GaussianFilter) else as_key(0)
        # Start from a state, as every chunk does: without one the first would need a program of its own.
        state = to_numpy(scan.init(cast(even, "float64"), cast(method, "float64"), key))
    for first in range(0, len(values), size):
        chunk = values[first : first + size]
        count = len(chunk)
        length = count if options.forecast and first + size >= len(values) else size
        chunk_gaps = None if gaps is None else pad_rows(gaps[first : first + size], length, 1.0)
        model = even if chunk_gaps is None else build(chunk_gaps)
        if ratio is not None:
            model = with_noise(model, pad_rows(ratio[first : first + size], length, 1.0))
        with precision("float64"):
            arguments = (cast(model, "float64"), cast(method, "float64"), pad_rows(chunk, length, np.nan), None, key)
            final, recorded = xla_batching.run_one(*arguments, state=state, save=save)
        if not first and len(values) > CHUNK_ROWS:
            malloc_trim.trim_heap()
        # The model of the next chunk has its own gaps and noise, indexed from 0.
        state = final if chunk_gaps is None and ratio is None else final._replace(t=np.zeros_like(final.t))
        yield {name: array[:count] for name, array in recorded.items()}, state


def filter_whole(
    build: Build,
    method: Filter,
    values: np.ndarray,
    gaps: np.ndarray | None,
    options: Options,
    ratio: np.ndarray | None = None,
) -> Chunks:
    """Filter and smooth a whole series, in one piece; arguments as in `filter_causal`."""
    model = with_noise(build(gaps), ratio)
    out = api.filter(model, values, method=method)
    smoothed = api.smooth(out)
    deviations = np.sqrt(np.diagonal(out.innovation_covs, axis1=1, axis2=2))
    mean, variance = project(model, smoothed.means, smoothed.covs)
    arrays = {"mean": mean, "variance": variance, "standardised": out.residuals / deviations}
    arrays |= {"weight": out.weights, "outlier": out.outliers, "nis": out.nis, "log_density": out.log_liks}
    yield arrays, out.final


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
    false_alarms: float = DEFAULT_FALSE_ALARMS,
    witnesses: np.ndarray | None = None,
) -> tuple[dict[str, np.ndarray], list[tuple[Build, GaussianState, float, DetectionLevel]]]:
    """Judge each column of a series as a whole.

    Args:
        named: model.
        parameters: its variances.
        values: (T, M).
        gaps: (T,), or None.
        longest: rows of the longest fault.
        level: probability of the intervals.
        diagnostics: also return NIS, log density and standardised error.
        ratio: variance of each row's measurements over the model's, (T,), if known.
        others: models that may impute long gaps, with their variances.
        false_alarms: expected false incidents per 10,000 readings.
        witnesses: other columns of the table at the same rows, (T, K).

    Returns:
        The arrays of `filter_whole`, with half the width of the prediction interval and fault codes; and for each
        column its model on even steps, the state after the last row, the factor of its prediction interval, and its
        detection level.
    """
    builds = [_column_build(named, parameters, column) for column in values.T]
    judged = [
        retrospective.judge(
            *(build, column, gaps, longest, level, ratio, [_column_build(*each, column) for each in others]),
            *(false_alarms, witnesses),
        )
        for build, column in zip(builds, values.T, strict=True)
    ]
    if len(judged) > 1:
        judged = _judge_jointly(judged, builds, values, gaps, longest, level, ratio, false_alarms)
    ends = [(build, each.final, each.factor, each.detection) for build, each in zip(builds, judged, strict=True)]
    joint = len(judged) > 1

    def side_by_side(read: Callable[[retrospective.RetrospectiveSeries], np.ndarray]) -> np.ndarray:
        columns = [read(each) for each in judged]
        return np.stack(columns, axis=1) if joint else columns[0][:, None]

    is_fault = side_by_side(lambda each: each.is_fault)
    weights, faults = side_by_side(lambda each: each.weight), side_by_side(lambda each: each.fault)
    arrays = {
        "mean": side_by_side(lambda each: each.mean),
        "variance": side_by_side(lambda each: each.variance),
        "prediction_half": side_by_side(lambda each: each.prediction_half),
        "weight": weights.min(1) if joint else weights[:, 0],
        "outlier": is_fault.any(1) if joint else is_fault[:, 0],
        # Of several columns: any fault, else the smallest code.
        "fault": np.where(is_fault.any(1), np.where(is_fault, faults, 0).max(1), faults.min(1)),
        "borderline": side_by_side(lambda each: each.borderline).any(1),
    }
    if joint:
        _join_spikes(arrays["fault"], arrays["outlier"])
    if diagnostics:
        errors = side_by_side(lambda each: each.errors)
        spread = np.log(2 * np.pi * side_by_side(lambda each: each.spread))
        nis = (errors**2).sum(1)
        used = np.isfinite(values) & ~is_fault
        density = -0.5 * np.where(used, spread + errors**2, 0.0).sum(1)
        arrays |= {"standardised": errors, "nis": nis, "log_density": density}
    return arrays, ends


def _column_build(named: Sum, parameters: dict[str, float], column: np.ndarray) -> Build:
    column = without_codes(column)
    usual = column[np.abs(column) < retrospective.MAX_READING]
    steps = np.diff(usual) ** 2
    nonzero = steps[steps > 0.0]  # of rounded measurements most may equal the ones before them
    step_var = float(np.median(steps)) or float(np.median(nonzero)) if nonzero.size else 1.0
    return partial(_build_column_model, named, named.start(usual[:, None], step_var), parameters)


def _build_column_model(
    named: Sum, prior: Gaussian, parameters: dict[str, float], gaps: np.ndarray | None
) -> LinearModel:
    return named.builder(gaps, prior, 1)(**parameters)


def _judge_jointly(
    judged: list[retrospective.RetrospectiveSeries],
    builds: list[Build],
    values: np.ndarray,
    gaps: np.ndarray | None,
    longest: int,
    level: float,
    ratio: np.ndarray | float,
    false_alarms: float,
) -> list[retrospective.RetrospectiveSeries]:
    """Leave out all coordinates of a row if one of them is a fault: a position is false as a whole."""
    for _ in range(MAX_JOINT_ROUNDS):
        false = np.any([each.is_fault for each in judged], axis=0)
        known = np.isfinite(values).T
        if all(np.array_equal(false[some], each.weight[some] == 0.0) for some, each in zip(known, judged, strict=True)):
            break
        for i, each in enumerate(judged):
            rest = np.where(false, np.nan, values[:, i])
            again = retrospective.judge(builds[i], rest, gaps, longest, level, ratio, false_alarms=false_alarms)
            fault, errors = np.where(false, each.fault, again.fault), np.where(false, each.errors, again.errors)
            judged[i] = again._replace(fault=fault, errors=errors)
    return judged


def _join_spikes(fault: np.ndarray, is_fault: np.ndarray) -> None:
    """Reclassify consecutive spikes in different coordinates as a burst, in place."""
    spike, burst = (retrospective.FAULTS.index(name) for name in ("spike", "burst"))
    for first, stop in runs_of(is_fault):
        if stop - first > 1:
            fault[first:stop][fault[first:stop] == spike] = burst


def join_forecasts(forecasts: list[SeriesForecast | None]) -> SeriesForecast | None:
    """Join the forecasts of columns along the column axis."""
    known = [each for each in forecasts if each is not None]
    if not known:
        return None
    times, *columns = zip(*known, strict=True)
    return SeriesForecast(times[0], *(np.concatenate(each, axis=1) for each in columns))


def forecast_series(
    build: Build,
    method: Filter,
    final: State | None,
    times: np.ndarray | None,
    unit: float,
    count: int,
    options: Options,
    factor: float | None = None,
) -> SeriesForecast | None:
    """Forecast even steps beyond the end, from the final state alone.

    Args:
        build: gaps -> model.
        method: the filter that returned the final state.
        final: state after the last row; None for a series without rows.
        times: of the rows, or None for even steps.
        unit: typical step.
        count: number of rows.
        options: how to clean.
        factor: half width of a prediction interval in deviations, if calibrated; that of a Gaussian otherwise.
    """
    if not options.forecast:
        return None
    model, steps = build(None), int(options.forecast)
    d, m = model.state_dim, model.obs_dim
    validate.refuse_if_large("steps", steps, d * (d + 1) + m * (m + 3), "float64")
    xla_batching.bound_programs()
    with precision("float64"):
        arguments = (cast(model, "float64"), cast(method, "float64"), final)
        states, _ = to_numpy(run_forecast(*arguments, steps=pad_steps(steps)))
    states = jax.tree.map(lambda array: array[:steps], states)
    mean, variance = project(model, states.mean, states.cov)
    gaussian = deviations(options.level)
    half = gaussian * np.sqrt(variance)
    prediction_half = (gaussian if factor is None else factor) * np.sqrt(variance + np.diagonal(np.asarray(model.R)))
    last = count - 1 if times is None else times[-1]
    ahead = future_times(float(last), unit, steps, options.origin if options.dated else None)
    return SeriesForecast(ahead, mean, mean - half, mean + half, mean - prediction_half, mean + prediction_half)


def project(model: LinearModel, means: np.ndarray, covs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Project beliefs about states on the measured coordinates: mean and variance of the signal, (T, M) each."""
    row = np.asarray(model.H)
    return means @ row.T, np.einsum("md,tde,me->tm", row, covs, row)
