"""Differences between versions of JAX; no other module depends on the version."""

import inspect
from typing import Any

import jax
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
