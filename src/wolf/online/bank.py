"""Many filters at once, one for each key: states in one matrix, a batch of measurements in one call."""

import dataclasses
from collections.abc import Hashable, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from wolf import checks, entry, native, storage
from wolf.native import run_rows
from wolf.native.kinds import take_apart
from wolf.numerics import linalg
from wolf.numerics.fingerprints import fingerprint
from wolf.numerics.pytree import from_dict, to_dict
from wolf.online import directory, keyed, tables
from wolf.protocols import Dtype, Filter, Info
from wolf.results import Filtered, States, count, describe_state
from wolf.statespace import LinearModel, Model, time_axes
from wolf.statespace.arrays import replace

FORMAT = "wolf-bank"
FORMAT_VERSION = 1
HEADER = ("dtype", "method", "fingerprints")
EPOCH = np.datetime64("1970-01-01T00:00:00")
PROBES = np.array([0.37, 1.0, 2.9])  # times over which a model moves, to see which entries are always 0 or 1


class Stepped(NamedTuple):
    """What a batch of measurements came to, row by row in the order that they were given.

    Attributes:
        mean: of the state after the row, (n, D); NaN where the row was not used.
        variances: of the state, (n, D).
        weight: w of each row, or of each coordinate.
        outlier: whether a measurement came and is more likely an outlier than not.
        used: False for rows that came late, or twice.
        signal: mean of what a perfect sensor would say, H times the mean, (n, M); None if the model is not linear.
        signal_variances: its variances, (n, M).
    """

    mean: np.ndarray
    variances: np.ndarray
    weight: np.ndarray
    outlier: np.ndarray
    used: np.ndarray
    signal: np.ndarray | None = None
    signal_variances: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class _Kept:
    """Keeps what `Stepped` shows; `rows` are those of H, if the model is linear."""

    rows: tuple[tuple[float, ...], ...] | None

    def __call__(self, state: Any, info: Info) -> dict[str, Any]:
        """Pick it out of a step."""
        kept = {"mean": state.mean, "variances": state.variances, "weight": info.weight, "outlier": info.outlier}
        if self.rows is None or state.cov is None:
            return kept
        row = jnp.asarray(self.rows, state.mean.dtype)
        seen = {"signal": linalg.matvec(row, state.mean)}
        return kept | seen | {"signal_variances": linalg.diagonal(linalg.sandwich(row, state.cov))}


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
        self.method = entry.resolve_method(method, model)
        suited = entry.suit(model, self.method, 0)
        entry.check_options(dtype, "all")
        if time_axes(model):
            raise ValueError("a bank takes models that are fixed in time; tell the times of measurements by times=")
        if model.takes_inputs:
            raise ValueError("a bank takes models without inputs")
        reason = native.why_not("native", model, self.method, None)
        if reason is not None:
            raise ValueError(
                f"a bank runs by native code, which is not for this filter: {reason}; use wolf.filter_many"
            )
        self._suited, self._lock = suited, RLock()
        rows = np.asarray(suited.H).tolist() if isinstance(suited, LinearModel) else None
        self._kept = _Kept(None if rows is None else tuple(map(tuple, rows)))
        self._codes: dict[tuple[bool, bool], native.Prepared] = {}
        usual = self._ready(False, False)
        self._numbers, self._counts = (np.empty((0, first.shape[1]), first.dtype) for first in usual.start(1))
        self._times = np.empty(0)
        self._rows = directory.Directory()
        self._free: list[int] = []
        self.late = 0
        self.repeated = 0

    def _ready(self, timed: bool, noisy: bool) -> native.Prepared:
        """Get the code for rows with or without times of their own, and noise of their own."""
        if (timed, noisy) not in self._codes:
            model = self._suited
            changes: dict[str, np.ndarray] = {}
            if timed:
                dynamics, noise = model.over(PROBES)
                changes |= {"F": np.array(dynamics), "Q": np.array(noise)}
            if noisy:
                name = "R" if model.linear else "obs_cov"
                changes[name] = np.stack([np.asarray(model.obs_cov)] * (len(PROBES) if timed else 1))
            general = frozenset({"R", "obs_cov"} & changes.keys())
            model = replace(model, **changes) if changes else model
            given = take_apart([model], self.method, self.dtype, False, None, self._kept, general)
            try:
                self._codes[timed, noisy] = native.Prepared(given)
            except native.UNSUITED as error:
                raise ValueError(f"a bank runs by native code, which is not for this filter: {error}") from error
        return self._codes[timed, noisy]

    def step(
        self,
        keys: Sequence[Hashable] | np.ndarray | directory.Coded,
        ys: ArrayLike,
        times: ArrayLike | None = None,
        *,
        R: ArrayLike | None = None,
    ) -> Stepped:
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
        listed = keys.names if isinstance(keys, directory.Coded) else keys
        names = None if self._rows.find(listed) is not None else directory.names(listed)
        size = len(keys)
        values = checks.measurements(ys, self.model.obs_dim) if size else np.empty((0, self.model.obs_dim))
        if len(values) != size:
            raise ValueError(f"keys and ys must have as many rows; got {size} and {len(values)}")
        noise = None if R is None else keyed.covariances(R, size, self.model.obs_dim)
        when = None if times is None else read_times(times, size, self.model)
        with self._lock:
            ready = self._ready(when is not None, noise is not None)
            rows = self._rows.find(listed) if names is None else None  # again: another thread may have dropped a key
            if rows is None:
                rows = self._find(directory.names(listed) if names is None else names)
            rows = rows[keys.codes] if isinstance(keys, directory.Coded) else rows
            if times is None and R is None and keyed.all_different(rows):
                return self._advance_each(ready, rows, values)
            return self._advance(ready, rows, values.astype(self.dtype), when, noise)

    def _advance_each(self, ready: native.Prepared, rows: np.ndarray, ys: np.ndarray) -> Stepped:
        """Take one row of each key: what is told lies where it was made."""
        facts = ready.code.facts
        outputs = [np.empty((len(rows), 1, *each.shape), each.dtype) for each in facts.outputs]
        given = {"y": np.ascontiguousarray(ys, self.dtype)[:, None]}
        run_rows(ready.code, ready.kept, self._numbers, self._counts, given, index=rows, outputs=outputs)
        told = jax.tree.unflatten(facts.saved, [array[:, 0] for array in outputs])
        return Stepped(**told, used=np.ones(len(rows), bool))

    def _advance(
        self,
        ready: native.Prepared,
        rows: np.ndarray,
        ys: np.ndarray,
        times: np.ndarray | None,
        noise: np.ndarray | None,
    ) -> Stepped:
        """Take rows group by group: the keys of a group have as many rows each."""
        size = len(rows)
        outputs = {
            name: np.full((size, *each.shape), np.nan if each.kind == "f" else False, each.dtype)
            for name, each in jax.tree.unflatten(ready.code.facts.saved, ready.code.facts.outputs).items()
        }
        used, gaps = keyed.judge(rows, times, self._times)
        self.late += int(np.sum(used == keyed.LATE))
        self.repeated += int(np.sum(used == keyed.TWICE))
        for some in keyed.groups(rows, times, used == keyed.FINE):
            given: dict[str, np.ndarray] = {"y": np.ascontiguousarray(ys[some])}
            varying: dict[str, np.ndarray] = {}
            if times is not None:
                varying |= dict(zip("FQ", self._over(gaps[some]), strict=True))
            if noise is not None:
                varying["R"] = noise[some]
            # The fields of a linear model are in the order F, H, Q, R, and so are the rows that its code reads.
            for i, name in enumerate(sorted(varying)):
                given[f"now{i}"] = np.ascontiguousarray(varying[name], self.dtype)
            index = rows[some[:, 0]]
            saved = run_rows(ready.code, ready.kept, self._numbers, self._counts, given, index=index, threads=1)
            for name, array in saved.items():
                outputs[name][some] = array
            if times is not None:
                self._times[index] = times[some[:, -1]]
        return Stepped(**outputs, used=used == keyed.FINE)

    def _over(self, gaps: np.ndarray) -> list[np.ndarray]:
        """Give F and Q of a group's steps, (states, rows, D, D), or (rows, D, D) where all states step alike."""
        if np.array_equal(gaps, np.broadcast_to(gaps[0], gaps.shape)):
            return [np.asarray(each) for each in self._suited.over(gaps[0])]
        few, which = np.unique(gaps, return_inverse=True)  # sensors have clocks: there are few lengths of steps
        return [each[which.reshape(gaps.shape)] for each in self._suited.over(few)]

    def _find(self, names: list[Hashable]) -> np.ndarray:
        """Find the row of each key, and make rows for new ones, at the prior."""
        try:
            return np.fromiter(map(self._rows.__getitem__, names), np.int64, len(names))
        except KeyError:
            fresh = [name for name in dict.fromkeys(names) if name not in self._rows]
        self._add(fresh, *self._ready(False, False).start(len(fresh)), np.full(len(fresh), np.nan))
        return self._find(names)

    def _add(self, names: list[Hashable], numbers: np.ndarray, counts: np.ndarray, times: np.ndarray) -> None:
        """Put states of new keys into free rows."""
        missing = len(names) - len(self._free)
        if missing > 0:
            old = len(self._numbers)
            new = max(missing, old, 16)
            self._numbers, self._counts = (
                np.concatenate([each, np.zeros((new, each.shape[1]), each.dtype)])
                for each in (self._numbers, self._counts)
            )
            self._times = np.concatenate([self._times, np.full(new, np.nan)])
            self._free += range(old + new - 1, old - 1, -1)
        where = [self._free.pop() for _ in names]
        self._numbers[where], self._counts[where], self._times[where] = numbers, counts, times
        self._rows.put(names, where)

    def __len__(self) -> int:
        """Count the keys."""
        return len(self._rows)

    def __contains__(self, key: Hashable) -> bool:
        """Say whether a key was seen."""
        return key in self._rows

    def __iter__(self) -> Iterator[Hashable]:
        """Go through the keys."""
        return iter(list(self._rows))

    def __getitem__(self, key: Hashable) -> "Held":
        """Give what is known about one key."""
        with self._lock:
            row = self._row(key)
            state = self._ready(False, False).code.unpack(self._numbers[row].copy(), self._counts[row].copy())
            return Held(state, float(self._times[row]))

    def _row(self, key: Hashable) -> int:
        if key not in self._rows:
            raise KeyError(f"{key!r} is not in the bank, which has {count(len(self), 'key')}")
        return self._rows[key]

    def forget(self, keys: Iterable[Hashable]) -> None:
        """Drop keys; one that comes again starts at the prior.

        Args:
            keys: those to drop; unknown ones are passed over.
        """
        with self._lock:
            gone = [key for key in keys if key in self._rows]
            self._free += [self._rows.drop(key) for key in gone]

    def forget_before(self, time: Any) -> int:
        """Drop keys that were last heard of before a time.

        Args:
            time: as in `step`.

        Returns:
            How many were dropped.
        """
        limit = read_times([time], 1, self.model)[0]
        with self._lock:
            idle = [key for key, row in self._rows.items() if self._times[row] < limit]
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
        names, series = directory.names(keys), len(states)
        if len(names) != series or len(set(names)) != series:
            raise ValueError(f"give one key for each series, all different: got {len(names)} keys, {series} series")
        bank = cls(states.model, states.method, dtype=states.dtype)
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(states.final)]
        bank._add(names, *bank._ready(False, False).code.pack(leaves), np.full(series, np.nan))
        return bank

    def states(self, keys: Sequence[Hashable]) -> States:
        """Give the states of keys as `wolf.filter_many(state=)` takes them; times are not part of them.

        Args:
            keys: that were seen.
        """
        with self._lock:
            rows = [self._row(key) for key in directory.names(keys)]
            final = self._ready(False, False).code.unpack(self._numbers[rows], self._counts[rows])
        return States(final, self.model, self.method, self.dtype)

    def dump(self, key: Hashable) -> bytes:
        """Give the state of one key as bytes, for a store of your own.

        Args:
            key: that was seen.
        """
        self[key]
        row = self._rows[key]
        parts = (self._stamp, self._times[row].tobytes(), self._numbers[row].tobytes(), self._counts[row].tobytes())
        return b"".join(parts)

    def restore(self, key: Hashable, state: bytes) -> None:
        """Put back what `dump` gave, of this bank or of another one of the same model and method.

        Args:
            key: that gets the state.
            state: from `dump`.
        """
        sizes = self._numbers.shape[1] * self._numbers.itemsize, 4 * self._counts.shape[1]
        if state[:16] != self._stamp or len(state) != 24 + sum(sizes):
            raise ValueError("these bytes are the state of another model, method or version")
        time = np.frombuffer(state, np.float64, 1, 16)
        numbers = np.frombuffer(state, self.dtype, self._numbers.shape[1], 24)
        counts = np.frombuffer(state, np.int32, self._counts.shape[1], 24 + sizes[0])
        with self._lock:
            self.forget([key])
            self._add([key], numbers[None], counts[None], time)

    @property
    def _stamp(self) -> bytes:
        """Tell banks apart: model, method, precision and version of the format."""
        told = fingerprint({"model": self.model, "method": self.method}) + f" {self.dtype} {FORMAT_VERSION}"
        return bytes.fromhex(fingerprint(np.frombuffer(told.encode(), np.uint8)))[:16]

    def save(self, path: str | PathLike[str]) -> None:
        """Write all states to one file, whole or not at all: a crash leaves the old file.

        Args:
            path: of an `.npz` file; it holds numbers and text, never code.
        """
        checks.path("path", path)
        with self._lock:
            keys, rows = list(self._rows), list(self._rows.values())
            arrays = {"numbers": self._numbers[rows], "counts": self._counts[rows], "times": self._times[rows]}
        storage.write(Path(path), self._header, arrays | directory.pack(keys))

    @property
    def _header(self) -> dict[str, Any]:
        """Say what the states are of."""
        return {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "wolf": entry.package_version(),
            "dtype": self.dtype,
            "method": to_dict(self.method),
            "fingerprints": {"model": fingerprint(self.model), "method": fingerprint(self.method)},
        }

    def to_arrow(self) -> Any:
        """Give all states as an Arrow table, one row for each key: for Parquet, or another process.

        Returns:
            Columns `key` (text or integers, not both), `time`, `numbers` and `counts`; what the states are of is in the
            schema's metadata.
        """
        with self._lock:
            rows = list(self._rows.values())
            arrays = {"numbers": self._numbers[rows], "counts": self._counts[rows], "times": self._times[rows]}
            return tables.pack(list(self._rows), arrays, self._header)

    @classmethod
    def from_arrow(cls, table: Any, model: Model, method: str | Filter | None = None) -> "Bank":
        """Pick up a bank that `to_arrow` laid out.

        Args:
            table: a pyarrow table, or what has `__arrow_c_stream__`; any of its rows, in any order.
            model: the same as it was; a different one is an error.
            method: as in `load`.
        """
        entry.check_model(model)
        keys, header, arrays = tables.unpack(table, FORMAT, FORMAT_VERSION)
        bank = cls(model, from_dict(header["method"]) if method is None else method, dtype=header["dtype"])
        bank._take_over("the table", header, arrays | directory.pack(keys))
        return bank

    @classmethod
    def load(cls, path: str | PathLike[str], model: Model, method: str | Filter | None = None) -> "Bank":
        """Pick up a saved bank.

        Args:
            path: written by `save`.
            model: the same as when it was saved; a different one is an error.
            method: needed only if the saved one has parts from outside wolf; a different one is an error.
        """
        checks.path("path", path)
        entry.check_model(model)
        header, arrays = storage.read(Path(path), FORMAT, FORMAT_VERSION, HEADER)
        bank = cls(model, from_dict(header["method"]) if method is None else method, dtype=header["dtype"])
        bank._take_over(path, header, arrays)
        return bank

    def read(self, path: str | PathLike[str]) -> None:
        """Replace all states by saved ones.

        Args:
            path: written by `save` of a bank of the same model and method.
        """
        checks.path("path", path)
        self._take_over(path, *storage.read(Path(path), FORMAT, FORMAT_VERSION, HEADER))

    def _take_over(self, path: Any, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        for name, mine in (("model", self.model), ("method", self.method)):
            if fingerprint(mine) != header["fingerprints"][name]:
                raise ValueError(f"{path} was saved with another {name}; load it with the {name} that it was made with")
        shape = self._numbers.shape[1], self._counts.shape[1]
        if (arrays["numbers"].shape[1], arrays["counts"].shape[1]) != shape or header["dtype"] != self.dtype:
            raise ValueError(f"{path} holds states of another shape or precision, or is damaged")
        with self._lock:
            self.forget(list(self._rows))
            self._add(directory.unpack(arrays), arrays["numbers"], arrays["counts"], arrays["times"])

    def copy_states(self, keys: Sequence[Hashable]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Copy the states of keys, as arrays that `put_states` takes; new keys start at the prior.

        Args:
            keys: all different.
        """
        with self._lock:
            rows = self._find(directory.names(keys))
            return self._numbers[rows], self._counts[rows], self._times[rows]

    def put_states(self, keys: Sequence[Hashable], states: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
        """Put back what `copy_states` gave.

        Args:
            keys: all different.
            states: of as many.
        """
        with self._lock:
            rows = self._find(directory.names(keys))
            self._numbers[rows], self._counts[rows], self._times[rows] = states

    def last_times(self, keys: Sequence[Hashable]) -> np.ndarray:
        """Give the time of the last row of each key, (n,); NaN for a key that is not there.

        Args:
            keys: of any number.
        """
        with self._lock:
            rows = np.fromiter((self._rows.get(key, -1) for key in directory.names(keys)), np.int64)
            return np.where(rows < 0, np.nan, self._times[rows]) if len(self._times) else np.full(len(rows), np.nan)

    def __repr__(self) -> str:
        """Tell how many there are."""
        return f"Bank: {count(len(self), 'key')}, {self._numbers.nbytes + self._counts.nbytes:,} bytes of states"


class Held(NamedTuple):
    """What is known about one key.

    Attributes:
        state: of its filter, as `out.final` of `wolf.filter`.
        time: of its last row; NaN where no times were told.
    """

    state: Any
    time: float

    @property
    def mean(self) -> np.ndarray:
        """Mean of the state, (D,)."""
        return np.asarray(self.state.mean)

    @property
    def cov(self) -> np.ndarray:
        """Covariance of the state, (D, D)."""
        return np.asarray(self.state.cov)

    @property
    def t(self) -> int:
        """Number of measurements so far."""
        return int(self.state.t)

    def __repr__(self) -> str:
        """Tell where the filter stands."""
        return f"Held: {count(self.t, 'measurement')}, state {describe_state(self.state)}"


def read_times(times: Any, size: int, model: Model) -> np.ndarray:
    """Read the times of rows: numbers, or dates as seconds since 1970."""
    if not isinstance(model, LinearModel):
        raise ValueError("times are for linear models, which know how they move over any time")
    stamps = np.asarray(times) if hasattr(times, "dtype") or _dates(times) else None
    dated = stamps is not None and np.issubdtype(stamps.dtype, np.datetime64)
    # Since 1970, not since the first of the batch: a bank's clock goes on from batch to batch.
    seconds = np.asarray((stamps - EPOCH) / np.timedelta64(1, "s")) if dated else None
    read = checks.number_array("times", times) if seconds is None else seconds
    if read.shape != (size,) or not np.all(np.isfinite(read)):
        raise ValueError(f"times must be finite, one for each row; got {checks.told(times)}")
    return read


def _dates(times: Any) -> bool:
    return isinstance(times, list | tuple) and len(times) > 0 and all(isinstance(t, np.datetime64) for t in times)
