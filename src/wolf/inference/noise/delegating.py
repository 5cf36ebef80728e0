"""Base class of noise models around another one: every member is forwarded, and subclasses override what differs."""

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from wolf.beliefs import Affine, Belief
from wolf.inference.noise.noise_estimate import NoiseEstimate
from wolf.interfaces import Measurement, MemoryT, NoiseModel, Requirements
from wolf.numerics.pytree import PyTree
from wolf.statespace import Bound, LinearMap, Model

TreeT = TypeVar("TreeT")  # any nesting of arrays


class DelegatingNoise(NoiseModel[MemoryT]):
    """Noise model that forwards to the one it wraps.

    A subclass is a pytree with a field `base`, and implements `__call__`. Where its memory is more than that of `base`,
    it also overrides `start`, `base_memory` and `with_base_memory`. Not forwarded are the members that a wrapper calls
    on the model inside (`shared_memory`, `with_shared_memory`, `snapshot`, `after_jump`), and `time_varying_fields`,
    which are fields of one object.
    """

    base: NoiseModel[Any]

    @property
    def requirements(self) -> Requirements:
        """Requirements of the wrapped noise model, one series at a time."""
        return self.base.requirements | Requirements()

    @property
    def is_mixture(self) -> bool:
        """Whether the wrapped noise model is a mixture."""
        return self.base.is_mixture

    @property
    def revises_prior(self) -> bool:
        """Whether the wrapped noise model may revise the prediction."""
        return self.base.revises_prior

    @property
    def innermost(self) -> NoiseModel[Any]:
        """The noise model inside all wrappers."""
        return self.base.innermost

    def base_memory(self, memory: MemoryT) -> PyTree:
        """Return the memory of the wrapped noise model."""
        return memory

    def with_base_memory(self, memory: MemoryT, base_memory: PyTree) -> MemoryT:
        """Return a memory with that of the wrapped noise model replaced."""
        return base_memory  # type: ignore[no-any-return]

    def check(self, model: Model) -> None:
        """Raise ValueError for a state-space model that the wrapped noise model does not support."""
        self.base.check(model)

    def start(self, model: Model) -> MemoryT:
        """Return the initial memory of the wrapped noise model."""
        return self.base.start(model)  # type: ignore[no-any-return]

    def noise_estimate(self, memory: MemoryT) -> NoiseEstimate | list[NoiseEstimate] | None:
        """Return the estimate of the wrapped noise model."""
        return self.base.noise_estimate(self.base_memory(memory))

    def predict(self, memory: MemoryT, view: Affine, noise_cov: Array | None, t: Array) -> tuple[Array | None, MemoryT]:
        """Return the Q and the memory of the wrapped noise model."""
        noise_cov, base_memory = self.base.predict(self.base_memory(memory), view, noise_cov, t)
        return noise_cov, self.with_base_memory(memory, base_memory)

    def predict_measurement(
        self, memory: MemoryT, view: Affine, belief: Belief, dynamics: LinearMap | Bound, noise_cov: Array | None
    ) -> tuple[Affine, PyTree]:
        """Return the predicted measurement of the wrapped noise model."""
        return self.base.predict_measurement(self.base_memory(memory), view, belief, dynamics, noise_cov)

    def screen(self, memory: MemoryT, y: Measurement) -> tuple[Measurement, MemoryT]:
        """Return the measurement and the memory as the wrapped noise model does."""
        kept, base_memory = self.base.screen(self.base_memory(memory), y)
        return kept, self.with_base_memory(memory, base_memory)

    def after_unusable(self, memory: MemoryT, unusable: Array) -> MemoryT | None:
        """Return the memory with that of the wrapped noise model after infinite numbers."""
        counted = self.base.after_unusable(self.base_memory(memory), unusable)
        return None if counted is None else self.with_base_memory(memory, counted)

    def sensor_slices(self, size: int) -> list[Any]:
        """Return the coordinates of each sensor of the wrapped noise model."""
        return self.base.sensor_slices(size)

    def sensor_numbers(self, count: int) -> list[int]:
        """Return the numbers of the sensors of the wrapped noise model."""
        return self.base.sensor_numbers(count)


def select(condition: Array, new: TreeT, old: TreeT) -> TreeT:
    """Select between two trees of arrays, leaf by leaf.

    Args:
        condition: ().
        new: where it is true.
        old: where it is not, of the same structure.
    """
    return jax.tree.map(lambda new, old: jnp.where(condition, new, old), new, old)
