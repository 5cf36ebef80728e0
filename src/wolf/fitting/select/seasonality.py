"""Seasons: which periods a series may repeat with, found in its spectrum and autocorrelation, outliers aside."""

from typing import NamedTuple

import numpy as np

from wolf.numerics.robust import MAD_TO_STD
from wolf.numerics.rolling import running_median

FAR = 4.0  # deviations from the running median beyond which a value is replaced by it
NEAR = 7  # values of that running median
FEWEST_CYCLES = 2.5  # of a season, for it to be one
SHORTEST = 3  # steps
PEAKS = 12  # of the spectrum, that are looked at
REPEATS = 0.15  # autocorrelation at the period, at least
SNAP = 0.03  # share by which a period found may differ from one of the calendar, and be taken for it
LIKE = 0.06  # share by which two periods must differ to be two
STRONGER = 0.05  # by which a correlation must exceed that of a shorter period that it is a multiple of
TWICE = 1.8  # factor between two seasons, at least
PADDING = 4  # times the length, to which the spectrum's series is padded
EXPLAINED = 0.97  # share of a season's power that its waves must have
MOST_WAVES = 6
MANY_CYCLES = 8  # of a season, for the median of its steps to tell their course
BY_CHANCE = 1.57  # nats that a wave of medians explains without being there: π / 2
DAY = 86_400.0
CALENDAR = {"day": DAY, "week": 7 * DAY, "year": 365.2425 * DAY}  # in seconds


class Season(NamedTuple):
    """One season.

    Attributes:
        period: in steps.
        waves: how many sines and cosines it takes.
        name: "day", "week", "year" or "".
    """

    period: float
    waves: int
    name: str


def find_seasons(values: np.ndarray, unit: float | None = None) -> list[Season]:
    """List the seasons that a series may have, the strongest first.

    Args:
        values: (T,), NaN where missing, on even steps.
        unit: seconds in a step; None where the times are no clock's.

    Example:
        >>> t = np.arange(480)
        >>> noisy = np.sin(2 * np.pi * t / 24) + np.random.default_rng(0).normal(0.0, 0.5, 480)
        >>> [(season.period, season.name) for season in find_seasons(noisy, 3600.0)]
        [(24, 'day')]
    """
    clean = _detrended(_without_spikes(values))
    longest = len(clean) / FEWEST_CYCLES
    known = {} if unit is None else {name: seconds / unit for name, seconds in CALENDAR.items()}
    known = {name: period for name, period in known.items() if SHORTEST <= period <= longest}
    repeats = _autocorrelation(clean)
    found: list[tuple[float, float, str]] = []
    for period in [*known.values(), *_peaks(clean, longest)]:
        name = next((name for name, steps in known.items() if abs(period / steps - 1) < SNAP), "")
        period = known.get(name, _best_lag(repeats, period))
        strength = _at(repeats, period)
        if strength > REPEATS and all(abs(period / other - 1) > LIKE for _, other, _ in found):
            found.append((strength, period, name))
    kept: list[tuple[float, float, str]] = []
    for strength, period, name in sorted(found, key=lambda each: each[1]):
        # What repeats after a day repeats after two: a multiple must be stronger, or repeat in what is left without the
        # day; a neighbour is the same season.
        within = [other for before, other, _ in kept if _is_multiple(period, other) and strength < before + STRONGER]
        if any(not _repeats_beyond(clean, period, other) for other in within):
            continue
        kept.append((strength, period, name))
    kept.sort(reverse=True)
    apart = [each for i, each in enumerate(kept) if all(_apart(each[1], other) for _, other, _ in kept[:i])]
    return [
        Season(_whole(period), max(_waves(clean, period), waves_of_steps(values, period)), name)
        for _, period, name in apart
    ]


def _without_spikes(values: np.ndarray) -> np.ndarray:
    """Fill gaps by straight lines, and replace what is far from its neighbours by their median."""
    known = np.flatnonzero(np.isfinite(values))
    filled = np.interp(np.arange(len(values)), known, values[known])
    middle = running_median(filled, NEAR, "nearest")
    apart = np.abs(filled - middle)
    spread = MAD_TO_STD * np.median(apart)
    return np.where(apart > FAR * max(spread, 1e-12 * np.abs(filled).max()), middle, filled)


def _detrended(values: np.ndarray) -> np.ndarray:
    """Take off a straight line, then cut off what is left of far values."""
    t = np.linspace(-1.0, 1.0, len(values))
    rest = values - np.polyval(np.polyfit(t, values, 1), t)
    middle = np.median(rest)
    spread = MAD_TO_STD * np.median(np.abs(rest - middle))
    return np.clip(rest - middle, -FAR * spread, FAR * spread) if spread > 0 else rest - middle


