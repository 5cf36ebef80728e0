"""Cholesky factors, square roots and solutions of positive (semi-)definite matrices; sizes as in `matmul`."""

import operator
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from wolf.numerics.linalg.matmul import (
    SMALL,
    UNROLLED,
    diagonal,
    eye,
    gram,
    matvec,
    mode,
    outer,
    safe_sqrt,
    stack,
    sum_leading,
)

MIN_OPERATIONS_FOR_LOOP = 400  # twice the number of multiplications above which a solution may be a loop


class Cholesky:
    """A lower triangular L with `L Lᵀ = a`, and solutions, determinant and product by it.

    It exists inside a trace only. Small factors are kept as separate entries, so that solving with them stays fused.
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
        if not self.entries or self._is_loop_candidate(b):
            return _solve_triangular(self.matrix(), b, transposed=False)
        rows: list[Array] = []
        for i in range(self.size):
            rest = b[i]
            for k in range(i):
                rest = rest - self.lower[i][k] * rows[k]
            rows.append(rest / self.lower[i][i])
        return jnp.stack(rows)

    def square(self, b: Array, scale: Array | float = 1.0) -> Array:
        """Compute `scale * bᵀ a⁻¹ b` for a vector, for small matrices by L D Lᵀ: no square root delays it."""
        if not self.entries or self.source is None:
            return sum_leading(self.half(b) ** 2) * scale
        a, size, floor = self.source, self.size, jnp.finfo(b.dtype).eps
        unit: list[list[Array]] = [[] for _ in range(size)]  # below the diagonal
        scaled: list[list[Array]] = [[] for _ in range(size)]  # the same times D
        rests: list[Array] = []
        total: Array | float = 0.0
        for j in range(size):
            used = sum(u * v for u, v in zip(unit[j], scaled[j], strict=True))
            pivot = a[0, 0] if j == 0 else jnp.maximum(a[j, j] - used, floor * a[j, j])
            inverse = 1.0 / pivot
            for i in range(j + 1, size):
                scaled[i].append(a[i, j] - sum(u * v for u, v in zip(scaled[i], unit[j], strict=True)))
                unit[i].append(scaled[i][j] * inverse)
            rests.append(b[j] - sum(u * rest for u, rest in zip(unit[j], rests, strict=True)))
            total = total + rests[j] ** 2 * (inverse * scale)
        return jnp.asarray(total)

    def _is_loop_candidate(self, b: Array) -> bool:
        """Return whether straight-line code is given the solution as a triangular solve, which may be a loop."""
        return (
            mode.scalar_code
            and b.ndim == 2
            and self.size**2 * b.shape[1] >= MIN_OPERATIONS_FOR_LOOP
            and self.lower[0][0].ndim == 0
        )

    def solve(self, b: Array) -> Array:
        """Compute `a⁻¹ b` for a vector or a matrix b."""
        return self.back(self.half(b))

    def back(self, b: Array) -> Array:
        """Compute `L⁻ᵀ b` for a vector or a matrix b."""
        if not self.entries or self._is_loop_candidate(b):
            return _solve_triangular(self.matrix(), b, transposed=True)
        rows: list[Array] = [b[0]] * self.size
        for i in reversed(range(self.size)):
            rest = b[i]
            for k in range(i + 1, self.size):
                rest = rest - self.lower[k][i] * rows[k]
            rows[i] = rest / self.lower[i][i]
        return jnp.stack(rows)

    def diagonal(self) -> Array:
        """Extract the diagonal of L."""
        return jnp.stack([self.lower[i][i] for i in range(self.size)]) if self.entries else diagonal(self.lower)

    def log_det(self) -> Array:
        """Compute `log |a|`."""
        return 2.0 * sum_leading(jnp.log(self.diagonal()))

    def product(self) -> Array:
        """Return `a`: the matrix that was factorised, or L Lᵀ."""
        return gram(self.matrix()) if self.source is None else self.source

    def matrix(self) -> Array:
        """Assemble L as an array."""
        if not self.entries:
            return self.lower
        zero = jnp.zeros_like(self.lower[0][0])
        rows = range(self.size)
        return stack([[self.lower[i][j] if j <= i else zero for j in rows] for i in rows])


def _solve_triangular(lower: Array, b: Array, transposed: bool) -> Array:
    """Compute `L⁻¹ b`, or `L⁻ᵀ b` if `transposed`.

    LAPACK stores matrices by columns, XLA by rows: a matrix b is solved from the right as its transpose, which has the
    memory layout of b, so that nothing is copied.
    """
    if mode.scalar_code or b.ndim == 1:
        return jax.scipy.linalg.solve_triangular(lower, b, lower=True, trans=int(transposed))
    solved = jax.lax.linalg.triangular_solve(lower, b.T, left_side=False, lower=True, transpose_a=not transposed)
    return solved.T  # type: ignore[no-any-return]


def cholesky(a: Array) -> Cholesky:
    """Compute the Cholesky factor of a positive definite matrix.

    Example:
        >>> cholesky(jnp.array([[4.0, 0.0], [0.0, 9.0]])).diagonal().tolist()
        [2.0, 3.0]
    """
    size = a.shape[0]
    if a.ndim == 2 and size > SMALL:
        return Cholesky(jax.lax.linalg.cholesky(a, symmetrize_input=False), a)
    lower: list[list[Array]] = [[a[0, 0]] * size for _ in range(size)]
    floor = jnp.finfo(a.dtype).eps
    for j in range(size):
        # The floor acts only where rounding has consumed the pivot, as between two sensors with equal readings.
        pivot = a[j, j] if j == 0 else jnp.maximum(a[j, j] - sum(lower[j][k] ** 2 for k in range(j)), floor * a[j, j])
        lower[j][j] = jnp.sqrt(pivot)
        for i in range(j + 1, size):
            lower[i][j] = (a[i, j] - sum(lower[i][k] * lower[j][k] for k in range(j))) / lower[j][j]
    return Cholesky(lower, a)


def from_lower(lower: Array) -> Cholesky:
    """Wrap a known lower triangular array as a factor."""
    size = lower.shape[0]
    if lower.ndim == 2 and size > SMALL:
        return Cholesky(lower)
    return Cholesky([[lower[i, j] for j in range(size)] for i in range(size)])


def psd_root(a: Array) -> Array:
    """Compute a lower triangular root of a positive *semi*-definite matrix: a vanishing pivot gives a zero column."""
    size = a.shape[0]
    if a.ndim == 2 and size > SMALL:
        units = _coordinate_scales(a)
        values, vectors = jnp.linalg.eigh(a / outer(units, units))
        root = vectors * safe_sqrt(jnp.maximum(values, 0.0))[None, :]
        lower = jnp.linalg.qr(root.T, mode="r").T
        signs = jnp.where(jnp.diagonal(lower) < 0, -1.0, 1.0).astype(a.dtype)  # the signs of LAPACK are arbitrary
        return units[:, None] * lower * signs[None, :]
    columns = []
    rest = a
    for j in range(size):
        column, rest = _pivot(rest, a[j, j], j)
        columns.append(column)
    return jnp.stack(columns, axis=1)


def apply_cov_root(cov: Array, white: Array) -> Array:
    """Multiply white noise by a root of a covariance (D, D), or by standard deviations for variances (D,).

    Args:
        cov: positive semi-definite, or variances of at least 0.
        white: standard normal numbers, (D,).

    Example:
        >>> apply_cov_root(jnp.array([4.0, 0.0]), jnp.ones(2)).tolist()
        [2.0, 0.0]
    """
    return safe_sqrt(cov) * white if cov.ndim == 1 else matvec(psd_root(cov), white)


def psd_solve(a: Array, b: Array) -> Array:
    """Solve `a x = b` for a positive semi-definite a and b in its range.

    For a singular a the result is that of one of its generalised inverses; the products that a smoother forms do not
    depend on which one. A large matrix is decomposed into eigenvectors only where a pivot of its Cholesky factor may be
    rounding error: that takes several times longer.
    """
    if a.ndim > 2 or a.shape[0] <= (UNROLLED if mode.scalar_code else SMALL):
        return _psd_solve_entries(a, b)
    lower = jax.lax.linalg.cholesky(a, symmetrize_input=not mode.scalar_code)
    pivots = jnp.diagonal(lower) ** 2
    # A failed factorisation is NaN, for which the comparison is false.
    sound = (pivots > jnp.finfo(a.dtype).eps ** 0.75 * jnp.diagonal(a)).all()
    if mode.scalar_code:  # the caller detects NaN and falls back to XLA
        return jnp.where(sound, Cholesky(lower).solve(b), jnp.nan)
    return jax.lax.cond(sound, lambda: Cholesky(lower).solve(b), lambda: _solve_by_eigenvectors(a, b))


def _solve_by_eigenvectors(a: Array, b: Array) -> Array:
    units = _coordinate_scales(a)
    values, vectors = jnp.linalg.eigh(a / outer(units, units))
    floor = a.shape[0] * jnp.finfo(a.dtype).eps * values[-1]
    inverse = jnp.where(values > floor, 1.0 / jnp.where(values > floor, values, 1.0), 0.0)
    return vectors @ (inverse[:, None] * (vectors.T @ (b / units[:, None]))) / units[:, None]


def _psd_solve_entries(a: Array, b: Array) -> Array:
    """Solve with separate entries, as `Cholesky` does; a direction without variance has a zero column and no share.

    A pivot is floored, not replaced where it is zero: compiled twice, it may round to zero in one program only.
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
    """Compute `L⁻ᵀ b` for a root L from `psd_root`, with zeros in the directions without variance."""
    factor, alive = _with_nonzero_pivots(lower)
    return factor.back(b * alive[:, None])


