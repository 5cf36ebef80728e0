"""Noise of several possible sizes: the exact mean and covariance of the posterior (Masreliez 1975; West 1981).

With v ~ Σ π_k N(0, s_k R), in coordinates where R = I and the state explains G:

    S_k = G + s_k I,   u_k = S_k⁻¹ z,   γ_k ∝ π_k N(z; 0, S_k)
    mean gains P Hᵀ Σ γ_k u_k;   covariance loses P Hᵀ (Σ γ_k S_k⁻¹) H P and gains P Hᵀ Cov_γ(u) H P

The loss is that of a measurement with noise `(Σ γ_k S_k⁻¹)⁻¹ - G`, hence a pull; the gain is a spread: where it is open
whether a measurement is an outlier, the posterior is wide.
"""

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import checks
from wolf.belief import RootGaussian, mixing
from wolf.belief.mixing import Sizes
from wolf.belief.updates import Pull, Roots
from wolf.noise.whitened import Whitened, far_distance, whiten
from wolf.numerics import linalg
from wolf.numerics.linalg import by_halves, matvec, total, transpose
from wolf.numerics.pytree import pytree, static
from wolf.numerics.shifted import shift
from wolf.protocols import Believed, Evidence, NoiseRule

TEMPERED = 1e9  # variance of a residual over R that is as good as infinite beside the widest size
NODES = 15  # of a continuous law of scales, spaced evenly in the logarithm


@pytree
class ScaleMixture(NoiseRule):
    """Let the noise be one of several multiples of R, each with its probability.

    Args:
        scales: s_k, increasing, (K,).
        probabilities: π_k, (K,).
        far: whether a measurement beyond all scales is left out. Without it a finite mixture follows an outlier in the
            end: influence is bounded only with it.
    """

    scales: Any = (1.0, 100.0)
    probabilities: Any = (0.95, 0.05)
    far: bool = static(default=True)

    def __post_init__(self) -> None:
        """Check and hold NumPy arrays."""
        scales, probabilities = (np.asarray(value, np.float64) for value in (self.scales, self.probabilities))
        if scales.ndim != 1 or scales.shape != probabilities.shape:
            raise ValueError(
                f"scales and probabilities must be two lists of one length; got {scales.shape}, {probabilities.shape}"
            )
        checks.positive("scales", scales)
        checks.positive("probabilities", probabilities)
        if np.any(np.diff(scales) <= 0):
            raise ValueError(f"scales must increase; got {scales}")
        object.__setattr__(self, "scales", scales)
        object.__setattr__(self, "probabilities", probabilities / probabilities.sum())

    @classmethod
    def student(cls, dof: float, nodes: int = NODES) -> "ScaleMixture":
        """Write Student-t noise as a mixture: s = 1/λ, λ ~ Gamma(ν/2, ν/2), on evenly spaced log-scales.

        Nodes of equal probability would have no far tail, which is where outliers are.

        Args:
            dof: degrees of freedom ν.
            nodes: number of scales.

        Example:
            >>> ScaleMixture.student(dof=4.0).scales.shape
            (15,)
        """
        from scipy.special import gammaincc, gammainccinv

        checks.positive("dof", dof)
        half = 0.5 * dof
        low, high = (half / gammainccinv(half, p) for p in (1e-4, 1.0 - 1e-6))
        edges = np.geomspace(low, high, nodes + 1)
        # P(s <= edge) = P(λ >= 1/edge)
        below = gammaincc(half, half / edges)
        below[0], below[-1] = 0.0, 1.0
        return cls(np.sqrt(edges[1:] * edges[:-1]), np.diff(below))

    @property
    def mixes(self) -> bool:
        """True: over its scales."""
        return True

    def __call__(self, seen: Evidence) -> Believed:
        """Match the moments."""
        return Believed(match(seen, self.scales, self.probabilities, self.far).pull)


class Matched(NamedTuple):
    """The moments of a mixture of sizes, in white coordinates.

    Attributes:
        share: γ_k, (K,): how likely each size is; with `far` they add up to less than 1.
        pull: Σ γ_k S_k⁻¹, what it leaves, and Cov_γ(u).
        density: γ_k / π_k, (K,).
        beyond: what is beyond all sizes, over the probability of the widest.
    """

    share: Array
    pull: Pull
    density: Array
    beyond: Array


def match(seen: Evidence, scales: Array, probabilities: Array, far: bool) -> Matched:
    """Weigh the sizes by how well they explain the residual, and average what each of them would do.

    Args:
        seen: the measurement.
        scales: s_k, increasing, (K,).
        probabilities: π_k, (K,), up to a factor.
        far: whether a measurement may belong to none of them: an improper density, which equals the widest of the
            sizes at its 99 % distance, in whatever units y is.
    """
    white, belief = whiten(seen), seen.belief
    usual = _match(white, _sizes(white, scales), scales, probabilities, far)
    if not isinstance(belief, RootGaussian) or not mixing.may_lose(len(belief.mean), len(seen.residual)):
        return usual

    def exact() -> Matched:
        bounded, distances, peaks = _rooted(white, mixing.whiten_rows(white.noise.half, seen.view, belief.root), scales)
        sizes = _sizes(bounded, scales)._replace(distances=distances, peaks=peaks)
        return _match(bounded, sizes, scales, probabilities, far)

    return jax.lax.cond(mixing.is_wide(white.signal), exact, lambda: usual)


