"""Report of an online step: one vector that the compiled step returns, split into fields when they are read."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.beliefs import Gaussian
from wolf.interfaces import StepInfo
from wolf.numerics.pytree import PyTree

Layout = dict[str, tuple[int, tuple[int, ...]]]  # start of each field in the vector, and its shape


def pack(info: StepInfo, dtype: np.dtype) -> Array:
    """Concatenate the fields of a step: to return ten small arrays would take longer than the step."""
    return jnp.concatenate([jnp.ravel(leaf).astype(dtype) for leaf in jax.tree.leaves(info)])


def make_layout(info: StepInfo) -> Layout:
    """Compute where `pack` puts each field."""
    layout, start = {}, 0
    for name, value in zip(StepInfo._fields, info, strict=True):
        parts = {name: value}
        if name == "predicted" and value is not None:
            parts = {"mean": value.mean, "cov": value.cov}
        for part, leaf in parts.items():
            if leaf is not None:
                layout[part] = (start, leaf.shape)
                start += math.prod(leaf.shape)
    return layout


class StepReportRecorder:
    """Recorder of a step's report as one vector."""

    def __call__(self, state: PyTree, info: StepInfo) -> Array:
        """Pack the report."""
        return pack(info, info.residual.dtype)

    def describe(self, info: StepInfo) -> Layout:
        """Compute the layout of the vector."""
        return make_layout(info)


class StepReport:
    """Report of one online step, whose fields are read from one vector on access.

    A field is None if the method does not report it. Where nearly all methods do, the type is Any instead of None, so
    that no check is needed before use.
    """

    __slots__ = ("_layout", "_packed")

    def __init__(self, packed: np.ndarray, layout: Layout):
        self._packed, self._layout = packed, layout

    @property
    def predicted(self) -> Gaussian:
        """Mean and covariance before the measurement; inflated where a jump of the state was accepted."""
        return Gaussian(self._field("mean"), self._field("cov"))

    @property
    def residual(self) -> np.ndarray:
        """`y - prediction`, (M,), zero where y is missing."""
        return self._field("residual")

    @property
    def innovation_cov(self) -> np.ndarray | Any:
        """Covariance S of the residual under the nominal model, (M, M)."""
        return self._field("innovation_cov")

    @property
    def weight(self) -> float | np.ndarray:
        """w, one number or one for each coordinate; 0 where nothing was used."""
        return self._field("weight")

    @property
    def outlier(self) -> bool | np.ndarray | Any:
        """Whether a measurement came and `w² < 1/2`, or is more likely an outlier than not; shaped as `weight`."""
        value = self._field("outlier")
        return value if value is None else value != 0

    @property
    def nis(self) -> float | Any:
        """`eᵀ S⁻¹ e` over the coordinates that were measured."""
        return self._field("nis")

    @property
    def log_likelihood(self) -> float | Any:
        """Log density of y under the predictive Gaussian."""
        return self._field("log_likelihood")

    @property
    def weighted_log_likelihood(self) -> float | Any:
        """Evidence of generalised Bayes. Not a score to tune by: a measurement of weight zero costs nothing."""
        return self._field("weighted_log_likelihood")

    @property
    def outlier_probability(self) -> float | np.ndarray | None:
        """Probability of being an outlier, of methods that estimate the noise."""
        return self._field("outlier_probability")

    @property
    def inflation(self) -> float | np.ndarray | None:
        """Factor on the predicted covariance; above 1 where a jump of the state was accepted."""
        return self._field("inflation")

    @property
    def noise_scale(self) -> float | np.ndarray | None:
        """Scale factor of R for ordinary noise, of methods that estimate it."""
        return self._field("noise_scale")

    @property
    def dynamics_scale(self) -> float | None:
        """Scale factor of Q in the prediction, of methods that estimate it."""
        return self._field("dynamics_scale")

    @property
    def stuck(self) -> np.ndarray | None:
        """Which numbers repeat the value of a stuck sensor and were treated as missing, (M,), of the default."""
        value = self._field("stuck")
        return value if value is None else value != 0

    def _field(self, name: str) -> Any:
        if name not in self._layout:
            return None
        start, shape = self._layout[name]
        return self._packed[start : start + math.prod(shape)].reshape(shape) if shape else self._packed[start]

    def __eq__(self, other: object) -> bool:
        """Compare all fields."""
        return isinstance(other, StepReport) and np.array_equal(self._packed, other._packed, equal_nan=True)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Summarise the weight and the residual."""
        fields = {"weight": self.weight, "outlier": self.outlier, "residual": self.residual, "nis": self.nis}
        shown = [f"{name}={value}" for name, value in fields.items() if value is not None]
        return f"StepReport({', '.join(shown)})"
