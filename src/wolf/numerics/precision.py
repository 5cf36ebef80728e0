"""Float64 without touching the user's JAX settings: NumPy outside, our own context inside, keys from seeds."""

from typing import Any

import jax
import numpy as np

from wolf import validation
from wolf.numerics.jax_compat import enable_x64
from wolf.runtime import compilation_cache, fork_guard


def precision(dtype: str) -> Any:
    """Compute in float64 inside this context, on this thread only, without touching the user's settings."""
    fork_guard.check()  # every run comes by here
    return _Float64() if dtype == "float64" else compilation_cache.CachedCompilation()


class _Float64(compilation_cache.CachedCompilation):
    """The context: double precision, and programs that were compiled before."""

    __slots__ = ("_double",)

    def __enter__(self) -> None:
        self._double = enable_x64(True)
        self._double.__enter__()
        super().__enter__()

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        self._double.__exit__(*raised)


def to_dtype(array: Any, dtype: str) -> Any:
    """Cast an array, or pass None on."""
    with np.errstate(over="ignore"):  # too large for float32 is infinite, and treated as such
        return None if array is None else array.astype(dtype)


def to_numpy(tree: Any) -> Any:
    """Turn every leaf into a NumPy array: a float64 JAX array would be cut to float32 outside our context."""
    return jax.tree.map(np.asarray, tree)


def as_key(key: Any) -> Any:
    """Turn a seed into a JAX key."""
    fork_guard.check()
    validation.key(key)
    return jax.random.key(key) if isinstance(key, int | np.integer) else key
