"""Large covariances that are brought up to date only now and then.

A filter of D parameters that learns one number at a time changes its covariance by one row, `P - rᵀ r`. What that costs
is memory traffic: read P to form the gain, then read and write it to subtract. Here the rows wait: P stays as it is,
the gain is corrected by the few rows that wait, and one matrix product takes them all in when there are enough. Drift
waits as well, as variances to add, a doubtful measurement as a row that is added, and inflation as a factor. The
numbers are those of the plain symmetric form, up to rounding.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from wolf.belief.kinds import DeferredGaussian, Gaussian
from wolf.numerics import linalg

FROM = 128  # parameters from which it pays; below, the whole covariance is near at hand
WAITING = 32  # measurements that wait; 16 took a few per cent longer at 400 parameters, 8 a third


def pays(size: int, measured: int) -> bool:
    """Say whether a model of this size gains by waiting."""
    return size >= FROM and measured <= linalg.SMALL


def start(belief: Gaussian, noise_cov: Any, measured: int) -> DeferredGaussian:
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
    return DeferredGaussian(belief.mean, cov, added, rows, -jnp.ones_like(rows[:, 0]), jnp.zeros((), jnp.int32), one)


def restart(belief: DeferredGaussian, dense: Gaussian) -> DeferredGaussian:
    """Put another mean and covariance in its place, with nothing waiting."""
    nothing = {"added": jnp.zeros_like(belief.added), "count": jnp.zeros_like(belief.count)}
    return belief._replace(mean=dense.mean, base=dense.cov, **nothing, scale=jnp.ones_like(belief.scale))


def push(belief: DeferredGaussian, noise_cov: Any) -> DeferredGaussian:
    """Let the parameters drift for one step, and take in what waits if there is no place for more."""
    full = belief.count == len(belief.rows)
    base = jax.lax.cond(full, _take_in, lambda belief: belief.base, belief)
    added, scale = jnp.where(full, 0.0, belief.added), jnp.where(full, 1.0, belief.scale)
    # Rows that were taken in are left where they are: they count no more, and a copy is saved.
    count = jnp.where(full, 0, belief.count)
    added = added if noise_cov is None else added + noise_cov / scale
    return belief._replace(base=base, added=added, count=count, scale=scale)


def inflate(belief: DeferredGaussian, factor: Array) -> DeferredGaussian:
    """Multiply the covariance by a factor."""
    return belief._replace(scale=belief.scale * factor)


def cross(belief: DeferredGaussian, jac: Array) -> Array:
    """Multiply `jac P`, (M, D)."""
    extra = belief.added if belief.added.ndim == 0 else belief.added[None]
    seen = belief.waiting[None] * (jac @ belief.rows.T)
    return belief.scale * (jac @ belief.base + extra * jac + seen @ belief.rows)


def learn(belief: DeferredGaussian, mean: Array, half: Array, spread: Array | None) -> DeferredGaussian:
    """Put the rows of a measurement to those that wait.

    Args:
        belief: predicted.
        mean: posterior.
        half: (M, D), what the covariance loses is `halfᵀ half`.
        spread: root (D, M) of what the covariance gains.
    """
    new, signs = half, -jnp.ones_like(half[:, 0])
    if spread is not None:
        new, signs = jnp.concatenate([half, spread.T]), jnp.concatenate([signs, jnp.ones_like(spread[0])])
    assert len(belief.rows) % len(new) == 0, "rows that wait are taken in when there is no place for one more"
    # Where an update breaks down its row counts 0 times, not 0 · inf.
    new = jnp.where(jnp.isfinite(new), new, 0.0) / jnp.sqrt(belief.scale)
    rows = jax.lax.dynamic_update_slice(belief.rows, new, (belief.count, jnp.zeros_like(belief.count)))
    told = jax.lax.dynamic_update_slice(belief.signs, signs, (belief.count,))
    return belief._replace(mean=mean, rows=rows, signs=told, count=belief.count + len(new))


def choose(used: Array, new: DeferredGaussian, old: DeferredGaussian) -> DeferredGaussian:
    """Take the new belief if it is used; a row beyond the count is as good as none, and costs no choice."""
    kept = {name: getattr(new, name) for name in ("base", "added")}
    for name, value in kept.items():
        if value is not getattr(old, name):
            kept[name] = jnp.where(used, value, getattr(old, name))
    kept |= {name: jnp.where(used, getattr(new, name), getattr(old, name)) for name in ("mean", "count", "scale")}
    return new._replace(**kept)


def _take_in(belief: DeferredGaussian) -> Array:
    base, added = belief.base, belief.added
    extra = added if added.ndim == 0 else added[:, None]
    # A symmetric product is the same from both sides only up to rounding: unless averaged, P and its transpose part.
    change = linalg.symmetrise((belief.signs[:, None] * belief.rows).T @ belief.rows)
    return belief.scale * (base + extra * jnp.eye(len(base), dtype=base.dtype) + change)
