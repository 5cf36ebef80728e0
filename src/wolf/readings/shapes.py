"""Faults that can be told by the readings alone: one value again and again, and runs of rows."""

import numpy as np

SHORTEST_STUCK = 5  # repeats
RARE = 1e-3  # runs of such a length that chance would bring, at most
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
    # The chance of a repeat, from how many runs begin: a long run does not move it.
    chance = min(len(runs) / max(count - int(lengths.sum()), 1), 1.0)
    for (first, stop), length, place in zip(runs, lengths, places, strict=True):
        if length < SHORTEST_STUCK or count * chance**length > RARE:
            continue
        alike = np.sort(lengths[places == place])[::-1]
        if not _is_limit(values, place, count) and length >= HABIT * alike[SELDOM:].max(initial=0):
            found[first:stop] = True
    return found


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
