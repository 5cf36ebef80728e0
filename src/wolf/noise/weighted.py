"""A weight function as a noise rule: one look at the residual, no spread (Duran-Martin et al. 2024, section 3)."""

from typing import Any, ClassVar

from jax import Array

from wolf import weights
from wolf.linalg import Cholesky
from wolf.pytree import function, pytree
from wolf.types import Affine, Believed, Gaussian, RootGaussian


@pytree
class Weighted:
    """Believe a measurement as far as a weight function says.

    Args:
        weight: `weight(residual, obs_cov, innovation_cov)`, see `wolf.weights`.
    """

    weight: Any = function()

    handles_series: ClassVar[bool] = True

    def __call__(
        self,
        residual: Array,
        view: Affine,
        belief: Gaussian | RootGaussian,
        obs_cov: Array,
        observed: Array,
        innovation: Cholesky,
    ) -> Believed:
        """Evaluate the weight at the predicted belief."""
        return Believed(weights.evaluate(self.weight, residual, obs_cov, innovation, observed))
