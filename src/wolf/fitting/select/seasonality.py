"""Seasonality: periods of a series from its spectrum and autocorrelation, robust to outliers.

Power of a trend hides peaks of a season beside it. Periods are therefore also proposed by the spectrum of the first
differences, and judged after a moving average of one period is subtracted, which keeps the season and removes the trend
(classical decomposition). A day is a candidate wherever steps are shorter than that.
"""

from typing import NamedTuple

import numpy as np

from wolf.numerics.robust import MAD_TO_STD
from wolf.numerics.rolling import running_median

CLIP_STDS = 4.0  # standard deviations from the running median beyond which a value is replaced by it
MEDIAN_WINDOW = 7  # values of that running median
MIN_CYCLES = 2.5  # cycles of a season in the series
MIN_PERIOD = 3  # steps of the shortest period
MAX_PEAKS = 12  # peaks of the spectrum that are examined
MIN_AUTOCORRELATION = 0.15  # smallest autocorrelation at the period
CALENDAR_TOLERANCE = 0.03  # relative deviation from a calendar period within which that one is used
SAME_PERIOD_TOLERANCE = 0.06  # relative difference within which two periods are the same
MULTIPLE_MARGIN = 0.05  # margin by which the autocorrelation at a multiple of a shorter period must be larger
MIN_PERIOD_RATIO = 1.8  # smallest ratio of two seasons
PADDING_FACTOR = 4  # zero padding of the spectrum, as a multiple of the length
MIN_POWER_SHARE = 0.97  # share of a season's power that its waves must contain
MAX_WAVES = 6
MAX_REFINED, REFINEMENT_ROUNDS = 3, 2  # periods that are refined, and rounds with each other's seasons subtracted
MAX_REFINED_WAVES = 3  # harmonics of such a fit
REFINEMENT_RANGE = 0.06  # relative range in which a period is refined
REFINEMENT_OVERSAMPLING = 8  # trial periods per resolution of the spectrum
MIN_CYCLES_FOR_MEDIANS = 8  # cycles of a season that are needed for medians of its steps
CHANCE_NATS = 1.57  # expected gain of a spurious wave of medians, in nats: π / 2
DAY = 86_400.0
CALENDAR = {"day": DAY, "week": 7 * DAY, "year": 365.2425 * DAY}  # in seconds


class Season(NamedTuple):
    """One season.

    Attributes:
        period: period in steps.
        waves: number of harmonics.
        name: "day", "week", "year" or "".
    """

    period: float
    waves: int
    name: str


def find_seasons(values: np.ndarray, unit: float | None = None) -> list[Season]:
    """List the seasons that a series may have, the strongest first.

    Args:
        values: series, (T,), NaN where missing, on a regular time grid.
        unit: seconds per step; None if the times are not dates.

    Example:
        >>> t = np.arange(480)
        >>> noisy = np.sin(2 * np.pi * t / 24) + np.random.default_rng(0).normal(0.0, 0.5, 480)
        >>> [(season.period, season.name) for season in find_seasons(noisy, 3600.0)]
        [(24, 'day')]
    """
    filled = _without_spikes(values)
    clean = _detrended(filled)
    longest = len(clean) / MIN_CYCLES
    calendar = {} if unit is None else {name: seconds / unit for name, seconds in CALENDAR.items()}
    calendar = {name: period for name, period in calendar.items() if MIN_PERIOD <= period <= longest}
    autocorrelation = _autocorrelation(clean)
    found: list[tuple[float, float, str]] = []
    for period in [*calendar.values(), *_peaks(clean, longest), *_peaks(np.diff(filled), longest)]:
        name = next((name for name, steps in calendar.items() if abs(period / steps - 1) < CALENDAR_TOLERANCE), "")
        period = calendar.get(name, max(_refine_lag(autocorrelation, period), MIN_PERIOD))
        detrended = _autocorrelation(_without_moving_average(filled, period))
        strength = max(_prominence(autocorrelation, period), _prominence(detrended, period))
        if (strength > MIN_AUTOCORRELATION or name == "day") and all(
            abs(period / other - 1) > SAME_PERIOD_TOLERANCE for _, other, _ in found
        ):
            found.append((strength, period, name))
    selected = _without_multiples(clean, found)
    selected.sort(key=lambda each: (each[2] == "day", each[0]), reverse=True)
    distinct = [
        each for i, each in enumerate(selected) if all(_are_distinct(each[1], other) for _, other, _ in selected[:i])
    ]
    periods = _refine_periods(filled, [(period, name) for _, period, name in distinct])
    return [
        Season(
            period,
            max(_count_waves(_without_moving_average(filled, period), period), count_waves_of_steps(values, period)),
            name,
        )
        for period, (_, _, name) in zip(periods, distinct, strict=True)
    ]


