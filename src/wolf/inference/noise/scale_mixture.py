"""Gaussian scale-mixture noise: exact mean and covariance of the posterior (Masreliez 1975; West 1981).

With v ~ Σ π_k N(0, s_k R), in coordinates where R = I and the signal H x has covariance G:

    S_k = G + s_k I,   u_k = S_k⁻¹ z,   γ_k ∝ π_k N(z; 0, S_k)
    m <- m + P Hᵀ Σ γ_k u_k,   P <- P - P Hᵀ (Σ γ_k S_k⁻¹) H P + P Hᵀ Cov_γ(u) H P

The second term is that of a measurement with noise `(Σ γ_k S_k⁻¹)⁻¹ - G`; the third is the spread of the components'
means: where it is uncertain whether a measurement is an outlier, the posterior is wide.
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
from wolf.inference.noise.scale_mixture_moments import (
    ComponentMoments,
    Responsibilities,
    by_factors,
    by_reduction,
    component_moments,
    normalizations,
)
from wolf.inference.noise.whitened import Whitened, far_distance, whiten
from wolf.interfaces import NoiseModel, UpdateContext, UpdateDecision
from wolf.numerics import linalg
from wolf.numerics.linalg import pairwise_sum, sum_leading, transpose, tridiagonal
from wolf.numerics.pytree import pytree, static

MAX_SIGNAL = 1e9  # variance of the signal over R that is as good as infinite beside the widest component
NODES = 15  # of a continuous distribution of scales, spaced evenly in the logarithm


@pytree
class ScaleMixture(NoiseModel[tuple]):
    """Noise whose covariance is one of several multiples of R, with given probabilities.

    Args:
        scales: s_k, increasing, (K,).
        probabilities: π_k, (K,).
        far: whether a measurement beyond all scales is ignored. Without it the influence of an outlier on a finite
            mixture is unbounded.
    """

    scales: Any = (1.0, 100.0)
    probabilities: Any = (0.95, 0.05)
    far: bool = static(default=True)

    def __post_init__(self) -> None:
        """Validate, and convert to NumPy arrays."""
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
        """Approximate Student-t noise by a mixture: s = 1/λ, λ ~ Gamma(ν/2, ν/2), on evenly spaced log-scales.

        Nodes of equal probability would lack the far tail of outliers.

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

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Match the moments of the mixture posterior."""
        return UpdateDecision(match(context, self.scales, self.probabilities, self.far).pull)


class Matched(NamedTuple):
    """Moments of a scale mixture, in white coordinates.

    Attributes:
        share: γ_k, (K,), the responsibilities; with `far` their sum is less than 1.
        pull: the update by Σ γ_k S_k⁻¹ and Cov_γ(u).
        density: γ_k / π_k, (K,), up to a factor; beyond all scales the widest component has all of it.
    """

    share: Array
    pull: MixtureUpdate
    density: Array


def match(context: UpdateContext, scales: Array, probabilities: Array, far: bool) -> Matched:
    """Compute the responsibilities of the components, and the moments of the mixture posterior.

    Args:
        context: the measurement.
        scales: s_k, increasing, (K,).
        probabilities: π_k, (K,), up to a factor.
        far: whether a measurement may belong to none of them: an improper density that equals the widest component at
            its 99 % distance, independent of the units of y.
    """
    white, belief = whiten(context), context.belief
    if isinstance(belief, Gaussian) and tridiagonal.is_faster(len(white.residual)):
        arrays = _WhiteArrays(white.residual, white.signal, context.observed, white.whitening())
        return _match_reduced(arrays, jnp.asarray(scales), probabilities, far)
    matched = _match(white, component_moments(white, scales), scales, probabilities, far)
    if not isinstance(belief, SqrtGaussian) or not mixture_sqrt_update.can_lose_precision(
        len(belief.mean), len(context.residual)
    ):
        return matched

    def exact() -> Matched:
        bounded, distances, heights = _moments_by_roots(
            white, mixture_sqrt_update.whiten_rows(white.noise.half, context.view, belief.root), scales
        )
        components = component_moments(bounded, scales)._replace(half_distances=0.5 * distances, normalizations=heights)
        return _match(bounded, components, scales, probabilities, far)

    return jax.lax.cond(mixture_sqrt_update.is_wide(white.signal), exact, lambda: matched)


class _WhiteArrays(NamedTuple):
    """The differentiable fields of `Whitened`."""

    residual: Array
    signal: Array
    observed: Array
    inverse: Array

    def whitened(self) -> Whitened:
        """Return the measurement; the factor of R is not needed where its inverse is known."""
        return Whitened(self.residual, self.signal, None, sum_leading(self.observed), self.observed, self.inverse)


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def _match_reduced(arrays: _WhiteArrays, scales: Array, probabilities: Array, far: bool) -> Matched:
    """Match by a reduction to tridiagonal form, which has no derivative of its own."""
    white = arrays.whitened()
    return _match(white, by_reduction(white, scales), scales, probabilities, far)


@_match_reduced.defjvp
def _differentiate(far: bool, primals: tuple, tangents: tuple) -> tuple[Matched, Matched]:
    """Compute the same moments, and their derivatives, by a Cholesky factor of each S_k.

    Eigenvectors have no derivative at equal eigenvalues, as of two missing coordinates.
    """

    def by_cholesky(arrays: _WhiteArrays, scales: Array, probabilities: Array) -> Matched:
        white = arrays.whitened()
        found = _match(white, by_factors(white, scales)._replace(roots=None), scales, probabilities, far)
        kept = sum_leading(linalg.diagonal(found.pull.information()) * arrays.observed)
        return found._replace(pull=found.pull._replace(known_terms=KnownTerms(found.pull.log_rest(), kept)))

    return jax.jvp(by_cholesky, primals, tangents)  # type: ignore[no-any-return]


def _moments_by_roots(white: Whitened, design: Array, scales: Array) -> tuple[Whitened, Array, Array]:
    """Compute distances and normalisations from square roots; a bounded G is enough for the rest."""
    factor = mixture_sqrt_update.factors(design, scales)
    halves = factor.half(jnp.broadcast_to(white.residual[:, None], (len(design), len(scales))))
    return (
        white._replace(signal=_bounded_signal(design)),
        (halves**2).sum(0),
        normalizations(white, scales, factor.log_det()),
    )


def _bounded_signal(design: Array) -> Array:
    """Bound G by `MAX_SIGNAL`, as (G⁻¹ + 1/bound)⁻¹: far beyond the widest scale the gain does not change."""
    inner = linalg.eye(design.shape[1], design)
    scaled = jnp.concatenate([inner, transpose(design) / MAX_SIGNAL**0.5], axis=1)
    return linalg.gram(transpose(linalg.from_lower(linalg.lq_loop(scaled)).half(transpose(design))))


def _match(white: Whitened, components: ComponentMoments, scales: Array, probabilities: Array, far: bool) -> Matched:
    size = white.signal.shape[0]
    shares, density = _responsibilities(white, components, probabilities, far)
    gain, rest, doubt, known_terms = components.average(shares)
    rest = rest + shares.outside * linalg.eye(size, white.signal)
    whitening = white.whitening()
    mixture = MixtureComponents(
        jnp.broadcast_to(scales, shares.inside.shape).astype(shares.inside.dtype), shares.inside, shares.outside
    )
    roots = None if components.roots is None else components.roots(shares.inside, shares.outside)
    return Matched(shares.inside, MixtureUpdate(whitening, gain, rest, doubt, mixture, roots, known_terms), density)


def _responsibilities(
    white: Whitened, components: ComponentMoments, probabilities: Array, far: bool
) -> tuple[Responsibilities, Array]:
    """Compute the responsibilities, and the density of each component as in `Matched`."""
    heights, widest = probabilities * components.normalizations, components.half_distances[-1]
    # The widest component has the smallest distance, so no exponent is above 0 and they are not all far below it.
    if not far:
        powers = jnp.exp(widest - components.half_distances)
        raw = heights * powers
        each = 1.0 / pairwise_sum(raw)
        return Responsibilities(raw, each, each * raw, jnp.zeros_like(each)), components.normalizations * powers
    # Of the widest and the limit one has the smallest distance, exp(0), and the other is the last of the powers. Their
    # sum is the same whichever it is, and does not wait for the choice.
    limit = 0.5 * far_distance(white.num_observed)
    inside = widest <= limit
    nearest, other = jnp.where(inside, widest, limit), jnp.where(inside, limit, widest)
    powers = jnp.exp(nearest - jnp.concatenate([components.half_distances[:-1], other[None]]))
    both, one = heights * powers, heights[-1]
    each = 1.0 / (pairwise_sum(both) + one)
    last, outside = jnp.where(inside, one, both[-1]), jnp.where(inside, both[-1], one)
    raw = jnp.concatenate([both[:-1], last[None]])
    density = jnp.concatenate(
        [components.normalizations[:-1] * powers[:-1], components.normalizations[-1:] * (1.0 + powers[-1:])]
    )
    return Responsibilities(raw, each, each * raw, each * outside), density
