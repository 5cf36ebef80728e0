"""Inflation: correction of the spread that a small ensemble underestimates.

An inflation has `prior(memory)`, a factor on the predicted anomalies, `posterior(before, after)`, which changes the
analysed anomalies, and, if it is adaptive, `start()` and `learn(memory, ...)`.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from wolf import validation
from wolf.interfaces import Number
from wolf.numerics.pytree import PyTree, pytree

DEFAULT_SHARE = 0.3
SHARE_BY_ERROR = 3.0  # the default share, over the relative sampling error 1/√N


class Inflation:
    """Base of inflations; its methods do nothing."""

    def start(self, like: Array) -> PyTree:
        """Return the initial memory: none."""
        return ()

    def prior(self, memory: PyTree) -> Array | float:
        """Return the factor on the predicted anomalies."""
        return 1.0

    def posterior(self, before: Array, after: Array) -> Array:
        """Return the inflated anomalies, from those before and after the analysis."""
        return after

    def learn(self, memory: PyTree, error: Array, signal: Array, weight: Array) -> PyTree:
        """Return the memory, updated with the residuals of a measurement."""
        return memory


@pytree
class Multiplicative(Inflation):
    """Constant factor on the analysed anomalies (Anderson & Anderson 1999).

    Args:
        factor: on the anomalies, so its square is on the covariance; 1.0 does nothing.
    """

    factor: float | Array = 1.0

    def __post_init__(self) -> None:
        """Validate the factor."""
        validation.positive("factor", self.factor)

    def posterior(self, before: Array, after: Array) -> Array:
        """Multiply the analysed anomalies by the factor."""
        return self.factor * after


@pytree
class RTPP(Inflation):
    """Relaxation to the prior anomalies (Zhang, Snyder & Sun 2004).

    Args:
        share: of the predicted anomalies in the mix, between 0 and 1.
    """

    share: float | Array

    def __post_init__(self) -> None:
        """Validate the share."""
        validation.probability("share", self.share)

    def posterior(self, before: Array, after: Array) -> Array:
        """Compute the convex combination of both."""
        return (1.0 - self.share) * after + self.share * before


@pytree
class RTPS(Inflation):
    """Relaxation to the prior spread of each state (Whitaker & Hamill 2012).

    Args:
        share: of the reduction in spread that is restored, between 0 and 1.
    """

    share: float | Array

    def __post_init__(self) -> None:
        """Validate the share."""
        validation.probability("share", self.share)

    def posterior(self, before: Array, after: Array) -> Array:
        """Multiply the anomalies of each state by a factor."""
        prior_spread, spread = (jnp.sqrt((a**2).mean(0)) for a in (before, after))
        positive = spread > 0
        reduction = (prior_spread - spread) / jnp.where(positive, spread, 1.0)
        return after * jnp.where(positive, 1.0 + self.share * reduction, 1.0)[None]


def default_inflation(num_members: int) -> RTPS:
    """Return the inflation of ensemble filters by name: relaxation to the prior spread by a share of 0.3.

    The share was chosen on Lorenz96 with 40 states. Above 100 members it falls as the sampling error does, 3/√N, so
    that a linear Gaussian ensemble converges to the Kalman filter.

    Example:
        >>> default_inflation(20), default_inflation(900)
        (RTPS(share=0.3), RTPS(share=0.1))
    """
    return RTPS(min(DEFAULT_SHARE, SHARE_BY_ERROR / math.sqrt(max(num_members, 1))))


class AdaptiveMemory(NamedTuple):
    """Estimate of the factor on the predicted covariance, and its variance."""

    factor: Array
    variance: Array


@pytree
class Adaptive(Inflation):
    """Adaptive factor on the predicted covariance, estimated from the residuals (Li, Kalnay & Miyoshi 2009).

    Residuals have variance `factor x signal + noise`; each step gives an estimate of the factor, and a scalar Kalman
    filter averages them (Miyoshi 2011). Observations count with their weight w², so outliers do not inflate.

    Args:
        initial: initial factor.
        variance: initial and largest variance of the estimate.
        growth: factor on that variance per step, which discounts the past.
        lowest: lower bound of the factor.
        highest: upper bound of the factor.
    """

    initial: Number = 1.0
    variance: Number = 0.04
    growth: Number = 1.03
    lowest: Number = 0.9
    highest: Number = 4.0

    def __post_init__(self) -> None:
        """Validate the parameters."""
        for name, value in vars(self).items():
            validation.positive(name, value)

    def start(self, like: Array) -> AdaptiveMemory:
        """Return the initial factor and its variance."""
        return AdaptiveMemory(*(jnp.asarray(value, like.dtype) for value in (self.initial, self.variance)))

    def prior(self, memory: AdaptiveMemory) -> Array:
        """Return the root of the estimated factor."""
        return jnp.sqrt(memory.factor)

    def learn(self, memory: AdaptiveMemory, error: Array, signal: Array, weight: Array) -> AdaptiveMemory:
        """Update the estimate with the residuals of a measurement.

        Args:
            memory: present estimate.
            error: residual over the standard deviation of its noise, (M,).
            signal: variance of the predictions over that of the noise, including the present factor, (M,).
            weight: (M,).
        """
        power = weight**2
        count, expected = power.sum(), (power * signal).sum() / memory.factor
        known = expected > 0
        expected = jnp.where(known, expected, 1.0)
        estimate = ((power * error**2).sum() - count) / expected
        # The sum of squares has variance 2 count under the present estimate.
        estimate_var = 2.0 * ((memory.factor * expected + count) / expected) ** 2 / jnp.maximum(count, 1.0)
        variance = jnp.minimum(self.growth * memory.variance, self.variance)
        gain = variance / (variance + estimate_var)
        factor = jnp.clip(memory.factor + gain * (estimate - memory.factor), self.lowest, self.highest)
        updated = AdaptiveMemory(factor, (1.0 - gain) * variance)
        return AdaptiveMemory(*(jnp.where(known, new, old) for new, old in zip(updated, memory, strict=True)))
