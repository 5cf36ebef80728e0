"""One forward pass over a series of one column, and a backward pass where requested, in blocks of bounded memory.

The Kalman filter with a variance of its own for every measurement, and NaN for each that is left out. The retrospective
fault search runs it many times while it decides which measurements are faults.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jax import Array

from wolf import native
from wolf.beliefs import Gaussian
from wolf.execution import backend_selection, xla_batching
from wolf.execution.padding import pad_rows, pad_to_power_of_two
from wolf.execution.smoothing import SmootherTask, run
from wolf.inference.filters.gaussian import GaussianState
from wolf.inference.registry import KF
from wolf.interfaces import Filter, State, StepInfo
from wolf.numerics.precision import precision
from wolf.numerics.pytree import cast
from wolf.runtime import malloc_trim
from wolf.statespace import LinearModel
from wolf.statespace.array_fields import replace

BLOCK_ROWS = 16_384  # rows of one compiled call
LOOKAHEAD_ROWS = 1_024  # rows beyond a block that its smoothing uses

Build = Callable[[np.ndarray | None], LinearModel]  # gaps -> model of one column
_Block = tuple[slice, LinearModel, dict[str, np.ndarray]]  # rows, their model, what was recorded


class SmootherPass(NamedTuple):
    """Result of a pass.

    Attributes:
        errors: one-step errors over their deviation, (T,); 0 where nothing was used.
        spread: variance of the one-step errors, (T,).
        mean: of the noise-free signal, (T,): smoothed if requested, filtered otherwise.
        variance: of the mean, (T,).
        final: state after the last row.
    """

    errors: np.ndarray
    spread: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    final: Any


def run_pass(
    build: Build, values: np.ndarray, noise: np.ndarray, gaps: np.ndarray | None, smooth: bool = True
) -> SmootherPass:
    """Filter a series, and smooth it.

    Args:
        build: gaps -> model of one column.
        values: (T,), NaN where missing or left out.
        noise: variance of each measurement over the model's, (T,).
        gaps: before each row, (T,), in steps; None where all are 1.
        smooth: also run the backward pass.
    """
    count = len(values)
    size = min(BLOCK_ROWS, pad_to_power_of_two(count))
    out = SmootherPass(np.empty(count), np.empty(count), np.empty(count), np.empty(count), None)
    even, method = build(None), KF()
    state: GaussianState | None = None
    pending: _Block | None = None
    for first in range(0, count, size):
        rows = slice(first, min(first + size, count))
        model = _block_model(build, even, gaps, noise, rows, size)
        state, saved = _forward(model, method, values[rows], size, state)
        if not first and count > BLOCK_ROWS:
            malloc_trim.trim_heap()
        length = rows.stop - rows.start
        out.errors[rows] = _standardised(saved, values[rows])
        out.spread[rows] = saved["innovation"][:length]
        if smooth:
            if pending is not None:
                _smooth_block(out, pending, (model, saved))
            pending = (rows, model, saved)
        else:
            _store(out, rows, even, saved["means"][:length], saved["covs"][:length])
    if smooth:
        assert pending is not None  # a series has rows
        _smooth_block(out, pending, None)
    return out._replace(final=state)


def _block_model(
    build: Build, even: LinearModel, gaps: np.ndarray | None, noise: np.ndarray, rows: slice, size: int
) -> LinearModel:
    model = even if gaps is None else build(pad_rows(gaps[rows], size, 1.0))
    ratio = pad_rows(noise[rows], size, 1.0)
    return replace(model, R=ratio[:, None, None] * np.asarray(even.R))  # type: ignore[no-any-return]


def _forward(
    model: LinearModel, method: Filter, values: np.ndarray, size: int, state: Any
) -> tuple[GaussianState, dict[str, np.ndarray]]:
    padded = pad_rows(values[:, None], size, np.nan)
    if state is not None:
        state = state._replace(t=np.zeros_like(state.t))
    ready, _ = backend_selection.compile_filter("auto", [model], method, "float64", False, None, _record)
    if ready is not None:
        final, saved = native.run_one(ready, padded, None, state)
    else:
        with precision("float64"):
            model, method = cast(model, "float64"), cast(method, "float64")
            state = method.init(model, None) if state is None else state
            final, saved = xla_batching.run_one(model, method, padded, state=state, save=_record)
    # The padded rows share programs; the belief after them is wider than the one after the last row.
    last = len(values) - 1
    return final._replace(belief=final.belief._replace(mean=saved["means"][last], cov=saved["covs"][last])), saved


def _record(state: State, info: StepInfo) -> dict[str, Array]:
    return {
        "means": state.mean,
        "covs": state.cov,
        "predicted_means": info.predicted.mean,
        "predicted_covs": info.predicted.cov,
        "residual": info.residual[0],
        "innovation": info.innovation_cov[0, 0],
    }


def _standardised(saved: dict[str, np.ndarray], values: np.ndarray) -> np.ndarray:
    count = len(values)
    errors = saved["residual"][:count] / np.sqrt(saved["innovation"][:count])
    return np.where(np.isnan(values), 0.0, errors)


def _smooth_block(out: SmootherPass, block: "_Block", after: tuple[LinearModel, dict[str, np.ndarray]] | None) -> None:
    """Smooth a block together with the first rows of the next one."""
    rows, model, saved = block
    length = rows.stop - rows.start
    names = ("means", "covs", "predicted_means", "predicted_covs")
    arrays = {name: saved[name] for name in names}
    joined = model
    if after is not None:
        next_model, next_saved = after
        arrays = {name: np.concatenate([arrays[name], next_saved[name][:LOOKAHEAD_ROWS]]) for name in names}
        if (model.F is not None and model.F.ndim == 3) or model.Q.ndim == 3:
            joined = replace(model, F=_extend(model.F, next_model.F), Q=_extend(model.Q, next_model.Q))
    # The backward pass uses the dynamics alone, so the varying measurement noise is replaced by a constant.
    joined = replace(joined, R=np.eye(1))
    filtered = Gaussian(arrays["means"], arrays["covs"])
    predicted = Gaussian(arrays["predicted_means"], arrays["predicted_covs"])
    smoothed = run(SmootherTask((joined,), False, KF().linearization, filtered, predicted, 0, "float64", False))
    _store(out, rows, model, smoothed.mean[:length], smoothed.cov[:length])


def _extend(first: np.ndarray | None, second: np.ndarray | None) -> np.ndarray | None:
    if first is None or second is None or first.ndim == 2:
        return first
    return np.concatenate([first, second[:LOOKAHEAD_ROWS]])


def _store(out: SmootherPass, rows: slice, model: LinearModel, means: np.ndarray, covs: np.ndarray) -> None:
    row = np.asarray(model.H)[0]
    out.mean[rows] = means @ row
    # One product over all entries: products of many small matrices take longer than the filter.
    out.variance[rows] = np.maximum(covs.reshape(len(covs), -1) @ np.outer(row, row).ravel(), 0.0)