def _rooted(white: Whitened, design: Array, scales: Array) -> tuple[Whitened, Array, Array]:
    """Take distances and peaks from roots; a bounded G is enough for the rest."""
    factor = mixing.factors(design, scales)
    halves = factor.half(jnp.broadcast_to(white.residual[:, None], (len(design), len(scales))))
    return white._replace(signal=_tempered(design)), (halves**2).sum(0), _peaks(white, scales, factor.log_det())


def _tempered(design: Array) -> Array:
    """Bound G by `TEMPERED`, as (G⁻¹ + 1/bound)⁻¹: beyond the widest size all is one to the gain of a measurement."""
    inner = linalg.eye(design.shape[1], design)
    scaled = jnp.concatenate([inner, transpose(design) / TEMPERED**0.5], axis=1)
    return linalg.gram(transpose(linalg.from_lower(linalg.lq_loop(scaled)).half(transpose(design))))


def _match(white: Whitened, sizes: "_Sizes", scales: Array, probabilities: Array, far: bool) -> Matched:
    size = white.signal.shape[0]
    # The widest size is the nearest, so no exponent is above 0 and they are not all far below it.
    limit = far_distance(white.num_observed)
    nearest = jnp.minimum(sizes.distances[-1], limit) if far else sizes.distances[-1]
    density = sizes.peaks * jnp.exp(-0.5 * (sizes.distances - nearest))
    beyond = sizes.peaks[-1] * jnp.exp(-0.5 * (limit - nearest)) if far else jnp.zeros_like(nearest)
    whole = by_halves(probabilities * density) + probabilities[-1] * beyond
    density, beyond = (1.0 / whole) * density, beyond / whole
    known, lost = probabilities * density, probabilities[-1] * beyond
    # I - G Σγ S⁻¹, written as a sum of positive terms
    rest = sizes.average(known * scales) + lost * linalg.eye(size, white.signal)
    whitening = white.whitening()
    possible = Sizes(jnp.broadcast_to(scales, known.shape).astype(known.dtype), known, lost)
    roots = None if sizes.roots is None else sizes.roots(known, lost)
    gain, doubt = sizes.average(known), sizes.scatter(known, lost)
    return Matched(known, Pull(whitening, gain, rest, doubt, possible, roots), density, beyond)


class _Sizes(NamedTuple):
    """What each size would do.

    Attributes:
        distances: zᵀ S_k⁻¹ z, (K,).
        peaks: |S_k|^(-1/2) over what was measured, (K,), up to a factor.
        average: of S_k⁻¹ with given shares, (M, M).
        scatter: covariance of S_k⁻¹ z, given the shares and that of a zero, (M, M).
        roots: of the information and of that covariance, given the same, where they cost nothing.
    """

    distances: Array
    peaks: Array
    average: Callable[[Array], Array]
    scatter: Callable[[Array, Array], Array]
    roots: Callable[[Array, Array], Roots] | None = None


def _sizes(white: Whitened, scales: Array) -> _Sizes:
    size = white.signal.shape[0]
    if size <= 2:
        return _closed(white, scales)
    return _large(white, scales) if size > linalg.SMALL and not linalg.mode.straight_line else _small(white, scales)


def _closed(white: Whitened, scales: Array) -> _Sizes:
    """Write the inverse of a 1 x 1 or 2 x 2 matrix out: S⁻¹ = 1 / (g + s), or (adj(G) + s I) / |G + s I|."""
    g, identity = white.signal, linalg.eye(white.signal.shape[0], white.signal)
    if len(g) == 1:
        inverse = 1.0 / (g[0, 0] + scales)
        return _combine(white, jnp.sqrt(inverse), [(inverse, identity)])
    adjugate = jnp.stack([jnp.stack([g[1, 1], -g[0, 1]]), jnp.stack([-g[1, 0], g[0, 0]])])
    # |G| is no difference of others where two sensors say the same, and rounding may not make it one.
    determinant = jnp.maximum(g[0, 0] * g[1, 1] - g[0, 1] * g[1, 0], 0.0)
    inverse = 1.0 / (determinant + scales * (g[0, 0] + g[1, 1] + scales))
    # A coordinate that was not measured has no size: its share of the determinant is s.
    peaks = jnp.sqrt(inverse * jnp.where(white.num_observed < 2, scales, 1.0))
    return _combine(white, peaks, [(inverse, adjugate), (scales * inverse, identity)])


