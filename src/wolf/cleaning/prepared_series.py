"""One series before its run: sorted, its model fitted, ready to be filtered in pieces or as a whole."""

import dataclasses
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from wolf.beliefs.density import deviations
from wolf.cleaning import durations, retrospective, runs
from wolf.cleaning.exogenous import Explained
from wolf.cleaning.options import Options
from wolf.cleaning.quality_flags import FAULT_NAMES, AlarmState, anomaly_scores, decay, qartod_flags
from wolf.cleaning.regular_grid import unfilled_rows
from wolf.cleaning.result import CleanedSeries, FittedSeries, SeriesForecast
from wolf.cleaning.sampling import steps_on_grid
from wolf.cleaning.scales import LIMITS, is_signed
from wolf.inference.filters import GaussianFilter
from wolf.inference.registry import KF
from wolf.interfaces import Filter
from wolf.models.registry import Named, parse
from wolf.models.structural import Sum

if TYPE_CHECKING:
    from wolf.cleaning.known_faults import KnownFaults

PIECE_ROWS = 65_536  # rows of one piece of the results
NUM_RUNNERS_UP = 3  # models next to the selected one that may impute gaps


@dataclasses.dataclass(kw_only=True)
class PreparedSeries(FittedSeries):
    """A series before its run.

    Attributes:
        gaps: time before each row, in typical steps, (T,); None if all are equal.
        build: gaps -> model.
        filter: the method.
        options: how to clean.
        named: the model before its variances and times are known.
        explained: what exogenous variables and other columns explain; None without any.
        witnesses: other columns of the table at the same rows, (T, K); None without any.
        known: faults and events that are known before the search; None without any.
        known_forecast: of the column by itself, where other columns explain a part of it.
        modelled: the values on the scale of the model, without known faults, (T, M).
        ratio: variance of the noise of each row over the model's, (T,), where rows have their own accuracy.
        alarm: last alarm of a causal run in the pieces so far.
        done_rows: number of rows in the pieces so far.
        fault_codes: indices into `fault_search.FAULTS` of the rows in the pieces so far.
    """

    gaps: np.ndarray | None
    build: runs.Build
    filter: Filter
    options: Options
    named: Named
    modelled: np.ndarray
    ratio: np.ndarray | None = None
    known_forecast: SeriesForecast | None = None
    explained: Explained | None = None
    witnesses: np.ndarray | None = None
    known: "KnownFaults | None" = None
    alarm: AlarmState = dataclasses.field(default_factory=AlarmState)
    done_rows: int = 0
    fault_codes: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, np.int8))

    @property
    def unexplained(self) -> np.ndarray:
        """Measurements on the scale of the model, without what exogenous variables explain, (T, M)."""
        return self.modelled if self.explained is None else self.modelled - self.explained.share

    @cached_property
    def _on_model_scale(self) -> np.ndarray:
        """All measurements on the scale of the model, without the steps at calibrations, (T, M)."""
        return self.options.scale.to_model(self.values if self.known is None else self.values - self.known.steps)

    @property
    def is_retrospective(self) -> bool:
        """Whether faults are found by a search over the whole series, and not by the weights of a method."""
        plain = not (self.options.causal or self.options.smooth) and self.options.method is None
        return plain and isinstance(self.named, Sum)

    def shift_rows(self) -> np.ndarray:
        """List the rows of the pieces so far at which the level shifts."""
        return np.flatnonzero(self.fault_codes == retrospective.FAULTS.index("shift"))

    def pieces(self, on_progress: Callable[[int], object]) -> Iterator[dict[str, np.ndarray]]:
        """Filter, and yield the arrays of `CleanedSeries` for consecutive rows.

        Args:
            on_progress: called with the number of rows of each piece.
        """
        self.num_outliers = self.num_weights = self.done_rows = 0
        self.alarm = AlarmState()
        self.fault_codes = np.zeros(len(self.values), np.int8)
        factor, final = deviations(self.options.level), None
        if self.is_retrospective:
            yield from self._judge_whole(factor, on_progress)
            return
        forward = self.options.causal or not (self.options.smooth or isinstance(self.filter, GaussianFilter))
        run = runs.filter_causal if forward else runs.filter_whole  # samples and the like are not smoothed
        obs_vars = np.diagonal(np.asarray(self.build(None).obs_cov), axis1=-2, axis2=-1)
        first = 0
        for arrays, state in run(self.build, self.filter, self.unexplained, self.gaps, self.options, self.ratio):
            variance, final = arrays.pop("variance"), state
            noise = obs_vars if self.ratio is None else obs_vars * self.ratio[first : first + len(variance), None]
            arrays["fault"] = faults_from_outliers(arrays["outlier"], self.values[first : first + len(variance)])
            first += len(variance)
            yield self._finish(arrays, variance, factor, factor * np.sqrt(variance + noise), on_progress)
        ahead = runs.forecast_series(
            self.build, self.filter, final, self.times, self.unit, len(self.values), self.options
        )
        self.forecast = self._forecast_to_data(ahead)

    def _judge_whole(self, factor: float, on_progress: Callable[[int], object]) -> Iterator[dict[str, np.ndarray]]:
        """Judge the whole series, and yield it in pieces, so that the table is never in memory as a whole."""
        count = len(self.values)
        assert isinstance(self.named, Sum)  # as `is_retrospective` checked
        values, gaps, witnesses = self.unexplained, self.gaps, self.witnesses
        ratio = 1.0 if self.ratio is None else self.ratio
        steps = steps_on_grid(gaps)
        if steps is not None:  # a missing row takes less time than steps of different lengths
            values, gaps = np.full((int(steps[-1]) + 1, values.shape[1]), np.nan), None
            values[steps] = self.unexplained
            if self.ratio is not None:
                ratio = np.ones(len(values))
                ratio[steps] = self.ratio
            if witnesses is not None:
                witnesses = np.full((len(values), witnesses.shape[1]), np.nan)
                witnesses[steps] = self.witnesses
        arrays, ends = runs.filter_retrospectively(
            self.named,
            self.parameters,
            values,
            gaps,
            max_fault_rows(self.options, self.unit, count),
            self.options.level,
            self.options.diagnostics,
            ratio,
            others=self._runners_up(),
            false_alarms=self.options.false_alarms,
            witnesses=witnesses,
        )
        if steps is not None:
            arrays = {name: array[steps] for name, array in arrays.items()}
        forecasts = [
            runs.forecast_series(build, KF(), final, self.times, self.unit, count, self.options, column_factor)
            for build, final, column_factor, _ in ends
        ]
        self.borderline, self.detection = arrays.pop("borderline"), tuple(detection for *_, detection in ends)
        ahead = runs.join_forecasts(forecasts)
        self.forecast = self._forecast_to_data(ahead)
        for first in range(0, count, PIECE_ROWS):
            piece = {name: array[first : first + PIECE_ROWS] for name, array in arrays.items()}
            yield self._finish(piece, piece.pop("variance"), factor, piece.pop("prediction_half"), on_progress)

    def _forecast_to_data(self, ahead: SeriesForecast | None) -> SeriesForecast | None:
        """Convert a forecast to the scale of the measurements, and add the steps at calibrations."""
        if self.known_forecast is not None:
            return self.known_forecast
        found = self.options.scale.forecast_to_data(ahead, is_signed(self.values))
        if found is None or self.known is None:
            return found
        times, *arrays = found
        return SeriesForecast(times, *(array + self.known.steps[-1] for array in arrays))

    def _runners_up(self) -> list[tuple[Sum, dict[str, float]]]:
        """List models that scored close to the selected one: one of them may impute gaps better."""
        if self.choice is None or self.parameters != self.choice.parameters or self.values.shape[1] > 1:
            return []
        return [
            (named, each.parameters)
            for each in self.choice.candidates[1 : 1 + NUM_RUNNERS_UP]
            if isinstance(named := parse(each.name), Sum)
        ]

    def _finish(
        self,
        arrays: dict[str, np.ndarray],
        variance: np.ndarray,
        factor: float,
        prediction_half: np.ndarray,
        on_progress: Callable[[int], object],
    ) -> dict[str, np.ndarray]:
        """Add the intervals to a piece, and count its outliers."""
        if self.explained is not None:
            part = self.explained.rows(self.done_rows, len(variance))
            arrays["mean"] = arrays["mean"] + part.share
            variance = variance + part.variance
            prediction_half = np.sqrt(prediction_half**2 + factor**2 * part.variance)
        half = factor * np.sqrt(variance)
        rows = slice(self.done_rows, self.done_rows + len(half))
        self.fault_codes[rows] = arrays["fault"]
        arrays["fault"] = np.array(FAULT_NAMES)[arrays["fault"]]
        if self.known is not None:
            self.known.apply(arrays, self.done_rows)
            self.fault_codes[rows][arrays["fault"] != "shift"] = 0
        mean = arrays["mean"]
        self._flag(arrays, prediction_half, rows)
        self.num_outliers += int(arrays["outlier"].sum())
        self.num_weights += arrays["outlier"].size
        self.done_rows += len(half)
        on_progress(len(half))
        arrays |= {"lower": mean - half, "upper": mean + half}
        arrays |= {"prediction_lower": mean - prediction_half, "prediction_upper": mean + prediction_half}
        arrays = self.options.scale.to_data(arrays, is_signed(self.values))
        if self.known is not None:
            arrays |= {name: arrays[name] + self.known.steps[rows] for name in LIMITS}
        return arrays

    def _flag(self, arrays: dict[str, np.ndarray], prediction_half: np.ndarray, rows: slice) -> None:
        """Add the anomaly scores and QARTOD flags to a piece."""
        outlier, fault = arrays["outlier"], arrays["fault"]
        suspect = None if self.known is None else self.known.suspect[rows]
        values = self.values[rows]
        if self.borderline is not None:
            borderline = np.broadcast_to(self.borderline[rows, None], values.shape)
            suspect = borderline if suspect is None else suspect | borderline
        arrays["qartod"] = qartod_flags(values, outlier, arrays["weight"], fault, suspect)
        scores = anomaly_scores(self._on_model_scale[rows], arrays["mean"], prediction_half, outlier, fault)
        if self.options.causal:
            scores, self.alarm = decay(scores, outlier, self.alarm)
        arrays["anomaly_score"] = scores

    def clean(self, on_progress: Callable[[int], object]) -> CleanedSeries:
        """Filter the whole series.

        Args:
            on_progress: called with the number of rows of each piece.
        """
        whole: dict[str, Any] = {}
        first = 0
        for piece in self.pieces(on_progress):
            for name, array in piece.items():
                if name not in whole:
                    whole[name] = np.empty((len(self.values), *array.shape[1:]), array.dtype)
                whole[name][first : first + len(array)] = array
            first += len(piece["mean"])
        measured = np.isfinite(self.unexplained)
        diagnostics: dict[str, Any] = {
            "standardised": _blank_missing(whole.pop("standardised", None), measured),
            "nis": _blank_missing(whole.pop("nis", None), measured.any(1)),
            "log_density": whole.pop("log_density", np.zeros(0)),
        }
        common: dict[str, Any] = {field.name: vars(self)[field.name] for field in dataclasses.fields(FittedSeries)}
        common["rows"] = np.arange(len(self.values)) if self.rows is None else self.rows
        series = CleanedSeries(**common, **whole, **diagnostics)
        series.unfilled = unfilled_rows(series, self.options)
        return series


def max_fault_rows(options: Options, unit: float, count: int) -> int:
    """Count the rows of the longest fault.

    Args:
        options: how to clean.
        unit: typical step, in the unit of the times.
        count: number of rows of the series.
    """
    if options.max_fault_length is None:
        return retrospective.default_max_fault_rows(count)
    longest = round(durations.rows_in("max_fault_length", options.max_fault_length, unit, options.dated))
    if longest >= count:
        raise ValueError(f"max_fault_length is {longest} rows, but the series has only {count}: give a shorter one")
    return longest


def faults_from_outliers(outlier: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Classify rows by the outliers of a method, which finds no bursts, shifts or drifts; fault codes, (T,)."""
    flagged = outlier if outlier.ndim == 1 else outlier.any(1)
    spike, gap = retrospective.FAULTS.index("spike"), retrospective.FAULTS.index("gap")
    return np.where(np.isnan(values).all(1), gap, np.where(flagged, spike, 0)).astype(np.int8)  # inf is an outlier


def _blank_missing(array: np.ndarray | None, measured: np.ndarray) -> np.ndarray:
    """Set entries of missing values to NaN; an empty array if there is none."""
    return np.zeros(0) if array is None else np.where(measured, array, np.nan)
