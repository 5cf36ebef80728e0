"""Believe a measurement or not: a Gaussian part and a wide part that says nothing, with exact first two moments.

The noise is as the model says with probability `1 - share`; otherwise the residual has `widen` times its covariance and
tells nothing about the state. The posterior is then a mixture of two Gaussians, the updated belief and the predicted
one, and its mean and covariance are taken exactly (Masreliez 1975; West 1981; Bar-Shalom & Tse 1975, where the share is
that of false detections). `wolf.fit` runs on it: its predictive density is a proper one, so it can be compared between
noise variances, which a weighted likelihood cannot.
"""

from typing import Any

import jax.numpy as jnp
from jax import Array

from wolf import validation
from wolf.beliefs.updates import WeightedUpdate
from wolf.interfaces import NoiseModel, UpdateContext, UpdateDecision
from wolf.numerics import linalg
from wolf.numerics.linalg import matvec, transpose
from wolf.numerics.pytree import pytree

CERTAIN = 600.0  # log-odds beyond which nothing changes in float64


@pytree
class ContaminatedGaussian(NoiseModel):
    """Believe a measurement as far as it is likely to be no outlier.

    Args:
        share: probability of an outlier, between 0 and 1.
        widen: covariance of the residual of an outlier, over that of a good one; above 1.
    """

    share: Any
    widen: Any

    def __post_init__(self) -> None:
        """Check both."""
        validation.probability("share", self.share)
        validation.positive("widen", self.widen)

    def __call__(self, seen: UpdateContext) -> UpdateDecision:
        """Match the moments of the two possible posteriors."""
        whitened = seen.innovation.half(seen.residual)
        odds = _log_odds(linalg.sum_leading(whitened**2), seen.observed.sum(0), self.share, self.widen)
        return match_moments(seen, whitened, odds)


def match_moments(seen: UpdateContext, whitened: Array, odds: Array) -> UpdateDecision:
    """Match the moments of the posterior if a measurement is good and of the prediction, if it is not.

    Args:
        seen: the measurement.
        whitened: its residual, L⁻¹ e with S = L Lᵀ.
        odds: log-odds that it is good.
    """
    root_good, root_bad = _root_sigmoids(odds)
    # P - good K S Kᵀ is the posterior of the information Wᵀ W = good (R + (1 - good) H P Hᵀ)⁻¹.
    noise = root_good**2 * seen.obs_cov + root_bad**2 * seen.innovation.product()
    weight = root_good * linalg.cholesky(noise).half(linalg.eye(noise.shape[0], noise))
    shift = matvec(transpose(seen.belief.cross_covariance(seen.view.jac)), seen.innovation.back(whitened))
    return UpdateDecision(WeightedUpdate(weight, (root_good * root_bad * shift)[:, None]))


def _log_odds(nis: Array, count: Array, share: Array, widen: Array) -> Array:
    """Compare a good residual with an outlier, given its length."""
    odds = jnp.log1p(-share) - jnp.log(share) - 0.5 * nis * (1.0 - 1.0 / widen) + 0.5 * count * jnp.log(widen)
    return jnp.clip(odds, -CERTAIN, CERTAIN)


def _root_sigmoids(odds: Array) -> tuple[Array, Array]:
    """Find the roots of a probability and of its rest from log-odds.

    The likely one is 1 / sqrt(1 + h²) with h = exp(-|odds| / 2), and the other h times that: one exponential for both,
    and no root of something that may be 0, which has no finite slope.
    """
    likely = odds > 0.0
    half = jnp.exp(-0.5 * jnp.where(likely, odds, -odds))
    large = 1.0 / jnp.sqrt(1.0 + half**2)
    small = half * large
    return jnp.where(likely, large, small), jnp.where(likely, small, large)
