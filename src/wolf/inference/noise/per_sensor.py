"""Independent sensors, processed one after the other, each with a noise model memory of its own.

One weight for all sensors would reject the good ones with a faulty one. With R block diagonal over the sensors,
sequential updates equal the joint update; each sensor is then weighted given a belief that includes those before it.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import validation
from wolf.beliefs import Affine, Belief
from wolf.beliefs.updates import PosteriorUpdate
from wolf.inference.noise.delegating import DelegatingNoise, select
from wolf.interfaces import NoiseModel, UpdateContext, UpdateDecision
from wolf.numerics.linalg import matvec
from wolf.numerics.pytree import PyTree, pytree, static
from wolf.statespace import Bound, LinearMap, Model


@pytree
class PerSensorNoise(DelegatingNoise[tuple]):
    """Apply a noise model to each of several independent sensors.

    Args:
        base: any noise model.
        sensors: number of the sensor of each coordinate of the measurement, as (0, 0, 1); None for one sensor each.

    Example:
        >>> from wolf.inference.noise import AdaptiveScaleMixture
        >>> PerSensorNoise(AdaptiveScaleMixture(), sensors=(0, 0, 1)).sensors
        (0, 0, 1)
    """

    base: NoiseModel[Any]
    sensors: tuple[int, ...] | None = static(default=None)

    def __post_init__(self) -> None:
        """Validate the sensor numbers, and make them hashable."""
        if self.sensors is not None:
            object.__setattr__(self, "sensors", validation.groups("sensors", self.sensors))

    def sensor_slices(self, size: int) -> list[np.ndarray]:
        """Return the coordinates of each sensor."""
        numbers = range(size) if self.sensors is None else self.sensors
        return [np.flatnonzero(np.equal(numbers, each)) for each in dict.fromkeys(numbers)]

    def sensor_numbers(self, count: int) -> list[int]:
        """Return the numbers given to the sensors, in the order of their first coordinates; else 0, 1, ...

        Args:
            count: number of sensors.

        Example:
            >>> from wolf.inference.noise import AdaptiveScaleMixture
            >>> PerSensorNoise(AdaptiveScaleMixture(), sensors=(5, 5, 2)).sensor_numbers(2)
            [5, 2]
        """
        numbers = [] if self.sensors is None else list(dict.fromkeys(self.sensors))
        return numbers if len(numbers) == count else list(range(count))

    def check(self, model: Model) -> None:
        """Raise ValueError for sensors that the model lacks or whose noise is correlated."""
        super().check(model)
        size = model.obs_dim
        if self.sensors is not None and len(self.sensors) != size:
            raise ValueError(
                f"sensors must name the sensor of each of the {size} coordinates of a measurement; "
                f"got {len(self.sensors)}, {self.sensors}"
            )
        noise_cov = np.asarray(model.obs_cov)
        numbers = np.arange(size) if self.sensors is None else np.asarray(self.sensors)
        if noise_cov.ndim > 1 and np.any(noise_cov * (numbers[:, None] != numbers) != 0.0):
            raise ValueError("sensors must be independent: their noise in R is correlated; put those into one sensor")

    def start(self, model: Model) -> tuple:
        """Return the initial memory of each sensor; the first one holds the shared part."""
        first, *others = (self.base.start(model) for _ in self.sensor_slices(model.obs_dim))
        first = self.base.with_shared_memory(first, self.base.shared_memory(first))
        return (first, *(self.base.with_shared_memory(each, None) for each in others))

    def each(self, memory: tuple) -> list:
        """Return the memory of each sensor, complete with the shared part."""
        shared = self.base.shared_memory(memory[0])
        return [self.base.with_shared_memory(each, shared) for each in memory]

    def noise_estimate(self, memory: tuple) -> list | None:
        """Return the noise estimate of each sensor."""
        estimates = [self.base.noise_estimate(each) for each in self.each(memory)]
        return None if any(estimate is None for estimate in estimates) else estimates

    def base_memory(self, memory: tuple) -> PyTree:
        """Return the memory of the first sensor, which holds the shared part."""
        return memory[0]

    def with_base_memory(self, memory: tuple, base_memory: PyTree) -> tuple:
        """Return the memories with that of the first sensor replaced."""
        return (base_memory, *memory[1:])

    def predict_measurement(
        self, memory: tuple, view: Affine, belief: Belief, dynamics: LinearMap | Bound, noise_cov: Array | None
    ) -> tuple[Affine, PyTree]:
        """Return the observation unchanged: sequential sensors have no predictable noise."""
        return view, None

    def snapshot(self, memory: tuple) -> tuple:
        """Return a snapshot of each sensor's memory."""
        return tuple(map(self.base.snapshot, memory))

    def after_jump(self, memory: tuple, snapshot: tuple, rejected: Array) -> tuple:
        """Return each sensor's memory after a jump."""
        return tuple(map(self.base.after_jump, memory, snapshot, jnp.split(rejected, len(memory))))

    def loo_information_root(self, context: UpdateContext[tuple]) -> Array:
        """Return W, (M, M), block diagonal over the sensors."""
        root = jnp.zeros_like(context.obs_cov)
        for rows, memory in zip(self.sensor_slices(len(context.residual)), self.each(context.memory), strict=True):
            part = restrict_to_sensor(context, rows, context.belief)._replace(memory=memory)
            root = root.at[jnp.ix_(rows, rows)].set(self.base.loo_information_root(part))
        return root

    def __call__(self, context: UpdateContext[tuple]) -> UpdateDecision[tuple]:
        """Update with one sensor after the other."""
        belief, log_weighted, memories = context.belief, jnp.zeros_like(context.residual[0]), []
        weights, outliers = jnp.zeros_like(context.residual), jnp.zeros_like(context.residual)
        sensors = self.sensor_slices(len(context.residual))
        if len(sensors) != len(context.memory):
            raise ValueError(
                f"each of the model's {len(context.memory)} sensors has noise of its own, and this step has "
                f"{len(sensors)}: write NaN for a sensor that did not measure, instead of another H and R"
            )
        shared, scales, q = self.base.shared_memory(context.memory[0]), jnp.zeros_like(context.residual), None
        for rows, own in zip(sensors, context.memory, strict=True):
            memory = self.base.with_shared_memory(own, shared)
            part = restrict_to_sensor(context, rows, belief)._replace(memory=memory)
            decision = self.base(part)
            any_observed = part.observed.sum() > 0
            update = decision.update.masked(part.observed)
            posterior, log_density = update.apply(belief, part.view, part.residual, part.obs_cov)
            belief = posterior.where(any_observed & jnp.isfinite(posterior.mean.sum()), belief)
            log_weighted = log_weighted + jnp.where(any_observed, log_density, 0.0)
            weights = weights.at[rows].set(decision.update.readable(part.obs_cov, part.observed))
            if decision.outlier is not None:
                outliers = outliers.at[rows].set(decision.outlier * part.observed)
            if decision.scales is not None:
                scales = scales.at[rows].set(decision.scales[0])
                q = decision.scales[1] if q is None else q
            memory = select(any_observed, decision.memory, memory)
            shared = self.base.shared_memory(memory)
            memories.append(self.base.with_shared_memory(memory, None))
        memories[0] = self.base.with_shared_memory(memories[0], shared)
        outlier = None if decision.outlier is None else outliers
        noise_scales = None if q is None else (scales, q)
        return UpdateDecision(
            PosteriorUpdate(belief, log_weighted, weights), tuple(memories), outlier, scales=noise_scales
        )


def restrict_to_sensor(context: UpdateContext, rows: np.ndarray, belief: Belief) -> UpdateContext:
    """Restrict a measurement to one sensor, given a belief that may include others.

    Args:
        context: of all sensors.
        rows: coordinates of the sensor.
        belief: over the state; the affine approximation of the observation function is kept.
    """
    root = None if context.view.root is None else context.view.root[rows]
    view = Affine(context.view.mean[rows], context.view.jac[rows], root)
    observed, obs_cov = context.observed[rows], context.obs_cov[np.ix_(rows, rows)]
    residual = context.residual[rows] - observed * matvec(view.jac, belief.mean - context.belief.mean)
    factor = belief.innovation(view, obs_cov, observed)
    return UpdateContext(residual, view, belief, obs_cov, observed, factor)
