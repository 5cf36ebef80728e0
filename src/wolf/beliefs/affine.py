"""A function as a belief sees it: a straight line, and what the line leaves over."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from wolf.numerics import linalg


class Affine(NamedTuple):
    """A function seen by a belief: `h(x) ≈ mean + jac (x - m)`, leftover covariance `root rootᵀ`.

    Attributes:
        mean: h at the belief, (M,).
        jac: slope, (M, D). None stands for the identity.
        root: root of what a straight line leaves unexplained, (M, K). None stands for zero.
    """

    mean: Any
    jac: Any
    root: Any = None

    def with_jac(self) -> "Affine":
        """Write the identity out where the function is one."""
        if self.jac is not None:
            return self
        size = self.mean.shape[0]
        identity = jnp.eye(size, dtype=self.mean.dtype)
        return self._replace(jac=identity.reshape((size, size) + (1,) * (self.mean.ndim - 1)))

    def hide(self, observed: Array) -> "Affine":
        """Zero the rows that were not measured.

        Example:
            >>> Affine(jnp.ones(2), jnp.eye(2)).hide(jnp.array([1.0, 0.0])).jac.tolist()
            [[1.0, 0.0], [0.0, 0.0]]
        """
        root = None if self.root is None else observed[:, None] * self.root
        return Affine(self.mean, observed[:, None] * self.jac, root)


def hide_noise(obs_cov: Array, observed: Array) -> Array:
    """Give coordinates that were not measured unit noise of their own.

    A weight of 0 alone would keep the noise of the others *given* the missing one, which is right for a rejected
    measurement and wrong for one that never came.
    """
    seen = observed > 0
    both = seen[:, None] & seen[None, :]
    return jnp.where(both, obs_cov, linalg.eye(observed.shape[0], obs_cov))