def _peaks(values: np.ndarray, longest: float) -> list[float]:
    """List the periods at which the spectrum peaks, the highest first."""
    size = PADDING * len(values)
    taper = np.hanning(len(values))
    power = np.abs(np.fft.rfft((values - values.mean()) * taper, size)) ** 2
    rates = np.arange(len(power)) / size
    inner = power[1:-1]
    tops = np.flatnonzero((inner > power[:-2]) & (inner >= power[2:])) + 1
    tops = tops[(rates[tops] >= 1.0 / longest) & (rates[tops] <= 1.0 / SHORTEST)]
    return [float(1.0 / rates[i]) for i in tops[np.argsort(power[tops])[::-1]][:PEAKS]]


def _autocorrelation(values: np.ndarray) -> np.ndarray:
    """Correlate a series with itself at every lag, without what slower movements add."""
    size = 2 * len(values)
    power = np.abs(np.fft.rfft(values - values.mean(), size)) ** 2
    told = np.fft.irfft(power)[: len(values)]
    count = len(values) - np.arange(len(values))
    told = told / count
    return told / max(told[0], 1e-300)


def _at(repeats: np.ndarray, period: float) -> float:
    """Say how much higher the correlation is at a period than half a period away from it."""
    here = round(period)
    if here >= len(repeats):
        return 0.0
    away = [round(0.5 * period), min(round(1.5 * period), len(repeats) - 1)]
    return float(min(repeats[here], repeats[here] - 0.5 * repeats[away].sum()))


def _repeats_beyond(values: np.ndarray, period: float, shorter: float) -> bool:
    """Say whether a series repeats after a period once the mean course of a shorter one is taken off."""
    if period < TWICE * shorter:
        return False
    phase = (np.arange(len(values)) % shorter).astype(int)
    course = np.bincount(phase, values) / np.maximum(np.bincount(phase), 1)
    return _at(_autocorrelation(values - course[phase]), period) > REPEATS


def _best_lag(repeats: np.ndarray, period: float) -> float:
    """Move a period to the next maximum of the correlation."""
    reach = max(1, round(0.05 * period))
    low = max(1, round(period) - reach)
    some = repeats[low : round(period) + reach + 1]
    return float(low + np.argmax(some)) if some.size else period


def _is_multiple(period: float, other: float) -> bool:
    ratio = max(period, other) / min(period, other)
    return abs(ratio - round(ratio)) < LIKE


def _apart(period: float, other: float) -> bool:
    return max(period, other) > TWICE * min(period, other)


def _whole(period: float) -> float:
    return round(period) if abs(period - round(period)) < 1e-3 * period else period


def _waves(values: np.ndarray, period: float) -> int:
    """Count the waves that have nearly all of a season's power beyond that of noise."""
    most = max(1, min(MOST_WAVES, int((period - 1) // 2)))
    t = np.arange(len(values))
    waves = np.concatenate([[np.cos(2 * np.pi * j * t / period), np.sin(2 * np.pi * j * t / period)]
                            for j in range(1, most + 1)]).T  # fmt: skip
    found, *_ = np.linalg.lstsq(waves, values, rcond=None)
    noise = float(np.mean((values - waves @ found) ** 2))
    power = np.maximum((found.reshape(-1, 2) ** 2).sum(1) - 4 * noise / len(values), 0.0)
    if not power.sum() > 0:
        return 1
    return int(np.searchsorted(np.cumsum(power) / power.sum(), EXPLAINED)) + 1


def waves_of_steps(values: np.ndarray, period: float) -> int:
    """Count the waves that the steps of a season need, from one value to the next.

    A sharp rise every morning has most of its power in the first wave and is foretold by the others. The course of the
    steps is their median at each phase; a wave of amplitude a explains n a² / 4σ² nats of n steps with noise σ², and
    must earn more than log n (BIC, two numbers).

    Args:
        values: (T,), NaN where missing, on even steps.
        period: in steps.

    Example:
        >>> day = np.where(np.arange(24) < 8, 0.0, 5.0)
        >>> noise = np.random.default_rng(0).normal(0.0, 0.1, 480)
        >>> waves_of_steps(np.tile(day, 20) + noise, 24), waves_of_steps(noise, 24)
        (5, 0)
    """
    steps = np.diff(values)
    known = np.flatnonzero(np.isfinite(steps))
    bins = int(period)
    if len(known) < MANY_CYCLES * period:
        return 0
    phase = (known % period * bins / period).astype(int)
    order = np.argsort(phase, kind="stable")
    groups = np.split(steps[known][order], np.cumsum(np.bincount(phase, minlength=bins))[:-1])
    course = np.array([np.median(each) if each.size else 0.0 for each in groups])
    noise = (MAD_TO_STD * np.median(np.abs(steps[known] - course[phase]))) ** 2
    most = max(1, min(MOST_WAVES, (bins - 1) // 2))
    squares = (2.0 * np.abs(np.fft.rfft(course))[1 : most + 1] / bins) ** 2
    nats = 0.25 * len(known) * squares / max(noise, 1e-300) - BY_CHANCE - np.log(len(known))
    return int(np.argmax(np.concatenate([[0.0], np.cumsum(nats)])))
