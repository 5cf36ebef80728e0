"""Float64 without changing the user's JAX settings: NumPy outside, a local context inside, keys from seeds."""

from typing import Any

import jax
import numpy as np
from jax import Array

from wolf import validation
from wolf.numerics.jax_compat import enable_x64
from wolf.numerics.pytree import PyTree
from wolf.runtime import compilation_cache, fork_guard


def precision(dtype: str) -> compilation_cache.CachedCompilation:
    """Create a context that computes in a precision, on this thread only, without changing the user's settings."""
    fork_guard.check()  # every run enters this context
    return _Float64() if dtype == "float64" else compilation_cache.CachedCompilation()


class _Float64(compilation_cache.CachedCompilation):
    """The context for float64, which also enables the compilation cache."""

    __slots__ = ("_double",)

    def __enter__(self) -> None:
        self._double = enable_x64(True)
        self._double.__enter__()
        super().__enter__()

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        self._double.__exit__(*raised)


def to_dtype(array: Any, dtype: str) -> Any:
    """Cast an array; None stays None."""
    with np.errstate(over="ignore"):  # numbers too large for float32 become infinite, and are treated as outliers
        return None if array is None else array.astype(dtype)


def to_numpy(tree: PyTree) -> PyTree:
    """Convert every leaf to a NumPy array: a float64 JAX array would be cut to float32 outside the context."""
    return jax.tree.map(np.asarray, tree)


def as_key(key: int | np.integer | np.ndarray | Array | None) -> Any:
    """Convert a seed to a JAX key."""
    fork_guard.check()
    validation.key(key)
    return jax.random.key(key) if isinstance(key, int | np.integer) else key