def _combine(white: Whitened, peaks: Array, terms: list[tuple[Array, Array]]) -> _Sizes:
    """Average S_k⁻¹ = Σ_j a_jk B_j through the averages of its few coefficients."""
    pulls = [matvec(matrix, white.residual) for _, matrix in terms]
    squares = (jnp.maximum(total(white.residual * pull), 0.0) for pull in pulls)
    distances = reduce(operator.add, (a * square for (a, _), square in zip(terms, squares, strict=True)))

    def average(share: Array) -> Array:
        return reduce(operator.add, (by_halves(share * a) * matrix for a, matrix in terms))

    def scatter(share: Array, zero: Array) -> Array:
        means = [by_halves(share * a) for a, _ in terms]
        around = [a - mean for (a, _), mean in zip(terms, means, strict=True)]
        if len(terms) == 1:
            (a,), (m,), (pull,) = around, means, pulls
            return (by_halves(share * a * a) + zero * m * m) * linalg.outer(pull, pull)
        (a, b), (m, n) = around, means
        first, second = share * a, share * b
        aa, ab, bb = by_halves(first * a), by_halves(first * b), by_halves(second * b)
        rows = [[aa + zero * m * m, ab + zero * m * n], [ab + zero * m * n, bb + zero * n * n]]
        return linalg.sandwich(jnp.stack(pulls, axis=1), jnp.stack([jnp.stack(row) for row in rows]))

    return _Sizes(distances, peaks, average, scatter)


def _small(white: Whitened, scales: Array) -> _Sizes:
    """Factorise each S_k, entry by entry: no LAPACK, and gradients that hold where eigenvalues meet."""
    found = shift(white.signal, jnp.asarray(scales), white.residual)
    # A coordinate that was not measured has no size, and no share of the determinants.
    spelled = _spelled(found.pulls, found.distances, found.heights(white.observed), found.average)
    if len(white.residual) <= linalg.SMALL:
        return spelled

    def roots(share: Array, lost: Array) -> Roots:
        rest = found.average(share * scales) + lost * linalg.eye(len(white.residual), white.signal)
        information = linalg.symmetrise(linalg.cholesky(rest).solve(found.average(share)))
        return Roots(_root_of_some(information), _scatter_root(found.pulls, share, lost))

    return spelled._replace(roots=roots)


def _root_of_some(information: Array) -> Array:
    """Give W with Wᵀ W the information, by a factor that holds where there is none at all."""
    limits = jnp.finfo(information.dtype)
    least = limits.tiny + len(information) * limits.eps * linalg.diagonal(information)
    return transpose(linalg.cholesky(information + least[:, None] * linalg.eye(len(information), information)).matrix())


def _large(white: Whitened, scales: Array) -> _Sizes:
    """Take one decomposition G = V Λ Vᵀ for all sizes; in it everything but the covariance of S_k⁻¹ z is diagonal.

    So the information of the mixture, (I - G Σγ S⁻¹)⁻¹ Σγ S⁻¹, has its root without another one.
    """
    values, vectors = jnp.linalg.eigh(white.signal)
    shifted = jnp.maximum(values, 0.0)[:, None] + scales[None]
    pulls = vectors @ ((vectors.T @ white.residual)[:, None] / shifted)

    def average(share: Array) -> Array:
        return (vectors * (share[None] / shifted).sum(1)[None]) @ vectors.T

    def roots(share: Array, lost: Array) -> Roots:
        gain, rest = ((shares[None] / shifted).sum(1) for shares in (share, share * scales))
        return Roots(jnp.sqrt(gain / (rest + lost))[:, None] * vectors.T, _scatter_root(pulls, share, lost))

    distances = total(white.residual[:, None] * pulls)
    peaks = _peaks(white, scales, jnp.log(shifted).sum(0))
    spelled = _spelled(pulls, distances, peaks, average)
    return spelled._replace(roots=roots)


def _spelled(pulls: Array, distances: Array, peaks: Array, average: Callable) -> _Sizes:
    """Work with S_k⁻¹ z, (M, K), written out."""

    def scatter(share: Array, zero: Array) -> Array:
        pull = by_halves(share[None] * pulls)
        around = linalg.safe_sqrt(share)[None] * (pulls - pull[:, None])
        return linalg.gram(around) + zero * linalg.outer(pull, pull)

    return _Sizes(distances, peaks, average, scatter)


def _scatter_root(pulls: Array, share: Array, zero: Array) -> Array:
    """Give a root of the covariance of the pulls, (M, K + 1), given their shares and that of a zero."""
    pull = (share[None] * pulls).sum(1)[:, None]
    around = linalg.safe_sqrt(share)[None] * (pulls - pull)
    return jnp.concatenate([around, linalg.safe_sqrt(zero) * pull], axis=1)


def _peaks(white: Whitened, scales: Array, log_dets: Array) -> Array:
    """Turn log |S_k| into heights, beside that of the widest."""
    # A coordinate that was not measured has no size: take its share out of the determinants.
    log_dets = log_dets - (len(white.residual) - white.num_observed) * jnp.log(scales)
    return jnp.exp(-0.5 * (log_dets - log_dets[-1]))
