"""Weights of `wolf.weights` for an ensemble: per observation, pooled into one, or per member.

A diverged robust filter would reject the observations that could correct it. With many observations the median
normalised residual detects divergence: when it has been too large for several consecutive steps, the spread of the
members is too small, and residuals are scaled by that median. One outlying row, or a short run of them, has no effect.
"""

from typing import Any

import jax.numpy as jnp
from jax import Array

from wolf.inference import weights
from wolf.inference.ensembles.observation_ensemble import InnovationRoot, NoiseRoot, ObservationEnsemble
from wolf.interfaces import WeightFunction

MEDIAN_ABS_NORMAL = 0.6745  # median absolute value of a standard normal variable
MIN_OBSERVATIONS = 10  # with fewer, the median is not used
SCOPES = ("observation", "pooled", "member")
# The robust default per observation: `MahalanobisIMQ.calibrated(dim=1, efficiency=0.97)`. In cycled assimilation of a
# chaotic model a loss of efficiency accumulates, so the default is closer to the unweighted filter than elsewhere.
ROBUST = weights.MahalanobisIMQ(c=4.017911286525658, metric="S")


def median_residual_size(sight: ObservationEnsemble) -> Array:
    """Compute the median normalised residual, in units of its predicted standard deviation; at least 1."""
    sizes = jnp.abs(sight.residual) / jnp.sqrt(sight.noise.variances + sight.variances())
    median = jnp.nanmedian(jnp.where(sight.observed > 0, sizes, jnp.nan)) / MEDIAN_ABS_NORMAL
    return jnp.where(sight.observed.sum() >= MIN_OBSERVATIONS, jnp.maximum(median, 1.0), 1.0)


def weigh(weight: WeightFunction, scope: str, sight: ObservationEnsemble, scale: Array | float = 1.0) -> Array:
    """Evaluate a weight.

    Args:
        weight: from `wolf.weights`, or any `weight(residual, obs_cov, innovation_cov)`.
        scope: "observation" for one weight per observation, "pooled" for a single weight, "member" for one weight per
            member and observation, from the residual of that member.
        sight: predictions and residual of the measurement.
        scale: unit of the residuals, at least 1.

    Returns:
        Weights (M,), or (N, M) per member; 0 where nothing was measured.
    """
    observed = sight.observed
    noise, signal = scale**2 * sight.noise.variances, scale**2 * observed * sight.variances()
    if isinstance(weight, weights.Unweighted):
        return observed
    if scope == "pooled" and not isinstance(weight, weights.PerCoordinate):
        return observed * _pooled(weight, sight)
    inner = weight.weight if isinstance(weight, weights.PerCoordinate) else weight
    if scope != "member":
        return observed * _each(inner, sight.residual, noise, noise + signal, observed)
    # A member is one more draw from the prediction: its residual has twice the variance of the members.
    residuals = (sight.residual[None] - sight.deviations).T
    member_var = (noise + 2.0 * signal)[:, None]
    return observed[None] * _each(inner, residuals, noise[:, None], member_var, observed[:, None]).T


def _each(weight: WeightFunction, residual: Array, noise: Array, innovation: Array, observed: Array) -> Array:
    """Evaluate a weight of one coordinate with observations and members as batch axes."""
    return weights.evaluate(weight, residual[None], noise[None, None], innovation[None, None], observed[None])


def _pooled(weight: WeightFunction, sight: ObservationEnsemble) -> Array:
    # A distance needs whitened residuals only.
    if sight.wide and isinstance(weight, weights.DistanceWeight | weights.StudentWeight):
        root: Any = NoiseRoot(sight.noise)
        value = weight(sight.residual, root, InnovationRoot(sight), sight.observed)
    else:
        obs_cov = sight.noise.matrix()
        innovation_cov = sight.deviations.T @ sight.deviations / sight.degrees + obs_cov
        value = weights.evaluate(weight, sight.residual, obs_cov, innovation_cov, sight.observed)
    return jnp.broadcast_to(value, sight.residual.shape)
