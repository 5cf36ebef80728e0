"""Affine approximation of a function under a belief, with the covariance of its approximation error."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from wolf.numerics import linalg


class Affine(NamedTuple):
    """Affine approximation under a belief with mean m: `h(x) ≈ mean + jac (x - m)`, error covariance `root rootᵀ`.

    Attributes:
        mean: mean of h under the belief, (M,).
        jac: Jacobian, (M, D). None stands for the identity.
        root: root of the covariance of the approximation error, (M, K). None stands for zero.
    """

    mean: Any
    jac: Any
    root: Any = None

    def with_jac(self) -> "Affine":
        """Return the approximation with an explicit Jacobian, also where it is the identity."""
        if self.jac is not None:
            return self
        size = self.mean.shape[0]
        identity = jnp.eye(size, dtype=self.mean.dtype)
        return self._replace(jac=identity.reshape((size, size) + (1,) * (self.mean.ndim - 1)))

    def hide(self, observed: Array) -> "Affine":
        """Set the rows of coordinates that were not measured to zero.

        Example:
            >>> Affine(jnp.ones(2), jnp.eye(2)).hide(jnp.array([1.0, 0.0])).jac.tolist()
            [[1.0, 0.0], [0.0, 0.0]]
        """
        root = None if self.root is None else observed[:, None] * self.root
        return Affine(self.mean, observed[:, None] * self.jac, root)


def hide_noise(obs_cov: Array, observed: Array) -> Array:
    """Return R with independent unit noise in the coordinates that were not measured.

    A weight of 0 alone would keep the noise of the others *conditional on* the missing one, which is right for a
    rejected measurement and wrong for a missing one.
    """
    measured = observed > 0
    both = measured[:, None] & measured[None, :]
    return jnp.where(both, obs_cov, linalg.eye(observed.shape[0], obs_cov))
