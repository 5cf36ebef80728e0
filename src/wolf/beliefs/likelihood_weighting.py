"""Weighting of the likelihood, the core of WoLF: measured coordinates are multiplied by a weight, R is unchanged.

    H = w * jac      e = w * residual

raises the likelihood of the measurement to the power w² (Duran-Martin et al. 2024, Proposition 3.1). Dividing R by w²
would give the same posterior for w > 0, but NaN at w = 0, in the covariance and in gradients.
"""

import jax.numpy as jnp
from jax import Array

from wolf.numerics import linalg
from wolf.numerics.linalg import matmul, matvec, transpose


class Scaling:
    """Scaling of measured coordinates by a weight.

    Args:
        weight: a scalar, one value per coordinate (M,), or a matrix (M, M) that also whitens.
        residual: any (M,) array of the measurement, for its shape.
    """

    def __init__(self, weight: Array, residual: Array):
        self.whitens = weight.ndim > residual.ndim
        self.weight = weight if self.whitens else jnp.broadcast_to(weight, residual.shape)

    def __call__(self, a: Array) -> Array:
        """Scale the rows of a vector or a matrix."""
        if self.whitens:
            return matvec(self.weight, a) if a.ndim < self.weight.ndim else matmul(self.weight, a)
        return self.weight * a if a.ndim == self.weight.ndim else self.weight[:, None] * a

    def back(self, gain_t: Array) -> Array:
        """Convert the transposed gain of the scaled coordinates to that of the measurement."""
        return matmul(transpose(self.weight), gain_t) if self.whitens else self.weight[:, None] * gain_t

    def both(self, a: Array) -> Array:
        """Scale the rows and columns of a symmetric matrix."""
        if self.whitens:
            return linalg.sandwich(self.weight, a)
        return linalg.outer(self.weight, self.weight) * a

    def noise(self, obs_cov: Array) -> Array:
        """Return the noise covariance of the scaled coordinates: R, or the identity if they are whitened."""
        if self.whitens:
            return jnp.broadcast_to(linalg.eye(obs_cov.shape[0], self.weight), self.weight.shape)
        return obs_cov
