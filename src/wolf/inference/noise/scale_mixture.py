"""Noise of several possible sizes: the exact mean and covariance of the posterior (Masreliez 1975; West 1981).

With v ~ Σ π_k N(0, s_k R), in coordinates where R = I and the state explains G:

    S_k = G + s_k I,   u_k = S_k⁻¹ z,   γ_k ∝ π_k N(z; 0, S_k)
    mean gains P Hᵀ Σ γ_k u_k;   covariance loses P Hᵀ (Σ γ_k S_k⁻¹) H P and gains P Hᵀ Cov_γ(u) H P

The loss is that of a measurement with noise `(Σ γ_k S_k⁻¹)⁻¹ - G`, hence a pull; the gain is a spread: where it is open
whether a measurement is an outlier, the posterior is wide.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import validation
from wolf.beliefs import Gaussian, SqrtGaussian, mixture_sqrt_update
from wolf.beliefs.mixture_sqrt_update import MixtureComponents
from wolf.beliefs.updates import KnownTerms, MixtureUpdate
from wolf.inference.noise.scale_mixture_moments import EachSize, Shares, by_factors, by_reduction, each_size, peaks_of
from wolf.inference.noise.whitened import Whitened, far_distance, whiten
from wolf.interfaces import NoiseModel, UpdateContext, UpdateDecision
from wolf.numerics import linalg
from wolf.numerics.linalg import pairwise_sum, sum_leading, transpose, tridiagonal
from wolf.numerics.pytree import pytree, static

TEMPERED = 1e9  # variance of a residual over R that is as good as infinite beside the widest size
NODES = 15  # of a continuous law of scales, spaced evenly in the logarithm


@pytree
class ScaleMixture(NoiseModel):
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
        validation.positive("scales", scales)
        validation.positive("probabilities", probabilities)
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

        validation.positive("dof", dof)
        half = 0.5 * dof
        low, high = (half / gammainccinv(half, p) for p in (1e-4, 1.0 - 1e-6))
        edges = np.geomspace(low, high, nodes + 1)
        # P(s <= edge) = P(λ >= 1/edge)
        below = gammaincc(half, half / edges)
        below[0], below[-1] = 0.0, 1.0
        return cls(np.sqrt(edges[1:] * edges[:-1]), np.diff(below))

    @property
    def is_mixture(self) -> bool:
        """True: over its scales."""
        return True

    def __call__(self, seen: UpdateContext) -> UpdateDecision:
        """Match the moments."""
        return UpdateDecision(match(seen, self.scales, self.probabilities, self.far).pull)


class Matched(NamedTuple):
    """The moments of a mixture of sizes, in white coordinates.

    Attributes:
        share: γ_k, (K,): how likely each size is; with `far` they add up to less than 1.
        pull: Σ γ_k S_k⁻¹, what it leaves, and Cov_γ(u).
        density: γ_k / π_k, (K,), up to a factor; what is beyond all sizes counts as the widest.
    """

    share: Array
    pull: MixtureUpdate
    density: Array


def match(seen: UpdateContext, scales: Array, probabilities: Array, far: bool) -> Matched:
    """Weigh the sizes by how well they explain the residual, and average what each of them would do.

    Args:
        seen: the measurement.
        scales: s_k, increasing, (K,).
        probabilities: π_k, (K,), up to a factor.
        far: whether a measurement may belong to none of them: an improper density, which equals the widest of the
            sizes at its 99 % distance, in whatever units y is.
    """
    white, belief = whiten(seen), seen.belief
    if isinstance(belief, Gaussian) and tridiagonal.is_faster(len(white.residual)):
        numbers = _Numbers(white.residual, white.signal, seen.observed, white.whitening())
        return _match_reduced(numbers, jnp.asarray(scales), probabilities, far)
    usual = _match(white, each_size(white, scales), scales, probabilities, far)
    if not isinstance(belief, SqrtGaussian) or not mixture_sqrt_update.can_lose_precision(
        len(belief.mean), len(seen.residual)
    ):
        return usual

    def exact() -> Matched:
        bounded, distances, peaks = _rooted(
            white, mixture_sqrt_update.whiten_rows(white.noise.half, seen.view, belief.root), scales
        )
        sizes = each_size(bounded, scales)._replace(halves=0.5 * distances, peaks=peaks)
        return _match(bounded, sizes, scales, probabilities, far)

    return jax.lax.cond(mixture_sqrt_update.is_wide(white.signal), exact, lambda: usual)


class _Numbers(NamedTuple):
    """What of a measurement in white coordinates can be differentiated; as in `Whitened`."""

    residual: Array
    signal: Array
    observed: Array
    inverse: Array

    def white(self) -> Whitened:
        """Put them back; the factor of R is not asked for, where its inverse is known."""
        return Whitened(self.residual, self.signal, None, sum_leading(self.observed), self.observed, self.inverse)


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def _match_reduced(numbers: _Numbers, scales: Array, probabilities: Array, far: bool) -> Matched:
    """Match by a reduction to three diagonals, which has no derivative of its own."""
    white = numbers.white()
    return _match(white, by_reduction(white, scales), scales, probabilities, far)


@_match_reduced.defjvp
def _differentiate(far: bool, given: tuple, moved: tuple) -> tuple[Matched, Matched]:
    """Take the same numbers, and their derivatives, from a factor of each S_k.

    Eigenvectors have none where eigenvalues meet, as they do where two coordinates were not measured.
    """

    def plain(numbers: _Numbers, scales: Array, probabilities: Array) -> Matched:
        white = numbers.white()
        found = _match(white, by_factors(white, scales)._replace(roots=None), scales, probabilities, far)
        kept = sum_leading(linalg.diagonal(found.pull.information()) * numbers.observed)
        return found._replace(pull=found.pull._replace(told=KnownTerms(found.pull.log_rest(), kept)))

    return jax.jvp(plain, given, moved)  # type: ignore[no-any-return]


def _rooted(white: Whitened, design: Array, scales: Array) -> tuple[Whitened, Array, Array]:
    """Take distances and peaks from roots; a bounded G is enough for the rest."""
    factor = mixture_sqrt_update.factors(design, scales)
    halves = factor.half(jnp.broadcast_to(white.residual[:, None], (len(design), len(scales))))
    return white._replace(signal=_tempered(design)), (halves**2).sum(0), peaks_of(white, scales, factor.log_det())


def _tempered(design: Array) -> Array:
    """Bound G by `TEMPERED`, as (G⁻¹ + 1/bound)⁻¹: beyond the widest size all is one to the gain of a measurement."""
    inner = linalg.eye(design.shape[1], design)
    scaled = jnp.concatenate([inner, transpose(design) / TEMPERED**0.5], axis=1)
    return linalg.gram(transpose(linalg.from_lower(linalg.lq_loop(scaled)).half(transpose(design))))


def _match(white: Whitened, sizes: EachSize, scales: Array, probabilities: Array, far: bool) -> Matched:
    size = white.signal.shape[0]
    shares, density = _weigh(white, sizes, probabilities, far)
    gain, rest, doubt, told = sizes.average(shares)
    rest = rest + shares.lost * linalg.eye(size, white.signal)
    whitening = white.whitening()
    possible = MixtureComponents(
        jnp.broadcast_to(scales, shares.known.shape).astype(shares.known.dtype), shares.known, shares.lost
    )
    roots = None if sizes.roots is None else sizes.roots(shares.known, shares.lost)
    return Matched(shares.known, MixtureUpdate(whitening, gain, rest, doubt, possible, roots, told), density)


def _weigh(white: Whitened, sizes: EachSize, probabilities: Array, far: bool) -> tuple[Shares, Array]:
    """Weigh the sizes, and give the density of each as `Matched` has it."""
    heights, widest = probabilities * sizes.peaks, sizes.halves[-1]
    # The widest size is the nearest, so no exponent is above 0 and they are not all far below it.
    if not far:
        powers = jnp.exp(widest - sizes.halves)
        raw = heights * powers
        each = 1.0 / pairwise_sum(raw)
        return Shares(raw, each, each * raw, jnp.zeros_like(each)), sizes.peaks * powers
    # Of the widest and the limit one is the nearest, exp(0), and the other the last of the powers. Their sum is the
    # same whichever it is, and does not wait for the choice.
    limit = 0.5 * far_distance(white.num_observed)
    inside = widest <= limit
    nearest, other = jnp.where(inside, widest, limit), jnp.where(inside, limit, widest)
    powers = jnp.exp(nearest - jnp.concatenate([sizes.halves[:-1], other[None]]))
    both, one = heights * powers, heights[-1]
    each = 1.0 / (pairwise_sum(both) + one)
    last, outside = jnp.where(inside, one, both[-1]), jnp.where(inside, both[-1], one)
    raw = jnp.concatenate([both[:-1], last[None]])
    density = jnp.concatenate([sizes.peaks[:-1] * powers[:-1], sizes.peaks[-1:] * (1.0 + powers[-1:])])
    return Shares(raw, each, each * raw, each * outside), density
