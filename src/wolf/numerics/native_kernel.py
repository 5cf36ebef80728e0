"""Mark a function for which native code has a kernel: a hand-written loop instead of one instruction per operation.

The mark is the name of a `jit` equation in the jaxpr, made of a prefix and a key that the native side registers an
implementation for (`wolf.native.kernels.registry`). The name of the Python function plays no part. Outside of traces
for native code the function is called as it is, so programs compiled by XLA do not change.
"""

from collections.abc import Callable
from typing import TypeVar

import jax
from jax import Array

from wolf.numerics.linalg.matmul import mode
from wolf.numerics.pytree import PyTree

PREFIX = "wolf_native_kernel_"

FunctionT = TypeVar("FunctionT", bound=Callable)


def native_kernel(key: str) -> Callable[[FunctionT], FunctionT]:
    """Mark a function of arrays as computed by a native kernel.

    Args:
        key: of the kernel. Unlike a function, the key must not be renamed on one side alone: tracing raises if no
            kernel is registered for it.

    Returns:
        A decorator. The decorated function stays usable by itself, under jit, vmap and grad.

    Example:
        >>> import jax.numpy as jnp
        >>> @native_kernel("doc_double")
        ... def double(x):
        ...     return 2.0 * x
        >>> float(double(jnp.ones(())))
        2.0
    """

    def decorate(function: FunctionT) -> FunctionT:
        def marked(*arrays: Array) -> PyTree:
            return function(*arrays)

        marked.__name__ = marked.__qualname__ = PREFIX + key
        jitted = jax.jit(marked)

        def call(*arrays: Array) -> PyTree:
            return jitted(*arrays) if mode.scalar_code else function(*arrays)

        call.__name__, call.__qualname__, call.__doc__ = function.__name__, function.__qualname__, function.__doc__
        return call  # type: ignore[return-value]

    return decorate


def kernel_key(equation_name: str | None) -> str | None:
    """Return the key of the kernel that a `jit` equation is marked with, or None."""
    return None if equation_name is None or not equation_name.startswith(PREFIX) else equation_name[len(PREFIX) :]
