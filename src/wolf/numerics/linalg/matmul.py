"""Products of small matrices that XLA can fuse.

Every function takes coordinates on the *first* axes; trailing axes are a batch (many series). Three implementations
compute the same result, chosen by shape alone:

- one series, small sizes: broadcast, multiply, sum. A single `dot` or LAPACK call in a small scan body breaks the
  fusion of the step and costs 3-5x;
- many series (a trailing axis): entries unrolled in Python, so that each entry is one long vector operation;
- large sizes: `dot` and LAPACK.
"""

import math
import operator
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from types import ModuleType
from typing import TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array

ArrayT = TypeVar("ArrayT", np.ndarray, Array)

SMALL = 8  # up to this size a step is fused; above it LAPACK is faster
TERMS = 4 * SMALL**3  # terms of a product up to which it is written as broadcast, multiply, sum
UNROLLED = 6  # up to this size entries are unrolled; above it they take too long to compile
REGISTER = 4  # numbers that a SIMD instruction adds
ROWS_UNROLLED = 24  # rows above which Gram-Schmidt is a loop


def library_matmul(size: int) -> bool:
    """Return whether matrices of this size are multiplied by `dot` and LAPACK, which XLA does not deduplicate."""
    return size > SMALL and not mode.scalar_code


def array_namespace(a: object) -> ModuleType:
    """Choose NumPy for NumPy arrays, else jax.numpy: outside our context JAX cuts float64 to float32."""
    return np if isinstance(a, np.ndarray | np.generic) else jnp


def transpose(a: Array) -> Array:
    """Swap the two coordinate axes; trailing axes stay."""
    return jnp.swapaxes(a, 0, 1)


def symmetrise(a: Array) -> Array:
    """Average a matrix with its transpose; a small one uses its lower half for both, which is equivalent and faster."""
    if a.shape[0] > SMALL and not mode.scalar_code:
        return 0.5 * (a + transpose(a))
    return jnp.where(_lift(np.tri(a.shape[0], dtype=bool), a.ndim - 2), a, transpose(a))


def eye(size: int, like: Array) -> Array:
    """Create an identity matrix with the dtype of `like` and as many trailing axes."""
    # A constant, not a comparison as in jnp.eye: small programs run on the calling thread.
    identity = np.eye(size, dtype=like.dtype) if size <= SMALL else jnp.eye(size, dtype=like.dtype)
    return jnp.asarray(_lift(identity, like.ndim - 2))


def diagonal(a: ArrayT) -> ArrayT:
    """Extract the diagonal of the two coordinate axes."""
    if isinstance(a, np.ndarray) or a.shape[0] > (ROWS_UNROLLED if mode.scalar_code else SMALL):
        return array_namespace(a).moveaxis(array_namespace(a).diagonal(a, axis1=0, axis2=1), -1, 0)
    return jnp.stack([a[i, i] for i in range(a.shape[0])])


def outer(x: Array, y: Array) -> Array:
    """Compute the outer product of two vectors."""
    return x[:, None] * y[None, :]


def sum_leading(x: Array) -> Array:
    """Sum over the first axis. A short axis is unrolled: a reduction would be a separate kernel in the loop."""
    return reduce(operator.add, x) if x.shape[0] <= SMALL else x.sum(0)


def pairwise_sum(x: ArrayT) -> ArrayT:
    """Sum over the last axis by halves: a sequential sum would wait for each addition, and use one SIMD lane.

    Twelve terms are added as three registers of four: halves of six and three fill none.

    Example:
        >>> float(pairwise_sum(jnp.arange(13.0)))
        78.0
    """
    while (size := x.shape[-1]) > 3:
        if size == 3 * REGISTER:
            x = x[..., :REGISTER] + x[..., REGISTER : 2 * REGISTER] + x[..., 2 * REGISTER :]
            continue
        half, odd = size // 2, x[..., 2 * (size // 2) :]
        x = x[..., :half] + x[..., half : 2 * half]
        x = array_namespace(x).concatenate([x, odd], -1) if odd.shape[-1] else x
    return reduce(operator.add, (x[..., i] for i in range(x.shape[-1])))


def max_leading(x: Array) -> Array:
    """Compute the maximum over the first axis, unrolled like `sum_leading`."""
    return reduce(jnp.maximum, x) if x.shape[0] <= SMALL else x.max(0)


def all_leading(x: Array) -> Array:
    """Return whether all entries along the first axis are true, unrolled like `sum_leading`."""
    return reduce(jnp.logical_and, x) if x.shape[0] <= SMALL else x.all(0)


