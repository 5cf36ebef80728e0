"""The inverses of A + s I for many s by one reduction A = Q T Qᵀ to tridiagonal form, instead of eigenvectors.

LAPACK reduces a matrix of 26 rows and forms Q in less than a third of the time that eigenvectors take. With a and b the
diagonals of T, Tᵢᵢ + s = aᵢ + s, the rest is recursions over the rows, for all s at once:

    pᵢ = aᵢ + s - bᵢ rᵢ,  rᵢ = bᵢ / pᵢ₋₁        pivots: log |A + s I| = Σ log p
    yᵢ = cᵢ - rᵢ yᵢ₋₁,  uᵢ = yᵢ / pᵢ - rᵢ₊₁ uᵢ₊₁     c = Qᵀ z, u = (T + s I)⁻¹ c, zᵀ (A + s I)⁻¹ z = Σ y² / p
    Xᵢᵢ = 1 / pᵢ + rᵢ₊₁² Xᵢ₊₁ᵢ₊₁,  Xᵢⱼ = -rᵢ₊₁ Xᵢ₊₁ⱼ    X = (T + s I)⁻¹, above its diagonal

No pivot and no Xᵢᵢ suffers harmful cancellation: p is at least s, and Xᵢᵢ is a sum of positive terms. Each recursion is
a loop that XLA compiles into one kernel.
"""

import operator
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from wolf.numerics import jax_compat
from wolf.numerics.linalg.matmul import library_matmul, sandwich
from wolf.numerics.xla_fusion import one_kernel

MIN_ROWS = 14  # rows from which a step is faster than by eigenvectors
MAX_ROWS = 90  # rows up to which it is faster: at 100 both take as long, at 256 eigenvectors two thirds of the time


class TridiagonalForm(NamedTuple):
    """A + s_k I, k = 1 ... K, as Q (T + s_k I) Qᵀ.

    Attributes:
        turn: Q, (M, M).
        pivots: p, (M, K).
        ratios: r of the row below, (M, K); 0 in the last row.
        halves: y, (M, K).
        turned_pulls: u, (M, K).
    """

    turn: Array
    pivots: Array
    ratios: Array
    halves: Array
    turned_pulls: Array

    def distances(self) -> Array:
        """Compute zᵀ (A + s_k I)⁻¹ z, (K,)."""
        return (self.halves**2 / self.pivots).sum(0)

    def log_dets(self) -> Array:
        """Compute log |A + s_k I|, (K,)."""
        return jnp.log(self.pivots).sum(0)

    def pulls(self) -> Array:
        """Compute (A + s_k I)⁻¹ z, (M, K)."""
        return self.turn @ self.turned_pulls

    def averages(self, first: Array, second: Array) -> tuple[Array, Array]:
        """Compute two weighted sums of the (T + s_k I)⁻¹, in the coordinates of T, (M, M) each."""
        lists = one_kernel(_weighted_sums, self.pivots, self.ratios, first, second)
        one, other = (jnp.triu(rows) + jnp.triu(rows, 1).T for rows in lists)
        return one, other

    def back(self, a: Array) -> Array:
        """Transform a symmetric matrix from the coordinates of T to those of A."""
        return sandwich(self.turn, a)


def is_faster(size: int) -> bool:
    """Return whether matrices of this size are faster by reduction than by eigenvectors."""
    quick = jax_compat.CAN_TAG and jax.default_backend() == "cpu"
    return quick and library_matmul(size) and MIN_ROWS <= size <= MAX_ROWS


def reduce_shifted(a: Array, shifts: Array, b: Array) -> TridiagonalForm:
    """Reduce a positive semi-definite matrix, and solve with multiples of the identity added to it.

    There is no gradient: LAPACK's reduction has none.

    Args:
        a: A, (M, M).
        shifts: s_k, positive, (K,).
        b: z, (M,).

    Example:
        >>> found = reduce_shifted(jnp.eye(3), jnp.array([1.0, 3.0]), jnp.ones(3))
        >>> [round(float(distance), 3) for distance in found.distances()]
        [1.5, 0.75]
    """
    lower, main, beside, factors = jax.lax.linalg.tridiagonal(a, lower=True)
    turn = jax.lax.linalg.householder_product(lower[1:, :-1], factors)
    turn = jnp.pad(turn, ((1, 0), (1, 0))).at[0, 0].set(1.0)
    beside = jnp.concatenate([jnp.zeros_like(beside[:1]), beside])
    return TridiagonalForm(turn, *one_kernel(_solve, main, beside, turn.T @ b, shifts))


def _solve(main: Array, beside: Array, turned: Array, shifts: Array) -> tuple[Array, Array, Array, Array]:
    """Eliminate down the rows, and substitute back up."""

    def down(last: tuple[Array, Array], row: tuple) -> tuple[tuple[Array, Array], tuple[Array, Array, Array]]:
        (pivot, half), (a, b, c) = last, row
        ratio = b / pivot
        # The remainder of T + s I is at least s; rounding must not make it less.
        pivot, half = jnp.maximum(a + shifts - b * ratio, shifts), c - ratio * half
        return (pivot, half), (pivot, ratio, half)

    def up(pull: Array, row: tuple) -> tuple[Array, Array]:
        pivot, ratio, half = row
        pull = half / pivot - ratio * pull
        return pull, pull

    zero = jnp.zeros_like(shifts)
    _, (pivots, ratios, halves) = jax.lax.scan(down, (jnp.ones_like(shifts), zero), (main, beside, turned))
    ratios = jnp.concatenate([ratios[1:], zero[None]])
    _, pulls = jax.lax.scan(up, zero, (pivots, ratios, halves), reverse=True)
    return pivots, ratios, halves, pulls


def _weighted_sums(pivots: Array, ratios: Array, first: Array, second: Array) -> tuple[Array, Array]:
    """Compute the rows of all inverses upwards, and sum them with both weights; below the diagonal is undefined."""
    size, count = pivots.shape
    places = jnp.arange(size)

    def up(last: tuple[Array, Array], row: tuple) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        (entries, corner), (pivot, ratio, place) = last, row
        corner = 1.0 / pivot + ratio**2 * corner
        entries = jnp.where((places == place)[None], corner[:, None], -ratio[:, None] * entries)
        # Term by term: a reduction over an axis would wait for each addition; these use SIMD lanes along the row.
        one, other = (reduce(operator.add, map(operator.mul, weights, entries)) for weights in (first, second))
        return (entries, corner), (one, other)

    nothing = jnp.zeros((count, size), pivots.dtype)
    return jax.lax.scan(up, (nothing, nothing[:, 0]), (pivots, ratios, places), reverse=True)[1]
