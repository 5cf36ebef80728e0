"""Differentiable relaxations of hard gates, whose gradients are zero almost everywhere."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from wolf.inference import weights
from wolf.inference.weights import calibration
from wolf.interfaces import Filter, Metric, Number
from wolf.numerics.linalg import Cholesky
from wolf.numerics.pytree import PyTree, pytree, static


@pytree
class SoftGate(weights.Weight):
    """Gate with a gradual transition: `w² = 1 / (1 + exp((d² - c) / (softness c)))`.

    Args:
        c: squared distance at which w² is one half; None selects the calibrated value of the hard gate.
        softness: width of the transition, as a share of c.
        metric: covariance that measures the distance, "R" or "S".
    """

    c: Number | None
    softness: Number
    metric: Metric = static(default="R")

    def __call__(
        self, residual: Array, obs_cov: Array, innovation_cov: Array | Cholesky, observed: Array | None = None
    ) -> Array:
        """Compute the weight from the Mahalanobis distance."""
        family: Any = weights.MahalanobisThreshold
        c = calibration.threshold(family, residual.shape[0], weights.EFFICIENCY) if self.c is None else self.c
        imq = weights.MahalanobisIMQ(c=1.0, metric=self.metric)(residual, obs_cov, innovation_cov, observed)
        square = 1.0 / imq**2 - 1.0
        return jnp.exp(0.5 * jax.nn.log_sigmoid((c - square) / (self.softness * c)))


def soften(method: Filter, softness: float) -> PyTree:
    """Replace every hard gate of a method by a soft gate.

    Example:
        >>> from wolf import methods
        >>> soften(methods.make("WoLF-TMD", c=9.0), 0.1).noise.weight
        SoftGate(c=9.0, softness=0.1, metric='R')
    """

    def is_gate(value: object) -> bool:
        return isinstance(value, weights.MahalanobisThreshold)

    def replace(value: object) -> object:
        return SoftGate(value.c, softness, value.metric) if isinstance(value, weights.MahalanobisThreshold) else value

    return jax.tree.map(replace, method, is_leaf=is_gate)
