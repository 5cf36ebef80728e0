"""One series on its way: sorted, its noise known, ready to be filtered piece by piece or as a whole."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wolf.belief.density import deviations
from wolf.fitting import Fit
from wolf.readings import engine
from wolf.readings.types import Future, Options, Series


@dataclasses.dataclass
class Ready:
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
        future: after the last piece, the forecast, if asked for.
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
    build: engine.Build
    filter: Any
    options: Options
    flagged: int = 0
    judged: int = 0
    future: Future | None = None

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
        run = engine.filter_whole if self.options.smooth else engine.filter_chunks
        self.flagged = self.judged = 0
        reach, final = deviations(self.options.level), None
        for kept, state in run(self.build, self.filter, self.values, self.gaps, self.options):
            half, final = reach * np.sqrt(kept.pop("variance")), state
            self.flagged += int(kept["outlier"].sum())
            self.judged += kept["outlier"].size
            progress(len(half))
            yield kept | {"lower": kept["mean"] - half, "upper": kept["mean"] + half}
        ends = (self.times, self.unit, len(self.values), self.options)
        self.future = engine.look_ahead(self.build, self.filter, final, *ends)

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
            weight=kept["weight"],
            outlier=kept["outlier"],
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
        )


def _where_measured(array: np.ndarray | None, measured: np.ndarray) -> np.ndarray:
    """Blank what was not measured; nothing where it was not kept."""
    return np.zeros(0) if array is None else np.where(measured, array, np.nan)
