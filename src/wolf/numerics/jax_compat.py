"""Differences between versions of JAX; no other module depends on the version."""

import inspect
import types
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import Array
from jax.experimental import xla_metadata

if hasattr(jax, "enable_x64"):  # JAX 0.8 and later
    enable_x64: Any = jax.enable_x64
else:
    from jax.experimental import enable_x64  # type: ignore[attr-defined, no-redef]  # noqa: F401

# Since JAX 0.7 a single value can be tagged; older versions tag all operations inside a context.
CAN_TAG = "x" in inspect.signature(xla_metadata.set_xla_metadata).parameters


def tag(value: Array, **metadata: str) -> Array:
    """Attach metadata for XLA to the operation that makes a value; check `CAN_TAG` first."""
    return xla_metadata.set_xla_metadata(value, **metadata)


def with_own_arrays(fn: Callable) -> Callable:
    """Copy a plain function with copies of the 64-bit NumPy arrays that it uses; return other callables unchanged.

    While a traced program lives, jaxlib 0.10 takes an array in the precision of that program, also in the other one:
    `x[index]` would fail in float32 once it ran in float64, and the other way round.

    Example:
        >>> index = np.array([0, 2])
        >>> pick = lambda x: x[index]
        >>> with_own_arrays(pick)(np.arange(3.0)).tolist(), with_own_arrays(pick) is pick, with_own_arrays(abs) is abs
        ([0.0, 2.0], False, True)
    """
    if not isinstance(fn, types.FunctionType):
        return fn
    used = {name: fn.__globals__[name] for name in fn.__code__.co_names if _is_wide(fn.__globals__.get(name))}
    cells = [_contents(cell) for cell in fn.__closure__ or ()]
    defaults = fn.__defaults__ or ()
    if not used and not any(map(_is_wide, (*cells, *defaults))):
        return fn
    closure = tuple(types.CellType(_copied(value)) for value in cells) if fn.__closure__ else None
    scope = fn.__globals__ | {name: _copied(value) for name, value in used.items()}
    copy = types.FunctionType(fn.__code__, scope, fn.__name__, tuple(map(_copied, defaults)) or None, closure)
    copy.__kwdefaults__ = fn.__kwdefaults__
    return copy


def _is_wide(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.itemsize == 8 and value.dtype.kind in "iuf"


def _copied(value: Any) -> Any:
    return value.copy() if _is_wide(value) else value


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None
