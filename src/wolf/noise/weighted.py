"""A weight function as a noise rule: one look at the residual, no spread (Duran-Martin et al. 2024, section 3)."""

from typing import Any, ClassVar

from wolf import weights
from wolf.numerics.pytree import function, pytree
from wolf.protocols import Believed, Evidence


@pytree
class Weighted:
    """Believe a measurement as far as a weight function says.

    Args:
        weight: `weight(residual, obs_cov, innovation_cov)`, see `wolf.weights`.
    """

    weight: Any = function()

    handles_series: ClassVar[bool] = True

    def __call__(self, seen: Evidence) -> Believed:
        """Evaluate the weight at the predicted belief."""
        return Believed(weights.evaluate(self.weight, seen.residual, seen.obs_cov, seen.innovation, seen.observed))
