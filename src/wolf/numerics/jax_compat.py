"""What older versions of JAX call otherwise, or do not have: the only place that knows of versions."""

import inspect
from typing import Any

import jax
from jax.experimental import xla_metadata

if hasattr(jax, "enable_x64"):  # JAX 0.8 and later
    enable_x64: Any = jax.enable_x64
else:
    from jax.experimental import enable_x64  # type: ignore[attr-defined, no-redef]  # noqa: F401

# Since JAX 0.7 a value can be tagged; before, only all operations inside a context, which is not what we mean.
CAN_TAG = "x" in inspect.signature(xla_metadata.set_xla_metadata).parameters


def tag(value: Any, **metadata: str) -> Any:
    """Tag what makes a value with metadata for XLA; ask `CAN_TAG` first."""
    return xla_metadata.set_xla_metadata(value, **metadata)
