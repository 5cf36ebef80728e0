"""Whole series through native code: what `backend.parallel` does by XLA."""

import os
from typing import Any

import jax
import numpy as np

from wolf.beliefs import Gaussian
from wolf.native.execute.executable import LANES, NativeProgram, run_rows
from wolf.native.frontend.loo_step import BELIEFS

ROWS_PER_THREAD = 5_000  # series times steps that are worth a thread


def run_one(
    ready: NativeProgram, ys: np.ndarray, us: np.ndarray | None, state: Any = None, u_before: np.ndarray | None = None
) -> tuple[Any, Any]:
    """Filter one series.

    Args:
        ready: model and method.
        ys: (T, M), in the precision of the run.
        us: inputs, (T, U).
        state: where to go on from; default: the prior.
        u_before: the input before the first of these.

    Returns:
        The final state, and what was kept of each step.
    """
    if state is None:
        numbers, counts = ready.start(1)
    else:
        numbers, counts = ready.code.pack([np.asarray(leaf)[None] for leaf in jax.tree.leaves(state)])
    start = 0 if state is None else int(state.t)
    rows = _rows(ready, ys[None], None if us is None else us[None], u_before, start)
    saved = run_rows(ready.code, ready.kept, numbers, counts, rows)
    return ready.code.unpack(numbers[0], counts[0]), jax.tree.map(lambda array: array[0], saved)


def run_many(
    ready: NativeProgram,
    ys: np.ndarray,
    us: np.ndarray | None,
    lengths: np.ndarray | None,
    threads: int | None,
    state: Any = None,
    u_before: np.ndarray | None = None,
) -> tuple[Any, Any]:
    """Filter many series, eight in a register, on several threads.

    Args:
        ready: model or models, and method.
        ys: (B, T, M), in the precision of the run.
        us: inputs, (B, T, U) or (T, U).
        lengths: (B,), how many of its steps each series has.
        threads: at most so many; default: one for each core.
        state: where each goes on from, (B, ...); default: the prior.
        u_before: the input before the first of these, (B, U).

    Returns:
        The final states, and what was kept of each step, with the series axis first.
    """
    numbers, counts = ready.start(len(ys)) if state is None else ready.code.pack(jax.tree.leaves(state))
    start = 0 if state is None else state.t if np.ptp(state.t) else int(state.t[0])
    rows = _rows(ready, ys, us, None if u_before is None else u_before[:, None], start)
    busy = _busy(threads, ys.shape[0] * ys.shape[1])
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
    """Smooth many series: the rows in reverse order, by strides below zero.

    Takes what `backend.smoothing.run_smoothers` takes, with one start for all, in the precision of the run.

    Returns:
        Smoothed means and covariances, (B, T, ...). Where a prediction has no spread in some direction they may be
        NaN, from there back to the first step.
    """
    steps = filtered.mean.shape[1] - 1
    filtered, predicted = (Gaussian(*map(np.ascontiguousarray, each)) for each in (filtered, predicted))
    smoothed = Gaussian(*map(np.empty_like, filtered))
    numbers, counts = ready.code.pack([each[:, -1] for each in filtered])
    for new, old in zip(smoothed, filtered, strict=True):
        new[:, -1] = old[:, -1]
    rows = {"mean": filtered.mean[:, :-1], "cov": filtered.cov[:, :-1]}
    rows |= {"ahead_mean": predicted.mean[:, 1:], "ahead_cov": predicted.cov[:, 1:]}
    # The dynamics that lead from t to t + 1 are indexed by where they start or by where they end.
    leads = np.arange(steps) + (0 if update_first else 1)
    rows |= {} if us is None else {"u": np.take(us, leads, -2)}
    rows |= {} if scales is None else {"scale": np.ascontiguousarray(scales)[:, 1:]}
    if lengths is not None:
        rows["goes_on"] = (np.arange(steps) < lengths[:, None] - 1).astype(filtered.mean.dtype)
    rows |= {f"now{i}": _take_rows(leaf, start + leads) for i, leaf in enumerate(ready.given.rows())}
    rows = {name: np.flip(array, array.ndim - 1 - ready.code.row_axes[name]) for name, array in rows.items()}
    outputs = [np.flip(each[:, :-1], 1) for each in smoothed]
    busy = _busy(None, steps * len(filtered.mean))
    run_rows(ready.code, ready.kept, numbers, counts, rows, threads=busy, outputs=outputs)
    return smoothed


def reweight_leave_one_out(
    ready: NativeProgram,
    memory: Any,
    ys: np.ndarray,
    change: np.ndarray,
    beliefs: tuple[Gaussian, Gaussian, Gaussian],
    us: np.ndarray | None,
) -> np.ndarray:
    """Weigh all measurements of a series, eight in a register.

    Takes what `backend.reweighing.reweight_leave_one_out` takes, in the precision of the run.

    Returns:
        W for each, (T, M, M).
    """
    count = len(ys)
    rows = {"y": ys, "change": change} | ({} if us is None else {"u": us})
    for name, belief in zip(BELIEFS, beliefs, strict=True):
        rows |= {f"{name}_mean": belief.mean, f"{name}_cov": belief.cov}
    rows |= {f"now{i}": leaf[0] for i, leaf in enumerate(ready.given.rows())}
    index = np.minimum(np.arange(-(-count // LANES) * LANES), count - 1)  # whole registers
    rows = {name: np.take(array, index, 0, mode="clip")[:, None] for name, array in rows.items()}
    for i, leaf in enumerate(jax.tree.leaves(memory)):
        flat = np.ascontiguousarray(leaf, ready.code.dtype).reshape(1, 1, -1)
        rows[f"memory{i}"] = np.broadcast_to(flat, (len(index), *flat.shape[1:]))
    return run_rows(ready.code, ready.kept, *ready.start(len(index)), rows)[:count, 0]  # type: ignore[no-any-return]


def _busy(threads: int | None, rows: int) -> int:
    """Say how many threads to use: one for each core, if there is enough for each to do."""
    wanted = (os.cpu_count() or 1) if threads is None else threads
    return max(1, min(wanted, rows // ROWS_PER_THREAD))


def _rows(
    ready: NativeProgram, ys: np.ndarray, us: np.ndarray | None, u_before: np.ndarray | None, start: int | np.ndarray
) -> dict[str, np.ndarray]:
    """Lay out what each step reads: measurement, inputs, and what varies in time from `start` on, a number or (B,)."""
    steps = ys.shape[1]
    rows = {"y": np.ascontiguousarray(ys)}
    if us is not None:
        first = us[..., :1, :] if u_before is None else np.broadcast_to(u_before, (*us.shape[:-2], 1, us.shape[-1]))
        before = np.concatenate([first, us[..., :-1, :]], axis=-2)
        rows |= {"u": np.ascontiguousarray(us), "u_before": np.ascontiguousarray(before)}
    clock = np.arange(steps) + (start[:, None] if isinstance(start, np.ndarray) else start)
    for i, leaf in enumerate(ready.given.rows()):
        rows |= {f"now{i}": _take_rows(leaf, clock), f"before{i}": _take_rows(leaf, np.maximum(clock - 1, 0))}
    return rows


def _take_rows(leaf: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Take rows of what varies in time, (models, T, ...); without the first axis if there is one model for all."""
    if len(leaf) == 1:
        return np.take(leaf[0], steps, 0, mode="clip")
    if steps.ndim == 1:
        return np.take(leaf, steps, 1, mode="clip")
    return leaf[np.arange(len(leaf))[:, None], np.minimum(steps, leaf.shape[1] - 1)]
