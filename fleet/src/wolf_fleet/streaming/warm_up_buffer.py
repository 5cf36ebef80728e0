"""Buffer of the rows of keys whose model is not learned yet.

Which rows are released, and in which order, depends on the sequence of rows alone, not on how it is cut into batches:
with the row that completes the warm-up of a group, all rows of the group are released in order of arrival.
"""

from array import array
from collections import Counter

import numpy as np

from wolf.online.bank.bank import Bank
from wolf.statespace import LinearModel
from wolf_fleet.streaming.key_models import ModelLearner, make_model
from wolf_fleet.streaming.row_parser import JsonObject, RowBatch, empty_batch


class _HeldRows:
    """Rows of a group in order of arrival."""

    def __init__(self) -> None:
        self.keys, self.times, self.values = list[str](), array("d"), array("d")
        self.counts = Counter[str]()

    def add(self, key: str, time: float, values: np.ndarray) -> int:
        """Append a row, and return how many there are of its key."""
        self.keys.append(key)
        self.times.append(time)
        self.values.extend(values)
        self.counts[key] += 1
        return self.counts[key]

    def batch(self, num_values: int) -> RowBatch:
        """Copy the rows."""
        return RowBatch(list(self.keys), np.array(self.times), np.array(self.values).reshape(-1, num_values))


class WarmUpBuffer:
    """Rows that wait for the model of their key, and the models that were learned.

    Args:
        warm_up: what is learned.
        bank: made by it, which gets the models.
        num_values: values per row.
        step: length of a model step, in the unit of the times.
        timed: whether rows have times.

    Attributes:
        learned: name and variances of the model of each group.
    """

    def __init__(self, warm_up: ModelLearner, bank: Bank, num_values: int, step: float, timed: bool):
        self._warm_up, self._bank, self._num_values = warm_up, bank, num_values
        self._step, self._timed, self._group = step, timed, warm_up.groups
        self.learned: dict[str, JsonObject] = {}
        self._held: dict[str, _HeldRows] = {}

    @property
    def keys(self) -> set[str]:
        """Keys of the rows that wait."""
        return {key for held in self._held.values() for key in held.counts}

    @property
    def rows(self) -> RowBatch:
        """The rows that wait, group by group."""
        whole = empty_batch(self._num_values)
        for each in self._held.values():
            whole = whole.join(each.batch(self._num_values))
        return whole

    def __len__(self) -> int:
        """Count the rows that wait."""
        return sum(len(held.keys) for held in self._held.values())

    def resume(self, rows: RowBatch) -> None:
        """Hold rows that waited in an earlier run."""
        for key, time, values in zip(rows.keys, rows.times.tolist(), rows.values, strict=True):
            self._held.setdefault(self._group_of(key), _HeldRows()).add(key, time, values)

    def add_learned(self, learned: dict[str, JsonObject]) -> None:
        """Add the models that were learned earlier to the bank."""
        self.learned |= learned
        self._bank.add_models({name: self._model(each) for name, each in learned.items()})

    def push(self, rows: RowBatch) -> tuple[RowBatch, np.ndarray]:
        """Insert rows in order of arrival, and release those whose model is known.

        Returns:
            The released rows in order, and the position of each in the argument; -1 for rows that waited.
        """
        groups = rows.keys if self._group is None else [self._group(key) for key in rows.keys]
        if all(map(self.learned.__contains__, groups)):
            return rows, np.arange(len(groups))
        order: list[int] = []  # positions in the held rows that are released, and then in the argument
        before, released = list[int](), empty_batch(self._num_values)
        for i, (key, name) in enumerate(zip(rows.keys, groups, strict=True)):
            if name in self.learned:
                order.append(i)
                before.append(i)
                continue
            held = self._held.setdefault(name, _HeldRows())
            if held.add(key, float(rows.times[i]), rows.values[i]) >= self._warm_up.rows:
                some = self._learn(name, key)
                order += range(-len(released.keys) - 1, -len(released.keys) - len(some.keys) - 1, -1)
                before += [-1] * len(some.keys)
                released = released.join(some)
        index = np.array(order, np.int64)
        whole = released.join(rows)
        return whole.take(np.where(index < 0, -index - 1, index + len(released.keys))), np.array(before, np.int64)

    def flush(self) -> RowBatch:
        """Learn from what there is, and release all rows."""
        whole = empty_batch(self._num_values)
        for name in list(self._held):
            whole = whole.join(self._learn(name, self._held[name].counts.most_common(1)[0][0]))
        return whole

    def _learn(self, name: str, first: str) -> RowBatch:
        """Learn the model of a group, the longest series being that of a key, and return its rows."""
        held = self._held.pop(name)
        rows = held.batch(self._num_values)
        half = held.counts[first] / 2
        others = [key for key, size in held.counts.items() if size >= half and key != first]
        where = np.array(rows.keys, object)
        series = []
        for key in [first, *others]:
            mine = np.flatnonzero(where == key)
            series.append((rows.times[mine] / self._step if self._timed else None, rows.values[mine]))
        self.add_learned({name: self._warm_up.learn(series)})
        return rows

    def _model(self, learned: JsonObject) -> LinearModel:
        return make_model(learned["model"], learned["variances"], self._num_values)

    def _group_of(self, key: str) -> str:
        return key if self._group is None else self._group(key)
