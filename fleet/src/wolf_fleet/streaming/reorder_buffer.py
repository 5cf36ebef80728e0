"""Rows that come out of order: kept until nothing older is waited for, then let go in the order of time.

With the lateness L, W(i) = max over rows j <= i of t(j) - L is the time up to which nothing is waited for after row i.
A row is let go as soon as W has reached its time. It is late if it is older than W when it comes and older than another
row of its key that came before; a sensor with a clock of its own that lags behind loses nothing by the others.

Where keys are forgotten after a silence f, a key is forgotten once W has left its last row behind by more than f: it
may have been dropped by then, or not yet, depending on when there was time for it. So a row that is older than W - f
when it comes is late, whatever is known of its key; and the next row of a key that is forgotten starts anew, however
soon after the last one it says to have been measured.

Which rows are late, and in which order rows are let go, follows from the rows alone, not from how they are batched: the
step at which a row is let go is max(i, first j with W(j) >= t(i)), and rows are sorted by step, time and arrival.
"""

from collections.abc import Callable

import numpy as np

from wolf_fleet.streaming.row_parser import Arrived, no_rows


class Reorder:
    """Keeps rows until nothing older is waited for.

    Args:
        lateness: how much older than the newest row one may be, in the unit of the times.
        width: values in a row.
        step: length of a step of the model in that unit; inside, times are counted in steps, as the bank does.
        forget: silence after which a key is forgotten, in that unit; None for never.

    Example:
        >>> buffer = Reorder(lateness=2.0, width=1)
        >>> rows = Arrived(["a", "a", "a"], np.array([1.0, 5.0, 4.0]), np.zeros((3, 1)))
        >>> released, late, _ = buffer.push(rows, lambda keys: np.full(len(keys), np.nan))
        >>> released.times.tolist(), buffer.pending.times.tolist(), late
        ([1.0], [5.0, 4.0], 0)
        >>> buffer.flush().times.tolist()
        [4.0, 5.0]
    """

    def __init__(self, lateness: float, width: int, step: float = 1.0, forget: float | None = None):
        self.lateness, self.latest, self.step = lateness / step, -np.inf, step
        self.forget = np.inf if forget is None else forget / step
        self.pending = no_rows(width)

    @property
    def forgotten(self) -> float:
        """Time, in steps, before which a key's last row must lie for it to be forgotten."""
        return self.latest - self.lateness - self.forget

    def push(self, rows: Arrived, last_times: Callable[[list[str]], np.ndarray]) -> tuple[Arrived, int, np.ndarray]:
        """Take rows in as they came.

        Args:
            rows: any number.
            last_times: of keys, those of the last rows that were let go before, in steps; NaN for none.

        Returns:
            Rows to be let go, in order; how many were late; and for each of those that are let go, if it came when W
            had passed its time, the time before which its key's last row must lie for the key to be forgotten, else
            -inf.
        """
        count, waiting = len(rows.keys), len(self.pending.keys)
        if not count:
            return rows, 0, np.empty(0)
        whole = self.pending.join(rows)
        clock = whole.times / self.step
        now = clock[waiting:]
        newest = np.maximum.accumulate(np.r_[self.latest, now])
        limits, self.latest = newest - self.lateness, float(newest[-1])
        late = now < limits[:-1]
        if late.any():
            late &= now < newest_before(whole.keys, clock, last_times)[waiting:]
        late |= now < limits[:-1] - self.forget
        arrival = np.r_[np.full(waiting, -1), np.arange(count)]
        step = np.maximum(np.searchsorted(limits[1:], clock), arrival)
        taken = np.r_[np.ones(waiting, bool), ~late]
        order = np.lexsort((clock, step))  # stable: what came first is first
        self.pending = whole.take(np.flatnonzero(taken & (step >= count)))
        gone = order[(taken & (step < count))[order]]
        behind = np.r_[np.full(waiting, -np.inf), np.where(now < limits[:-1], limits[:-1] - self.forget, -np.inf)]
        return whole.take(gone), int(late.sum()), behind[gone]

    def flush(self) -> Arrived:
        """Let everything go: nothing more is waited for."""
        order = np.argsort(self.pending.times, kind="stable")
        released, self.pending = self.pending.take(order), self.pending.take(order[:0])
        return released


def newest_before(keys: list[str], clock: np.ndarray, last_times: Callable[[list[str]], np.ndarray]) -> np.ndarray:
    """Give for each row the newest time of its key before it, (n,); -inf for none."""
    codes = {key: code for code, key in enumerate(dict.fromkeys(keys))}
    known = last_times(list(codes))
    mine = np.fromiter((codes[key] for key in keys), np.int64, len(keys))
    # One row in front of each key for what is known of it; then the largest so far within each key, in one go over
    # ranks: those of a later key are all larger.
    times = np.r_[np.where(np.isnan(known), -np.inf, known), clock]
    key = np.r_[np.arange(len(codes)), mine]
    values, rank = np.unique(times, return_inverse=True)
    order = np.argsort(key, kind="stable")
    highest = np.maximum.accumulate(rank[order] + key[order] * len(values)) - key[order] * len(values)
    newest = np.empty(len(times))
    newest[order[1:]] = values[highest[:-1]]  # the first row of a key is what is known, and is not asked
    return newest[len(codes) :]
