"""Whole series through native code: what `engine.parallel` does by XLA."""

import os
from typing import Any

import jax
import numpy as np

from wolf.native.runner import Prepared, run_rows

ROWS_PER_THREAD = 5_000  # series times steps that are worth a thread


def run_one(
    ready: Prepared, ys: np.ndarray, us: np.ndarray | None, state: Any = None, u_before: np.ndarray | None = None
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
    ready: Prepared, ys: np.ndarray, us: np.ndarray | None, lengths: np.ndarray | None, threads: int | None
) -> tuple[Any, Any]:
    """Filter many series, eight in a register, on several threads.

    Args:
        ready: model or models, and method.
        ys: (B, T, M), in the precision of the run.
        us: inputs, (B, T, U) or (T, U).
        lengths: (B,), how many of its steps each series has.
        threads: at most so many; default: one for each core.

    Returns:
        The final states, and what was kept of each step, with the series axis first.
    """
    numbers, counts = ready.start(len(ys))
    wanted = (os.cpu_count() or 1) if threads is None else threads
    busy = max(1, min(wanted, ys.shape[0] * ys.shape[1] // ROWS_PER_THREAD))
    saved = run_rows(
        ready.code, ready.kept, numbers, counts, _rows(ready, ys, us, None, 0), lengths=lengths, threads=busy
    )
    return ready.code.unpack(numbers, counts), saved


def _rows(
    ready: Prepared, ys: np.ndarray, us: np.ndarray | None, u_before: np.ndarray | None, start: int
) -> dict[str, np.ndarray]:
    """Lay out what each step reads: the measurement, inputs, and matrices that vary in time from `start` on."""
    steps = ys.shape[1]
    rows = {"y": np.ascontiguousarray(ys)}
    if us is not None:
        first = us[..., :1, :] if u_before is None else np.broadcast_to(u_before, (*us.shape[:-2], 1, us.shape[-1]))
        before = np.concatenate([first, us[..., :-1, :]], axis=-2)
        rows |= {"u": np.ascontiguousarray(us), "u_before": np.ascontiguousarray(before)}
    for i, leaf in enumerate(ready.given.rows()):
        leaf = leaf[0] if len(leaf) == 1 else leaf
        axis = 0 if len(ready.kept) == 1 else 1
        rows[f"now{i}"] = np.take(leaf, np.arange(start, start + steps), axis, mode="clip")
        rows[f"before{i}"] = np.take(leaf, np.maximum(np.arange(start, start + steps) - 1, 0), axis, mode="clip")
    return rows