def _without_multiples(values: np.ndarray, found: list[tuple[float, float, str]]) -> list[tuple[float, float, str]]:
    """Leave out multiples of shorter periods, as a daily season also has a period of two days.

    A multiple must be stronger, or remain after the shorter season is subtracted; a neighbouring period is the same
    season.
    """
    selected: list[tuple[float, float, str]] = []
    for strength, period, name in sorted(found, key=lambda each: each[1]):
        divisors = [
            other
            for before, other, _ in selected
            if _is_multiple(period, other) and strength < before + MULTIPLE_MARGIN
        ]
        if all(_is_independent_of(values, period, other) for other in divisors):
            selected.append((strength, period, name))
    return selected


def _without_moving_average(values: np.ndarray, period: float) -> np.ndarray:
    """Subtract the centred moving average of one period; the ends without one are left out."""
    length = round(period)
    if len(values) < 2 * length:
        return values - values.mean()
    sums = np.cumsum(np.concatenate([[0.0], values]))
    means = (sums[length:] - sums[:-length]) / length
    if length % 2 == 0:  # centred between two values: average neighbours
        means = 0.5 * (means[1:] + means[:-1])
    first = length // 2
    return _clipped(values[first : first + len(means)] - means)


def _refine_periods(values: np.ndarray, found: list[tuple[float, str]]) -> list[float]:
    """Move each period that is not of the calendar to the best fit of its harmonics, without the other seasons."""
    periods = [period for period, _ in found]
    for _ in range(REFINEMENT_ROUNDS):
        for i, (_, name) in enumerate(found[:MAX_REFINED]):
            if not name and len(values) > 3 * periods[i]:
                others = [other for j, other in enumerate(periods[:MAX_REFINED]) if j != i]
                periods[i] = _refine_period(values, periods[i], others)
    return [_round_period(period) for period in periods]


def _refine_period(values: np.ndarray, period: float, others: list[float]) -> float:
    """Find the period near a given one whose harmonics explain most, after the other seasons are subtracted."""
    rest = _without_moving_average(values, period)
    t = np.arange(len(rest))
    others = [other for other in others if len(rest) > 2 * other]
    if others:
        design = np.concatenate([_harmonics(t, other, _num_harmonics(other)) for other in others], axis=1)
        rest = rest - design @ _regress(design, rest)
    waves = min(_count_waves(rest, period), MAX_REFINED_WAVES)
    resolution = period / len(rest)  # relative
    margin = min(REFINEMENT_RANGE, resolution)
    offsets = np.arange(-margin, margin + 1e-9, resolution / REFINEMENT_OVERSAMPLING)
    trial = period * (1.0 + offsets)
    trial = trial[trial >= MIN_PERIOD]
    if not len(trial):
        return period
    explained = []
    for each in trial.tolist():
        design = _harmonics(t, each, waves)
        explained.append(float(np.dot(design.T @ rest, np.linalg.solve(design.T @ design, design.T @ rest))))
    best = float(trial[int(np.argmax(explained))])
    is_whole = abs(best - round(best)) < best**2 / (4 * len(rest))  # within a quarter of the resolution
    return float(round(best)) if is_whole else best


