"""Filtering one measurement at a time, with a state that can be saved and loaded."""

from __future__ import annotations  # so that help() shows ArrayLike, and not all that it stands for

import dataclasses
import math
from collections import deque
from functools import cached_property
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from wolf import validation
from wolf.beliefs.density import deviations
from wolf.execution import backend_selection, function_checks, prepared, validate
from wolf.execution.backend_selection import BackendOption
from wolf.execution.forecasting import forecast_state
from wolf.inference.noise import NoiseEstimate
from wolf.interfaces import Dtype, Filter, Key
from wolf.numerics.precision import as_key, precision, to_dtype
from wolf.numerics.pytree import PyTree, from_dict, to_dict
from wolf.online import late_measurements, motion
from wolf.online.detectability import smallest_faults
from wolf.online.late_measurements import RecordedStep
from wolf.online.motion import Motion
from wolf.online.overrides import overridden_model, override
from wolf.online.prediction import Pending, Prediction, make_prediction
from wolf.online.sensor import Sensor
from wolf.online.step_info import StepReport
from wolf.online.stepper import Matrices, Snapshot
from wolf.online.steppers import make_stepper
from wolf.results import Forecast, count, describe_state
from wolf.results.conformal import Calibration, calibration_of, innovation_variances, read_calibration
from wolf.results.states import read_state
from wolf.results.views.learned_noise import learned_noise
from wolf.runtime import checkpoints
from wolf.statespace import Model, time_axes, with_matrices

FORMAT = "wolf-online"
FORMAT_VERSION = 3  # since 0.2: states of 0.1 have fewer fields
HEADER = ("update_first", "horizon", *checkpoints.HEADER_FIELDS)


