"""Filters of one model and method for many keys, with all states in one table and a batch of rows in one call."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.interfaces import Dtype, Filter
from wolf.numerics.pytree import from_dict
from wolf.online.bank import key_index, keyed_rows, serialization
from wolf.online.bank.entry import BankEntry
from wolf.online.bank.models_by_key import Choice, Group, ModelsByKey, Table
from wolf.online.bank.state_table import StateTable
from wolf.online.bank.step import BankStep, BankStepper, join_kinds
from wolf.results import Filtered, States, count
from wolf.results.conformal import Calibration, calibration_of, read_calibration
from wolf.runtime import checkpoints
from wolf.statespace import Model

if TYPE_CHECKING:
    import pyarrow


class BankStates(NamedTuple):
    """Copied states of some keys, one in each row.

    Attributes:
        numbers: floating-point entries.
        counts: integer entries.
        times: of the last rows.
    """

    numbers: np.ndarray
    counts: np.ndarray
    times: np.ndarray


class Bank:
    """Filters of one kind for many keys: sensors, vehicles, customers.

    The filter of a new key starts at the model's prior. Rows of one key are used in the order of their times, or as
    given; a batch has the same bits as its rows one by one, in any order between keys.

    Args:
        model: of all keys, or of those that `models` lacks, fixed in time. None: `models` has that of every key.
        method: as in `wolf.filter`, one that native code supports.
        models: models of keys or groups that have one of their own, or a function from a key (or group) to its model.
            A model may come with its method, as (model, method). Keys whose models differ in their numbers only are
            stepped in one call.
        group: function from a key to its group, which `models` then refers to.
        dtype: "float64" or "float32".
        calibrate: as in `wolf.filter`; results then have `prediction` and `half_width`, each key with its own radius.

    Attributes:
        late: number of rows that were older than the last row of their key, and not used.
        repeated: number of rows at the time of the last row of their key, and not used.

    Example:
        >>> import wolf
        >>> bank = wolf.Bank(wolf.models.local_level(level_var=0.1, obs_var=1.0))
        >>> out = bank.step(["a", "b", "a"], [1.0, 5.0, 1.2])
        >>> out.mean.shape, len(bank), bank["a"].t
        ((3, 1), 2, 2)
        >>> noisy = wolf.models.local_level(level_var=0.1, obs_var=9.0)
        >>> both = wolf.Bank(models={"a": bank.model, "b": noisy})
        >>> len(both.step(["a", "b", "a"], [0.0, 0.0, 1.0]).mean), both.model_of("b") is noisy
        (3, True)
    """

    def __init__(
        self,
        model: Model | None = None,
        method: str | Filter | None = None,
        *,
        models: Table | Callable[[Hashable], Choice] | None = None,
        group: Group | None = None,
        dtype: Dtype = "float64",
        calibrate: Calibration = None,
    ):
        self.dtype, self._intervals = dtype, read_calibration(calibrate)
        self._models = ModelsByKey(model, method, models, group, dtype, self._intervals)
        first = self._models.kinds[0]
        self.model, self.method = first.model, first.method
        self._arguments = {"models": models, "group": group}
        self._lock = RLock()
        extra = 0 if self._intervals is None else self.model.obs_dim
        self._states = StateTable(self._models.find, self._models.start, extra)
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
        """Filter a batch of measurements.

        Args:
            keys: of the rows: text or integers, (n,).
            ys: (n, M), or (n,) if one coordinate is measured; NaN is missing.
            times: of the rows, (n,), numbers in the unit of the model's steps or time stamps (then in seconds). Each
                step then spans the time since the previous row of its key; the first row of a key is at the prior. A
                row older than the last row of its key is late, one of the same time is repeated: neither is used.
            R: noise covariance of each row, (n, M, M), or (n, M) variances.

        Returns:
            Results of each row. A batch that is invalid changes nothing.
        """
        listed = keys.names if isinstance(keys, key_index.EncodedKeys) else keys
        index, size = self._states.index, len(keys)
        removals, found = index.removals, index.try_find(listed)
        names = None if found is not None else key_index.key_list(listed)
        values = validation.measurements(ys, self.model.obs_dim) if size else np.empty((0, self.model.obs_dim))
        if len(values) != size:
            raise ValueError(f"keys and ys must have as many rows; got {size} and {len(values)}")
        noise = None if R is None else keyed_rows.read_covariances(R, size, self.model.obs_dim)
        clock = None if times is None else keyed_rows.read_times(times, size, self.model)
        with self._lock:
            for kind in self._models.kinds:
                kind.program(clock is not None, noise is not None)  # raises, before keys are added
            rows = found if index.removals == removals else None  # else another thread has removed a key
            if rows is None:
                rows = self._states.find_or_add(key_index.key_list(listed) if names is None else names)
            rows = rows[keys.codes] if isinstance(keys, key_index.EncodedKeys) else rows
            return self._advance(rows, values, clock, noise)

    def _advance(
        self, rows: np.ndarray, ys: np.ndarray, times: np.ndarray | None, noise: np.ndarray | None
    ) -> BankStep:
        """Step the rows of each kind in one call."""
        kinds = self._models.kinds
        numbers = np.zeros(len(rows), int) if len(kinds) == 1 else self._states.models[rows, 0]
        if not numbers.any():
            return self._advance_kind(kinds[0], rows, ys, times, noise)
        parts, order = [], np.argsort(numbers, kind="stable")
        present, starts = np.unique(numbers[order], return_index=True)
        for number, some in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
            given = (None if each is None else each[some] for each in (times, noise))
            parts.append(self._advance_kind(kinds[number], rows[some], ys[some], *given))
        return join_kinds(parts, np.argsort(order, kind="stable"))

    def _advance_kind(
        self, kind: BankStepper, rows: np.ndarray, ys: np.ndarray, times: np.ndarray | None, noise: np.ndarray | None
    ) -> BankStep:
        if times is None and noise is None and keyed_rows.all_different(rows):
            return kind.advance_each(self._states, rows, ys)
        stepped, status = kind.advance(self._states, rows, ys.astype(self.dtype), times, noise)
        self.late += int(np.sum(status == keyed_rows.LATE))
        self.repeated += int(np.sum(status == keyed_rows.REPEATED))
        return stepped

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._states.index)

    def __contains__(self, key: Hashable) -> bool:
        """Return whether a key is in the bank."""
        return key in self._states.index

    def __iter__(self) -> Iterator[Hashable]:
        """Iterate over the keys."""
        return iter(list(self._states.index))

    def __getitem__(self, key: Hashable) -> BankEntry:
        """Return a copy of the filter of one key."""
        with self._lock:
            states, row = self._states, self._states.row(key)
            kind = self._models.kinds[states.models[row, 0]]
            state = kind.code.unpack(states.numbers[row], states.counts[row])
            return BankEntry(state, float(states.times[row]), kind.method)

    def add_models(self, models: Table) -> None:
        """Give keys or groups that had none a model of their own; keys that are in the bank keep theirs.

        Args:
            models: by key or group.
        """
        with self._lock:
            self._models.add(models)
            table = self._arguments["models"]
            self._arguments["models"] = {**(table if isinstance(table, Mapping) else {}), **models}
            self.__dict__.pop("_prefix", None)
            self.__dict__.pop("_header", None)

    @property
    def has_models_by_key(self) -> bool:
        """Whether keys may have models of their own."""
        return not self._models.is_single

    def model_of(self, key: Hashable) -> Model:
        """Return the model of a key, which need not be in the bank.

        Args:
            key: text or an integer.
        """
        kind, number = self._models.find([key])[0].tolist()
        return self._models.kinds[kind].given_model(number)

    def forget(self, keys: Iterable[Hashable]) -> None:
        """Remove keys; one that comes again starts at the prior.

        Args:
            keys: to remove; unknown ones are ignored.
        """
        with self._lock:
            self._states.remove(keys)

    def forget_before(self, time: Any) -> int:
        """Remove keys whose last row is older than a time.

        Args:
            time: as in `step`.

        Returns:
            Number of keys removed.
        """
        limit = keyed_rows.read_times([time], 1, self.model)[0]
        with self._lock:
            idle = [key for key, row in self._states.index.items() if self._states.times[row] < limit]
            self.forget(idle)
        return len(idle)

    @classmethod
    def from_filtered(cls, out: Filtered, keys: Sequence[Hashable]) -> "Bank":
        """Make a bank that continues filtered series.

        Args:
            out: from `wolf.filter_many` with one model for all, or from `wolf.filter` for one key.
            keys: one for each series.
        """
        return cls.from_states(out.states, keys)

    @classmethod
    def from_states(cls, states: States, keys: Sequence[Hashable]) -> "Bank":
        """Make a bank from the states of many series, one key each.

        Args:
            states: as `out.states` of `wolf.filter_many` with one model for all.
            keys: one for each series.
        """
        if isinstance(states.model, tuple):
            raise ValueError("a bank has one model for all keys; these series have one each")
        names, series = key_index.key_list(keys), len(states)
        if len(names) != series or len(set(names)) != series:
            raise ValueError(f"give one key for each series, all different: got {len(names)} keys, {series} series")
        bank = cls(states.model, states.method, dtype=states.dtype)
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(states.final)]
        code = bank._models.kinds[0].code
        bank._states.add(names, *code.pack(leaves), np.full(series, np.nan))
        return bank

    def states(self, keys: Sequence[Hashable]) -> States:
        """Return the states of keys as `wolf.filter_many(state=)` takes them; times are not part of them.

        Args:
            keys: in the bank.
        """
        if not self._models.is_single:
            raise ValueError("wolf.filter_many goes on from states of one model; this bank has models by key")
        with self._lock:
            rows = [self._states.row(key) for key in key_index.key_list(keys)]
            final = self._models.kinds[0].code.unpack(self._states.numbers[rows], self._states.counts[rows])
        return States(final, self.model, self.method, self.dtype)

    def dump(self, key: Hashable) -> bytes:
        """Encode the state of one key as bytes, for a store of your own.

        Args:
            key: in the bank.
        """
        with self._lock:
            return serialization.seal(self._prefix, self._states.to_bytes(key, self._sizes(key)))

    def restore(self, key: Hashable, state: bytes) -> None:
        """Replace the state of one key by one that `dump` encoded, in this bank or one of the same model and method.

        Args:
            key: new or in the bank.
            state: from `dump`.
        """
        with self._lock:
            sizes = self._sizes(key)
            raw = serialization.unseal(self._prefix, state, self._states.bytes_per_state(sizes))
            self._states.from_bytes(key, raw, sizes)

    def _sizes(self, key: Hashable) -> tuple[int, int]:
        """Return how many numbers and counts the state of a key has."""
        return self._models.kinds[self._models.find([key])[0, 0]].state_sizes

    @property
    def _identity(self) -> object:
        """Identity of the models of the states: one model, or all of them."""
        return self.model if self._models.is_single else (self._models.default_model, self._arguments)

    @cached_property
    def _prefix(self) -> bytes:
        return serialization.make_prefix(self._identity, self.method, self.dtype, self._intervals)

    @cached_property
    def _header(self) -> dict[str, Any]:
        return serialization.make_header(self._identity, self.method, self.dtype, self._intervals)

    def save(self, path: str | PathLike[str]) -> None:
        """Write all states to one file, atomically: after a crash the old file is intact.

        Args:
            path: of an `.npz` file; it holds numbers and text, never code.
        """
        validation.path("path", path)
        with self._lock:
            keys, arrays = self._states.copy()
        checkpoints.write(Path(path), self._header, arrays | key_index.pack(keys))

    def to_arrow(self) -> "pyarrow.Table":
        """Convert all states to an Arrow table, one row for each key: for Parquet, or another process.

        Returns:
            Columns `key` (text or integers, not both), `time`, `numbers` and `counts`; model, method and precision are
            identified by the metadata of the schema.
        """
        with self._lock:
            return serialization.to_table(*self._states.copy(), self._header)

    @classmethod
    def from_arrow(
        cls,
        table: object,
        model: Model | None = None,
        method: str | Filter | None = None,
        *,
        models: Table | Callable[[Hashable], Choice] | None = None,
        group: Group | None = None,
    ) -> "Bank":
        """Make a bank from a table that `to_arrow` returned.

        Args:
            table: a pyarrow table, or any object with `__arrow_c_stream__`; any of its rows, in any order.
            model: the same as before; a different one is an error.
            method: as in `load`.
            models: the same as before.
            group: likewise.
        """
        keys, header, arrays = serialization.from_table(table)
        chosen = from_dict(header["method"]) if method is None else method
        options = {"models": models, "group": group, "dtype": header["dtype"], "calibrate": calibration_of(header)}
        bank = cls(model, chosen, **options)
        bank._replace_all("the table", header, arrays | key_index.pack(keys))
        return bank

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        model: Model | None = None,
        method: str | Filter | None = None,
        *,
        models: Table | Callable[[Hashable], Choice] | None = None,
        group: Group | None = None,
    ) -> "Bank":
        """Load a saved bank.

        Args:
            path: written by `save`.
            model: the same as when it was saved; a different one is an error. Functions are compared by their code,
                or, if another version of Python wrote the file, by their names.
            method: needed only if the saved one has parts from outside wolf; a different one is an error.
            models: the same as when it was saved.
            group: likewise.
        """
        header, arrays = serialization.read(path)
        chosen = from_dict(header["method"]) if method is None else method
        options = {"models": models, "group": group, "dtype": header["dtype"], "calibrate": calibration_of(header)}
        bank = cls(model, chosen, **options)
        bank._replace_all(path, header, arrays)
        return bank

    def read(self, path: str | PathLike[str]) -> None:
        """Replace all states by saved ones.

        Args:
            path: written by `save` of a bank of the same model and method.
        """
        self._replace_all(path, *serialization.read(path))

    def _replace_all(
        self, where: str | PathLike[str], header: dict[str, object], arrays: dict[str, np.ndarray]
    ) -> None:
        serialization.check_header(where, header, self._identity, self.method, self.dtype, self._intervals)
        with self._lock:
            keys = key_index.unpack(arrays)
            models = self._models.find(keys)
            self._states.widen(*self._models.widths)
            if not self._models.is_single:
                arrays = arrays | self._states.padded(arrays)
            widths = self._states.numbers.shape[1], self._states.counts.shape[1]
            serialization.check_arrays(where, arrays, widths)
            self.forget(list(self._states.index))
            self._states.add(keys, arrays["numbers"], arrays["counts"], arrays["times"], models)

    def copy_states(self, keys: Sequence[Hashable]) -> BankStates:
        """Copy the states of keys, for `put_states`; new keys start at the prior.

        Args:
            keys: all different.
        """
        with self._lock:
            rows = self._states.find_or_add(key_index.key_list(keys))
            return BankStates(self._states.numbers[rows], self._states.counts[rows], self._states.times[rows])

    def put_states(self, keys: Sequence[Hashable], states: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
        """Replace the states of keys by copies from `copy_states`.

        Args:
            keys: all different.
            states: one for each key.
        """
        with self._lock:
            rows = self._states.find_or_add(key_index.key_list(keys))
            self._states.numbers[rows], self._states.counts[rows], self._states.times[rows] = states

    def last_times(self, keys: Sequence[Hashable]) -> np.ndarray:
        """Return the time of the last row of each key, (n,); NaN for unknown keys.

        Args:
            keys: of any number.
        """
        with self._lock:
            rows = np.fromiter((self._states.index.get(key, -1) for key in key_index.key_list(keys)), np.int64)
            times = self._states.times
            return np.where(rows < 0, np.nan, times[rows]) if len(times) else np.full(len(rows), np.nan)

    def __getstate__(self) -> dict[str, object]:
        """Return what the bank was made from, its counters, and copies of all states; no compiled code and no lock."""
        with self._lock:
            keys, arrays = self._states.copy()
            return {
                "model": self._models.default_model,
                "method": self.method,
                "arguments": self._arguments,
                "dtype": self.dtype,
                "intervals": self._intervals,
                "keys": keys,
                "arrays": arrays,
                "late": self.late,
                "repeated": self.repeated,
            }

    def __setstate__(self, values: dict[str, Any]) -> None:
        """Make a bank with new code and a new lock, and add the states."""
        options = {"dtype": values["dtype"], "calibrate": values["intervals"]} | values["arguments"]
        self.__init__(values["model"], values["method"], **options)  # type: ignore[misc]
        self._states.add(values["keys"], **values["arrays"])
        self.late, self.repeated = values["late"], values["repeated"]

    def __repr__(self) -> str:
        """Summarise the number of keys and their size."""
        size = self._states.numbers.nbytes + self._states.counts.nbytes
        return f"Bank: {count(len(self), 'key')}, {size:,} bytes of states"
