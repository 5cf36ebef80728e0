"""Dirichlet counts of the components of a scale mixture under several priors, averaged by their predictions.

Each prior has counts of its own, with exponential forgetting towards it. The weights of the priors follow Bayes' rule,
with a fixed share returned to the first weights at each measurement (Herbster & Warmuth 1998).
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.inference.noise.adaptive_scale_mixture import FLOOR
from wolf.inference.noise.scale_mixture import Matched
from wolf.numerics.linalg import pairwise_sum


class ScalePrior(NamedTuple):
    """A log-normal prior of the counts.

    Attributes:
        width: standard deviation, in ln s.
        strength: in measurements.
        weight: relative to the other priors.
    """

    width: float
    strength: float
    weight: float


PRIORS = (ScalePrior(0.37, 11.0, 0.82), ScalePrior(1.0, 28.0, 0.18))
SHARED_WEIGHT = 0.0003  # of the priors' weights, returned to the first ones per measurement: the noise may change


def prior_counts(sizes: Sequence[float], priors: Sequence[ScalePrior], dtype: np.dtype) -> tuple[Array, Array]:
    """Compute the counts, (I, K), and the weights, (I,), before any measurement.

    Args:
        sizes: t_k of the components.
        priors: I of them.
        dtype: of the results.

    Example:
        >>> counts, weights = prior_counts((0.1, 1.0, 10.0), PRIORS, "float32")
        >>> counts.sum(1).round(3).astype(int).tolist(), weights.shape
        ([11, 28], (2,))
    """
    logs, rows = jnp.asarray(np.log(sizes), dtype), []
    for prior in priors:
        heights = jnp.exp(-0.5 * (logs / prior.width) ** 2) + FLOOR
        rows.append(prior.strength * heights / heights.sum())
    weights = np.array([prior.weight for prior in priors])
    return jnp.stack(rows), jnp.asarray(weights / weights.sum(), dtype)


def mixed_counts(counts: Array, weights: Array) -> Array:
    """Average the priors' probabilities by their weights, as counts of as many measurements, (K,).

    Args:
        counts: (I, K).
        weights: (I,).
    """
    if len(counts) == 1:
        return counts[0]
    worth = pairwise_sum(counts)
    shares = (weights * worth).sum() * (weights * (1.0 / worth))
    return (shares[:, None] * counts).sum(0)


def update_counts(
    counts: Array, weights: Array, matched: Matched, prior: tuple[Array, Array], forgetting: float | Array
) -> tuple[Array, Array]:
    """Update the counts of each prior, and the weights of the priors by how well they predicted a measurement.

    Args:
        counts: (I, K).
        weights: (I,).
        matched: responsibilities and densities of the components.
        prior: from `prior_counts`.
        forgetting: share of the counts that is kept.
    """
    first_counts, first_weights = prior
    kept = (1.0 - forgetting) * first_counts + forgetting * counts
    if len(counts) == 1:
        return kept + matched.share[None], weights
    # A measurement beyond all scales counts as the widest: it is an outlier, and patience grows with their share.
    shares = counts * matched.density[None]
    predicted = pairwise_sum(shares)
    likely = weights * (1.0 / pairwise_sum(counts)) * predicted
    weights = SHARED_WEIGHT * first_weights + (1.0 - SHARED_WEIGHT) / likely.sum() * likely
    return kept + (1.0 / predicted)[:, None] * shares, weights


def without_outliers(counts: Array, first_counts: Array, is_outlier: Array, rejected: Array) -> Array:
    """Subtract as many counts from the outlier components as measurements were rejected: each was counted there.

    Args:
        counts: (I, K).
        first_counts: those of the priors, which remain.
        is_outlier: whether a component is one of outliers, (K,).
        rejected: number of measurements.
    """
    beyond = jnp.maximum(counts - first_counts, 0.0)
    beyond = jnp.where(is_outlier, beyond, 0.0)
    share = rejected / jnp.maximum(pairwise_sum(beyond), jnp.maximum(rejected, 1.0))
    return counts - share[:, None] * beyond
