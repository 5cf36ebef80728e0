"""What each of several possible sizes of the noise would do, S_k = G + s_k I, and what they do on average.

Four ways to the same: written out for one and two coordinates, a factor of each S_k, eigenvectors of G, and its
reduction to three diagonals. Who calls weighs the sizes (`wolf.inference.noise.scale_mixture`).
"""

import operator
from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from wolf.beliefs.updates import InformationRoots, KnownTerms
from wolf.inference.noise.whitened import Whitened
from wolf.numerics import linalg
from wolf.numerics.linalg import matmul, matvec, pairwise_sum, sum_leading, transpose, tridiagonal
from wolf.numerics.linalg.shifted_inverse import scattered_pulls, shift


class Shares(NamedTuple):
    """How likely each size is.

    Attributes:
        raw: up to a factor, (K,).
        each: that factor, ().
        known: γ_k, (K,).
        lost: how likely it is none of them, ().
    """

    raw: Array
    each: Array
    known: Array
    lost: Array


class EachSize(NamedTuple):
    """What each size would do.

    Attributes:
        halves: ½ zᵀ S_k⁻¹ z, (K,).
        peaks: |S_k|^(-1/2) over what was measured, (K,), up to a factor.
        average: what they do on average, given the shares; what is none of the sizes pulls by 0.
        roots: of the information and of that covariance, given known shares and the rest, where they cost nothing.
    """

    halves: Array
    peaks: Array
    average: Callable[[Shares], "Average"]
    roots: Callable[[Array, Array], InformationRoots] | None = None


class Average(NamedTuple):
    """What the sizes do on average: Σγ S⁻¹, Σγ s S⁻¹, Cov_γ(S⁻¹ z), (M, M) each, and what is known of them."""

    gain: Array
    rest: Array
    doubt: Array
    told: KnownTerms | None = None


def each_size(white: Whitened, scales: Array) -> EachSize:
    """Choose the way by the number of coordinates: these have all that a belief may ask for."""
    size = white.signal.shape[0]
    if size <= 2:
        return closed_form(white, scales)
    return by_eigenvectors(white, scales) if linalg.library_matmul(size) else by_factors(white, scales)


def closed_form(white: Whitened, scales: Array) -> EachSize:
    """Write the inverse of a 1 x 1 or 2 x 2 matrix out: S⁻¹ = 1 / (g + s), or (adj(G) + s I) / |G + s I|."""
    g, identity = white.signal, linalg.eye(white.signal.shape[0], white.signal)
    if len(g) == 1:
        inverse = 1.0 / (g[0, 0] + scales)
        return _combine(white, scales, jnp.sqrt(inverse), inverse, [identity])
    adjugate = jnp.stack([jnp.stack([g[1, 1], -g[0, 1]]), jnp.stack([-g[1, 0], g[0, 0]])])
    # |G| is no difference of others where two sensors say the same, and rounding may not make it one.
    determinant = jnp.maximum(g[0, 0] * g[1, 1] - g[0, 1] * g[1, 0], 0.0)
    inverse = 1.0 / (determinant + scales * (g[0, 0] + g[1, 1] + scales))
    # A coordinate that was not measured has no size: its share of the determinant is s.
    peaks = jnp.sqrt(inverse * jnp.where(white.num_observed < 2, scales, 1.0))
    return _combine(white, scales, peaks, inverse, [adjugate, identity])


def _combine(white: Whitened, scales: Array, peaks: Array, inverse: Array, matrices: list[Array]) -> EachSize:
    """Average S_k⁻¹ = Σ_j s_k^j a_k B_j through the averages of s^j a, one more of which are those of s_k S_k⁻¹."""
    pulls = [matvec(matrix, white.residual) for matrix in matrices]
    squares = [0.5 * jnp.maximum(sum_leading(white.residual * pull), 0.0) for pull in pulls]
    powers = [inverse]
    for _ in matrices:
        powers.append(scales * powers[-1])
    halves = reduce(operator.add, (a * square for a, square in zip(powers, squares, strict=False)))

    def average(shares: Shares) -> Average:
        # Sums of what is not divided by their whole yet: that division need not be waited for.
        means = [shares.each * pairwise_sum(shares.raw * a) for a in powers]
        gain = reduce(operator.add, (mean * matrix for mean, matrix in zip(means, matrices, strict=False)))
        rest = reduce(operator.add, (mean * matrix for mean, matrix in zip(means[1:], matrices, strict=True)))
        return Average(gain, rest, scatter(shares, means))

    def scatter(shares: Shares, means: list[Array]) -> Array:
        around = [a - mean for a, mean in zip(powers, means[: len(pulls)], strict=False)]
        weighted = [shares.known * a for a in around]
        rows = [
            [pairwise_sum(weighted[min(i, j)] * around[max(i, j)]) for j in range(len(pulls))]
            for i in range(len(pulls))
        ]
        rows = [
            [entry + shares.lost * means[i] * means[j] for j, entry in enumerate(row)] for i, row in enumerate(rows)
        ]
        if len(pulls) == 1:
            return rows[0][0] * linalg.outer(pulls[0], pulls[0])
        return linalg.sandwich(jnp.stack(pulls, axis=1), jnp.stack([jnp.stack(row) for row in rows]))

    return EachSize(halves, peaks, average)


