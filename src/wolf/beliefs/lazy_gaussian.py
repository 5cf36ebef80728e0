"""Lazily evaluated Gaussian: belief about many parameters whose covariance is updated in blocks.

A scalar measurement changes the covariance of D parameters by one row, `P - rᵀ r`. Its cost is memory traffic: P is
read to form the gain, then read and written to subtract. Here the rows are buffered: P is unchanged, the gain is
corrected by the few buffered rows, and one matrix product applies them all when the buffer is full. Drift is deferred
too, as variances to add; spread as rows that are added; and inflation as a factor. The results are those of the
symmetric form, up to rounding.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.beliefs.affine import Affine
from wolf.beliefs.density import log_density
from wolf.beliefs.gaussian import Gaussian, UpdateTerms
from wolf.beliefs.likelihood_weighting import Scaling
from wolf.numerics import linalg
from wolf.numerics.linalg import Cholesky, transpose

if TYPE_CHECKING:
    from wolf.beliefs.updates import MixtureUpdate, WeightedUpdate

MIN_PARAMETERS = 128  # below, the covariance stays in cache and deferring its update gains nothing
BUFFERED_MEASUREMENTS = 32  # with 16 a step took a few per cent longer at 400 parameters, with 8 a third


class LazyGaussian(NamedTuple):
    """Normal distribution with covariance `scale (base + diag(added) + rowsᵀ diag(signs) rows)`.

    The cost of a step is reading and writing a large matrix; here it is read in every step, and written once in many.
    The methods are those of `Gaussian`; the form of an update is always the symmetric one.

    Attributes:
        mean: (D,).
        base: covariance at the last full update, (D, D).
        added: variances added since, a number or (D,).
        rows: buffered rows, (K, D).
        signs: -1 for a row that reduces the covariance, 1 for one that increases it, (K,).
        count: number of buffered rows; the rows beyond are obsolete.
        scale: inflation since.
    """

    mean: Array
    base: Array
    added: Array
    rows: Array
    signs: Array
    count: Any
    scale: Array

    @classmethod
    def start(cls, belief: Gaussian, noise_cov: Array | None, measured: int) -> "LazyGaussian":
        """Return the belief with an empty buffer.

        Args:
            belief: mean and covariance.
            noise_cov: drift of the model; `added` gets its shape.
            measured: M, rows per measurement.
        """
        cov = belief.cov
        added = jnp.zeros(() if noise_cov is None else noise_cov.shape, cov.dtype)
        rows = jnp.zeros((BUFFERED_MEASUREMENTS * measured, cov.shape[0]), cov.dtype)
        one = jnp.ones((), cov.dtype)
        return cls(belief.mean, cov, added, rows, -jnp.ones_like(rows[:, 0]), jnp.zeros((), jnp.int32), one)

    @property
    def active_signs(self) -> Array:
        """Sign of each buffered row, 0 for obsolete rows, (K,)."""
        return (np.arange(len(self.rows)) < self.count) * self.signs

    @property
    def cov(self) -> Array:
        """Covariance as a dense matrix, (D, D)."""
        xp = linalg.array_namespace(self.base)
        extra = self.added if self.added.ndim == 0 else self.added[:, None]
        change = (self.active_signs[:, None] * self.rows).T @ self.rows
        diagonal = extra * xp.eye(len(self.mean), dtype=self.base.dtype)
        return self.scale * (self.base + diagonal + (change + change.T) / 2)

    def propagate(self, view: Affine, noise_cov: Array | None) -> "LazyGaussian":
        """Add the drift of one step, and apply the buffered rows if the buffer is full."""
        full = self.count == len(self.rows)
        base = jax.lax.cond(full, _apply_buffer, lambda belief: belief.base, self)
        added, scale = jnp.where(full, 0.0, self.added), jnp.where(full, 1.0, self.scale)
        # Applied rows stay in place: they no longer count, and a copy is saved.
        count = jnp.where(full, 0, self.count)
        added = added if noise_cov is None else added + noise_cov / scale
        return self._replace(base=base, added=added, count=count, scale=scale)

    def cross_covariance(self, jac: Array) -> Array:
        """Compute `jac P`, (M, D)."""
        extra = self.added if self.added.ndim == 0 else self.added[None]
        projected = self.active_signs[None] * (jac @ self.rows.T)
        return self.scale * (jac @ self.base + extra * jac + projected @ self.rows)

    def signal(self, view: Affine) -> Array:
        """Compute the covariance of a function of the state."""
        explained = linalg.matmul_symmetric(self.cross_covariance(view.jac), transpose(view.jac))
        return explained if view.root is None else explained + linalg.gram(view.root)

    def innovation(self, view: Affine, obs_cov: Array, observed: Array) -> Cholesky:
        """Factorise the covariance of the residual."""
        return linalg.cholesky(Scaling(observed, observed).both(self.signal(view)) + obs_cov)

    def inflate(self, factor: Array) -> "LazyGaussian":
        """Multiply the covariance by a factor."""
        return self._replace(scale=self.scale * factor)

    def where(self, used: Array, other: Any) -> "LazyGaussian":
        """Select this belief where `used` is true; rows beyond the count have no effect, so they need no selection."""

        def pick(new: Array, old: Array) -> Array:
            return new if new is old else jnp.where(used, new, old)

        return self._replace(
            base=pick(self.base, other.base),
            added=pick(self.added, other.added),
            mean=jnp.where(used, self.mean, other.mean),
            count=jnp.where(used, self.count, other.count),
            scale=jnp.where(used, self.scale, other.scale),
        )

    def replaced(self, dense: Gaussian) -> "LazyGaussian":
        """Return a belief with the given mean and covariance and an empty buffer."""
        empty = {"added": jnp.zeros_like(self.added), "count": jnp.zeros_like(self.count)}
        return self._replace(mean=dense.mean, base=dense.cov, **empty, scale=jnp.ones_like(self.scale))

    def condition(
        self, view: Affine, residual: Array, obs_cov: Array, update: "WeightedUpdate", form: str = "symmetric"
    ) -> tuple["LazyGaussian", Array]:
        """Condition on a measurement by appending its rows to the buffer."""
        step = UpdateTerms.of(self, view, residual, obs_cov, update.weight, gain=False)
        return self._append(step.mean, step.half, update.spread), log_density(step.error, step.factor)

    def condition_on_mixture(
        self, view: Affine, residual: Array, obs_cov: Array, update: "MixtureUpdate", form: str = "symmetric"
    ) -> tuple["LazyGaussian", Array]:
        """Condition with a given gain, expressed as a weight."""
        return self.condition(view, residual, obs_cov, update.as_weight(self.cross_covariance(view.jac)))

    def _append(self, mean: Array, half: Array, spread: Array | None) -> "LazyGaussian":
        """Append rows: the covariance changes by `spread spreadᵀ - halfᵀ half`, from (D, M) and (M, D)."""
        new, signs = half, -jnp.ones_like(half[:, 0])
        if spread is not None:
            new, signs = jnp.concatenate([half, spread.T]), jnp.concatenate([signs, jnp.ones_like(spread[0])])
        assert len(self.rows) % len(new) == 0, "the buffer must be full exactly when it has no place for one more"
        # A row of a failed update must contribute 0, not 0 · inf.
        new = jnp.where(jnp.isfinite(new), new, 0.0) / jnp.sqrt(self.scale)
        rows = jax.lax.dynamic_update_slice(self.rows, new, (self.count, jnp.zeros_like(self.count)))
        signs = jax.lax.dynamic_update_slice(self.signs, signs, (self.count,))
        return self._replace(mean=mean, rows=rows, signs=signs, count=self.count + len(new))


def is_faster(size: int, measured: int) -> bool:
    """Return whether deferred updates are faster for a model of this size."""
    return size >= MIN_PARAMETERS and measured <= linalg.SMALL


def _apply_buffer(belief: LazyGaussian) -> Array:
    base, added = belief.base, belief.added
    extra = added if added.ndim == 0 else added[:, None]
    # A symmetric product is symmetric only up to rounding: unless averaged, P and its transpose drift apart.
    change = linalg.symmetrise((belief.signs[:, None] * belief.rows).T @ belief.rows)
    return belief.scale * (base + extra * jnp.eye(len(base), dtype=base.dtype) + change)
