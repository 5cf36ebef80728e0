"""Any weight of `wolf.weights` for an ensemble: per observation, pooled into one, or per member.

A robust filter that has lost the truth would refuse the very observations that could bring it back. With many of them
they can vote: when more than half lie beyond twice their usual median for some steps in a row, it is the members who
are wrong, and residuals are measured in units of their own median size until that ends. One bad row changes nothing.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from wolf import weights
from wolf.ensembles.sight import InnovationRoot, NoiseRoot, Sight

MEDIAN_OF_NORMAL = 0.6745  # median of the size of a standard normal number
FAR = 2 * MEDIAN_OF_NORMAL  # standard deviations; 18 % of clean residuals exceed it, when members are lost over a half
VOTERS = 10  # fewer observations than this do not vote
SCOPES = ("observation", "pooled", "member")


def dissent(sight: Sight) -> tuple[Array, Array]:
    """Say whether most observations disagree with the members, and give the residuals in standard deviations."""
    sizes = jnp.abs(sight.residual) / jnp.sqrt(sight.noise.variances + sight.variances())
    votes = sight.observed.sum()
    far = jnp.where(sizes > FAR, sight.observed, 0.0).sum()
    return (votes >= VOTERS) & (far > 0.5 * votes), sizes


def common_scale(sizes: Array, observed: Array, lost: Array) -> Array:
    """Measure residuals by their median once the members are lost; 1 until then."""

    def median(sizes: Array) -> Array:
        return jnp.maximum(jnp.nanmedian(jnp.where(observed > 0, sizes, jnp.nan)) / MEDIAN_OF_NORMAL, 1.0)

    return jax.lax.cond(lost, median, lambda sizes: jnp.ones((), sizes.dtype), sizes)


def weigh(weight: Any, scope: str, sight: Sight, scale: Array | float = 1.0) -> Array:
    """Evaluate a weight.

    Args:
        weight: from `wolf.weights`, or any `weight(residual, obs_cov, innovation_cov)`.
        scope: "observation" weighs every observation by itself, "pooled" all of them by one number, "member" lets
            every member weigh every observation by its own residual.
        sight: of the measurement.
        scale: unit of the residuals, from `common_scale`.

    Returns:
        Weights (M,), or (N, M) per member; 0 where nothing was measured.
    """
    seen = sight.observed
    noise, signal = scale**2 * sight.noise.variances, scale**2 * seen * sight.variances()
    if isinstance(weight, weights.Unweighted):
        return seen
    if scope == "pooled" and not isinstance(weight, weights.PerCoordinate):
        return seen * _pooled(weight, sight)
    inner = weight.weight if isinstance(weight, weights.PerCoordinate) else weight
    if scope != "member":
        return seen * _each(inner, sight.residual, noise, noise + signal, seen)
    # A member is one more draw from the prediction: its own residual has the spread of the members twice.
    residuals = (sight.residual[None] - sight.deviations).T
    return seen[None] * _each(inner, residuals, noise[:, None], (noise + 2.0 * signal)[:, None], seen[:, None]).T


def _each(weight: Any, residual: Array, noise: Array, innovation: Array, seen: Array) -> Array:
    """Turn the axes of observations and members into batch axes of a weight for one coordinate."""
    return weights.evaluate(weight, residual[None], noise[None, None], innovation[None, None], seen[None])


def _pooled(weight: Any, sight: Sight) -> Array:
    by_distance = isinstance(weight, weights.Weight) and hasattr(weight, "metric")  # asks only for whitened residuals
    if not sight.wide or not by_distance:
        obs_cov = sight.noise.matrix()
        innovation_cov = sight.deviations.T @ sight.deviations / sight.degrees + obs_cov
        value = weights.evaluate(weight, sight.residual, obs_cov, innovation_cov, sight.observed)
    else:
        factors: Any = NoiseRoot(sight.noise), InnovationRoot(sight)
        value = weight(sight.residual, *factors, sight.observed)
    return jnp.broadcast_to(value, sight.residual.shape)
