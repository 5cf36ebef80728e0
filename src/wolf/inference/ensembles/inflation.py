"""Inflation: give back the spread that a small ensemble loses.

An inflation has `prior(memory)`, a factor on the predicted anomalies, `posterior(before, after)`, which changes the
analysed anomalies, and, if it learns, `start()` and `learn(memory, ...)`.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from wolf import validation
from wolf.numerics.pytree import pytree


class Inflation:
    """What an inflation does unless it says otherwise: nothing, and it remembers nothing."""

    def start(self, like: Array) -> Any:
        """Begin without a memory."""
        return ()

    def prior(self, memory: Any) -> Array | float:
        """Leave the predicted anomalies."""
        return 1.0

    def posterior(self, before: Array, after: Array) -> Array:
        """Leave the analysed anomalies."""
        return after

    def learn(self, memory: Any, error: Array, signal: Array, weight: Array) -> Any:
        """Learn nothing."""
        return memory


@pytree
class Multiplicative(Inflation):
    """Stretch the analysed anomalies (Anderson & Anderson 1999).

    Args:
        factor: on the anomalies, so its square is on the covariance; 1.0 does nothing.
    """

    factor: Any = 1.0

    def __post_init__(self) -> None:
        """Check the factor."""
        validation.positive("factor", self.factor)

    def posterior(self, before: Array, after: Array) -> Array:
        """Stretch."""
        return self.factor * after


@pytree
class RTPP(Inflation):
    """Relax the anomalies to those before the analysis (Zhang, Snyder & Sun 2004).

    Args:
        share: of the predicted anomalies in the mix, between 0 and 1.
    """

    share: Any

    def __post_init__(self) -> None:
        """Check the share."""
        validation.probability("share", self.share)

    def posterior(self, before: Array, after: Array) -> Array:
        """Mix."""
        return (1.0 - self.share) * after + self.share * before


@pytree
class RTPS(Inflation):
    """Relax the spread of each state to that before the analysis (Whitaker & Hamill 2012).

    Args:
        share: of the lost spread that is given back, between 0 and 1.
    """

    share: Any

    def __post_init__(self) -> None:
        """Check the share."""
        validation.probability("share", self.share)

    def posterior(self, before: Array, after: Array) -> Array:
        """Stretch each state."""
        was, spread = (jnp.sqrt((a**2).mean(0)) for a in (before, after))
        alive = spread > 0
        lost = (was - spread) / jnp.where(alive, spread, 1.0)
        return after * jnp.where(alive, 1.0 + self.share * lost, 1.0)[None]


class AdaptiveMemory(NamedTuple):
    """What adaptive inflation believes: the factor on the predicted covariance, and the variance of that belief."""

    factor: Array
    variance: Array


@pytree
class Adaptive(Inflation):
    """Learn the factor on the predicted covariance from the size of the residuals (Li, Kalnay & Miyoshi 2009).

    Residuals have variance `factor x signal + noise`; each step gives an estimate of the factor, and a scalar Kalman
    filter averages them (Miyoshi 2011). Observations count by their weight w², so outliers do not inflate.

    Args:
        initial: factor to begin with.
        variance: of the first belief about it, and the largest that it may have.
        growth: factor on that variance from step to step; how fast the past is forgotten.
        lowest: bound on the factor.
        highest: bound on the factor.
    """

    initial: Any = 1.0
    variance: Any = 0.04
    growth: Any = 1.03
    lowest: Any = 0.9
    highest: Any = 4.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("initial", "variance", "growth", "lowest", "highest"):
            validation.positive(name, getattr(self, name))

    def start(self, like: Array) -> AdaptiveMemory:
        """Begin at the initial factor."""
        return AdaptiveMemory(*(jnp.asarray(value, like.dtype) for value in (self.initial, self.variance)))

    def prior(self, memory: AdaptiveMemory) -> Array:
        """Stretch by what was learned."""
        return jnp.sqrt(memory.factor)

    def learn(self, memory: AdaptiveMemory, error: Array, signal: Array, weight: Array) -> AdaptiveMemory:
        """Compare residuals with what was expected.

        Args:
            memory: so far.
            error: residual over the standard deviation of its noise, (M,).
            signal: variance of the predictions over that of the noise, with the present factor in it, (M,).
            weight: (M,).
        """
        power = weight**2
        count, expected = power.sum(), (power * signal).sum() / memory.factor
        known = expected > 0
        expected = jnp.where(known, expected, 1.0)
        estimate = ((power * error**2).sum() - count) / expected
        # The sum of squares has variance 2 count at the size that is believed now.
        doubt = 2.0 * ((memory.factor * expected + count) / expected) ** 2 / jnp.maximum(count, 1.0)
        variance = jnp.minimum(self.growth * memory.variance, self.variance)
        gain = variance / (variance + doubt)
        factor = jnp.clip(memory.factor + gain * (estimate - memory.factor), self.lowest, self.highest)
        learned = AdaptiveMemory(factor, (1.0 - gain) * variance)
        return AdaptiveMemory(*(jnp.where(known, new, old) for new, old in zip(learned, memory, strict=True)))
