"""Log densities, divergence and interval width of Gaussians."""

import math
from typing import TYPE_CHECKING

import jax.numpy as jnp
from jax import Array

from wolf.numerics import linalg
from wolf.numerics.linalg import Cholesky

if TYPE_CHECKING:
    from wolf.beliefs.gaussian import Gaussian

LOG_2PI = math.log(2 * math.pi)


def log_density(residual: Array, factor: Cholesky, size: Array | int | None = None) -> Array:
    """Evaluate `log N(residual; 0, L Lᵀ)`.

    Args:
        residual: (M,).
        factor: Cholesky factor L of the covariance.
        size: number of coordinates that count towards `log 2π`; default: all of them.

    Example:
        >>> round(float(log_density(jnp.zeros(1), linalg.cholesky(jnp.eye(1)))), 4)
        -0.9189
    """
    count = residual.shape[0] if size is None else size
    return -0.5 * (linalg.sum_leading(factor.half(residual) ** 2) + factor.log_det() + count * LOG_2PI)


def weigh_constant(weight: Array, obs_cov: Array) -> Array:
    """Compute `log ∫ p(y|x)^{w²} p(x) dx - log N(w e; 0, S_w)`, which is `½ Σ (1 - w²) (log 2π + log R)`."""
    log_deviation = jnp.log(linalg.cholesky(obs_cov).diagonal())
    return linalg.sum_leading((1.0 - weight**2) * (0.5 * LOG_2PI + log_deviation))


def kl(first: "Gaussian", second: "Gaussian") -> Array:
    """Compute the Kullback-Leibler divergence `KL(first ‖ second)` between two Gaussians.

    Example:
        >>> from wolf.beliefs import Gaussian
        >>> one = Gaussian(jnp.zeros(1), jnp.eye(1))
        >>> float(kl(Gaussian(jnp.ones(1), jnp.eye(1)), one))
        0.5
    """
    factor, other = linalg.cholesky(second.cov), linalg.cholesky(first.cov)
    spread = (factor.half(other.matrix()) ** 2).sum((0, 1))
    distance = linalg.sum_leading(factor.half(first.mean - second.mean) ** 2)
    return 0.5 * (spread + distance - first.mean.shape[0] + factor.log_det() - other.log_det())


def deviations(level: float) -> float:
    """Return the half-width of a central interval of a Gaussian, in standard deviations.

    Args:
        level: probability of the interval, between 0 and 1.

    Example:
        >>> round(deviations(0.95), 4)
        1.96
    """
    from statistics import NormalDist  # not scipy, whose import takes a quarter of a second

    return -NormalDist().inv_cdf(0.5 - 0.5 * level)
