"""Runs of equal values in a mask: their first and last rows, and counts of rows between them."""

import numpy as np


def runs_of(mask: np.ndarray) -> list[tuple[int, int]]:
    """List the runs of True, each as its first row and the row after its last.

    Example:
        >>> runs_of(np.array([False, True, True, False, True]))
        [(1, 3), (4, 5)]
    """
    firsts, stops = run_ends(mask)
    return list(zip(firsts.tolist(), stops.tolist(), strict=True))


def run_ends(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first rows of the runs of True, and the rows after their last, as arrays for series with many runs.

    Example:
        >>> [ends.tolist() for ends in run_ends(np.array([False, True, True, False, True]))]
        [[1, 4], [3, 5]]
    """
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False))
    return edges[::2], edges[1::2]


def counts_in(mask: np.ndarray, firsts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Count the True rows from each first row to each last row (exclusive).

    Example:
        >>> counts_in(np.array([True, False, True, True]), np.array([0, 2]), np.array([3, 4])).tolist()
        [2, 2]
    """
    counts = np.concatenate([[0], np.cumsum(mask)])
    return np.asarray(counts[stops] - counts[firsts])


def merge_ranges(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge ranges (first, stop) that overlap or touch; sorted.

    Example:
        >>> merge_ranges([(5, 9), (0, 3), (2, 4)])
        [(0, 4), (5, 9)]
    """
    merged: list[tuple[int, int]] = []
    for first, stop in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], stop)
        else:
            merged.append((first, stop))
    return merged
