"""The whole of WoLF: measured coordinates are multiplied by a weight, and R stays as it is.

    H = w * jac      e = w * residual

raises the likelihood of the measurement to the power w² (Duran-Martin et al. 2024, Proposition 3.1). Dividing R by w²
would give the same posterior for w > 0 and NaN, in the covariance and in gradients, at w = 0.
"""

import jax.numpy as jnp
from jax import Array

from wolf.numerics import linalg
from wolf.numerics.linalg import matmul, matvec, transpose


class Scaling:
    """Scale measured coordinates by a weight.

    Args:
        weight: a number, one for each coordinate (M,), or a matrix (M, M) that whitens as it weighs.
        residual: any (M,) array of the measurement, for its shape.
    """

    def __init__(self, weight: Array, residual: Array):
        self.whitens = weight.ndim > residual.ndim
        self.weight = weight if self.whitens else jnp.broadcast_to(weight, residual.shape)

    def __call__(self, a: Array) -> Array:
        """Weigh the rows of a vector or a matrix."""
        if self.whitens:
            return matvec(self.weight, a) if a.ndim < self.weight.ndim else matmul(self.weight, a)
        return self.weight * a if a.ndim == self.weight.ndim else self.weight[:, None] * a

    def back(self, gain_t: Array) -> Array:
        """Turn the gain of weighed coordinates, transposed, into that of the measurement itself."""
        return matmul(transpose(self.weight), gain_t) if self.whitens else self.weight[:, None] * gain_t

    def both(self, a: Array) -> Array:
        """Weigh the rows and the columns of a symmetric matrix."""
        if self.whitens:
            return linalg.sandwich(self.weight, a)
        return linalg.outer(self.weight, self.weight) * a

    def noise(self, obs_cov: Array) -> Array:
        """Give the noise that belongs to weighed coordinates: R as it is, or a unit matrix once they are whitened."""
        if self.whitens:
            return jnp.broadcast_to(linalg.eye(obs_cov.shape[0], self.weight), self.weight.shape)
        return obs_cov
