"""Filter whose predicted covariance is Q alone, as in the derivation of Ting et al. (2007) for known F and H."""

from jax import Array

from wolf.beliefs import Gaussian
from wolf.inference.filters.gaussian import GaussianFilter, GaussianState
from wolf.inference.filters.wrapper import FilterWrapper
from wolf.interfaces import Requirements
from wolf.numerics.pytree import pytree
from wolf.statespace import Model


@pytree
class CovarianceReset(FilterWrapper):
    """Filter that predicts with covariance Q instead of F P Fᵀ + Q.

    Args:
        filter: inner filter, whose predicted covariance is replaced.
    """

    filter: GaussianFilter

    @property
    def requirements(self) -> Requirements:
        """Requirements of the inner filter."""
        return self.filter.requirements

    def predict(self, now: Model, state: GaussianState, u: Array | None, key: Array | None = None) -> GaussianState:
        """Predict one step ahead, with covariance Q."""
        predicted = self.filter.predict(now, state, u, key)
        return predicted._replace(belief=predicted.belief.replaced(Gaussian(predicted.mean, now.dynamics_cov)))
