"""What came: usable numbers, missing ones (NaN), and wild ones (infinite, or too large to square)."""

from typing import Any

import jax.numpy as jnp
from jax import Array

from wolf.interfaces import Measurement


def is_unusable(values: Any, dtype: Any = None) -> Any:
    """Say which numbers are infinite or too large to square: no filter can use them, and none is told to.

    Args:
        values: an array of NumPy or JAX; NaN is missing, and not wild.
        dtype: of the filter, if the values are kept in a wider one.

    Returns:
        An array of bool of the same kind and shape.

    Example:
        >>> is_unusable(jnp.array([1.0, 1e30, jnp.nan], "float32")).tolist()
        [False, True, False]
    """
    return abs(values) > jnp.finfo(values.dtype if dtype is None else dtype).max ** 0.5


def clean(y: Array) -> Measurement:
    """Tell usable numbers from missing and wild ones.

    Args:
        y: (M,), or with more axes after the coordinates.

    Example:
        >>> y = clean(jnp.array([1.0, jnp.nan, jnp.inf]))
        >>> y.value.tolist(), y.observed.tolist(), y.present.tolist(), bool(y.non_finite)
        ([1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [True, False, True], True)
    """
    present = ~jnp.isnan(y)
    wild = is_unusable(y)
    observed = (present & ~wild).astype(y.dtype)
    value = jnp.where(present & ~wild, y, 0.0)
    return Measurement(value, observed, observed.sum(0), present, present.any(0), wild.any(0))
