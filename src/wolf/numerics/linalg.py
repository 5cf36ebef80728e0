"""Small positive definite algebra that XLA can fuse.

Every function takes coordinates on the *first* axes; whatever trails is a batch (many series). There are three
ways to compute the same thing, chosen by shape alone:

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
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

SMALL = 8  # up to this size a step is fused; above, LAPACK wins
TERMS = 4 * SMALL**3  # of a product that is still written as broadcast, multiply, sum
UNROLLED = 6  # up to this size entries are unrolled; above, compiling them takes too long
ROWS_UNROLLED = 24  # Gram-Schmidt over more rows than this becomes a loop


def like(a: Any) -> Any:
    """Choose NumPy for its arrays and JAX for all else: outside of our context JAX would cut float64 to float32."""
    return np if isinstance(a, np.ndarray) else jnp


def transpose(a: Array) -> Array:
    """Swap the two coordinate axes, whatever trails."""
    return jnp.swapaxes(a, 0, 1)


def symmetrise(a: Array) -> Array:
    """Average a matrix with its transpose; a small one takes its lower half for both, which is as good and cheaper."""
    if a.shape[0] > SMALL and not _mode.straight_line:
        return 0.5 * (a + transpose(a))
    return jnp.where(_lift(np.tri(a.shape[0], dtype=bool), a.ndim - 2), a, transpose(a))


def eye(size: int, like: Array) -> Array:
    """Make an identity matrix with the dtype of `like` and as many trailing axes."""
    # A constant, not the comparison that jnp.eye is: small programs run without a thread of their own.
    identity = np.eye(size, dtype=like.dtype) if size <= SMALL else jnp.eye(size, dtype=like.dtype)
    return jnp.asarray(_lift(identity, like.ndim - 2))


def diagonal(a: Any) -> Any:
    """Take the diagonal over the two coordinate axes."""
    if isinstance(a, np.ndarray) or a.shape[0] > ROWS_UNROLLED:
        return like(a).moveaxis(like(a).diagonal(a, axis1=0, axis2=1), -1, 0)
    return jnp.stack([a[i, i] for i in range(a.shape[0])])


def outer(x: Array, y: Array) -> Array:
    """Multiply two vectors into a matrix."""
    return x[:, None] * y[None, :]


def total(x: Array) -> Array:
    """Add up over the first axis. A small one is unrolled: a reduction would be a kernel of its own in the loop."""
    return reduce(operator.add, x) if x.shape[0] <= SMALL else x.sum(0)


def largest(x: Array) -> Array:
    """Take the maximum over the first axis, unrolled like `total`."""
    return reduce(jnp.maximum, x) if x.shape[0] <= SMALL else x.max(0)


def every(x: Array) -> Array:
    """Say whether all are true over the first axis, unrolled like `total`."""
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
    return _stack([[_entry(a, b, i, j) for j in range(b.shape[1])] for i in range(a.shape[0])])


def matvec(a: Array, x: Array) -> Array:
    """Multiply a matrix and a vector."""
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
    """Compute `a b + add`, known to be symmetric, and make it exactly so."""
    size = a.shape[0]
    if not _mode.few_operations or a.ndim > 2 or not _in_line(*a.shape, size):
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
def few_operations() -> Iterator[None]:
    """Trace with fewer operations instead of faster ones, with the same bits.

    XLA runs a program of less than 1,000 operations where it is called, and hands a larger one to a thread, which takes
    longer than a small step does. In a loop the gathers that save them would cost more than they save.
    """
    before, _mode.few_operations = _mode.few_operations, True
    try:
        yield
    finally:
        _mode.few_operations = before


@contextmanager
def straight_line() -> Iterator[None]:
    """Trace what will be written as straight-line code: few operations, products as such, no eigenvectors."""
    before, _mode.straight_line = _mode.straight_line, True
    try:
        with few_operations():
            yield
    finally:
        _mode.straight_line = before


class _Mode(threading.local):
    few_operations = False
    straight_line = False


_mode = _Mode()


def downdate(a: Array, rows: Array) -> Array:
    """Subtract `rowsᵀ rows` from a symmetric matrix, and keep it exactly so.

    Few rows are taken off entry by entry: one pass over a large matrix, and both halves round alike.

    Example:
        >>> downdate(jnp.eye(2), jnp.array([[0.5, 0.5]])).tolist()
        [[0.75, -0.25], [-0.25, 0.75]]
    """
    if rows.shape[0] > SMALL:
        return a - gram(transpose(rows))
    for row in rows:
        a = a - outer(row, row)
    return a


class Cholesky:
    """A lower triangular L with `L Lᵀ = a`, and what one does with it.

    Lives inside a trace only. Small factors are kept as separate entries, so that solving with them stays fused.
    """

    def __init__(self, lower: Any, source: Array | None = None):
        self.lower = lower
        self.source = source

    @property
    def entries(self) -> bool:
        """Whether the factor is kept as separate entries."""
        return isinstance(self.lower, list)

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.lower)

    def half(self, b: Array) -> Array:
        """Compute `L⁻¹ b` for a vector or a matrix b."""
        if not self.entries:
            return jax.scipy.linalg.solve_triangular(self.lower, b, lower=True)
        rows: list[Array] = []
        for i in range(self.size):
            rest = b[i]
            for k in range(i):
                rest = rest - self.lower[i][k] * rows[k]
            rows.append(rest / self.lower[i][i])
        return jnp.stack(rows)

    def solve(self, b: Array) -> Array:
        """Compute `a⁻¹ b` for a vector or a matrix b."""
        return self.back(self.half(b))

    def back(self, b: Array) -> Array:
        """Compute `L⁻ᵀ b` for a vector or a matrix b."""
        if not self.entries:
            return jax.scipy.linalg.solve_triangular(self.lower, b, lower=True, trans=1)
        rows: list[Array] = [b[0]] * self.size
        for i in reversed(range(self.size)):
            rest = b[i]
            for k in range(i + 1, self.size):
                rest = rest - self.lower[k][i] * rows[k]
            rows[i] = rest / self.lower[i][i]
        return jnp.stack(rows)

    def diagonal(self) -> Array:
        """Take the diagonal of L."""
        return jnp.stack([self.lower[i][i] for i in range(self.size)])

    def log_det(self) -> Array:
        """Compute `log |a|`."""
        return 2.0 * total(jnp.log(self.diagonal()))

    def product(self) -> Array:
        """Give back `a`: the matrix that was factorised, or L Lᵀ."""
        return gram(self.matrix()) if self.source is None else self.source

    def matrix(self) -> Array:
        """Assemble L as an array."""
        if not self.entries:
            return self.lower
        zero = jnp.zeros_like(self.lower[0][0])
        rows = range(self.size)
        return _stack([[self.lower[i][j] if j <= i else zero for j in rows] for i in rows])


def cholesky(a: Array) -> Cholesky:
    """Factorise a positive definite matrix.

    Example:
        >>> cholesky(jnp.array([[4.0, 0.0], [0.0, 9.0]])).diagonal().tolist()
        [2.0, 3.0]
    """
    size = a.shape[0]
    if a.ndim == 2 and size > SMALL:
        return Cholesky(jnp.linalg.cholesky(a), a)
    lower: list[list[Array]] = [[a[0, 0]] * size for _ in range(size)]
    floor = jnp.finfo(a.dtype).eps
    for j in range(size):
        # The floor acts only where rounding has eaten the pivot, as between two sensors that say the same.
        pivot = a[j, j] if j == 0 else jnp.maximum(a[j, j] - sum(lower[j][k] ** 2 for k in range(j)), floor * a[j, j])
        lower[j][j] = jnp.sqrt(pivot)
        for i in range(j + 1, size):
            lower[i][j] = (a[i, j] - sum(lower[i][k] * lower[j][k] for k in range(j))) / lower[j][j]
    return Cholesky(lower, a)


def from_lower(lower: Array) -> Cholesky:
    """Use a known lower triangular array as a factor."""
    size = lower.shape[0]
    if lower.ndim == 2 and size > SMALL:
        return Cholesky(lower)
    return Cholesky([[lower[i, j] for j in range(size)] for i in range(size)])


def psd_root(a: Array) -> Array:
    """Find a lower triangular root of a positive *semi*-definite matrix: a vanishing pivot gives a zero column."""
    size = a.shape[0]
    if a.ndim == 2 and size > SMALL:
        units = _units(a)
        values, vectors = jnp.linalg.eigh(a / outer(units, units))
        root = vectors * safe_sqrt(jnp.maximum(values, 0.0))[None, :]
        lower = jnp.linalg.qr(root.T, mode="r").T
        signs = jnp.where(jnp.diagonal(lower) < 0, -1.0, 1.0).astype(a.dtype)  # LAPACK leaves them to chance
        return units[:, None] * lower * signs[None, :]
    columns = []
    rest = a
    for j in range(size):
        column, rest = _pivot(rest, a[j, j], j)
        columns.append(column)
    return jnp.stack(columns, axis=1)


def colour(cov: Array, white: Array) -> Array:
    """Give standard normal numbers a covariance (D, D), or variances (D,).

    Args:
        cov: positive semi-definite, or variances of at least 0.
        white: (D,).

    Example:
        >>> colour(jnp.array([4.0, 0.0]), jnp.ones(2)).tolist()
        [2.0, 0.0]
    """
    return safe_sqrt(cov) * white if cov.ndim == 1 else matvec(psd_root(cov), white)


def psd_solve(a: Array, b: Array) -> Array:
    """Solve `a x = b` for a positive semi-definite a and b in its range.

    Where a is singular this is one of its generalised inverses; the products that a smoother forms do not depend
    on which one. A large matrix is decomposed into eigenvectors only where a Cholesky factor has a pivot that may be
    nothing but rounding: that takes several times longer.
    """
    if a.ndim > 2 or a.shape[0] <= (UNROLLED if _mode.straight_line else SMALL):
        return _psd_solve_entries(a, b)
    lower = jax.lax.linalg.cholesky(a, symmetrize_input=not _mode.straight_line)
    pivots = jnp.diagonal(lower) ** 2
    sound = (pivots > jnp.finfo(a.dtype).eps ** 0.75 * jnp.diagonal(a)).all()  # false for NaN, the sign of a failure
    if _mode.straight_line:  # who runs it sees NaN, and runs it by XLA
        return jnp.where(sound, Cholesky(lower).solve(b), jnp.nan)
    return jax.lax.cond(sound, lambda: Cholesky(lower).solve(b), lambda: _solve_by_eigenvectors(a, b))


def _solve_by_eigenvectors(a: Array, b: Array) -> Array:
    units = _units(a)
    values, vectors = jnp.linalg.eigh(a / outer(units, units))
    floor = a.shape[0] * jnp.finfo(a.dtype).eps * values[-1]
    inverse = jnp.where(values > floor, 1.0 / jnp.where(values > floor, values, 1.0), 0.0)
    return vectors @ (inverse[:, None] * (vectors.T @ (b / units[:, None]))) / units[:, None]


def _psd_solve_entries(a: Array, b: Array) -> Array:
    """Solve with separate entries, as `Cholesky` does; a direction without spread has a zero column and no share.

    A pivot is floored, not replaced where it is zero: compiled twice, it may round to zero in one place only.
    """
    size = a.shape[0]
    lower: list[list[Array]] = [[a[0, 0]] * size for _ in range(size)]
    alive: list[Array] = []
    for j in range(size):
        least = size * jnp.finfo(a.dtype).eps * a[j, j]
        pivot = reduce(operator.sub, [lower[j][k] ** 2 for k in range(j)], a[j, j])
        alive.append(pivot > least)
        lower[j][j] = jnp.sqrt(jnp.where(least > 0, jnp.maximum(pivot, least), 1.0))
        for i in range(j + 1, size):
            entry = reduce(operator.sub, [lower[i][k] * lower[j][k] for k in range(j)], a[i, j])
            lower[i][j] = jnp.where(alive[j], entry / lower[j][j], 0.0)
    factor = Cholesky(lower)
    half = factor.half(b)
    return factor.back(jnp.stack([jnp.where(live, row, 0.0) for live, row in zip(alive, half, strict=True)]))


def back_solve_psd(lower: Array, b: Array) -> Array:
    """Compute `L⁻ᵀ b` for a root L from `psd_root`, with nothing in the directions that it lacks."""
    factor, alive = _living(lower)
    return factor.back(b * alive[:, None])


def _living(lower: Array) -> tuple[Cholesky, Array]:
    """Give dead directions a pivot, and say which are alive: with a zero right-hand side their share is zero.

    The pivot is floored, not replaced where it is zero: compiled twice, it may round to zero in one place only.
    """
    size = lower.shape[0]
    rows = safe_sqrt((lower**2).sum(1))
    floor = jnp.where(rows > 0, (size * jnp.finfo(lower.dtype).eps) ** 0.5 * rows, 1.0)
    pivots = jnp.where(eye(size, lower) > 0, jnp.maximum(lower, floor[:, None]), lower)
    return from_lower(pivots), jnp.where(diagonal(lower) > 0, 1.0, 0.0).astype(lower.dtype)


def lq(rows: Array) -> Array:
    """Find the lower triangular X with `X Xᵀ = rows rowsᵀ`, never forming that product.

    Modified Gram-Schmidt in row order. With the measurement rows first it kept 1e-15 where Householder
    reflections lost 1e-4 (prior 1e10 against noise 1e-14): each row is only ever reduced by rows before it.

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
    """Do what `lq` does in a loop: slower, and a small program, for what is rarely run."""

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


