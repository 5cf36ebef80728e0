"""Independent sensors, one after the other, each with what is remembered of its own noise.

One weight for all would throw good sensors away with a faulty one. With R block diagonal over the sensors, learning
from them one by one is learning from them at once; but each of them is then judged by a belief that has heard those
before it.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wolf import validation
from wolf.beliefs import Affine, Belief
from wolf.beliefs.updates import PosteriorUpdate
from wolf.interfaces import NoiseModel, Requirements, UpdateContext, UpdateDecision
from wolf.numerics.linalg import matvec
from wolf.numerics.pytree import pytree, static
from wolf.statespace import Model


@pytree
class PerSensorNoise(NoiseModel):
    """Apply a rule to each of several independent sensors.

    Args:
        base: any noise rule.
        sensors: for each coordinate of the measurement the number of its sensor, as (0, 0, 1); None for one each.

    Example:
        >>> from wolf.inference.noise import AdaptiveScaleMixture
        >>> PerSensorNoise(AdaptiveScaleMixture(), sensors=(0, 0, 1)).sensors
        (0, 0, 1)
    """

    base: Any
    sensors: tuple[int, ...] | None = static(default=None)

    def __post_init__(self) -> None:
        """Check the numbers, and keep them hashable."""
        if self.sensors is not None:
            object.__setattr__(self, "sensors", validation.groups("sensors", self.sensors))

    @property
    def requirements(self) -> Requirements:
        """What the rule needs, one series at a time."""
        return self.base.requirements | Requirements()

    @property
    def is_mixture(self) -> bool:
        """Whether the rule does."""
        return self.base.is_mixture

    @property
    def revises_prior(self) -> bool:
        """Whether the rule does."""
        return self.base.revises_prior

    def sensor_slices(self, size: int) -> list[np.ndarray]:
        """List the coordinates of each sensor."""
        numbers = range(size) if self.sensors is None else self.sensors
        return [np.flatnonzero(np.equal(numbers, each)) for each in dict.fromkeys(numbers)]

    def check(self, model: Model) -> None:
        """Refuse sensors that the model does not have, or that are not independent, and what the rule refuses."""
        self.base.check(model)
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
        """Start each sensor's memory; what all share is with the first."""
        first, *others = (self.base.start(model) for _ in self.sensor_slices(model.obs_dim))
        first = self.base.with_shared_memory(first, self.base.shared_memory(first))
        return (first, *(self.base.with_shared_memory(each, None) for each in others))

    def each(self, memory: tuple) -> list:
        """List the memory of each sensor, complete with what all share."""
        shared = self.base.shared_memory(memory[0])
        return [self.base.with_shared_memory(each, shared) for each in memory]

    def noise_estimate(self, memory: tuple) -> list | None:
        """Say what was learned about the noise of each sensor."""
        estimates = [self.base.noise_estimate(each) for each in self.each(memory)]
        return None if any(estimate is None for estimate in estimates) else estimates

    def predict(self, memory: tuple, view: Affine, noise_cov: Any, t: Any) -> tuple[Any, tuple]:
        """Let what all share go forward."""
        noise_cov, first = self.base.predict(memory[0], view, noise_cov, t)
        return noise_cov, (first, *memory[1:])

    def snapshot(self, memory: tuple) -> tuple:
        """Mark each sensor's memory."""
        return tuple(map(self.base.snapshot, memory))

    def after_jump(self, memory: tuple, snapshot: tuple, refused: Array) -> tuple:
        """Let each sensor go on after a jump."""
        return tuple(map(self.base.after_jump, memory, snapshot, jnp.split(refused, len(memory))))

    def __call__(self, context: UpdateContext) -> UpdateDecision:
        """Learn from one sensor after the other."""
        belief, log_weighted, memories = context.belief, jnp.zeros_like(context.residual[0]), []
        weights, outliers = jnp.zeros_like(context.residual), jnp.zeros_like(context.residual)
        sensors = self.sensor_slices(len(context.residual))
        if len(sensors) != len(context.memory):
            raise ValueError(
                f"each of the model's {len(context.memory)} sensors has noise of its own, and this step has "
                f"{len(sensors)}: write NaN for a sensor that did not measure, instead of another H and R"
            )
        shared, scales, dynamics = self.base.shared_memory(context.memory[0]), jnp.zeros_like(context.residual), None
        for rows, own in zip(sensors, context.memory, strict=True):
            memory = self.base.with_shared_memory(own, shared)
            here = look(context, rows, belief)._replace(memory=memory)
            believed = self.base(here)
            came = here.observed.sum() > 0
            update = believed.update.masked(here.observed)
            learned, log_density = update.apply(belief, here.view, here.residual, here.obs_cov)
            belief = learned.where(came & jnp.isfinite(learned.mean.sum()), belief)
            log_weighted = log_weighted + jnp.where(came, log_density, 0.0)
            weights = weights.at[rows].set(believed.update.readable(here.obs_cov, here.observed))
            if believed.outlier is not None:
                outliers = outliers.at[rows].set(believed.outlier * here.observed)
            if believed.scales is not None:
                scales = scales.at[rows].set(believed.scales[0])
                dynamics = believed.scales[1] if dynamics is None else dynamics
            new = jax.tree.map(lambda new, old, came=came: jnp.where(came, new, old), believed.memory, memory)
            shared = self.base.shared_memory(new)
            memories.append(self.base.with_shared_memory(new, None))
        memories[0] = self.base.with_shared_memory(memories[0], shared)
        outlier = None if believed.outlier is None else outliers
        levels = None if dynamics is None else (scales, dynamics)
        return UpdateDecision(PosteriorUpdate(belief, log_weighted, weights), tuple(memories), outlier, scales=levels)


def sensor_numbers(rule: Any, count: int) -> list[int]:
    """List the numbers by which the sensors of a rule are called, which may be around the one that has them.

    Args:
        rule: any noise rule.
        count: how many sensors there are; they are numbered from 0 where nobody did.

    Example:
        >>> from wolf.inference.noise import AdaptiveScaleMixture
        >>> sensor_numbers(PerSensorNoise(AdaptiveScaleMixture(), sensors=(5, 5, 2)), 2)
        [5, 2]
    """
    while rule is not None and not isinstance(rule, PerSensorNoise):
        rule = getattr(rule, "base", None)
    named = [] if rule is None or rule.sensors is None else list(dict.fromkeys(rule.sensors))
    return named if len(named) == count else list(range(count))


def look(context: UpdateContext, rows: np.ndarray, belief: Belief) -> UpdateContext:
    """See the measurement of one sensor, from a belief that may have heard others.

    Args:
        context: of all sensors.
        rows: coordinates of the one.
        belief: over the state; the view of it stays the straight line that it was.
    """
    view = Affine(
        context.view.mean[rows], context.view.jac[rows], None if context.view.root is None else context.view.root[rows]
    )
    observed, obs_cov = context.observed[rows], context.obs_cov[np.ix_(rows, rows)]
    residual = context.residual[rows] - observed * matvec(view.jac, belief.mean - context.belief.mean)
    factor = belief.innovation(view, obs_cov, observed)
    return UpdateContext(residual, view, belief, obs_cov, observed, factor)
