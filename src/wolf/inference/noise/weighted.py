"""A weight function as a noise rule: one look at the residual, no spread (Duran-Martin et al. 2024, section 3)."""

from typing import Any

from wolf.beliefs.updates import Weigh
from wolf.inference import weights
from wolf.interfaces import Believed, Evidence, Needs, NoiseRule
from wolf.numerics.pytree import function, pytree


@pytree
class Weighted(NoiseRule):
    """Believe a measurement as far as a weight function says.

    Args:
        weight: `weight(residual, obs_cov, innovation_cov)`, see `wolf.weights`.
    """

    weight: Any = function()

    @property
    def needs(self) -> Needs:
        """Nothing: many series run together."""
        return Needs(one_series=False)

    def __call__(self, seen: Evidence) -> Believed:
        """Evaluate the weight at the predicted belief."""
        weight = weights.evaluate(self.weight, seen.residual, seen.obs_cov, seen.innovation, seen.observed)
        return Believed(Weigh(weight))
