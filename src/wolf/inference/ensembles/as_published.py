"""The paper's ensemble filters as printed (Duran-Martin et al. 2024, appendix "Weighted ensembles").

Perturbed predictions `ŷ_i = h(x_i) + N(0, R)` give the gain `cov(x, ŷ) var(ŷ)⁻¹` and the errors `y - ŷ_i`, which are
then weighed: `x_i + K Diag(w) (y - ŷ_i)`. The gain comes from the *unweighted* predictions, so these filters do not
converge to the weighted Kalman filter as N grows, unless all weights are 1; those of
`wolf.inference.ensembles.analysis` do.
"""

from typing import Any

import jax.numpy as jnp
from jax import Array

from wolf import validation
from wolf.inference.ensembles.interfaces import Analysis, AnalysisRequirements, AnalysisResult
from wolf.inference.ensembles.observation_ensemble import ObservationEnsemble
from wolf.inference.weights import EFFICIENCY, Huber, MahalanobisThreshold
from wolf.inference.weights.calibration import threshold
from wolf.numerics import linalg
from wolf.numerics.pytree import pytree

RIDGE = 1e-10  # relative; with fewer members than observations the sampled var(ŷ) is singular, and this its inverse


class ErrorWeight:
    """A rule that weighs the perturbed errors (N, M) of the members, in the units of y.

    `c=None` is calibrated to clean data from the spread of the errors over the members, which is that of a residual.
    """

    c: Any

    def __post_init__(self) -> None:
        validation.positive("c", self.c)

    def __call__(self, errors: Array) -> Array:
        """Weigh observations, (M,), or for each member, (N, M)."""
        raise NotImplementedError


@pytree
class AveragedParticle(ErrorWeight):
    """Keep an observation if its mean *squared* error over the members is at most c: AP-EnKF."""

    c: Any = None

    def __call__(self, errors: Array) -> Array:
        """Weigh observations, (M,)."""
        # The mean square is the square of the residual plus the spread.
        c = (1.0 + threshold(MahalanobisThreshold, 1, EFFICIENCY)) * _spread(errors) if self.c is None else self.c
        return jnp.where((errors**2).mean(0) <= c, 1.0, 0.0).astype(errors.dtype)


@pytree
class PerParticle(ErrorWeight):
    """Let each member keep an observation if its own *squared* error is at most c: PP-EnKF."""

    c: Any = None

    def __call__(self, errors: Array) -> Array:
        """Weigh observations for each member, (N, M)."""
        # A member's own error has the spread of a residual twice: once for the truth, once for the member.
        c = 2.0 * threshold(MahalanobisThreshold, 1, EFFICIENCY) * _spread(errors)[None] if self.c is None else self.c
        return jnp.where(errors**2 <= c, 1.0, 0.0).astype(errors.dtype)


@pytree
class Clipped(ErrorWeight):
    """Cut errors off at ±c, as a weight min(1, c / |error|): the Huberised EnKF of Roh et al. (2013)."""

    c: Any = None

    def __call__(self, errors: Array) -> Array:
        """Weigh observations for each member, (N, M)."""
        c = threshold(Huber, 1, EFFICIENCY) * jnp.sqrt(2.0 * _spread(errors))[None] if self.c is None else self.c
        sizes = jnp.abs(errors)
        return jnp.where(sizes > c, c / jnp.where(sizes > 0, sizes, 1.0), 1.0).astype(errors.dtype)


@pytree
class SampledGain(Analysis):
    """The printed update: perturbed predictions in the gain as well, weights on the errors only."""

    @property
    def requirements(self) -> AnalysisRequirements:
        """What the choices around it must be."""
        return AnalysisRequirements(perturbed=True, per_member=True, error_weights=True)

    def __call__(
        self,
        mean: Array,
        anomalies: Array,
        sight: ObservationEnsemble,
        weight: Array,
        draws: Array,
        key: Array,
        taper: Any,
    ) -> AnalysisResult:
        """Move every member; arguments as in `Stochastic`."""
        errors, seen = perturbed(sight, draws), _predicted(sight, draws)
        weighed = errors * (weight if weight.ndim == 2 else weight[None])
        if sight.wide:  # the same gain by the pseudo-inverse, in the space of members
            gram = linalg.matmul_symmetric(seen, seen.T)
            ridge = RIDGE * jnp.trace(gram) * jnp.eye(gram.shape[0], dtype=gram.dtype)
            factor = linalg.cholesky(gram + ridge)
            return AnalysisResult(
                mean, anomalies + factor.solve(linalg.matmul(seen, sight.noise.white(weighed).T)).T @ anomalies
            )
        inner = linalg.matmul_symmetric(seen.T, seen) + jnp.diag(1.0 - sight.observed)
        gain_t = linalg.cholesky(inner).solve(seen.T @ anomalies)
        return AnalysisResult(mean, anomalies + sight.noise.white(weighed) @ gain_t)


def perturbed(sight: ObservationEnsemble, draws: Array) -> Array:
    """Form the errors `y - ŷ_i` of perturbed predictions, (N, M)."""
    return sight.observed[None] * (sight.residual[None] - sight.deviations - sight.noise.colour(draws))


def _spread(errors: Array) -> Array:
    return ((errors - errors.mean(0)[None]) ** 2).sum(0) / (errors.shape[0] - 1)


def _predicted(sight: ObservationEnsemble, draws: Array) -> Array:
    """Form the anomalies of perturbed predictions in whitened coordinates, (N, M)."""
    seen = sight.noise.white(sight.deviations) + sight.observed[None] * draws
    return seen - seen.mean(0)[None]
