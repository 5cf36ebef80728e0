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

from wolf_paper.tracking import START, World

UNWEIGHTED = 1e8  # c of an IMQ that believes everything


def product(a: Any, b: Any) -> Array:
    """Multiply with bfloat16 operands and float32 sums, as that accelerator does unless asked otherwise."""
    return jnp.matmul(shortened(a), shortened(b), precision="highest")


def shortened(a: Array) -> Array:
    """Round to bfloat16, in float32."""
    return a.astype(jnp.bfloat16).astype(jnp.float32)


def system(world: World) -> tuple[np.ndarray, np.ndarray]:
    """Write down F and H."""
    move = np.eye(4, dtype=np.float32)
    move[0, 2] = move[1, 3] = world.dt
    return move, np.eye(2, 4, dtype=np.float32)


def simulate(kind: str, world: World, trials: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw trials with rounded products: states (trials, T, 4) and measurements (trials, T, 2)."""
    keys = jax.random.split(jax.random.key(seed), trials)
    drawn = _simulate(keys, jnp.asarray(kind == "student"), world=world)
    return np.asarray(drawn[0]), np.asarray(drawn[1])


@partial(jax.jit, static_argnames=("world",))
def _simulate(keys: Array, student: Array, *, world: World) -> tuple[Array, Array]:
    move, look = system(world)

    def one(key: Array) -> tuple[Array, Array]:
        walk_key, noise_key, scale_key, event_key = jax.random.split(key, 4)
        walk = world.dynamics_var**0.5 * jax.random.normal(walk_key, (world.steps, 4))
        noise = world.obs_var**0.5 * jax.random.normal(noise_key, (world.steps, 2))
        scale = 0.5 * world.dof / jax.random.gamma(scale_key, 0.5 * world.dof, (world.steps, 1))
        outlier = jax.random.uniform(event_key, (world.steps, 1)) < world.outlier_prob

        def body(x: Array, step: Array) -> tuple[Array, tuple[Array, Array]]:
            x = product(move, x) + step
            return x, (x, product(look, x))

        _, (states, seen) = jax.lax.scan(body, jnp.asarray(START, jnp.float32), walk)
        heavy, doubled = seen + jnp.sqrt(scale) * noise, jnp.where(outlier, world.factor, 1.0) * seen + noise
        return states, jnp.where(student, heavy, doubled)

    return jax.vmap(one)(keys)


def filter_means(ys: np.ndarray, world: World, *, soft: float = UNWEIGHTED, gate: float = np.inf) -> np.ndarray:
    """Filter with rounded products; means, (trials, T, 4).

    Args:
        ys: (trials, T, 2).
        world: of the data.
        soft: c of IMQ. The Kalman filter of the published runs was IMQ with a c of 1e8.
        gate: largest squared distance that TMD believes.
    """
    return np.asarray(_filter(jnp.asarray(ys, jnp.float32), jnp.float32(soft), jnp.float32(gate), world=world))


@partial(jax.jit, static_argnames=("world",))
def _filter(ys: Array, soft: Array, gate: Array, *, world: World) -> Array:
    move, look = system(world)
    noise = world.obs_var * jnp.eye(2, dtype=jnp.float32)

    def body(belief: tuple[Array, Array], y: Array) -> tuple[tuple[Array, Array], Array]:
        mean, cov = belief
        mean = _times(move, mean)
        cov = product(product(move, cov), move.T) + world.dynamics_var * jnp.eye(4, dtype=jnp.float32)
        residual = y - _times(look, mean)
        square = (residual**2).sum()
        power = soft**2 / (soft**2 + square)  # w², which divides R
        cross = product(look, cov)
        innovation = product(cross, look.T) + noise / power
        gain = jnp.linalg.solve(innovation, cross).T
        learned = mean + _times(gain, residual), cov - product(product(gain, innovation), gain.T)
        used = square / world.obs_var <= gate
        kept = jnp.where(used, learned[0], mean), jnp.where(used, learned[1], cov)
        return kept, kept[0]

    def one(ys: Array) -> Array:
        start = jnp.asarray(START, jnp.float32), jnp.eye(4, dtype=jnp.float32)
        return jax.lax.scan(body, start, ys)[1]

    return jax.vmap(one)(ys)


def _times(a: Any, x: Array) -> Array:
    """Multiply a matrix and a vector in float32."""
    return (a * x[None, :]).sum(1)
