"""Fixed-lag smoothing: what is known about the state of a few steps ago, as measurements come.

A belief about now cannot know whether the last odd measurement was an outlier or the first of a turn; one about a few
steps ago does, and is far more precise. It is the exact smoother (Rauch, Tung & Striebel 1965) over the last steps.
Where refused measurements win a vote, these steps are filtered once more with the jump where the vote began.
"""

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from wolf import native, validation
from wolf.beliefs import Gaussian
from wolf.engine import jump_backdating
from wolf.engine.scan import run_filter
from wolf.engine.smoother import run_smoother
from wolf.execution import backend_selection, validate
from wolf.interfaces import Dtype, Filter, Key, StepInfo
from wolf.numerics.precision import precision, to_numpy
from wolf.numerics.pytree import cast
from wolf.online.online import Online
from wolf.online.step_info import StepReport
from wolf.statespace import Model, with_matrices


class LaggedEstimate(NamedTuple):
    """What is known about an earlier step.

    Attributes:
        t: its number, counted from 0.
        mean: of the state, (D,).
        cov: (D, D).
        report: what the newest step told about itself.
    """

    t: int
    mean: np.ndarray
    cov: np.ndarray
    report: StepReport


class FixedLag:
    """A filter that answers a few steps late, and better.

    Args:
        model: as in `wolf.Online`.
        method: as in `wolf.Online`; with means and covariances.
        lag: how many steps to wait. At the start, before as many have come, the answer is about the first step.
        key: as in `wolf.Online`.
        update_first: as in `wolf.Online`.
        dtype: as in `wolf.Online`.
        horizon: as in `wolf.Online`.

    Example:
        >>> import wolf
        >>> late = FixedLag(wolf.models.local_level(level_var=0.1, obs_var=1.0), lag=2)
        >>> [late.step(y).t for y in (1.0, 1.2, 50.0, 1.1)]
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
        self._past: deque[_Past] = deque(maxlen=lag + 1)
        self._votes = jump_backdating.supports_backdating(self.online.method)
        self._jumped: int | None = None  # the step at which the last jump began
        with precision(self.online.dtype):
            self._model, moments = cast((with_matrices(model), self.online.method.linearization), self.online.dtype)
        self._native = backend_selection.plan_back(
            (self._model,), moments, self.online.dtype, None, native.SmootherSpec(True, False)
        )
        self._smooth = partial(_oldest, self._model, moments, update_first=self.online.update_first)

    def step(self, y: ArrayLike | None) -> LaggedEstimate:
        """Take in one measurement.

        Args:
            y: as in `Online.step`.

        Returns:
            The belief about `lag` steps ago in the light of all measurements, this one included.
        """
        with self.online._lock:
            state = self.online.state if self._votes else None
            report = self.online.step(y)
            after = self.online.state
            votes = after.memory.consistent if self._votes else None
            value = self.online.measurement(y)
            scale = np.asarray(1.0 if report.dynamics_scale is None else report.dynamics_scale)
            beliefs = (np.asarray(after.mean), np.asarray(after.cov), *report.predicted, scale)
            self._past.append(_Past(beliefs, state, value, votes))
            if self._votes and report.inflation is not None and report.inflation > 1.0:
                self._look_back()
            now, past = self.online.t - 1, [each.beliefs for each in self._past]
        mean, cov = self._walk_back_native(past, now) or self._walk_back(past, now)
        return LaggedEstimate(now - len(past) + 1, mean, cov, report)

    def _walk_back_native(self, past: list[tuple], now: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Smooth the last steps by native code; None where that is for XLA."""
        if self._native is None:
            return None
        columns = (np.stack(column)[None] for column in zip(*past, strict=True))
        means, covs, before, before_covs, scales = (np.asarray(column, self.online.dtype) for column in columns)
        beliefs, start = (Gaussian(means, covs), Gaussian(before, before_covs)), now - len(past) + 1
        found = native.walk_back(self._native, *beliefs, None, None, start, scales, self.online.update_first)
        mean, cov = found.mean[0, 0], found.cov[0, 0]
        return (mean, cov) if np.isfinite(cov).all() else None

    def _walk_back(self, past: list[tuple], now: int) -> tuple[np.ndarray, np.ndarray]:
        """Smooth the last steps by XLA, padded to one length, so that one program serves from the first step on."""
        there = len(past)
        rows = [*past, *[past[-1]] * (self.lag + 1 - there)]
        means, covs, before, before_covs, scales = (np.stack(column) for column in zip(*rows, strict=True))
        with precision(self.online.dtype):
            beliefs = cast((Gaussian(means, covs), Gaussian(before, before_covs)), self.online.dtype)
            told = cast(scales, self.online.dtype)
            mean, cov = self._smooth(*beliefs, np.int32(there), np.int32(now - there + 1), told)
        return np.asarray(mean), np.asarray(cov)

    def _look_back(self) -> None:
        """Filter the last steps again, with the jump where the vote that was won just now began.

        If that leads back to where the state was before another jump, both were a burst of lies.
        """
        past = list(self._past)
        ys, votes = np.stack([each.value for each in past]), np.stack([each.votes for each in past])
        won = np.where(np.arange(len(past)) < len(past) - 1, 1.0, np.inf)
        (starts,) = jump_backdating.possible_starts(votes, won, ~np.isnan(ys).all(1))
        first, oldest = min(starts), self.online.t - len(past)
        best = max(starts, key=lambda start: float(self._again(first, [start]).log_liks[: len(past) - first].sum()))
        before = None if self._jumped is None else self._jumped - oldest
        if before is not None and before >= 0:

            def refused(jumps: list[int], bursts: list[tuple[int, int]]) -> np.ndarray:
                found = self._again(before, jumps, bursts).outliers[: len(past) - before]
                return np.concatenate([np.zeros((before, *found.shape[1:]), bool), found])

            jumps, bursts = jump_backdating.without_bursts([before, best], refused)
            if bursts:
                self._jumped = None
                self._take_over(before, self._again(before, jumps, bursts))
                return
        self._jumped = oldest + best
        self._take_over(first, self._again(first, [best]))

    def _again(self, first: int, jumps: list[int], bursts: Sequence[tuple[int, int]] = ()) -> "_Run":
        """Filter again from one of the last steps on, with jumps and bursts at some of them."""
        past, online = list(self._past), self.online
        there = len(past) - first
        rows = np.full((self.lag + 1, len(past[0].value)), np.nan, past[0].value.dtype)  # one length, one program
        rows[:there] = np.stack([each.value for each in past[first:]])
        barred = [(start - first, end - first) for start, end in bursts]
        told = jump_backdating.with_jumps(
            online.method, [j - first for j in jumps], len(rows), online.t - there, barred
        )
        order = {"state": past[first].state, "update_first": online.update_first}
        with precision(online.dtype):
            found = run_filter(self._model, cast(told, online.dtype), rows, **order, save=_keep)[1]
            return to_numpy(found)  # type: ignore[no-any-return]

    def _take_over(self, first: int, found: "_Run") -> None:
        """Put steps that were filtered again in the place of the old ones."""
        for i in range(len(self._past) - first):
            state, before = jax.tree.map(lambda leaf, i=i: leaf[i], (found.states, found.predicted))
            beliefs = (np.asarray(state.mean), np.asarray(state.cov), *before, found.scales[i])
            self._past[first + i] = self._past[first + i]._replace(beliefs=beliefs, votes=state.memory.consistent)
        self.online.go_on_from(state)


class _Past(NamedTuple):
    """One of the last steps: mean and covariance after and before it, and what taking it again needs."""

    beliefs: tuple[np.ndarray, ...]
    state: Any
    value: np.ndarray
    votes: Any


class _Run(NamedTuple):
    """The last steps, filtered again."""

    states: Any
    predicted: Gaussian
    log_liks: np.ndarray
    scales: np.ndarray
    outliers: np.ndarray


def _keep(state: Any, info: StepInfo) -> _Run:
    scale: Any = jnp.ones_like(info.log_likelihood) if info.dynamics_scale is None else info.dynamics_scale
    return _Run(state, info.predicted, info.log_likelihood, scale, info.outlier)


@partial(jax.jit, static_argnames=("update_first",))
def _oldest(
    model: Any,
    linearization: Any,
    filtered: Gaussian,
    predicted: Gaussian,
    length: Any,
    start: Any,
    scales: Any,
    *,
    update_first: bool,
) -> tuple[Any, Any]:
    smoothed = run_smoother(
        model, linearization, filtered, predicted, None, length, start, scales, update_first=update_first
    )
    return smoothed.mean[0], smoothed.cov[0]
