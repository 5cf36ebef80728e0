"""Fixed-lag smoothing: the state of a few steps ago, given all measurements so far.

A filter cannot tell at once whether a measurement far from its prediction is an outlier or the first after a change; a
few measurements later this is known, and the estimate is far more precise. It is the exact smoother (Rauch, Tung &
Striebel 1965) over the last steps. Where consistent rejections are accepted as a jump of the state, these steps are
filtered again with the jump at the step where the rejections began.
"""

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from wolf import native, validation
from wolf.beliefs import Gaussian
from wolf.engine import jump_backdating
from wolf.engine.scan import run_filter
from wolf.engine.smoother import run_smoother
from wolf.execution import backend_selection, validate
from wolf.execution.smoothing import run_program
from wolf.inference.filters import GaussianFilter
from wolf.interfaces import Dtype, Filter, Key, Linearization, Number, StepInfo
from wolf.numerics.precision import precision, to_numpy
from wolf.numerics.pytree import PyTree, cast
from wolf.online.online import Online
from wolf.online.step_info import StepReport
from wolf.statespace import Model, with_matrices


class LaggedEstimate(NamedTuple):
    """Smoothed estimate of an earlier step.

    Attributes:
        t: number of the step, counted from 0.
        mean: of the state, (D,).
        cov: (D, D).
        report: of the newest step.
    """

    t: int
    mean: np.ndarray
    cov: np.ndarray
    report: StepReport


