"""Any weight of `wolf.weights` for an ensemble: per observation, pooled into one, or per member.

A robust filter that has lost the truth would refuse the very observations that could bring it back. With many of them
their median tells: when it has been larger than it should be for several steps in a row, the members are too sure of
themselves, and residuals are measured in units of that median. One bad row, or a short spell of them, changes nothing.
"""

from typing import Any

import jax.numpy as jnp
from jax import Array

from wolf.inference import weights
from wolf.inference.ensembles.observation_ensemble import InnovationRoot, NoiseRoot, ObservationEnsemble

MEDIAN_OF_NORMAL = 0.6745  # median of the size of a standard normal number
VOTERS = 10  # fewer observations than this have no say in it
SCOPES = ("observation", "pooled", "member")
# The robust default for one observation at a time: `MahalanobisIMQ.calibrated(dim=1, efficiency=0.97)`. An ensemble
# that is cycled through chaos multiplies what it loses, so it is held a little closer to the plain filter than others.
ROBUST = weights.MahalanobisIMQ(c=4.017911286525658, metric="S")


def typical_size(sight: ObservationEnsemble) -> Array:
    """Measure how large residuals are, by their median in units of what the members expect; at least 1."""
    sizes = jnp.abs(sight.residual) / jnp.sqrt(sight.noise.variances + sight.variances())
    median = jnp.nanmedian(jnp.where(sight.observed > 0, sizes, jnp.nan)) / MEDIAN_OF_NORMAL
    return jnp.where(sight.observed.sum() >= VOTERS, jnp.maximum(median, 1.0), 1.0)


def weigh(weight: Any, scope: str, sight: ObservationEnsemble, scale: Array | float = 1.0) -> Array:
    """Evaluate a weight.

    Args:
        weight: from `wolf.weights`, or any `weight(residual, obs_cov, innovation_cov)`.
        scope: "observation" weighs every observation by itself, "pooled" all of them by one number, "member" lets
            every member weigh every observation by its own residual.
        sight: of the measurement.
        scale: unit of the residuals, at least 1.

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


def _pooled(weight: Any, sight: ObservationEnsemble) -> Array:
    by_distance = isinstance(weight, weights.DistanceWeight | weights.StudentWeight)  # asks only for whitened residuals
    if not sight.wide or not by_distance:
        obs_cov = sight.noise.matrix()
        innovation_cov = sight.deviations.T @ sight.deviations / sight.degrees + obs_cov
        value = weights.evaluate(weight, sight.residual, obs_cov, innovation_cov, sight.observed)
    else:
        factors: Any = NoiseRoot(sight.noise), InnovationRoot(sight)
        value = weight(sight.residual, *factors, sight.observed)
    return jnp.broadcast_to(value, sight.residual.shape)
