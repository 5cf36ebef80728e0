"""What an online step tells about itself: one vector out of the compiled step, cut into fields where they are read."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from wolf.belief import Gaussian
from wolf.protocols import Info

Layout = dict[str, tuple[int, tuple[int, ...]]]  # where a field starts in the vector, and its shape


def pack(info: Info, dtype: Any) -> Any:
    """Put a step's report into one vector: handing out ten small arrays would take longer than the step."""
    return jnp.concatenate([jnp.ravel(leaf).astype(dtype) for leaf in jax.tree.leaves(info)])


def lay_out(info: Info) -> Layout:
    """Say where `pack` puts what."""
    layout, start = {}, 0
    for name, value in zip(Info._fields, info, strict=True):
        parts = {name: value}
        if name == "predicted" and value is not None:
            parts = {"mean": value.mean, "cov": value.cov}
        for part, leaf in parts.items():
            if leaf is not None:
                layout[part] = (start, leaf.shape)
                start += math.prod(leaf.shape)
    return layout


class Report:
    """What one online step tells about itself: the fields of `wolf.protocols.Info`, cut out of one vector when read.

    Cutting them all at every step would take longer than the step.
    """

    __slots__ = ("_layout", "_packed")

    def __init__(self, packed: np.ndarray, layout: Layout):
        self._packed, self._layout = packed, layout

    def __getattr__(self, name: str) -> Any:
        """Read a field; None where the method does not tell."""
        if name not in Info._fields:
            raise AttributeError(f"Report has no {name!r}; its fields are {', '.join(Info._fields)}")
        if name == "predicted":
            return Gaussian(self._cut("mean"), self._cut("cov"))
        value = self._cut(name)
        return value if name != "outlier" or value is None else value != 0

    def _cut(self, name: str) -> Any:
        if name not in self._layout:
            return None
        start, shape = self._layout[name]
        return self._packed[start : start + math.prod(shape)].reshape(shape) if shape else self._packed[start]

    def __eq__(self, other: object) -> bool:
        """Compare all that was reported."""
        return isinstance(other, Report) and np.array_equal(self._packed, other._packed, equal_nan=True)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Tell the weight and what became of the measurement."""
        fields = {name: getattr(self, name) for name in ("weight", "outlier", "residual", "nis")}
        shown = [f"{name}={value}" for name, value in fields.items() if value is not None]
        return f"Report({', '.join(shown)})"
