"""Faults that can be told by the readings alone: one value again and again, and runs of rows."""

import numpy as np

SHORTEST_STUCK = 5  # repeats
RARE = 1e-3  # runs of such a length that chance would bring, at most
MANY = 60  # runs, from which on their own lengths tell how long they may be
USUAL, LATE = 0.5, 0.9  # shares of the runs between whose lengths the tail is measured: faults are fewer than the rest
LEAST_CHANCE = 0.1  # of a further repeat
HABIT = 4.0  # times as long as other runs of the same value: what a series often does is no fault
SELDOM = 2  # runs of one value that may be faults, among others
LIMIT_RUNS = 4  # runs of the smallest or largest value, from which it is a limit that a series stays at
BEYOND = 0.02  # share of the readings that may lie beyond such a limit: they are faults
SENTINELS = (0.0, -1.0, -9.0, -99.0, -999.0, -9999.0, -99999.0, 99.0, 999.0, 9999.0, 99999.0)
FEW = 4  # times that such a value must come to be looked at
MOST = 0.2  # share of the readings that may be such a value; more are the series itself
BESIDE = 10  # values next to it that say how often a value usually comes
MORE_OFTEN = 2.5  # times as often as those


def runs_of(mask: np.ndarray) -> list[tuple[int, int]]:
    """List runs of True, each as its first row and the one after its last.

    Example:
        >>> runs_of(np.array([False, True, True, False, True]))
        [(1, 3), (4, 5)]
    """
    firsts, stops = run_ends(mask)
    return list(zip(firsts.tolist(), stops.tolist(), strict=True))


def run_ends(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give the first rows of runs of True, and the rows after their last ones: for series with many runs.

    Example:
        >>> [ends.tolist() for ends in run_ends(np.array([False, True, True, False, True]))]
        [[1, 4], [3, 5]]
    """
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False))
    return edges[::2], edges[1::2]


def counts_in(mask: np.ndarray, firsts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Count the rows of a mask from each first row up to each last one (exclusive).

    Example:
        >>> counts_in(np.array([True, False, True, True]), np.array([0, 2]), np.array([3, 4])).tolist()
        [2, 2]
    """
    counts = np.concatenate([[0], np.cumsum(mask)])
    return np.asarray(counts[stops] - counts[firsts])


def stuck_rows(values: np.ndarray) -> np.ndarray:
    """Find repeats that are longer than chance and the habits of the series explain; the first of them is a reading.

    Args:
        values: (T,), NaN where missing.

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
    places = np.array([values[first] for first, _ in runs])
    count = int(np.isfinite(values).sum())
    longest = longest_by_chance(lengths, count)
    for (first, stop), length, place in zip(runs, lengths, places, strict=True):
        if length < max(SHORTEST_STUCK, longest):
            continue
        own = np.sort(lengths[places == place])[::-1][SELDOM:].max(initial=0)
        as_others = len(runs) >= MANY and own <= 0.5 * longest
        if not _is_limit(values, place, count) and (as_others or length >= HABIT * own):
            found[first:stop] = True
    return found


def longest_by_chance(lengths: np.ndarray, count: int) -> float:
    """Say how many repeats a run may have before chance would bring one so long in fewer than 1 in 1,000 such series.

    Where readings repeat often, because they are rounded, their own runs tell: beyond the usual length u each further
    repeat has the same chance p. With the longest runs cut off at c, since they may be faults, its maximum likelihood
    estimate is 1 - n / Σ (min(L, c) - u) over runs with L > u, n of which are not cut off (a censored geometric law).
    Where readings seldom repeat, each repeat has the chance that a run begins.

    Args:
        lengths: repeats of each run, (n,).
        count: of all readings.

    Example:
        >>> repeats = np.random.default_rng(0).geometric(0.5, 400)
        >>> round(longest_by_chance(repeats, 2000), 1), int(repeats.max())
        (20.4, 9)
    """
    if len(lengths) >= MANY:
        usual, late = np.quantile(lengths, [USUAL, LATE], method="lower")
        beyond = np.minimum(lengths, late)[lengths > usual] - usual
        ended = int(((lengths > usual) & (lengths <= late)).sum())
        chance = max(1.0 - ended / beyond.sum(), LEAST_CHANCE) if beyond.sum() else LEAST_CHANCE
        return float(late + np.log(RARE / (lengths >= late).sum()) / np.log(chance))
    # From how many runs begin: a long run does not move it.
    chance = min(len(lengths) / max(count - int(lengths.sum()), 1), 1.0)
    return float(np.log(RARE / count) / np.log(chance)) if chance < 1.0 else np.inf


def _is_limit(values: np.ndarray, place: float, count: int) -> bool:
    """Say whether a series comes to a value again and again and hardly ever goes beyond it, as rain to 0."""
    beyond = min((values < place).sum(), (values > place).sum())
    return bool(beyond <= BEYOND * count and len(runs_of(values == place)) >= LIMIT_RUNS)


def suspicious_values(values: np.ndarray) -> list[float]:
    """List values such as 0 or -999 that come far more often than those next to them.

    Args:
        values: (T,), NaN where missing.
    """
    found = []
    for value in SENTINELS:
        same = values == value
        count = int(same.sum())
        if not FEW <= count <= MOST * len(values):
            continue
        distinct, counts = np.unique(values[np.isfinite(values) & ~same], return_counts=True)
        closest = np.argsort(np.abs(distinct - value), kind="stable")[:BESIDE]
        if not len(closest) or count >= MORE_OFTEN * counts[closest].mean():
            found.append(value)
    return found