class Online:
    """A filter that takes one measurement at a time. It may be used from several threads: steps are serialised.

    Args:
        model: of arrays with a time axis, step t uses entry t.
        method: as in `wolf.filter`.
        key: seed or JAX key, for methods that draw random numbers.
        update_first: as in `wolf.filter`.
        dtype: "float64" or "float32".
        horizon: number of steps by which a measurement may be late; each costs the memory of one state.
        state: initial state, as `out.final` of `wolf.filter` with the same model and method; default: the prior.
        backend: "native" code for small models (a step takes a microsecond), "xla" for all others; "auto" chooses.
        calibrate: as in `wolf.filter`. Measurements that are late, or of another sensor (H), do not calibrate.

    Attributes:
        backend: "native" or "xla".
        backend_reason: why it is XLA; empty for native code.

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
        state: PyTree = None,
        backend: BackendOption = "auto",
        calibrate: Calibration = None,
    ):
        self._intervals = read_calibration(calibrate)
        horizon = validation.integer("horizon", horizon)
        validation.choice("backend", backend, backend_selection.BACKEND_OPTIONS)
        self._lock = RLock()
        self.model = model
        self.horizon = horizon
        pair = prepared.resolve(model, method, key)
        self.method = pair.method
        self._log_scale = np.zeros(model.obs_dim)  # of the conformal radius
        self.update_first = update_first
        self.dtype = dtype
        validate.check_options(dtype, "all", update_first)
        self._num_inputs = model.input_dim
        if not model.takes_inputs or self._num_inputs is not None:
            self._check_functions()
        self._key = as_key(key)
        self._u_before: np.ndarray | None = None
        self._with_inputs = model.takes_inputs
        self._dtype = np.dtype(dtype)
        self._varies = bool(time_axes(model))
        self._requested = backend
        with function_checks.explained():
            self._stepper, choice = make_stepper(backend, pair, self._key, update_first, dtype, self._num_inputs)
        self.backend, self.backend_reason = str(choice.backend), choice.detail
        if state is not None:
            self.set_state(state)
        size = sum(leaf.size for leaf in jax.tree.leaves(self._stepper.state))
        validate.refuse_if_large("horizon", horizon, size, dtype)
        self._recorded: deque[RecordedStep] = deque(maxlen=horizon)
        self._pending: Pending | None = None
        self._clock = 0.0  # time minus the number of measurements times the duration of a step
        self._bind_native_call()

    def _check_functions(self) -> None:
        rows = None if self._num_inputs is None else np.zeros((1, self._num_inputs))
        validate.check_functions(self.model, rows, self.dtype)

    def _fix_inputs(self, count: int) -> None:
        """Compile for the number of inputs, which the first step tells where the model does not state it."""
        self._num_inputs = count
        self._check_functions()
        leaves = jax.tree.leaves(self._stepper.state)
        pair = prepared.resolve(self.model, self.method, self._key)
        settings = (self._key, self.update_first, self.dtype, count)
        self._stepper, choice = make_stepper(self._requested, pair, *settings)
        self.backend, self.backend_reason = str(choice.backend), choice.detail
        self._stepper.set_state(leaves)
        self._bind_native_call()

    def _bind_native_call(self) -> None:
        """Bind the native call for steps without anything to record or to look up; None if there is none."""
        plain = not (self._varies or self.horizon or self._intervals or self._pending)
        self._call = self._stepper.call if plain else None
        self._table, self._report_size = self._stepper.table, self._stepper.report_size
        self._layout = self._stepper.layout

    @property
    def state(self) -> PyTree:
        """State of the filter."""
        with self._lock:
            return self._stepper.state

    @property
    def mean(self) -> np.ndarray:
        """Mean of the state, (D,); after `predict` that of the prediction."""
        if self._pending is not None:
            return self._pending.prediction.mean
        with precision(self.dtype):  # outside of it the mean of particles would be computed in float32
            return np.asarray(self.state.mean)

    @property
    def cov(self) -> np.ndarray:
        """Covariance of the state, (D, D); after `predict` that of the prediction."""
        with precision(self.dtype):
            cov = self.state.cov if self._pending is None else self._pending.prediction.cov
            if cov is None:
                raise AttributeError(f"{type(self.method).__name__} has no covariance; use online.state.variances")
            return np.asarray(cov)

    @property
    def t(self) -> int:
        """Number of measurements so far, missing ones included."""
        return int(self.state.t)

    @property
    def time(self) -> float:
        """Time of the last measurement, in the unit of the model: the sum of all steps, or the stamp given last."""
        return self._clock + self.t * motion.step_duration(self.model)

    @property
    def conformal_radius(self) -> np.ndarray:
        """Radius of the calibrated interval of the next measurement, in standard deviations of its innovation, (M,)."""
        if self._intervals is None:
            raise AttributeError('conformal_radius needs wolf.Online(..., calibrate="conformal")')
        return self._intervals.radius(self._log_scale)

    @property
    def detectable(self) -> np.ndarray:
        """Smallest fault of each coordinate of the next measurement that would be flagged with probability 0.95, (M,).

        A reading that is off by less may pass unnoticed. After `predict` it is that of the awaited measurement; inf for
        a method that flags nothing, as "KF". It follows from S, the weight and what has been learned about the noise.

        Example:
            >>> import wolf
            >>> online = wolf.Online(wolf.models.local_level(level_var=0.1, obs_var=1.0), "WoLF-TMD")
            >>> for y in np.zeros(50):
            ...     info = online.step(y)
            >>> bool(4.0 < online.detectable[0] < 6.0)
            True
        """
        with self._lock:
            pending = self._pending
            return self.detectable_for(None if pending is None else pending.u)

    def detectable_for(self, u: ArrayLike | None) -> np.ndarray:
        """Compute `detectable` for a model that takes inputs, under an input of the next step."""
        with self._lock:
            pending = self._pending
            matrices = {} if pending is None else pending.motion.matrices
            changed = override(self.model, self.t if self._varies else 0, self.update_first, matrices)
            us = self._inputs(self._resting_input() if u is None else u)
            return smallest_faults(self._stepper, changed, us, matrices, self.dtype)

    @property
    def learned_noise(self) -> NoiseEstimate | Any:
        """Noise estimated so far, a `wolf.noise.NoiseEstimate`; a list for several sensors.

        Raises a ValueError if the method does not estimate noise.

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
        time: float | None = None,
        sensor: Sensor | None = None,
    ) -> StepReport:
        """Advance by one measurement: `predict`, then `update`.

        Args:
            y: (M,), or a number if M = 1; None or NaN where missing.
            u: input, (U,), for models that take inputs.
            R: noise covariance of this step; with H, of another sensor with its own number of coordinates.
            H: observation matrix of this step.
            F: dynamics matrix of this step, say for an uneven time step.
            Q: dynamics noise covariance of this step.
            dt: time since the previous measurement, in the unit of the model's steps, instead of F and Q. For models
                with a transition over any time step (those of `wolf.models`, or by `model.with_motion`), and for
                models whose dynamics function has a `dt`, as `coordinated_turn`: then Q grows with it.
            time: time stamp of the measurement, instead of dt; the first one sets the clock, after one usual step.
            sensor: that made the measurement, if there are several; instead of H and R. One with a delay takes its
                place in time, as by `late`.

        Returns:
            Report of the step: weight, outlier, residual, nis, log_likelihood and more.
        """
        with self._lock:
            plain = type(y) is np.ndarray and y.dtype == self._dtype and y.ndim == 1 and y.flags.c_contiguous
            if plain and dt is None and time is None and sensor is None:
                report = self._step_fast(y, u, R, H, F, Q)  # type: ignore[arg-type]
                if report is not None:
                    return report
            self._finish_prediction()
            return self._observe(y, self._motion(dt, time, F, Q), u, self._observation(R, H, sensor), sensor)

    def predict(
        self,
        *,
        u: ArrayLike | None = None,
        F: ArrayLike | None = None,
        Q: ArrayLike | None = None,
        dt: float | None = None,
        time: float | None = None,
        sensor: Sensor | None = None,
    ) -> Prediction:
        """Predict the next measurement; `update` then takes it. Until then `mean` and `cov` are those predicted.

        A second call, or `step`, counts the measurement in between as missing.

        Args:
            u: as in `step`, like the following.
            F: dynamics matrix.
            Q: dynamics noise covariance.
            dt: time since the previous measurement.
            time: time stamp of the prediction.
            sensor: whose measurement to predict; default: that of the model.

        Returns:
            Predicted state and measurement, each with its covariance.

        Example:
            >>> import wolf
            >>> car = wolf.models.constant_velocity(dims=1, dt=1.0, dynamics_var=0.1, obs_var=1.0)
            >>> online = wolf.Online(car, "WoLF")
            >>> ahead = online.predict(dt=0.5)
            >>> ahead.measurement.shape, ahead.innovation_cov.shape
            ((1,), (1, 1))
            >>> bool(online.update(0.1).outlier)
            False
        """
        with self._lock:
            self._finish_prediction()
            move, us = self._motion(dt, time, F, Q), self._inputs(u)
            observation = self._observation(None, None, sensor)
            matrices = move.matrices | observation
            if self._varies:
                validate.check_time_axes(self.model, self.t + 1, self.update_first, "filter")
            changed = override(self.model, self.t if self._varies else 0, self.update_first, matrices)
            prediction = make_prediction(self._stepper, changed, us, matrices, self.dtype)
            self._pending = Pending(move, us[0] if us else None, prediction)
            self._bind_native_call()
            return prediction

    def update(
        self,
        y: ArrayLike | None,
        *,
        R: ArrayLike | None = None,
        H: ArrayLike | None = None,
        sensor: Sensor | None = None,
    ) -> StepReport:
        """Condition on a measurement at the time of `predict`; a further one at the same time needs no prediction.

        Args:
            y: as in `step`, like the following.
            R: noise covariance.
            H: observation matrix.
            sensor: that made the measurement.

        Returns:
            Report as of `step`.
        """
        with self._lock:
            observation = self._observation(R, H, sensor)
            pending = self._pending
            if pending is None:
                move, u = motion.none(self.model), self._resting_input()
            else:
                move, u = pending.motion, pending.u
            report = self._observe(y, move, u, observation, sensor)
            self._pending = None
            self._bind_native_call()
            return report

    def forecast(self, steps: int, *, level: float = 0.95, u: ArrayLike | None = None) -> Forecast:
        """Forecast states and measurements from the last measurement on; the filter does not move.

        Args:
            steps: how many, of the model's own length.
            level: probability of the intervals.
            u: future inputs, (steps, U), for models that take inputs.

        Returns:
            As `wolf.forecast`.

        Example:
            >>> import wolf
            >>> online = wolf.Online(wolf.models.local_level(level_var=0.1, obs_var=1.0))
            >>> info = online.step(3.0)
            >>> online.forecast(12).obs_means.shape
            (12, 1)
        """
        steps, level = validation.count("steps", steps), validation.confidence_level(level)
        if self.method.linearization is None:
            raise ValueError("forecast needs a Gaussian filter, such as 'WoLF', and states that can be added")
        validate.check_time_axes(self.model, self.t + steps, self.update_first, "forecast")
        us = validation.inputs(u, steps, self.model)
        with self._lock:
            state, before = self.state, self._u_before
        options: Any = {"dtype": self.dtype, "update_first": self.update_first, "inputs": us, "u_before": before}
        states, measured = forecast_state(with_matrices(self.model), self.method, state, steps, **options)
        half = deviations(level) * np.sqrt(np.diagonal(measured.cov, axis1=-2, axis2=-1))
        limits = measured.mean - half, measured.mean + half
        return Forecast(states.mean, states.cov, measured.mean, measured.cov, *limits, level)

    def _finish_prediction(self) -> None:
        """Take the step of a prediction whose measurement did not come."""
        if self._pending is not None:
            self.update(None)

    def _motion(self, dt: float | None, time: float | None, F: ArrayLike | None, Q: ArrayLike | None) -> Motion:
        """Return the motion of a step from its arguments."""
        if dt is None and time is None:
            return motion.one_step(self.model) if F is None and Q is None else motion.by_matrices(self.model, F, Q)
        if (dt is not None and time is not None) or F is not None or Q is not None:
            raise ValueError("give either dt or time, or F and Q of the step")
        if time is None:
            assert dt is not None
            return motion.over(self.model, dt)
        stamp = validation.known_number("time", time)
        if self.t == 0:
            usual = motion.one_step(self.model)
            self._clock = stamp - usual.duration
            return usual
        since = stamp - self.time
        if since < -motion.TIME_TOLERANCE * motion.step_duration(self.model):
            raise ValueError(f"time must not be before that of the filter, {self.time:g}; got {stamp:g}: use late")
        return motion.over(self.model, max(since, 0.0))

    def _observation(self, R: ArrayLike | None, H: ArrayLike | None, sensor: Sensor | None) -> Matrices:
        """Return what differs from the model in the measurement of a step."""
        if sensor is None:
            return {name: value for name, value in (("R", R), ("H", H)) if value is not None}
        if not isinstance(sensor, Sensor):
            raise ValueError(f"sensor must be a wolf.Sensor(H, R); got {validation.short_repr(sensor)}")
        if R is not None or H is not None:
            raise ValueError("give either sensor, or H and R of the step")
        return sensor.changes()

    def _resting_input(self) -> np.ndarray | None:
        """Return an input under which a motion over no time changes nothing: zero for B u, the last one for f(x, u)."""
        if not self._with_inputs:
            return None
        if self.model.linear or self._u_before is None:
            return np.zeros(self._num_inputs or 0, self._dtype)
        return self._u_before

    def _step_fast(
        self,
        y: np.ndarray,
        u: ArrayLike | None,
        R: ArrayLike | None,
        H: ArrayLike | None,
        F: ArrayLike | None,
        Q: ArrayLike | None,
    ) -> StepReport | None:
        """Advance by the native call alone; None, and nothing done, where arguments have to be validated."""
        if self._call is None:
            return None
        if self._with_inputs or u is not None:
            return self._step_with_inputs(y, u) if R is None and H is None and F is None and Q is None else None
        if R is None and H is None and F is None and Q is None:
            report = np.empty(self._report_size, self._dtype)
            return StepReport(report, self._layout) if self._call(self._table, y, report) else None
        return self._stepper.step_fast(y, R, H, F, Q)

    def _step_with_inputs(self, y: np.ndarray, u: ArrayLike | None) -> StepReport | None:
        """Advance by the native call with an input; None, and nothing done, where it has to be validated."""
        if type(u) is not np.ndarray or u.dtype != self._dtype or not self._with_inputs:
            return None
        now, before = self._stepper.inputs
        if u.shape != now.shape or not math.isfinite(u.dot(u)):
            return None
        now[:], before[:] = u, u if self._u_before is None else self._u_before
        report = np.empty(self._report_size, self._dtype)
        if not self._call(self._table, y, report):  # type: ignore[misc]
            return None
        self._u_before = u.copy()
        return StepReport(report, self._layout)

    def _observe(
        self, y: ArrayLike | None, move: Motion, u: ArrayLike | None, observation: Matrices, sensor: Sensor | None
    ) -> StepReport:
        """Take one step, or for a delayed sensor one without a measurement and then the late measurement."""
        size = self.model.obs_dim if sensor is None else len(sensor.R)
        if sensor is None or not sensor.delay:
            return self._step_validated(y, u, move, observation, size)
        made = self.time + move.duration - sensor.delay
        begins = [*(step.begin for step in self._recorded), self.time][-self.horizon :]
        before_start = made < begins[0] and self.t < self.horizon
        if not self.horizon or (made < begins[0] and not before_start):
            raise ValueError(
                f"a sensor with a delay of {sensor.delay:g} needs a larger horizon than {self.horizon} steps, which "
                f"reach back to {begins[0]:g}"
            )
        value = self._measurement(y, size)  # before the step, which must not be taken if this fails
        report = self._step_validated(None, u, move, {}, self.model.obs_dim)
        return report if before_start else self._late_by_time(value, made, observation, size)

    def _step_validated(
        self, y: ArrayLike | None, u: ArrayLike | None, move: Motion, observation: Matrices, size: int
    ) -> StepReport:
        """Validate the arguments of a step, advance, and record what `late` needs."""
        if self._varies:
            validate.check_time_axes(self.model, self.t + 1, self.update_first, "filter")
        R = observation.get("R")
        if R is not None and not (isinstance(R, np.ndarray) and R.shape == (size, size)):  # another sensor, or an error
            matrices = move.matrices | observation
            size = overridden_model(self.model, self.method, self.t, self.update_first, matrices).obs_dim
        value, us = self._measurement(y, size), self._inputs(u)
        end = self.time + move.duration if self.horizon else 0.0
        report = self._advance(RecordedStep(None, value, us, move, observation, end))
        if self._intervals is not None and "H" not in observation:
            residual = np.where(np.isnan(value), np.nan, np.where(np.isfinite(value), report.residual, value))
            variances = innovation_variances(report.innovation_cov)
            self._log_scale = self._intervals.adapt(self._log_scale, residual, variances, report.outlier)
        return report

    def late(
        self,
        y: ArrayLike | None,
        t: int | None = None,
        *,
        time: float | None = None,
        R: ArrayLike | None = None,
        H: ArrayLike | None = None,
        sensor: Sensor | None = None,
    ) -> StepReport:
        """Insert an out-of-sequence measurement at its time, and repeat the steps after it.

        Args:
            y: (M,), or a number; where it is NaN or None, the measurement of step t is kept.
            t: number of the step whose measurement it is, counted from 0, at most `horizon` steps back. A step whose
                measurement is awaited is taken by `step(None)`.
            time: time of the measurement on the clock `online.time`, instead of t: no step needs to be awaiting it. The
                step during which it was made is divided, so the model needs a transition over any time step, as for
                dt.
            R: with a time, as in `step`, like the following.
            H: observation matrix.
            sensor: that made the measurement.

        Returns:
            Report of the step of the late measurement.

        Example:
            >>> import wolf
            >>> car = wolf.models.constant_velocity(dims=1, dt=1.0, dynamics_var=0.1, obs_var=1.0)
            >>> late, timely = wolf.Online(car, "KF", horizon=3), wolf.Online(car, "KF")
            >>> for online, rows in ((late, ((1.0, 1.0), (2.0, 2.0))), (timely, ((1.0, 1.0), (1.5, 1.6), (2.0, 2.0)))):
            ...     for time, y in rows:
            ...         info = online.step(y, time=time)
            >>> info = late.late(1.6, time=1.5)
            >>> bool(np.allclose(late.mean, timely.mean))
            True
        """
        if (t is None) == (time is None):
            raise ValueError("give either the number t of the step, or the time of the measurement")
        with self._lock:
            self._finish_prediction()
            observation = self._observation(R, H, sensor)
            if time is not None:
                size = self.model.obs_dim if sensor is None else len(sensor.R)
                return self._late_by_time(y, validation.known_number("time", time), observation, size)
            if observation:
                raise ValueError(
                    "R, H and sensor go with time; the measurement of step t is of the sensor of that step"
                )
            recorded, back = len(self._recorded), self.t - validation.integer("t", t)
            if not 1 <= back <= recorded:
                within = f"steps {self.t - recorded} to {self.t - 1}" if recorded else "none yet"
                raise ValueError(f"t must be a step within the horizon of {self.horizon} ({within}); got {t!r}")
            first = self._recorded[-back]
            value = self._measurement(y, len(first.value))
            replaced = first._replace(value=np.where(np.isnan(value), first.value, value))
            return self._repeat(recorded - back, [replaced, *list(self._recorded)[-back + 1 or recorded :]])

    def _late_by_time(self, y: ArrayLike | None, time: float, observation: Matrices, size: int) -> StepReport:
        """Insert a measurement by its time."""
        if self._varies or self.update_first:
            what = "arrays that vary in time" if self._varies else "update_first"
            raise ValueError(f"late by time does not go with {what}: use late(y, t)")
        R = observation.get("R")
        if R is not None and np.shape(R) != (size, size):
            size = overridden_model(self.model, self.method, self.t, False, observation).obs_dim
        resting = self._resting_input()
        us = [] if resting is None else [resting, resting]
        late = RecordedStep(None, self._measurement(y, size), us, motion.one_step(self.model), observation, time)
        kept, steps = late_measurements.insert(self.model, self._recorded, self.time, late)
        return self._repeat(kept, steps, added=1)

    def _repeat(self, kept: int, steps: list[RecordedStep], added: int = 0) -> StepReport:
        """Take steps again after a number of recorded ones; return the report of the first."""
        if kept < len(self._recorded):
            snapshot = self._recorded[kept].snapshot
            assert snapshot is not None
            self._stepper.restore(snapshot)
        while len(self._recorded) > kept:
            self._recorded.pop()
        self._clock -= added * motion.step_duration(self.model)
        clock = self._clock
        reports = [self._advance(step) for step in steps]
        self._clock = clock  # the duration of all steps is what it was
        return reports[0]

    def measurement(self, y: ArrayLike | None) -> np.ndarray:
        """Validate one measurement; return it as an array (M,) with NaN for missing coordinates."""
        return self._measurement(y, self.model.obs_dim)

    def snapshot(self) -> Snapshot:
        """Copy the state in the layout of the stepper, which costs less than `state`."""
        with self._lock:
            return self._stepper.snapshot()

    def unpack(self, snapshot: Snapshot) -> PyTree:
        """Convert a snapshot to a state."""
        return self._stepper.unpack(snapshot)

    def set_state(self, state: PyTree) -> None:
        """Replace the state by another one of the same model and method."""
        mine, theirs = self._stepper.state, state
        shapes, given = ([np.shape(leaf) for leaf in jax.tree.leaves(each)] for each in (mine, theirs))
        if type(mine) is not type(theirs) or shapes != given:
            raise ValueError("state must be one of this model and method, as out.final of wolf.filter")
        with self._lock:
            self._stepper.set_state(jax.tree.leaves(state))

    def _advance(self, now: RecordedStep) -> StepReport:
        snapshot = self._stepper.snapshot() if self.horizon else None
        report = self._stepper.step(now.value, now.us, now.matrices)
        if now.motion.matrices:
            self._clock += now.motion.duration - motion.step_duration(self.model)
        self._u_before = now.us[0] if self._with_inputs else None
        if self.horizon:
            self._recorded.append(now._replace(snapshot=snapshot))
        return report

    def save(self, path: str | PathLike[str]) -> None:
        """Write the state to a file, atomically: after a crash the old file is intact.

        Recorded steps are not written: a loaded filter accepts late measurements of steps after it was loaded.

        Args:
            path: of an `.npz` file; it holds numbers and text, never code.
        """
        validation.path("path", path)
        with self._lock:
            if self._pending is not None:
                raise ValueError("a prediction awaits its measurement: call update(y), or update(None), before save")
            arrays: dict[str, PyTree] = {f"state_{i}": leaf for i, leaf in enumerate(jax.tree.leaves(self.state))}
            if self._u_before is not None:
                arrays["u_before"] = self._u_before
            if self._intervals is not None:
                arrays["log_scale"] = self._log_scale
            arrays["clock"] = np.asarray(self._clock)
        if self._key is not None:
            arrays["key"] = np.asarray(jax.random.key_data(self._key))
        checkpoints.write(Path(path), self._header, arrays)

    @cached_property
    def _header(self) -> dict[str, object]:
        settings: dict[str, object] = {"dtype": self.dtype, "update_first": self.update_first, "horizon": self.horizon}
        settings |= {"method": to_dict(self.method)}
        if self._intervals is not None:
            settings["calibrate"] = dataclasses.asdict(self._intervals)
        return checkpoints.make_header(FORMAT, FORMAT_VERSION, self.model, self.method, settings)

    @classmethod
    def load(cls, path: str | PathLike[str], model: Model, method: str | Filter | None = None) -> Online:
        """Load a saved filter.

        Args:
            path: written by `save`.
            model: the same as when it was saved; a different one is an error. Functions are compared by their code,
                or, if another version of Python wrote the file, by their names.
            method: needed only if the saved one has parts from outside wolf; a different one is an error.
        """
        validation.path("path", path)
        validate.check_model(model)
        header, arrays = checkpoints.read(Path(path), FORMAT, FORMAT_VERSION, HEADER)
        method = validate.resolve_method(from_dict(header["method"]) if method is None else method, model)
        checkpoints.check_identity(path, header, model, method)
        validate.check_options(header["dtype"], "all", header["update_first"])
        state = read_state(path, arrays, model, method, header["dtype"])
        validation.key(arrays.get("key"))
        online = cls(
            model,
            method,
            key=jax.random.wrap_key_data(jnp.asarray(arrays["key"])) if "key" in arrays else None,
            update_first=header["update_first"],
            dtype=header["dtype"],
            horizon=header["horizon"],
            state=state,
            calibrate=calibration_of(header),
        )
        online._u_before = arrays.get("u_before")
        online._log_scale = arrays.get("log_scale", online._log_scale)
        online._clock = float(arrays.get("clock", 0.0))
        if online._num_inputs is None and online._u_before is not None:
            online._fix_inputs(len(online._u_before))
        return online

    def __repr__(self) -> str:
        """Summarise the state."""
        state = self.state
        with precision(self.dtype):
            return f"Online: {count(int(state.t), 'measurement')}, state {describe_state(state)}"

    def __getstate__(self) -> dict[str, object]:
        """Return attributes and a snapshot of the state, without compiled code and the lock."""
        with self._lock:
            left_out = ("_lock", "_stepper", "_call", "_table", "_key")
            values = {name: value for name, value in vars(self).items() if name not in left_out}
            key = None if self._key is None else np.asarray(jax.random.key_data(self._key))
            snapshot = jax.tree.map(np.asarray, self._stepper.snapshot())
        return values | {"key": key, "snapshot": snapshot}

    def __setstate__(self, values: dict[str, Any]) -> None:
        """Restore attributes and state, with new code and a new lock."""
        key, snapshot = values.pop("key"), values.pop("snapshot")
        vars(self).update(values, _lock=RLock(), _key=None if key is None else jax.random.wrap_key_data(key))
        pair = prepared.resolve(self.model, self.method, self._key)
        settings = (self._key, self.update_first, self.dtype, self._num_inputs)
        self._stepper, _ = make_stepper(self.backend, pair, *settings)
        self._stepper.restore(snapshot)
        self._bind_native_call()

    def _measurement(self, y: ArrayLike | None, size: int) -> np.ndarray:
        if type(y) is np.ndarray and y.dtype == self._dtype and y.shape == (size,):
            return y.copy() if self.horizon else y  # the usual case, first
        if y is None:
            return np.full(size, np.nan, self.dtype)
        value = validation.data_array("y", y)
        if value.ndim == 0 and size == 1:
            value = value[None]
        if value.shape != (size,):
            raise ValueError(f"y must have shape ({size},) to match the model's obs_cov; got {value.shape}")
        return value if self.dtype == "float64" else to_dtype(value, self.dtype)

    def _inputs(self, u: ArrayLike | None) -> list[np.ndarray]:
        """Validate the input; return it with that of the previous step."""
        if u is None and not self._with_inputs:
            return []
        if u is None:
            raise ValueError("the model takes inputs: pass u= with shape (U,)")
        if not self._with_inputs:
            raise ValueError("u was given, but the model takes no inputs")
        value = np.atleast_1d(validation.number_array("u", u)).astype(self.dtype)
        columns = self._num_inputs
        if value.ndim != 1 or columns not in (None, len(value)):
            why = (
                " to match B" if self.model.linear else "" if columns is None else " as before, or as the model states"
            )
            raise ValueError(f"u must have shape ({'U' if columns is None else columns},){why}; got {value.shape}")
        if not np.all(np.isfinite(value)):
            raise ValueError("u must be finite; missing inputs are not supported: fill them in")
        if columns is None:
            self._fix_inputs(len(value))
        return [value, value if self._u_before is None else self._u_before]
