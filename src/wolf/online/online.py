"""Filtering as measurements come: one call for each, a state that can be saved and picked up again."""

from collections import deque
from functools import cached_property
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.execution import backend_selection, validate
from wolf.execution.backend_selection import BackendOption
from wolf.inference.noise import NoiseEstimate
from wolf.interfaces import Dtype, Filter, Key
from wolf.numerics.precision import as_key, precision, to_dtype
from wolf.numerics.pytree import from_dict, to_dict
from wolf.online.sensor import Sensor
from wolf.online.step_info import StepReport
from wolf.online.steppers import make_stepper, overridden, time_step
from wolf.results import count, describe_state
from wolf.results.views.learned_noise import learned_noise
from wolf.runtime import checkpoints
from wolf.statespace import LinearModel, Model, time_axes

FORMAT = "wolf-online"
FORMAT_VERSION = 3  # of 0.2: filters of 0.1 remember less
HEADER = ("dtype", "update_first", "horizon", "method", "fingerprints", "python")


class _Past(NamedTuple):
    """One step as it was taken: the state before it and what came, so that it can be taken again."""

    snapshot: Any
    value: np.ndarray
    us: list
    matrices: dict


class Online:
    """A filter that is fed one measurement at a time, from one thread or several: one step is taken after the other.

    Args:
        model: arrays with a time axis are read at the filter's own clock.
        method: as in `wolf.filter`.
        key: seed or JAX key, for methods that draw random numbers.
        update_first: as in `wolf.filter`.
        dtype: "float64" or "float32".
        horizon: how many steps back a measurement may come late; each is remembered at the price of one state.
        state: where to go on from, as `out.final` of `wolf.filter` with the same model and method; default: the prior.
        engine: "native" code for what is small (a step takes a microsecond), "xla" for everything else; "auto" chooses,
            and `online.backend` tells.

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
        state: Any = None,
        backend: BackendOption = "auto",
    ):
        horizon = validation.integer("horizon", horizon)
        validation.choice("backend", backend, backend_selection.BACKEND_OPTIONS)
        self._lock = RLock()
        self.model = model
        self.horizon = horizon
        self.method = validate.resolve_method(method, model)
        suited = validate.adapt_model(model, self.method, key)
        self.update_first = update_first
        self.dtype = dtype
        validate.check_options(dtype, "all", update_first)
        if not model.takes_inputs:
            validate.check_functions(model, None)
        self._key = as_key(key)
        self._u_before: np.ndarray | None = None
        self._with_inputs = model.takes_inputs
        self._dtype = np.dtype(dtype)
        self._varies = bool(time_axes(model))
        self._stepper, choice = make_stepper(backend, model, suited, self.method, self._key, update_first, dtype)
        self.backend, self.backend_reason = str(choice.backend), choice.detail
        if state is not None:
            self.go_on_from(state)
        size = sum(leaf.size for leaf in jax.tree.leaves(self._stepper.state))
        validate.refuse_if_large("horizon", horizon, size, dtype)
        self._past: deque[_Past] = deque(maxlen=horizon)
        self._set_quick()

    def _set_quick(self) -> None:
        """Find out whether most steps can take the short way: native code, nothing to remember or to look up."""
        quick = None if self._varies or self._with_inputs or self.horizon else self._stepper.call
        self._quick = quick
        self._table: int = self._stepper.table if quick else 0
        self._size: int = self._stepper.size if quick else 0
        self._layout = self._stepper.layout if quick else {}

    @property
    def state(self) -> Any:
        """State of the filter."""
        with self._lock:
            return self._stepper.state

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

    @property
    def learned_noise(self) -> NoiseEstimate | Any:
        """What the method has learned about the noise so far, a `wolf.noise.NoiseEstimate`; a list for several sensors.

        A ValueError for a method that learns nothing.

        Example:
            >>> import wolf
            >>> online = wolf.Online(wolf.models.local_level(level_var=0.1, obs_var=1.0))
            >>> for y in np.random.default_rng(0).normal(size=200):
            ...     info = online.step(2.0 * y)
            >>> bool(2.0 < online.learned_noise.typical < 6.0)
            True
        """
        with precision(self.dtype):
            return learned_noise(self.method, self.state)

    def step(
        self,
        y: ArrayLike | None,
        *,
        u: ArrayLike | None = None,
        R: ArrayLike | None = None,
        H: ArrayLike | None = None,
        F: ArrayLike | None = None,
        Q: ArrayLike | None = None,
        dt: float | None = None,
        sensor: Sensor | None = None,
    ) -> StepReport:
        """Take in one measurement.

        Args:
            y: (M,), or a number if one thing is measured; None or NaN where missing.
            u: input, (U,), for models that take them.
            R: noise covariance for this step only; with H, another sensor with its own number of coordinates.
            H: observation matrix for this step only.
            F: dynamics matrix for this step only, say for an uneven time step.
            Q: dynamics noise for this step only.
            dt: time since the measurement before, in the unit of the model's own steps, for models that know how they
                move over any time (those of `wolf.models`, or by `model.with_motion`); instead of F and Q. Of models
                of functions those that have a `dt`, as `coordinated_turn`: Q grows with it.
            sensor: which one it is from, where there are several; instead of H and R.

        Returns:
            What the step tells about itself: weight, outlier, residual, nis, log_likelihood and more.
        """
        with self._lock:
            plain = type(y) is np.ndarray and y.dtype == self._dtype and y.ndim == 1 and y.flags.c_contiguous
            if plain and dt is None and sensor is None and u is None:
                report = self._step_quick(y, R, H, F, Q)  # type: ignore[arg-type]
                if report is not None:
                    return report
            if dt is not None:
                if F is not None or Q is not None:
                    raise ValueError("give either dt, or F and Q of the step")
                matrices: dict[str, Any] = self._over(dt)
            else:
                matrices = {name: value for name, value in (("F", F), ("Q", Q)) if value is not None}
            matrices |= {name: value for name, value in (("R", R), ("H", H)) if value is not None}
            if sensor is not None:
                matrices |= self._seen_by(sensor, R is not None or H is not None)
            return self._step(y, u, matrices, self.model.obs_dim if sensor is None else len(sensor.R))

    def _seen_by(self, sensor: Sensor, given: bool) -> dict[str, Any]:
        """Give what is other with this sensor."""
        if not isinstance(sensor, Sensor):
            raise ValueError(f"sensor must be a wolf.Sensor(H, R); got {validation.short_repr(sensor)}")
        if given:
            raise ValueError("give either sensor, or H and R of the step")
        return sensor.changes()

    def _step_quick(self, y: np.ndarray, R: Any, H: Any, F: Any, Q: Any) -> StepReport | None:
        """Take the short way, if there is nothing that has to be checked; None if nothing was done."""
        if self._quick is None:
            return None
        if R is None and H is None and F is None and Q is None:
            report = np.empty(self._size, self._dtype)
            return StepReport(report, self._layout) if self._quick(self._table, y, report) else None
        return self._stepper.quick(y, R, H, F, Q)

    def _over(self, dt: float) -> dict[str, np.ndarray]:
        """Give what is other in a step that takes some time: F and Q, or the time and Q of a function of it."""
        if isinstance(self.model, LinearModel):
            dynamics, noise = self.model.over(validation.finite("dt", dt))
            return {"F": dynamics[0], "Q": noise[0]}
        usual = time_step(self.model)
        if usual is None or self._varies:
            raise ValueError(
                "this model of functions has no other time steps; take one of wolf.models that moves for a time dt, or "
                "give your own its time step as an input u"
            )
        validation.not_negative("dt", dt)
        return {"dt": np.asarray(dt, float), "Q": self.model.dynamics_cov * (float(dt) / usual)}

    def _step(self, y: Any, u: Any, matrices: dict[str, Any], size: int) -> StepReport:
        """Take the long way: check what came, remember what `late` needs."""
        if self._varies:
            validate.check_time_axes(self.model, self.t + 1, self.update_first, "filter")
        if "R" in matrices and getattr(matrices["R"], "shape", None) != (size, size):  # another sensor, or a mistake
            changed = overridden(self.model, self.method, self.t, self.update_first, matrices)
            size = changed.obs_dim
        value = self._measurement(y, size)
        us = self._inputs(u)
        return self._run(_Past(None, value, us, matrices))

    def late(self, y: ArrayLike | None, t: int) -> StepReport:
        """Put in a measurement that came late or out of order, and filter on from there as if it had come in time.

        Args:
            y: (M,), or a number; where it is NaN or None, what came in time stays.
            t: number of its step, counted from 0, at most `horizon` steps back. A step that waits for its
                measurement is taken with `step(None)`.

        Returns:
            What the last step tells about itself now.
        """
        with self._lock:
            there, back = len(self._past), self.t - validation.integer("t", t)
            if not 1 <= back <= there:
                held = f"steps {self.t - there} to {self.t - 1}" if there else "none yet"
                raise ValueError(f"t must be a step within the horizon of {self.horizon} ({held}); got {t!r}")
            late = self._past[-back]
            value = self._measurement(y, len(late.value))
            redo = [self._past.pop() for _ in range(back)][::-1]
            redo[0] = late._replace(value=np.where(np.isnan(value), late.value, value))
            self._stepper.restore(late.snapshot)
            return [self._run(past) for past in redo][-1]

    def measurement(self, y: ArrayLike | None) -> np.ndarray:
        """Check one measurement, and give it as an array (M,) with NaN where something is missing."""
        return self._measurement(y, self.model.obs_dim)

    def go_on_from(self, state: Any) -> None:
        """Put another state, of the same shape, in the place of this one."""
        mine, theirs = self._stepper.state, state
        shapes, given = ([np.shape(leaf) for leaf in jax.tree.leaves(each)] for each in (mine, theirs))
        if type(mine) is not type(theirs) or shapes != given:
            raise ValueError("state must be one of this model and method, as out.final of wolf.filter")
        with self._lock:
            self._stepper.go_on_from(jax.tree.leaves(state))

    def _run(self, now: _Past) -> StepReport:
        snapshot = self._stepper.snapshot() if self.horizon else None
        report = self._stepper.step(now.value, now.us, now.matrices)
        self._u_before = now.us[0] if self._with_inputs else None
        if self.horizon:
            self._past.append(now._replace(snapshot=snapshot))
        return report

    def save(self, path: str | PathLike[str]) -> None:
        """Write the state to a file, whole or not at all: a crash leaves the old file.

        What is remembered for `late` is not written: a filter that was picked up takes late measurements from then on.

        Args:
            path: of an `.npz` file; it holds numbers and text, never code.
        """
        validation.path("path", path)
        header = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "wolf": validate.package_version(),
            "dtype": self.dtype,
            "update_first": self.update_first,
            "horizon": self.horizon,
            "method": to_dict(self.method),
        } | self._identity
        with self._lock:
            arrays: dict[str, Any] = {f"state_{i}": leaf for i, leaf in enumerate(jax.tree.leaves(self.state))}
            if self._u_before is not None:
                arrays["u_before"] = self._u_before
        if self._key is not None:
            arrays["key"] = np.asarray(jax.random.key_data(self._key))
        checkpoints.write(Path(path), header, arrays)

    @cached_property
    def _identity(self) -> dict[str, Any]:
        return checkpoints.identity(self.model, self.method)

    @classmethod
    def load(cls, path: str | PathLike[str], model: Model, method: str | Filter | None = None) -> "Online":
        """Pick up a saved filter.

        Args:
            path: written by `save`.
            model: the same as when it was saved; a different one is an error. Functions are told apart by their code,
                and where the file is from another version of Python, which changes that, by their names.
            method: needed only if the saved one has parts from outside wolf; a different one is an error.
        """
        validation.path("path", path)
        validate.check_model(model)
        header, arrays = checkpoints.read(Path(path), FORMAT, FORMAT_VERSION, HEADER)
        online = cls(
            model,
            from_dict(header["method"]) if method is None else method,
            key=jax.random.wrap_key_data(jnp.asarray(arrays["key"])) if "key" in arrays else None,
            update_first=header["update_first"],
            dtype=header["dtype"],
            horizon=header["horizon"],
        )
        checkpoints.check_identity(path, header, model, online.method)
        expected = jax.tree.leaves(online.state)
        leaves = [arrays.get(f"state_{i}") for i in range(len(expected))]
        for mine, saved in zip(expected, leaves, strict=True):
            if saved is None or mine.shape != saved.shape or mine.dtype != saved.dtype:
                raise ValueError(f"{path} holds a state of another shape, or is damaged; expected {mine.shape}")
        online._stepper.go_on_from(leaves)
        online._u_before = arrays.get("u_before")
        return online

    def __repr__(self) -> str:
        """Tell where the filter stands."""
        state = self.state
        with precision(self.dtype):
            return f"Online: {count(int(state.t), 'measurement')}, state {describe_state(state)}"

    def __getstate__(self) -> dict[str, Any]:
        """Copy what the filter is made of and where it stands; compiled code and the lock belong to one object."""
        with self._lock:
            left_out = ("_lock", "_stepper", "_quick", "_table", "_key")
            values = {name: value for name, value in vars(self).items() if name not in left_out}
            key = None if self._key is None else np.asarray(jax.random.key_data(self._key))
            snapshot = jax.tree.map(np.asarray, self._stepper.snapshot())
        return values | {"key": key, "snapshot": snapshot}

    def __setstate__(self, values: dict[str, Any]) -> None:
        """Take over what was copied, with code and a lock of its own."""
        key, snapshot = values.pop("key"), values.pop("snapshot")
        vars(self).update(values, _lock=RLock(), _key=None if key is None else jax.random.wrap_key_data(key))
        suited = validate.adapt_model(self.model, self.method, self._key)
        order = (self._key, self.update_first, self.dtype)
        self._stepper, _ = make_stepper(self.backend, self.model, suited, self.method, *order)
        self._stepper.restore(snapshot)
        self._set_quick()

    def _measurement(self, y: Any, size: int) -> np.ndarray:
        if type(y) is np.ndarray and y.dtype == self._dtype and y.shape == (size,):
            return y.copy() if self.horizon else y  # the usual case, without a detour
        if y is None:
            return np.full(size, np.nan, self.dtype)
        value = validation.number_array("y", y)
        if value.ndim == 0 and size == 1:
            value = value[None]
        if value.shape != (size,):
            raise ValueError(f"y must have shape ({size},) to match the model's obs_cov; got {value.shape}")
        return value if self.dtype == "float64" else to_dtype(value, self.dtype)

    def _inputs(self, u: Any) -> list[Any]:
        """Check the input, and give it with the one of the step before."""
        if u is None and not self._with_inputs:
            return []
        if u is None:
            raise ValueError("the model takes inputs: pass u= with shape (U,)")
        if not self._with_inputs:
            raise ValueError("u was given, but the model takes no inputs")
        value = np.atleast_1d(validation.number_array("u", u)).astype(self.dtype)
        columns = self.model.B.shape[-1:] if isinstance(self.model, LinearModel) else value.shape
        if value.ndim != 1 or value.shape != columns:
            wanted = f"{columns} to match B" if self.model.linear else "(U,)"
            raise ValueError(f"u must have shape {wanted}; got {value.shape}")
        if not np.all(np.isfinite(value)):
            raise ValueError("u must be finite; missing inputs are not supported: fill them in")
        return [value, value if self._u_before is None else self._u_before]
