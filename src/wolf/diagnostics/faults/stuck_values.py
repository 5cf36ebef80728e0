"""Stuck sensors: repeats of one value that are longer than chance and the habits of the series explain."""

import numpy as np

from wolf.numerics.runs import runs_of

MIN_STUCK_REPEATS = 5  # repeats of the shortest stuck run
MAX_CHANCE_RUNS = 1e-3  # expected number of runs of such a length by chance
MIN_RUNS_FOR_TAIL = 60  # runs above which the tail of their lengths is estimated from the series itself
TAIL_START_QUANTILE = 0.5  # quantiles of the run lengths between which the tail is fitted ...
TAIL_END_QUANTILE = 0.9  # ... since faults are rarer than a tenth of the runs
MIN_REPEAT_PROBABILITY = 0.1  # smallest probability of a further repeat
MIN_LENGTH_RATIO = 4.0  # length relative to other runs of the same value: what occurs often is not a fault
MAX_FAULTY_RUNS = 2  # runs of one value that may be faults
MIN_RUNS_AT_LIMIT = 4  # runs of the smallest or largest value above which it is a limit of the series
MAX_SHARE_BEYOND_LIMIT = 0.02  # share of the readings that may exceed such a limit, as faults
SENTINELS = (0.0, -1.0, -9.0, -99.0, -999.0, -9999.0, -99999.0, 99.0, 999.0, 9999.0, 99999.0)
MIN_SENTINEL_COUNT = 4  # occurrences of a suspicious value
MAX_SENTINEL_SHARE = 0.2  # share of the readings that may be such a value; a larger share is regular data
NEIGHBOURING_VALUES = 10  # adjacent values that define a typical frequency
MIN_FREQUENCY_RATIO = 2.5  # frequency relative to those


def stuck_rows(values: np.ndarray) -> np.ndarray:
    """Find repeats of a stuck sensor, longer than chance explains; the first of them is a valid reading.

    Args:
        values: readings, (T,), NaN where missing.

    Example:
        >>> readings = np.random.default_rng(0).normal(size=200)
        >>> readings[50:70] = readings[50]
        >>> runs_of(stuck_rows(readings))
        [(51, 70)]
    """
    found = np.zeros(len(values), bool)
    runs = runs_of(np.concatenate([[False], values[1:] == values[:-1]]))
    if not runs:
        return found
    lengths = np.array([stop - first for first, stop in runs])
    repeated = np.array([values[first] for first, _ in runs])
    count = int(np.isfinite(values).sum())
    longest = longest_by_chance(lengths, count)
    for (first, stop), length, value in zip(runs, lengths, repeated, strict=True):
        if length < max(MIN_STUCK_REPEATS, longest):
            continue
        own_longest = np.sort(lengths[repeated == value])[::-1][MAX_FAULTY_RUNS:].max(initial=0)
        is_unusual = len(runs) >= MIN_RUNS_FOR_TAIL and own_longest <= 0.5 * longest
        if not _is_limit(values, value, count) and (is_unusual or length >= MIN_LENGTH_RATIO * own_longest):
            found[first:stop] = True
    return found


def longest_by_chance(lengths: np.ndarray, count: int) -> float:
    """Compute the length of a run of repeats that occurs by chance in fewer than 1 in 1,000 such series.

    Where readings repeat often, because they are rounded, the run lengths of the series are used: beyond the start u of
    the tail each further repeat has the same probability p. With the longest runs censored at c, since they may be
    faults, the maximum likelihood estimate is 1 - n / Σ (min(L, c) - u) over runs with L > u, n of which are not
    censored (a censored geometric distribution). Where readings seldom repeat, each repeat has the probability that a
    run starts.

    Args:
        lengths: number of repeats of each run, (n,).
        count: number of readings.

    Example:
        >>> repeats = np.random.default_rng(0).geometric(0.5, 400)
        >>> round(longest_by_chance(repeats, 2000), 1), int(repeats.max())
        (20.4, 9)
    """
    if len(lengths) >= MIN_RUNS_FOR_TAIL:
        start, end = np.quantile(lengths, [TAIL_START_QUANTILE, TAIL_END_QUANTILE], method="lower")
        excess = np.minimum(lengths, end)[lengths > start] - start
        complete = int(((lengths > start) & (lengths <= end)).sum())
        probability = (
            max(1.0 - complete / excess.sum(), MIN_REPEAT_PROBABILITY) if excess.sum() else MIN_REPEAT_PROBABILITY
        )
        return float(end + np.log(MAX_CHANCE_RUNS / (lengths >= end).sum()) / np.log(probability))
    # Estimated from the number of runs, which a long run does not affect.
    probability = min(len(lengths) / max(count - int(lengths.sum()), 1), 1.0)
    return float(np.log(MAX_CHANCE_RUNS / count) / np.log(probability)) if probability < 1.0 else np.inf


def _is_limit(values: np.ndarray, value: float, count: int) -> bool:
    """Return whether the series often has a value that it hardly ever exceeds, such as 0 for rain."""
    excess = min((values < value).sum(), (values > value).sum())
    return bool(excess <= MAX_SHARE_BEYOND_LIMIT * count and len(runs_of(values == value)) >= MIN_RUNS_AT_LIMIT)


def suspicious_values(values: np.ndarray) -> list[float]:
    """List values such as 0 or -999 that are far more frequent than adjacent values.

    Args:
        values: readings, (T,), NaN where missing.
    """
    found = []
    for value in SENTINELS:
        same = values == value
        count = int(same.sum())
        if not MIN_SENTINEL_COUNT <= count <= MAX_SENTINEL_SHARE * len(values):
            continue
        distinct, counts = np.unique(values[np.isfinite(values) & ~same], return_counts=True)
        closest = np.argsort(np.abs(distinct - value), kind="stable")[:NEIGHBOURING_VALUES]
        if not len(closest) or count >= MIN_FREQUENCY_RATIO * counts[closest].mean():
            found.append(value)
    return found
