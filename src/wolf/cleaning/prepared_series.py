"""One series on its way: sorted, its noise known, ready to be filtered piece by piece or as a whole."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wolf.beliefs.density import deviations
from wolf.cleaning import durations, retrospective, runs
from wolf.cleaning.options import Future, Options, Series
from wolf.fitting import Fit
from wolf.fitting.select import Choice
from wolf.inference.filters import GaussianFilter
from wolf.inference.registry import KF
from wolf.models.registry import parse
from wolf.models.structural import Sum

PIECE = 65_536  # rows that are handed out at once
RUNNERS_UP = 3  # of a choice, that may bridge gaps


@dataclasses.dataclass
class PreparedSeries:
    """A series before its run. What `Series` also has is the same here.

    Attributes:
        label: which sensor and column.
        rows: of the input, in the order of time; None for all of them, as they came.
        columns: which columns of the values, M of them.
        times: (T,), or None for a count.
        values: as read, (T, M).
        parameters: of the model.
        fit: how they were found; None if they were given.
        fit_rows: first and last row (exclusive) that the fit saw.
        model: its name.
        method: in words.
        unit: the typical step, in the unit of the times.
        gaps: before each row, in typical steps, (T,); None where all are the same.
        build: gaps -> model.
        filter: to run.
        options: how to clean.
        flagged: outliers in the pieces so far.
        judged: weights in the pieces so far.
        done: rows of the pieces so far.
        future: after the last piece, the forecast, if asked for.
        choice: how the model was chosen; None if it was named.
        named: the model before its variances and times are known.
        kinds: of the rows of the pieces so far, as numbers of `hindsight.KINDS`.
    """

    label: str
    rows: np.ndarray | None
    columns: tuple[int, ...]
    times: np.ndarray | None
    values: np.ndarray
    parameters: dict[str, float]
    fit: Fit | None
    fit_rows: tuple[int, int]
    model: str
    method: str
    unit: float
    gaps: np.ndarray | None
    build: runs.Build
    filter: Any
    options: Options
    flagged: int = 0
    judged: int = 0
    done: int = 0
    future: Future | None = None
    choice: Choice | None = None
    named: Any = None
    kinds: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, np.int8))

    @property
    def fault(self) -> np.ndarray:
        """Kinds of the rows of the pieces so far, as `Series` has them."""
        return np.array(retrospective.KINDS)[self.kinds]

    @property
    def is_retrospective(self) -> bool:
        """Whether readings are judged by what came before and after: unless a method is to judge, or the past alone."""
        plain = not (self.options.causal or self.options.smooth) and self.options.method is None
        return plain and isinstance(self.named, Sum)

    @property
    def even(self) -> bool:
        """Whether the steps are even."""
        return self.gaps is None

    @property
    def missing(self) -> int:
        """Number of values that were not there."""
        return int(np.isnan(self.values).sum())

    def pieces(self, progress: Callable[[int], None]) -> Iterator[dict[str, np.ndarray]]:
        """Filter, and yield of some rows after the other the arrays that `Series` has of all.

        Args:
            progress: told how many rows were done.
        """
        self.flagged = self.judged = 0
        self.kinds = np.zeros(len(self.values), np.int8)
        self.done = 0
        reach, final = deviations(self.options.level), None
        if self.is_retrospective:
            yield from self._look_back(reach, progress)
            return
        forward = self.options.causal or not (self.options.smooth or isinstance(self.filter, GaussianFilter))
        run = runs.filter_chunks if forward else runs.filter_whole  # samples and the like are not smoothed
        obs = np.diagonal(np.asarray(self.build(None).obs_cov), axis1=-2, axis2=-1)
        first = 0
        for kept, state in run(self.build, self.filter, self.values, self.gaps, self.options):
            variance, final = kept.pop("variance"), state
            some = self.values[first : first + len(variance)]
            kept["fault"] = plain_kinds(kept["outlier"], some)
            first += len(variance)
            yield self._finished(kept, variance, reach, reach * np.sqrt(variance + obs), progress)
        ends = (self.times, self.unit, len(self.values), self.options)
        self.future = runs.look_ahead(self.build, self.filter, final, *ends)

    def _look_back(self, reach: float, progress: Callable[[int], None]) -> Iterator[dict[str, np.ndarray]]:
        """Judge the series as a whole, and hand it out in pieces: a table is written without all of it in memory."""
        count = len(self.values)
        longest = longest_rows(self.options, self.unit, count)
        given = (self.named, self.parameters, self.values, self.gaps, longest, self.options.level)
        kept, ends = runs.filter_retrospectively(*given, self.options.diagnostics, others=self._runners_up())
        futures = [
            runs.look_ahead(build, KF(), final, self.times, self.unit, count, self.options, factor)
            for build, final, factor in ends
        ]
        self.future = runs.join_futures(futures)
        for first in range(0, count, PIECE):
            some = {name: array[first : first + PIECE] for name, array in kept.items()}
            yield self._finished(some, some.pop("variance"), reach, some.pop("prediction_half"), progress)

    def _runners_up(self) -> list[tuple[Any, dict[str, float]]]:
        """Give models that were close to the one chosen: one of them may bridge gaps better."""
        if self.choice is None or self.parameters != self.choice.parameters or self.values.shape[1] > 1:
            return []
        return [(parse(each.name), each.parameters) for each in self.choice.candidates[1 : 1 + RUNNERS_UP]]

    def _finished(
        self, kept: dict[str, Any], variance: np.ndarray, reach: float, around: np.ndarray, progress: Any
    ) -> dict[str, np.ndarray]:
        """Put intervals on a piece, and count what is in it."""
        half = reach * np.sqrt(variance)
        self.flagged += int(kept["outlier"].sum())
        self.judged += kept["outlier"].size
        self.kinds[self.done : self.done + len(half)] = kept["fault"]
        self.done += len(half)
        kept["fault"] = np.array(retrospective.KINDS)[kept["fault"]]
        progress(len(half))
        ends = {"lower": kept["mean"] - half, "upper": kept["mean"] + half}
        return kept | ends | {"prediction_lower": kept["mean"] - around, "prediction_upper": kept["mean"] + around}

    def whole(self, progress: Callable[[int], None]) -> Series:
        """Filter all of it.

        Args:
            progress: told how many rows were done.
        """
        kept: dict[str, np.ndarray] = {}
        first = 0
        for piece in self.pieces(progress):
            for name, array in piece.items():
                if name not in kept:
                    kept[name] = np.empty((len(self.values), *array.shape[1:]), array.dtype)
                kept[name][first : first + len(array)] = array
            first += len(piece["mean"])
        return Series(
            label=self.label,
            rows=np.arange(len(self.values)) if self.rows is None else self.rows,
            columns=self.columns,
            times=self.times,
            values=self.values,
            mean=kept["mean"],
            lower=kept["lower"],
            upper=kept["upper"],
            prediction_lower=kept["prediction_lower"],
            prediction_upper=kept["prediction_upper"],
            weight=kept["weight"],
            outlier=kept["outlier"],
            fault=kept["fault"],
            standardised=_where_measured(kept.get("standardised"), np.isfinite(self.values)),
            nis=_where_measured(kept.get("nis"), np.isfinite(self.values).any(1)),
            log_density=kept.get("log_density", np.zeros(0)),
            parameters=self.parameters,
            fit=self.fit,
            fit_rows=self.fit_rows,
            future=self.future,
            model=self.model,
            method=self.method,
            even=self.even,
            unit=self.unit,
            choice=self.choice,
        )


def longest_rows(options: Options, unit: float, count: int) -> int:
    """Say how many of `count` rows a fault may take.

    Args:
        options: how.
        unit: the typical step, in the unit of the times.
        count: of rows.
    """
    if options.max_fault_length is None:
        return retrospective.default_max_fault_length(count)
    longest = round(durations.rows_in("max_fault_length", options.max_fault_length, unit, options.dated))
    if longest >= count:
        raise ValueError(f"max_fault_length is {longest} rows, as long as the series of {count}: say less")
    return longest


def plain_kinds(outlier: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Say of rows that a method judged what they are: it knows of outliers alone."""
    flagged = outlier if outlier.ndim == 1 else outlier.any(1)
    spike, gap = retrospective.KINDS.index("spike"), retrospective.KINDS.index("gap")
    return np.where(np.isnan(values).all(1), gap, np.where(flagged, spike, 0)).astype(np.int8)  # inf is an outlier


def _where_measured(array: np.ndarray | None, measured: np.ndarray) -> np.ndarray:
    """Blank what was not measured; nothing where it was not kept."""
    return np.zeros(0) if array is None else np.where(measured, array, np.nan)
