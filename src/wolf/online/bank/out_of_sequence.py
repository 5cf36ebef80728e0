"""Out-of-sequence rows of a bank: restore the state before a late row, and repeat the rows after it."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.online.bank import key_index, keyed_rows
from wolf.online.bank.bank import Bank, BankStates
from wolf.online.bank.step import BankStep

REPEATED_ROW = -1  # position of a row of an earlier batch


class _AppliedRow(NamedTuple):
    """Row that a filter has used, and the state before it."""

    time: float
    values: np.ndarray
    before: BankStates


class _QueuedRow(NamedTuple):
    """Row to be used: its position is that in the batch, or `REPEATED_ROW`."""

    time: float
    values: np.ndarray
    position: int


class OutOfSequenceBank:
    """A bank that accepts late rows within a horizon.

    Rows and states of the last `horizon` are kept in memory for each key; `bank.save` does not write them. After each
    step the states of the bank are bit for bit those of the same rows in the order of their times.

    Args:
        bank: that is advanced; it must not be stepped directly.
        horizon: maximum age of a row relative to the newest row of its key, in the unit of the times (seconds for
            dates).

    Attributes:
        late: number of rows that were older than that, and not used.
        rewound: number of rows that were late and were inserted in order.

    Example:
        >>> import wolf
        >>> bank = wolf.Bank(wolf.models.local_level(level_var=0.1, obs_var=1.0))
        >>> ordered = OutOfSequenceBank(bank, horizon=10.0)
        >>> for t, y in ((1.0, 5.0), (3.0, 5.2), (2.0, 5.1)):
        ...     out = ordered.step(["a"], [y], [t])
        >>> bank["a"].t, bank["a"].time, ordered.rewound
        (3, 3.0, 1)
    """

    def __init__(self, bank: Bank, horizon: float):
        if not isinstance(bank, Bank):
            raise ValueError(f"bank must be a wolf.Bank; got {validation.short_repr(bank)}")
        self.bank, self.horizon = bank, validation.positive_number("horizon", horizon)
        self.late = self.rewound = 0
        self._applied: dict[Hashable, list[_AppliedRow]] = defaultdict(list)

    def step(self, keys: Sequence[Hashable] | np.ndarray, ys: ArrayLike, times: ArrayLike) -> BankStep:
        """Filter a batch of measurements.

        Args:
            keys: as in `Bank.step`.
            ys: as in `Bank.step`.
            times: as in `Bank.step`; a row of the same time as another row of its key is repeated, and not used.

        Returns:
            Results of each row at its own time. Results of earlier rows that were repeated are not reported.
        """
        names = key_index.key_list(keys)
        obs_dim = self.bank.model.obs_dim
        values = validation.measurements(ys, obs_dim) if names else np.empty((0, obs_dim))
        if len(values) != len(names):
            raise ValueError(f"keys and ys must have as many rows; got {len(names)} and {len(values)}")
        clock = keyed_rows.read_times(times, len(names), self.bank.model)
        empty = self.bank.step([], values[:0], clock[:0])
        outputs = [None if each is None else _blank(each, len(names)) for each in empty]
        queues = self._make_queues(names, values, clock)
        while queues:
            self._step_round({key: queue.pop() for key, queue in queues.items()}, outputs)
            queues = {key: queue for key, queue in queues.items() if queue}
        for key in set(names):
            applied = self._applied[key]
            limit = applied[-1].time - self.horizon if applied else 0.0
            self._applied[key] = [row for row in applied if row.time >= limit]
        return BankStep._make(outputs)

    def _make_queues(
        self, names: list[Hashable], values: np.ndarray, clock: np.ndarray
    ) -> dict[Hashable, list[_QueuedRow]]:
        """Restore the state of each key before its oldest row, and queue the rows from there on, the first one last."""
        queues: dict[Hashable, list[_QueuedRow]] = defaultdict(list)
        for i, (key, time) in enumerate(zip(names, clock.tolist(), strict=True)):
            newest = self._applied[key][-1].time if self._applied[key] else -np.inf
            if time < newest - self.horizon:
                self.late += 1
                continue
            self.rewound += time < newest and all(row.time != time for row in self._applied[key])
            queues[key].append(_QueuedRow(time, values[i], i))
        for key, queue in queues.items():
            oldest, applied = min(row.time for row in queue), self._applied[key]
            undone = [row for row in applied if row.time > oldest]
            if undone:
                self.bank.put_states([key], undone[0].before)
                self._applied[key] = applied[: len(applied) - len(undone)]
            queue += [_QueuedRow(row.time, row.values, REPEATED_ROW) for row in undone]
            # Popped from the end: among equal times rows of earlier batches first, then those of this one in order.
            queue.sort(key=lambda row: (row.time, row.position), reverse=True)
        return dict(queues)

    def _step_round(self, rows: dict[Hashable, _QueuedRow], outputs: list[np.ndarray | None]) -> None:
        """Advance each of some keys by one row, and store results of rows of this batch."""
        keys = list(rows)
        times, values, positions = zip(*rows.values(), strict=True)
        before = self.bank.copy_states(keys)
        stepped = self.bank.step(keys, np.array(values), np.array(times))
        where = np.array(positions)
        new = np.flatnonzero(where != REPEATED_ROW)
        for output, each in zip(outputs, stepped, strict=True):
            if output is not None and each is not None:
                output[where[new]] = each[new]
        for i in np.flatnonzero(stepped.used).tolist():
            state = BankStates(*(each[i : i + 1] for each in before))
            self._applied[keys[i]].append(_AppliedRow(times[i], values[i], state))


def _blank(like: np.ndarray, size: int) -> np.ndarray:
    return np.full((size, *like.shape[1:]), np.nan if like.dtype.kind == "f" else False, like.dtype)
