"""Innovations of a run, and tests of rejected measurements.

Rejected measurements are compared with the past, the future and their neighbours.
"""

import dataclasses
from functools import cached_property
from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from wolf.beliefs import Gaussian
from wolf.diagnostics.faults.local_smoother import SmoothedWindow
from wolf.engine.measurements import is_unusable
from wolf.interfaces import Linearization
from wolf.numerics.pytree import PyTree, cast
from wolf.results import Filtered
from wolf.statespace import Model, with_matrices

MIN_AGREEMENT_PROBABILITY = 1e-4  # p-value below which the past and the future disagree about the state
MIN_DETECTABLE_SHIFT_STDS = (
    4.0  # standard deviations by which a shift would stand out, so that its absence is significant
)
MIN_MEASUREMENT_PROBABILITY = 1e-3  # p-value above which a measurement agrees with a prediction
MIN_REPEATS = 3  # measurements from which on a sensor can be stuck or biased
EQUAL_VALUE_STDS = 1e-6  # innovation standard deviations within which values are equal
STUCK_JITTER_STDS = 0.02  # innovation standard deviations by which successive values of a stuck sensor may differ
ROUNDING_ULPS = 8.0  # units in the last place by which a prediction plus its residual may be off
MIN_JITTER_REPEATS = 6  # values of a run with jitter: two or three may be close by chance
BIAS_SCATTER_STDS = 4.0  # standard deviations within which errors count as one constant bias
MAX_CHANCE_PROBABILITY = 1e-3  # chance probability of repeats of rounded values below which they count as stuck


class Interval(NamedTuple):
    """Interval of rejected measurements.

    Attributes:
        channel: coordinate; None for the whole measurement.
        first: first step.
        last: last step.
    """

    channel: int | None
    first: int
    last: int


@dataclasses.dataclass(frozen=True)
class InnovationRecord:
    """Innovations of a run, with everything that is needed to smooth parts of it again.

    Attributes:
        model: model, cast to the dtype of the run.
        linearization: linearization of the filter.
        inputs: inputs, (T, U), or None.
        update_first: order of update and prediction.
        ys: measurements, (T, M); unusable values are infinite.
        rejected: coordinates that were rejected, (T, M).
        is_joint: whether the method weights each measurement as a whole.
        predicted: predicted means and covariances.
        innovation_stds: standard deviations of the innovations, (T, M).
        nis: normalised innovations squared, (T,).
        residuals: innovations, (T, M).
        repeats: length of the run of equal values that contains each value, (T, M); 0 if it may be chance.
    """

    model: Model
    linearization: Linearization
    inputs: PyTree
    update_first: bool
    ys: np.ndarray
    rejected: np.ndarray
    is_joint: bool
    predicted: Gaussian
    innovation_stds: np.ndarray
    nis: np.ndarray
    residuals: np.ndarray
    repeats: np.ndarray

    @property
    def channels(self) -> list[int | None]:
        """Units of rejection: every coordinate, or the whole measurement (None)."""
        return [None] if self.is_joint else list(range(self.ys.shape[1]))

    def rejected_steps(self, channel: int | None) -> np.ndarray:
        """Return the steps at which a channel was rejected, (T,)."""
        return self._any_rejected if channel is None else self.rejected[:, channel]

    @cached_property
    def _any_rejected(self) -> np.ndarray:
        return np.any(self.rejected, axis=1)

    @cached_property
    def last_accepted(self) -> int:
        """Last step with an accepted measurement; -1 if there is none."""
        return int(np.flatnonzero((np.isfinite(self.ys) & ~self.rejected).any(axis=1)).max(initial=-1))

    def coordinates(self, channel: int | None) -> np.ndarray:
        """List the coordinates of a channel."""
        return np.arange(self.ys.shape[1]) if channel is None else np.array([channel])

    def measured_coordinates(self, channel: int | None, t: int, include_infinite: bool = False) -> np.ndarray:
        """List the coordinates of a channel that were measured in a step, optionally with infinite ones."""
        selected = self.coordinates(channel)
        values = self.ys[t, selected]
        return selected[~np.isnan(values) if include_infinite else np.isfinite(values)]

    @cached_property
    def distances(self) -> np.ndarray:
        """Distance of each coordinate from its prediction, in standard deviations, (T, M)."""
        return np.abs(self.residuals) / self.innovation_stds

    def size(self, channel: int | None, t: int) -> float:
        """Compute the distance of a measurement from its prediction, in standard deviations."""
        return float(np.sqrt(self.nis[t]) if channel is None else self.distances[t, channel])


