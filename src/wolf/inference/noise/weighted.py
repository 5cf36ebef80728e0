"""A weight function as a noise model: generalised Bayes with a weight of the residual (Duran-Martin et al. 2024)."""

from wolf.beliefs.updates import GateUpdate, NoiseFactorUpdate, WeightedUpdate
from wolf.inference import weights
from wolf.interfaces import NoiseModel, Requirements, UpdateContext, UpdateDecision, WeightFunction
from wolf.numerics.pytree import function, pytree


@pytree
class Weighted(NoiseModel[tuple]):
    """Weight the log-likelihood of a measurement by a weight function.

    Args:
        weight: `weight(residual, obs_cov, innovation_cov)`, see `wolf.weights`.
    """

    weight: WeightFunction = function()

    @property
    def requirements(self) -> Requirements:
        """None: many series run together."""
        return Requirements(one_series=False)

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Evaluate the weight at the predicted belief."""
        measured = context.residual, context.obs_cov, context.innovation, context.observed
        if isinstance(self.weight, weights.MahalanobisThreshold):
            accepted = self.weight.accepts(*measured)
            return UpdateDecision(GateUpdate(accepted.astype(context.residual.dtype)))
        weight = weights.evaluate(self.weight, *measured)
        factor = self.weight.noise_factor(*measured) if isinstance(self.weight, weights.Weight) else None
        if factor is None:
            return UpdateDecision(WeightedUpdate(weight))
        return UpdateDecision(NoiseFactorUpdate(factor, weights.largest_factor(factor), weight))
