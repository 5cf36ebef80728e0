"""The paper's ensemble filters as published (Duran-Martin et al. 2024, appendix "Weighted ensembles").

Perturbed predictions `ŷ_i = h(x_i) + N(0, R)` give the gain `cov(x, ŷ) var(ŷ)⁻¹` and the errors `y - ŷ_i`, which are
then weighted: `x_i + K Diag(w) (y - ŷ_i)`. The gain comes from the *unweighted* predictions, so these filters do not
converge to the weighted Kalman filter as N grows, unless all weights are 1; those of
`wolf.inference.ensembles.analysis` do.
"""

import jax.numpy as jnp
from jax import Array

from wolf import validation
from wolf.inference.ensembles.interfaces import Analysis, AnalysisRequirements, AnalysisResult
from wolf.inference.ensembles.observation_ensemble import ObservationEnsemble
from wolf.inference.weights import EFFICIENCY, Huber, MahalanobisThreshold
from wolf.inference.weights.calibration import threshold
from wolf.interfaces import Number
from wolf.numerics import linalg
from wolf.numerics.pytree import pytree

RELATIVE_RIDGE = 1e-10  # with fewer members than observations the sample var(ŷ) is singular


class ErrorWeight:
    """Weight of the perturbed errors (N, M) of the members, in the units of y.

    `c=None` is calibrated to clean data by the variance of the errors over the members, which is that of a residual.
    """

    c: Number | None

    def __post_init__(self) -> None:
        validation.positive("c", self.c)

    def __call__(self, errors: Array) -> Array:
        """Compute weights per observation, (M,), or per member and observation, (N, M)."""
        raise NotImplementedError


@pytree
class AveragedParticle(ErrorWeight):
    """Gate on the mean *squared* error of an observation over the members, at most c: AP-EnKF."""

    c: Number | None = None

    def __call__(self, errors: Array) -> Array:
        """Compute weights per observation, (M,)."""
        # The mean square is the square of the residual plus the spread.
        c = (1.0 + threshold(MahalanobisThreshold, 1, EFFICIENCY)) * _spread(errors) if self.c is None else self.c
        return jnp.where((errors**2).mean(0) <= c, 1.0, 0.0).astype(errors.dtype)


@pytree
class PerParticle(ErrorWeight):
    """Gate on the *squared* error of each member, at most c: PP-EnKF."""

    c: Number | None = None

    def __call__(self, errors: Array) -> Array:
        """Compute weights per member and observation, (N, M)."""
        # The error of a member has twice the variance of a residual: that of the truth and that of the member.
        c = 2.0 * threshold(MahalanobisThreshold, 1, EFFICIENCY) * _spread(errors)[None] if self.c is None else self.c
        return jnp.where(errors**2 <= c, 1.0, 0.0).astype(errors.dtype)


@pytree
class Clipped(ErrorWeight):
    """Errors clipped at ±c, as a weight min(1, c / |error|): the Huberised EnKF of Roh et al. (2013)."""

    c: Number | None = None

    def __call__(self, errors: Array) -> Array:
        """Compute weights per member and observation, (N, M)."""
        c = threshold(Huber, 1, EFFICIENCY) * jnp.sqrt(2.0 * _spread(errors))[None] if self.c is None else self.c
        sizes = jnp.abs(errors)
        return jnp.where(sizes > c, c / jnp.where(sizes > 0, sizes, 1.0), 1.0).astype(errors.dtype)


@pytree
class SampledGain(Analysis):
    """Update as published: perturbed predictions also in the gain, weights on the errors only."""

    @property
    def requirements(self) -> AnalysisRequirements:
        """Requirements of the analysis."""
        return AnalysisRequirements(perturbed=True, per_member=True, error_weights=True)

    def __call__(
        self,
        mean: Array,
        anomalies: Array,
        sight: ObservationEnsemble,
        weight: Array,
        draws: Array,
        key: Array,
        taper: tuple | None,
    ) -> AnalysisResult:
        """Update every member; arguments as in `Stochastic`."""
        errors, predicted = perturbed(sight, draws), _predicted_anomalies(sight, draws)
        weighted = errors * (weight if weight.ndim == 2 else weight[None])
        if sight.wide:  # the same gain by the pseudo-inverse, in the space of members
            gram = linalg.matmul_symmetric(predicted, predicted.T)
            ridge = RELATIVE_RIDGE * jnp.trace(gram) * jnp.eye(gram.shape[0], dtype=gram.dtype)
            factor = linalg.cholesky(gram + ridge)
            return AnalysisResult(
                mean, anomalies + factor.solve(linalg.matmul(predicted, sight.noise.white(weighted).T)).T @ anomalies
            )
        inner = linalg.matmul_symmetric(predicted.T, predicted) + jnp.diag(1.0 - sight.observed)
        gain_t = linalg.cholesky(inner).solve(predicted.T @ anomalies)
        return AnalysisResult(mean, anomalies + sight.noise.white(weighted) @ gain_t)


def perturbed(sight: ObservationEnsemble, draws: Array) -> Array:
    """Compute the errors `y - ŷ_i` of perturbed predictions, (N, M)."""
    return sight.observed[None] * (sight.residual[None] - sight.deviations - sight.noise.colour(draws))


def _spread(errors: Array) -> Array:
    return ((errors - errors.mean(0)[None]) ** 2).sum(0) / (errors.shape[0] - 1)


def _predicted_anomalies(sight: ObservationEnsemble, draws: Array) -> Array:
    """Compute the anomalies of perturbed predictions in whitened coordinates, (N, M)."""
    predictions = sight.noise.white(sight.deviations) + sight.observed[None] * draws
    return predictions - predictions.mean(0)[None]
