"""EKF-IW as the authors' library of February 2024 ran it (gerdm/rebayes-mini, `ExtendedKalmanFilterInverseWishart`).

Each inner iterate takes the Jacobian and the residual of its scale matrix at its own mean, but the innovation stays
that of the prediction, so it is neither the box of the paper (linearised once) nor an iterated EKF:

    H_i = ∂h(μ_i)    S_i = ‖y - h(μ_i)‖² 11ᵀ + H_i Σ_i H_iᵀ    Λ_i = (ℓ R + S_i) / (ℓ + 1)
    K_i = P H_iᵀ (H_i P H_iᵀ + Λ_i)⁻¹    μ_{i+1} = μ + K_i (y - h(μ))    Σ_{i+1} = P - K_i H_i P

from μ_0 = μ and Σ_0 = P, the prediction. For one measured coordinate ‖·‖² 11ᵀ is the square that the box has. A large
residual moves μ_1 far away, where H is another one: with networks some runs diverge, as some of the published ones did.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from wolf import validation
from wolf.beliefs import Gaussian
from wolf.inference.filters import GaussianFilter
from wolf.inference.filters.gaussian import GaussianState
from wolf.interfaces import Filter, Measurement, StepInfo
from wolf.numerics.pytree import pytree, static
from wolf.statespace import Model


@pytree
class PublishedWishart(Filter):
    """Filter with the published iteration; a row with a missing coordinate is skipped.

    Args:
        scaling: ℓ.
        iterations: I.
    """

    scaling: Any
    iterations: int = static(default=4)

    def __post_init__(self) -> None:
        """Check the choices."""
        validation.positive("scaling", self.scaling)
        validation.count("iterations", self.iterations)

    def init(self, model: Model, key: Array | None = None) -> GaussianState:
        """Start from the prior."""
        belief = Gaussian(*map(jnp.asarray, model.prior))
        return GaussianState(belief, jnp.zeros((), jnp.int32))

    def predict(self, now: Model, state: GaussianState, u: Array | None, key: Array | None = None) -> GaussianState:
        """Predict one step ahead, as the extended Kalman filter does."""
        return GaussianFilter().predict(now, state, u)

    def update(
        self, now: Model, state: GaussianState, y: Measurement, u: Array | None, key: Array | None = None
    ) -> tuple[GaussianState, StepInfo]:
        """Update with one measurement."""
        observe, mean, cov = now.projection(u), state.belief.mean, state.belief.cov
        residual = now.subtract(y.value, observe(mean))
        obs_cov = now.obs_cov_at(mean, u)

        def iterate(_: int, values: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            at, gain, cross = values  # Σ_i = P - gain crossᵀ
            jac = jax.jacrev(observe)(at)
            new_cross = cov @ jac.T
            signal = jac @ new_cross
            square = (now.subtract(y.value, observe(at)) ** 2).sum()
            noise = self.scaling * obs_cov + square + signal - (jac @ gain) @ (jac @ cross).T
            noise = noise / (self.scaling + 1.0)
            new_gain = jnp.linalg.solve(signal + noise, new_cross.T).T
            return mean + new_gain @ residual, new_gain, new_cross

        blank = jnp.zeros((len(mean), len(residual)), mean.dtype)
        moved, gain, cross = jax.lax.fori_loop(0, self.iterations, iterate, (mean, blank, blank))
        used = (y.num_observed == len(residual)) & ~y.non_finite
        belief = Gaussian(jnp.where(used, moved, mean), cov - jnp.where(used, gain, 0.0) @ cross.T)
        weight = jnp.where(used, 1.0, 0.0).astype(mean.dtype)
        info = StepInfo(
            predicted=Gaussian(mean, cov), residual=y.observed * residual, weight=weight, outlier=y.any_present & ~used
        )
        return GaussianState(belief, state.t + 1), info
