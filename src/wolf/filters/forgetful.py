"""A filter that forgets its covariance at every step, as Ting et al. (2007) derive theirs for known F and H."""

import dataclasses

from jax import Array

from wolf.belief import Gaussian
from wolf.filters.gaussian import GaussianFilter, GaussianState
from wolf.numerics.pytree import pytree
from wolf.protocols import Filter, Info, Measurement, Moments, Needs, NoiseRule
from wolf.statespace import Model


@pytree
class Forgetful(Filter):
    """Predict with covariance Q alone instead of F P Fᵀ + Q.

    Args:
        filter: whose predictions lose their covariance.
    """

    filter: GaussianFilter

    def __post_init__(self) -> None:
        """Check the filter inside."""
        if not isinstance(self.filter, GaussianFilter):
            raise ValueError(f"Forgetful takes a filter with a Gaussian belief, as wolf.WoLF(); got {self.filter!r}")

    @property
    def needs(self) -> Needs:
        """What the filter inside needs."""
        return self.filter.needs

    @property
    def moments(self) -> Moments:
        """Moments of the filter inside."""
        return self.filter.moments

    @property
    def noise(self) -> NoiseRule:
        """Noise rule of the filter inside."""
        return self.filter.noise

    def check(self, model: Model) -> None:
        """Refuse what the filter inside refuses."""
        self.filter.check(model)

    def suited(self, model: Model) -> "Forgetful":
        """Put the filter inside into the form that holds."""
        return dataclasses.replace(self, filter=self.filter.suited(model))

    def init(self, model: Model, key: Array | None = None) -> GaussianState:
        """Start from the model's prior."""
        return self.filter.init(model, key)

    def predict(self, now: Model, state: GaussianState, u: Array | None, key: Array | None = None) -> GaussianState:
        """Go forward, and forget."""
        ahead = self.filter.predict(now, state, u, key)
        return ahead._replace(belief=ahead.belief.replaced(Gaussian(ahead.mean, now.dynamics_cov)))

    def update(
        self, now: Model, state: GaussianState, y: Measurement, u: Array | None, key: Array | None = None
    ) -> tuple[GaussianState, Info]:
        """Learn from one measurement."""
        return self.filter.update(now, state, y, u, key)