def innovation_record(out: Filtered, dtype: str) -> InnovationRecord:
    """Extract the innovations of a run."""
    model, moments = cast(with_matrices(out.model), dtype), cast(out.method.linearization, dtype)
    predicted = Gaussian(out.predicted_means, out.predicted_covs)
    inputs = None if out.inputs is None else out.inputs.astype(dtype)
    unusable = is_unusable(out.ys, dtype)
    ys = np.where(unusable, np.copysign(np.inf, out.ys), out.ys)  # values the filter could not use have no distance
    is_joint = out.outliers.ndim == 1
    rejected = np.repeat(out.outliers[:, None], ys.shape[1], axis=1) if is_joint else out.outliers
    rejected = rejected & ~np.isnan(ys)
    innovation_stds = np.sqrt(np.diagonal(out.innovation_covs, axis1=1, axis2=2))
    repeats = count_repeats(ys, np.median(innovation_stds, axis=0), float(np.finfo(dtype).eps))
    rest = (innovation_stds, np.asarray(out.nis), np.asarray(out.residuals), repeats)
    return InnovationRecord(model, moments, inputs, out.update_first, ys, rejected, is_joint, predicted, *rest)


def compare_past_and_future(
    record: InnovationRecord, firsts: np.ndarray, later: Gaussian
) -> tuple[np.ndarray, np.ndarray]:
    """Test whether past and future agree about the states at the starts of n intervals; return p-values and shifts.

    `δᵀ (P_before + P_after)⁻¹ δ` is χ² with D degrees of freedom if nothing happened; in directions without information
    about the future, its covariance is wide and their contribution is zero.
    """
    from scipy.special import gammaincc

    shift = np.asarray(later.mean) - record.predicted.mean[firsts]
    return gammaincc(0.5 * shift.shape[1], 0.5 * _distance(record, firsts, later, shift) ** 2), shift


def _distance(record: InnovationRecord, firsts: np.ndarray, later: Gaussian, shift: np.ndarray) -> np.ndarray:
    """Compute the Mahalanobis distance of shifts of the state, under the uncertainty of past and future."""
    cov = np.asarray(later.cov) + record.predicted.cov[firsts]
    scale = np.sqrt(np.diagonal(cov, axis1=1, axis2=2))
    scale = np.where(scale > 0, scale, 1.0)
    unit = shift / scale
    inverse = np.linalg.pinv(cov / (scale[:, :, None] * scale[:, None, :]), hermitian=True)
    return np.sqrt(np.maximum(np.einsum("ni,nij,nj->n", unit, inverse, unit), 0.0))


class WindowPrediction(NamedTuple):
    """Predictions of n measurements by smoothed windows.

    Attributes:
        expected: predicted values, (n, M).
        prediction_cov: covariances of the predictions, without the noise, (n, M, M).
        noise: measurement noise covariances, (n, M, M).
    """

    expected: np.ndarray | Array
    prediction_cov: np.ndarray
    noise: np.ndarray


def compare_measurements(
    record: InnovationRecord, channels: np.ndarray, steps: np.ndarray, prediction: WindowPrediction
) -> tuple[np.ndarray, ...]:
    """Test whether measurements agree with window predictions.

    The test is not informative if the prediction is so uncertain that any value would agree with it.

    Args:
        record: innovations of the run.
        channels: channel of each of n measurements, -1 for all coordinates jointly.
        steps: step of each measurement.
        prediction: prediction of each measurement.

    Returns:
        Whether each measurement agrees, its Mahalanobis distance, and whether the test is informative, (n,) each.
    """
    from scipy.special import gammaincc

    whole = channels[:, None] < 0
    measured = np.isfinite(record.ys[steps]) & (whole | (channels[:, None] == np.arange(record.ys.shape[1])))
    error = np.where(measured, subtract(record, steps, prediction.expected), 0.0)
    both = measured[:, :, None] & measured[:, None, :]
    cov = (
        np.where(both, prediction.prediction_cov + prediction.noise, 0.0)
        + np.eye(measured.shape[1]) * ~measured[:, :, None]
    )
    with np.errstate(over="ignore"):
        square = np.einsum("ni,ni->n", error, np.linalg.solve(cov, error[:, :, None])[:, :, 0])
    some = measured.any(axis=1)
    agrees = some & (gammaincc(0.5 * np.maximum(measured.sum(axis=1), 1), 0.5 * square) > MIN_MEASUREMENT_PROBABILITY)
    size = np.where(whole[:, 0], np.sqrt(record.nis[steps]), record.distances[steps, channels])
    width = np.diagonal(prediction.prediction_cov, axis1=1, axis2=2)
    reach = record.innovation_stds[steps] * np.maximum(size, 1.0)[:, None]
    conclusive = (9.0 * width < reach**2, width < 4.0 * np.diagonal(prediction.noise, axis1=1, axis2=2))
    informative = (conclusive[0] | ~measured).all(axis=1) | (conclusive[1] | ~measured).all(axis=1)
    distances = np.sqrt(np.maximum(square, 0.0))  # negative only by rounding, where a prediction is very uncertain
    return agrees, np.where(some, distances, np.nan), informative


