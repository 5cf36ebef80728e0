"""Runs of whole series in native code, the counterpart of `wolf.execution.xla_batching`."""

from operator import itemgetter

import jax
import numpy as np

from wolf.beliefs import Gaussian
from wolf.native.execute.executable import LANES, NativeProgram, run_rows
from wolf.native.frontend.loo_step import BELIEFS
from wolf.numerics.pytree import PyTree
from wolf.runtime import processors

ROWS_PER_THREAD = 5_000  # series times steps from which a further thread is worth its start


def run_one(
    ready: NativeProgram,
    ys: np.ndarray,
    us: np.ndarray | None,
    state: PyTree = None,
    u_before: np.ndarray | None = None,
) -> tuple[PyTree, PyTree]:
    """Filter one series.

    Args:
        ready: compiled model and method.
        ys: (T, M), in the precision of the run.
        us: inputs, (T, U).
        state: the state to continue from; default: the prior.
        u_before: the input before the first row.

    Returns:
        The final state, and the recorded values of each step.
    """
    if state is None:
        numbers, counts = ready.start(1)
    else:
        numbers, counts = ready.code.pack([np.asarray(leaf)[None] for leaf in jax.tree.leaves(state)])
    start = 0 if state is None else int(state.t)
    rows = _step_inputs(ready, ys[None], None if us is None else us[None], u_before, start)
    saved = run_rows(ready.code, ready.kept, numbers, counts, rows)
    return ready.code.unpack(numbers[0], counts[0]), jax.tree.map(itemgetter(0), saved)


def run_many(
    ready: NativeProgram,
    ys: np.ndarray,
    us: np.ndarray | None,
    lengths: np.ndarray | None,
    threads: int | None,
    state: PyTree = None,
    u_before: np.ndarray | None = None,
) -> tuple[PyTree, PyTree]:
    """Filter many series, eight per register, on several threads.

    Args:
        ready: compiled model or models, and method.
        ys: (B, T, M), in the precision of the run.
        us: inputs, (B, T, U) or (T, U).
        lengths: (B,), the number of rows of each series.
        threads: maximum number of threads; default: one per core.
        state: the states to continue from, (B, ...); default: the prior.
        u_before: the inputs before the first rows, (B, U).

    Returns:
        The final states, and the recorded values of each step, with the series axis first.
    """
    numbers, counts = ready.start(len(ys)) if state is None else ready.code.pack(jax.tree.leaves(state))
    start = 0 if state is None else state.t if np.ptp(state.t) else int(state.t[0])
    rows = _step_inputs(ready, ys, us, None if u_before is None else u_before[:, None], start)
    busy = _num_threads(threads, ys.shape[0] * ys.shape[1])
    saved = run_rows(ready.code, ready.kept, numbers, counts, rows, lengths=lengths, threads=busy)
    return ready.code.unpack(numbers, counts), saved


def run_smoother(
    ready: NativeProgram,
    filtered: Gaussian,
    predicted: Gaussian,
    us: np.ndarray | None = None,
    lengths: np.ndarray | None = None,
    start: int = 0,
    scales: np.ndarray | None = None,
    update_first: bool = False,
) -> Gaussian:
    """Smooth many series: the rows are read in reverse order, by negative strides.

    The arguments are those of `wolf.engine.smoother.run_smoothers`, with one start for all, in the precision of the
    run.

    Returns:
        Smoothed means and covariances, (B, T, ...). Where a prediction is singular they may be NaN, from there back to
        the first step.
    """
    steps = filtered.mean.shape[1] - 1
    filtered, predicted = (Gaussian(*map(np.ascontiguousarray, each)) for each in (filtered, predicted))
    smoothed = Gaussian(*map(np.empty_like, filtered))
    numbers, counts = ready.code.pack([each[:, -1] for each in filtered])
    for new, old in zip(smoothed, filtered, strict=True):
        new[:, -1] = old[:, -1]
    rows = {"mean": filtered.mean[:, :-1], "cov": filtered.cov[:, :-1]}
    rows |= {"ahead_mean": predicted.mean[:, 1:], "ahead_cov": predicted.cov[:, 1:]}
    # The dynamics from t to t + 1 are indexed by their start or by their end.
    leads = np.arange(steps) + (0 if update_first else 1)
    rows |= {} if us is None else {"u": np.take(us, leads, -2)}
    rows |= {} if scales is None else {"scale": np.ascontiguousarray(scales)[:, 1:]}
    if lengths is not None:
        rows["continues"] = (np.arange(steps) < lengths[:, None] - 1).astype(filtered.mean.dtype)
    rows |= {f"now{i}": _select_rows(leaf, start + leads) for i, leaf in enumerate(ready.varying)}
    rows = {name: np.flip(array, array.ndim - 1 - ready.code.row_axes[name]) for name, array in rows.items()}
    outputs = [np.flip(each[:, :-1], 1) for each in smoothed]
    busy = _num_threads(None, steps * len(filtered.mean))
    run_rows(ready.code, ready.kept, numbers, counts, rows, threads=busy, outputs=outputs)
    return smoothed


