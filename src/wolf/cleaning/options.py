"""How to clean, and what comes of it."""

import dataclasses
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from wolf import validation
from wolf.cleaning import durations
from wolf.fitting import Fit
from wolf.fitting.select import Choice
from wolf.statespace import LinearModel

MOST_AHEAD = 1_000_000  # steps of a forecast, which is there as a whole before it is written
AUTO = "auto"  # in the place of a model's name: choose one
LEAST_PATIENCE = 2  # rows: one measurement agrees with itself
LEVEL = 0.95  # probability of the intervals


@dataclasses.dataclass(frozen=True)
class Options:
    """How to clean.

    Attributes:
        model: "auto" to choose one from the data, a name, or a TOML file; see `wolf.models.make`. Or a linear model,
            used as it is.
        method: as in `wolf.filter`; without one, what the whole series says (`wolf.cleaning.retrospective`), and live
        the
            default, or `Learned` where Q is fitted.
        parameters: variances that are known; the others are fitted.
        smooth: use the whole series for each row, not only its past, and judge readings as the method does.
        forecast: steps beyond the end.
        level: probability of the intervals.
        restarts: of the fit.
        diagnostics: keep residuals, NIS and log densities, for a report; empty arrays otherwise.
        causal: say of each row only what could be known at its time.
        patience: how long refused readings must agree to be believed, live: "2h", or a number of rows.
        max_fault_length: how long a fault may last, in hindsight: "2h", or a number of rows; what stays away for longer
            has shifted. Default: 30 rows, at most a twentieth of the series.
        dated: whether times are seconds of a clock, so that days and weeks mean something.
        origin: seconds since 1970 at which such times are 0.
    """

    model: str | LinearModel = AUTO
    method: Any = None
    parameters: dict[str, float] = dataclasses.field(default_factory=dict)
    smooth: bool = False
    forecast: int = 0
    level: float = LEVEL
    restarts: int = 2
    diagnostics: bool = True
    causal: bool = False
    patience: str | float | None = None
    max_fault_length: str | float | None = None
    dated: bool = False
    origin: float = 0.0

    def __post_init__(self) -> None:
        """Check what can be checked before the data come."""
        validation.confidence_level(self.level)
        validation.boolean("smooth", self.smooth)
        validation.boolean("causal", self.causal)
        if self.causal and self.smooth:
            raise ValueError("causal and smooth exclude each other: causal uses the past of each row, smooth all of it")
        durations.check("patience", self.patience, least=LEAST_PATIENCE)
        durations.check("max_fault_length", self.max_fault_length)
        if isinstance(self.forecast, int) and self.forecast > MOST_AHEAD:
            raise ValueError(f"a forecast has at most {MOST_AHEAD:,} steps; got {self.forecast:,}")
        validation.integer("forecast", self.forecast)
        if not isinstance(self.model, str | PathLike | LinearModel):
            raise ValueError(
                f"model must be a name, such as 'local-level', a file, or a linear model; "
                f"got {validation.short_repr(self.model)}"
            )


class Future(NamedTuple):
    """Steps beyond the end of a series: times (steps,); mean with its interval, and that of a reading (steps, M)."""

    times: np.ndarray
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    prediction_lower: np.ndarray
    prediction_upper: np.ndarray


@dataclasses.dataclass(frozen=True)
class Series:
    """One clean series, in the order of time.

    Attributes:
        label: which sensor and column; "" if there is only one.
        rows: of the input, in the order of time, (T,).
        columns: which columns of the values, M of them.
        times: (T,), or None for a count.
        values: as read, (T, M).
        mean: of what a perfect sensor would say, (T, M).
        lower: lower end of its interval.
        upper: upper end.
        prediction_lower: lower end of the interval of a reading, (T, M); None where readings have none, as on a globe.
        prediction_upper: upper end.
        weight: (T,) or (T, M).
        outlier: in the shape of the weights.
        fault: of each row, (T,): "" for a reading, "spike", "burst", "stuck", "dropout" or "drift" for a fault, "shift"
            for the first reading after one, "gap" where nothing was measured. None where nobody told.
        standardised: residual over its predicted deviation, (T, M); NaN where nothing was measured.
        nis: normalised innovation squared, (T,).
        log_density: of each row under its Gaussian prediction, (T,).
        parameters: of the model.
        fit: how they were found; None if they were given.
        fit_rows: first and last row (exclusive) that the fit saw.
        future: the forecast, if asked for.
        model: its name.
        method: as run.
        even: whether the steps are even.
        unit: the typical step, in the unit of the times.
        choice: how the model was chosen, with its candidates; None if it was named.
    """

    label: str
    rows: np.ndarray
    columns: tuple[int, ...]
    times: np.ndarray | None
    values: np.ndarray
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    weight: np.ndarray
    outlier: np.ndarray
    standardised: np.ndarray
    nis: np.ndarray
    log_density: np.ndarray
    parameters: dict[str, float]
    fit: Fit | None
    fit_rows: tuple[int, int]
    future: Future | None
    model: str
    method: str
    even: bool
    unit: float
    prediction_lower: Any = None
    prediction_upper: Any = None
    fault: Any = None
    choice: Choice | None = None

    @property
    def cleaned(self) -> np.ndarray:
        """The readings, with the estimate where one was false or missing, (T, M)."""
        outlier = self.outlier if self.outlier.ndim == 2 else self.outlier[:, None]
        return np.where(outlier | ~np.isfinite(self.values), self.mean, self.values)

    @property
    def missing(self) -> int:
        """Number of values that were not there."""
        return int(np.isnan(self.values).sum())

    @property
    def flagged(self) -> int:
        """Number of outliers."""
        return int(self.outlier.sum())

    @property
    def judged(self) -> int:
        """Number of weights."""
        return int(self.outlier.size)