def returns_to_start(record: InnovationRecord, interval: Interval, later: SmoothedWindow, shift: np.ndarray) -> bool:
    """Test whether the state after an interval equals that before it, while a given shift would be detected.

    Args:
        record: innovations of the run.
        interval: interval of rejected measurements.
        later: window smoothed from the later measurements only.
        shift: shift of the state that would be detected, (D,).
    """
    first, state = np.array([interval.first]), Gaussian(later.state.mean[None], later.state.cov[None])
    probability, _ = compare_past_and_future(record, first, state)
    return bool(
        probability[0] >= MIN_AGREEMENT_PROBABILITY
        and _distance(record, first, state, shift[None])[0] > MIN_DETECTABLE_SHIFT_STDS
    )


def constant_bias(
    record: InnovationRecord, interval: Interval, steps: np.ndarray, window: SmoothedWindow
) -> tuple[bool, float]:
    """Test whether the errors in an interval are one constant; return its size in the most significant coordinate."""
    channel, first = interval.channel, interval.first
    if len(steps) < MIN_REPEATS or not np.isfinite(record.ys[steps]).any():
        return False, 0.0
    errors = subtract(record, steps, window.expected[steps - first])
    variances = np.diagonal(window.prediction_cov[steps - first] + window.noise[steps - first], axis1=1, axis2=2)
    deviations = np.sqrt(variances)
    if channel is None:
        known = np.isfinite(errors).all(axis=0)
        channel = int(np.where(known, np.abs(np.median(errors / deviations, axis=0)), -1.0).argmax())
    values, stds = errors[:, channel], deviations[:, channel]
    usable = np.isfinite(values)
    if usable.sum() < MIN_REPEATS:
        return False, 0.0
    median = float(np.median(values[usable]))
    equal = np.abs(values[usable] - median) <= BIAS_SCATTER_STDS * stds[usable]
    significant = abs(median) > BIAS_SCATTER_STDS * float(np.median(stds[usable])) / np.sqrt(usable.sum())
    return bool(equal.all() and significant), median


def is_self_consistent(record: InnovationRecord, interval: Interval, steps: np.ndarray, window: SmoothedWindow) -> bool:
    """Test whether the measurements of an interval fit the model among themselves."""
    from scipy.special import gammainccinv

    count = max(len(record.measured_coordinates(interval.channel, int(steps[0]))), 1)
    later = window.nis[steps - interval.first][record.predicted.mean.shape[1] :]
    return bool(len(later)) and bool(np.median(later) < 2.0 * gammainccinv(0.5 * count, MIN_MEASUREMENT_PROBABILITY))


def count_repeats(ys: np.ndarray, innovation_stds: np.ndarray, precision: float) -> np.ndarray:
    """Count the equal values around each step; 0 if the run of equal values may be chance.

    Where values are rounded, neighbours are equal by chance; the share of equal neighbours elsewhere in the series
    gives the probability of a run.

    Args:
        ys: measurements, (T, M).
        innovation_stds: typical standard deviations of the innovations, (M,).
        precision: relative precision of the dtype.

    Example:
        >>> count_repeats(np.array([[0.1], [0.7], [0.7], [0.7], [0.3]]), np.ones(1), 1e-16)[:, 0].tolist()
        [0, 3, 3, 3, 0]
    """
    values = np.where(np.isfinite(ys), ys, np.nan)
    repeats = np.zeros(ys.shape, int)
    for j, column in enumerate(values.T):
        steps = np.abs(np.diff(column))
        rounding = ROUNDING_ULPS * precision * np.abs(column[1:])
        exact = _runs_by_length(
            steps <= EQUAL_VALUE_STDS * innovation_stds[j] + rounding, MIN_REPEATS, MAX_CHANCE_PROBABILITY
        )
        jitter = _runs_by_length(
            steps <= STUCK_JITTER_STDS * innovation_stds[j],
            MIN_JITTER_REPEATS,
            MAX_CHANCE_PROBABILITY / max(len(column), 1),
        )
        repeats[:, j] = np.where(exact > 0, exact, jitter)
    return repeats


def _runs_by_length(exact: np.ndarray, min_length: int, max_probability: float) -> np.ndarray:
    """Return the length of the run of equal neighbours that contains each of T values, 0 if it may be chance."""
    groups = np.concatenate([[0], np.cumsum(~exact)])  # one index per run
    lengths = np.bincount(groups)
    elsewhere = np.maximum(len(exact) - (lengths - 1), 1)
    share_elsewhere = (exact.sum() - (lengths - 1)) / elsewhere
    stuck = (lengths >= min_length) & (share_elsewhere ** (lengths - 1) < max_probability)
    return np.where(stuck, lengths, 0)[groups]


def subtract(record: InnovationRecord, steps: np.ndarray, expected: np.ndarray | Array) -> np.ndarray:
    """Compute residuals as defined by the model, (n, M); NaN where the measurement is unusable."""
    ys, usable = record.ys[steps], np.isfinite(record.ys[steps])
    if record.model.residual is None:
        return np.where(usable, ys, np.nan) - expected
    filled = np.where(usable, ys, expected)
    rows = [np.asarray(record.model.subtract(jax.numpy.asarray(y), e)) for y, e in zip(filled, expected, strict=True)]
    return np.where(usable, np.stack(rows), np.nan)
