"""Soft gates in the place of hard ones, which have no useful gradient."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from wolf.inference import weights
from wolf.inference.weights import calibration
from wolf.interfaces import Metric
from wolf.numerics.pytree import pytree, static


@pytree
class SoftGate(weights.Weight):
    """A gate that closes gradually: `w² = 1 / (1 + exp((d² - c) / (softness c)))`.

    Args:
        c: squared distance at which w² is one half. None is calibrated, as for the hard gate.
        softness: width of the change, as a share of c.
        metric: "R" or "S".
    """

    c: Any
    softness: Any
    metric: Metric = static(default="R")

    def __call__(self, residual: Array, obs_cov: Array, innovation_cov: Any, observed: Array | None = None) -> Array:
        """Weigh by distance."""
        family: Any = weights.MahalanobisThreshold
        c = calibration.threshold(family, residual.shape[0], weights.EFFICIENCY) if self.c is None else self.c
        imq = weights.MahalanobisIMQ(c=1.0, metric=self.metric)(residual, obs_cov, innovation_cov, observed)
        square = 1.0 / imq**2 - 1.0
        return jnp.exp(0.5 * jax.nn.log_sigmoid((c - square) / (self.softness * c)))


def soften(method: Any, softness: float) -> Any:
    """Put soft gates in the place of hard ones, wherever in a method they are.

    Example:
        >>> from wolf import methods
        >>> soften(methods.make("WoLF-TMD", c=9.0), 0.1).noise.weight
        SoftGate(c=9.0, softness=0.1, metric='R')
    """

    def is_gate(value: Any) -> bool:
        return isinstance(value, weights.MahalanobisThreshold)

    def change(value: Any) -> Any:
        return SoftGate(value.c, softness, value.metric) if is_gate(value) else value

    return jax.tree.map(change, method, is_leaf=is_gate)
