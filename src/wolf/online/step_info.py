"""What an online step tells about itself: one vector out of the compiled step, cut into fields where they are read."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from wolf.beliefs import Gaussian
from wolf.interfaces import StepInfo

Layout = dict[str, tuple[int, tuple[int, ...]]]  # where a field starts in the vector, and its shape


def pack(info: StepInfo, dtype: Any) -> Any:
    """Put a step's report into one vector: handing out ten small arrays would take longer than the step."""
    return jnp.concatenate([jnp.ravel(leaf).astype(dtype) for leaf in jax.tree.leaves(info)])


def lay_out(info: StepInfo) -> Layout:
    """Say where `pack` puts what."""
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
    """Keeps the report of a step as one vector, and says how it is laid out."""

    def __call__(self, state: Any, info: StepInfo) -> Any:
        """Pack the report."""
        return pack(info, info.residual.dtype)

    def describe(self, info: StepInfo) -> Layout:
        """Say where `pack` puts what."""
        return lay_out(info)


class StepReport:
    """What one online step tells about itself, cut out of one vector when it is read: to cut all would take longer.

    A field is None where the method does not tell; where nearly all methods do, its type says Any instead, so that
    nobody has to ask first.
    """

    __slots__ = ("_layout", "_packed")

    def __init__(self, packed: np.ndarray, layout: Layout):
        self._packed, self._layout = packed, layout

    @property
    def predicted(self) -> Gaussian:
        """Mean and covariance before the measurement; inflated, where a rule found that the state jumped."""
        return Gaussian(self._cut("mean"), self._cut("cov"))

    @property
    def residual(self) -> np.ndarray:
        """`y - prediction`, (M,), zero where y is missing."""
        return self._cut("residual")

    @property
    def innovation_cov(self) -> np.ndarray | Any:
        """Covariance S of the residual under the nominal model, (M, M)."""
        return self._cut("innovation_cov")

    @property
    def weight(self) -> float | np.ndarray:
        """w, one number or one for each coordinate; 0 where nothing was used."""
        return self._cut("weight")

    @property
    def outlier(self) -> bool | np.ndarray | Any:
        """Whether a measurement came and `w² < 1/2`, or is more likely an outlier than not; shaped as `weight`."""
        value = self._cut("outlier")
        return value if value is None else value != 0

    @property
    def nis(self) -> float | Any:
        """`eᵀ S⁻¹ e` over the coordinates that were measured."""
        return self._cut("nis")

    @property
    def log_likelihood(self) -> float | Any:
        """Log density of y under the predictive Gaussian."""
        return self._cut("log_likelihood")

    @property
    def weighted_log_likelihood(self) -> float | Any:
        """Evidence of generalised Bayes. Not a score to tune by: a weight of zero always costs nothing."""
        return self._cut("weighted_log_likelihood")

    @property
    def outlier_probability(self) -> float | np.ndarray | None:
        """Probability of being an outlier, of methods that learn the noise."""
        return self._cut("outlier_probability")

    @property
    def inflation(self) -> float | np.ndarray | None:
        """Factor on the predicted covariance; above 1 where the state was found to have jumped."""
        return self._cut("inflation")

    @property
    def noise_scale(self) -> float | np.ndarray | None:
        """Size of ordinary noise over R, of methods that learn it."""
        return self._cut("noise_scale")

    @property
    def dynamics_scale(self) -> float | None:
        """Factor on Q in the prediction, of methods that learn it."""
        return self._cut("dynamics_scale")

    def _cut(self, name: str) -> Any:
        if name not in self._layout:
            return None
        start, shape = self._layout[name]
        return self._packed[start : start + math.prod(shape)].reshape(shape) if shape else self._packed[start]

    def __eq__(self, other: object) -> bool:
        """Compare all that was reported."""
        return isinstance(other, StepReport) and np.array_equal(self._packed, other._packed, equal_nan=True)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Tell the weight and what became of the measurement."""
        fields = {name: getattr(self, name) for name in ("weight", "outlier", "residual", "nis")}
        shown = [f"{name}={value}" for name, value in fields.items() if value is not None]
        return f"Report({', '.join(shown)})"
