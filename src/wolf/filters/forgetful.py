"""A filter that forgets its covariance at every step, as Ting et al. (2007) derive theirs for known F and H."""

from typing import Any

from jax import Array

from wolf.belief import Gaussian, RootGaussian
from wolf.filters.gaussian import GaussianState
from wolf.numerics import linalg
from wolf.numerics.pytree import pytree
from wolf.protocols import Info, Measurement
from wolf.statespace import Model


@pytree
class Forgetful:
    """Predict with covariance Q alone instead of F P Fᵀ + Q.

    Args:
        filter: whose predictions lose their covariance.
    """

    filter: Any

    @property
    def moments(self) -> Any:
        """Read the moments of the filter inside."""
        return self.filter.moments

    @property
    def noise(self) -> Any:
        """Read the noise rule of the filter inside."""
        return self.filter.noise

    def init(self, model: Model, key: Array | None = None) -> GaussianState:
        """Start from the model's prior."""
        return self.filter.init(model, key)

    def predict(self, now: Model, state: GaussianState, u: Array | None, key: Array | None = None) -> GaussianState:
        """Go forward, and forget."""
        ahead = self.filter.predict(now, state, u, key)
        if isinstance(ahead.belief, RootGaussian):
            return ahead._replace(belief=RootGaussian(ahead.mean, linalg.psd_root(now.dynamics_cov)))
        return ahead._replace(belief=Gaussian(ahead.mean, now.dynamics_cov))

    def update(
        self, now: Model, state: GaussianState, y: Measurement, u: Array | None, key: Array | None = None
    ) -> tuple[GaussianState, Info]:
        """Learn from one measurement."""
        return self.filter.update(now, state, y, u, key)
