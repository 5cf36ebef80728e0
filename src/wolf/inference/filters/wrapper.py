"""What filters around another one share: they ask it, and pass on what it needs and refuses."""

import dataclasses
from typing import Any, Self

from jax import Array

from wolf.inference.filters.gaussian import GaussianFilter, GaussianState
from wolf.interfaces import Filter, Linearization, Measurement, NoiseModel, Requirements, StepInfo
from wolf.statespace import Model


class FilterWrapper(Filter):
    """Do what the filter inside does; a subclass is a pytree and writes what it does otherwise."""

    filter: Any

    def __post_init__(self) -> None:
        """Refuse a filter inside without a Gaussian belief."""
        if not isinstance(self.filter, GaussianFilter):
            raise ValueError(
                f"{type(self).__name__} takes a filter with a Gaussian belief, as wolf.WoLF(); got {self.filter!r}"
            )

    @property
    def requirements(self) -> Requirements:
        """What the filter inside needs, one series at a time."""
        return self.filter.requirements | Requirements()

    @property
    def linearization(self) -> Linearization | None:
        """Moments of the filter inside."""
        return self.filter.linearization

    @property
    def noise(self) -> NoiseModel:
        """Noise rule of the filter inside."""
        return self.filter.noise

    def check(self, model: Model) -> None:
        """Refuse what the filter inside refuses."""
        self.filter.check(model)

    def suited(self, model: Model) -> Self:
        """Put the filter inside into the form that holds."""
        return dataclasses.replace(self, filter=self.filter.suited(model))  # type: ignore[type-var]

    def init(self, model: Model, key: Array | None = None) -> GaussianState:
        """Start from the model's prior, as it is."""
        return self.filter.init(model, key)

    def predict(self, now: Any, state: GaussianState, u: Array | None, key: Array | None = None) -> GaussianState:
        """Go forward one step in time."""
        return self.filter.predict(now, state, u, key)

    def update(
        self, now: Any, state: GaussianState, y: Measurement, u: Array | None, key: Array | None = None
    ) -> tuple[GaussianState, StepInfo]:
        """Learn from one measurement."""
        return self.filter.update(now, state, y, u, key)
