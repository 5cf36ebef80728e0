"""RoLF: generalised Bayes for the process as well as for the measurement (Liu 2025, arXiv 2511.19157).

The measurement has the weight of WoLF-MD; the process has a fading factor of strong tracking (Zhou & Frank 1996) that
enlarges the propagated covariance, P = θ F P Fᵀ + Q, where a residual is larger than the model explains:

    V = ρ (H F P Fᵀ Hᵀ + R) + (1 - ρ) e eᵀ
    θ = max(1, tr(V - R - H Q Hᵀ) / tr(H F P Fᵀ Hᵀ))

The paper's bracket leaves open what ρ multiplies, and prints H P Hᵀ with the previous P: here V is a convex
combination, whose expectation is the covariance of e, and P is propagated. The values of ρ and c are not in its text.
As θ has the residual of the same step, the influence of one measurement is unbounded: for a scalar state the gain
tends to (1 - ρ)/((1 - ρ) + 1/c²) as |e| -> ∞. `bounded=True` computes θ from the weighted residual w e, which is ours
and bounds it again.
"""

from typing import Any

import jax.numpy as jnp
from jax import Array

from wolf import validation
from wolf.beliefs import Affine, Gaussian
from wolf.beliefs.gaussian import spread_out
from wolf.beliefs.updates import RevisedPriorUpdate
from wolf.inference import weights
from wolf.interfaces import NoiseModel, Number, UpdateContext, UpdateDecision
from wolf.numerics import linalg
from wolf.numerics.linalg import sum_leading
from wolf.numerics.pytree import pytree, static
from wolf.statespace import Model

FORGETTING = 0.95  # customary in strong-tracking filters


@pytree
class StrongTracking(NoiseModel[Array]):
    """Weight the measurement as WoLF-MD, and enlarge the propagated covariance by a fading factor.

    Args:
        c: of `MahalanobisIMQ`, in the metric R; None is calibrated.
        forgetting: ρ, between 0 and 1; 1 never enlarges.
        bounded: whether the fading factor has the weighted residual.
    """

    c: Number | None = None
    forgetting: Number = FORGETTING
    bounded: bool = static(default=False)

    def __post_init__(self) -> None:
        """Validate the options."""
        validation.positive("c", self.c)
        validation.probability("forgetting", self.forgetting)
        validation.boolean("bounded", self.bounded)

    @property
    def revises_prior(self) -> bool:
        """True: the prediction is down-weighted too."""
        return True

    def start(self, model: Model) -> Array:
        """Return Q as if the state had not moved."""
        return jnp.zeros((model.state_dim,) * 2, jnp.asarray(model.prior.mean).dtype)

    def predict(self, memory: Array, view: Affine, noise_cov: Array | None, t: Array) -> tuple[Array | None, Any]:
        """Remember Q, which the fading factor leaves alone."""
        kept = jnp.zeros_like(memory)
        return noise_cov, kept if noise_cov is None else kept + spread_out(noise_cov, memory)

    def __call__(self, context: UpdateContext[Array]) -> UpdateDecision[Array]:
        """Compute the weight and the fading factor."""
        weight = weights.MahalanobisIMQ(self.c)(context.residual, context.obs_cov, context.innovation, context.observed)
        total = _trace(context.belief.signal(context.view))
        process = _trace(linalg.sandwich(context.view.jac, context.memory))
        moved = total - process  # tr H F P Fᵀ Hᵀ
        known = moved > jnp.finfo(total.dtype).eps * total
        noise = sum_leading(context.observed * linalg.diagonal(context.obs_cov))
        used = weight * context.residual if self.bounded else context.residual
        expected = self.forgetting * (moved + noise) + (1.0 - self.forgetting) * sum_leading(used**2)
        fading = jnp.where(known, jnp.maximum((expected - noise - process) / jnp.where(known, moved, 1.0), 1.0), 1.0)
        belief = context.belief
        prior = Gaussian(belief.mean, belief.cov + (fading - 1.0) * (belief.cov - context.memory))
        return UpdateDecision(RevisedPriorUpdate(prior, weight), memory=context.memory)


def _trace(a: Array) -> Array:
    return sum_leading(linalg.diagonal(a))
