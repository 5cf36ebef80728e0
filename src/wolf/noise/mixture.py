"""Noise of several possible sizes: the exact mean and covariance of the posterior (Masreliez 1975; West 1981).

With v ~ Σ π_k N(0, s_k R), in coordinates where R = I and the state explains G:

    S_k = G + s_k I,   u_k = S_k⁻¹ z,   γ_k ∝ π_k N(z; 0, S_k)
    mean gains P Hᵀ Σ γ_k u_k;   covariance loses P Hᵀ (Σ γ_k S_k⁻¹) H P and gains P Hᵀ Cov_γ(u) H P

The loss is that of a measurement with information Ω, `Ω⁻¹ = (Σ γ_k S_k⁻¹)⁻¹ - G`, hence a weight; the gain is a spread:
where it is open whether a measurement is an outlier, the posterior is wide.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import checks, gaussian, linalg
from wolf.linalg import matmul, total, transpose
from wolf.noise.whitened import Whitened, whiten
from wolf.pytree import pytree, static
from wolf.types import Believed, Evidence

NODES = 15  # of a continuous law of scales, spaced evenly in the logarithm
FAR_QUANTILE = 2.3263478740408408  # standard normal 99 %


@pytree
class ScaleMixture:
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

    def __call__(self, seen: Evidence) -> Believed:
        """Match the moments."""
        white = whiten(seen)
        return match(white, self.scales, self.probabilities, self.far).believed(white, seen)


class Matched(NamedTuple):
    """The moments of a mixture of sizes, in white coordinates.

    Attributes:
        share: γ_k, (K,): how likely each size is; with `far` they add up to less than 1.
        information: Ω, (M, M).
        spread: Cov_γ(u), (M, M).
    """

    share: Array
    information: Array
    spread: Array

    def believed(self, white: Whitened, seen: Evidence) -> Believed:
        """Say it as a weight and a spread."""
        identity = linalg.eye(white.signal.shape[0], white.signal)
        weight = matmul(transpose(linalg.psd_root(self.information)), white.noise.half(identity))
        root = white.noise.back(linalg.psd_root(self.spread))
        return Believed(weight, spread=matmul(transpose(gaussian.cross(seen.belief, seen.view.jac)), root))


def match(white: Whitened, scales: Array, probabilities: Array, far: bool) -> Matched:
    """Weigh the sizes by how well they explain the residual, and average what each of them would do.

    Args:
        white: the measurement.
        scales: s_k, increasing, (K,).
        probabilities: π_k, (K,), up to a factor.
        far: whether a measurement may belong to none of them.
    """
    sizes = _small(white, scales) if white.signal.shape[0] <= linalg.SMALL else _large(white, scales)
    # A coordinate that was not measured has no size: take its share out of the determinants.
    unseen = (white.residual.shape[0] - white.num_observed) * jnp.log(scales)
    log_peak = jnp.log(probabilities) - 0.5 * (sizes.log_det - unseen)
    log_share = log_peak - 0.5 * total(white.residual[:, None] * sizes.pulls)
    if far:
        log_share = jnp.append(log_share, log_peak[-1] - 0.5 * _far_distance(white.num_observed))
    share = jax.nn.softmax(log_share)
    known, lost = share[: len(scales)], share[len(scales) :].sum()
    pull = (known[None] * sizes.pulls).sum(1)
    around = linalg.safe_sqrt(known)[None] * (sizes.pulls - pull[:, None])
    spread = linalg.gram(around) + lost * linalg.outer(pull, pull)
    # Ω = (Σγ S⁻¹)(I - G Σγ S⁻¹)⁻¹, the bracket written as a sum of positive terms
    rest = sizes.average(known * scales) + lost * linalg.eye(len(pull), white.signal)
    information = linalg.cholesky(rest).solve(sizes.average(known))
    return Matched(known, linalg.symmetrise(information), spread)


class _Sizes(NamedTuple):
    """What each size would do: `pulls` u_k (M, K), `log_det` of S_k (K,), and averages of S_k⁻¹ with given shares."""

    pulls: Array
    log_det: Array
    average: Callable[[Array], Array]


def _small(white: Whitened, scales: Array) -> _Sizes:
    """Factorise each S_k, entry by entry: no LAPACK, and gradients that hold where eigenvalues meet."""
    size = white.signal.shape[0]
    identity = linalg.eye(size, white.signal)
    factor = linalg.cholesky(white.signal[..., None] + scales[None, None] * identity[..., None])
    inverse = factor.solve(jnp.broadcast_to(identity[..., None], (size, size, len(scales))))
    pulls = (inverse * white.residual[None, :, None]).sum(1)
    return _Sizes(pulls, factor.log_det(), lambda share: (share[None, None] * inverse).sum(2))


def _large(white: Whitened, scales: Array) -> _Sizes:
    """Take one decomposition for all sizes."""
    values, vectors = jnp.linalg.eigh(white.signal)
    shifted = jnp.maximum(values, 0.0)[:, None] + scales[None]
    pulls = vectors @ ((vectors.T @ white.residual)[:, None] / shifted)
    return _Sizes(
        pulls, jnp.log(shifted).sum(0), lambda share: (vectors * (share[None] / shifted).sum(1)[None]) @ vectors.T
    )


def _far_distance(count: Array) -> Array:
    """Take the 99 % quantile of χ² (Wilson & Hilferty 1931), where the widest size gives up."""
    count = jnp.maximum(count, 1.0)
    return count * (1.0 - 2.0 / (9.0 * count) + FAR_QUANTILE * jnp.sqrt(2.0 / (9.0 * count))) ** 3
