"""A belief about many parameters, whose large covariance is brought up to date only now and then.

A filter of D parameters that learns one number at a time changes its covariance by one row, `P - rᵀ r`. What that costs
is memory traffic: read P to form the gain, then read and write it to subtract. Here the rows wait: P stays as it is,
the gain is corrected by the few rows that wait, and one matrix product takes them all in when there are enough. Drift
waits as well, as variances to add, a doubtful measurement as a row that is added, and inflation as a factor. The
numbers are those of the plain symmetric form, up to rounding.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.beliefs.affine import Affine
from wolf.beliefs.density import log_density
from wolf.beliefs.gaussian import Gaussian, Step
from wolf.beliefs.likelihood_weighting import Scaling
from wolf.numerics import linalg
from wolf.numerics.linalg import Cholesky, transpose

if TYPE_CHECKING:
    from wolf.beliefs.updates import MixtureUpdate, WeightedUpdate

FROM = 128  # parameters from which it pays; below, the whole covariance is near at hand
WAITING = 32  # measurements that wait; 16 took a few per cent longer at 400 parameters, 8 a third


class LazyGaussian(NamedTuple):
    """A normal distribution whose covariance is `scale (base + diag(added) + rowsᵀ diag(signs) rows)`.

    Reading and writing a large matrix is what a step costs; this way it is read in every step, and written once for
    many. The methods are those of `Gaussian`; the form of an update is always the symmetric one.

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

    @classmethod
    def start(cls, belief: Gaussian, noise_cov: Any, measured: int) -> "LazyGaussian":
        """Begin with nothing waiting.

        Args:
            belief: mean and covariance.
            noise_cov: drift as the model gives it; its shape is what will be added up.
            measured: M, rows for each measurement.
        """
        cov = belief.cov
        added = jnp.zeros(() if noise_cov is None else noise_cov.shape, cov.dtype)
        rows = jnp.zeros((WAITING * measured, cov.shape[0]), cov.dtype)
        one = jnp.ones((), cov.dtype)
        return cls(belief.mean, cov, added, rows, -jnp.ones_like(rows[:, 0]), jnp.zeros((), jnp.int32), one)

    @property
    def waiting(self) -> Array:
        """What each row counts, (K,): its sign, or 0 if it does not wait."""
        return (np.arange(len(self.rows)) < self.count) * self.signs

    @property
    def cov(self) -> Array:
        """The covariance, written out."""
        xp = linalg.array_namespace(self.base)
        extra = self.added if self.added.ndim == 0 else self.added[:, None]
        change = (self.waiting[:, None] * self.rows).T @ self.rows
        diagonal = extra * xp.eye(len(self.mean), dtype=self.base.dtype)
        return self.scale * (self.base + diagonal + (change + change.T) / 2)

    def propagate(self, view: Affine, noise_cov: Any) -> "LazyGaussian":
        """Let the parameters drift for one step, and take in what waits if there is no place for more."""
        full = self.count == len(self.rows)
        base = jax.lax.cond(full, _take_in, lambda belief: belief.base, self)
        added, scale = jnp.where(full, 0.0, self.added), jnp.where(full, 1.0, self.scale)
        # Rows that were taken in are left where they are: they count no more, and a copy is saved.
        count = jnp.where(full, 0, self.count)
        added = added if noise_cov is None else added + noise_cov / scale
        return self._replace(base=base, added=added, count=count, scale=scale)

    def cross_covariance(self, jac: Array) -> Array:
        """Multiply `jac P`, (M, D)."""
        extra = self.added if self.added.ndim == 0 else self.added[None]
        seen = self.waiting[None] * (jac @ self.rows.T)
        return self.scale * (jac @ self.base + extra * jac + seen @ self.rows)

    def signal(self, view: Affine) -> Array:
        """Compute the covariance of a function of the state."""
        known = linalg.matmul_symmetric(self.cross_covariance(view.jac), transpose(view.jac))
        return known if view.root is None else known + linalg.gram(view.root)

    def innovation(self, view: Affine, obs_cov: Array, observed: Array) -> Cholesky:
        """Factorise the covariance of the residual."""
        return linalg.cholesky(Scaling(observed, observed).both(self.signal(view)) + obs_cov)

    def inflate(self, factor: Array) -> "LazyGaussian":
        """Multiply the covariance by a factor."""
        return self._replace(scale=self.scale * factor)

    def where(self, used: Array, other: Any) -> "LazyGaussian":
        """Keep this belief where it is used; a row beyond the count is as good as none, and costs no choice."""

        def pick(new: Any, old: Any) -> Any:
            return new if new is old else jnp.where(used, new, old)

        return self._replace(
            base=pick(self.base, other.base),
            added=pick(self.added, other.added),
            mean=jnp.where(used, self.mean, other.mean),
            count=jnp.where(used, self.count, other.count),
            scale=jnp.where(used, self.scale, other.scale),
        )

    def replaced(self, dense: Gaussian) -> "LazyGaussian":
        """Put another mean and covariance in its place, with nothing waiting."""
        nothing = {"added": jnp.zeros_like(self.added), "count": jnp.zeros_like(self.count)}
        return self._replace(mean=dense.mean, base=dense.cov, **nothing, scale=jnp.ones_like(self.scale))

    def condition(
        self, view: Affine, residual: Array, obs_cov: Array, update: "WeightedUpdate", form: str = "symmetric"
    ) -> tuple["LazyGaussian", Array]:
        """Put the rows of a measurement to those that wait."""
        step = Step.of(self, view, residual, obs_cov, update.weight, gain=False)
        return self._wait(step.mean, step.half, update.spread), log_density(step.error, step.factor)

    def condition_on_mixture(
        self, view: Affine, residual: Array, obs_cov: Array, update: "MixtureUpdate", form: str = "symmetric"
    ) -> tuple["LazyGaussian", Array]:
        """Condition with a gain that is known already, said as a weight."""
        return self.condition(view, residual, obs_cov, update.as_weight(self.cross_covariance(view.jac)))

    def _wait(self, mean: Array, half: Array, spread: Array | None) -> "LazyGaussian":
        """Add rows: the covariance loses `halfᵀ half`, (M, D), and gains `spread spreadᵀ`, (D, M)."""
        new, signs = half, -jnp.ones_like(half[:, 0])
        if spread is not None:
            new, signs = jnp.concatenate([half, spread.T]), jnp.concatenate([signs, jnp.ones_like(spread[0])])
        assert len(self.rows) % len(new) == 0, "rows that wait are taken in when there is no place for one more"
        # Where an update breaks down its row counts 0 times, not 0 · inf.
        new = jnp.where(jnp.isfinite(new), new, 0.0) / jnp.sqrt(self.scale)
        rows = jax.lax.dynamic_update_slice(self.rows, new, (self.count, jnp.zeros_like(self.count)))
        signs = jax.lax.dynamic_update_slice(self.signs, signs, (self.count,))
        return self._replace(mean=mean, rows=rows, signs=signs, count=self.count + len(new))


def is_faster(size: int, measured: int) -> bool:
    """Say whether a model of this size gains by waiting."""
    return size >= FROM and measured <= linalg.SMALL


def _take_in(belief: LazyGaussian) -> Array:
    base, added = belief.base, belief.added
    extra = added if added.ndim == 0 else added[:, None]
    # A symmetric product is the same from both sides only up to rounding: unless averaged, P and its transpose part.
    change = linalg.symmetrise((belief.signs[:, None] * belief.rows).T @ belief.rows)
    return belief.scale * (base + extra * jnp.eye(len(base), dtype=base.dtype) + change)
