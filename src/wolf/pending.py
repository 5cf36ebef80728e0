"""Large covariances that are brought up to date only now and then.

A filter of D parameters that learns one number at a time changes its covariance by one row, `P - rᵀ r`. What that costs
is memory traffic: read P to form the gain, then read and write it to subtract. Here the rows wait: P stays as it is,
the gain is corrected by the few rows that wait, and one matrix product takes them all in when there are enough. Drift
waits as well, as variances to add. The numbers are those of the plain symmetric form, up to rounding.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from wolf import linalg
from wolf.types import Gaussian, PendingGaussian

FROM = 128  # parameters from which it pays; below, the whole covariance is near at hand
WAITING = 32  # measurements that wait; 16 took a few per cent longer at 400 parameters, 8 a third


def pays(size: int, measured: int) -> bool:
    """Say whether a model of this size gains by waiting."""
    return size >= FROM and measured <= linalg.SMALL


def start(belief: Gaussian, noise_cov: Any, measured: int) -> PendingGaussian:
    """Begin with nothing waiting.

    Args:
        belief: mean and covariance.
        noise_cov: drift as the model gives it; its shape is what will be added up.
        measured: M, rows for each measurement.
    """
    cov = belief.cov
    added = jnp.zeros(() if noise_cov is None else noise_cov.shape, cov.dtype)
    rows = jnp.zeros((WAITING * measured, cov.shape[0]), cov.dtype)
    return PendingGaussian(belief.mean, cov, added, rows, jnp.zeros((), jnp.int32))


def restart(belief: PendingGaussian, dense: Gaussian) -> PendingGaussian:
    """Put another mean and covariance in its place, with nothing waiting."""
    nothing = jnp.zeros_like(belief.added), belief.rows, jnp.zeros_like(belief.count)
    return PendingGaussian(dense.mean, dense.cov, *nothing)


def push(belief: PendingGaussian, noise_cov: Any) -> PendingGaussian:
    """Let the parameters drift for one step, and take in what waits if there is no place for more."""
    full = belief.count == len(belief.rows)
    base = jax.lax.cond(full, _take_in, lambda base, added, rows: base, belief.base, belief.added, belief.rows)
    added = jnp.where(full, 0.0, belief.added)
    # Rows that were taken in are left where they are: they count no more, and a copy is saved.
    count = jnp.where(full, 0, belief.count)
    return PendingGaussian(belief.mean, base, added if noise_cov is None else added + noise_cov, belief.rows, count)


def cross(belief: PendingGaussian, jac: Array) -> Array:
    """Multiply `jac P`, (M, D)."""
    extra = belief.added if belief.added.ndim == 0 else belief.added[None]
    seen = jnp.where(belief.waiting[None], jac @ belief.rows.T, 0.0)
    return jac @ belief.base + extra * jac - seen @ belief.rows


def learn(belief: PendingGaussian, mean: Array, half: Array, spread: Array | None) -> PendingGaussian:
    """Put the rows of a measurement to those that wait.

    Args:
        belief: predicted.
        mean: posterior.
        half: (M, D), what the covariance loses is `halfᵀ half`.
        spread: root (D, K) of what the covariance gains.
    """
    half = jnp.where(jnp.isfinite(half), half, 0.0)  # where an update breaks down its row counts 0 times, not 0 · inf
    rows = jax.lax.dynamic_update_slice(belief.rows, half, (belief.count, jnp.zeros_like(belief.count)))
    base = belief.base if spread is None else belief.base + linalg.gram(spread)
    return PendingGaussian(mean, base, belief.added, rows, belief.count + len(half))


def choose(used: Array, new: PendingGaussian, old: PendingGaussian) -> PendingGaussian:
    """Take the new belief if it is used; a row beyond the count is as good as none, and costs no choice."""
    base = new.base if new.base is old.base else jnp.where(used, new.base, old.base)
    added = new.added if new.added is old.added else jnp.where(used, new.added, old.added)
    mean, count = jnp.where(used, new.mean, old.mean), jnp.where(used, new.count, old.count)
    return PendingGaussian(mean, base, added, new.rows, count)


def _take_in(base: Array, added: Array, rows: Array) -> Array:
    extra = added if added.ndim == 0 else added[:, None]
    # A symmetric product is the same from both sides only up to rounding: unless averaged, P and its transpose part.
    lost = linalg.symmetrise(rows.T @ rows)
    return base + extra * jnp.eye(len(base), dtype=base.dtype) - lost
