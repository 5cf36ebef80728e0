"""Many filters at once, one for each key: states in one matrix, a batch of measurements in one call."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.execution import backend_selection, validate
from wolf.interfaces import Dtype, Filter
from wolf.numerics.pytree import from_dict
from wolf.online.bank import key_index, keyed_rows, serialization
from wolf.online.bank.entry import BankEntry
from wolf.online.bank.state_table import StateTable
from wolf.online.bank.step import BankStep, BankStepper
from wolf.results import Filtered, States, count
from wolf.runtime import checkpoints
from wolf.statespace import Model, time_axes


class Bank:
    """Filters of one kind for many keys: sensors, vehicles, customers.

    A key that was not seen before starts at the model's prior. Rows of one key are taken in the order of their times,
    or as they come; a batch gives the same bits as its rows one by one, in any order between keys.

    Args:
        model: one for all keys, fixed in time.
        method: as in `wolf.filter`, one that native code can run.
        dtype: "float64" or "float32".

    Example:
        >>> import wolf
        >>> bank = wolf.Bank(wolf.models.local_level(level_var=0.1, obs_var=1.0))
        >>> out = bank.step(["a", "b", "a"], [1.0, 5.0, 1.2])
        >>> out.mean.shape, len(bank), bank["a"].t
        ((3, 1), 2, 2)
    """

    def __init__(self, model: Model, method: str | Filter | None = None, *, dtype: Dtype = "float64"):
        self.model, self.dtype = model, dtype
        self.method = validate.resolve_method(method, model)
        suited = validate.adapt_model(model, self.method, 0)
        validate.check_options(dtype, "all")
        if time_axes(model):
            raise ValueError("a bank takes models that are fixed in time; tell the times of measurements by times=")
        if model.takes_inputs:
            raise ValueError("a bank takes models without inputs")
        reason = backend_selection.unsupported_reason("native", model, self.method, None)
        if reason is not None:
            raise ValueError(
                f"a bank runs by native code, which is not for this filter: {reason.detail}; use wolf.filter_many"
            )
        self._kind = (model, self.method, dtype)
        self._lock, self._advancer = RLock(), BankStepper(suited, self.method, dtype)
        self._code = self._advancer.ready(False, False).code
        self._held = StateTable(self._advancer.ready(False, False).start)
        self.late = 0
        self.repeated = 0

    def step(
        self,
        keys: Sequence[Hashable] | np.ndarray | key_index.EncodedKeys,
        ys: ArrayLike,
        times: ArrayLike | None = None,
        *,
        R: ArrayLike | None = None,
    ) -> BankStep:
        """Take in a batch of measurements.

        Args:
            keys: whose each row is: text or integers, (n,).
            ys: (n, M), or (n,) if one thing is measured; NaN is missing.
            times: of each row, (n,), numbers in the unit of the model's steps or time stamps (then in seconds). Each
                step then takes the time since the row before it of its key; the first one of a key is at the prior.
                A row that is older than its key's last one is late, one of the same time came twice: neither is used.
            R: noise covariance of each row, (n, M, M), or (n, M) variances.

        Returns:
            What each row came to. A batch that is refused changes nothing.
        """
        listed = keys.names if isinstance(keys, key_index.EncodedKeys) else keys
        drops, found = self._held.rows.drops, self._held.rows.find(listed)
        names = None if found is not None else key_index.names(listed)
        size = len(keys)
        values = validation.measurements(ys, self.model.obs_dim) if size else np.empty((0, self.model.obs_dim))
        if len(values) != size:
            raise ValueError(f"keys and ys must have as many rows; got {size} and {len(values)}")
        noise = None if R is None else keyed_rows.covariances(R, size, self.model.obs_dim)
        when = None if times is None else keyed_rows.read_times(times, size, self.model)
        with self._lock:
            self._advancer.ready(when is not None, noise is not None)  # what it cannot do is refused here
            rows = found if self._held.rows.drops == drops else None  # else another thread has dropped a key
            if rows is None:
                rows = self._held.find(key_index.names(listed) if names is None else names)
            rows = rows[keys.codes] if isinstance(keys, key_index.EncodedKeys) else rows
            if times is None and R is None and keyed_rows.all_different(rows):
                return self._advancer.advance_each(self._held, rows, values)
            stepped, verdict = self._advancer.advance(self._held, rows, values.astype(self.dtype), when, noise)
            self.late += int(np.sum(verdict == keyed_rows.LATE))
            self.repeated += int(np.sum(verdict == keyed_rows.TWICE))
            return stepped

    def __len__(self) -> int:
        """Count the keys."""
        return len(self._held.rows)

    def __contains__(self, key: Hashable) -> bool:
        """Say whether a key was seen."""
        return key in self._held.rows

    def __iter__(self) -> Iterator[Hashable]:
        """Go through the keys."""
        return iter(list(self._held.rows))

    def __getitem__(self, key: Hashable) -> BankEntry:
        """Give what is known about one key."""
        with self._lock:
            held, row = self._held, self._held.row(key)
            state = self._code.unpack(held.numbers[row].copy(), held.counts[row].copy())
            return BankEntry(state, float(held.times[row]), self.method)

    def forget(self, keys: Iterable[Hashable]) -> None:
        """Drop keys; one that comes again starts at the prior.

        Args:
            keys: those to drop; unknown ones are passed over.
        """
        with self._lock:
            self._held.drop(keys)

    def forget_before(self, time: Any) -> int:
        """Drop keys that were last heard of before a time.

        Args:
            time: as in `step`.

        Returns:
            How many were dropped.
        """
        limit = keyed_rows.read_times([time], 1, self.model)[0]
        with self._lock:
            idle = [key for key, row in self._held.rows.items() if self._held.times[row] < limit]
            self.forget(idle)
        return len(idle)

    @classmethod
    def from_filtered(cls, out: Filtered, keys: Sequence[Hashable]) -> "Bank":
        """Go on where filtered series ended.

        Args:
            out: from `wolf.filter_many` with one model for all, or from `wolf.filter` for one key.
            keys: one for each series.
        """
        return cls.from_states(out.states, keys)

    @classmethod
    def from_states(cls, states: States, keys: Sequence[Hashable]) -> "Bank":
        """Give states of many series a key each, and go on from there.

        Args:
            states: as `out.states` of `wolf.filter_many` with one model for all.
            keys: one for each series.
        """
        if isinstance(states.model, tuple):
            raise ValueError("a bank has one model for all keys; these series have one each")
        names, series = key_index.names(keys), len(states)
        if len(names) != series or len(set(names)) != series:
            raise ValueError(f"give one key for each series, all different: got {len(names)} keys, {series} series")
        bank = cls(states.model, states.method, dtype=states.dtype)
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(states.final)]
        bank._held.add(names, *bank._code.pack(leaves), np.full(series, np.nan))
        return bank

    def states(self, keys: Sequence[Hashable]) -> States:
        """Give the states of keys as `wolf.filter_many(state=)` takes them; times are not part of them.

        Args:
            keys: that were seen.
        """
        with self._lock:
            rows = [self._held.row(key) for key in key_index.names(keys)]
            final = self._code.unpack(self._held.numbers[rows], self._held.counts[rows])
        return States(final, self.model, self.method, self.dtype)

    def dump(self, key: Hashable) -> bytes:
        """Give the state of one key as bytes, for a store of your own.

        Args:
            key: that was seen.
        """
        with self._lock:
            return serialization.stamp(*self._kind) + self._held.to_bytes(key)

    def restore(self, key: Hashable, state: bytes) -> None:
        """Put back what `dump` gave, of this bank or of another one of the same model and method.

        Args:
            key: that gets the state.
            state: from `dump`.
        """
        stamp = serialization.stamp(*self._kind)
        with self._lock:
            if not state.startswith(stamp) or len(state) != len(stamp) + self._held.size:
                raise ValueError("these bytes are the state of another model, method or version")
            self._held.from_bytes(key, state[len(stamp) :])

    def save(self, path: str | PathLike[str]) -> None:
        """Write all states to one file, whole or not at all: a crash leaves the old file.

        Args:
            path: of an `.npz` file; it holds numbers and text, never code.
        """
        validation.path("path", path)
        with self._lock:
            keys, arrays = self._held.states()
        checkpoints.write(Path(path), serialization.header(*self._kind), arrays | key_index.pack(keys))

    def to_arrow(self) -> Any:
        """Give all states as an Arrow table, one row for each key: for Parquet, or another process.

        Returns:
            Columns `key` (text or integers, not both), `time`, `numbers` and `counts`; what the states are of is in the
            schema's metadata.
        """
        with self._lock:
            return serialization.pack(*self._held.states(), serialization.header(*self._kind))

    @classmethod
    def from_arrow(cls, table: Any, model: Model, method: str | Filter | None = None) -> "Bank":
        """Pick up a bank that `to_arrow` laid out.

        Args:
            table: a pyarrow table, or what has `__arrow_c_stream__`; any of its rows, in any order.
            model: the same as it was; a different one is an error.
            method: as in `load`.
        """
        validate.check_model(model)
        keys, header, arrays = serialization.unpack(table)
        bank = cls(model, from_dict(header["method"]) if method is None else method, dtype=header["dtype"])
        bank._take_over("the table", header, arrays | key_index.pack(keys))
        return bank

    @classmethod
    def load(cls, path: str | PathLike[str], model: Model, method: str | Filter | None = None) -> "Bank":
        """Pick up a saved bank.

        Args:
            path: written by `save`.
            model: the same as when it was saved; a different one is an error.
            method: needed only if the saved one has parts from outside wolf; a different one is an error.
        """
        validate.check_model(model)
        header, arrays = serialization.read(path)
        bank = cls(model, from_dict(header["method"]) if method is None else method, dtype=header["dtype"])
        bank._take_over(path, header, arrays)
        return bank

    def read(self, path: str | PathLike[str]) -> None:
        """Replace all states by saved ones.

        Args:
            path: written by `save` of a bank of the same model and method.
        """
        self._take_over(path, *serialization.read(path))

    def _take_over(self, path: Any, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        serialization.check_header(path, header, *self._kind)
        shape = self._held.numbers.shape[1], self._held.counts.shape[1]
        if (arrays["numbers"].shape[1], arrays["counts"].shape[1]) != shape:
            raise ValueError(f"{path} holds states of another shape, or is damaged")
        with self._lock:
            self.forget(list(self._held.rows))
            self._held.add(key_index.unpack(arrays), arrays["numbers"], arrays["counts"], arrays["times"])

    def copy_states(self, keys: Sequence[Hashable]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Copy the states of keys, as arrays that `put_states` takes; new keys start at the prior.

        Args:
            keys: all different.
        """
        with self._lock:
            rows = self._held.find(key_index.names(keys))
            return self._held.numbers[rows], self._held.counts[rows], self._held.times[rows]

    def put_states(self, keys: Sequence[Hashable], states: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
        """Put back what `copy_states` gave.

        Args:
            keys: all different.
            states: of as many.
        """
        with self._lock:
            rows = self._held.find(key_index.names(keys))
            self._held.numbers[rows], self._held.counts[rows], self._held.times[rows] = states

    def last_times(self, keys: Sequence[Hashable]) -> np.ndarray:
        """Give the time of the last row of each key, (n,); NaN for a key that is not there.

        Args:
            keys: of any number.
        """
        with self._lock:
            rows = np.fromiter((self._held.rows.get(key, -1) for key in key_index.names(keys)), np.int64)
            times = self._held.times
            return np.where(rows < 0, np.nan, times[rows]) if len(times) else np.full(len(rows), np.nan)

    def __repr__(self) -> str:
        """Tell how many there are."""
        size = self._held.numbers.nbytes + self._held.counts.nbytes
        return f"Bank: {count(len(self), 'key')}, {size:,} bytes of states"
