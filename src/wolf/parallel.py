"""How the door uses the machine: one series in one kernel, many series on all cores."""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from wolf import run
from wolf.door import as_key, precision, to_numpy

SERIES_PER_THREAD = 64  # fewer are not worth a thread


def run_one(*engine: Any, **options: Any) -> tuple[Any, Any]:
    """Run in one kernel; if the compiler has no place in it for something the model does, run as usual."""
    try:
        return run.run_filter(*engine, **options, fused=True)
    except jax.errors.JaxRuntimeError as error:
        if not any(word in str(error) for word in ("UNIMPLEMENTED", "materialize symbols")):
            raise
        return run.run_filter(*engine, **options)


def run_series(
    model: Any, method: Any, ys: np.ndarray, us: Any, key: Any, dtype: str, threads: int | None, options: dict
) -> tuple[Any, Any]:
    """Share the series out over threads, equally, so that one compilation serves all.

    Returns:
        Final states and what was saved, with the series axis first.
    """
    per_series = options["per_series_model"]
    wanted = (os.cpu_count() or 1) if threads is None else threads
    parts = max(1, min(wanted, len(ys) // SERIES_PER_THREAD)) if jax.default_backend() == "cpu" else 1
    size = -(-len(ys) // parts)
    blank = parts * size - len(ys)
    padded = np.concatenate([ys, np.full((blank, *ys.shape[1:]), np.nan, ys.dtype)]) if blank else ys
    rows = [np.minimum(np.arange(i * size, (i + 1) * size), len(ys) - 1) for i in range(parts)]

    def part(i: int) -> tuple[Any, Any]:
        with precision(dtype):
            some = jax.tree.map(lambda leaf: leaf[rows[i]], model) if per_series else model
            inputs = us[rows[i]] if us is not None and us.ndim == 3 else us
            seed = None if key is None else jax.random.fold_in(as_key(key), i)
            return to_numpy(run.run_many(some, method, padded[i * size : (i + 1) * size], inputs, seed, **options))

    if parts == 1:
        results = [part(0)]
    else:
        with ThreadPoolExecutor(parts) as pool:
            results = list(pool.map(part, range(parts)))
    joined = jax.tree.map(lambda *xs: xs[0] if xs[0].ndim == 0 else _join_series(xs, len(ys)), *results)
    final, saved = joined
    if final.t.ndim == 0:  # one clock for all while they ran together
        final = final._replace(t=np.full(len(ys), final.t))
    return final, saved


def _join_series(parts: tuple[np.ndarray, ...], count: int) -> np.ndarray:
    """Put the series axis first: a view, not a copy, when one thread did it all."""
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)
    return np.moveaxis(whole, -1, 0)[:count]