def reweight_leave_one_out(
    ready: NativeProgram,
    memory: PyTree,
    ys: np.ndarray,
    change: np.ndarray,
    beliefs: tuple[Gaussian, Gaussian, Gaussian],
    us: np.ndarray | None,
) -> np.ndarray:
    """Compute the leave-one-out weights of all measurements of a series, eight per register.

    The arguments are those of `wolf.engine.loo_reweighting.reweight_leave_one_out`, in the precision of the run.

    Returns:
        W for each, (T, M, M).
    """
    count = len(ys)
    rows = {"y": ys, "change": change} | ({} if us is None else {"u": us})
    for name, belief in zip(BELIEFS, beliefs, strict=True):
        rows |= {f"{name}_mean": belief.mean, f"{name}_cov": belief.cov}
    rows |= {f"now{i}": leaf[0] for i, leaf in enumerate(ready.varying)}
    index = np.minimum(np.arange(-(-count // LANES) * LANES), count - 1)  # padded to whole registers
    rows = {name: np.take(array, index, 0, mode="clip")[:, None] for name, array in rows.items()}
    for i, leaf in enumerate(jax.tree.leaves(memory)):
        flat = np.ascontiguousarray(leaf, ready.code.dtype).reshape(1, 1, -1)
        rows[f"memory{i}"] = np.broadcast_to(flat, (len(index), *flat.shape[1:]))
    return run_rows(ready.code, ready.kept, *ready.start(len(index)), rows)[:count, 0]  # type: ignore[no-any-return]


def _num_threads(threads: int | None, rows: int) -> int:
    """Choose the number of threads: one per core, if each has enough to do."""
    wanted = processors.usable_count() if threads is None else threads
    return max(1, min(wanted, rows // ROWS_PER_THREAD))


def _step_inputs(
    ready: NativeProgram, ys: np.ndarray, us: np.ndarray | None, u_before: np.ndarray | None, start: int | np.ndarray
) -> dict[str, np.ndarray]:
    """Collect what each step reads: measurement, inputs, and what varies in time from `start` on, a number or (B,)."""
    steps = ys.shape[1]
    rows = {"y": np.ascontiguousarray(ys)}
    if us is not None:
        first = us[..., :1, :] if u_before is None else np.broadcast_to(u_before, (*us.shape[:-2], 1, us.shape[-1]))
        before = np.concatenate([first, us[..., :-1, :]], axis=-2)
        rows |= {"u": np.ascontiguousarray(us), "u_before": np.ascontiguousarray(before)}
    clock = np.arange(steps) + (start[:, None] if isinstance(start, np.ndarray) else start)
    for i, leaf in enumerate(ready.varying):
        rows |= {f"now{i}": _select_rows(leaf, clock), f"before{i}": _select_rows(leaf, np.maximum(clock - 1, 0))}
    return rows


def _select_rows(leaf: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Select rows of a time-varying array, (models, T, ...); without the first axis if one model serves all."""
    if len(leaf) == 1:
        return np.take(leaf[0], steps, 0, mode="clip")
    if steps.ndim == 1:
        return np.take(leaf, steps, 1, mode="clip")
    return leaf[np.arange(len(leaf))[:, None], np.minimum(steps, leaf.shape[1] - 1)]
