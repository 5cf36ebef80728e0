"""The tracking experiment in the arithmetic that the published runs seem to have had.

The saved runs come from an accelerator on which products of float32 matrices take bfloat16 operands unless told
otherwise. Rounding the operands of the (vmapped, hence matrix) products of the simulator and of the matrix-matrix
products of the filter to bfloat16, and leaving matrix-vector products of the filter in float32, reproduces most of the
saved numbers; which device it was is inferred. What rounding does is what this module is for: it is not a filter to
use.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.experiments.tracking import START, World


def product(a: Any, b: Any) -> Array:
    """Multiply with bfloat16 operands and float32 sums."""
    return jnp.matmul(_short(a), _short(b), precision="highest")


def _short(a: Array) -> Array:
    return a.astype(jnp.bfloat16).astype(jnp.float32)


def system(world: World) -> tuple[np.ndarray, np.ndarray]:
    """Write down F and H."""
    move = np.eye(4, dtype=np.float32)
    move[0, 2] = move[1, 3] = world.dt
    return move, np.eye(2, 4, dtype=np.float32)


def simulate(kind: str, world: World, trials: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw trials with rounded products: states (trials, T, 4) and measurements (trials, T, 2)."""
    keys = jax.random.split(jax.random.key(seed), trials)
    drawn = _simulate(keys, jnp.float32(world.dof), jnp.float32(world.outlier_prob), kind=kind, world=world)
    return np.asarray(drawn[0]), np.asarray(drawn[1])


@partial(jax.jit, static_argnames=("kind", "world"))
def _simulate(keys: Array, dof: Array, prob: Array, *, kind: str, world: World) -> tuple[Array, Array]:
    move, look = system(world)

    def one(key: Array) -> tuple[Array, Array]:
        noise_keys = jax.random.split(key, 4)
        walk = world.dynamics_var**0.5 * jax.random.normal(noise_keys[0], (world.steps, 4))
        noise = world.obs_var**0.5 * jax.random.normal(noise_keys[1], (world.steps, 2))
        wide = 0.5 * dof / jax.random.gamma(noise_keys[2], 0.5 * dof, (world.steps, 1))
        doubled = jax.random.uniform(noise_keys[3], (world.steps, 1)) < prob

        def body(x: Array, step: Array) -> tuple[Array, tuple[Array, Array]]:
            x = product(move, x) + step
            return x, (x, product(look, x))

        _, (states, seen) = jax.lax.scan(body, jnp.asarray(START, jnp.float32), walk)
        if kind == "student":
            return states, seen + jnp.sqrt(wide) * noise
        return states, jnp.where(doubled, world.factor, 1.0) * seen + noise

    return jax.vmap(one)(keys)


def filter_means(ys: np.ndarray, world: World, rule: str, threshold: float) -> np.ndarray:
    """Filter with rounded products; means, (trials, T, 4).

    Args:
        ys: (trials, T, 2).
        world: of the data.
        rule: "KF", "WoLF-IMQ" or "WoLF-TMD".
        threshold: c; of the squared distance for TMD.
    """
    return np.asarray(_filter(jnp.asarray(ys, jnp.float32), jnp.float32(threshold), rule=rule, world=world))


@partial(jax.jit, static_argnames=("rule", "world"))
def _filter(ys: Array, threshold: Array, *, rule: str, world: World) -> Array:
    move, look = system(world)
    noise = world.obs_var * jnp.eye(2, dtype=jnp.float32)

    def body(belief: tuple[Array, Array], y: Array) -> tuple[tuple[Array, Array], Array]:
        mean, cov = belief
        mean = _times(move, mean)
        cov = product(product(move, cov), move.T) + world.dynamics_var * jnp.eye(4, dtype=jnp.float32)
        residual = y - _times(look, mean)
        square = (residual**2).sum()
        # w² divides R for IMQ (1 for the Kalman filter), and keeps or drops the measurement for TMD.
        power = threshold**2 / (threshold**2 + square) if rule == "WoLF-IMQ" else jnp.ones(())
        used = square / world.obs_var <= threshold if rule == "WoLF-TMD" else jnp.ones((), bool)
        cross = product(look, cov)
        innovation = product(cross, look.T) + noise / power
        gain = jnp.linalg.solve(innovation, cross).T
        new_mean = mean + _times(gain, residual)
        new_cov = cov - product(product(gain, innovation), gain.T)
        kept = jnp.where(used, new_mean, mean), jnp.where(used, new_cov, cov)
        return kept, kept[0]

    def one(ys: Array) -> Array:
        start = jnp.asarray(START, jnp.float32), jnp.eye(4, dtype=jnp.float32)
        return jax.lax.scan(body, start, ys)[1]

    return jax.vmap(one)(ys)


def _times(a: Any, x: Array) -> Array:
    """Multiply a matrix and a vector in float32."""
    return (a * x[None, :]).sum(1)
