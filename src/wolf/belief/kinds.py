"""The kinds of belief: by covariance, by a root of it, or by a large covariance that waits."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.numerics import linalg


class Gaussian(NamedTuple):
    """A normal distribution by mean (D,) and covariance (D, D)."""

    mean: Any
    cov: Any


class RootGaussian(NamedTuple):
    """A normal distribution by mean (D,) and a lower triangular root (D, D) of its covariance."""

    mean: Any
    root: Any

    @property
    def cov(self) -> Any:
        """Multiply the root out."""
        if isinstance(self.root, np.ndarray) and self.root.ndim == 2:  # JAX would cut float64 outside of our context
            return self.root @ self.root.T
        return linalg.gram(self.root)


class DeferredGaussian(NamedTuple):
    """A normal distribution whose large covariance is brought up to date only now and then.

    The covariance is `scale (base + diag(added) + rowsᵀ diag(signs) rows)` over the rows that wait. Reading and writing
    a large matrix is what a step costs; this way it is read in every step, and written once for many.

    Attributes:
        mean: (D,).
        base: (D, D), as it was.
        added: variances that came since, a number or (D,).
        rows: what was learned since, (K, D).
        signs: -1 for what the covariance lost, 1 for what it gained, (K,).
        count: how many of the rows wait; those beyond are of the past.
        scale: what all of it was inflated by since.
    """

    mean: Any
    base: Any
    added: Any
    rows: Any
    signs: Any
    count: Any
    scale: Any

    @property
    def waiting(self) -> Array:
        """Say what each row counts, (K,): its sign, or 0 if it does not wait."""
        return (np.arange(len(self.rows)) < self.count) * self.signs

    @property
    def cov(self) -> Array:
        """Write the covariance out."""
        xp: Any = np if isinstance(self.base, np.ndarray) else jnp
        extra = self.added if self.added.ndim == 0 else self.added[:, None]
        change = (self.waiting[:, None] * self.rows).T @ self.rows
        diagonal = extra * xp.eye(len(self.mean), dtype=self.base.dtype)
        return self.scale * (self.base + diagonal + (change + change.T) / 2)
