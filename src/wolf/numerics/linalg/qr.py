"""LQ factorisation, used by square-root filters; sizes as in `matmul`."""

import jax
import jax.numpy as jnp
from jax import Array

from wolf.numerics.linalg.matmul import ROWS_UNROLLED, safe_sqrt, transpose


def lq(rows: Array) -> Array:
    """Compute the lower triangular X with `X Xᵀ = rows rowsᵀ`, without forming that product.

    Modified Gram-Schmidt in row order. With the measurement rows first it kept 1e-15 where Householder reflections lost
    1e-4 (prior 1e10 against noise 1e-14): each row is only reduced by rows before it.

    Args:
        rows: shape (n, k), n <= k after padding.
    """
    size = rows.shape[0]
    if size > ROWS_UNROLLED:
        return lq_loop(rows)
    columns = []
    for i in range(size):
        column, rows = _orthogonalise(rows, i)
        columns.append(column)
    return jnp.stack(columns, axis=1)


def lq_loop(rows: Array) -> Array:
    """Compute `lq` in a loop: slower, but a small program, for code that rarely runs."""

    def body(rows: Array, i: Array) -> tuple[Array, Array]:
        column, rows = _orthogonalise(rows, i)
        return rows, column

    _, columns = jax.lax.scan(body, rows, jnp.arange(rows.shape[0]))
    return transpose(columns)


def _orthogonalise(rows: Array, i: int | Array) -> tuple[Array, Array]:
    row = rows[i]
    scale = jnp.abs(row).max(0)  # scale first: squares of 1e-160 vanish, squares of 1e160 overflow
    safe = jax.lax.stop_gradient(jnp.where(scale > 0, scale, 1.0))
    length = safe * safe_sqrt(((row / safe) ** 2).sum(0))
    direction = row / jnp.where(length > 0, length, 1.0)
    later = jnp.arange(rows.shape[0]) > i
    later = later.reshape(later.shape + (1,) * (rows.ndim - 2))
    column = jnp.where(later, (rows * direction[None]).sum(1), 0.0)
    rows = rows - column[:, None] * direction[None]
    here = (jnp.arange(rows.shape[0]) == i).reshape(later.shape)
    return jnp.where(here, length, column), rows