def by_factors(white: Whitened, scales: Array) -> EachSize:
    """Factorise each S_k, entry by entry: no LAPACK, and gradients that hold where eigenvalues meet."""
    found = shift(white.signal, jnp.asarray(scales), white.residual)
    # A coordinate that was not measured has no size, and no share of the determinants.
    spelled = _spelled(scales, found.distances, found.heights(white.observed), found.average, found.scatter)
    if len(white.residual) <= linalg.SMALL:
        return spelled

    def roots(share: Array, lost: Array) -> InformationRoots:
        rest = found.average(share * scales) + lost * linalg.eye(len(white.residual), white.signal)
        information = linalg.symmetrise(linalg.cholesky(rest).solve(found.average(share)))
        return InformationRoots(_root_of_some(information), _scatter_root(found.pulls, share, lost))

    return spelled._replace(roots=roots)


def _root_of_some(information: Array) -> Array:
    """Give W with Wᵀ W the information, by a factor that holds where there is none at all."""
    limits = jnp.finfo(information.dtype)
    least = limits.tiny + len(information) * limits.eps * linalg.diagonal(information)
    return transpose(linalg.cholesky(information + least[:, None] * linalg.eye(len(information), information)).matrix())


def by_eigenvectors(white: Whitened, scales: Array) -> EachSize:
    """Take one decomposition G = V Λ Vᵀ for all sizes; in it everything but the covariance of S_k⁻¹ z is diagonal.

    So the information of the mixture, (I - G Σγ S⁻¹)⁻¹ Σγ S⁻¹, has its root without another one.
    """
    values, vectors = jnp.linalg.eigh(white.signal)
    shifted = jnp.maximum(values, 0.0)[:, None] + scales[None]
    pulls = vectors @ ((vectors.T @ white.residual)[:, None] / shifted)

    def means(share: Array) -> tuple[Array, Array]:
        gain, rest = ((weights[None] / shifted).sum(1) for weights in (share, share * scales))
        return gain, rest

    def average(shares: Shares) -> Average:
        gain, rest = means(shares.known)
        kept = (gain / (rest + shares.lost)).sum() - _unmeasured(white, scales, shares)
        told = KnownTerms(jnp.log(rest + shares.lost).sum(), kept)
        gain, rest = ((vectors * values[None]) @ vectors.T for values in (gain, rest))
        return Average(gain, rest, scattered_pulls(pulls, shares.known, shares.lost), told)

    def roots(share: Array, lost: Array) -> InformationRoots:
        gain, rest = means(share)
        return InformationRoots(jnp.sqrt(gain / (rest + lost))[:, None] * vectors.T, _scatter_root(pulls, share, lost))

    distances = sum_leading(white.residual[:, None] * pulls)
    return EachSize(0.5 * distances, peaks_of(white, scales, jnp.log(shifted).sum(0)), average, roots)


def by_reduction(white: Whitened, scales: Array) -> EachSize:
    """Reduce G to three diagonals for all sizes: quicker than `by_eigenvectors`, where no roots are asked for."""
    found = tridiagonal.reduce_shifted(white.signal, scales, white.residual)
    pulls, identity = found.pulls(), linalg.eye(len(white.residual), white.signal)

    def average(shares: Shares) -> Average:
        gain, rest = found.averages(shares.known, shares.known * scales)
        # |C| and the trace of C⁻¹ A are the same in all coordinates; with C = L Lᵀ the trace is that of L⁻¹ A L⁻ᵀ.
        factor = linalg.cholesky(rest + shares.lost * identity)
        inverse = factor.half(identity)
        kept = (matmul(inverse, gain) * inverse).sum() - _unmeasured(white, scales, shares)
        doubt = scattered_pulls(pulls, shares.known, shares.lost)
        return Average(found.back(gain), found.back(rest), doubt, KnownTerms(factor.log_det(), kept))

    return EachSize(0.5 * found.distances(), peaks_of(white, scales, found.log_dets()), average)


def _unmeasured(white: Whitened, scales: Array, shares: Shares) -> Array:
    """Give the trace of Ω over what was not measured, where G is 0: it says nothing."""
    return (len(white.residual) - white.num_observed) * (shares.known / scales).sum()


def _spelled(scales: Array, distances: Array, peaks: Array, average: Callable, scatter: Callable) -> EachSize:
    """Work with S_k⁻¹ and S_k⁻¹ z written out, given their average and their scatter."""

    def averages(shares: Shares) -> Average:
        known = shares.known
        return Average(average(known), average(known * scales), scatter(known, shares.lost))

    return EachSize(0.5 * distances, peaks, averages)


def _scatter_root(pulls: Array, share: Array, zero: Array) -> Array:
    """Give a root of the covariance of the pulls, (M, K + 1), given their shares and that of a zero."""
    pull = (share[None] * pulls).sum(1)[:, None]
    around = linalg.safe_sqrt(share)[None] * (pulls - pull)
    return jnp.concatenate([around, linalg.safe_sqrt(zero) * pull], axis=1)


def peaks_of(white: Whitened, scales: Array, log_dets: Array) -> Array:
    """Turn log |S_k| into heights, beside that of the widest."""
    # A coordinate that was not measured has no size: take its share out of the determinants.
    log_dets = log_dets - (len(white.residual) - white.num_observed) * jnp.log(scales)
    return jnp.exp(-0.5 * (log_dets - log_dets[-1]))
