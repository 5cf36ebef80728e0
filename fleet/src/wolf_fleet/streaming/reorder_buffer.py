"""Reorder buffer for out-of-order rows: rows are held until the watermark passes them and released in time order.

With the allowed lateness L, the watermark after row i is W(i) = max over rows j <= i of t(j) - L. A row is released as
soon as the watermark has reached its time. It is late if, on arrival, it is older than the watermark and older than
another row of its key that arrived before; a sensor whose clock lags therefore loses nothing because of other sensors.

With an idle timeout f, a key is forgotten once the watermark is more than f past its last row. Its state may or may not
have been dropped by then, depending on when cleaning up last ran. So that results do not depend on this, a row older
than W - f on arrival is late whatever is known of its key, and the next row of a forgotten key always starts from the
prior, however short the gap by its own time stamp.

Which rows are late and the order of release depend on the sequence of rows alone, not on how it is cut into batches:
the step at which a row is released is max(i, first j with W(j) >= t(i)), and rows are sorted by step, time and arrival.
"""

from collections.abc import Callable

import numpy as np

from wolf_fleet.streaming.row_parser import RowBatch, empty_batch


class ReorderBuffer:
    """Buffer that holds rows until no older row is expected.

    Args:
        allowed_lateness: how much older than the newest row a row may be, in the unit of the times.
        num_values: values per row.
        step: length of a model step in that unit; internally times are counted in steps, as in the bank.
        idle_timeout: silence after which a key is forgotten, in that unit; None for never.

    Example:
        >>> buffer = ReorderBuffer(allowed_lateness=2.0, num_values=1)
        >>> rows = RowBatch(["a", "a", "a"], np.array([1.0, 5.0, 4.0]), np.zeros((3, 1)))
        >>> released, num_late, _ = buffer.push(rows, lambda keys: np.full(len(keys), np.nan))
        >>> released.times.tolist(), buffer.pending.times.tolist(), num_late
        ([1.0], [5.0, 4.0], 0)
        >>> buffer.flush().times.tolist()
        [4.0, 5.0]
    """

    def __init__(self, allowed_lateness: float, num_values: int, step: float = 1.0, idle_timeout: float | None = None):
        self.allowed_lateness, self.latest, self.step = allowed_lateness / step, -np.inf, step
        self.idle_timeout = np.inf if idle_timeout is None else idle_timeout / step
        self.pending = empty_batch(num_values)

    @property
    def expiry_time(self) -> float:
        """Time, in steps, before which the last row of a key must lie for the key to be forgotten."""
        return self.latest - self.allowed_lateness - self.idle_timeout

    def push(self, rows: RowBatch, last_times: Callable[[list[str]], np.ndarray]) -> tuple[RowBatch, int, np.ndarray]:
        """Insert rows in order of arrival and release those that the watermark has passed.

        Args:
            rows: any number of rows.
            last_times: function from keys to the times of their last released rows, in steps; NaN for none.

        Returns:
            The released rows in order; the number of late rows; and, per released row, the time before which the last
            row of its key must lie for the key to be forgotten if the row arrived behind the watermark, else -inf.
        """
        count, waiting = len(rows.keys), len(self.pending.keys)
        if not count:
            return rows, 0, np.empty(0)
        whole = self.pending.join(rows)
        clock = whole.times / self.step
        arriving = clock[waiting:]
        newest = np.maximum.accumulate(np.concatenate([[self.latest], arriving]))
        watermarks, self.latest = newest - self.allowed_lateness, float(newest[-1])
        late = arriving < watermarks[:-1]
        if late.any():
            late &= arriving < newest_before(whole.keys, clock, last_times)[waiting:]
        late |= arriving < watermarks[:-1] - self.idle_timeout
        arrival = np.concatenate([np.full(waiting, -1), np.arange(count)])
        release_step = np.maximum(np.searchsorted(watermarks[1:], clock), arrival)
        accepted = np.concatenate([np.ones(waiting, bool), ~late])
        order = np.lexsort((clock, release_step))  # stable: ties stay in order of arrival
        self.pending = whole.take(np.flatnonzero(accepted & (release_step >= count)))
        released = order[(accepted & (release_step < count))[order]]
        behind = np.where(arriving < watermarks[:-1], watermarks[:-1] - self.idle_timeout, -np.inf)
        expiry = np.concatenate([np.full(waiting, -np.inf), behind])
        return whole.take(released), int(late.sum()), expiry[released]

    def flush(self) -> RowBatch:
        """Release all rows in order of time."""
        order = np.argsort(self.pending.times, kind="stable")
        released, self.pending = self.pending.take(order), self.pending.take(order[:0])
        return released


def newest_before(keys: list[str], clock: np.ndarray, last_times: Callable[[list[str]], np.ndarray]) -> np.ndarray:
    """Compute, per row, the newest time of its key among earlier rows, (n,); -inf where there is none."""
    codes = {key: code for code, key in enumerate(dict.fromkeys(keys))}
    known = last_times(list(codes))
    row_codes = np.fromiter((codes[key] for key in keys), np.int64, len(keys))
    # One row is put in front of each key for its last known time. The running maximum within each key is then one
    # accumulate over ranks, made larger for each later key.
    times = np.concatenate([np.where(np.isnan(known), -np.inf, known), clock])
    key = np.concatenate([np.arange(len(codes)), row_codes])
    values, rank = np.unique(times, return_inverse=True)
    order = np.argsort(key, kind="stable")
    highest = np.maximum.accumulate(rank[order] + key[order] * len(values)) - key[order] * len(values)
    newest = np.empty(len(times))
    newest[order[1:]] = values[highest[:-1]]  # the row in front of a key has no earlier rows and is dropped below
    return newest[len(codes) :]
