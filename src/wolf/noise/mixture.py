"""Noise of several possible sizes: the exact mean and covariance of the posterior (Masreliez 1975; West 1981).

With v ~ Σ π_k N(0, s_k R), in coordinates where R = I and the state explains G:

    S_k = G + s_k I,   u_k = S_k⁻¹ z,   γ_k ∝ π_k N(z; 0, S_k)
    mean gains P Hᵀ Σ γ_k u_k;   covariance loses P Hᵀ (Σ γ_k S_k⁻¹) H P and gains P Hᵀ Cov_γ(u) H P

The loss is that of a measurement with noise `(Σ γ_k S_k⁻¹)⁻¹ - G`, hence a pull; the gain is a spread: where it is open
whether a measurement is an outlier, the posterior is wide.
"""

import operator
from collections.abc import Callable
from functools import partial, reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import checks
from wolf.belief import Gaussian, RootGaussian, mixing
from wolf.belief.mixing import Sizes
from wolf.belief.updates import Pull, Roots, Told
from wolf.noise.whitened import Whitened, far_distance, whiten
from wolf.numerics import linalg, tridiagonal
from wolf.numerics.linalg import by_halves, matmul, matvec, total, transpose
from wolf.numerics.pytree import pytree, static
from wolf.numerics.shifted import scattered_pulls, shift
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
        density: γ_k / π_k, (K,), up to a factor; what is beyond all sizes counts as the widest.
    """

    share: Array
    pull: Pull
    density: Array


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
    if isinstance(belief, Gaussian) and tridiagonal.pays(len(white.residual)):
        numbers = _Numbers(white.residual, white.signal, seen.observed, white.whitening())
        return _match_reduced(numbers, jnp.asarray(scales), probabilities, far)
    usual = _match(white, _sizes(white, scales), scales, probabilities, far)
    if not isinstance(belief, RootGaussian) or not mixing.may_lose(len(belief.mean), len(seen.residual)):
        return usual

    def exact() -> Matched:
        bounded, distances, peaks = _rooted(white, mixing.whiten_rows(white.noise.half, seen.view, belief.root), scales)
        sizes = _sizes(bounded, scales)._replace(halves=0.5 * distances, peaks=peaks)
        return _match(bounded, sizes, scales, probabilities, far)

    return jax.lax.cond(mixing.is_wide(white.signal), exact, lambda: usual)


class _Numbers(NamedTuple):
    """What of a measurement in white coordinates can be differentiated; as in `Whitened`."""

    residual: Array
    signal: Array
    observed: Array
    inverse: Array

    def white(self) -> Whitened:
        """Put them back; the factor of R is not asked for, where its inverse is known."""
        return Whitened(self.residual, self.signal, None, total(self.observed), self.observed, self.inverse)


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def _match_reduced(numbers: _Numbers, scales: Array, probabilities: Array, far: bool) -> Matched:
    """Match by a reduction to three diagonals, which has no derivative of its own."""
    white = numbers.white()
    return _match(white, _reduced(white, scales), scales, probabilities, far)


@_match_reduced.defjvp
def _differentiate(far: bool, given: tuple, moved: tuple) -> tuple[Matched, Matched]:
    """Take the same numbers, and their derivatives, from a factor of each S_k.

    Eigenvectors have none where eigenvalues meet, as they do where two coordinates were not measured.
    """

    def plain(numbers: _Numbers, scales: Array, probabilities: Array) -> Matched:
        white = numbers.white()
        found = _match(white, _small(white, scales)._replace(roots=None), scales, probabilities, far)
        kept = total(linalg.diagonal(found.pull.information()) * numbers.observed)
        return found._replace(pull=found.pull._replace(told=Told(found.pull.log_rest(), kept)))

    return jax.jvp(plain, given, moved)  # type: ignore[no-any-return]


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
    shares, density = _weigh(white, sizes, probabilities, far)
    gain, rest, doubt, told = sizes.average(shares)
    rest = rest + shares.lost * linalg.eye(size, white.signal)
    whitening = white.whitening()
    possible = Sizes(jnp.broadcast_to(scales, shares.known.shape).astype(shares.known.dtype), shares.known, shares.lost)
    roots = None if sizes.roots is None else sizes.roots(shares.known, shares.lost)
    return Matched(shares.known, Pull(whitening, gain, rest, doubt, possible, roots, told), density)


def _weigh(white: Whitened, sizes: "_Sizes", probabilities: Array, far: bool) -> tuple["_Shares", Array]:
    """Weigh the sizes, and give the density of each as `Matched` has it."""
    heights, widest = probabilities * sizes.peaks, sizes.halves[-1]
    # The widest size is the nearest, so no exponent is above 0 and they are not all far below it.
    if not far:
        powers = jnp.exp(widest - sizes.halves)
        raw = heights * powers
        each = 1.0 / by_halves(raw)
        return _Shares(raw, each, each * raw, jnp.zeros_like(each)), sizes.peaks * powers
    # Of the widest and the limit one is the nearest, exp(0), and the other the last of the powers. Their sum is the
    # same whichever it is, and does not wait for the choice.
    limit = 0.5 * far_distance(white.num_observed)
    inside = widest <= limit
    nearest, other = jnp.where(inside, widest, limit), jnp.where(inside, limit, widest)
    powers = jnp.exp(nearest - jnp.concatenate([sizes.halves[:-1], other[None]]))
    both, one = heights * powers, heights[-1]
    each = 1.0 / (by_halves(both) + one)
    last, outside = jnp.where(inside, one, both[-1]), jnp.where(inside, both[-1], one)
    raw = jnp.concatenate([both[:-1], last[None]])
    density = jnp.concatenate([sizes.peaks[:-1] * powers[:-1], sizes.peaks[-1:] * (1.0 + powers[-1:])])
    return _Shares(raw, each, each * raw, each * outside), density


class _Shares(NamedTuple):
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


class _Sizes(NamedTuple):
    """What each size would do.

    Attributes:
        halves: ½ zᵀ S_k⁻¹ z, (K,).
        peaks: |S_k|^(-1/2) over what was measured, (K,), up to a factor.
        average: what they do on average, given the shares; what is none of the sizes pulls by 0.
        roots: of the information and of that covariance, given known shares and the rest, where they cost nothing.
    """

    halves: Array
    peaks: Array
    average: Callable[["_Shares"], "_Average"]
    roots: Callable[[Array, Array], Roots] | None = None


class _Average(NamedTuple):
    """What the sizes do on average: Σγ S⁻¹, Σγ s S⁻¹, Cov_γ(S⁻¹ z), (M, M) each, and what is known of them."""

    gain: Array
    rest: Array
    doubt: Array
    told: Told | None = None


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
        return _combine(white, scales, jnp.sqrt(inverse), inverse, [identity])
    adjugate = jnp.stack([jnp.stack([g[1, 1], -g[0, 1]]), jnp.stack([-g[1, 0], g[0, 0]])])
    # |G| is no difference of others where two sensors say the same, and rounding may not make it one.
    determinant = jnp.maximum(g[0, 0] * g[1, 1] - g[0, 1] * g[1, 0], 0.0)
    inverse = 1.0 / (determinant + scales * (g[0, 0] + g[1, 1] + scales))
    # A coordinate that was not measured has no size: its share of the determinant is s.
    peaks = jnp.sqrt(inverse * jnp.where(white.num_observed < 2, scales, 1.0))
    return _combine(white, scales, peaks, inverse, [adjugate, identity])


def _combine(white: Whitened, scales: Array, peaks: Array, inverse: Array, matrices: list[Array]) -> _Sizes:
    """Average S_k⁻¹ = Σ_j s_k^j a_k B_j through the averages of s^j a, one more of which are those of s_k S_k⁻¹."""
    pulls = [matvec(matrix, white.residual) for matrix in matrices]
    squares = [0.5 * jnp.maximum(total(white.residual * pull), 0.0) for pull in pulls]
    powers = [inverse]
    for _ in matrices:
        powers.append(scales * powers[-1])
    halves = reduce(operator.add, (a * square for a, square in zip(powers, squares, strict=False)))

    def average(shares: _Shares) -> _Average:
        # Sums of what is not divided by their whole yet: that division need not be waited for.
        means = [shares.each * by_halves(shares.raw * a) for a in powers]
        gain = reduce(operator.add, (mean * matrix for mean, matrix in zip(means, matrices, strict=False)))
        rest = reduce(operator.add, (mean * matrix for mean, matrix in zip(means[1:], matrices, strict=True)))
        return _Average(gain, rest, scatter(shares, means))

    def scatter(shares: _Shares, means: list[Array]) -> Array:
        around = [a - mean for a, mean in zip(powers, means[: len(pulls)], strict=False)]
        weighted = [shares.known * a for a in around]
        rows = [
            [by_halves(weighted[min(i, j)] * around[max(i, j)]) for j in range(len(pulls))] for i in range(len(pulls))
        ]
        rows = [
            [entry + shares.lost * means[i] * means[j] for j, entry in enumerate(row)] for i, row in enumerate(rows)
        ]
        if len(pulls) == 1:
            return rows[0][0] * linalg.outer(pulls[0], pulls[0])
        return linalg.sandwich(jnp.stack(pulls, axis=1), jnp.stack([jnp.stack(row) for row in rows]))

    return _Sizes(halves, peaks, average)


def _small(white: Whitened, scales: Array) -> _Sizes:
    """Factorise each S_k, entry by entry: no LAPACK, and gradients that hold where eigenvalues meet."""
    found = shift(white.signal, jnp.asarray(scales), white.residual)
    # A coordinate that was not measured has no size, and no share of the determinants.
    spelled = _spelled(scales, found.distances, found.heights(white.observed), found.average, found.scatter)
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

    def means(share: Array) -> tuple[Array, Array]:
        gain, rest = ((weights[None] / shifted).sum(1) for weights in (share, share * scales))
        return gain, rest

    def average(shares: _Shares) -> _Average:
        gain, rest = means(shares.known)
        kept = (gain / (rest + shares.lost)).sum() - _unmeasured(white, scales, shares)
        told = Told(jnp.log(rest + shares.lost).sum(), kept)
        gain, rest = ((vectors * values[None]) @ vectors.T for values in (gain, rest))
        return _Average(gain, rest, scattered_pulls(pulls, shares.known, shares.lost), told)

    def roots(share: Array, lost: Array) -> Roots:
        gain, rest = means(share)
        return Roots(jnp.sqrt(gain / (rest + lost))[:, None] * vectors.T, _scatter_root(pulls, share, lost))

    distances = total(white.residual[:, None] * pulls)
    return _Sizes(0.5 * distances, _peaks(white, scales, jnp.log(shifted).sum(0)), average, roots)


def _reduced(white: Whitened, scales: Array) -> _Sizes:
    """Reduce G to three diagonals for all sizes: quicker than `_large`, where no roots are asked for."""
    found = tridiagonal.reduce_shifted(white.signal, scales, white.residual)
    pulls, identity = found.pulls(), linalg.eye(len(white.residual), white.signal)

    def average(shares: _Shares) -> _Average:
        gain, rest = found.averages(shares.known, shares.known * scales)
        # |C| and the trace of C⁻¹ A are the same in all coordinates; with C = L Lᵀ the trace is that of L⁻¹ A L⁻ᵀ.
        factor = linalg.cholesky(rest + shares.lost * identity)
        inverse = factor.half(identity)
        kept = (matmul(inverse, gain) * inverse).sum() - _unmeasured(white, scales, shares)
        doubt = scattered_pulls(pulls, shares.known, shares.lost)
        return _Average(found.back(gain), found.back(rest), doubt, Told(factor.log_det(), kept))

    return _Sizes(0.5 * found.distances(), _peaks(white, scales, found.log_dets()), average)


def _unmeasured(white: Whitened, scales: Array, shares: _Shares) -> Array:
    """Give the trace of Ω over what was not measured, where G is 0: it says nothing."""
    return (len(white.residual) - white.num_observed) * (shares.known / scales).sum()


def _spelled(scales: Array, distances: Array, peaks: Array, average: Callable, scatter: Callable) -> _Sizes:
    """Work with S_k⁻¹ and S_k⁻¹ z written out, given their average and their scatter."""

    def averages(shares: _Shares) -> _Average:
        known = shares.known
        return _Average(average(known), average(known * scales), scatter(known, shares.lost))

    return _Sizes(0.5 * distances, peaks, averages)


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
