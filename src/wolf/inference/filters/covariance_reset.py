"""A filter that forgets its covariance at every step, as Ting et al. (2007) derive theirs for known F and H."""

from jax import Array

from wolf.beliefs import Gaussian
from wolf.inference.filters.gaussian import GaussianFilter, GaussianState
from wolf.inference.filters.wrapper import FilterWrapper
from wolf.interfaces import Requirements
from wolf.numerics.pytree import pytree
from wolf.statespace import Model


@pytree
class CovarianceReset(FilterWrapper):
    """Predict with covariance Q alone instead of F P Fᵀ + Q.

    Args:
        filter: whose predictions lose their covariance.
    """

    filter: GaussianFilter

    @property
    def requirements(self) -> Requirements:
        """What the filter inside needs."""
        return self.filter.requirements

    def predict(self, now: Model, state: GaussianState, u: Array | None, key: Array | None = None) -> GaussianState:
        """Go forward, and forget."""
        ahead = self.filter.predict(now, state, u, key)
        return ahead._replace(belief=ahead.belief.replaced(Gaussian(ahead.mean, now.dynamics_cov)))
