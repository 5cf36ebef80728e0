"""Rows that belong to keys: times, order, noise, what came late or twice."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from wolf import validation
from wolf.statespace import LinearModel, Model

FINE, LATE, TWICE = 0, 1, 2
EPOCH = np.datetime64("1970-01-01T00:00:00")


def covariances(R: Any, size: int, coordinates: int) -> np.ndarray:
    """Check noise covariances, one for each row; variances are written out."""
    array = validation.number_array("R", R)
    if array.shape == (size, coordinates):
        array = array[:, :, None] * np.eye(coordinates)
    if array.shape != (size, coordinates, coordinates):
        shapes = f"({size}, {coordinates}, {coordinates}) or ({size}, {coordinates})"
        raise ValueError(f"R must have shape {shapes}; got {array.shape}")
    symmetric = np.allclose(array, np.swapaxes(array, 1, 2), rtol=1e-9, atol=0.0)
    if not symmetric or not np.all(np.isfinite(array)) or np.any(np.linalg.eigvalsh(array)[:, 0] <= 0):
        raise ValueError("R must be symmetric and positive definite, in every row")
    return array


def read_times(times: Any, size: int, model: Model) -> np.ndarray:
    """Read the times of rows: numbers, or dates as seconds since 1970."""
    if not isinstance(model, LinearModel):
        raise ValueError("times are for linear models, which know how they move over any time")
    stamps = np.asarray(times) if hasattr(times, "dtype") or _dates(times) else None
    dated = stamps is not None and np.issubdtype(stamps.dtype, np.datetime64)
    # Since 1970, not since the first of the batch: a bank's clock goes on from batch to batch.
    seconds = np.asarray((stamps - EPOCH) / np.timedelta64(1, "s")) if dated else None
    read = validation.number_array("times", times) if seconds is None else seconds
    if read.shape != (size,) or not np.all(np.isfinite(read)):
        raise ValueError(f"times must be finite, one for each row; got {validation.short_repr(times)}")
    return read


def _dates(times: Any) -> bool:
    return isinstance(times, list | tuple) and len(times) > 0 and all(isinstance(t, np.datetime64) for t in times)


def judge(rows: np.ndarray, times: np.ndarray | None, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Say which rows are fine, late or came twice, and how long after the one before it each comes.

    Args:
        rows: of the states, (n,).
        times: (n,), or None.
        last: time of each state's last row; NaN for none.

    Returns:
        Verdicts, and gaps; the first row of a key has a gap of 0.
    """
    verdict = np.full(len(rows), FINE)
    if times is None or not len(rows):
        return verdict, np.zeros(len(rows))
    order = by_state(rows, times)
    row, time = rows[order], times[order]
    first = np.r_[True, row[1:] != row[:-1]]
    known = last[row]
    before = np.where(first, known, np.r_[np.nan, time[:-1]])
    before = np.fmax(before, known)  # a late row does not set the clock back
    some = np.where(time < known, LATE, np.where(time == before, TWICE, FINE))
    gap = np.where(np.isnan(before), 0.0, time - before)
    gaps = np.empty(len(rows))
    verdict[order], gaps[order] = some, np.maximum(gap, 0.0)
    return verdict, gaps


def by_state(rows: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Say in which order rows are of one state after the other, by time; of equal times the first that came is first.

    Args:
        rows: of the states, (n,).
        times: (n,).
    """
    later = (rows[1:] > rows[:-1]) | ((rows[1:] == rows[:-1]) & (times[1:] >= times[:-1]))
    return np.arange(len(rows)) if later.all() else np.lexsort((times, rows))  # a table sorted by key is in order


def all_different(rows: np.ndarray) -> bool:
    """Say whether no row is there twice, without sorting them."""
    if not len(rows):
        return True
    last, order = np.empty(rows.max() + 1, np.int64), np.arange(len(rows))
    last[rows] = order
    return bool(np.array_equal(last[rows], order))


def groups(rows: np.ndarray, times: np.ndarray | None, fine: np.ndarray) -> Iterator[np.ndarray]:
    """Split rows into groups of states that have as many rows each; the rows of a state stay in order.

    There are at most sqrt(2 n) groups of n rows, whether few keys come often or many once.

    Args:
        rows: of the states, (n,).
        times: that order the rows of a state; as they come without them.
        fine: which rows are taken at all.

    Yields:
        Positions of the rows of a group, (states, rows of each).
    """
    taken = np.flatnonzero(fine)
    if not len(taken):
        return
    order = taken[by_state(rows[taken], np.arange(len(taken)) if times is None else times[taken])]
    row = rows[order]
    starts = np.flatnonzero(np.r_[True, row[1:] != row[:-1]])
    lengths = np.diff(np.r_[starts, len(order)])
    for length in np.unique(lengths):
        yield order[starts[lengths == length][:, None] + np.arange(length)]
