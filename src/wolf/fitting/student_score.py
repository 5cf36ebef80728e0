"""Predictive scores: log densities of a residual, computed from the information of a filter step.

All are proper densities of y given the past, so they can be compared between noise variances and between methods. The
weighted likelihood of generalised Bayes cannot: rejecting a measurement costs nothing.
"""

import math

import jax
import jax.numpy as jnp
from jax import Array

from wolf.beliefs.density import LOG_2PI

STUDENT_DOF = 4.0  # degrees of freedom of the score of `wolf.tune`: heavy tails, finite variance


def log_two_part(log_density: Array, nis: Array, count: Array, share: Array, widen: Array) -> Array:
    """Evaluate the log density of a residual that is Gaussian, or `widen` times as wide with probability `share`.

    Args:
        log_density: log density of the Gaussian part, log N(e; 0, S).
        nis: eᵀ S⁻¹ e.
        count: number of measured coordinates; without any the score is 0.
        share: probability of the wide part.
        widen: ratio of its covariance to S.

    Example:
        >>> round(float(log_two_part(-0.5 * LOG_2PI, 0.0, 1.0, 0.5, 4.0)), 4)
        -1.2066
    """
    log_wide = log_density + 0.5 * nis * (1.0 - 1.0 / widen) - 0.5 * count * jnp.log(widen)
    log_mixture = jnp.logaddexp(jnp.log1p(-share) + log_density, jnp.log(share) + log_wide)
    return jnp.where(count > 0, log_mixture, 0.0)


def log_student(log_density: Array, nis: Array, count: Array, dof: float = STUDENT_DOF) -> Array:
    """Evaluate the log density of a residual under a multivariate Student-t with scale matrix S.

    Args:
        log_density: log N(e; 0, S).
        nis: eᵀ S⁻¹ e.
        count: number of measured coordinates; without any the score is 0.
        dof: degrees of freedom.

    Example:
        >>> round(float(log_student(-0.5 * LOG_2PI - 0.5, 1.0, 1.0)), 4)  # t with 4 degrees of freedom, at 1
        -1.5387
    """
    half_log_det = -(log_density + 0.5 * (nis + count * LOG_2PI))
    constant = jax.lax.lgamma(0.5 * (dof + count)) - math.lgamma(0.5 * dof) - 0.5 * count * math.log(dof * math.pi)
    score = constant - half_log_det - 0.5 * (dof + count) * jnp.log1p(nis / dof)
    return jnp.where(count > 0, score, 0.0)