def _pivot(rest: Array, original: Array, j: int) -> tuple[Array, Array]:
    size = rest.shape[0]
    pivot = rest[j, j]
    alive = pivot > size * jnp.finfo(rest.dtype).eps * original
    root = jnp.sqrt(jnp.where(alive, pivot, 1.0))
    below = jnp.arange(size) >= j
    below = below.reshape(below.shape + (1,) * (rest.ndim - 2))
    column = jnp.where(alive & below, rest[:, j] / root, 0.0)
    return column, rest - outer(column, column)


def _units(a: Array) -> Array:
    """Take the scale of each coordinate, so that what is small in one unit is not lost beside another."""
    scales = safe_sqrt(diagonal(a))
    return jnp.where(scales > 0, scales, 1.0)


def safe_sqrt(x: Array) -> Array:
    """Take a square root whose gradient at 0 is 0 instead of infinite."""
    return jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0)


def _fusible(*sizes: int) -> bool:
    """Say whether a product is small: at most one long side (the points of a sigma-point rule), few terms."""
    return sum(size > SMALL for size in sizes) <= 1 and math.prod(sizes) <= TERMS


def _in_line(*sizes: int) -> bool:
    """Say whether a product is written out; in straight-line code who writes it decides, knowing the zeros."""
    return _fusible(*sizes) and not _mode.straight_line


def _entry(a: Array, b: Array, i: int, j: int) -> Array:
    # Index straight to the number: a row that two entries share would be written to memory first.
    total = a[i, 0] * b[0, j]
    for k in range(1, a.shape[1]):
        total = total + a[i, k] * b[k, j]
    return total


def _stack(entries: list[list[Array]]) -> Array:
    return jnp.stack([jnp.stack(row) for row in entries])


def _lift(a: Any, axes: int) -> Any:
    return a.reshape(a.shape + (1,) * axes)
