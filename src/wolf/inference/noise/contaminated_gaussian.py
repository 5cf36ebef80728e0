"""Contaminated Gaussian noise: an inlier component and an uninformative wide one, with exact posterior moments.

With probability `1 - share` the noise is that of the model; otherwise the residual has `widen` times its covariance and
does not inform about the state. The posterior is then a mixture of two Gaussians, the updated belief and the predicted
one, and its mean and covariance are taken exactly (Masreliez 1975; West 1981; Bar-Shalom & Tse 1975, where the share is
that of false detections). `wolf.fit` runs on it: its predictive density is a proper one, so it can be compared between
noise variances, which a weighted likelihood cannot.
"""

import jax.numpy as jnp
from jax import Array

from wolf import validation
from wolf.beliefs.updates import WeightedUpdate
from wolf.interfaces import NoiseModel, Number, UpdateContext, UpdateDecision
from wolf.numerics import linalg
from wolf.numerics.linalg import matvec, transpose
from wolf.numerics.pytree import pytree

CERTAIN = 600.0  # log-odds beyond which nothing changes in float64


@pytree
class ContaminatedGaussian(NoiseModel[tuple]):
    """Average the update and the prediction by the inlier probability of the measurement.

    Args:
        share: probability of an outlier, between 0 and 1.
        widen: ratio of the residual covariance of outliers to that of inliers; above 1.
    """

    share: Number
    widen: Number

    def __post_init__(self) -> None:
        """Validate both."""
        validation.probability("share", self.share)
        validation.positive("widen", self.widen)

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Match the moments of the two possible posteriors."""
        whitened = context.innovation.half(context.residual)
        odds = _log_odds(linalg.sum_leading(whitened**2), context.observed.sum(0), self.share, self.widen)
        return match_moments(context, whitened, odds)


def match_moments(context: UpdateContext, whitened: Array, odds: Array) -> UpdateDecision:
    """Match the moments of the mixture of the posterior (an inlier) and the prediction (an outlier).

    Args:
        context: the measurement.
        whitened: its residual, L⁻¹ e with S = L Lᵀ.
        odds: log-odds of being an inlier.
    """
    root_inlier, root_outlier = _root_sigmoids(odds)
    # P - p K S Kᵀ is the posterior of the information Wᵀ W = p (R + (1 - p) H P Hᵀ)⁻¹, with p the inlier probability.
    noise = root_inlier**2 * context.obs_cov + root_outlier**2 * context.innovation.product()
    weight = root_inlier * linalg.cholesky(noise).half(linalg.eye(noise.shape[0], noise))
    shift = matvec(transpose(context.belief.cross_covariance(context.view.jac)), context.innovation.back(whitened))
    return UpdateDecision(WeightedUpdate(weight, (root_inlier * root_outlier * shift)[:, None]))


def _log_odds(nis: Array, count: Array, share: Number, widen: Number) -> Array:
    """Compute the log-odds of an inlier against an outlier.

    Args:
        nis: eᵀ S⁻¹ e.
        count: number of measured coordinates.
        share: probability of an outlier.
        widen: its covariance ratio.
    """
    odds = jnp.log1p(-share) - jnp.log(share) - 0.5 * nis * (1.0 - 1.0 / widen) + 0.5 * count * jnp.log(widen)
    return jnp.clip(odds, -CERTAIN, CERTAIN)


def _root_sigmoids(odds: Array) -> tuple[Array, Array]:
    """Compute the square roots of a probability and of its complement from log-odds.

    The larger is 1 / sqrt(1 + h²) with h = exp(-|odds| / 2), and the other h times that: one exponential for both, and
    no square root of 0, whose derivative is infinite.
    """
    likely = odds > 0.0
    half = jnp.exp(-0.5 * jnp.where(likely, odds, -odds))
    large = 1.0 / jnp.sqrt(1.0 + half**2)
    small = half * large
    return jnp.where(likely, large, small), jnp.where(likely, small, large)
