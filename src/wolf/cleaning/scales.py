"""Scale on which a series is modelled: that of the measurements, a transform of them, or angles without wrapping."""

from typing import NamedTuple

import numpy as np

from wolf import validation
from wolf.cleaning.result import SeriesForecast
from wolf.diagnostics.faults import sentinel_values
from wolf.numerics.measurement_transforms import MeasurementTransform, read_transform

PERIODS = {"degrees": 360.0, "radians": 2.0 * np.pi}
DIRECTION_ROWS = 5  # rows whose mean direction says on which turn a reading is
MAX_TURNS = 2.0  # a reading further from 0 is no angle but a code
MIN_NEGATIVE_SHARE = 0.01  # of angles that are signed; a single negative reading may be a fault
LIMITS = ("mean", "lower", "upper", "prediction_lower", "prediction_upper")


class SeriesScale(NamedTuple):
    """Scale of a model.

    Attributes:
        transform: of the measurements, or None.
        period: of angles, or None.

    Example:
        >>> wind = SeriesScale(None, 360.0)
        >>> wind.to_model(np.array([[350.0], [355.0], [2.0], [8.0]]))[:, 0].tolist()
        [350.0, 355.0, 362.0, 368.0]
        >>> wind.to_data({"mean": np.array([362.0]), "lower": np.array([355.0])}, signed=False)
        {'mean': array([2.]), 'lower': array([-5.])}
    """

    transform: MeasurementTransform | None = None
    period: float | None = None

    @property
    def is_identity(self) -> bool:
        """Whether measurements are modelled as they are."""
        return self.transform is None and self.period is None

    @property
    def description(self) -> str:
        """Words for a summary; empty without a transform."""
        if self.transform is not None:
            return f"on the scale of transform {self.transform.name}: mean is the median"
        return "" if self.period is None else "of angles, on the circle"

    def to_model(self, values: np.ndarray) -> np.ndarray:
        """Convert measurements (T, M) to the scale of the model; codes and impossible values become infinite."""
        if self.is_identity:
            return values
        plain = sentinel_values.without_codes(values)
        code = np.isnan(plain) & np.isfinite(values)
        if self.transform is not None:
            converted = self.transform.apply(plain)
        else:
            assert self.period is not None
            converted = np.stack([unwrap(column, self.period) for column in plain.T], axis=1)
        return np.where(code, -np.inf, converted)

    def to_data(self, arrays: dict[str, np.ndarray], signed: bool) -> dict[str, np.ndarray]:
        """Convert means and limits back; other arrays are kept.

        An interval of an angle surrounds its mean, so a limit may be a little below or above the range.

        Args:
            arrays: by name.
            signed: of angles, whether they are from minus half a turn to half a turn.
        """
        limits = [name for name in LIMITS if name in arrays]
        if self.transform is not None:
            return arrays | {name: self.transform.undo(arrays[name]) for name in limits}
        if self.period is None:
            return arrays
        turns = np.floor(arrays["mean"] / self.period + 0.5 * signed)
        return arrays | {name: arrays[name] - self.period * turns for name in limits}

    def forecast_to_data(self, forecast: SeriesForecast | None, signed: bool) -> SeriesForecast | None:
        """Convert a forecast back; arguments as in `to_data`."""
        if forecast is None or self.is_identity:
            return forecast
        return forecast._replace(**self.to_data({name: forecast._asdict()[name] for name in LIMITS}, signed))


def read_scale(transform: object, angle: object) -> SeriesScale:
    """Read the options `transform` and `angle`."""
    if angle is None:
        return SeriesScale(read_transform(transform))
    if not isinstance(angle, str) or angle not in PERIODS:
        raise ValueError(f"angle must be 'degrees' or 'radians'; got {validation.short_repr(angle)}")
    if transform is not None:
        raise ValueError("transform and angle exclude each other: an angle has no bounds")
    return SeriesScale(None, PERIODS[angle])


def is_signed(values: np.ndarray) -> bool:
    """Return whether angles go from minus half a turn to half a turn, and not from 0 to a turn."""
    known = values[np.isfinite(values)]
    return bool(np.mean(known < 0.0) > MIN_NEGATIVE_SHARE) if known.size else False


def unwrap(values: np.ndarray, period: float) -> np.ndarray:
    """Continue angles beyond a turn, (T,), so that they do not jump where they pass it; NaN where missing.

    Each reading is put on the turn that is closest to the mean direction of the rows around it, so that one false
    reading does not move those after it to another turn.
    """
    values = np.where(np.abs(values) > MAX_TURNS * period, np.copysign(np.inf, values), values)
    known = np.isfinite(values)
    if not known.any():
        return values
    angle = 2.0 * np.pi / period * values[known]
    kernel = np.ones(min(DIRECTION_ROWS, angle.size))
    sine, cosine = (np.convolve(part, kernel, "same") for part in (np.sin(angle), np.cos(angle)))
    path = np.unwrap(np.arctan2(sine, cosine))
    path += 2.0 * np.pi * np.round((angle[0] - path[0]) / (2.0 * np.pi))
    offset = (angle - path + np.pi) % (2.0 * np.pi) - np.pi
    unwrapped = np.array(values)
    unwrapped[known] = period / (2.0 * np.pi) * (path + offset)
    return unwrapped
