"""Sensitivities of the filter to the scale factors of R and Q, and the score and Fisher information that follow.

Let R be e^a R and Q be e^b Q, and carry d = dm/db and Δ = dP/db beside the belief (the sensitivity equations of a
Kalman filter, Bell 2000; the weights of a measurement are held fixed):

    predict   d⁻ = F d,  Δ⁻ = F Δ Fᵀ + e^b Q
    update    d = (I - K H)(d⁻ + Δ⁻ Hᵀ u),  Δ = (I - K H) Δ⁻ (I - K H)ᵀ,  K = P⁻ Hᵀ Λ

In white coordinates with h = H d⁻, E = H Δ⁻ Hᵀ and the scale mixture of `wolf.inference.noise.scale_mixture` (u = S⁻¹ z
on average over its components, Λ the average of S⁻¹, V the covariance of S⁻¹ z), the score, the gradient of the log
predictive density, is

    σ_b = uᵀ h + ½ tr[(u uᵀ + V - Λ) E],   σ_a = ½ Σ γ_k (zᵀ S_k⁻¹ z - M) - σ_b

The second costs nothing: scaling P, Q and R together leaves every mean unchanged, so dm/da = -d and dP/da = P - Δ. That
assumes a prior proportional to R, which a vague one is not until measurements have replaced it.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from wolf.beliefs.gaussian import spread_out
from wolf.beliefs.updates import MixtureUpdate
from wolf.numerics import linalg
from wolf.numerics.linalg import matmul, matvec, sum_leading, transpose


class Sensitivities(NamedTuple):
    """Derivatives of the mean and covariance of the state with respect to b = ln q.

    Attributes:
        mean: d, (D,).
        cov: Δ, (D, D).
    """

    mean: Array
    cov: Array

    def predict(self, jac: Array | None, noise_cov: Array | None) -> "Sensitivities":
        """Predict one time step.

        Args:
            jac: F, (D, D); None for the identity.
            noise_cov: e^b Q as used, a matrix or variances; None for zero.
        """
        added = None if noise_cov is None else spread_out(noise_cov, self.cov)
        if jac is None:
            return self if added is None else Sensitivities(self.mean, self.cov + added)
        moved = matmul(jac, self.cov)
        return Sensitivities(matvec(jac, self.mean), linalg.matmul_symmetric(moved, transpose(jac), add=added))

    def project(self, jac: Array) -> "ProjectedSensitivities":
        """Compute the sensitivities of the predicted measurement, with H in white coordinates, (M, D)."""
        rows = matmul(jac, self.cov)
        return ProjectedSensitivities(jac, matvec(jac, self.mean), rows, linalg.matmul_symmetric(rows, transpose(jac)))

    def condition(
        self, projected: "ProjectedSensitivities", jac_cov: Array, gain: Array, pull: Array
    ) -> "Sensitivities":
        """Update with a measurement.

        Args:
            projected: these sensitivities, of the predicted measurement.
            jac_cov: H P⁻ in white coordinates, (M, D).
            gain: Λ, (M, M).
            pull: u = Λ z, (M,).
        """
        kalman_gain = transpose(matmul(gain, jac_cov))  # K, (D, M)
        mean = self.mean + matvec(transpose(projected.rows), pull)
        mean = mean - matvec(kalman_gain, matvec(projected.jac, mean))
        # (I - K H) Δ (I - K H)ᵀ = Δ - X - Xᵀ with X = K (H Δ - ½ E Kᵀ): no product of two large matrices
        half = matmul(kalman_gain, projected.rows - 0.5 * matmul(projected.cov, transpose(kalman_gain)))
        return Sensitivities(mean, self.cov - (half + transpose(half)))

    def reset_where(self, vague: Array) -> "Sensitivities":
        """Reset to zero after a measurement of a belief so vague that only rounding errors of the past are left."""
        return Sensitivities(*(jnp.where(vague, 0.0, each) for each in self))


class ProjectedSensitivities(NamedTuple):
    """Sensitivities of the predicted measurement in white coordinates.

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
    """Gradient of the log predictive density along a and b.

    Attributes:
        noise: σ_a.
        dynamics: σ_b.
        square: quadratic part of σ_b, ½ tr[(u uᵀ + V) E].
    """

    noise: Array
    dynamics: Array
    square: Array


class Information(NamedTuple):
    """A symmetric 2 x 2 matrix over (a, b): Fisher information of one measurement, or the sum of several."""

    noise: Array
    cross: Array
    dynamics: Array


def score(
    projected: ProjectedSensitivities | None,
    update: MixtureUpdate,
    residual: Array,
    pull: Array,
    inside: Array,
    count: Array,
) -> ScoreVector:
    """Compute the gradient of the log predictive density.

    Args:
        projected: of the measurement; None where no sensitivities are carried, as if P were proportional to R.
        update: the moments of the mixture.
        residual: z, (M,).
        pull: u, (M,).
        inside: Σ γ_k, the probability that the measurement belongs to any component.
        count: number of measured coordinates.
    """
    whole = 0.5 * (sum_leading(residual * pull) - count * inside)
    if projected is None:
        return ScoreVector(whole, 0.0 * whole, 0.0 * whole)
    square = 0.5 * sum_leading(sum_leading((linalg.outer(pull, pull) + update.doubt) * projected.cov))
    dynamics = sum_leading(pull * projected.mean) + square - 0.5 * sum_leading(sum_leading(update.gain * projected.cov))
    return ScoreVector(whole - dynamics, dynamics, square)


def information(projected: ProjectedSensitivities | None, signal: Array, ordinary: Array, count: Array) -> Information:
    """Compute the Fisher information, the expected square of the score, for a measurement with ordinary noise.

    Args:
        projected: of the measurement; None where no sensitivities are carried.
        signal: G, (M, M).
        ordinary: r, the scale of ordinary noise.
        count: number of measured coordinates.
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


def inverse_of(signal: Array, scale: Array) -> Array:
    """Invert G + r I; up to 2 x 2 in closed form, without square roots.

    Args:
        signal: G, (M, M).
        scale: r.
    """
    noise = scale * linalg.eye(len(signal), signal)
    if len(signal) == 1:
        return 1.0 / (signal + noise)
    if len(signal) > 2:
        return linalg.cholesky(signal + noise).solve(linalg.eye(len(signal), signal))
    (a, b), (c, d) = signal
    # |G| loses all digits where two sensors measure the same; rounding may not make it negative.
    determinant = jnp.maximum(a * d - b * c, 0.0) + scale * (a + d + scale)
    adjugate = jnp.stack([jnp.stack([d, -b]), jnp.stack([-c, a])])
    return (1.0 / determinant) * (adjugate + noise)