def _num_harmonics(period: float) -> int:
    return max(1, min(MAX_WAVES, int((period - 1) // 2)))


def _harmonics(t: np.ndarray, period: float, count: int) -> np.ndarray:
    """Compute the cosines and sines of a season, (n, 2 count)."""
    angles = 2 * np.pi / period * np.outer(t, np.arange(1, count + 1))
    return np.stack([np.cos(angles), np.sin(angles)], axis=2).reshape(len(t), -1)


def _without_spikes(values: np.ndarray) -> np.ndarray:
    """Interpolate gaps linearly, and replace values far from their neighbours by the running median."""
    calendar = np.flatnonzero(np.isfinite(values))
    filled = np.interp(np.arange(len(values)), calendar, values[calendar])
    median = running_median(filled, MEDIAN_WINDOW, "nearest")
    distances = np.abs(filled - median)
    scale = MAD_TO_STD * np.median(distances)
    return np.where(distances > CLIP_STDS * max(scale, 1e-12 * np.abs(filled).max()), median, filled)


def _detrended(values: np.ndarray) -> np.ndarray:
    """Subtract a straight line, then clip outliers."""
    t = np.linspace(-1.0, 1.0, len(values))
    return _clipped(values - np.polyval(np.polyfit(t, values, 1), t))


def _clipped(residual: np.ndarray) -> np.ndarray:
    """Subtract the median, and clip outliers."""
    median = np.median(residual)
    scale = MAD_TO_STD * np.median(np.abs(residual - median))
    return np.clip(residual - median, -CLIP_STDS * scale, CLIP_STDS * scale) if scale > 0 else residual - median


def _peaks(values: np.ndarray, longest: float) -> list[float]:
    """List the periods of the peaks of the spectrum, the highest first."""
    size = PADDING_FACTOR * len(values)
    taper = np.hanning(len(values))
    power = np.abs(np.fft.rfft((values - values.mean()) * taper, size)) ** 2
    frequencies = np.arange(len(power)) / size
    inner = power[1:-1]
    peaks = np.flatnonzero((inner > power[:-2]) & (inner >= power[2:])) + 1
    peaks = peaks[(frequencies[peaks] >= 1.0 / longest) & (frequencies[peaks] <= 1.0 / MIN_PERIOD)]
    return [float(1.0 / frequencies[i]) for i in peaks[np.argsort(power[peaks])[::-1]][:MAX_PEAKS]]


def _autocorrelation(values: np.ndarray) -> np.ndarray:
    """Compute the autocorrelation at every lag."""
    size = 2 * len(values)
    power = np.abs(np.fft.rfft(values - values.mean(), size)) ** 2
    covariance = np.fft.irfft(power)[: len(values)]
    count = len(values) - np.arange(len(values))
    covariance = covariance / count
    return covariance / max(covariance[0], 1e-300)


def _prominence(autocorrelation: np.ndarray, period: float) -> float:
    """Compute by how much the autocorrelation at a period exceeds that half a period away."""
    lag = round(period)
    if lag >= len(autocorrelation):
        return 0.0
    half_lags = [round(0.5 * period), min(round(1.5 * period), len(autocorrelation) - 1)]
    return float(min(autocorrelation[lag], autocorrelation[lag] - 0.5 * autocorrelation[half_lags].sum()))


def _is_independent_of(values: np.ndarray, period: float, shorter: float) -> bool:
    """Return whether a period remains significant after the mean course of a shorter one is subtracted."""
    if period < MIN_PERIOD_RATIO * shorter:
        return False
    phase = (np.arange(len(values)) % shorter).astype(int)
    course = np.bincount(phase, values) / np.maximum(np.bincount(phase), 1)
    return _prominence(_autocorrelation(values - course[phase]), period) > MIN_AUTOCORRELATION


def _refine_lag(autocorrelation: np.ndarray, period: float) -> float:
    """Move a period to the nearest maximum of the autocorrelation."""
    margin = max(1, round(0.05 * period))
    low = max(1, round(period) - margin)
    window = autocorrelation[low : round(period) + margin + 1]
    return float(low + np.argmax(window)) if window.size else period


def _is_multiple(period: float, other: float) -> bool:
    ratio = max(period, other) / min(period, other)
    return abs(ratio - round(ratio)) < SAME_PERIOD_TOLERANCE


def _are_distinct(period: float, other: float) -> bool:
    return max(period, other) > MIN_PERIOD_RATIO * min(period, other)


def _round_period(period: float) -> float:
    return round(period) if abs(period - round(period)) < 1e-3 * period else period


def _count_waves(values: np.ndarray, period: float) -> int:
    """Count the harmonics that contain nearly all of a season's power beyond that of noise."""
    waves = _harmonics(np.arange(len(values)), period, _num_harmonics(period))
    coefficients = _regress(waves, values)
    noise = float(np.mean((values - waves @ coefficients) ** 2))
    power = np.maximum((coefficients.reshape(-1, 2) ** 2).sum(1) - 4 * noise / len(values), 0.0)
    if not power.sum() > 0:
        return 1
    return int(np.searchsorted(np.cumsum(power) / power.sum(), MIN_POWER_SHARE)) + 1


def _regress(design: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Regress on harmonics by the normal equations: they are nearly orthogonal, and an SVD of all rows is slow."""
    return np.asarray(np.linalg.lstsq(design.T @ design, design.T @ values, rcond=None)[0])


def count_waves_of_steps(values: np.ndarray, period: float) -> int:
    """Count the harmonics that are needed for the steps of a season from one value to the next.

    A sharp rise every morning has most of its power in the first harmonic, but its prediction needs the others. The
    course of the steps is their median at each phase; a wave of amplitude a explains n a² / 4σ² nats of n steps with
    noise σ², and must gain more than log n (BIC, two parameters).

    Args:
        values: series, (T,), NaN where missing, on a regular time grid.
        period: period in steps.

    Example:
        >>> day = np.where(np.arange(24) < 8, 0.0, 5.0)
        >>> noise = np.random.default_rng(0).normal(0.0, 0.1, 480)
        >>> count_waves_of_steps(np.tile(day, 20) + noise, 24), count_waves_of_steps(noise, 24)
        (5, 0)
    """
    steps = np.diff(values)
    calendar = np.flatnonzero(np.isfinite(steps))
    bins = int(period)
    if len(calendar) < MIN_CYCLES_FOR_MEDIANS * period:
        return 0
    phase = (calendar % period * bins / period).astype(int)
    order = np.argsort(phase, kind="stable")
    groups = np.split(steps[calendar][order], np.cumsum(np.bincount(phase, minlength=bins))[:-1])
    course = np.array([np.median(each) if each.size else 0.0 for each in groups])
    noise = (MAD_TO_STD * np.median(np.abs(steps[calendar] - course[phase]))) ** 2
    max_waves = _num_harmonics(bins)
    squares = (2.0 * np.abs(np.fft.rfft(course))[1 : max_waves + 1] / bins) ** 2
    gains = 0.25 * len(calendar) * squares / max(noise, 1e-300) - CHANCE_NATS - np.log(len(calendar))
    return int(np.argmax(np.concatenate([[0.0], np.cumsum(gains)])))
