"""Array fields of models: time slices, copies without validation, residuals, counts in words."""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import validation
from wolf.numerics.jax_compat import with_own_arrays

ModelT = TypeVar("ModelT")


def subtract(residual: Callable | None, y: Array, prediction: Array) -> Array:
    """Compute a residual, by the model's own subtraction if it has one; series on a trailing axis are mapped."""
    if residual is None:
        return y - prediction
    own = with_own_arrays(residual)

    def difference(y: Array, prediction: Array) -> Array:
        return jnp.atleast_1d(jnp.asarray(own(y, prediction), y.dtype))

    return difference(y, prediction) if y.ndim == 1 else jax.vmap(difference, in_axes=-1, out_axes=-1)(y, prediction)


def varies(array: Array | np.ndarray | None) -> bool:
    """Return whether a matrix has a time axis."""
    return array is not None and array.ndim == 3


def slice_at(array: Array | np.ndarray | None, t: Array | int) -> Array | np.ndarray | None:
    """Return the matrix of one step, if it has a time axis, or the matrix itself."""
    return jax.lax.dynamic_index_in_dim(jnp.asarray(array), t, keepdims=False) if varies(array) else array


def replace(model: ModelT, **changes: object) -> ModelT:
    """Copy a model with other leaves, without the validation of the constructor."""
    copy = object.__new__(type(model))
    vars(copy).update(vars(model) | changes)
    return copy


def keep(model: object, *names: str) -> None:
    """Store fields as NumPy arrays, so that none is rounded to float32."""
    for name in names:
        object.__setattr__(model, name, validation.number_array(name, vars(model)[name]))


def keep_names(model: object, state_dim: int, obs_dim: int) -> None:
    """Validate the names of states and measurements, and store them as tuples."""
    for field, size in (("state_names", state_dim), ("obs_names", obs_dim)):
        object.__setattr__(model, field, validation.names(field, vars(model)[field], size))


def count(number: int, noun: str) -> str:
    """Format a count with a noun whose plural ends in s.

    Example:
        >>> count(1, "step"), count(0, "outlier"), count(20, "step")
        ('1 step', '0 outliers', '20 steps')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
