"""Filtering as measurements come: one call for each, a state that can be saved and picked up again."""

import dataclasses
import sys
from collections import deque
from functools import cached_property, lru_cache, partial
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from wolf import checks, entry, storage
from wolf.engine import run
from wolf.numerics.fingerprints import fingerprint
from wolf.numerics.linalg import few_operations
from wolf.numerics.packing import Packing
from wolf.numerics.precision import as_key, precision, to_dtype
from wolf.numerics.pytree import cast, from_dict, to_dict
from wolf.numerics.xla import one_kernel, refused
from wolf.online.report import Layout, Report, lay_out, pack
from wolf.protocols import Dtype, Filter, Key
from wolf.results import count, describe_state
from wolf.statespace import LinearModel, Model, ParameterModel, time_axes

FORMAT = "wolf-online"
FORMAT_VERSION = 2
HEADER = ("dtype", "update_first", "horizon", "method", "fingerprints", "python")


class _Past(NamedTuple):
    """One step as it was taken: the state before it and what came, so that it can be taken again."""

    leaves: list
    advance: Any
    params: tuple
    layout: Layout
    value: np.ndarray
    extras: list


class Online:
    """A filter that is fed one measurement at a time, from one thread or several: one step is taken after the other.

    Args:
        model: arrays with a time axis are read at the filter's own clock.
        method: as in `wolf.filter`.
        key: seed or JAX key, for methods that draw random numbers.
        update_first: as in `wolf.filter`.
        dtype: "float64" or "float32".
        horizon: how many steps back a measurement may come late; each is remembered at the price of one state.

    Example:
        >>> import wolf
        >>> online = wolf.Online(wolf.models.local_level(level_var=0.1, obs_var=1.0))
        >>> for y in (1.0, 1.2, 50.0, None):
        ...     info = online.step(y)
        >>> bool(1.0 < online.mean[0] < 2.0), online.t
        (True, 4)
    """

    def __init__(
        self,
        model: Model,
        method: str | Filter | None = None,
        *,
        key: Key | None = None,
        update_first: bool = False,
        dtype: Dtype = "float64",
        horizon: int = 0,
    ):
        horizon = checks.whole("horizon", horizon)
        self._lock = RLock()
        self.model = model
        self.horizon = horizon
        self.method = entry.resolve_method(method, model)
        suited = entry.suit(model, self.method, key)
        self.update_first = update_first
        self.dtype = dtype
        entry.check_options(dtype, "all", update_first)
        if not model.takes_inputs:
            entry.check_functions(model, None)
        self._key = as_key(key)
        self._u_before: np.ndarray | None = None
        with precision(dtype):
            state = run.init(cast(suited, dtype), cast(self.method, dtype), self._key)
            leaves, self._structure = jax.tree.flatten(jax.tree.map(np.asarray, state))
        entry.refuse_if_large("horizon", horizon, sum(leaf.size for leaf in leaves), dtype)
        self._past: deque[_Past] = deque(maxlen=horizon)
        self._packing = Packing.of(leaves, dtype)
        self._leaves = self._packing.pack(leaves, np)
        self._with_inputs = model.takes_inputs
        self._dtype = np.dtype(dtype)
        self._varies = bool(time_axes(model))
        self._usual = self._prepare(model)

    @property
    def state(self) -> Any:
        """State of the filter."""
        with self._lock:
            leaves = self._leaves
        return jax.tree.unflatten(self._structure, self._packing.unpack([np.asarray(leaf) for leaf in leaves]))

    @property
    def mean(self) -> np.ndarray:
        """Mean of the state, (D,)."""
        with precision(self.dtype):  # a mean that is an average would be formed in float32 outside of it
            return np.asarray(self.state.mean)

    @property
    def cov(self) -> np.ndarray:
        """Covariance of the state, (D, D)."""
        with precision(self.dtype):
            cov = self.state.cov
            if cov is None:
                raise AttributeError(f"{type(self.method).__name__} carries no covariance; read online.state.variances")
            return np.asarray(cov)

    @property
    def t(self) -> int:
        """Number of measurements so far, missing ones included."""
        return int(self.state.t)

    def step(
        self,
        y: ArrayLike | None,
        *,
        u: ArrayLike | None = None,
        R: ArrayLike | None = None,
        H: ArrayLike | None = None,
        F: ArrayLike | None = None,
        Q: ArrayLike | None = None,
    ) -> Report:
        """Take in one measurement.

        Args:
            y: (M,), or a number if one thing is measured; None or NaN where missing.
            u: input, (U,), for models that take them.
            R: noise covariance for this step only; with H, another sensor with its own number of coordinates.
            H: observation matrix for this step only.
            F: dynamics matrix for this step only, say for an uneven time step.
            Q: dynamics noise for this step only.

        Returns:
            What the step tells about itself: weight, outlier, residual, nis, log_likelihood and more.
        """
        with self._lock:
            if self._varies:
                entry.check_time_axes(self.model, self.t + 1, self.update_first, "filter")
            if R is None and H is None and F is None and Q is None:
                model, usual = self.model, self._usual
            else:
                given = {name: value for name, value in (("R", R), ("H", H), ("F", F), ("Q", Q)) if value is not None}
                model = override(self.model, self.t, self.update_first, given)
                usual = self._prepare(model)
            value = self._measurement(y, model.obs_dim)
            extras = self._extras(u, model)
            return self._run(_Past(self._leaves, *usual, value, extras))

    def late(self, y: ArrayLike | None, t: int) -> Report:
        """Put in a measurement that came late or out of order, and filter on from there as if it had come in time.

        Args:
            y: (M,), or a number; where it is NaN or None, what came in time stays.
            t: number of its step, counted from 0, at most `horizon` steps back. A step that waits for its
                measurement is taken with `step(None)`.

        Returns:
            What the last step tells about itself now.
        """
        with self._lock:
            there, back = len(self._past), self.t - checks.whole("t", t)
            if not 1 <= back <= there:
                held = f"steps {self.t - there} to {self.t - 1}" if there else "none yet"
                raise ValueError(f"t must be a step within the horizon of {self.horizon} ({held}); got {t!r}")
            late = self._past[-back]
            value = self._measurement(y, len(late.value))
            redo = [self._past.pop() for _ in range(back)][::-1]
            redo[0] = late._replace(value=np.where(np.isnan(value), late.value, value))
            self._leaves = late.leaves
            return [self._run(past._replace(leaves=self._leaves)) for past in redo][-1]

    def measurement(self, y: ArrayLike | None) -> np.ndarray:
        """Check one measurement, and give it as an array (M,) with NaN where something is missing."""
        return self._measurement(y, self.model.obs_dim)

    def go_on_from(self, state: Any) -> None:
        """Put another state, of the same shape, in the place of this one."""
        self._leaves = self._packing.pack([np.asarray(leaf) for leaf in jax.tree.leaves(state)], np)

    def _run(self, now: _Past) -> Report:
        with precision(self.dtype):
            *self._leaves, packed = now.advance(*now.params, *now.leaves, now.value, *now.extras)
            report = np.asarray(packed)
        self._u_before = now.extras[0] if self._with_inputs else None
        if self.horizon:
            self._past.append(now)
        return Report(report, now.layout)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the state to a file, whole or not at all: a crash leaves the old file.

        What is remembered for `late` is not written: a filter that was picked up takes late measurements from then on.

        Args:
            path: of an `.npz` file; it holds numbers and text, never code.
        """
        checks.path("path", path)
        header = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "wolf": entry.package_version(),
            "dtype": self.dtype,
            "update_first": self.update_first,
            "horizon": self.horizon,
            "method": to_dict(self.method),
            "fingerprints": self._fingerprints,
            "python": list(sys.version_info[:2]),
        }
        with self._lock:
            arrays: dict[str, Any] = {f"state_{i}": leaf for i, leaf in enumerate(jax.tree.leaves(self.state))}
            if self._u_before is not None:
                arrays["u_before"] = self._u_before
        if self._key is not None:
            arrays["key"] = np.asarray(jax.random.key_data(self._key))
        storage.write(Path(path), header, arrays)

    @cached_property
    def _fingerprints(self) -> dict[str, dict[str, str]]:
        """Tell models and methods apart: by all that they hold, and without the code of their functions."""
        things = {"model": self.model, "method": self.method}
        return {
            name: {"names": fingerprint(thing, code=False), "all": fingerprint(thing)} for name, thing in things.items()
        }

    @classmethod
    def load(cls, path: str | PathLike[str], model: Model, method: str | Filter | None = None) -> "Online":
        """Pick up a saved filter.

        Args:
            path: written by `save`.
            model: the same as when it was saved; a different one is an error. Functions are told apart by their code,
                and where the file is from another version of Python, which changes that, by their names.
            method: needed only if the saved one has parts from outside wolf; a different one is an error.
        """
        checks.path("path", path)
        entry.check_model(model)
        header, arrays = storage.read(Path(path), FORMAT, FORMAT_VERSION, HEADER)
        online = cls(
            model,
            from_dict(header["method"]) if method is None else method,
            key=jax.random.wrap_key_data(jnp.asarray(arrays["key"])) if "key" in arrays else None,
            update_first=header["update_first"],
            dtype=header["dtype"],
            horizon=header["horizon"],
        )
        kind = "all" if header["python"] == list(sys.version_info[:2]) else "names"
        for name, mine in online._fingerprints.items():
            if mine[kind] != header["fingerprints"][name][kind]:
                raise ValueError(f"{path} was saved with another {name}; load it with the {name} that it was made with")
        expected = jax.tree.leaves(online.state)
        leaves = [arrays.get(f"state_{i}") for i in range(len(expected))]
        for mine, saved in zip(expected, leaves, strict=True):
            if saved is None or mine.shape != saved.shape or mine.dtype != saved.dtype:
                raise ValueError(f"{path} holds a state of another shape, or is damaged; expected {mine.shape}")
        online._leaves = online._packing.pack(leaves, np)
        online._u_before = arrays.get("u_before")
        return online

    def __repr__(self) -> str:
        """Tell where the filter stands."""
        state = self.state
        with precision(self.dtype):
            return f"Online: {count(int(state.t), 'measurement')}, state {describe_state(state)}"

    def __getstate__(self) -> dict[str, Any]:
        """Copy without the lock, which belongs to one object."""
        with self._lock:
            return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, values: dict[str, Any]) -> None:
        """Take over what was copied, with a lock of its own."""
        vars(self).update(values, _lock=RLock())

    def _prepare(self, model: Model) -> tuple[Any, tuple, Layout]:
        """Flatten the model and the method once: walking through them at each step would cost more than the step."""
        entry.resolve_method(self.method, model)  # for one step the model may have other matrices
        with precision(self.dtype):
            suited = entry.suit(model, self.method, self._key)
            leaves, structure = jax.tree.flatten((cast(suited, self.dtype), cast(self.method, self.dtype)))
            packing = Packing.of(leaves, self.dtype)
            params = tuple(jax.device_put(leaf) for leaf in packing.pack(leaves, np))
        kind = (structure, packing, self._structure, self._packing, model.obs_dim)
        advance, layout = _advance(*kind, self.update_first, self._with_inputs, self._key is not None)
        return advance, params, layout

    def _measurement(self, y: Any, size: int) -> np.ndarray:
        if type(y) is np.ndarray and y.dtype == self._dtype and y.shape == (size,):
            return y.copy() if self.horizon else y  # the usual case, without a detour
        if y is None:
            return np.full(size, np.nan, self.dtype)
        value = checks.number_array("y", y)
        if value.ndim == 0 and size == 1:
            value = value[None]
        if value.shape != (size,):
            raise ValueError(f"y must have shape ({size},) to match the model's obs_cov; got {value.shape}")
        return value if self.dtype == "float64" else to_dtype(value, self.dtype)

    def _extras(self, u: Any, model: Model) -> list[Any]:
        """Check the input, and line up what follows the measurement in the compiled call: u, u before, key."""
        if u is None and not self._with_inputs:
            return [] if self._key is None else [self._key]
        if model.takes_inputs and u is None:
            raise ValueError("the model takes inputs: pass u= with shape (U,)")
        extras: list[Any] = []
        if u is not None:
            if not model.takes_inputs:
                raise ValueError("u was given, but the model takes no inputs")
            value = np.atleast_1d(checks.number_array("u", u)).astype(self.dtype)
            columns = model.B.shape[-1:] if isinstance(model, LinearModel) else value.shape
            if value.ndim != 1 or value.shape != columns:
                wanted = f"{columns} to match B" if model.linear else "(U,)"
                raise ValueError(f"u must have shape {wanted}; got {value.shape}")
            if not np.all(np.isfinite(value)):
                raise ValueError("u must be finite; a missing input has no meaning: fill it in")
            extras = [value, value if self._u_before is None else self._u_before]
        return extras if self._key is None else [*extras, self._key]


def override(model: Model, t: int, update_first: bool, matrices: dict[str, Any]) -> Model:
    """Copy a model with other matrices at one step, checked like a model of its own."""
    if isinstance(model, ParameterModel):
        return model.override(matrices)
    names = {} if model.linear else {"R": "obs_cov", "Q": "dynamics_cov"}
    if not model.linear and not matrices.keys() <= names.keys():
        raise ValueError("a model with functions takes R and Q for one step; F and H are functions, give them inputs u")
    fields = {field.name: getattr(model, field.name) for field in dataclasses.fields(model)}
    for name in time_axes(model):
        # What leads to this step is that of the step before, if the first measurement came without one.
        lead = update_first and name in ("F", "Q", "B", "dynamics_cov")
        fields[name] = fields[name][max(t - 1, 0) if lead else t]
    return type(model)(**(fields | {names.get(name, name): value for name, value in matrices.items()}))


@lru_cache(maxsize=64)
def _advance(
    structure: Any,
    packing: Packing,
    state_structure: Any,
    state_packing: Packing,
    obs_dim: int,
    update_first: bool,
    with_inputs: bool,
    with_key: bool,
) -> tuple[Any, Layout]:
    """Compile one step for this kind of model, method and state; filters of one kind share it.

    Its arguments are flat (parameters, state, y, u, u before, key) and packed: many take longer to hand over.

    Returns:
        The step, and where its report has what, which is known once it was traced.
    """
    layout: Layout = {}
    num_params, num_state = packing.handed, state_packing.handed

    def advance(*flat: Any) -> tuple:
        model, method = jax.tree.unflatten(structure, packing.unpack(flat[:num_params]))
        state = jax.tree.unflatten(state_structure, state_packing.unpack(flat[num_params : num_params + num_state]))
        y, *extras = flat[num_params + num_state :]
        u, before = extras[:2] if with_inputs else (None, None)
        key = extras[-1] if with_key else None
        with few_operations():
            state, info = run.step(model, method, state, y, u, key, update_first=update_first, u_before=before)
        layout.update(lay_out(info))
        return (*state_packing.pack(jax.tree.leaves(state), jnp), pack(info, y.dtype))

    usual, fused = jax.jit(advance), jax.jit(partial(one_kernel, advance))

    def attempt(*flat: Any) -> tuple:
        try:
            return fused(*flat)
        except jax.errors.JaxRuntimeError as error:
            if not refused(error):
                raise
            return usual(*flat)

    return attempt, layout
