"""How a filter would have gone with a little more dynamics noise: slopes, the score and the information that they give.

Let R be e^a R and Q be e^b Q, and carry d = dm/db and Δ = dP/db beside the belief (Bell 2000 for the idea, in a Kalman
filter; the weights of a measurement are held as they are):

    predict   d⁻ = F d,  Δ⁻ = F Δ Fᵀ + e^b Q
    update    d = (I - K H)(d⁻ + Δ⁻ Hᵀ u),  Δ = (I - K H) Δ⁻ (I - K H)ᵀ,  K = P⁻ Hᵀ Λ

In white coordinates with h = H d⁻, E = H Δ⁻ Hᵀ and the mixture of sizes in `wolf.inference.noise.scale_mixture` (u its
mean pull, Λ its mean gain, V the covariance of the pull), the slopes of the log predictive density are

    σ_b = uᵀ h + ½ tr[(u uᵀ + V - Λ) E],   σ_a = ½ Σ γ_k (zᵀ S_k⁻¹ z - M) - σ_b

The second is free: multiplying P, Q and R together leaves every mean alone, so dm/da = -d and dP/da = P - Δ. That takes
the prior for one that goes with R, which a vague one does not until measurements have replaced it.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from wolf.beliefs.gaussian import spread_out
from wolf.beliefs.updates import MixtureUpdate
from wolf.numerics import linalg
from wolf.numerics.linalg import matmul, matvec, sum_leading, transpose


class Sensitivities(NamedTuple):
    """How mean and covariance of the state change with b = ln q.

    Attributes:
        mean: d, (D,).
        cov: Δ, (D, D).
    """

    mean: Any
    cov: Any

    def push(self, jac: Array | None, noise_cov: Array | None) -> "Sensitivities":
        """Go forward one step in time.

        Args:
            jac: F, (D, D); None for the identity.
            noise_cov: e^b Q as it is used, a matrix or variances; None for nothing.
        """
        added = None if noise_cov is None else spread_out(noise_cov, self.cov)
        if jac is None:
            return self if added is None else Sensitivities(self.mean, self.cov + added)
        moved = matmul(jac, self.cov)
        return Sensitivities(matvec(jac, self.mean), linalg.matmul_symmetric(moved, transpose(jac), add=added))

    def see(self, jac: Array) -> "ProjectedSensitivities":
        """See the slopes of what is measured, by H in white coordinates, (M, D)."""
        rows = matmul(jac, self.cov)
        return ProjectedSensitivities(jac, matvec(jac, self.mean), rows, linalg.matmul_symmetric(rows, transpose(jac)))

    def condition(
        self, projected: "ProjectedSensitivities", jac_cov: Array, gain: Array, pulled: Array
    ) -> "Sensitivities":
        """Learn from a measurement.

        Args:
            projected: these slopes, as the measurement sees them.
            jac_cov: H P⁻ in white coordinates, (M, D).
            gain: Λ, (M, M).
            pulled: u = Λ z, (M,).
        """
        kept = transpose(matmul(gain, jac_cov))  # K, (D, M)
        mean = self.mean + matvec(transpose(projected.rows), pulled)
        mean = mean - matvec(kept, matvec(projected.jac, mean))
        # (I - K H) Δ (I - K H)ᵀ = Δ - X - Xᵀ with X = K (H Δ - ½ E Kᵀ): no product of two large matrices
        taken = matmul(kept, projected.rows - 0.5 * matmul(projected.cov, transpose(kept)))
        return Sensitivities(mean, self.cov - (taken + transpose(taken)))

    def unless(self, vague: Array) -> "Sensitivities":
        """Start anew after a measurement of a belief so vague that of what was before it only rounding is left."""
        return Sensitivities(*(jnp.where(vague, 0.0, each) for each in self))


class ProjectedSensitivities(NamedTuple):
    """Slopes of a measurement in white coordinates.

    Attributes:
        jac: H, (M, D).
        mean: h = H d⁻, (M,).
        rows: H Δ⁻, (M, D).
        cov: E = H Δ⁻ Hᵀ, (M, M).
    """

    jac: Array
    mean: Array
    rows: Array
    cov: Array


class RQ(NamedTuple):
    """A number for a = ln r and one for b = ln q."""

    noise: Any
    dynamics: Any


class ScoreVector(NamedTuple):
    """How the log predictive density rises along a and b.

    Attributes:
        noise: σ_a.
        dynamics: σ_b.
        square: the part of σ_b that is a square of pulls, ½ tr[(u uᵀ + V) E].
    """

    noise: Any
    dynamics: Any
    square: Any


class Information(NamedTuple):
    """A symmetric 2 x 2 matrix over (a, b)."""

    noise: Any
    both: Any
    dynamics: Any


def score(
    projected: ProjectedSensitivities | None,
    pull: MixtureUpdate,
    error: Array,
    pulled: Array,
    sure: Array,
    count: Array,
) -> ScoreVector:
    """Find the slopes of the log predictive density.

    Args:
        projected: of the measurement; None where no sensitivities are carried, as if P were proportional to R.
        pull: the moments of the mixture.
        error: z, (M,).
        pulled: u, (M,).
        sure: Σ γ_k, how likely it is one of the sizes at all.
        count: how many coordinates were measured.
    """
    whole = 0.5 * (sum_leading(error * pulled) - count * sure)
    if projected is None:
        return ScoreVector(whole, 0.0 * whole, 0.0 * whole)
    square = 0.5 * sum_leading(sum_leading((linalg.outer(pulled, pulled) + pull.doubt) * projected.cov))
    dynamics = sum_leading(pulled * projected.mean) + square - 0.5 * sum_leading(sum_leading(pull.gain * projected.cov))
    return ScoreVector(whole - dynamics, dynamics, square)


def information(projected: ProjectedSensitivities | None, signal: Array, ordinary: Array, count: Array) -> Information:
    """Expect the squares of these slopes, for a measurement with ordinary noise.

    Args:
        projected: slopes of what is measured; None where none are carried.
        signal: G, (M, M).
        ordinary: r, the size of ordinary noise.
        count: how many coordinates were measured.
    """
    whole = 0.5 * count
    if projected is None:
        return Information(whole, 0.0 * whole, 0.0 * whole)
    inverse = inverse_of(signal, ordinary)
    share = matmul(inverse, projected.cov)
    square = sum_leading(projected.mean * matvec(inverse, projected.mean)) + 0.5 * sum_leading(
        sum_leading(share * transpose(share))
    )
    trace = 0.5 * sum_leading(linalg.diagonal(share))
    return Information(whole + square - 2.0 * trace, trace - square, square)


def inverse_of(signal: Array, size: Array) -> Array:
    """Invert G + r I; up to 2 x 2 it is written out, without roots to wait for."""
    noise = size * linalg.eye(len(signal), signal)
    if len(signal) == 1:
        return 1.0 / (signal + noise)
    if len(signal) > 2:
        return linalg.cholesky(signal + noise).solve(linalg.eye(len(signal), signal))
    (a, b), (c, d) = signal
    # |G| is no difference of others where two sensors say the same, and rounding may not make it one.
    determinant = jnp.maximum(a * d - b * c, 0.0) + size * (a + d + size)
    adjugate = jnp.stack([jnp.stack([d, -b]), jnp.stack([-c, a])])
    return (1.0 / determinant) * (adjugate + noise)
