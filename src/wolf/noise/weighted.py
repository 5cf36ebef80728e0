"""A weight function as a noise rule: one look at the residual, no spread (Duran-Martin et al. 2024, section 3)."""

from typing import Any, ClassVar

from jax import Array

from wolf import gaussian, weights
from wolf.linalg import Cholesky
from wolf.pytree import pytree
from wolf.types import Affine, Believed, Gaussian, RootGaussian


@pytree
class Weighted:
    """Believe a measurement as far as a weight function says.

    Args:
        weight: `weight(residual, obs_cov, innovation_cov)`, see `wolf.weights`.
    """

    weight: Any

    handles_series: ClassVar[bool] = True

    def __call__(
        self,
        residual: Array,
        view: Affine,
        belief: Gaussian | RootGaussian,
        obs_cov: Array,
        observed: Array | None = None,
        innovation: Cholesky | None = None,
    ) -> Believed:
        """Evaluate the weight at the predicted belief."""
        factor = gaussian.innovation(belief, view, obs_cov) if innovation is None else innovation
        return Believed(weights.evaluate(self.weight, residual, obs_cov, factor, observed))
