"""Result of a backtest: forecasts from past origins beside what was measured, with their scores."""

import dataclasses
from typing import Any

import numpy as np
from numpy import nan

from wolf.results.filtered import FrameBackend
from wolf.results.views import data_frame, html

MAX_LISTED_HORIZONS = 12  # rows of the printed table


@dataclasses.dataclass(frozen=True)
class Scores:
    """Scores of forecasts.

    Attributes:
        mae: mean absolute error.
        rmse: root mean squared error.
        coverage: share of measurements inside their interval.
        interval_score: mean of the width of the interval plus 2/α times the distance of measurements outside (Gneiting
            & Raftery 2007); lower is better.
        naive_mae: mean absolute error of the last measured value as the forecast, for comparison.
        count: number of measurements that were forecast.
    """

    mae: float
    rmse: float
    coverage: float
    interval_score: float
    naive_mae: float
    count: int


@dataclasses.dataclass(frozen=True, repr=False)
class Backtest:
    """Forecasts from past origins, and what was measured.

    Attributes:
        series: number of the series of each origin, (n,).
        origins: number of steps before each forecast, (n,).
        actual: measurements, (n, horizon, M), NaN where missing.
        mean: forecasts, in the same shape.
        lower: lower limits of their intervals.
        upper: upper limits.
        last: last measured value before each origin, (n, M).
        level: probability of the intervals.
        fits: number of times a model was selected or fitted.
        labels: names of the series.
        names: names of the M measured coordinates; None for numbers.
        indices: labels of the steps of each series, or None.
    """

    series: np.ndarray
    origins: np.ndarray
    actual: np.ndarray
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    last: np.ndarray
    level: float
    fits: int
    labels: tuple[str, ...]
    names: tuple[str, ...] | None = None
    indices: tuple[Any, ...] = ()

    @property
    def horizon(self) -> int:
        """Number of steps ahead."""
        return self.mean.shape[1]

    @property
    def scores(self) -> Scores:
        """Scores over all forecasts."""
        return self._score(slice(None), slice(None))

    @property
    def mae(self) -> float:
        """Mean absolute error."""
        return self.scores.mae

    @property
    def rmse(self) -> float:
        """Root mean squared error."""
        return self.scores.rmse

    @property
    def coverage(self) -> float:
        """Share of measurements inside their interval."""
        return self.scores.coverage

    @property
    def interval_score(self) -> float:
        """Mean interval score."""
        return self.scores.interval_score

    def by_horizon(self) -> dict[int, Scores]:
        """Return the scores of each number of steps ahead."""
        return {k + 1: self._score(slice(None), slice(k, k + 1)) for k in range(self.horizon)}

    def by_series(self) -> dict[str, Scores]:
        """Return the scores of each series."""
        return {name: self._score(self.series == i, slice(None)) for i, name in enumerate(self.labels)}

    def _score(self, rows: Any, ahead: slice) -> Scores:
        actual, mean, lower, upper = (each[rows][:, ahead] for each in (self.actual, self.mean, self.lower, self.upper))
        naive = np.abs(actual - self.last[rows][:, None])
        known = np.isfinite(actual)
        if not known.any():
            return Scores(nan, nan, nan, nan, nan, 0)
        errors = (actual - mean)[known]
        y, low, high = actual[known], lower[known], upper[known]
        outside = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
        return Scores(
            mae=float(np.mean(np.abs(errors))),
            rmse=float(np.sqrt(np.mean(errors**2))),
            coverage=float(np.mean((low <= y) & (y <= high))),
            interval_score=float(np.mean(high - low + 2.0 / (1.0 - self.level) * outside)),
            naive_mae=float(np.nanmean(naive[known])) if np.isfinite(naive[known]).any() else float("nan"),
            count=int(known.sum()),
        )

    def to_frame(self, backend: FrameBackend = "pandas") -> Any:
        """Return a data frame with one row for each forecast measurement.

        Args:
            backend: as in `Filtered.to_frame`.

        Returns:
            Columns series (of several), origin, horizon, time (of an index), measured (of several coordinates), actual,
            mean, lower and upper.
        """
        count, horizon, size = self.mean.shape
        steps = self.origins[:, None] + np.arange(horizon)
        grid = np.broadcast_to(steps[..., None], self.mean.shape).ravel()
        which = np.repeat(np.arange(count), horizon * size)
        columns: dict[str, np.ndarray] = {}
        if len(self.labels) > 1:
            columns["series"] = np.array(self.labels)[self.series[which]]
        columns["origin"] = self.origins[which]
        columns["horizon"] = np.tile(np.repeat(np.arange(1, horizon + 1), size), count)
        if self.indices and all(index is not None for index in self.indices):
            times = [np.asarray(self.indices[i])[grid[self.series[which] == i]] for i in range(len(self.labels))]
            columns["time"] = np.concatenate(times)
        if size > 1:
            columns["measured"] = np.tile(np.array(self.names or range(size)), count * horizon)
        values = {"actual": self.actual, "mean": self.mean, "lower": self.lower, "upper": self.upper}
        columns |= {name: value.ravel() for name, value in values.items()}
        return data_frame.make_frame([columns], backend)

    def __repr__(self) -> str:
        """Return the scores over all forecasts and by horizon as a table."""
        lines = [self._title(), "  " + "".join(f"{cell:>{w}}" for cell, w in zip(HEADER, WIDTHS, strict=True))]
        lines += ["  " + "".join(f"{cell:>{w}}" for cell, w in zip(row, WIDTHS, strict=True)) for row in self._rows()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the same as an HTML table for notebooks."""
        return html.page(self._title(), [HEADER, *self._rows()])

    def _title(self) -> str:
        many = f"{len(self.labels)} series, " if len(self.labels) > 1 else ""
        fits = f", {self.fits} fits" if self.fits else ""
        return f"Backtest: {many}{len(self.origins)} origins, {self.horizon} steps ahead{fits}"

    def _rows(self) -> list[tuple[str, ...]]:
        rows = [("all", self.scores)] if self.horizon > 1 else []
        shown = list(self.by_horizon().items())
        if len(shown) > MAX_LISTED_HORIZONS:
            picked = np.unique(np.linspace(0, len(shown) - 1, MAX_LISTED_HORIZONS).astype(int))
            shown = [shown[k] for k in picked]
        rows += [(str(ahead), scores) for ahead, scores in shown]
        return [_cells(name, scores) for name, scores in rows]


HEADER = ("ahead", "MAE", "RMSE", "coverage", "interval score", "naive MAE", "count")
WIDTHS = (8, 12, 12, 10, 16, 12, 9)


def _cells(name: str, scores: Scores) -> tuple[str, ...]:
    return (
        name,
        f"{scores.mae:.4g}",
        f"{scores.rmse:.4g}",
        f"{scores.coverage:.1%}",
        f"{scores.interval_score:.4g}",
        f"{scores.naive_mae:.4g}",
        f"{scores.count:,}",
    )
