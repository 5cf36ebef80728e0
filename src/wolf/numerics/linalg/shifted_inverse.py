"""The inverses of A + s I for several s at once, as needed by noise that is a scale mixture.

For each shift one Cholesky factor L, X = L⁻¹, and Xᵀ X, with one division per pivot. Native code has kernels for the
three functions below (`wolf.native.kernels.shifted_inverse_loops`): loops over registers that hold the shifts side by
side.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from wolf.numerics.linalg.matmul import SMALL, eye, matmul_symmetric, outer, pairwise_sum, transpose
from wolf.numerics.native_kernel import native_kernel

MAX_FACTORS = 8  # factors of a product that overflows in no precision


class ShiftedInverses(NamedTuple):
    """Solutions with A + s_k I, k = 1 ... K.

    Attributes:
        inverse: (A + s_k I)⁻¹, (M, M, K).
        pulls: (A + s_k I)⁻¹ b, (M, K).
        distances: bᵀ (A + s_k I)⁻¹ b, (K,).
        pivots: one over the diagonal of L_k, (M, K).
    """

    inverse: Array
    pulls: Array
    distances: Array
    pivots: Array

    def heights(self, counted: Array | None = None) -> Array:
        """Compute the roots of |A + s_K I| / |A + s_k I|, (K,), for increasing shifts: none is below 1.

        Args:
            counted: mask of the coordinates of a diagonal block that are included, (M,), 1 or 0; None: all of them.
        """
        ratios = self.pivots * (1.0 / self.pivots[:, -1])[:, None]
        ratios = ratios if counted is None else jnp.where(counted[:, None] > 0, ratios, 1.0)
        parts = [_product(ratios[i : i + MAX_FACTORS]) for i in range(0, len(ratios), MAX_FACTORS)]
        return parts[0] if len(parts) == 1 else jnp.exp(sum(map(jnp.log, parts)))

    def average(self, weights: Array) -> Array:
        """Compute the weighted sum of the inverses, (M, M)."""
        return _average_kernel(self.inverse, weights)

    def scatter(self, weights: Array, zero: Array) -> Array:
        """Compute the covariance of the solutions, weighted by (K,), and of a zero with its own weight, (M, M)."""
        return _scatter_kernel(self.pulls, weights, zero)


def shift(a: Array, shifts: Array, b: Array) -> ShiftedInverses:
    """Invert a positive semi-definite matrix plus multiples of the identity.

    Args:
        a: A, (M, M).
        shifts: s_k, positive, (K,).
        b: right-hand side, (M,).

    Example:
        >>> shift(jnp.eye(1), jnp.array([1.0, 3.0]), jnp.ones(1)).distances.round(3).tolist()
        [0.5, 0.25]
    """
    return ShiftedInverses(*_inverses_kernel(a, shifts, b))


def shifted_inverses(a: Array, shifts: Array, b: Array) -> tuple[Array, Array, Array, Array]:
    """Compute the fields of `ShiftedInverses`."""
    if len(b) > SMALL:
        return _batched_inverses(a, shifts, b)
    size, floor = len(b), jnp.finfo(a.dtype).eps
    lower: list[list[Array]] = [[] for _ in range(size)]
    pivots: list[Array] = []
    half: list[Array] = []
    for i in range(size):
        for j in range(i):
            pairs = [(lower[i][k], lower[j][k]) for k in range(j)]
            lower[i].append(_subtract_products(a[i, j], pairs) * pivots[j])
        whole = a[i, i] + shifts
        # The floor acts only where rounding has consumed the pivot, as between two sensors with equal readings.
        left = jnp.maximum(_subtract_products(whole, [(entry, entry) for entry in lower[i]]), floor * whole)
        pivots.append(1.0 / jnp.sqrt(left))
        half.append(_subtract_products(b[i], list(zip(lower[i], half, strict=True))) * pivots[i])
    pulls = list(half)
    for i in reversed(range(size)):
        pulls[i] = _subtract_products(half[i], [(lower[k][i], pulls[k]) for k in range(i + 1, size)]) * pivots[i]
    distances = _sum_products([(x, x) for x in half])
    inverse = _gram(_inverted(lower, pivots))
    entries = [jnp.stack([inverse[max(i, j)][min(i, j)] for j in range(size)]) for i in range(size)]
    return jnp.stack(entries), jnp.stack(pulls), distances, jnp.stack(pivots)


def weighted_inverses(inverse: Array, weights: Array) -> Array:
    """Sum matrices (M, M, K) with weights (K,)."""
    return pairwise_sum(inverse * weights)  # type: ignore[no-any-return]


def scattered_pulls(pulls: Array, weights: Array, zero: Array) -> Array:
    """Compute Σ γ (u - ū)(u - ū)ᵀ + γ₀ ū ūᵀ with ū = Σ γ u, given the u, (M, K)."""
    mean = pairwise_sum(weights * pulls)
    around = pulls - mean[:, None]
    return matmul_symmetric(weights * around, transpose(around)) + zero * outer(mean, mean)


def _batched_inverses(a: Array, shifts: Array, b: Array) -> tuple[Array, Array, Array, Array]:
    """Compute `shifted_inverses` by LAPACK, for matrices that are too large to unroll."""
    identity = jnp.broadcast_to(eye(len(b), a), (len(shifts), *a.shape))
    lower = jax.lax.linalg.cholesky(a + shifts[:, None, None] * identity)
    turned = jax.lax.linalg.triangular_solve(lower, identity, left_side=True, lower=True)
    half = turned @ b
    pulls = (turned * half[:, :, None]).sum(1)
    inverse = jnp.moveaxis(jnp.swapaxes(turned, 1, 2) @ turned, 0, 2)
    return inverse, pulls.T, (half**2).sum(1), jnp.diagonal(turned, axis1=1, axis2=2).T


def _inverted(lower: list[list[Array]], pivots: list[Array]) -> list[list[Array]]:
    """Invert a lower triangular matrix: X L = I."""
    size = len(pivots)
    found = [[pivots[0]] * size for _ in range(size)]
    for j in reversed(range(size)):
        found[j][j] = pivots[j]
        for i in range(j + 1, size):
            found[i][j] = -(_sum_products([(found[i][k], lower[k][j]) for k in range(j + 1, i + 1)]) * pivots[j])
    return found


def _gram(turned: list[list[Array]]) -> list[list[Array]]:
    """Compute the lower half of Xᵀ X."""
    size = len(turned)
    return [
        [_sum_products([(turned[k][i], turned[k][j]) for k in range(i, size)]) for j in range(i + 1)]
        for i in range(size)
    ]


def _subtract_products(start: Array, pairs: list[tuple[Array, Array]]) -> Array:
    for a, b in pairs:
        start = start - a * b
    return start


def _sum_products(pairs: list[tuple[Array, Array]]) -> Array:
    whole = pairs[0][0] * pairs[0][1]
    for a, b in pairs[1:]:
        whole = whole + a * b
    return whole


def _product(rows: Array) -> Array:
    whole = rows[0]
    for row in rows[1:]:
        whole = whole * row
    return whole


_inverses_kernel = native_kernel("shifted_inverses")(shifted_inverses)
_average_kernel = native_kernel("weighted_inverses")(weighted_inverses)
_scatter_kernel = native_kernel("scattered_pulls")(scattered_pulls)
