"""Analyses of all observations at once: stochastic, ensemble transform, deterministic.

Each takes members as mean (D,) and anomalies A (N, D), an `ObservationEnsemble`, weights and a key, and returns the new
mean and anomalies. With weighted deviations Y (N, M) all have the gain of the exact weighted update,

    K = Aᵀ Y (Yᵀ Y + (N - 1) R)⁻¹,        solved in the space of observations or of members, whichever is smaller,

so for large N a linear Gaussian ensemble converges to the weighted Kalman filter. A weight of 0 drops an observation.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf.inference.ensembles.interfaces import Analysis, AnalysisRequirements, AnalysisResult
from wolf.inference.ensembles.observation_ensemble import ObservationEnsemble
from wolf.numerics import linalg
from wolf.numerics.pytree import pytree, static

MEMBERS_PER_BATCH = 64  # members whose gains are computed together, when every member has its own weights


class Taper(NamedTuple):
    """Localisation as factors on covariances: of observations and states (M, D), and between observations (M, M)."""

    cross: Array
    between: Array


@pytree
class Stochastic(Analysis):
    """Stochastic analysis: perturbed observations, with the exact R in the gain (Burgers et al. 1998).

    Draws are centred and rescaled to preserve their variance, so the mean is updated without sampling noise.
    """

    @property
    def requirements(self) -> AnalysisRequirements:
        """Requirements of the analysis."""
        return AnalysisRequirements(perturbed=True, per_member=True, geometry="covariance")

    def __call__(
        self,
        mean: Array,
        anomalies: Array,
        sight: ObservationEnsemble,
        weight: Array,
        draws: Array,
        key: Array,
        taper: Taper | None,
    ) -> AnalysisResult:
        """Update every member with its own perturbed residual.

        Args:
            mean: (D,).
            anomalies: (N, D).
            sight: predictions and residual of the measurement.
            weight: (M,), or (N, M) for weights per member.
            draws: standard normal, (N, M).
            key: not used.
            taper: localisation, or None.
        """
        noise = _centred(draws)
        if weight.ndim == 2:
            return AnalysisResult(mean, anomalies + _per_member_gains(anomalies, sight, weight, noise, taper))
        if sight.wide and taper is None:
            signal, error = sight.weighed(weight)
            factor = _member_factor(signal, sight.degrees)
            errors = error[None] - signal + noise
            steps = factor.solve(linalg.matmul(signal, errors.T)).T @ anomalies
        else:
            errors = weight[None] * (sight.residual[None] - sight.deviations) + sight.noise.colour(noise)
            steps = errors @ _gain_t(anomalies, sight, weight, taper)
        return AnalysisResult(mean, anomalies + steps)


@pytree
class DEnKF(Analysis):
    """Deterministic analysis: the mean with the full gain, the anomalies with half of it (Sakov & Oke 2008)."""

    @property
    def requirements(self) -> AnalysisRequirements:
        """Requirements of the analysis."""
        return AnalysisRequirements(geometry="covariance")

    def __call__(
        self,
        mean: Array,
        anomalies: Array,
        sight: ObservationEnsemble,
        weight: Array,
        draws: Array | None,
        key: Array,
        taper: Taper | None,
    ) -> AnalysisResult:
        """Update the mean and shrink the anomalies; arguments as in `Stochastic`."""
        if sight.wide and taper is None:
            signal, error = sight.weighed(weight)
            solved = _member_factor(signal, sight.degrees).solve(anomalies)
            return AnalysisResult(
                mean + (signal @ error) @ solved, anomalies - 0.5 * linalg.matmul(signal, signal.T) @ solved
            )
        gain_t = _gain_t(anomalies, sight, weight, taper)
        step = (weight * sight.residual) @ gain_t
        return AnalysisResult(mean + step, anomalies - 0.5 * (weight[None] * sight.deviations) @ gain_t)


@pytree
class ETKF(Analysis):
    """Ensemble transform by the symmetric square root (Bishop et al. 2001; Hunt, Kostelich & Szunyogh 2007).

    Args:
        rotate: apply a random rotation that preserves the mean and covariance, which corrects the skewed ensembles that
            a deterministic transform produces in a nonlinear model (Sakov & Oke 2008b).
    """

    rotate: bool = static(default=False)

    @property
    def requirements(self) -> AnalysisRequirements:
        """Requirements of the analysis."""
        return AnalysisRequirements()

    def __call__(
        self,
        mean: Array,
        anomalies: Array,
        sight: ObservationEnsemble,
        weight: Array,
        draws: Array | None,
        key: Array,
        taper: Taper | None,
    ) -> AnalysisResult:
        """Update the mean and transform the anomalies; arguments as in `Stochastic`."""
        signal, error = sight.weighed(weight)
        if sight.wide:
            values, vectors = jnp.linalg.eigh(linalg.matmul_symmetric(signal, signal.T))
            values = jnp.maximum(values, 0.0) + sight.degrees
            inner = vectors.T @ anomalies
            step = ((vectors.T @ (signal @ error)) / values) @ inner
            anomalies = vectors @ (jnp.sqrt(sight.degrees / values)[:, None] * inner)
        else:
            values, vectors = jnp.linalg.eigh(linalg.matmul_symmetric(signal.T, signal))
            values = jnp.maximum(values, 0.0)
            cross = vectors.T @ (signal.T @ anomalies)
            step = ((vectors.T @ error) / (values + sight.degrees)) @ cross
            # (√(n / (x + n)) - 1) / x without the division by x, which may be 0
            root, whole = math.sqrt(sight.degrees), jnp.sqrt(values + sight.degrees)
            shrink = 1.0 / (whole * (root + whole))
            anomalies = anomalies - (signal @ vectors) @ (shrink[:, None] * cross)
        return AnalysisResult(mean + step, rotated(key, anomalies) if self.rotate else anomalies)


def rotated(key: Array, anomalies: Array) -> Array:
    """Rotate anomalies by a uniformly distributed rotation that keeps their mean at zero."""
    size = anomalies.shape[0]
    basis = jnp.asarray(_zero_sum_basis(size), anomalies.dtype)
    square, upper = jnp.linalg.qr(jax.random.normal(key, (size - 1, size - 1), anomalies.dtype))
    rotation = square * jnp.where(jnp.diagonal(upper) < 0, -1.0, 1.0)[None]  # signs fixed: uniform over rotations
    return basis @ (rotation @ (basis.T @ anomalies))


def _zero_sum_basis(size: int) -> np.ndarray:
    """Compute orthonormal columns that sum to zero (Helmert), (N, N - 1)."""
    rows, columns = np.indices((size, size - 1))
    entries = np.where(rows <= columns, 1.0, np.where(rows == columns + 1, -(columns + 1.0), 0.0))
    return entries / np.sqrt((columns + 1.0) * (columns + 2.0))


def _gain_t(anomalies: Array, sight: ObservationEnsemble, weight: Array, taper: Taper | None) -> Array:
    """Compute the transposed gain (M, D) in observation space."""
    weighted = weight[None] * sight.deviations
    cross, inner = weighted.T @ anomalies, linalg.matmul_symmetric(weighted.T, weighted)
    if taper is not None:
        cross, inner = taper.cross * cross, taper.between * inner
    return linalg.cholesky(inner + sight.degrees * sight.noise.matrix()).solve(cross)


def _per_member_gains(
    anomalies: Array, sight: ObservationEnsemble, weights: Array, noise: Array, taper: Taper | None
) -> Array:
    """Compute the step of every member with the gain of its own weights (N, M).

    The products over members are formed once; the weights of a member scale their rows and columns.
    """
    if sight.wide and taper is None:
        return _per_member_gains_in_member_space(anomalies, sight, weights, noise)
    cross = sight.deviations.T @ anomalies
    inner = linalg.matmul_symmetric(sight.deviations.T, sight.deviations)
    if taper is not None:
        cross, inner = taper.cross * cross, taper.between * inner
    noise_cov = sight.degrees * sight.noise.matrix()

    def one(row: tuple[Array, Array, Array]) -> Array:
        weight, own, draw = row
        factor = linalg.cholesky(linalg.outer(weight, weight) * inner + noise_cov)
        return weight * factor.solve(weight * (sight.residual - own) + draw)

    rows = (weights, sight.deviations, sight.noise.colour(noise))
    return jax.lax.map(one, rows, batch_size=min(MEMBERS_PER_BATCH, len(weights))) @ cross


def _per_member_gains_in_member_space(
    anomalies: Array, sight: ObservationEnsemble, weights: Array, noise: Array
) -> Array:
    def one(row: tuple[Array, Array, Array]) -> Array:
        weight, own, draw = row
        signal = sight.noise.white(weight[None] * sight.deviations)
        error = sight.noise.white(weight * (sight.residual - own)) + draw
        return _member_factor(signal, sight.degrees).solve(signal @ error)

    return jax.lax.map(one, (weights, sight.deviations, noise)) @ anomalies


def _member_factor(signal: Array, degrees: int) -> linalg.Cholesky:
    gram = linalg.matmul_symmetric(signal, signal.T)
    return linalg.cholesky(gram + degrees * jnp.eye(signal.shape[0], dtype=signal.dtype))


def _centred(draws: Array) -> Array:
    size = draws.shape[0]
    return math.sqrt(size / (size - 1.0)) * (draws - draws.mean(0)[None])
