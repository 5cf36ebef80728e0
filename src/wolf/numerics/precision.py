"""Float64 without touching the user's JAX settings: NumPy outside, our own context inside, keys from seeds."""

from contextlib import nullcontext
from typing import Any

import jax
import numpy as np

from wolf import checks
from wolf.numerics import forking


def precision(dtype: str) -> Any:
    """Compute in float64 inside this context, on this thread only, without touching the user's settings."""
    forking.check()  # every run comes by here
    return jax.enable_x64(True) if dtype == "float64" else nullcontext()


def to_dtype(array: Any, dtype: str) -> Any:
    """Cast an array, or pass None on."""
    with np.errstate(over="ignore"):  # too large for float32 is infinite, and treated as such
        return None if array is None else array.astype(dtype)


def to_numpy(tree: Any) -> Any:
    """Turn every leaf into a NumPy array: a float64 JAX array would be cut to float32 outside our context."""
    return jax.tree.map(np.asarray, tree)


def as_key(key: Any) -> Any:
    """Turn a seed into a JAX key."""
    forking.check()
    checks.key(key)
    return jax.random.key(key) if isinstance(key, int | np.integer) else key
