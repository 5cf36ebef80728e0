"""Late rows of a bank: go back to where a row belongs, and take those after it again."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.online.bank import key_index, keyed_rows
from wolf.online.bank.bank import Bank
from wolf.online.bank.step import BankStep


class _Taken(NamedTuple):
    """A row that a key has taken, and its state before it."""

    time: float
    values: np.ndarray
    before: tuple[np.ndarray, np.ndarray, np.ndarray]


class OutOfSequenceBank:
    """A bank that takes late rows within a horizon.

    Rows and states of the last `horizon` are kept for each key, in memory; they are not part of what `bank.save`
    writes. After each step the states of the bank are those of the same rows in the order of their times, bit for bit.

    Args:
        bank: whose states are advanced; nobody else should step it.
        horizon: how much older than its key's newest row a row may be, in the unit of the times (seconds for dates).

    Attributes:
        late: rows that were older than that, and not used.
        rewound: rows that came late and were put where they belong.

    Example:
        >>> import wolf
        >>> bank = wolf.Bank(wolf.models.local_level(level_var=0.1, obs_var=1.0))
        >>> patient = OutOfSequenceBank(bank, horizon=10.0)
        >>> for t, y in ((1.0, 5.0), (3.0, 5.2), (2.0, 5.1)):
        ...     out = patient.step(["a"], [y], [t])
        >>> bank["a"].t, bank["a"].time, patient.rewound
        (3, 3.0, 1)
    """

    def __init__(self, bank: Bank, horizon: float):
        if not isinstance(bank, Bank):
            raise ValueError(f"bank must be a wolf.Bank; got {validation.short_repr(bank)}")
        self.bank, self.horizon = bank, validation.positive_number("horizon", horizon)
        self.late = self.rewound = 0
        self._taken: dict[Hashable, list[_Taken]] = defaultdict(list)

    def step(self, keys: Sequence[Hashable] | np.ndarray, ys: ArrayLike, times: ArrayLike) -> BankStep:
        """Take in a batch of measurements.

        Args:
            keys: as in `Bank.step`.
            ys: likewise.
            times: likewise; one of the same time as another row of its key came twice, and is not used.

        Returns:
            What each row came to at its own time. Rows of before that were taken again are not told.
        """
        names = key_index.names(keys)
        values = (
            validation.measurements(ys, self.bank.model.obs_dim) if names else np.empty((0, self.bank.model.obs_dim))
        )
        if len(values) != len(names):
            raise ValueError(f"keys and ys must have as many rows; got {len(names)} and {len(values)}")
        clock = keyed_rows.read_times(times, len(names), self.bank.model)
        told = self.bank.step([], values[:0], clock[:0])
        outputs = [None if each is None else _blank(each, len(names)) for each in told]
        queues = self._queues(names, values, clock)
        while queues:
            self._round({key: queue.pop() for key, queue in queues.items()}, outputs)
            queues = {key: queue for key, queue in queues.items() if queue}
        for key in set(names):
            taken = self._taken[key]
            limit = taken[-1].time - self.horizon if taken else 0.0
            self._taken[key] = [row for row in taken if row.time >= limit]
        return BankStep._make(outputs)

    def _queues(
        self, names: list[Hashable], values: np.ndarray, clock: np.ndarray
    ) -> dict[Hashable, list[tuple[float, np.ndarray, int]]]:
        """Give for each key the rows that it takes: time, values and position; from the last, to be popped.

        Rows that were taken before have position -1, and come before new ones of the same time.
        """
        queues: dict[Hashable, list[tuple[float, np.ndarray, int]]] = defaultdict(list)
        for i, (key, time) in enumerate(zip(names, clock.tolist(), strict=True)):
            newest = self._taken[key][-1].time if self._taken[key] else -np.inf
            if time < newest - self.horizon:
                self.late += 1
                continue
            self.rewound += time < newest and all(row.time != time for row in self._taken[key])
            queues[key].append((time, values[i], i))
        for key, queue in queues.items():
            oldest, taken = min(row[0] for row in queue), self._taken[key]
            again = [row for row in taken if row.time > oldest]
            if again:
                self.bank.put_states([key], again[0].before)
                self._taken[key] = taken[: len(taken) - len(again)]
            queue += [(row.time, row.values, -1) for row in again]
            # Of equal times the first that came is popped first: it is behind the others.
            queue.sort(key=lambda row: (row[0], row[2]), reverse=True)
        return dict(queues)

    def _round(self, rows: dict[Hashable, tuple[float, np.ndarray, int]], outputs: list[Any]) -> None:
        """Take one row of each of some keys."""
        keys = list(rows)
        times, values, places = zip(*rows.values(), strict=True)
        before = self.bank.copy_states(keys)
        stepped = self.bank.step(keys, np.array(values), np.array(times))
        where = np.array(places)
        new = np.flatnonzero(where >= 0)
        for output, each in zip(outputs, stepped, strict=True):
            if output is not None and each is not None:
                output[where[new]] = each[new]
        for i in np.flatnonzero(stepped.used).tolist():
            state = tuple(each[i : i + 1] for each in before)
            self._taken[keys[i]].append(_Taken(times[i], values[i], state))  # type: ignore[arg-type]


def _blank(like: np.ndarray, size: int) -> np.ndarray:
    return np.full((size, *like.shape[1:]), np.nan if like.dtype.kind == "f" else False, like.dtype)
