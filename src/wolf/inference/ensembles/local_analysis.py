"""Serial and local analyses, by observation or by state; both require independent noise (R as variances)."""

import math

import jax
import jax.numpy as jnp
from jax import Array

from wolf.inference.ensembles.analysis import Taper, rotated
from wolf.inference.ensembles.interfaces import Analysis, AnalysisRequirements, AnalysisResult
from wolf.inference.ensembles.observation_ensemble import ObservationEnsemble
from wolf.numerics.pytree import pytree, static

STATES_PER_BATCH = 256  # local analyses solved together: enough to keep the cores busy, few enough to stay in cache


@pytree
class EnSRF(Analysis):
    """Serial ensemble square-root filter: observations one by one, without draws (Whitaker & Hamill 2002)."""

    @property
    def requirements(self) -> AnalysisRequirements:
        """Requirements of the analysis."""
        return AnalysisRequirements(geometry="covariance", independent=True)

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
        """Update with one observation after the other; arguments as in `Stochastic`."""
        signal, error = sight.weighed(weight)

        def assimilate(carry: tuple, row: tuple) -> tuple[tuple, None]:
            mean, anomalies, signal, error = carry
            j, tapers = row
            column = signal[:, j]
            total = (column**2).sum() / sight.degrees + 1.0
            gain, obs_gain = column @ anomalies / (sight.degrees * total), column @ signal / (sight.degrees * total)
            if tapers is not None:
                gain, obs_gain = tapers.cross * gain, tapers.between * obs_gain
            reduction = 1.0 / (1.0 + jnp.sqrt(1.0 / total))
            step = error[j]
            mean, error = mean + step * gain, error - step * obs_gain
            anomalies = anomalies - reduction * column[:, None] * gain[None]
            signal = signal - reduction * column[:, None] * obs_gain[None]
            return (mean, anomalies, signal, error), None

        rows = (jnp.arange(error.shape[0]), taper)
        (mean, anomalies, _, _), _ = jax.lax.scan(assimilate, (mean, anomalies, signal, error), rows)
        return AnalysisResult(mean, anomalies)


@pytree
class LETKF(Analysis):
    """Local ensemble transform: each state with the observations near it, precision tapered (Hunt et al. 2007).

    Args:
        rotate: as in `ETKF`; the same rotation for all states.
    """

    rotate: bool = static(default=False)

    @property
    def requirements(self) -> AnalysisRequirements:
        """Requirements of the analysis."""
        return AnalysisRequirements(geometry="observations", independent=True)

    def __call__(
        self,
        mean: Array,
        anomalies: Array,
        sight: ObservationEnsemble,
        weight: Array,
        draws: Array | None,
        key: Array,
        near: tuple,
    ) -> AnalysisResult:
        """Solve one small problem for each state.

        Args:
            mean: (D,).
            anomalies: (N, D).
            sight: predictions and residual of the measurement.
            weight: (M,).
            draws: not used.
            key: of the rotation.
            near: indices of the observations near each state, (D, K), and the roots of their tapers, (D, K).
        """
        signal, error = sight.weighed(weight)
        columns, numbers, roots = signal.T, *near

        def one(row: tuple) -> tuple[Array, Array]:
            anomaly, which, root = row
            local, local_error = columns[which] * root[:, None], error[which] * root
            if local.shape[0] < local.shape[1]:
                return _in_observation_space(anomaly, local, local_error, sight.degrees)
            values, vectors = jnp.linalg.eigh(local.T @ local)
            values = jnp.maximum(values, 0.0) + sight.degrees
            inner = vectors.T @ anomaly
            step = ((vectors.T @ (local_error @ local)) / values) @ inner
            return step, vectors @ (jnp.sqrt(sight.degrees / values) * inner)

        size = min(STATES_PER_BATCH, anomalies.shape[1])
        steps, after = jax.lax.map(one, (anomalies.T, numbers, roots), batch_size=size)
        return AnalysisResult(mean + steps, rotated(key, after.T) if self.rotate else after.T)


def _in_observation_space(anomaly: Array, local: Array, local_error: Array, degrees: int) -> tuple[Array, Array]:
    """Solve one small problem with fewer observations, K, than members: the same transform, of rank K.

    With `L = local`, `L Lᵀ = V diag(x) Vᵀ` and n degrees of freedom, `(I + Lᵀ L / n)^(-1/2) = I - Lᵀ V diag(f(x)) Vᵀ L`
    and `f(x) = (1 - √(n / (x + n))) / x`.

    Args:
        anomaly: of one state, (N,).
        local: tapered signal of the observations near it, (K, N).
        local_error: their tapered errors, (K,).
        degrees: n.

    Returns:
        Step of the mean, and the anomaly after it, (N,).
    """
    values, vectors = jnp.linalg.eigh(local @ local.T)
    values = jnp.maximum(values, 0.0) + degrees
    cross = vectors.T @ (local @ anomaly)
    step = ((vectors.T @ local_error) / values) @ cross
    root = jnp.sqrt(values)
    shrink = 1.0 / (root * (math.sqrt(degrees) + root))  # f(x) without the division by x, which may be 0
    return step, anomaly - (vectors @ (shrink * cross)) @ local