def _with_nonzero_pivots(lower: Array) -> tuple[Cholesky, Array]:
    """Floor the pivots of directions without variance, and return a mask of the other directions.

    With a zero right-hand side the share of such a direction is zero. The pivot is floored, not replaced where it is
    zero: compiled twice, it may round to zero in one program only.
    """
    size = lower.shape[0]
    rows = safe_sqrt((lower**2).sum(1))
    floor = jnp.where(rows > 0, (size * jnp.finfo(lower.dtype).eps) ** 0.5 * rows, 1.0)
    pivots = jnp.where(eye(size, lower) > 0, jnp.maximum(lower, floor[:, None]), lower)
    return from_lower(pivots), jnp.where(diagonal(lower) > 0, 1.0, 0.0).astype(lower.dtype)


def _pivot(rest: Array, original: Array, j: int) -> tuple[Array, Array]:
    size = rest.shape[0]
    pivot = rest[j, j]
    alive = pivot > size * jnp.finfo(rest.dtype).eps * original
    root = jnp.sqrt(jnp.where(alive, pivot, 1.0))
    below = jnp.arange(size) >= j
    below = below.reshape(below.shape + (1,) * (rest.ndim - 2))
    column = jnp.where(alive & below, rest[:, j] / root, 0.0)
    return column, rest - outer(column, column)


def _coordinate_scales(a: Array) -> Array:
    """Compute the scale of each coordinate, so that a coordinate in small units is not lost beside another."""
    scales = safe_sqrt(diagonal(a))
    return jnp.where(scales > 0, scales, 1.0)
