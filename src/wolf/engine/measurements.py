"""Preprocessing of measurements: usable, missing (NaN) and unusable (infinite, or too large to square) numbers."""

from typing import TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike

from wolf.interfaces import Measurement

ArrayT = TypeVar("ArrayT", np.ndarray, Array)


def is_unusable(values: ArrayT, dtype: DTypeLike | None = None) -> ArrayT:
    """Return which numbers are infinite or too large to square; no filter can use them, and none receives them.

    Args:
        values: an array of NumPy or JAX; NaN is missing, not unusable.
        dtype: precision of the filter, if the values have a wider one.

    Returns:
        An array of bool of the same kind and shape.

    Example:
        >>> is_unusable(jnp.array([1.0, 1e30, jnp.nan], "float32")).tolist()
        [False, True, False]
    """
    return abs(values) > jnp.finfo(values.dtype if dtype is None else dtype).max ** 0.5


def preprocess(y: Array) -> Measurement:
    """Separate the usable numbers of a measurement from missing and unusable ones.

    Args:
        y: (M,), or with more axes after the coordinates.

    Example:
        >>> y = preprocess(jnp.array([1.0, jnp.nan, jnp.inf]))
        >>> y.value.tolist(), y.observed.tolist(), y.present.tolist(), bool(y.non_finite)
        ([1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [True, False, True], True)
    """
    present = ~jnp.isnan(y)
    unusable = is_unusable(y)
    observed = (present & ~unusable).astype(y.dtype)
    value = jnp.where(present & ~unusable, y, 0.0)
    return Measurement(value, observed, observed.sum(0), present, present.any(0), unusable.any(0))
