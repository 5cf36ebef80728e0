"""A weight function as a noise rule: one look at the residual, no spread (Duran-Martin et al. 2024, section 3)."""

from typing import Any

from wolf.beliefs.updates import WeightedUpdate
from wolf.inference import weights
from wolf.interfaces import NoiseModel, Requirements, UpdateContext, UpdateDecision
from wolf.numerics.pytree import function, pytree


@pytree
class Weighted(NoiseModel):
    """Believe a measurement as far as a weight function says.

    Args:
        weight: `weight(residual, obs_cov, innovation_cov)`, see `wolf.weights`.
    """

    weight: Any = function()

    @property
    def requirements(self) -> Requirements:
        """Nothing: many series run together."""
        return Requirements(one_series=False)

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Evaluate the weight at the predicted belief."""
        weight = weights.evaluate(self.weight, context.residual, context.obs_cov, context.innovation, context.observed)
        return UpdateDecision(WeightedUpdate(weight))
