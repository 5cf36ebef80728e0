"""Functions of the state with their input bound: a linear map, or a user's f(x) or f(x, u)."""

import inspect
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from wolf.numerics import linalg
from wolf.numerics.jax_compat import with_own_arrays
from wolf.numerics.pytree import PyTree, function, pytree


@pytree
class LinearMap:
    """Linear map `x -> matrix x + offset`; None stands for the identity and for no offset."""

    matrix: Array | None
    offset: Array | None = None

    def __call__(self, x: Array) -> Array:
        """Apply the map."""
        y = x if self.matrix is None else linalg.matvec(self.matrix, x)
        return y if self.offset is None else y + self.offset


@pytree
class Bound:
    """User's function with its input bound, for one series or for many."""

    fn: Callable = function()
    u: Array | None = None
    residual: Callable | None = function(default=None)

    def __call__(self, x: Array) -> Array:
        """Evaluate at x."""
        return self.each(lambda f: f, x)

    def each(self, transform: Callable, x: Array, axes: int = 1) -> PyTree:
        """Evaluate `transform(x -> fn(x, u))` at x, mapped over the series if x has a trailing series axis."""

        def one(x: Array, u: Array | None) -> PyTree:
            return transform(lambda z: call(self.fn, z, u))(x)

        if x.ndim == axes:
            return one(x, self.u)
        u_axis = -1 if self.u is not None and self.u.ndim > 1 else None
        return jax.vmap(one, in_axes=(-1, u_axis), out_axes=-1)(x, self.u)


def call(fn: Callable, x: Array, u: Array | None) -> Array:
    """Call f(x) or f(x, u), according to the function's signature, and return a vector in the precision of x.

    Example:
        >>> one = jnp.ones(1)
        >>> call(lambda x: [2 * x[0], 1], one, None).tolist(), call(lambda x, u: x + u, one, 3 * one).tolist()
        ([2.0, 1.0], [4.0])
    """
    fn = with_own_arrays(fn)
    value = fn(x, u) if num_arguments(fn) > 1 else fn(x)
    value = value if isinstance(value, Array) and value.dtype == x.dtype else jnp.asarray(value, x.dtype)
    return value if value.ndim else value[None]


def num_arguments(fn: Callable) -> int:
    """Count the required positional arguments of a function: 1 for f(x), 2 for f(x, u)."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):  # jnp.sin and other compiled callables have no signature
        return 1
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds and p.default is inspect.Parameter.empty for p in parameters)
