"""Rows that belong to keys: their times, order, noise covariances, and which are late or repeated."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.numerics.dates import date_stamps
from wolf.statespace import LinearModel, Model

ON_TIME, LATE, REPEATED = 0, 1, 2
EPOCH = np.datetime64("1970-01-01T00:00:00")
SYMMETRY_RTOL = 1e-9  # of noise covariances: rounding of a product A @ A.T


def read_covariances(R: ArrayLike | None, size: int, obs_dim: int) -> np.ndarray:
    """Validate noise covariances, one for each row.

    Args:
        R: (n, M, M), or variances (n, M).
        size: number of rows, n.
        obs_dim: number of coordinates, M.

    Returns:
        Covariances, (n, M, M).
    """
    array = validation.number_array("R", R)
    if array.shape == (size, obs_dim):
        array = array[:, :, None] * np.eye(obs_dim)
    if array.shape != (size, obs_dim, obs_dim):
        raise ValueError(f"R must have shape ({size}, {obs_dim}, {obs_dim}) or ({size}, {obs_dim}); got {array.shape}")
    symmetric = np.allclose(array, np.swapaxes(array, 1, 2), rtol=SYMMETRY_RTOL, atol=0.0)
    if not symmetric or not np.all(np.isfinite(array)) or np.any(np.linalg.eigvalsh(array)[:, 0] <= 0):
        raise ValueError("R must be symmetric and positive definite, in every row")
    return array


def read_times(times: ArrayLike, size: int, model: Model) -> np.ndarray:
    """Convert the times of rows to numbers; time stamps become seconds since 1970.

    Args:
        times: numbers or `datetime64`, (n,).
        size: number of rows, n.
        model: that is run.
    """
    if not isinstance(model, LinearModel):
        raise ValueError("times need a linear model, which has a transition over any time step")
    stamps = date_stamps(times)
    # Since 1970 and not since the first row of the batch: the clock of a bank continues from batch to batch.
    seconds = None if stamps is None else np.asarray((stamps - EPOCH) / np.timedelta64(1, "s"))
    read = validation.data_array("times", times) if seconds is None else seconds
    if read.shape != (size,) or not np.all(np.isfinite(read)):
        raise ValueError(f"times must be finite, one for each row; got {validation.short_repr(times)}")
    validation.check_times("times", read)
    return read


def classify(rows: np.ndarray, times: np.ndarray | None, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find late and repeated rows, and the time since the row before of the same key.

    Args:
        rows: row of the state of each measurement, (n,).
        times: (n,), or None.
        last: time of the last row of each state; NaN for none.

    Returns:
        `ON_TIME`, `LATE` or `REPEATED` for each row, and time steps; the first row of a key has a step of 0.
    """
    status = np.full(len(rows), ON_TIME)
    if times is None or not len(rows):
        return status, np.zeros(len(rows))
    order = order_by_state(rows, times)
    row, time = rows[order], times[order]
    first = np.r_[True, row[1:] != row[:-1]]
    known = last[row]
    before = np.where(first, known, np.r_[np.nan, time[:-1]])
    before = np.fmax(before, known)  # a late row does not set the clock back
    sorted_status = np.where(time < known, LATE, np.where(time == before, REPEATED, ON_TIME))
    step = np.where(np.isnan(before), 0.0, time - before)
    steps = np.empty(len(rows))
    status[order], steps[order] = sorted_status, np.maximum(step, 0.0)
    return status, steps


def order_by_state(rows: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return the order that sorts rows by state, then time; equal times keep their order.

    Args:
        rows: row of the state of each measurement, (n,).
        times: (n,).
    """
    sorted_pairs = (rows[1:] > rows[:-1]) | ((rows[1:] == rows[:-1]) & (times[1:] >= times[:-1]))
    return np.arange(len(rows)) if sorted_pairs.all() else np.lexsort((times, rows))  # a sorted table needs no sort


def all_different(rows: np.ndarray) -> bool:
    """Return whether no row occurs twice, without sorting."""
    if not len(rows):
        return True
    last, order = np.empty(rows.max() + 1, np.int64), np.arange(len(rows))
    last[rows] = order
    return bool(np.array_equal(last[rows], order))


def groups(rows: np.ndarray, times: np.ndarray | None, used: np.ndarray) -> Iterator[np.ndarray]:
    """Split measurements into groups of states that have equally many; each state's remain in order.

    There are at most sqrt(2 n) groups of n measurements, whether few keys occur often or many keys once.

    Args:
        rows: row of the state of each measurement, (n,).
        times: that order the measurements of a state; without them they remain as given.
        used: which measurements are used at all, (n,).

    Yields:
        Positions of the measurements of a group, (states, measurements of each).
    """
    chosen = np.flatnonzero(used)
    if not len(chosen):
        return
    order = chosen[order_by_state(rows[chosen], np.arange(len(chosen)) if times is None else times[chosen])]
    row = rows[order]
    starts = np.flatnonzero(np.r_[True, row[1:] != row[:-1]])
    lengths = np.diff(np.r_[starts, len(order)])
    for length in np.unique(lengths):
        yield order[starts[lengths == length][:, None] + np.arange(length)]
