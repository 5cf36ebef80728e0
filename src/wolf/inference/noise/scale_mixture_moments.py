"""Moments of the components of a scale mixture, S_k = G + s_k I, and their averages.

Four equivalent computations: closed forms for one and two coordinates, a Cholesky factor of each S_k, eigenvectors of
G, and its reduction to tridiagonal form. `wolf.inference.noise.scale_mixture` computes the responsibilities.
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


class Responsibilities(NamedTuple):
    """Responsibilities of the components for a measurement.

    Attributes:
        raw: up to a factor, (K,).
        each: that factor, ().
        inside: γ_k, (K,).
        outside: probability that the measurement belongs to no component, ().
    """

    raw: Array
    each: Array
    inside: Array
    outside: Array


class ComponentMoments(NamedTuple):
    """Moments of the components.

    Attributes:
        half_distances: ½ zᵀ S_k⁻¹ z, (K,).
        normalizations: |S_k|^(-1/2) over the measured coordinates, (K,), up to a factor.
        average: their average, given the responsibilities; outside all components u = 0.
        roots: of the information and of Cov_γ(u), given γ and the probability of no component, where they cost nothing.
    """

    half_distances: Array
    normalizations: Array
    average: Callable[[Responsibilities], "Average"]
    roots: Callable[[Array, Array], InformationRoots] | None = None


class Average(NamedTuple):
    """Averages over the components: Σγ S⁻¹, Σγ s S⁻¹, Cov_γ(S⁻¹ z), (M, M) each, and terms known beside them."""

    gain: Array
    rest: Array
    spread: Array
    known_terms: KnownTerms | None = None


def component_moments(white: Whitened, scales: Array) -> ComponentMoments:
    """Compute the moments in the fastest of the ways that have all terms, by the number of coordinates.

    Args:
        white: the measurement.
        scales: s_k, increasing, (K,).
    """
    size = white.signal.shape[0]
    if size <= 2:
        return closed_form(white, scales)
    return by_eigenvectors(white, scales) if linalg.library_matmul(size) else by_factors(white, scales)


def closed_form(white: Whitened, scales: Array) -> ComponentMoments:
    """Invert 1 x 1 or 2 x 2 matrices in closed form: S⁻¹ = 1 / (g + s), or (adj(G) + s I) / |G + s I|."""
    g, identity = white.signal, linalg.eye(white.signal.shape[0], white.signal)
    if len(g) == 1:
        inverse = 1.0 / (g[0, 0] + scales)
        return _combine(white, scales, jnp.sqrt(inverse), inverse, [identity])
    adjugate = jnp.stack([jnp.stack([g[1, 1], -g[0, 1]]), jnp.stack([-g[1, 0], g[0, 0]])])
    # |G| loses all digits where two sensors measure the same; rounding may not make it negative.
    determinant = jnp.maximum(g[0, 0] * g[1, 1] - g[0, 1] * g[1, 0], 0.0)
    inverse = 1.0 / (determinant + scales * (g[0, 0] + g[1, 1] + scales))
    # A missing coordinate has no noise: its factor s is taken out of the determinant.
    heights = jnp.sqrt(inverse * jnp.where(white.num_observed < 2, scales, 1.0))
    return _combine(white, scales, heights, inverse, [adjugate, identity])


def _combine(white: Whitened, scales: Array, heights: Array, inverse: Array, matrices: list[Array]) -> ComponentMoments:
    """Average S_k⁻¹ = Σ_j s_k^j a_k B_j through the averages of s^j a; those of s_k S_k⁻¹ need one power more."""
    pulls = [matvec(matrix, white.residual) for matrix in matrices]
    squares = [0.5 * jnp.maximum(sum_leading(white.residual * pull), 0.0) for pull in pulls]
    powers = [inverse]
    for _ in matrices:
        powers.append(scales * powers[-1])
    halves = reduce(operator.add, (a * square for a, square in zip(powers, squares, strict=False)))

    def average(shares: Responsibilities) -> Average:
        # Sums before the normalisation, so that they do not wait for its division.
        means = [shares.each * pairwise_sum(shares.raw * a) for a in powers]
        gain = reduce(operator.add, (mean * matrix for mean, matrix in zip(means, matrices, strict=False)))
        rest = reduce(operator.add, (mean * matrix for mean, matrix in zip(means[1:], matrices, strict=True)))
        return Average(gain, rest, scatter(shares, means))

    def scatter(shares: Responsibilities, means: list[Array]) -> Array:
        around = [a - mean for a, mean in zip(powers, means[: len(pulls)], strict=False)]
        weighted = [shares.inside * a for a in around]
        rows = [
            [pairwise_sum(weighted[min(i, j)] * around[max(i, j)]) for j in range(len(pulls))]
            for i in range(len(pulls))
        ]
        rows = [
            [entry + shares.outside * means[i] * means[j] for j, entry in enumerate(row)] for i, row in enumerate(rows)
        ]
        if len(pulls) == 1:
            return rows[0][0] * linalg.outer(pulls[0], pulls[0])
        return linalg.sandwich(jnp.stack(pulls, axis=1), jnp.stack([jnp.stack(row) for row in rows]))

    return ComponentMoments(halves, heights, average)


def by_factors(white: Whitened, scales: Array) -> ComponentMoments:
    """Factorise each S_k, entry by entry: no LAPACK, and gradients that exist at equal eigenvalues."""
    found = shift(white.signal, jnp.asarray(scales), white.residual)
    # A missing coordinate has no noise, and no factor in the determinants.
    moments = _from_inverses(scales, found.distances, found.heights(white.observed), found.average, found.scatter)
    if len(white.residual) <= linalg.SMALL:
        return moments

    def roots(share: Array, outside: Array) -> InformationRoots:
        rest = found.average(share * scales) + outside * linalg.eye(len(white.residual), white.signal)
        information = linalg.symmetrise(linalg.cholesky(rest).solve(found.average(share)))
        return InformationRoots(_information_root(information), _scatter_root(found.pulls, share, outside))

    return moments._replace(roots=roots)


def _information_root(information: Array) -> Array:
    """Compute W with Wᵀ W the information, by a factor that exists for zero information."""
    limits = jnp.finfo(information.dtype)
    least = limits.tiny + len(information) * limits.eps * linalg.diagonal(information)
    return transpose(linalg.cholesky(information + least[:, None] * linalg.eye(len(information), information)).matrix())


def by_eigenvectors(white: Whitened, scales: Array) -> ComponentMoments:
    """Decompose G = V Λ Vᵀ once for all components; in this basis only the covariance of S_k⁻¹ z is not diagonal.

    The root of the information of the mixture, (I - G Σγ S⁻¹)⁻¹ Σγ S⁻¹, then needs no further decomposition.
    """
    values, vectors = jnp.linalg.eigh(white.signal)
    shifted = jnp.maximum(values, 0.0)[:, None] + scales[None]
    pulls = vectors @ ((vectors.T @ white.residual)[:, None] / shifted)

    def means(share: Array) -> tuple[Array, Array]:
        gain, rest = ((weights[None] / shifted).sum(1) for weights in (share, share * scales))
        return gain, rest

    def average(shares: Responsibilities) -> Average:
        gain, rest = means(shares.inside)
        kept = (gain / (rest + shares.outside)).sum() - _unmeasured(white, scales, shares)
        known_terms = KnownTerms(jnp.log(rest + shares.outside).sum(), kept)
        gain, rest = ((vectors * values[None]) @ vectors.T for values in (gain, rest))
        return Average(gain, rest, scattered_pulls(pulls, shares.inside, shares.outside), known_terms)

    def roots(share: Array, outside: Array) -> InformationRoots:
        gain, rest = means(share)
        return InformationRoots(
            jnp.sqrt(gain / (rest + outside))[:, None] * vectors.T, _scatter_root(pulls, share, outside)
        )

    distances = sum_leading(white.residual[:, None] * pulls)
    return ComponentMoments(0.5 * distances, normalizations(white, scales, jnp.log(shifted).sum(0)), average, roots)


def by_reduction(white: Whitened, scales: Array) -> ComponentMoments:
    """Reduce G to tridiagonal form once for all components: faster than `by_eigenvectors` where no roots are needed."""
    found = tridiagonal.reduce_shifted(white.signal, scales, white.residual)
    pulls, identity = found.pulls(), linalg.eye(len(white.residual), white.signal)

    def average(shares: Responsibilities) -> Average:
        gain, rest = found.averages(shares.inside, shares.inside * scales)
        # |C| and the trace of C⁻¹ A are the same in all coordinates; with C = L Lᵀ the trace is that of L⁻¹ A L⁻ᵀ.
        factor = linalg.cholesky(rest + shares.outside * identity)
        inverse = factor.half(identity)
        kept = (matmul(inverse, gain) * inverse).sum() - _unmeasured(white, scales, shares)
        spread = scattered_pulls(pulls, shares.inside, shares.outside)
        return Average(found.back(gain), found.back(rest), spread, KnownTerms(factor.log_det(), kept))

    return ComponentMoments(0.5 * found.distances(), normalizations(white, scales, found.log_dets()), average)


def _unmeasured(white: Whitened, scales: Array, shares: Responsibilities) -> Array:
    """Compute the trace of Ω over the missing coordinates, where G is 0: they carry no information."""
    return (len(white.residual) - white.num_observed) * (shares.inside / scales).sum()


def _from_inverses(
    scales: Array, distances: Array, heights: Array, average: Callable, scatter: Callable
) -> ComponentMoments:
    """Build the moments from the average of S_k⁻¹ and the scatter of S_k⁻¹ z."""

    def averages(shares: Responsibilities) -> Average:
        known = shares.inside
        return Average(average(known), average(known * scales), scatter(known, shares.outside))

    return ComponentMoments(0.5 * distances, heights, averages)


def _scatter_root(pulls: Array, share: Array, zero: Array) -> Array:
    """Compute a root of the covariance of the vectors u_k, (M, K + 1), given their probabilities and that of u = 0."""
    pull = (share[None] * pulls).sum(1)[:, None]
    around = linalg.safe_sqrt(share)[None] * (pulls - pull)
    return jnp.concatenate([around, linalg.safe_sqrt(zero) * pull], axis=1)


def normalizations(white: Whitened, scales: Array, log_dets: Array) -> Array:
    """Compute |S_k|^(-1/2) relative to that of the widest component.

    Args:
        white: the measurement.
        scales: s_k, increasing, (K,).
        log_dets: log |S_k|, (K,).
    """
    # A missing coordinate has no noise: take its factor out of the determinants.
    log_dets = log_dets - (len(white.residual) - white.num_observed) * jnp.log(scales)
    return jnp.exp(-0.5 * (log_dets - log_dets[-1]))
