"""One pass over a series of one column: forward, and back where asked for, in blocks of bounded memory.

The Kalman filter with a variance of its own for every reading, infinite where a reading is left out: what hindsight
needs, again and again, while it judges which readings are faults.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from wolf import native
from wolf.beliefs import Gaussian
from wolf.engine.smoother import run_smoother
from wolf.execution import backend_selection, xla_batching
from wolf.inference.registry import KF
from wolf.numerics.precision import precision, to_numpy
from wolf.numerics.pytree import cast
from wolf.runtime import malloc_trim
from wolf.statespace import LinearModel
from wolf.statespace.array_fields import replace

BLOCK = 16_384  # rows of one compiled call
SMALLEST = 256  # rows that a shorter series is padded to, so that many short ones share a program
AHEAD = 1_024  # rows beyond a block that its smoothing looks at

Build = Callable[[np.ndarray | None], LinearModel]  # gaps -> model of one column


class SmootherPass(NamedTuple):
    """What a pass says.

    Attributes:
        errors: one-step errors over their deviation, (T,); 0 where nothing was used.
        spread: variance of the one-step errors, (T,).
        mean: of what a perfect sensor would say, (T,): smoothed if asked for, filtered otherwise.
        variance: of that, (T,).
        final: state after the last row.
    """

    errors: np.ndarray
    spread: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    final: Any


def sweep(
    build: Build, values: np.ndarray, noise: np.ndarray, gaps: np.ndarray | None, smooth: bool = True
) -> SmootherPass:
    """Filter a series, and smooth it.

    Args:
        build: gaps -> model of one column.
        values: (T,), NaN where missing or left out.
        noise: variance of each reading over the model's, (T,).
        gaps: before each row, (T,), in steps; None where all are 1.
        smooth: whether to go back.
    """
    count = len(values)
    size = min(BLOCK, _bucket(count))
    out = SmootherPass(np.empty(count), np.empty(count), np.empty(count), np.empty(count), None)
    even, method = build(None), KF()
    state: Any = None
    waiting: Any = None
    for first in range(0, count, size):
        rows = slice(first, min(first + size, count))
        model = _block_model(build, even, gaps, noise, rows, size)
        state, saved = _forward(model, method, values[rows], size, state)
        if not first and count > BLOCK:
            malloc_trim.trim_heap()
        length = rows.stop - rows.start
        out.errors[rows] = _standardised(saved, values[rows])
        out.spread[rows] = saved["innovation"][:length]
        if smooth:
            if waiting is not None:
                _back(out, waiting, (model, saved))
            waiting = (rows, model, saved)
        else:
            _put(out, rows, even, saved["means"][:length], saved["covs"][:length])
    if smooth:
        _back(out, waiting, None)
    return out._replace(final=state)


def _block_model(
    build: Build, even: LinearModel, gaps: np.ndarray | None, noise: np.ndarray, rows: slice, size: int
) -> LinearModel:
    model = even if gaps is None else build(_pad(gaps[rows], size, 1.0))
    ratio = _pad(noise[rows], size, 1.0)
    return replace(model, R=ratio[:, None, None] * np.asarray(even.R))  # type: ignore[no-any-return]


def _forward(model: LinearModel, method: Any, values: np.ndarray, size: int, state: Any) -> tuple[Any, Any]:
    padded = _pad(values[:, None], size, np.nan)
    if state is not None:
        state = state._replace(t=np.zeros_like(state.t))
    ready, _ = backend_selection.compile_filter("auto", [model], method, "float64", False, None, _kept)
    if ready is not None:
        final, saved = native.run_one(ready, padded, None, state)
    else:
        with precision("float64"):
            model, method = cast(model, "float64"), cast(method, "float64")
            state = method.init(model, None) if state is None else state
            final, saved = xla_batching.run_one(model, method, padded, state=state, save=_kept)
    # The rows beyond the last one are there to share programs: what is known after them is less than at the end.
    last = len(values) - 1
    return final._replace(belief=final.belief._replace(mean=saved["means"][last], cov=saved["covs"][last])), saved


def _kept(state: Any, info: Any) -> dict[str, Any]:
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


def _back(out: SmootherPass, block: tuple[slice, LinearModel, dict[str, np.ndarray]], after: Any) -> None:
    """Smooth a block with the first rows of the one after it."""
    rows, model, saved = block
    length = rows.stop - rows.start
    names = ("means", "covs", "predicted_means", "predicted_covs")
    arrays = {name: saved[name] for name in names}
    lead = model
    if after is not None:
        later, told = after
        arrays = {name: np.concatenate([arrays[name], told[name][:AHEAD]]) for name in names}
        if (model.F is not None and model.F.ndim == 3) or model.Q.ndim == 3:
            joined = {name: _joined(getattr(model, name), getattr(later, name)) for name in ("F", "Q")}
            lead = replace(model, **joined)
    # Only the dynamics lead back, so the noise of readings, which varies, has no place in it.
    lead = replace(lead, R=np.eye(1))
    filtered = Gaussian(arrays["means"], arrays["covs"])
    smoothed = _walk_back(lead, filtered, Gaussian(arrays["predicted_means"], arrays["predicted_covs"]))
    _put(out, rows, model, smoothed.mean[:length], smoothed.cov[:length])


def _walk_back(model: LinearModel, filtered: Gaussian, predicted: Gaussian) -> Gaussian:
    """Smooth by native code, or by XLA what is not for it."""
    moments = KF().linearization
    ready = backend_selection.compile_backward(
        (model,), moments, "float64", None, native.SmootherSpec(scaled=False, ragged=False)
    )
    if ready is not None:
        one, other = (Gaussian(each.mean[None], each.cov[None]) for each in (filtered, predicted))
        found = native.run_smoother(ready, one, other)
        if np.isfinite(found.cov[0, 0]).all():  # otherwise a direction without spread, which takes eigenvectors
            return Gaussian(found.mean[0], found.cov[0])
    with precision("float64"):
        return to_numpy(run_smoother(cast(model, "float64"), moments, filtered, predicted))  # type: ignore[no-any-return]


def _joined(first: Any, second: Any) -> Any:
    return first if first is None or first.ndim == 2 else np.concatenate([first, second[:AHEAD]])


def _put(out: SmootherPass, rows: slice, model: LinearModel, means: np.ndarray, covs: np.ndarray) -> None:
    row = np.asarray(model.H)[0]
    out.mean[rows] = means @ row
    # One product with all entries: of small matrices, one by one takes longer than the filter.
    out.variance[rows] = np.maximum(covs.reshape(len(covs), -1) @ np.outer(row, row).ravel(), 0.0)


def _bucket(count: int) -> int:
    return max(SMALLEST, 1 << (count - 1).bit_length())


def _pad(array: np.ndarray, length: int, blank: float) -> np.ndarray:
    if len(array) == length:
        return array
    return np.concatenate([array, np.full((length - len(array), *array.shape[1:]), blank)])
