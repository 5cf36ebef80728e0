"""Predictions of a measurement by the members, its residual and noise, in the coordinates of an analysis.

Members are rows: N members, D states, M observations. A weight w multiplies residual and predictions and leaves R
unchanged, as everywhere in this package; whitening comes after it, so correlated noise gives `Diag(w) R⁻¹ Diag(w)`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from wolf.beliefs.affine import hide_noise
from wolf.beliefs.density import LOG_2PI
from wolf.interfaces import Measurement
from wolf.numerics import linalg
from wolf.numerics.linalg import Cholesky
from wolf.statespace import Model


class Noise:
    """Measurement noise by variances (M,) or a covariance (M, M), with unit noise where nothing was measured.

    Exists only within a trace.
    """

    def __init__(self, obs_cov: Array, observed: Array):
        self.diagonal = obs_cov.ndim == 1
        if self.diagonal:
            self.variances = jnp.where(observed > 0, obs_cov, 1.0)
            self.scales = jnp.sqrt(self.variances)
        else:
            self.cov = hide_noise(obs_cov, observed)
            self.variances = linalg.diagonal(self.cov)
            self.factor = linalg.cholesky(self.cov)

    def white(self, rows: Array) -> Array:
        """Whiten rows (N, M) or a vector (M,)."""
        if self.diagonal:
            return rows / (self.scales if rows.ndim == 1 else self.scales[None])
        return self.factor.half(rows.T).T

    def colour(self, rows: Array) -> Array:
        """Apply the inverse of `white` to rows (N, M)."""
        if self.diagonal:
            return rows * self.scales[None]
        return linalg.matmul(rows, self.factor.matrix().T)

    def matrix(self) -> Array:
        """Return R, (M, M)."""
        return jnp.diag(self.variances) if self.diagonal else self.cov

    def log_det(self) -> Array:
        """Compute log |R|."""
        return jnp.log(self.variances).sum() if self.diagonal else self.factor.log_det()


class ObservationEnsemble(NamedTuple):
    """Predictions and residual of a measurement, as an analysis uses them.

    Attributes:
        deviations: predictions of the members minus their mean, (N, M), zero where nothing was measured.
        residual: measurement minus mean prediction, (M,), zero where nothing was measured.
        noise: of the measurement.
        observed: (M,), 1 or 0.
    """

    deviations: Array
    residual: Array
    noise: Noise
    observed: Array

    @property
    def degrees(self) -> int:
        """Degrees of freedom, N - 1."""
        return self.deviations.shape[0] - 1

    @property
    def wide(self) -> bool:
        """Whether there are more observations than members, so that the space of members is the cheaper one."""
        return self.deviations.shape[1] > self.deviations.shape[0]

    def weighed(self, weight: Array) -> tuple[Array, Array]:
        """Weight and whiten deviations and residual; weight (M,)."""
        return self.noise.white(weight[None] * self.deviations), self.noise.white(weight * self.residual)

    def variances(self) -> Array:
        """Compute the variance of each prediction over the members, (M,)."""
        return (self.deviations**2).sum(0) / self.degrees


def observe_ensemble(now: Model, members: Array, y: Measurement, u: Array | None) -> ObservationEnsemble:
    """Predict the measurement by every member."""
    project = now.projection(u)
    predictions = jax.vmap(project)(members)
    if now.residual is None:
        centre = predictions.mean(0)
        deviations = predictions - centre[None]
        residual = y.value - centre
    else:  # angles have no arithmetic mean: differences from the prediction of the mean member
        reference = project(members.mean(0))
        offsets = jax.vmap(now.subtract, in_axes=(0, None))(predictions, reference)
        deviations = offsets - offsets.mean(0)[None]
        residual = now.subtract(y.value, reference) - offsets.mean(0)
    observed = y.observed
    return ObservationEnsemble(observed[None] * deviations, observed * residual, Noise(now.obs_cov, observed), observed)


def innovation_scores(sight: ObservationEnsemble) -> tuple[Array, Array]:
    """Compute `eᵀ S⁻¹ e` and `log |S|` under the nominal noise, in the smaller of the two spaces.

    With whitened deviations Z, `S = I + Zᵀ Z / (N - 1)`; by Woodbury's formula an N x N matrix is enough.
    """
    signal, error = sight.weighed(jnp.ones_like(sight.residual))
    noise = sight.noise.log_det()
    if sight.wide:
        factor = linalg.cholesky(_regular(linalg.matmul(signal, signal.T), sight.degrees))
        explained = factor.half(signal @ error)
        log_det = factor.log_det() - signal.shape[0] * jnp.log(jnp.asarray(sight.degrees, error.dtype))
        return jnp.maximum((error**2).sum() - (explained**2).sum(), 0.0), log_det + noise
    factor = linalg.cholesky(_regular(linalg.matmul(signal.T, signal) / sight.degrees, 1))
    return (factor.half(error) ** 2).sum(), factor.log_det() + noise


def log_likelihood(nis: Array, log_det: Array, count: Array) -> Array:
    """Evaluate the log density of a residual under the Gaussian of the members' predictions."""
    return -0.5 * (nis + log_det + count * LOG_2PI)


class InnovationRoot(Cholesky):
    """Innovation covariance of many observations as a linear operator: `half` whitens without an M x M matrix."""

    def __init__(self, sight: ObservationEnsemble):
        self.sight = sight
        self.signal, _ = sight.weighed(jnp.ones_like(sight.residual))
        values, self.vectors = jnp.linalg.eigh(self.signal @ self.signal.T / sight.degrees)
        root = jnp.sqrt(1.0 + jnp.maximum(values, 0.0))
        self.shrink = 1.0 / (sight.degrees * root * (1.0 + root))

    def half(self, b: Array) -> Array:
        """Compute `S^(-1/2) b`, with the symmetric root in whitened coordinates."""
        white = self.sight.noise.white(b)
        inner = self.shrink * (self.vectors.T @ (self.signal @ white))
        return white - self.signal.T @ (self.vectors @ inner)

    def product(self) -> Array:
        """Return S, (M, M), for weights that need the matrix."""
        return self.sight.deviations.T @ self.sight.deviations / self.sight.degrees + self.sight.noise.matrix()


class NoiseRoot(Cholesky):
    """Noise covariance as a linear operator."""

    def __init__(self, noise: Noise):
        self.noise = noise

    def half(self, b: Array) -> Array:
        """Compute `R^(-1/2) b`."""
        return self.noise.white(b)

    def product(self) -> Array:
        """Return R, (M, M)."""
        return self.noise.matrix()


def _regular(gram: Array, ridge: int) -> Array:
    return gram + ridge * jnp.eye(gram.shape[0], dtype=gram.dtype)