class FixedLag:
    """A filter and a smoother over its last steps.

    Args:
        model: as in `wolf.Online`.
        method: as in `wolf.Online`; with means and covariances.
        lag: number of steps to wait. Until there are as many, the estimate is of the first step.
        key: as in `wolf.Online`.
        update_first: as in `wolf.Online`.
        dtype: as in `wolf.Online`.
        horizon: as in `wolf.Online`.

    Example:
        >>> import wolf
        >>> smoother = FixedLag(wolf.models.local_level(level_var=0.1, obs_var=1.0), lag=2)
        >>> [smoother.step(y).t for y in (1.0, 1.2, 50.0, 1.1)]
        [0, 0, 0, 1]
    """

    def __init__(
        self,
        model: Model,
        method: str | Filter | None = None,
        *,
        lag: int = 10,
        key: Key | None = None,
        update_first: bool = False,
        dtype: Dtype = "float64",
        horizon: int = 0,
    ):
        validation.count("lag", lag)
        self.online = Online(model, method, key=key, update_first=update_first, dtype=dtype, horizon=horizon)
        if self.online.method.linearization is None:
            raise ValueError(f"FixedLag needs a Gaussian filter; got {type(self.online.method).__name__}")
        if model.takes_inputs:
            raise ValueError("FixedLag takes models without inputs; smooth a finished run with wolf.smooth")
        validate.refuse_if_large("lag", lag, 2 * model.state_dim * (model.state_dim + 1), dtype)
        self.lag = lag
        self._steps: deque[_FilteredStep] = deque(maxlen=lag + 1)
        self._backdates = jump_backdating.supports_backdating(self.online.method)
        self._last_jump: int | None = None  # step at which it began
        self._compile()

    def _compile(self) -> None:
        """Prepare the smoother, by native code if it supports the model."""
        online = self.online
        with precision(online.dtype):
            self._model, linearization = cast((with_matrices(online.model), online.method.linearization), online.dtype)
        self._native = backend_selection.compile_backward(
            (self._model,), linearization, online.dtype, None, native.SmootherSpec(True, False)
        )
        self._smooth_first = partial(_smooth_first, self._model, linearization, update_first=online.update_first)

    def __getstate__(self) -> dict[str, object]:
        """Return the filter and its last steps, without compiled code."""
        with self.online._lock:
            compiled = ("_model", "_native", "_smooth_first")
            values = {name: value for name, value in vars(self).items() if name not in compiled}
            return values | {"_steps": self._steps.copy()}

    def __setstate__(self, values: dict[str, Any]) -> None:
        """Restore the filter and its last steps, with new code."""
        vars(self).update(values)
        self._compile()

    def step(self, y: ArrayLike | None) -> LaggedEstimate:
        """Advance by one measurement.

        Args:
            y: as in `Online.step`.

        Returns:
            Estimate of the state `lag` steps ago, given all measurements including this one.
        """
        with self.online._lock:
            before = self.online.snapshot() if self._backdates else None
            value = np.array(self.online.measurement(y))  # a copy: the caller may reuse the array
            report = self.online.step(value)
            state = self.online.state
            scale = np.asarray(1.0 if report.dynamics_scale is None else report.dynamics_scale)
            beliefs = (np.asarray(state.mean), np.asarray(state.cov), *report.predicted, scale)
            rejections = state.memory.consistent if self._backdates else None
            self._steps.append(_FilteredStep(beliefs, before, value, rejections))
            now = int(state.t) - 1
            if self._backdates and report.inflation is not None and report.inflation > 1.0:
                self._backdate_jump(now)
            rows = [each.beliefs for each in self._steps]
        mean, cov = self._smooth_native(rows, now) or self._smooth_xla(rows, now)
        return LaggedEstimate(now - len(rows) + 1, mean, cov, report)

    def _smooth_native(self, rows: list[tuple], now: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Smooth the first of the last steps by native code; None where XLA has to."""
        if self._native is None:
            return None
        columns = (np.stack(column)[None] for column in zip(*rows, strict=True))
        means, covs, before, before_covs, scales = (np.asarray(column, self.online.dtype) for column in columns)
        beliefs, start = (Gaussian(means, covs), Gaussian(before, before_covs)), now - len(rows) + 1
        found = run_program(self._native, *beliefs, None, None, start, scales, self.online.update_first)
        return None if found is None else (found.mean[0, 0], found.cov[0, 0])

    def _smooth_xla(self, rows: list[tuple], now: int) -> tuple[np.ndarray, np.ndarray]:
        """Smooth the first of the last steps by XLA, padded to one length so that one program is compiled."""
        length = len(rows)
        padded = [*rows, *[rows[-1]] * (self.lag + 1 - length)]
        means, covs, before, before_covs, scales = (np.stack(column) for column in zip(*padded, strict=True))
        with precision(self.online.dtype):
            beliefs = cast((Gaussian(means, covs), Gaussian(before, before_covs)), self.online.dtype)
            factors = cast(scales, self.online.dtype)
            mean, cov = self._smooth_first(*beliefs, np.int32(length), np.int32(now - length + 1), factors)
        return np.asarray(mean), np.asarray(cov)

    def _backdate_jump(self, now: int) -> None:
        """Filter the last steps again, with the jump that was just accepted where its rejections began.

        If that returns to the state before an earlier jump, both were a burst of consistent outliers.
        """
        steps = list(self._steps)
        ys, rejections = np.stack([each.value for each in steps]), np.stack([each.rejections for each in steps])
        inflations = np.where(np.arange(len(steps)) < len(steps) - 1, 1.0, np.inf)
        (starts,) = jump_backdating.possible_starts(rejections, inflations, ~np.isnan(ys).all(1))
        first, oldest = min(starts), now + 1 - len(steps)

        def log_likelihood(start: int) -> float:
            return float(self._filter_again(now, first, [start]).log_liks[: len(steps) - first].sum())

        best = max(starts, key=log_likelihood)
        before = None if self._last_jump is None else self._last_jump - oldest
        if before is not None and before >= 0:

            def rejected(jumps: list[int], bursts: list[tuple[int, int]]) -> np.ndarray:
                found = self._filter_again(now, before, jumps, bursts).outliers[: len(steps) - before]
                return np.concatenate([np.zeros((before, *found.shape[1:]), bool), found])

            jumps, bursts = jump_backdating.without_bursts([before, best], rejected)
            if bursts:
                self._last_jump = None
                self._replace_from(before, self._filter_again(now, before, jumps, bursts))
                return
        self._last_jump = oldest + best
        self._replace_from(first, self._filter_again(now, first, [best]))

    def _filter_again(
        self, now: int, first: int, jumps: list[int], bursts: Sequence[tuple[int, int]] = ()
    ) -> "_FilteredSteps":
        """Filter again from one of the last steps on, with known jumps and bursts."""
        steps, online = list(self._steps), self.online
        length = len(steps) - first
        rows = np.full((self.lag + 1, len(steps[0].value)), np.nan, steps[0].value.dtype)  # one length, one program
        rows[:length] = np.stack([each.value for each in steps[first:]])
        barred = [(start - first, end - first) for start, end in bursts]
        assert isinstance(online.method, GaussianFilter)
        method = jump_backdating.with_jumps(
            online.method, [jump - first for jump in jumps], len(rows), now + 1 - length, barred
        )
        options = {"state": online.unpack(steps[first].before), "update_first": online.update_first}
        with precision(online.dtype):
            found = run_filter(self._model, rows, cast(method, online.dtype), **options, save=_record)[1]
            return to_numpy(found)  # type: ignore[no-any-return]

    def _replace_from(self, first: int, found: "_FilteredSteps") -> None:
        """Replace the last steps, and the state, by those that were filtered again."""
        for i in range(len(self._steps) - first):
            state, before = jax.tree.map(lambda leaf, i=i: leaf[i], (found.states, found.predicted))
            beliefs = (np.asarray(state.mean), np.asarray(state.cov), *before, found.scales[i])
            self._steps[first + i] = self._steps[first + i]._replace(
                beliefs=beliefs, rejections=state.memory.consistent
            )
        self.online.set_state(state)


class _FilteredStep(NamedTuple):
    """One of the last steps.

    Attributes:
        beliefs: filtered mean and covariance, predicted mean and covariance, scale factor of Q.
        before: snapshot of the state before the step, if it may be filtered again.
        value: measurement, (M,).
        rejections: consecutive consistent rejections after the step.
    """

    beliefs: tuple[np.ndarray, ...]
    before: PyTree
    value: np.ndarray
    rejections: PyTree


class _FilteredSteps(NamedTuple):
    """Steps that were filtered again, stacked."""

    states: PyTree
    predicted: Gaussian
    log_liks: np.ndarray
    scales: np.ndarray | Array
    outliers: np.ndarray


def _record(state: PyTree, info: StepInfo) -> _FilteredSteps:
    scale = jnp.ones_like(info.log_likelihood) if info.dynamics_scale is None else info.dynamics_scale
    return _FilteredSteps(state, info.predicted, info.log_likelihood, scale, info.outlier)


@partial(jax.jit, static_argnames=("update_first",))
def _smooth_first(
    model: Model,
    linearization: Linearization,
    filtered: Gaussian,
    predicted: Gaussian,
    length: Number,
    start: Number,
    scales: Number,
    *,
    update_first: bool,
) -> tuple[PyTree, PyTree]:
    smoothed = run_smoother(
        model, linearization, filtered, predicted, None, length, start, scales, update_first=update_first
    )
    return smoothed.mean[0], smoothed.cov[0]
