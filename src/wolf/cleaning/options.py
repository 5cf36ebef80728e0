"""Options of data cleaning, shared by `wolf filter`, `wolf.filter_frame` and the transformers.

A new option of `wolf filter` takes three source files: a field here (in both classes), an option in
`wolf.cli.file_commands`, and the place of use. `tests/unit/cleaning/test_options.py` checks that every field of
`CleaningOptions` reaches `Options` from the data frame and from the command line.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, TypedDict

from wolf import validation
from wolf.cleaning import durations, rules
from wolf.cleaning.scales import SeriesScale, read_scale
from wolf.diagnostics.faults.false_alarms import DEFAULT_FALSE_ALARMS
from wolf.statespace import LinearModel

MAX_FORECAST_STEPS = 1_000_000  # a forecast is held in memory as a whole before it is written
AUTO = "auto"  # model name that selects a model from the data
MIN_PATIENCE_ROWS = 2  # a single rejected measurement is always consistent with itself
DEFAULT_LEVEL = 0.95  # probability of the intervals
CORRECTIONS = ("offset", "drift")  # of the readings before a calibration


class CleaningOptions(TypedDict, total=False):
    """Keyword arguments of `wolf.filter_frame`; their meaning is documented in `Options`."""

    model: str | LinearModel
    method: Any
    parameters: Mapping[str, float] | None
    smooth: bool
    forecast: int
    level: float
    causal: bool
    patience: str | float | None
    max_fault_length: str | float | None
    false_alarms: float
    rules: Any
    labels: Any
    maintenance: Any
    correction: str | None
    every: str | float | None
    max_gap: str | float | None
    transform: Any
    angle: str | None
    together: bool | str | Sequence[str]


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of data cleaning.

    Attributes:
        model: "auto" to select one from the data, a name, or a TOML file; see `wolf.models.make`. A linear model is
            used as it is.
        method: as in `wolf.filter`. Without one the series is judged as a whole (`wolf.cleaning.retrospective`); if
            `causal`, by the default method, or by `Learned` where Q is fitted.
        parameters: known variances; the others are fitted.
        smooth: smooth with the weights of the method, so that each estimate uses the whole series.
        forecast: number of steps to forecast beyond the end.
        level: probability of the intervals.
        restarts: number of starting points of the fit.
        diagnostics: keep residuals, NIS and log densities, for a report; empty arrays otherwise.
        causal: use only the past of each row.
        patience: number of consecutive consistent rejections after which a causal filter accepts a jump, as a duration
            ("2h") or a number of rows.
        max_fault_length: longest fault of a retrospective search, as a duration ("2h") or a number of rows; a longer
            deviation is a shift of the level. Default: 30 rows, at most a twentieth of the series.
        false_alarms: expected false incidents per 10,000 readings of a retrospective search, from which the detection
            level of a series of at least 5,000 rows is calibrated (`wolf.diagnostics.faults.false_alarms`); 0 for the
            thresholds of the model.
        rules: limits of the readings, by column (`wolf.cleaning.rules`), or a TOML file with a table `rules`.
        labels: readings labelled by hand as `fault` or `good` (`wolf.cleaning.time_intervals`).
        maintenance: known events, such as calibrations, which are no faults (`wolf.cleaning.maintenance`).
        correction: "offset" or "drift" to correct the readings before each calibration.
        every: step of a regular grid for the output, as a duration ("15min") or a number of steps.
        max_gap: longest gap that `cleaned` fills, as a duration or a number of rows.
        transform: scale on which values are modelled, so that intervals keep to their range: "log", "sqrt", "logit",
            "logit:0:100", or a pair of functions (`wolf.numerics.measurement_transforms`).
        angle: "degrees" or "radians" of values that are angles, which wrap around.
        together: names of value columns that are correlated, True for all: each is judged and filled by the others too.
        dated: whether times are seconds of a clock, so that days and weeks have a meaning.
        origin: Unix time in seconds at which such times are 0.
        zone: time zone of dates without one in the files of labels and maintenance.
    """

    model: str | LinearModel = AUTO
    method: Any = None
    parameters: dict[str, float] = dataclasses.field(default_factory=dict)
    smooth: bool = False
    forecast: int = 0
    level: float = DEFAULT_LEVEL
    restarts: int = 2
    diagnostics: bool = True
    causal: bool = False
    patience: str | float | None = None
    max_fault_length: str | float | None = None
    false_alarms: float = DEFAULT_FALSE_ALARMS
    rules: Any = None
    labels: Any = None
    maintenance: Any = None
    correction: str | None = None
    every: str | float | None = None
    max_gap: str | float | None = None
    transform: Any = None
    angle: str | None = None
    together: bool | str | Sequence[str] = False
    dated: bool = False
    origin: float = 0.0
    zone: str | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without the data."""
        validation.confidence_level(self.level)
        read_scale(self.transform, self.angle)
        validation.boolean("smooth", self.smooth)
        validation.boolean("causal", self.causal)
        if self.causal and self.smooth:
            raise ValueError(
                "causal and smooth exclude each other: causal uses the past of each row, smooth the whole series"
            )
        durations.check("patience", self.patience, min_rows=MIN_PATIENCE_ROWS)
        validation.not_negative("false_alarms", validation.known_number("false_alarms", self.false_alarms))
        for name in ("max_fault_length", "every", "max_gap"):
            durations.check(name, vars(self)[name])
        rules.parse(self.rules)
        self._check_correction()
        if isinstance(self.forecast, int) and self.forecast > MAX_FORECAST_STEPS:
            raise ValueError(f"a forecast has at most {MAX_FORECAST_STEPS:,} steps; got {self.forecast:,}")
        validation.integer("forecast", self.forecast)
        if not isinstance(self.model, str | PathLike | LinearModel):
            raise ValueError(
                f"model must be a name, such as 'local-level', a file, or a linear model; "
                f"got {validation.short_repr(self.model)}"
            )

    def _check_correction(self) -> None:
        """Check the correction of calibrated readings."""
        if self.correction is not None and self.correction not in CORRECTIONS:
            raise ValueError(f"correction must be one of {', '.join(CORRECTIONS)}; got {self.correction!r}")
        if self.correction is not None and self.maintenance is None:
            raise ValueError("correction needs the times of calibrations: give them as maintenance")
        if self.correction is not None and self.causal:
            raise ValueError("correction and causal exclude each other: a correction uses later readings")

    @property
    def scale(self) -> SeriesScale:
        """Scale on which values are modelled."""
        return read_scale(self.transform, self.angle)

    @classmethod
    def from_mapping(cls, options: Mapping[str, Any], **more: Any) -> "Options":
        """Select the cleaning options from the options of a command.

        Args:
            options: values by name; names that are no cleaning options are ignored.
            **more: fields that are not in `options`, or replace them.
        """
        return cls(**{name: options[name] for name in CleaningOptions.__annotations__ if name in options} | more)
