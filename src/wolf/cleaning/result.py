"""Results of data cleaning: a series with its fitted model, before (`prepared_series`) and after the run."""

import dataclasses
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from wolf.diagnostics.faults.false_alarms import DetectionLevel
from wolf.fitting import Fit
from wolf.fitting.select import Choice


class SeriesForecast(NamedTuple):
    """Forecast beyond the end of a series.

    Attributes:
        times: (steps,).
        mean: of the noise-free signal, (steps, M).
        lower: lower end of its interval, (steps, M).
        upper: upper end.
        prediction_lower: lower end of the interval of a measurement, (steps, M).
        prediction_upper: upper end.
    """

    times: np.ndarray
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    prediction_lower: np.ndarray
    prediction_upper: np.ndarray


@dataclasses.dataclass(kw_only=True)
class FittedSeries(ABC):
    """A series in the order of time, with its fitted model.

    Attributes:
        label: name of the sensor and column; "" if there is only one.
        rows: row numbers in the input, in the order of time, (T,); None for all rows in their own order.
        columns: numbers of the M value columns.
        times: (T,), or None for even steps.
        values: measurements, (T, M); NaN where missing.
        parameters: of the model.
        fit: result of the fit of the parameters; None if all were given.
        fit_rows: first and last row (exclusive) that were fitted.
        model: name of the model.
        method: description of the method.
        even: whether all steps are equal.
        unit: typical step, in the unit of the times.
        choice: result of the model selection, with its candidates; None if the model was named.
        forecast: beyond the end, if requested; of a prepared series, None before its last piece.
        num_outliers: number of outliers found so far.
        num_weights: number of weights computed so far.
        detection: calibrated detection level of each column of a retrospective search.
        borderline: rows of candidates below that level, which are no faults, (T,); None before the search.
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
    even: bool
    unit: float
    choice: Choice | None = None
    forecast: SeriesForecast | None = None
    num_outliers: int = 0
    num_weights: int = 0
    detection: tuple[DetectionLevel, ...] = ()
    borderline: np.ndarray | None = None

    @property
    def num_missing(self) -> int:
        """Number of missing values."""
        return int(np.isnan(self.values).sum())

    @abstractmethod
    def shift_rows(self) -> np.ndarray:
        """List the rows at which the level shifts, in the order of time."""


@dataclasses.dataclass(kw_only=True)
class CleanedSeries(FittedSeries):
    """A cleaned series, in the order of time.

    Attributes:
        rows: row numbers in the input, (T,).
        mean: estimate of the noise-free signal, (T, M).
        lower: lower end of its interval.
        upper: upper end.
        weight: (T,) or (T, M).
        outlier: same shape as the weights.
        standardised: residual over its predicted standard deviation, (T, M); NaN where missing.
        nis: normalised innovation squared, (T,).
        log_density: of each row under its Gaussian prediction, (T,).
        prediction_lower: lower end of the interval of a measurement, (T, M); None where there is none.
        prediction_upper: upper end.
        fault: per row, (T,): "" for a good measurement, "spike", "burst", "stuck", "dropout" or "drift" for a fault,
            "shift" for the first measurement after a shift of the level, "gap" where all values are missing; "range",
            "rate" (rules), "labelled" and "maintenance" where it was known before. None if faults were not classified.
        anomaly_score: same shape as the weights; None where there is none (`quality_flags.anomaly_scores`).
        qartod: QARTOD flags, likewise (`quality_flags.qartod_flags`).
        unfilled: rows in gaps that are too long to fill, (T, M); None without a limit.
    """

    rows: np.ndarray
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    weight: np.ndarray
    outlier: np.ndarray
    standardised: np.ndarray
    nis: np.ndarray
    log_density: np.ndarray
    prediction_lower: Any = None
    prediction_upper: Any = None
    fault: np.ndarray | None = None
    anomaly_score: np.ndarray | None = None
    qartod: np.ndarray | None = None
    unfilled: np.ndarray | None = None

    def __post_init__(self) -> None:
        """Count outliers and weights."""
        self.num_outliers, self.num_weights = int(self.outlier.sum()), int(self.outlier.size)

    @property
    def outliers_by_column(self) -> np.ndarray:
        """Outliers with a column axis, (T, M) or (T, 1)."""
        return columnwise(self.outlier)

    @property
    def outlier_rows(self) -> np.ndarray:
        """Whether any column of a row is an outlier, (T,)."""
        return np.asarray(self.outliers_by_column.any(axis=1))

    @property
    def cleaned(self) -> np.ndarray:
        """Measurements, with the estimate in place of outliers and missing values, (T, M); NaN in `unfilled` gaps."""
        cleaned = replace_outliers(self.values, self.outlier, self.mean)
        return cleaned if self.unfilled is None else np.where(self.unfilled, np.nan, cleaned)

    def shift_rows(self) -> np.ndarray:
        """List the rows at which the level shifts, in the order of time."""
        return np.zeros(0, int) if self.fault is None else np.flatnonzero(self.fault == "shift")


def columnwise(array: np.ndarray) -> np.ndarray:
    """Add a column axis to an array with one entry per row."""
    return array if array.ndim == 2 else array[:, None]


def replace_outliers(values: np.ndarray, outlier: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Replace outliers and non-finite values by their estimates.

    Args:
        values: (T, M).
        outlier: (T,) or (T, M).
        mean: estimates, (T, M).
    """
    return np.where(columnwise(outlier) | ~np.isfinite(values), mean, values)
