"""Base class of filters that wrap another filter and delegate to it."""

import dataclasses
from typing import Any, Self

from jax import Array

from wolf.inference.filters.gaussian import GaussianFilter, GaussianState
from wolf.interfaces import Filter, Linearization, Measurement, NoiseModel, Requirements, StepInfo
from wolf.statespace import Model


class FilterWrapper(Filter):
    """Filter that delegates to an inner filter; a subclass is a pytree and overrides methods."""

    filter: Any

    def __post_init__(self) -> None:
        """Validate that the inner filter has a Gaussian belief."""
        if not isinstance(self.filter, GaussianFilter):
            raise ValueError(
                f"{type(self).__name__} takes a filter with a Gaussian belief, as wolf.WoLF(); got {self.filter!r}"
            )

    @property
    def requirements(self) -> Requirements:
        """Requirements of the inner filter, one series at a time."""
        return self.filter.requirements | Requirements()

    @property
    def linearization(self) -> Linearization | None:
        """Linearization of the inner filter."""
        return self.filter.linearization

    @property
    def noise(self) -> NoiseModel:
        """Noise model of the inner filter."""
        return self.filter.noise

    def check(self, model: Model) -> None:
        """Validate the model for the inner filter."""
        self.filter.check(model)

    def suited(self, model: Model) -> Self:
        """Return a copy whose inner filter has the numerical form for the model."""
        return dataclasses.replace(self, filter=self.filter.suited(model))  # type: ignore[type-var]

    def init(self, model: Model, key: Array | None = None) -> GaussianState:
        """Return the initial state from the model's prior."""
        return self.filter.init(model, key)

    def predict(self, now: Any, state: GaussianState, u: Array | None, key: Array | None = None) -> GaussianState:
        """Predict one step ahead."""
        return self.filter.predict(now, state, u, key)

    def update(
        self, now: Any, state: GaussianState, y: Measurement, u: Array | None, key: Array | None = None
    ) -> tuple[GaussianState, StepInfo]:
        """Update with one measurement."""
        return self.filter.update(now, state, y, u, key)