def matmul(a: Array, b: Array) -> Array:
    """Multiply two matrices.

    Example:
        >>> matmul(jnp.eye(2), jnp.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
        [[1.0, 2.0], [3.0, 4.0]]
    """
    if a.ndim == b.ndim == 2:
        return (a[:, :, None] * b[None, :, :]).sum(1) if _in_line(*a.shape, b.shape[1]) else a @ b
    if max(*a.shape[:2], *b.shape[:2]) > UNROLLED:
        return reduce(operator.add, [a[:, k, None] * b[None, k, :] for k in range(a.shape[1])])
    return stack([[_entry(a, b, i, j) for j in range(b.shape[1])] for i in range(a.shape[0])])


def matvec(a: Array, x: Array) -> Array:
    """Multiply a matrix by a vector."""
    if a.ndim == 2 and x.ndim == 1:
        return (a * x[None, :]).sum(1) if _fusible(*a.shape, 1) else a @ x
    return matmul(a, x[:, None])[:, 0]


def gram(a: Array) -> Array:
    """Multiply a matrix by its own transpose."""
    return matmul_symmetric(a, transpose(a))


def sandwich(a: Array, p: Array) -> Array:
    """Compute `a p aᵀ` for a symmetric p."""
    return matmul_symmetric(matmul(a, p), transpose(a))


def matmul_symmetric(a: Array, b: Array, add: Array | None = None) -> Array:
    """Compute `a b + add` for a symmetric result, and make it exactly symmetric."""
    size = a.shape[0]
    if not mode.few_operations or a.ndim > 2 or not _in_line(*a.shape, size):
        product = matmul(a, b)
        return symmetrise(product if add is None else product + add)
    rows, columns = np.tril_indices(size)
    half = (a[rows] * transpose(b[:, columns])).sum(1)
    if add is not None:
        half = half + add[rows, columns]
    where = np.zeros((size, size), int)
    where[rows, columns] = where[columns, rows] = np.arange(len(rows))
    return half[where]


@contextmanager
def few_operations_mode() -> Iterator[None]:
    """Trace with fewer operations instead of faster ones, with the same bits.

    XLA runs a program of less than 1,000 operations on the calling thread, and a larger one on another thread, which
    takes longer than a small step. In a loop the gathers that save operations would cost more than they save.
    """
    before, mode.few_operations = mode.few_operations, True
    try:
        yield
    finally:
        mode.few_operations = before


@contextmanager
def scalar_code_mode() -> Iterator[None]:
    """Trace a program for straight-line code: few operations, products as such, no eigenvectors."""
    before, mode.scalar_code = mode.scalar_code, True
    try:
        with few_operations_mode():
            yield
    finally:
        mode.scalar_code = before


class _Mode(threading.local):
    few_operations = False
    scalar_code = False


mode = _Mode()


def downdate(a: Array, rows: Array) -> Array:
    """Subtract `rowsᵀ rows` from a symmetric matrix, and keep it exactly symmetric.

    Few rows are subtracted one by one: one pass over a large matrix, and both halves round alike. In straight-line code
    a product is a loop.

    Example:
        >>> downdate(jnp.eye(2), jnp.array([[0.5, 0.5]])).tolist()
        [[0.75, -0.25], [-0.25, 0.75]]
    """
    if rows.shape[0] > SMALL or (mode.scalar_code and rows.shape[0] > 1):
        return a - gram(transpose(rows))
    for row in rows:
        a = a - outer(row, row)
    return a


def safe_sqrt(x: Array) -> Array:
    """Compute a square root whose gradient at 0 is 0 instead of infinite."""
    return jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0)


def _fusible(*sizes: int) -> bool:
    """Return whether a product is small: at most one long side (the points of a sigma-point rule), few terms."""
    return sum(size > SMALL for size in sizes) <= 1 and math.prod(sizes) <= TERMS


def _in_line(*sizes: int) -> bool:
    """Return whether a product is traced entry by entry; in scalar code the translator decides, knowing the zeros."""
    return _fusible(*sizes) and not mode.scalar_code


def _entry(a: Array, b: Array, i: int, j: int) -> Array:
    # Index to the scalar directly: a row shared by two entries would be written to memory first.
    total = a[i, 0] * b[0, j]
    for k in range(1, a.shape[1]):
        total = total + a[i, k] * b[k, j]
    return total


def stack(entries: list[list[Array]]) -> Array:
    """Assemble a matrix from separate entries."""
    return jnp.stack([jnp.stack(row) for row in entries])


def _lift(a: np.ndarray | Array, axes: int) -> np.ndarray | Array:
    return a.reshape(a.shape + (1,) * axes)
